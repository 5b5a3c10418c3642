//! `fogbank volume create` and `fogbank volume serve`: a disk for NBD clients, until a signal says
//! stop.
//!
//! The address is bound before the volume is opened, so an address that is taken changes nothing;
//! the volume is closed after the last reply has left, so what was acknowledged is kept.

use std::fmt::Display;
use std::path::PathBuf;

use fogbank::args::{VolumeCreateArgs, VolumeServeArgs};
use fogbank::schedule::rest_seen;
use fogbank::volume::{Flow, Volume, VolumeConfig};
use fogbank::{Disk, Error, OpenOptions, Place, Result, counted};
use fogbank_env::{free_beside, quoted};
use fogbank_front::nbd::{self, Listener, Settings, TlsFiles};
use fogbank_process::{say, say_error};

use fogbank_terminal::{
    address, end_at_once_at_another_signal, log_to_standard_error, stop_signal,
};

use crate::serve::{client_threads, say_stopped, within_reach};
use crate::upkeep::flags;

/// Makes a volume.
///
/// # Errors
/// By blame, see [`Error`].
pub async fn create(args: VolumeCreateArgs) -> Result<()> {
    let second_journal = args.second_journal.clone();
    let place = Place { second_journal, ..Place::from(&args.place) };
    let config = VolumeConfig::new(&args.shape, &place.store_url())?;
    if place.store_url().starts_with("memory:") {
        let why =
            "--store memory: a volume there would be gone when this command ends; give another one";
        return Err(Error::Usage(why.into()));
    }
    place.check_free(&[])?;
    if !args.sparse {
        config.check_room(&place)?;
    }
    let options = OpenOptions::new(place.clone()).record(args.record.clone());
    Volume::create_with(options, &config).await?;
    say!("made a volume of {}", config.size());
    tell_sides(&place, place.registers.is_none().then_some("register"));
    tell_cost(&config, &place.store_url(), Flow::default())?;
    let (data, beside) = (quoted(&place.data), flags(&place));
    tell("next", format_args!("fogbank mount {data} FOLDER --mkfs ext4{beside}     as root"));
    tell("or", format_args!("fogbank volume serve --data {data}{beside}"));
    Ok(())
}

/// Serves until SIGTERM, SIGINT or SIGHUP, or until the engine stops by itself; then closes the
/// volume.
///
/// # Errors
/// By blame, see [`Error`].
pub async fn serve(args: VolumeServeArgs) -> Result<()> {
    log_to_standard_error();
    let flow = Flow { rest_after: args.rest_after, ..Flow::of(&args.flow)? };
    let listener = Listener::bind(settings(&args)?).await.map_err(explain)?;
    let place = Place::from(&args.place);
    let options = OpenOptions::new(place.clone()).record(args.record.clone());
    let volume = Volume::open_with(options, flow).await?;
    let signal = stop_signal()?; // whoever reads the greeting may stop it at once
    greet(&volume, &place, &listener, flow)?;
    serve_disk(volume.into_disk(), listener, signal).await
}

/// Serves until the signal comes, or until the engine stops by itself; then closes the disk.
///
/// # Errors
/// Whatever has stopped the engine.
pub async fn serve_disk(
    disk: Disk,
    listener: Listener,
    signal: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let (engine, stopped) = (disk.engine(), disk.stopped());
    let stop = async move {
        tokio::select! {
            () = signal => {
                let _as_before = end_at_once_at_another_signal(); // then it cannot be hurried
                say_error!("stopping: answering what was asked and closing the disk");
            }
            reason = stopped => say_stopped("the engine has stopped", reason, true),
        }
    };
    let serving = listener.serve(engine, disk.clock(), stop);
    client_threads()?.handle().spawn(serving).await.map_err(|e| Error::Bug(e.to_string()))?;
    disk.close().await?;
    say_error!("closed; everything acknowledged is kept");
    Ok(())
}

/// Where --nbd says to listen.
///
/// # Errors
/// [`Error::Usage`] if that is nowhere.
pub fn nbd_place(nbd: &str) -> Result<nbd::Place> {
    Ok(match nbd.strip_prefix("unix:") {
        Some(path) => nbd::Place::Unix(PathBuf::from(path)),
        None => nbd::Place::Tcp(address("--nbd", nbd).map_err(or_a_socket)?),
    })
}

fn settings(args: &VolumeServeArgs) -> Result<Settings> {
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    let place = nbd_place(&args.nbd)?;
    check_reach(&place, tls.is_some() || args.in_clear, "give --tls-cert and --tls-key, ")?;
    Ok(Settings {
        place,
        read_only: args.read_only,
        trim: args.trim,
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        ..Settings::default()
    })
}

/// Refuses to serve a disk in clear where other machines reach it, unless that is wanted: whoever
/// is in between would read and change everything.
///
/// # Errors
/// [`Error::Usage`], with what to do instead.
pub fn check_reach(place: &nbd::Place, is_wanted: bool, tls: &str) -> Result<()> {
    match place {
        nbd::Place::Tcp(address) if !address.ip().is_loopback() && !is_wanted => {
            Err(Error::Usage(format!(
                "other machines reach --nbd {address}, and everything would go there in clear: \
                 {tls}listen on 127.0.0.1 or unix:PATH, or say --in-clear"
            )))
        }
        _ => Ok(()),
    }
}

fn or_a_socket(error: Error) -> Error {
    match error {
        Error::Usage(why) => Error::Usage(format!("{why}, or unix:PATH")),
        other => other,
    }
}

/// Why nothing can listen there.
pub fn explain(error: nbd::Error) -> Error {
    Error::Usage(match &error {
        nbd::Error::AddressInUse(nbd::Place::Tcp(address)) => {
            format!("{error}; stop it, or choose another port: --nbd {}", free_beside(*address))
        }
        nbd::Error::AddressInUse(_) => format!("{error}; stop it, or choose another --nbd"),
        _ => error.to_string(),
    })
}

/// Says where everything is and what to type next.
fn greet(volume: &Volume, place: &Place, listener: &Listener, flow: Flow) -> Result<()> {
    let config = volume.config();
    if volume.replayed() > 0 {
        say_error!(
            "the volume was not closed: {} of what it did replayed",
            counted(volume.replayed(), "record", "records")
        );
    }
    let (uri, at) = served_at(listener);
    say_error!("serving {} at {at}", config.size());
    tell_sides(place, Some(volume.register()));
    tell_cost(config, &place.store_url(), flow)?;
    if let Some(after) = flow.rest_after {
        tell("schedule", rest_seen(after));
    }
    tell_next(&uri, false);
    Ok(())
}

/// The address as clients type it, and for people.
pub fn served_at(listener: &Listener) -> (String, String) {
    let nbd = if listener.has_tls() { "nbds" } else { "nbd" };
    match listener.place() {
        nbd::Place::Tcp(address) => {
            (format!("{nbd}://{}", within_reach(address)), address.to_string())
        }
        nbd::Place::Unix(path) => {
            let path = std::path::absolute(&path).unwrap_or(path);
            (format!("{nbd}+unix:///?socket={}", path.display()), path.display().to_string())
        }
    }
}

/// What to type next at a disk that is served there, which others may have, too.
pub fn tell_next(uri: &str, is_shared: bool) {
    let uri = quoted(uri);
    let alone = if is_shared { "     one client at a time: fogbank mount sees to it" } else { "" };
    tell("next", format_args!("nbdinfo {uri}"));
    tell("or", format_args!("nbdfuse DIR/disk {uri} &"));
    tell("then", format_args!("mount -o loop DIR/disk MOUNTPOINT{alone}"));
    tell("stop", "Ctrl-C or SIGTERM; unmount before");
}

/// Where both sides are, and what of them must not be lost.
fn tell_sides(place: &Place, register: Option<&str>) {
    tell("cloud side", format_args!("{} (untrusted)", place.store_url()));
    let trusted = place.trusted();
    let trusted = trusted.display();
    let kept = ["key"].into_iter().chain(register);
    if !place.is_in_two_clouds() {
        let kept = kept.collect::<Vec<_>>().join(" and ");
        return tell("trusted side", format_args!("{trusted} ({kept}: keep and back up)"));
    }
    let kept = kept.collect::<Vec<_>>().join(", ");
    tell(
        "trusted side",
        format_args!("{trusted} ({kept} and journal: an older copy opens nothing)"),
    );
    if let Some(folder) = place.told_second_journal() {
        let kept = "register and journal, as in the trusted side, but no key";
        tell("second place", format_args!("{} ({kept})", folder.display()));
    }
    tell("back up", format_args!("{}; and {trusted}/key, apart from that", backed_up(place)));
}

/// The command that makes a backup of a volume.
pub fn backed_up(place: &Place) -> String {
    format!("fogbank backup --data {}{} --to FILE", place.data.display(), flags(place))
}

/// A line of a banner.
pub fn tell(what: &str, said: impl Display) {
    say_error!("  {what:<13} {said}");
}

/// Says what leaves, and what that costs.
pub fn tell_cost(config: &VolumeConfig, url: &str, flow: Flow) -> Result<()> {
    for (what, said) in config.traffic(flow)?.into_iter().chain(config.cost(flow, url)) {
        tell(what, said);
    }
    Ok(())
}
