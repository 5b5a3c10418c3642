//! `fogbank bench volume`: clients that each wait for their answer, on the engines of volumes.
//!
//! 1. Load (`lane`): without a link between, every block is written once, then as many accesses as
//!    a quarter of the blocks, so that the store is full and in its steady state. With `--sparse` a
//!    store that is full as it is (`sparse`).
//! 2. Measure (`clients`): across the link, each client draws a block, reads or writes it, holds
//!    what comes back against what it has to be, and goes on. Journal and checkpoints are included.
//!    A warm-up is left out, until the clients no longer move together. Under the link there may be
//!    disks (`disks`). What passes is counted in between, by parts.
//! 3. Go on to the next engine, over the same link with the same clients.

mod asked;
pub mod clients;
mod disks;
mod lane;
mod measured_engine;
pub mod multicloud;
mod path_times;
mod ring;
mod row;
mod sparse;
pub mod tao;

use fogbank::{Error, Result};
use fogbank_process::{say, say_error};

use self::asked::Asked;
pub use self::disks::Disks;
pub use self::lane::{Lane, Site};
use self::measured_engine::MeasuredEngine;
use self::multicloud::KernelLink;
use self::row::HEAD;
pub use self::row::Row;
use crate::args::{BenchVolumeArgs, VolumeEngineName};

/// Runs the benchmark and prints its figures, a row an engine, cache and number of clients.
///
/// # Errors
/// [`Error::CheckFailed`] if a value read is not the one written.
pub async fn run(args: BenchVolumeArgs) -> Result<()> {
    if let Some(profile) = args.profile {
        return match &args.engine[..] {
            [] | [VolumeEngineName::Tao] => tao::run(&args, profile).await,
            _ => Err(Error::Usage("--profile is for --engine tao alone".into())),
        };
    }
    let asked = Asked::of(args)?;
    // First of all, since this program may begin anew for it.
    let is_between =
        asked.engines.contains(&VolumeEngineName::Multicloud) && asked.args.between_mb_s.is_some();
    let kernel = if is_between { KernelLink::enter(asked.args.has_namespace)? } else { None };
    say!("{}", asked.words());
    say!("{HEAD}");
    for engine in &asked.engines {
        for cache in &asked.caches {
            match engine {
                VolumeEngineName::Tao => {
                    measure("tao", asked.tao(*cache)?, (&asked, *cache)).await?
                }
                VolumeEngineName::Partition => {
                    measure("partition", asked.partition(*cache)?, (&asked, *cache)).await?;
                }
                VolumeEngineName::Ring => ring::measure(&asked, *cache).await?,
                VolumeEngineName::Multicloud => {
                    multicloud::measure(&asked, *cache, &kernel).await?;
                }
            }
        }
    }
    Ok(())
}

async fn measure<S: MeasuredEngine>(
    name: &str,
    settings: S,
    (asked, cache): (&Asked, u64),
) -> Result<()> {
    let blocks = asked.shape.capacity;
    match asked.site.is_sparse {
        true => say_error!("{name}: {blocks} blocks are there, and none was written (--sparse)"),
        false => say_error!("{name}: loading {blocks} blocks"),
    }
    let lane = Lane::load(settings.clone(), asked.site).await?;
    let mut lane = lane.reopen(settings).await?;
    for clients in &asked.clients {
        let measured = lane.measure(*clients, asked.link, asked.args.seconds).await?;
        asked.say(name, cache, &Row::of(*clients, &measured)?);
    }
    lane.close().await
}
