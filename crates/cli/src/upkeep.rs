//! What whoever looks after a store runs while nobody serves it: `recover`, `verify`, `backup`,
//! `restore`, `load`.

use std::fs::{File, OpenOptions as FileOptions};
use std::io::{BufReader, BufWriter, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank::args::{
    BackupArgs, LoadArgs, MoveRegister, OpenArgs, RecoverArgs, RestoreArgs, ShapeArgs, VerifyArgs,
};
use fogbank::backup::{back_up, unread};
use fogbank::load::{Loaded, Record, Source};
use fogbank::registers::move_register;
use fogbank::side_check::check_apart;
use fogbank::volume::OpenedStore;
use fogbank::{AtRest, Error, OpenOptions, Place, Result, counted, presence};
use fogbank_durable::BackupReader;
use fogbank_env::{Clock, Purpose, Randomness, SystemClock, quoted};
use fogbank_front::resp::records_of;
use fogbank_oram::{Address, Scanned};
use fogbank_process::{say, say_error};
use fogbank_seal::MasterKey;
use fogbank_terminal::{Ending, bar, show};
use indicatif::ProgressBar;

use crate::key_file::{OF_STORE, key};
use crate::volume_server::backed_up;

/// `fogbank recover`.
///
/// # Errors
/// By blame, see [`Error`].
pub async fn recover(args: RecoverArgs) -> Result<()> {
    let mut place = existing(&args.place)?;
    if args.accept_rollback_risk {
        place.check_acceptance()?;
    }
    if let Some(to) = args.move_register {
        let (clock, to_servers) = (SystemClock::new(), to == MoveRegister::Servers);
        let clock: Arc<dyn Clock> = Arc::new(clock);
        say!("{}", move_register(&place, to_servers, &randomness()?, &clock).await?);
        place.registers = place.registers.filter(|_| to_servers);
    }
    let words = || "nothing that was acknowledged is lost; the next opening goes on".into();
    let _ending = Ending::telling(words, None)?;
    let options = OpenOptions::new(place.clone()).existing();
    let (opened, accepted) = match OpenedStore::open(options.clone()).await {
        Err(refused) if args.accept_rollback_risk && refused.is_mended_by_acceptance() => {
            // What it advises next is what was typed.
            let refused = refused.to_string();
            say_error!("{}", refused.split(';').next().unwrap_or(&refused));
            (open_what_the_cloud_shows(options, &place).await?, true)
        }
        opened => (opened?, false),
    };
    match opened {
        OpenedStore::Store(opened) => {
            let was = opened.recovered();
            say!(
                "recovered epoch {}: {} replayed since the last full checkpoint, {} of an open \
                 epoch repeated",
                was.epoch,
                counted(was.epochs_replayed, "epoch", "epochs"),
                counted(was.batches_repeated, "batch", "batches")
            );
            opened.close().await?;
        }
        OpenedStore::Volume(volume) => {
            let records = counted(volume.replayed(), "record", "records");
            say!("recovered the volume: {records} of its journal replayed");
            volume.close().await?;
        }
    }
    if accepted {
        say!("closed; what the cloud showed is the newest state from now on");
    } else {
        say!("closed; everything acknowledged is kept");
    }
    Ok(())
}

/// Opens a store whatever the register says. A register that is there is moved out of the way, and
/// back if that was of no use.
async fn open_what_the_cloud_shows(options: OpenOptions, place: &Place) -> Result<OpenedStore> {
    let register = place.trusted().join("register");
    let moved = |from: &Path, to: &Path| {
        std::fs::rename(from, to)
            .map_err(|e| Error::CannotUse(format!("cannot move {}: {e}", from.display())))
    };
    let mut names = (1..).map(|n| register.with_file_name(format!("register.replaced-{n}")));
    let aside = names.find(|name| !name.exists()).filter(|_| register.exists());
    if let Some(aside) = &aside {
        moved(&register, aside)?;
        say_error!("the register is {} now", aside.display());
    }
    say_error!("going on with what the cloud shows, as you said: it may be an old state");
    let opened = OpenedStore::open(options.accept_rollback_risk(true)).await;
    if let (Some(aside), Err(_), false) = (&aside, &opened, register.exists()) {
        moved(aside, &register)?;
    }
    opened
}

/// `fogbank verify`.
///
/// # Errors
/// [`Error::CloudLied`] if anything does not verify.
pub async fn verify(args: VerifyArgs) -> Result<()> {
    if let Some(to) = args.to.filter(|_| !args.presence) {
        return crate::salvage::repair(&args.place, to, args.to_store).await;
    }
    let words = || "what was not read yet is not verified; the store is as it was".into();
    let _ending = Ending::telling(words, None)?;
    if args.presence {
        return look(&existing(&args.place)?).await;
    }
    let mut resting = open(&args.place).await.map_err(or_look)?;
    let mut count = Count { blocks: 0, bar: bar("verifying") };
    let scanned = resting.scan(&mut count).await;
    count.bar.finish_and_clear();
    scanned?;
    resting.close().await?;
    let blocks = counted(count.blocks, "block", "blocks");
    say!("everything that is in use is what was written; {blocks}");
    Ok(())
}

/// `fogbank verify --presence`.
async fn look(place: &Place) -> Result<()> {
    let found = presence(place).await?;
    say!(
        "everything that has to be there is there, as of epoch {}: the commit record, which is the \
         newest; the checkpoint and {}, which verify; {} by name and version",
        found.epoch,
        counted(found.deltas, "delta", "deltas"),
        counted(found.buckets, "bucket", "buckets")
    );
    match found.journal {
        Some(records) => {
            let records = counted(records, "record", "records");
            say!("and {records} of the open epoch's journal by name");
        }
        None => say!("not looked for: the journal, whose epochs end too fast"),
    }
    say!(
        "not checked: what is in the buckets, and {} that were written again meanwhile; for that \
         stop the server and run fogbank verify",
        found.rewritten
    );
    Ok(())
}

/// A store that is in use can still be looked at.
fn or_look(error: Error) -> Error {
    match error {
        Error::CannotUse(said) if said.starts_with("another fogbank process") => {
            Error::CannotUse(format!(
                "{said}; fogbank verify --presence looks at a store of keys that is being served"
            ))
        }
        error => error,
    }
}

/// `fogbank backup`.
///
/// # Errors
/// [`Error::Usage`] if there is a file already, [`Error::CloudLied`] if the store does not verify.
pub async fn backup(args: BackupArgs) -> Result<()> {
    let place = existing(&args.place)?;
    let master = own_key(&place)?;
    let write = async |file| match args.salvage {
        true => crate::salvage::write(&args, &place, file, &master).await,
        false => write_backup(&args, file, &master).await.map(|bytes| (bytes, None)),
    };
    let (bytes, lost) = into_new_file(&args.to, &place.store_url(), write).await?;
    say!("wrote {} ({bytes} bytes), sealed by the key of this store", args.to.display());
    lost.map_or(Ok(()), |lost| crate::salvage::tell(&lost))
}

/// Has a backup of the store at `store` written into a file `to` that is not there yet.
///
/// # Errors
/// [`Error::Usage`] if there is one, or it would lie where the cloud side is; those of `write`.
pub async fn into_new_file<T>(
    to: &Path,
    store: &str,
    write: impl AsyncFnOnce(File) -> Result<T>,
) -> Result<T> {
    let wrong = |why: &str| Error::Usage(format!("cannot write {}: {why}", to.display()));
    check_apart("--to", Some(to), store)?;
    if to.exists() {
        return Err(wrong("it exists; choose a new name"));
    }
    // Half a backup must not be taken for one: it gets its name when it is whole.
    let mut partial = to.to_owned().into_os_string();
    // A name of its own: another process may be at the same.
    partial.push(format!(".partial-{}", std::process::id()));
    let partial = PathBuf::from(partial);
    let told = format!("{} was not written; what it is of is as it was", to.display());
    let _ending = Ending::telling(|| told, Some(partial.clone()))?;
    let mut options = FileOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&partial);
    let file = file.map_err(|e| wrong(&format!("{}: {e}", partial.display())))?;
    let named = match write(file).await {
        Ok(written) => std::fs::hard_link(&partial, to)
            .or_else(|e| match e.kind() {
                // A file system without links.
                ErrorKind::Unsupported | ErrorKind::PermissionDenied => {
                    std::fs::rename(&partial, to)
                }
                _ => Err(e),
            })
            .map(|()| written)
            .map_err(|e| wrong(&e.to_string())),
        Err(error) => Err(error),
    };
    let _ = std::fs::remove_file(&partial); // it has its name, or is of no use
    named
}

async fn write_backup(args: &BackupArgs, file: File, master: &MasterKey) -> Result<u64> {
    let random = randomness()?;
    let mut resting = open(&args.place).await?;
    let bar = bar("backing up");
    let mut progress = |done, of| show(&bar, done, of);
    let written = back_up(&mut resting, BufWriter::new(file), master, &random, &mut progress).await;
    bar.finish_and_clear();
    let bytes = kept(written?, &args.to)?;
    resting.close().await?;
    Ok(bytes)
}

/// Makes a backup durable; its length.
pub fn kept(file: BufWriter<File>, path: &Path) -> Result<u64> {
    let unsynced = |e: std::io::Error| {
        Error::CannotUse(format!("the backup {} cannot be written: {e}", path.display()))
    };
    let file = file.into_inner().map_err(|e| unsynced(e.into_error()))?;
    file.sync_all().map_err(unsynced)?;
    Ok(file.metadata().map_err(unsynced)?.len())
}

/// `fogbank restore`.
///
/// # Errors
/// [`Error::Usage`] if there is a store at the place, [`Error::CheckFailed`] if the backup does not
/// open by the key.
pub async fn restore(args: RestoreArgs) -> Result<()> {
    let master = key(&args.key, OF_STORE).await?;
    let file = File::open(&args.from)
        .map_err(|e| Error::Usage(format!("cannot read {}: {e}", args.from.display())))?;
    let backup = BackupReader::open(BufReader::new(file), &master).map_err(unread)?;
    let registers = args.registers.registers.clone();
    let (data, store) = (args.data.clone(), args.store.clone());
    let (second_store, second_journal) = (args.second_store, None);
    let place = Place { data, store, second_store, second_journal, registers };
    place.check_lasts()?;
    place.check_free(&[Some(&args.from), Some(&args.key.key)])?;
    let stopped = place.clone();
    let _ending = Ending::telling(move || stopped.told_if_stopped(), None)?;
    let bar = bar("restoring");
    let mut progress = |done, of| show(&bar, done, of);
    let shape = ShapeArgs { capacity: args.capacity, ..ShapeArgs::default() };
    let serve = serves(backup.config());
    let options = OpenOptions::new(place.clone()).shape(shape);
    let restored = options.restore(backup, &mut progress).await;
    bar.finish_and_clear();
    restored?;
    say!("restored into {}", place.told_stores());
    tell_kept(&place, "new: ");
    say!("next: {serve} --data {}{}", quoted(&args.data), flags(&place));
    Ok(())
}

/// The command that serves what has this public configuration.
pub fn serves(config: &[u8]) -> &'static str {
    if fogbank::volume::is_of_volume(config) { "fogbank volume serve" } else { "fogbank serve" }
}

/// `fogbank load`. After a stop, the same again goes on.
///
/// # Errors
/// [`Error::Usage`] if there is a store at the place, or the file is not understood or does not
/// fit.
pub async fn load(args: LoadArgs) -> Result<()> {
    let source = Source::new(&args.from, args.format, args.skip_unsupported)?;
    let place = Place::from(&args.place);
    place.check_lasts()?;
    place.check_free(&[Some(&args.from), args.place.config.as_deref()])?;
    let stopped = place.clone();
    let _ending = Ending::telling(move || stopped.told_if_stopped(), None)?;
    let shape = args.shape.or_file(args.place.config.as_deref())?;
    let bar = bar("loading");
    let mut progress = |done, of| show(&bar, done, of);
    let options = OpenOptions::new(place.clone()).shape(shape);
    let keep = |record: Record| records_of(&record.name, record.content, record.deadline_ms);
    let loaded = options.load(&source, keep, &mut progress).await;
    bar.finish_and_clear();
    let Loaded { keys, left_out, went_on, was_finished } = loaded?;
    if was_finished {
        say!(
            "this load is finished: all {keys} records of {} were loaded into {} before; nothing \
             was changed",
            args.from.display(),
            place.store_url()
        );
        return Ok(());
    }
    if went_on {
        say!("went on with the load that was begun");
    }
    if left_out.keys > 0 {
        let keys = counted(left_out.keys, "key", "keys");
        say!("left out {keys} of types that cannot be stored");
    }
    for what in &left_out.others {
        say!("left out {what}");
    }
    let records = counted(keys, "record", "records");
    say!("loaded {records} into {}", place.store_url());
    tell_kept(&place, "");
    say!("next: fogbank serve --data {}{}", quoted(&place.data), flags(&place));
    Ok(())
}

/// What must not be lost of a store that was made.
pub fn tell_kept(place: &Place, is_new: &str) {
    say!("its key is {is_new}{}; keep and back up", place.trusted().join("key").display());
    if place.is_in_two_clouds() {
        let (trusted, backup) = (place.trusted(), backed_up(place));
        say!("its journal is in {}, too: an older copy opens nothing", trusted.display());
        say!("to back it up: {backup}");
    }
}

/// What has to be said beside `--data` to find a store.
pub fn flags(place: &Place) -> String {
    let store = place.store.iter().map(|url| format!(" --store {}", quoted(url)));
    let list = place.registers.iter().map(|list| format!(" --registers {}", quoted(list)));
    store.chain(list).collect()
}

/// Opens a store, or a volume, that is there, to serve nobody.
///
/// # Errors
/// By blame, see [`Error`].
pub async fn open(place: &OpenArgs) -> Result<AtRest> {
    OpenedStore::open(OpenOptions::new(existing(place)?).existing()).await?.rest().await
}

/// The place of a store that is there: a mistyped folder must not become a new store.
///
/// # Errors
/// [`Error::Usage`] if there is none; [`Error::CannotUse`] if nobody may look.
pub fn existing(args: &OpenArgs) -> Result<Place> {
    let place = Place::from(args);
    let trusted = place.trusted();
    let is_there = trusted.join("key").try_exists();
    if is_there.map_err(|e| Error::CannotUse(format!("{}: {e}", trusted.display())))? {
        return Ok(place);
    }
    // One of these is there where a store, or a volume, was once begun.
    if ["register", "registers", "lock"].iter().any(|file| trusted.join(file).exists()) {
        return Err(Error::CannotUse(format!(
            "{} is missing; put back your copy of it: without the key nobody can read the store",
            trusted.join("key").display()
        )));
    }
    Err(Error::Usage(format!(
        "there is no key of a store in {}; say where the store is with --data",
        trusted.display()
    )))
}

/// The key of a store that is there.
fn own_key(place: &Place) -> Result<MasterKey> {
    let mut unused = randomness()?.stream(Purpose::MasterKey);
    fogbank_seal::load_or_create(&place.trusted().join("key"), &mut unused, false)
        .map_err(|e| Error::CannotUse(e.to_string()))
}

/// Randomness of the system.
///
/// # Errors
/// [`Error::CannotUse`] if it has none to give.
pub fn randomness() -> Result<Randomness> {
    let seed = fogbank_seal::system_seed()
        .map_err(|_| Error::CannotUse("the system has no randomness to give".into()))?;
    Ok(Randomness::from_seed(seed))
}

/// Counts what a scan verified.
struct Count {
    blocks: u64,
    bar: ProgressBar,
}

impl Scanned for Count {
    fn block(&mut self, _: Address, _: &[u8]) -> fogbank_oram::Result<()> {
        self.blocks += 1;
        Ok(())
    }

    fn progress(&mut self, done: u32, of: u32) {
        show(&self.bar, done, of);
    }
}
