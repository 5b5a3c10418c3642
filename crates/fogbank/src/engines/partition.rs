//! A volume of the engine `partition`: many small pyramids, shuffled in the background.
//!
//! 1. What the journal names is read again, jobs that were open are done anew, and a checkpoint is
//!    written; then the engine serves.
//! 2. Closing answers what was submitted, lets jobs end and writes the last checkpoint.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fogbank_oram::ImmediateShape;
use fogbank_oram::partition::{Layout, PartitionEngine, PartitionSettings};
use serde::{Deserialize, Serialize};

use super::accesses::{Reckoned, Requests};
use super::{NewVolume, VolumeEngine, VolumeOpening, VolumeTail, accesses, decode};
use crate::error::Result;
use crate::plan::lines::Line;
use crate::plan::price::times;
use crate::plan::requests::ITEM_KEY_BYTES;
use crate::plan::volume::{VolumePlan, VolumeSite};
use crate::volume::{
    CACHE, CACHE_BYTES, Flag, Flow, OF_ACCESSES, QUANTUM_US, Volume, VolumeShape, short_number,
};

/// The entry.
pub(super) static ENGINE: VolumeEngine = VolumeEngine {
    name: "partition",
    about: "ObliviStore: for large volumes. Every access leaves as it comes, so the cloud sees how \
            many there are, and when; it moves fewer bytes than tao",
    flags: &[&CACHE, &CHECKPOINT_EVERY, &QUANTUM_US],
    flow: OF_ACCESSES,
    no_other_flow: "sends nothing unless it is asked, or keeps a --fixed-rate",
    new: |volume| Ok(Arc::new(PartitionVolume::new(volume)?)),
    decode: decode::<PartitionVolume>,
};

static CHECKPOINT_EVERY: Flag = Flag {
    name: "checkpoint-every",
    value_name: "N",
    about: "Accesses from one checkpoint to the next: a recovery reads again what so many have \
            read, and a checkpoint is written beside the work [8192 to 65536, by size]",
    parse: short_number,
};

/// Accesses under way at once.
const UNDER_WAY_MAX: usize = 1024;

/// What the commit record says of it. Public.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionVolume {
    /// P.
    partitions: u32,
    /// L.
    levels: u8,
    /// C.
    top_blocks: u16,
    /// c0.
    kept_levels: u8,
    /// E.
    checkpoint_every: u64,
    /// Messages leave at multiples of so many microseconds; 0: as soon as they can.
    quantum_us: u64,
}

impl PartitionVolume {
    fn new(volume: &NewVolume<'_>) -> Result<Self> {
        let NewVolume { shape: VolumeShape { blocks, block_bytes }, flags, .. } = *volume;
        let shape = ImmediateShape { capacity: blocks, value_bytes: block_bytes };
        let cache = flags.get(&CACHE).unwrap_or(CACHE_BYTES) / block_bytes as u64;
        let usual = PartitionSettings::new(shape, 0)?;
        let layout = usual.layout.with_kept_blocks(cache);
        Ok(Self {
            partitions: layout.partitions,
            levels: layout.levels,
            top_blocks: layout.top_blocks,
            kept_levels: layout.kept_levels,
            checkpoint_every: flags.get(&CHECKPOINT_EVERY).unwrap_or(usual.checkpoint_every),
            quantum_us: flags.get(&QUANTUM_US).unwrap_or(1000),
        })
    }

    /// What the engine is made with.
    fn settings(&self, shape: VolumeShape, flow: Flow) -> PartitionSettings {
        let VolumeShape { blocks, block_bytes } = shape;
        let shape = ImmediateShape { capacity: blocks, value_bytes: block_bytes };
        let layout = Layout {
            blocks,
            partitions: self.partitions,
            levels: self.levels,
            top_blocks: self.top_blocks,
            kept_levels: self.kept_levels,
        };
        let checkpoint_every = self.checkpoint_every;
        let usual = PartitionSettings::of(shape, layout);
        PartitionSettings { checkpoint_every, ..usual }.with_shell(|shell| {
            shell.under_way_max = UNDER_WAY_MAX;
            shell.quantum = Duration::from_micros(self.quantum_us);
            shell.rate = flow.rate;
            shell.pace = flow.pace;
        })
    }
}

#[async_trait]
impl VolumeTail for PartitionVolume {
    fn check(&self, shape: VolumeShape) -> Result<()> {
        Ok(self.settings(shape, Flow::default()).check()?)
    }

    fn traffic(&self, shape: VolumeShape, flow: Flow) -> Result<Vec<Line>> {
        let settings = self.settings(shape, Flow::default());
        Ok(accesses::traffic(settings.traffic(), settings.storage_bytes_max(), flow))
    }

    fn plan(&self, shape: VolumeShape, flow: Flow, site: &VolumeSite<'_>) -> Result<VolumePlan> {
        let settings = self.settings(shape, flow);
        Ok(accesses::plan(
            &Reckoned {
                shell: &settings.shell,
                memory: settings.memory(),
                storage_bytes: settings.storage_bytes_max(),
                checkpoint_bytes: settings.checkpoint_bytes(),
                checkpoint_every: settings.checkpoint_every,
                traffic: settings.traffic(),
                requests: requests(&settings, site),
            },
            site,
        ))
    }

    async fn open(&self, opening: VolumeOpening) -> Result<Volume> {
        let settings = self.settings(opening.config.shape(), opening.flow);
        // Before anything of the store is touched.
        accesses::check(&settings.shell, settings.group_max(), settings.traffic())?;
        let settings = settings.with_write_behind(accesses::write_behind(&opening));
        let vault = (settings.vault(), settings.shell.quantum);
        accesses::open(opening, vault, |parts| Box::pin(PartitionEngine::open(settings, parts)))
            .await
    }
}

/// What an access asks for: its cells and those of the jobs that it gives orders for are read one by
/// one, levels are written whole, and a record of the journal says so before.
fn requests(settings: &PartitionSettings, site: &VolumeSite<'_>) -> Requests {
    let (layout, traffic) = (settings.layout, settings.traffic());
    let VolumeSite { url, prices, .. } = site;
    let cell = settings.cell_bytes() as f64;
    let (cells_read, cells_written) = layout.cells_an_access();
    let item_bytes = cell + ITEM_KEY_BYTES;
    let levels: f64 = layout.stored_levels().map(|level| layout.writes_an_access(level)).sum();
    let (written, (gets, puts)) = match url {
        _ if url.starts_with("dynamodb:") => {
            let gets = cells_read * times(prices.get_bytes, item_bytes);
            (cells_written, (gets, cells_written * times(prices.put_bytes, item_bytes)))
        }
        _ => {
            let puts = |level| times(prices.put_bytes, f64::from(layout.cells(level)) * cell);
            let writes = |level| layout.writes_an_access(level) * puts(level);
            let gets = cells_read * times(prices.get_bytes, cell);
            (levels, (gets, layout.stored_levels().map(writes).sum()))
        }
    };
    let record = (traffic.up_bytes - cells_written * cell).max(0.0);
    let puts = puts + times(prices.put_bytes, record);
    Requests { made: (cells_read, written + 1.0), charged: (gets, puts) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::volume::{Flags, VolumeConfig};

    #[test]
    fn memory_keeps_levels_in_the_proxy() {
        let kept = |blocks, cache| {
            let shape = VolumeShape { blocks, block_bytes: 4096 };
            let flags = Flags::default().with(&CACHE, cache);
            let volume = NewVolume { shape, flags: &flags, url: "" };
            PartitionVolume::new(&volume).unwrap().kept_levels
        };
        assert_eq!((kept(1 << 18, 64 << 20), kept(1 << 18, 0)), (5, 0));
        assert_eq!((kept(1 << 28, 64 << 20), kept(64, 1 << 30)), (1, 5));
    }

    /// What is read of a commit record is only claimed.
    #[test]
    fn a_layout_that_cannot_be_is_refused() {
        let sound = r#"{"volume":"partition","blocks":256,"block_bytes":4096,"partitions":16,"levels":6,"top_blocks":63,"kept_levels":2,"checkpoint_every":8192,"quantum_us":1000}"#;
        VolumeConfig::decode(sound.as_bytes()).unwrap();
        for (is, wrong) in [
            ("\"partitions\":16", "\"partitions\":0"),
            ("\"partitions\":16", "\"partitions\":17"),
            ("\"levels\":6", "\"levels\":0"),
            ("\"levels\":6", "\"levels\":16"),
            ("\"top_blocks\":63", "\"top_blocks\":31"),
            ("\"top_blocks\":63", "\"top_blocks\":65535"),
            ("\"kept_levels\":2", "\"kept_levels\":6"),
            ("\"checkpoint_every\":8192", "\"checkpoint_every\":0"),
        ] {
            let told = VolumeConfig::decode(sound.replace(is, wrong).as_bytes());
            assert!(matches!(told, Err(Error::Usage(_))), "{wrong}: {told:?}");
        }
    }
}
