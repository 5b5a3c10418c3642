//! A volume of the engine `tao`: every access leaves as it comes.
//!
//! 1. What the journal names is read again, a checkpoint written, and the engine serves.
//! 2. Closing answers what was submitted and writes the last checkpoint.
//!
//! Whatever leaves does so at points of a grid, so that its moment does not tell how long the proxy
//! worked.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fogbank_oram::ImmediateShape;
use fogbank_oram::immediate::{LinkRate, Rate, ShellSettings};
use fogbank_oram::tao::{Parts, TaoEngine, TaoSettings};
use fogbank_store::{DepartureGrid, GridStore};
use serde::{Deserialize, Serialize};

use super::{NewVolume, VolumeEngine, VolumeOpening, VolumeTail, decode};
use crate::error::{Error, Result};
use crate::open::{Side, Sides};
use crate::plan::bill::Bill;
use crate::plan::lines::{Line, of_bill};
use crate::plan::price::{Prices, prices, times};
use crate::plan::requests::ITEM_KEY_BYTES;
use crate::registers::RegisterPlace;
use crate::volume::{
    CACHE, CACHE_BYTES, Flag, Flow, OF_ACCESSES, QUANTUM_US, Volume, VolumeShape, short_number,
};

/// The entry.
pub(super) static ENGINE: VolumeEngine = VolumeEngine {
    name: "tao",
    about: "TaoStore: every access leaves as it comes, so the cloud sees how many there are, and \
            when",
    flags: &[&CACHE, &WRITE_BACK_EVERY, &QUANTUM_US],
    flow: OF_ACCESSES,
    no_other_flow: "sends nothing unless it is asked, or keeps a --fixed-rate",
    new: |volume| Ok(Arc::new(TaoVolume::new(volume))),
    decode: decode::<TaoVolume>,
};

static WRITE_BACK_EVERY: Flag = Flag {
    name: "write-back-every",
    value_name: "K",
    about: "k, paths from one write-back to the next [40]",
    parse: short_number,
};

/// Bytes of write-backs under way: a few of them.
const WRITE_BEHIND: u64 = 8 << 20;
/// Across a network, of which nothing is known: what 50 MB/s carry in 20 ms.
const WRITE_BEHIND_ACROSS: u64 = 1 << 20;

/// What the commit record says of it. Public.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaoVolume {
    /// Z.
    bucket_blocks: u16,
    /// Memory of the proxy for the top of the tree, in bytes.
    cache: u64,
    /// k.
    write_back_every: u32,
    /// Messages leave at multiples of so many microseconds; 0: as soon as they can.
    quantum_us: u64,
}

impl TaoVolume {
    fn new(volume: &NewVolume<'_>) -> Self {
        let NewVolume { flags, .. } = volume;
        Self {
            bucket_blocks: 4,
            cache: flags.get(&CACHE).unwrap_or(CACHE_BYTES),
            write_back_every: flags.get(&WRITE_BACK_EVERY).map_or(40, |every| every as u32),
            quantum_us: flags.get(&QUANTUM_US).unwrap_or(1000),
        }
    }

    /// What the engine is made with.
    fn settings(&self, shape: VolumeShape, flow: Flow) -> TaoSettings {
        let VolumeShape { blocks, block_bytes } = shape;
        let shape = ImmediateShape { capacity: blocks, value_bytes: block_bytes };
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

#[async_trait]
impl VolumeTail for TaoVolume {
    fn check(&self, shape: VolumeShape) -> Result<()> {
        Ok(self.settings(shape, Flow::default()).geometry().map(drop)?)
    }

    /// Bytes that a block of a busy volume moves, or bytes a second at a fixed rate: paths,
    /// write-backs, journal and checkpoints.
    fn traffic(&self, shape: VolumeShape, flow: Flow) -> Result<Vec<String>> {
        let settings = self.settings(shape, Flow::default());
        let (traffic, storage) = (settings.traffic()?, settings.storage_bytes_max()?);
        let Some(rate) = flow.rate else {
            return Ok(vec![
                format!("it takes up to {:.2} GB there once it is full", storage as f64 / 1e9),
                format!(
                    "every block asked for sends {:.0} KB and receives {:.0} KB; how many are, and when, is \
                     seen: --fixed-rate N of volume serve hides it",
                    traffic.up_bytes / 1e3,
                    traffic.down_bytes / 1e3
                ),
            ]);
        };
        let per_s = rate.accesses as f64 * 1e9 / rate.interval as f64;
        Ok(vec![format!(
            "fixed rate: {} accesses every {} ms, {:.2} MB/s up and {:.2} MB/s down, used or not",
            rate.accesses,
            rate.interval / 1_000_000,
            per_s * traffic.up_bytes / 1e6,
            per_s * traffic.down_bytes / 1e6
        )])
    }

    fn cost(&self, shape: VolumeShape, flow: Flow, url: &str) -> Result<Vec<Line>> {
        let bill = bill(&self.settings(shape, flow), url, &prices(None, url)?)?;
        Ok(of_bill(&bill, url, false))
    }

    async fn open(&self, opening: VolumeOpening) -> Result<Volume> {
        let VolumeOpening { options, sides, config, flow, .. } = opening;
        let Sides { lock, bare, clock, claimed } = sides;
        let settings = self.settings(config.shape(), flow);
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
}

/// What a path costs: it is read bucket by bucket, and written back at most so; and a record of the
/// journal says so before.
fn bill(settings: &TaoSettings, url: &str, prices: &Prices) -> Result<Bill> {
    let (geometry, traffic) = (settings.geometry()?, settings.traffic()?);
    let bucket = geometry.chunk_bytes() as f64;
    let buckets = f64::from(geometry.stored_levels());
    let items = f64::from(geometry.bucket.slots());
    let item_bytes = geometry.cell_bytes() as f64 + ITEM_KEY_BYTES;
    let (read, written) = match url {
        _ if url.starts_with("dynamodb:") => (
            buckets * items * times(prices.get_bytes, item_bytes),
            buckets * (items * times(prices.put_bytes, item_bytes) + 1.0),
        ),
        _ => (buckets * times(prices.get_bytes, bucket), buckets * times(prices.put_bytes, bucket)),
    };
    let record = (traffic.up_bytes - buckets * bucket).max(0.0);
    let puts = written + times(prices.put_bytes, record);
    let access = prices.of(read, puts, puts, traffic.down_bytes);
    let storage_usd = prices.storage_usd(settings.storage_bytes_max()? as f64);
    Ok(Bill::of_accesses(access, traffic.up_bytes, settings.shell.rate, storage_usd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::bill::SECONDS_A_MONTH;
    use crate::volume::Flags;

    #[test]
    fn a_volume_costs_by_the_access_or_by_its_rate() {
        let shape = VolumeShape { blocks: 1 << 18, block_bytes: 4096 };
        let volume = TaoVolume::new(&NewVolume { shape, flags: &Flags::default(), url: "" });
        let at = |url, rate| {
            let settings = volume.settings(shape, Flow { rate, ..Flow::default() });
            bill(&settings, url, &prices(None, url).unwrap()).unwrap()
        };
        let asked = at("s3://b", None);
        assert_eq!((asked.running, asked.usd()), (None, asked.storage_usd));
        let steady = at("s3://b", Some(Rate { interval: 1_000_000_000, accesses: 1 }));
        let month = asked.per_million.usd() * SECONDS_A_MONTH / 1e6;
        assert!((steady.running.unwrap().usd() / month - 1.0).abs() < 1e-9);
        assert!(at("dynamodb://t", None).per_million.usd() > 0.0);
    }
}
