//! A volume of the engine `tao`: every access leaves as it comes.
//!
//! 1. What the journal names is read again, a checkpoint written, and the engine serves.
//! 2. Closing answers what was submitted and writes the last checkpoint.
//!
//! Whatever leaves does so at points of a grid, so that its moment does not tell how long the proxy worked.

use std::sync::Arc;
use std::time::Duration;

use fogbank_oram::ImmediateShape;
use fogbank_oram::immediate::{LinkRate, Rate, ShellSettings};
use fogbank_oram::tao::{Parts, TaoEngine, TaoSettings};
use fogbank_store::{DepartureGrid, GridStore};
use serde::{Deserialize, Serialize};

use super::Volume;
use super::config::{Flow, VolumeConfig};
use crate::OpenOptions;
use crate::args::VolumeShapeArgs;
use crate::error::{Error, Result};
use crate::open::{Side, Sides};
use crate::registers::RegisterPlace;

/// k of the paper.
const WRITE_BACK_EVERY: u32 = 40;
const QUANTUM_US: u64 = 1000;
/// Bytes of write-backs under way: a few of them.
const WRITE_BEHIND: u64 = 8 << 20;
/// Across a network, of which nothing is known: what 50 MB/s carry in 20 ms.
const WRITE_BEHIND_ACROSS: u64 = 1 << 20;

/// What the commit record says of it. Public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaoVolume {
    /// Blocks.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Z.
    pub bucket_blocks: u16,
    /// Memory of the proxy for the top of the tree, in bytes.
    pub cache: u64,
    /// k.
    pub write_back_every: u32,
    /// Messages leave at multiples of so many microseconds; 0: as soon as they can.
    pub quantum_us: u64,
}

impl TaoVolume {
    /// Of a new volume of so many blocks.
    pub(super) fn new(args: &VolumeShapeArgs, blocks: u32) -> Self {
        Self {
            blocks,
            block_bytes: args.block.as_u64() as usize,
            bucket_blocks: 4,
            cache: args.cache.as_u64(),
            write_back_every: args.write_back_every.unwrap_or(WRITE_BACK_EVERY),
            quantum_us: args.quantum_us.unwrap_or(QUANTUM_US),
        }
    }

    /// What the engine is made with.
    pub fn settings(&self, flow: Flow) -> TaoSettings {
        let shape = ImmediateShape { capacity: self.blocks, value_bytes: self.block_bytes };
        TaoSettings {
            bucket_blocks: self.bucket_blocks,
            cache_bytes: self.cache,
            write_back_every: self.write_back_every,
            shell: ShellSettings {
                under_way_max: 256,
                quantum: Duration::from_micros(self.quantum_us),
                rate: flow.rate,
                pace: flow.pace,
                ..ShellSettings::new(shape)
            },
            ..TaoSettings::new(shape)
        }
    }
}

/// The quantum is the volume's own, so it is not for whoever chooses a rate to remember.
fn fits_the_grid(settings: &TaoSettings) -> Result<()> {
    let quantum = settings.shell.quantum.as_nanos() as u64;
    let most = settings.group_max().min(settings.shell.under_way_max);
    if settings.shell.pace != LinkRate::default() && quantum == 0 {
        return Err(Error::Usage(
            "--send-mb-s and --receive-mb-s are for volumes that send at points of a grid; this one was made \
             with --quantum-us 0: leave them out"
                .into(),
        ));
    }
    match settings.shell.rate {
        Some(rate) if rate.accesses > most => Err(Error::Usage(format!(
            "--fixed-rate: at most {most} accesses leave at a tick, so {} a second with --tick-ms {}",
            most as u64 * 1_000_000_000 / rate.interval,
            rate.interval / 1_000_000
        ))),
        Some(rate) if quantum > 0 && !rate.interval.is_multiple_of(quantum) => {
            Err(Error::Usage(format!(
                "this volume sends at multiples of {:?}, which --tick-ms {} is not; choose one that is",
                settings.shell.quantum,
                rate.interval / 1_000_000
            )))
        }
        Some(rate) => fits_the_pace(settings, rate),
        None => Ok(()),
    }
}

/// A rate that moves more than the link carries is none: most ticks would pass without accesses.
fn fits_the_pace(settings: &TaoSettings, rate: Rate) -> Result<()> {
    let per_s = rate.accesses as f64 * 1e9 / rate.interval as f64;
    let traffic = settings.traffic()?;
    let LinkRate { up_bytes_per_s, down_bytes_per_s } = settings.shell.pace;
    for (flag, carries, each) in [
        ("--send-mb-s", up_bytes_per_s, traffic.up_bytes),
        ("--receive-mb-s", down_bytes_per_s, traffic.down_bytes),
    ] {
        let Some(carries) = carries.map(|bytes| bytes as f64).filter(|c| *c < per_s * each) else {
            continue;
        };
        let ticks_per_s = 1e9 / rate.interval as f64;
        let fits = (carries / each / ticks_per_s).floor() * ticks_per_s;
        let advice = match fits {
            0.0 => "a longer --tick-ms".to_owned(),
            fits => format!("a rate of at most {fits}"),
        };
        return Err(Error::Usage(format!(
            "--fixed-rate: {per_s} accesses a second move up to {:.3} MB/s and {flag} says {:.3}; give \
             {advice}, or a faster link",
            per_s * each / 1e6,
            carries / 1e6
        )));
    }
    Ok(())
}

/// Opens the volume, however it was left.
pub(super) async fn open(
    options: OpenOptions,
    sides: Sides,
    volume: &TaoVolume,
    flow: Flow,
) -> Result<Volume> {
    let Sides { lock, bare, clock, claimed } = sides;
    let config = VolumeConfig::Tao(volume.clone());
    let settings = volume.settings(flow);
    // Before anything of the store is touched.
    fits_the_grid(&settings)?;
    let usual = if options.across_a_link() { WRITE_BEHIND_ACROSS } else { WRITE_BEHIND };
    let settings = settings.with_write_behind(flow.write_behind.unwrap_or(usual) as usize);
    let settings = settings.map_err(|error| Error::Usage(error.to_string()))?;
    let randomness = options.randomness()?;
    let kept = RegisterPlace::of(options.place())?;
    let side = Side { clock: &clock, lock: &lock, randomness: &randomness, kept: &kept };
    let told = (config.encode(), settings.vault());
    let points = DepartureGrid::new(clock.clone(), settings.shell.quantum);
    let paced = Arc::new(GridStore::new(bare.clone(), points.clone()));
    let (vault, recovered) = options.vault(paced, claimed.as_deref(), told, side).await?;
    let replayed = recovered.journal.len();
    let parts = Parts {
        store: bare,
        vault,
        recovered,
        random: &randomness,
        points,
        progress: &|done, of| {
            if of > 0 && (done % 1024 == 0 || done == of) {
                tracing::info!("the volume was not closed: {done} of {of} paths read again");
            }
        },
    };
    let engine = Arc::new(TaoEngine::open(settings, parts).await?);
    Ok(Volume { engine, config, clock, replayed, register: kept.describe(), _lock: lock })
}
