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
use fogbank_oram::immediate::ShellSettings;
use fogbank_oram::tao::{TaoEngine, TaoSettings};
use serde::{Deserialize, Serialize};

use super::{NewVolume, VolumeEngine, VolumeOpening, VolumeTail, accesses, decode};
use crate::error::{Error, Result};
use crate::plan::bill::Bill;
use crate::plan::lines::{Line, of_bill};
use crate::plan::price::{Prices, prices, times};
use crate::plan::requests::ITEM_KEY_BYTES;
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

#[async_trait]
impl VolumeTail for TaoVolume {
    fn check(&self, shape: VolumeShape) -> Result<()> {
        Ok(self.settings(shape, Flow::default()).geometry().map(drop)?)
    }

    fn traffic(&self, shape: VolumeShape, flow: Flow) -> Result<Vec<Line>> {
        let settings = self.settings(shape, Flow::default());
        Ok(accesses::traffic(settings.traffic()?, settings.storage_bytes_max()?, flow))
    }

    fn cost(&self, shape: VolumeShape, flow: Flow, url: &str) -> Result<Vec<Line>> {
        let bill = bill(&self.settings(shape, flow), url, &prices(None, url)?)?;
        Ok(of_bill(&bill, url, false))
    }

    async fn open(&self, opening: VolumeOpening) -> Result<Volume> {
        let shape = opening.config.shape();
        let settings = self.settings(shape, opening.flow);
        // Before anything of the store is touched; in the words of flags, not of settings.
        let traffic = self.settings(shape, Flow::default()).traffic()?;
        accesses::check(&settings.shell, settings.group_max(), traffic)?;
        let settings = settings.with_write_behind(accesses::write_behind(&opening));
        let settings = settings.map_err(|error| Error::Usage(error.to_string()))?;
        let vault = (settings.vault(), settings.shell.quantum);
        accesses::open(opening, vault, |parts| Box::pin(TaoEngine::open(settings, parts))).await
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
    use fogbank_oram::immediate::Rate;

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
