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
use fogbank_env::within;
use fogbank_oram::immediate::ShellSettings;
use fogbank_oram::tao::{TaoEngine, TaoSettings};
use serde::{Deserialize, Serialize};

use super::accesses::{HOW_MANY, Reckoned, Requests};
use super::{NewVolume, VolumeEngine, VolumeOpening, VolumeTail, accesses, decode};
use crate::error::{Error, Result};
use crate::plan::lines::Line;
use crate::plan::price::times;
use crate::plan::requests::ITEM_KEY_BYTES;
use crate::plan::volume::{VolumePlan, VolumeSite};
use crate::volume::{CACHE, CACHE_BYTES, Flag, Flow, OF_ACCESSES, QUANTUM_US, Volume, VolumeShape};

/// The entry.
pub(super) static ENGINE: VolumeEngine = VolumeEngine {
    name: "tao",
    about: "TaoStore: every access leaves as it comes, so the cloud sees how many there are, and \
            when",
    flags: &[&CACHE, &WRITE_BACK_EVERY, &QUANTUM_US],
    flow: OF_ACCESSES,
    has_two_clouds: false,
    no_other_flow: "sends nothing unless it is asked, or keeps a --fixed-rate",
    no_record: accesses::NO_RECORD,
    new: |volume| Ok(Arc::new(TaoVolume::new(volume))),
    decode: decode::<TaoVolume>,
};

static WRITE_BACK_EVERY: Flag = Flag {
    name: "write-back-every",
    value_name: "K",
    about: "k, paths from one write-back to the next [40]",
    parse: |typed| within(1..=u32::MAX)(typed).map(u64::from),
};

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
        let shape = shape.of_accesses();
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

#[async_trait]
impl VolumeTail for TaoVolume {
    fn check(&self, shape: VolumeShape) -> Result<()> {
        Ok(self.settings(shape, Flow::default()).geometry().map(drop)?)
    }

    fn traffic(&self, shape: VolumeShape, flow: Flow) -> Result<Vec<Line>> {
        let settings = self.settings(shape, Flow::default());
        Ok(accesses::traffic(settings.traffic()?, settings.storage_bytes_max()?, flow, HOW_MANY))
    }

    fn plan(&self, shape: VolumeShape, flow: Flow, site: &VolumeSite<'_>) -> Result<VolumePlan> {
        let settings = self.settings(shape, flow);
        Ok(accesses::plan(
            &Reckoned {
                shell: &settings.shell,
                memory: settings.memory()?,
                storage_bytes: settings.storage_bytes_max()?,
                checkpoint_bytes: settings.checkpoint_bytes()?,
                checkpoint_every: settings.checkpoint_every()?,
                traffic: settings.traffic()?,
                requests: requests(&settings, site)?,
                kept: None,
            },
            site,
        ))
    }

    async fn open(&self, opening: VolumeOpening) -> Result<Volume> {
        let shape = opening.config.shape();
        let settings = self.settings(shape, opening.flow);
        // Before anything of the store is touched; in the words of flags, not of settings.
        let traffic = self.settings(shape, Flow::default()).traffic()?;
        accesses::check(&settings.shell, settings.group_max(), traffic)?;
        let settings =
            settings.with_write_behind(accesses::write_behind(&opening, &accesses::WRITE_BACKS));
        let settings = settings.map_err(|error| Error::Usage(error.to_string()))?;
        let vault = (settings.vault(), settings.shell.quantum);
        accesses::open(opening, vault, |parts| Box::pin(TaoEngine::open(settings, parts))).await
    }
}

/// What a path asks for: it is read bucket by bucket, and written back at most so; and a record of
/// the journal says so before.
fn requests(settings: &TaoSettings, site: &VolumeSite<'_>) -> Result<Requests> {
    let (geometry, traffic) = (settings.geometry()?, settings.traffic()?);
    let VolumeSite { url, prices, .. } = site;
    let bucket = geometry.chunk_bytes() as f64;
    let buckets = f64::from(geometry.stored_levels());
    let items = f64::from(geometry.bucket.slots());
    let item_bytes = geometry.cell_bytes() as f64 + ITEM_KEY_BYTES;
    let (each, (gets, puts)) = match url {
        _ if url.starts_with("dynamodb:") => {
            let puts = items * times(prices.put_bytes, item_bytes) + 1.0;
            (items, (items * times(prices.get_bytes, item_bytes), puts))
        }
        _ => (1.0, (times(prices.get_bytes, bucket), times(prices.put_bytes, bucket))),
    };
    let record = (traffic.up_bytes - buckets * bucket).max(0.0);
    let puts = buckets * puts + times(prices.put_bytes, record);
    Ok(Requests { made: (buckets * each, buckets * each + 1.0), charged: (buckets * gets, puts) })
}

#[cfg(test)]
mod tests {
    use fogbank_oram::immediate::Rate;

    use super::*;
    use crate::link::LinkArgs;
    use crate::plan::bill::SECONDS_A_MONTH;
    use crate::plan::price::prices;
    use crate::volume::Flags;

    #[test]
    fn a_volume_costs_by_the_access_or_by_its_rate() {
        let shape = VolumeShape { blocks: 1 << 18, block_bytes: 4096 };
        let volume = TaoVolume::new(&NewVolume {
            shape,
            flags: &Flags::default(),
            url: "",
            second_store: None,
        });
        let at = |url, rate| {
            let (prices, link) = (prices(None, url).unwrap(), LinkArgs::default());
            let site = VolumeSite { url, prices: &prices, second_prices: None, link: &link };
            volume.plan(shape, Flow { rate, ..Flow::default() }, &site).unwrap().bill
        };
        let asked = at("s3://b", None);
        assert_eq!((asked.running, asked.usd()), (None, asked.storage_usd));
        let steady = at("s3://b", Some(Rate { interval: 1_000_000_000, accesses: 1 }));
        let month = asked.per_million.usd() * SECONDS_A_MONTH / 1e6;
        assert!((steady.running.unwrap().usd() / month - 1.0).abs() < 1e-9);
        assert!(at("dynamodb://t", None).per_million.usd() > 0.0);
    }
}
