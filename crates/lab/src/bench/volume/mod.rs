//! `fogbank bench volume`: clients that each wait for their answer, on the engines of volumes.
//!
//! 1. Load (`lane`): without a link between, every block is written once, then as many accesses as a
//!    quarter of the blocks, so that the store is full and in its steady state. With `--sparse` a store
//!    that is full as it is (`sparse`).
//! 2. Measure (`clients`): across the link, each client draws a block, reads or writes it, holds what
//!    comes back against what it has to be, and goes on. Journal and checkpoints are included. A
//!    warm-up is left out, until the clients no longer move together. Under the link there may be disks
//!    (`disks`). What passes is counted in between, by parts.
//! 3. Go on to the next engine, over the same link with the same clients.

mod clients;
mod disks;
mod lane;
mod measured_engine;
mod path_times;
mod row;
mod sparse;

use std::time::Duration;

use fogbank::{Error, Result};
use fogbank_oram::ImmediateShape;
use fogbank_oram::partition::PartitionSettings;
use fogbank_oram::tao::TaoSettings;
use fogbank_process::{say, say_error};
use fogbank_store::Link;

pub use self::disks::Disks;
pub use self::lane::{Lane, Measured, Site};
pub use self::measured_engine::MeasuredEngine;
use self::row::HEAD;
pub use self::row::Row;
use super::tao::{carried_by, pace_on};
use crate::args::{BenchVolumeArgs, DiskName, VolumeEngineName};

/// Accesses under way at least.
const UNDER_WAY_MIN: usize = 64;

/// Runs the benchmark and prints its figures, a row an engine and number of clients.
///
/// # Errors
/// [`Error::CheckFailed`] if a value read is not the one written.
pub async fn run(args: BenchVolumeArgs) -> Result<()> {
    let link = args.link.link()?;
    let block = args.block.as_u64();
    let capacity = args.size.as_u64().checked_div(block).unwrap_or(0).try_into();
    let capacity = capacity.map_err(|_| Error::Usage("--size: too many blocks".into()))?;
    let shape = ImmediateShape { capacity, value_bytes: block as usize };
    let disks = args.disks.map_or("memory".into(), |disks| disks.disks().words());
    let full =
        if args.sparse { "; sparse: cells that were never written are made on demand" } else { "" };
    say!("{}; {disks}; {capacity} blocks of {block} bytes{full}", args.link.words());
    say!("{HEAD}");
    for engine in &args.engine {
        match engine {
            VolumeEngineName::Tao => {
                let settings = TaoSettings::new(shape);
                let settings = TaoSettings { cache_bytes: args.cache.as_u64(), ..settings };
                let settings = on_link(settings, &args, &link);
                measure("tao", settings.with_write_behind(carried_by(&link) as usize)?, &args)
                    .await?;
            }
            VolumeEngineName::Partition => {
                let mut settings = PartitionSettings::new(shape, 0)?;
                let cached = args.cache.as_u64() / block;
                settings.layout = settings.layout.with_kept_blocks(cached);
                let settings = on_link(settings, &args, &link);
                let settings = settings.with_write_behind(carried_by(&link) as usize);
                measure("partition", settings, &args).await?;
            }
        }
    }
    Ok(())
}

fn on_link<S: MeasuredEngine>(settings: S, args: &BenchVolumeArgs, link: &Link) -> S {
    let under_way = args.clients.iter().copied().max().unwrap_or(0).max(UNDER_WAY_MIN);
    settings.with_shell(|shell| {
        shell.under_way_max = under_way;
        shell.pace = pace_on(link, shell.pace, args.quantum_us);
        shell.quantum = Duration::from_micros(args.quantum_us);
    })
}

async fn measure<S: MeasuredEngine>(name: &str, settings: S, args: &BenchVolumeArgs) -> Result<()> {
    let blocks = settings.shell().shape.capacity;
    match args.sparse {
        true => say_error!("{name}: {blocks} blocks are there, and none was written (--sparse)"),
        false => say_error!("{name}: loading {blocks} blocks"),
    }
    let site =
        Site { seed: args.seed, disks: args.disks.map(DiskName::disks), is_sparse: args.sparse };
    let lane = Lane::load(settings.clone(), site).await?;
    let mut lane = lane.reopen(settings).await?;
    for clients in &args.clients {
        let measured = lane.measure(*clients, args.link.link()?, args.seconds).await?;
        let row = Row::of(*clients, &measured)?;
        let block_bytes = args.block.as_u64();
        say!("{}", row.line(name, block_bytes));
        if args.json {
            let mut figures = row.json(name, block_bytes);
            figures["link"] = args.link.words().into();
            figures["disks"] = site.disks.map(|disks| disks.words()).into();
            figures["sparse"] = args.sparse.into();
            figures["blocks"] = blocks.into();
            say!("{figures}");
        }
    }
    lane.close().await
}

impl DiskName {
    /// What it stands for.
    pub fn disks(self) -> Disks {
        match self {
            Self::Seven => Disks::SEVEN,
            Self::Solid => Disks::SOLID,
        }
    }
}
