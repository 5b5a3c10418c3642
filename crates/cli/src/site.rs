//! `fogbank site`: a disk that many clients share, which have a key in common and no proxy.
//!
//! The address is bound before the site is joined, so an address that is taken changes nothing; the
//! disk is closed after the last reply has left, so what was acknowledged is kept.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek};
use std::path::Path;

use fogbank::args::{
    SiteArgs, SiteBackupArgs, SiteBuildArgs, SiteCommand, SiteCompareArgs, SiteCreateArgs,
    SiteInviteArgs, SiteJoinArgs, SiteRestoreArgs, SiteRotateKeyArgs, SiteServeArgs, WitnessArgs,
};
use fogbank::backup::unread;
use fogbank::side_check::check_apart;
use fogbank::site::{SitePlace, SiteStatus, is_in_bucket};
use fogbank::{Error, Result, counted, disk_size};
use fogbank_durable::BackupReader;
use fogbank_env::{Purpose, quoted};
use fogbank_front::nbd::{Listener, Settings};
use fogbank_process::{say, say_error};
use fogbank_seal::{Effort, wrap_key};
use fogbank_terminal::{Ending, bar, log_to_standard_error, show, stop_signal};

use crate::key_file::{OF_SITE, cannot_use, key, new_passphrase};
use crate::rotate::{nameless, passing_key};
use crate::serve::say_stopped;
use crate::upkeep::{into_new_file, kept, randomness};
use crate::volume_server::{
    check_reach, explain, nbd_place, serve_disk, served_at, tell, tell_next,
};

/// What in a store's URL names a file that a client needs.
const CREDENTIALS: &str = "credentials=";

/// Does what was asked of a site.
///
/// # Errors
/// By blame, see [`fogbank::Error`].
pub async fn run(command: SiteCommand) -> Result<()> {
    let done = match command {
        SiteCommand::Plan(args) => crate::site_plan::run(&args),
        SiteCommand::Create(args) => create(args).await,
        SiteCommand::Invite(args) => invite(&args).await,
        SiteCommand::Join(args) => join(args).await,
        SiteCommand::Status(args) => status(&args).await,
        SiteCommand::Compare(args) => compare(&args).await,
        SiteCommand::Serve(args) => serve(args).await,
        SiteCommand::Build(args) => build(args).await,
        SiteCommand::Verify(args) => verify(&args).await,
        SiteCommand::Backup(args) => backup(args).await,
        SiteCommand::Restore(args) => restore(args).await,
        SiteCommand::RotateKey(args) => rotate(args).await,
        SiteCommand::Stay(args) => stay(&args).await,
    };
    done.map_err(Error::in_a_site)
}

async fn create(args: SiteCreateArgs) -> Result<()> {
    let place = SitePlace::new(&args.client.data);
    check_witness(&args.witness)?;
    place.create(&args.store, args.size.as_u64(), args.block.as_u64()).await?;
    witnessed(&place, &args.witness)?;
    let status = place.status().await?;
    say!("made the site {}, {}", status.id, size(&status));
    tell_site(&place, &status);
    let data = quoted(&args.client.data);
    tell("next", format_args!("fogbank mount {data} FOLDER --mkfs ext4     as root"));
    tell("or", format_args!("fogbank site serve --data {data}"));
    tell_others(&place, &status);
    Ok(())
}

async fn invite(args: &SiteInviteArgs) -> Result<()> {
    let place = SitePlace::new(&args.client.data);
    let (id, store) = (place.id()?, place.store()?);
    check_apart("--to", Some(&args.to), &store)?;
    if args.to.exists() {
        let is_there = format!("{} is there already; choose a new name", args.to.display());
        return Err(Error::Usage(is_there));
    }
    let master = place.master()?;
    let words = new_passphrase(args.passphrase_file.as_deref()).await?;
    let mut stream = randomness()?.stream(Purpose::MasterKey);
    wrap_key(&args.to, &master, &words, Effort::USUAL, &mut stream).map_err(cannot_use)?;
    say!("wrote {}, which whoever has the passphrase joins by", args.to.display());
    let (file, data, url) = (quoted(&args.to), folder_of(&id), quoted(&store));
    tell(
        "they join",
        format_args!("fogbank site join --data {data} --key {file} --id {id} --store {url}"),
    );
    tell("bring them", "the passphrase and the id by another way than the file");
    if store.contains(CREDENTIALS) {
        tell("and", "the file of credentials, which --store names, to the same path there");
    }
    if place.witness_list().exists() {
        let list = place.witness_list();
        tell("and", format_args!("a copy of {}, which they name with --registers", list.display()));
    }
    Ok(())
}

async fn join(args: SiteJoinArgs) -> Result<()> {
    let place = SitePlace::new(&args.client.data);
    place.check_new()?;
    check_witness(&args.witness)?;
    let master = key(&args.key, OF_SITE).await?;
    let status = place.join(&args.store, &master, &args.id).await?;
    witnessed(&place, &args.witness)?;
    say!("{} is a client of the site {}", args.client.data.display(), status.id);
    tell_site(&place, &status);
    tell("next", format_args!("fogbank site serve --data {}", quoted(&args.client.data)));
    Ok(())
}

async fn status(args: &SiteArgs) -> Result<()> {
    let place = SitePlace::new(&args.data);
    let status = place.status().await?;
    let parameters = status.parameters;
    say!("site {}", status.id);
    say!("  store         {}", status.store);
    say!("  disk          {}", size(&status));
    let epoch = counted(parameters.epoch as usize, "query", "queries");
    say!("  epoch         {}, each of {epoch}", status.superblock.saturating_sub(1));
    say!("  seen here     {}", seen(status.seen));
    say!("  public time   {} ms", parameters.public_ms);
    if let Some(servers) = status.witness {
        say!("  witness       {}", counted(servers, "server", "servers"));
    }
    if status.has_moved {
        say!("  moved         by another client: nobody starts here (fogbank site stay)");
    }
    Ok(())
}

/// What a client has seen of its site, by the number of the superblock.
fn seen(superblock: u64) -> String {
    match superblock {
        0 => "nothing yet: no command has opened the site here".into(),
        1 => "the site as it was made, before the end of its first epoch".into(),
        number => format!("epoch {}, which this goes on from", number - 1),
    }
}

async fn compare(args: &SiteCompareArgs) -> Result<()> {
    let compared = SitePlace::new(&args.client.data).compare(args.at).await?;
    say!("epoch {} code {}", compared.epoch, compared.code);
    let other = format_args!("fogbank site compare --data DIR --at {}", compared.epoch);
    tell("the other client", format_args!("{other}; another code: the server has lied"));
    Ok(())
}

async fn serve(args: SiteServeArgs) -> Result<()> {
    log_to_standard_error();
    let (place, read_only) = (nbd_place(&args.nbd)?, args.read_only);
    check_reach(&place, args.in_clear, "")?;
    let settings = Settings { place, read_only, ..Settings::default() };
    let listener = Listener::bind(settings).await.map_err(explain)?;
    let client = SitePlace::new(&args.client.data);
    let disk = client.open_recorded(args.record.record.as_deref()).await?;
    let signal = stop_signal()?; // whoever reads the greeting may stop it at once
    let (uri, at) = served_at(&listener);
    say_error!("serving {} of a site at {at}", disk.size());
    tell("secret", format_args!("{} (shared by all clients: keep it)", client.key().display()));
    tell("seen by all", "how many queries each client asks and when, not what for");
    tell_next(&uri, true);
    serve_disk(disk, listener, signal).await
}

async fn build(args: SiteBuildArgs) -> Result<()> {
    log_to_standard_error();
    let client = SitePlace::new(&args.client.data);
    let disk = client.open_to_build(args.record.record.as_deref()).await?;
    let signal = stop_signal()?;
    say_error!("building for the clients of a site of {}", disk.size());
    tell("secret", format_args!("{} (shared by all clients: keep it)", client.key().display()));
    tell("seen by all", "that this client builds; what it moves follows from when others ask");
    tell("stop", "Ctrl-C or SIGTERM; the clients go on with what it builds");
    tokio::select! {
        () = signal => say_error!("stopping: leaving what is not built to the clients"),
        reason = disk.stopped() => say_stopped("the engine has stopped", reason, true),
    }
    disk.close().await?;
    say_error!("closed; the clients build for themselves");
    Ok(())
}

async fn verify(args: &SiteArgs) -> Result<()> {
    let words = || "what was not read yet is not verified; the site is as it was".into();
    let _ending = Ending::telling(words, None)?;
    let bar = bar("verifying");
    let verified = SitePlace::new(&args.data).verify(&mut |done, of| show(&bar, done, of)).await;
    bar.finish_and_clear();
    let blocks = counted(verified? as usize, "block", "blocks");
    say!("everything that is in use is what was written; {blocks} that are not zeros");
    Ok(())
}

async fn backup(args: SiteBackupArgs) -> Result<()> {
    let place = SitePlace::new(&args.client.data);
    let write = async |file| {
        let bar = bar("backing up");
        let mut progress = |done, of| show(&bar, done, of);
        let written = place.back_up(BufWriter::new(file), &mut progress).await;
        bar.finish_and_clear();
        let (file, blocks) = written?;
        Ok((kept(file, &args.to)?, blocks))
    };
    let (bytes, blocks) = into_new_file(&args.to, &place.store()?, write).await?;
    let blocks = counted(blocks as usize, "block", "blocks");
    say!("wrote {} ({bytes} bytes, {blocks}), sealed by the key of this site", args.to.display());
    Ok(())
}

async fn restore(args: SiteRestoreArgs) -> Result<()> {
    let master = key(&args.key, OF_SITE).await?;
    let open = || {
        let file = File::open(&args.from)
            .map_err(|e| Error::Usage(format!("cannot read {}: {e}", args.from.display())))?;
        BackupReader::open(BufReader::new(file), &master).map_err(unread)
    };
    check_witness(&args.witness)?;
    let place = SitePlace::new(&args.client.data);
    let ending = of_new(&args.client.data, String::new())?;
    fill(&place, &args.store, open, "restoring").await?;
    witnessed(&place, &args.witness)?;
    drop(ending);
    let _ending = of_made()?;
    tell_new(&place).await
}

async fn rotate(args: SiteRotateKeyArgs) -> Result<()> {
    let (old, new) = (SitePlace::new(&args.client.data), SitePlace::new(&args.to));
    let old_store = old.store()?;
    if old_store == args.to_store {
        return Err(Error::Usage(
            "the new site would lie where the old one is; say another place with --to-store".into(),
        ));
    }
    // A mistake in what names the new site is told before the clients of the old one are. The new
    // one is asked before the first message to the old one, and filled after the last: none between
    // tells how far the copy is.
    new.check_free(&args.to_store).await?;
    if fogbank::across_a_link(&old_store) {
        say_error!(
            "all other clients of {} are told to end now: what they have acknowledged goes along, \
             and they join the new site",
            old.id()?
        );
    }
    let closed = format!(
        "no client starts at the old site until this command has been said again, or fogbank site \
         stay --data {}",
        quoted(&args.client.data)
    );
    let ending = of_new(&args.to, format!("; {closed}"))?;
    let told = |error| {
        say_error!("{closed}");
        error
    };
    let passing = passing_key(&randomness()?);
    let file = nameless(old.trusted(), "rotating")?;
    let unwritten = |e: std::io::Error| Error::CannotUse(format!("the copy is not whole: {e}"));
    let bar = bar("reading the old site");
    let mut progress = |done, of| show(&bar, done, of);
    let mut others = 0;
    let written = old.move_out(BufWriter::new(file), &passing, &mut others, &mut progress).await;
    bar.finish_and_clear();
    tell_ended(others);
    let copy = written.map_err(told)?.into_inner().map_err(|e| unwritten(e.into_error()))?;
    let open = || {
        (&copy).rewind().map_err(unwritten)?;
        BackupReader::open(BufReader::new(&copy), &passing).map_err(unread)
    };
    fill(&new, &args.to_store, open, "filling the new site").await.map_err(told)?;
    if old.witness_list().exists() {
        new.witnessed_by(&old.witness_list())?;
    }
    drop(ending);
    let _ending = of_made()?;
    tell_new(&new).await?;
    let what = match is_in_bucket(&old_store) {
        true => format!("all objects under {old_store}"),
        false => format!("the tenant of {old_store}"),
    };
    tell(
        "then",
        format_args!(
            "have {what} removed, and delete {}: its key still opens what is there",
            old.trusted().display()
        ),
    );
    Ok(())
}

/// A list that is none is told before anything is made.
fn check_witness(args: &WitnessArgs) -> Result<()> {
    args.registers.as_deref().map_or(Ok(()), SitePlace::check_witness)
}

fn witnessed(place: &SitePlace, args: &WitnessArgs) -> Result<()> {
    args.registers.as_deref().map_or(Ok(()), |list| place.witnessed_by(list))
}

async fn stay(args: &SiteArgs) -> Result<()> {
    SitePlace::new(&args.data).stay().await?;
    say!("this site stays: if a client has begun to move it, all can start here again");
    Ok(())
}

/// Says who was told to end.
fn tell_ended(others: usize) {
    if others > 0 {
        let clients = counted(others, "other client", "other clients");
        say_error!(
            "{clients} had been at work a short while ago: each that still was has ended by now, \
             and says why"
        );
    }
}

/// What a signal leaves of a site that is made in `data`.
///
/// # Errors
/// As [`Ending::telling`].
fn of_new(data: &Path, or: String) -> Result<Ending> {
    let data = quoted(data);
    let words = move || {
        format!(
            "the new site is made only if fogbank site status --data {data} shows it; if not, \
             nobody can join it, and the same command begins it anew{or}"
        )
    };
    Ending::telling(words, None)
}

/// The same once it is made: a signal that was watched once ends nobody by itself.
fn of_made() -> Result<Ending> {
    Ending::telling(|| "the new site is made".into(), None)
}

/// Makes a site of a backup.
async fn fill<R: Read>(
    place: &SitePlace,
    store: &str,
    open: impl FnMut() -> Result<BackupReader<R>> + Send,
    doing: &'static str,
) -> Result<()> {
    let bar = bar(doing);
    let restored = place.restore(store, open, &mut |done, of| show(&bar, done, of)).await;
    bar.finish_and_clear();
    restored
}

async fn tell_new(place: &SitePlace) -> Result<()> {
    let status = place.status().await?;
    say!("made the site {}, {}, of what the other held", status.id, size(&status));
    tell_site(place, &status);
    tell_others(place, &status);
    Ok(())
}

/// How others come: what is to be typed there depends on the invitation, which says it.
fn tell_others(place: &SitePlace, status: &SiteStatus) {
    let (data, to) = (quoted(place.data()), format!("{}.invitation", folder_of(&status.id)));
    tell(
        "others join",
        format_args!("by what this says: fogbank site invite --data {data} --to {to}"),
    );
}

/// A folder for a client of the site of this id, which is likely to be free.
fn folder_of(id: &str) -> String {
    format!("site-{}", id.get(..8).unwrap_or(id))
}

fn size(status: &SiteStatus) -> String {
    disk_size(status.bytes(), u64::from(status.parameters.block_bytes))
}

/// Where everything is, and what of it must not be lost.
fn tell_site(place: &SitePlace, status: &SiteStatus) {
    tell("store", format_args!("{} (untrusted)", status.store));
    tell("secret", format_args!("{} (whoever has it is a client: keep it)", place.key().display()));
}
