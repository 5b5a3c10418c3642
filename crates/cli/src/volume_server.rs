//! `fogbank volume create` and `fogbank volume serve`: a disk for NBD clients, until a signal says stop.
//!
//! The address is bound before the volume is opened, so an address that is taken changes nothing; the
//! volume is closed after the last reply has left, so what was acknowledged is kept.

use std::path::PathBuf;

use fogbank::args::{VolumeCreateArgs, VolumeServeArgs};
use fogbank::volume::{Volume, VolumeConfig, fixed_rate};
use fogbank::{Error, Place, Result};
use fogbank_front::nbd::{self, Listener, Settings, TlsFiles};
use fogbank_oram::tao::{Rate, TaoSettings};

use crate::serve::{log_to_standard_error, say_stopped, stop_signal};

/// Makes a volume.
///
/// # Errors
/// By blame, see [`Error`].
pub async fn create(args: VolumeCreateArgs) -> Result<()> {
    let (place, config) = (Place::from(&args.place), VolumeConfig::new(&args.shape)?);
    Volume::create(place.clone(), &config).await?;
    println!(
        "made a volume of {} bytes in {} blocks of {} at {}; the key is in {}: without it nobody reads \
         the volume, so keep a copy elsewhere",
        config.bytes(),
        config.blocks,
        config.block_bytes,
        place.store_url(),
        place.trusted().display()
    );
    Ok(())
}

/// Serves until SIGTERM, SIGINT or SIGHUP, or until the engine stops by itself; then closes the volume.
///
/// # Errors
/// By blame, see [`Error`].
pub async fn serve(args: VolumeServeArgs) -> Result<()> {
    log_to_standard_error();
    let rate = fixed_rate(&args.rate)?;
    let listener = Listener::bind(settings(&args)?).await.map_err(explain)?;
    let place = Place::from(&args.place);
    let volume = Volume::open(place.clone(), rate).await?;
    let signal = stop_signal()?; // whoever reads the greeting may stop it at once
    greet(&volume, &place, &listener, rate)?;
    let (engine, stopped) = (volume.engine(), volume.engine());
    let stop = async move {
        tokio::select! {
            () = signal => eprintln!("stopping: answering what was asked and closing the volume"),
            reason = stopped.stopped() => say_stopped("the engine has stopped", &reason),
        }
    };
    listener.serve(engine, volume.clock(), stop).await;
    volume.close().await?;
    eprintln!("closed; everything acknowledged is kept");
    Ok(())
}

fn settings(args: &VolumeServeArgs) -> Result<Settings> {
    let place = match args.nbd.strip_prefix("unix:") {
        Some(path) => nbd::Place::Unix(PathBuf::from(path)),
        None => nbd::Place::Tcp(crate::serve::address(&args.nbd)?),
    };
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    Ok(Settings {
        place,
        read_only: args.read_only,
        trim: args.trim,
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        ..Settings::default()
    })
}

fn explain(error: nbd::Error) -> Error {
    Error::Usage(match &error {
        nbd::Error::AddressInUse(_) => format!("{error}; stop it, or choose another --nbd"),
        _ => error.to_string(),
    })
}

/// Says where everything is and what to type next.
fn greet(volume: &Volume, place: &Place, listener: &Listener, rate: Option<Rate>) -> Result<()> {
    let config = volume.config();
    if volume.replayed() > 0 {
        eprintln!("the volume was not closed: {} journal records replayed", volume.replayed());
    }
    let (uri, at) = match listener.place() {
        nbd::Place::Tcp(address) => (format!("nbd://{address}"), address.to_string()),
        nbd::Place::Unix(path) => {
            let path = std::path::absolute(&path).unwrap_or(path);
            (format!("nbd+unix:///?socket={}", path.display()), path.display().to_string())
        }
    };
    eprintln!(
        "serving {} bytes in blocks of {} at {at}\n  trusted side {}, cloud side {}, register {}",
        config.bytes(),
        config.block_bytes,
        place.trusted().display(),
        place.store_url(),
        volume.register()
    );
    tell_rate(&config.settings(None), rate)?;
    eprintln!(
        "  nbdinfo '{uri}'\n  nbdfuse DIR/disk '{uri}' &   # then: mount -o loop DIR/disk MOUNTPOINT"
    );
    Ok(())
}

/// Says what a fixed rate costs.
pub fn tell_rate(settings: &TaoSettings, rate: Option<Rate>) -> Result<()> {
    let Some(rate) = rate else { return Ok(()) };
    let (up, down) = cost(settings, rate)?;
    eprintln!(
        "  fixed rate: {} accesses every {} ms, {:.2} MB/s up and {:.2} MB/s down, used or not",
        rate.accesses,
        rate.interval / 1_000_000,
        up / 1e6,
        down / 1e6
    );
    Ok(())
}

/// Bytes a second that a fixed rate sends and receives: paths, write-backs, journal and checkpoints.
fn cost(settings: &TaoSettings, rate: Rate) -> Result<(f64, f64)> {
    let traffic = settings.traffic()?;
    let per_s = rate.accesses as f64 * 1e9 / rate.interval as f64;
    Ok((per_s * traffic.up_bytes, per_s * traffic.down_bytes))
}
