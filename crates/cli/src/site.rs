//! `fogbank site`: a disk that many clients share, which have a key in common and no proxy.
//!
//! The address is bound before the site is joined, so an address that is taken changes nothing; the
//! disk is closed after the last reply has left, so what was acknowledged is kept.

use fogbank::args::{
    SiteArgs, SiteCommand, SiteCompareArgs, SiteCreateArgs, SiteJoinArgs, SiteServeArgs,
};
use fogbank::site::{SitePlace, SiteStatus};
use fogbank::{Result, counted, disk_size};
use fogbank_front::nbd::{Listener, Settings};
use fogbank_process::{say, say_error};
use fogbank_terminal::{log_to_standard_error, stop_signal};

use crate::volume_server::{
    check_reach, explain, nbd_place, serve_disk, served_at, tell, tell_next,
};

/// Does what was asked of a site.
///
/// # Errors
/// By blame, see [`fogbank::Error`].
pub async fn run(command: SiteCommand) -> Result<()> {
    match command {
        SiteCommand::Create(args) => create(args).await,
        SiteCommand::Join(args) => join(args).await,
        SiteCommand::Status(args) => status(&args).await,
        SiteCommand::Compare(args) => compare(&args).await,
        SiteCommand::Serve(args) => serve(args).await,
    }
}

async fn create(args: SiteCreateArgs) -> Result<()> {
    let place = SitePlace::new(&args.client.data);
    place.create(&args.store, args.size.as_u64(), args.block.as_u64()).await?;
    let status = place.status().await?;
    say!("made the site {}, {}", status.id, size(&status));
    tell_site(&place, &status);
    let data = args.client.data.display();
    tell("next", format_args!("fogbank mount {data} FOLDER --mkfs ext4     as root"));
    tell("or", format_args!("fogbank site serve --data {data}"));
    tell(
        "others join",
        format_args!(
            "copy {} to them, then fogbank site join --data DIR --key FILE --id {} --store URL",
            place.key().display(),
            status.id
        ),
    );
    Ok(())
}

async fn join(args: SiteJoinArgs) -> Result<()> {
    let place = SitePlace::new(&args.client.data);
    let status = place.join(&args.store, &args.key, &args.id).await?;
    say!("{} is a client of the site {}", args.client.data.display(), status.id);
    tell_site(&place, &status);
    tell("next", format_args!("fogbank site serve --data {}", args.client.data.display()));
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
    say!("  seen here     epoch {}, which this goes on from", status.seen.saturating_sub(1));
    say!("  public time   {} ms", parameters.public_ms);
    Ok(())
}

async fn compare(args: &SiteCompareArgs) -> Result<()> {
    let compared = SitePlace::new(&args.client.data).compare(args.at).await?;
    say!("epoch {} code {}", compared.number, compared.code);
    let other = format_args!("fogbank site compare --data DIR --at {}", compared.number);
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
    let disk = client.open().await?;
    let signal = stop_signal()?; // whoever reads the greeting may stop it at once
    let (uri, at) = served_at(&listener);
    say_error!("serving {} of a site at {at}", disk.size());
    tell("secret", format_args!("{} (shared by all clients: keep it)", client.key().display()));
    tell("seen by all", "how many queries each client asks and when, not what for");
    tell_next(&uri);
    serve_disk(disk, listener, signal).await
}

fn size(status: &SiteStatus) -> String {
    disk_size(status.bytes(), u64::from(status.parameters.block_bytes))
}

/// Where everything is, and what of it must not be lost.
fn tell_site(place: &SitePlace, status: &SiteStatus) {
    tell("store", format_args!("{} (untrusted)", status.store));
    tell("secret", format_args!("{} (whoever has it is a client: keep it)", place.key().display()));
}
