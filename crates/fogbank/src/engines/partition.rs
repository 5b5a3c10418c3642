//! A volume of the engine `partition`: many small pyramids, shuffled in the background.
//!
//! 1. What the journal names is read again, jobs that were open are done anew, and a checkpoint is
//!    written; then the engine serves.
//! 2. Closing answers what was submitted, lets jobs end and writes the last checkpoint.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fogbank_env::within;
use fogbank_oram::partition::{Layout, PartitionEngine, PartitionSettings, RECORD_FORMAT};
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
    name: "partition",
    about: "ObliviStore: for large volumes. Every access leaves as it comes, so the cloud sees how \
            many there are, and when; it moves fewer bytes than tao",
    flags: &[&CACHE, &CHECKPOINT_EVERY, &QUANTUM_US],
    flow: OF_ACCESSES,
    has_two_clouds: false,
    no_other_flow: "sends nothing unless it is asked, or keeps a --fixed-rate",
    no_record: accesses::NO_RECORD,
    new: |volume| Ok(Arc::new(PartitionVolume::new(volume)?)),
    decode: decode::<PartitionVolume>,
};

pub(super) static CHECKPOINT_EVERY: Flag = Flag {
    name: "checkpoint-every",
    value_name: "N",
    about: "Accesses from one checkpoint to the next: a recovery reads again what so many have \
            read, and a checkpoint is written beside the work [8192 to 65536, so that it adds a \
            twentieth to the traffic; in two clouds as many as it takes for your own disk to write \
            no more than a block of checkpoints for each, at least 8192]",
    parse: |typed| within(1..=u32::MAX)(typed).map(u64::from),
};

/// Accesses under way at once.
const UNDER_WAY_MAX: usize = 1024;

/// What the commit record says of it. Public.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionVolume {
    /// Of its journal. Volumes made before there was a number have none.
    #[serde(default)]
    format: u16,
    /// W: journal records under way at once.
    #[serde(default)]
    records_at_once: u16,
    /// P.
    partitions: u32,
    /// L.
    levels: u8,
    /// C.
    top_blocks: u16,
    /// c0.
    kept_levels: u8,
    /// S: cells of a segment at most. Volumes made before levels lay in segments do not say it.
    #[serde(default = "whole_levels")]
    segment_cells: u16,
    /// E.
    checkpoint_every: u64,
    /// Messages leave at multiples of so many microseconds; 0: as soon as they can.
    quantum_us: u64,
}

/// A level is one chunk.
fn whole_levels() -> u16 {
    u16::MAX
}

impl PartitionVolume {
    fn new(volume: &NewVolume<'_>) -> Result<Self> {
        let (shape, flags) = (volume.shape.of_accesses(), volume.flags);
        let cache = flags.get(&CACHE).unwrap_or(CACHE_BYTES) / shape.value_bytes as u64;
        let usual = PartitionSettings::new(shape, 0)?;
        let layout = usual.layout.with_kept_blocks(cache);
        let usual = PartitionSettings { layout, ..usual }
            .with_shell(|shell| shell.under_way_max = UNDER_WAY_MAX)
            .with_usual_checkpoints();
        let records_at_once = u16::try_from(usual.shell.records_at_once);
        Ok(Self {
            format: RECORD_FORMAT,
            records_at_once: records_at_once.map_err(|_| Error::Bug("too many records".into()))?,
            partitions: layout.partitions,
            levels: layout.levels,
            top_blocks: layout.top_blocks,
            kept_levels: layout.kept_levels,
            segment_cells: layout.segment_cells,
            checkpoint_every: flags.get(&CHECKPOINT_EVERY).unwrap_or(usual.checkpoint_every),
            quantum_us: flags.get(&QUANTUM_US).unwrap_or(1000),
        })
    }

    /// What the engine is made with.
    fn settings(&self, shape: VolumeShape, flow: Flow) -> PartitionSettings {
        let shape = shape.of_accesses();
        let layout = Layout {
            blocks: shape.capacity,
            partitions: self.partitions,
            levels: self.levels,
            top_blocks: self.top_blocks,
            kept_levels: self.kept_levels,
            segment_cells: self.segment_cells,
        };
        let checkpoint_every = self.checkpoint_every;
        let usual = PartitionSettings::of(shape, layout);
        PartitionSettings { checkpoint_every, ..usual }.with_shell(|shell| {
            shell.under_way_max = UNDER_WAY_MAX;
            shell.records_at_once = self.records_at_once.into();
            shell.quantum = Duration::from_micros(self.quantum_us);
            shell.rate = flow.rate;
            shell.pace = flow.pace;
        })
    }
}

#[async_trait]
impl VolumeTail for PartitionVolume {
    fn check(&self, shape: VolumeShape) -> Result<()> {
        if self.format != RECORD_FORMAT {
            return Err(Error::Usage(format!(
                "this volume was made by another version: its journal has format {}, and this \
                 program reads {RECORD_FORMAT}",
                self.format
            )));
        }
        Ok(self.settings(shape, Flow::default()).check()?)
    }

    fn traffic(&self, shape: VolumeShape, flow: Flow) -> Result<Vec<Line>> {
        let settings = self.settings(shape, Flow::default());
        Ok(accesses::traffic(settings.traffic(), settings.storage_bytes_max(), flow, HOW_MANY))
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
                kept: None,
            },
            site,
        ))
    }

    async fn open(&self, opening: VolumeOpening) -> Result<Volume> {
        let settings = self.settings(opening.config.shape(), opening.flow);
        // Before anything of the store is touched.
        accesses::check(&settings.shell, settings.group_max(), settings.traffic())?;
        let settings =
            settings.with_write_behind(accesses::write_behind(&opening, &accesses::JOBS));
        let vault = (settings.vault(), settings.shell.quantum);
        accesses::open(opening, vault, |parts| Box::pin(PartitionEngine::open(settings, parts)))
            .await
    }
}

/// What an access asks for: its cells and those of the jobs that it gives orders for are read one
/// by one, levels are written whole, and a record of the journal says so before.
fn requests(settings: &PartitionSettings, site: &VolumeSite<'_>) -> Requests {
    let (layout, traffic) = (settings.layout, settings.traffic());
    let VolumeSite { url, prices, .. } = site;
    let cell = settings.cell_bytes() as f64;
    let (cells_read, cells_written) = layout.cells_an_access();
    let item_bytes = cell + ITEM_KEY_BYTES;
    let segments = |level| f64::from(layout.segments(level));
    let written = |level| layout.writes_an_access(level) * segments(level);
    let chunks: f64 = layout.stored_levels().map(written).sum();
    let (written, (gets, puts)) = match url {
        _ if url.starts_with("dynamodb:") => {
            let gets = cells_read * times(prices.get_bytes, item_bytes);
            (cells_written, (gets, cells_written * times(prices.put_bytes, item_bytes)))
        }
        _ => {
            let segment = |level| f64::from(layout.segment(level)) * cell;
            let puts = |level| times(prices.put_bytes, segment(level)) * segments(level);
            let writes = |level| layout.writes_an_access(level) * puts(level);
            let gets = cells_read * times(prices.get_bytes, cell);
            (chunks, (gets, layout.stored_levels().map(writes).sum()))
        }
    };
    let record = (traffic.up_bytes - cells_written * cell).max(0.0);
    let puts = puts + times(prices.put_bytes, record);
    Requests { made: (cells_read, written + 1.0), charged: (gets, puts) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use fogbank_oram::{Access, Address};

    use super::*;
    use crate::args::VolumeShapeArgs;
    use crate::place::Place;
    use crate::volume::{Flags, VolumeConfig};

    /// A volume of a mebibyte whose tail is as `change` leaves it.
    fn config(change: impl FnOnce(&mut PartitionVolume)) -> VolumeConfig {
        let size = bytesize::ByteSize(1 << 20);
        let block = bytesize::ByteSize(4096);
        let args = VolumeShapeArgs {
            size,
            block,
            engine: &ENGINE,
            second_store: None,
            flags: Flags::default(),
        };
        let usual = VolumeConfig::new(&args, "file:///x").unwrap();
        let flags = Flags::default();
        let (url, second_store) = ("file:///x", None);
        let volume = NewVolume { shape: usual.shape(), flags: &flags, url, second_store };
        let mut tail = PartitionVolume::new(&volume).unwrap();
        change(&mut tail);
        usual.with_tail(Arc::new(tail))
    }

    /// Every file below `folder`.
    fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => found.extend(files(&path)),
                false => _ = found.insert(path.clone(), std::fs::read(path).unwrap()),
            }
        }
        found
    }

    async fn write_and_die(place: &Place, byte: u8) -> Vec<u8> {
        let volume = Volume::open(place.clone(), Flow::default()).await.unwrap();
        let before = volume.engine().submit(Address(7), Access::Read).await.unwrap();
        let write = Access::Write { offset: 0, bytes: vec![byte; 4096].into() };
        volume.engine().submit(Address(7), write).await.unwrap();
        before[..2].to_vec()
    }

    /// A record of another format could not be read, and one put would be in the way of whoever
    /// can.
    #[tokio::test]
    async fn a_journal_of_another_format_is_refused_before_anything_is_put() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::local(folder.path().join("v"));
        Volume::create(place.clone(), &config(|tail| tail.format += 1)).await.unwrap();
        let before = files(&folder.path().join("v/cloud"));
        assert!(before.len() > 1);
        let refused = Volume::open(place.clone(), Flow::default()).await.err().unwrap();
        assert!(matches!(refused, Error::Usage(_)), "{refused:?}");
        assert!(
            refused.to_string().contains("has format 4, and this program reads 3"),
            "{refused}"
        );
        assert_eq!(before, files(&folder.path().join("v/cloud")), "nothing was put");
    }

    /// How many records may be under way says how far a takeover goes: it is the volume's own.
    #[tokio::test]
    async fn a_volume_is_opened_with_its_own_records_under_way() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::local(folder.path().join("v"));
        let made = config(|tail| tail.records_at_once = 3);
        Volume::create(place.clone(), &made).await.unwrap();
        for byte in 1..4 {
            assert_eq!(write_and_die(&place, byte).await, [byte - 1; 2]);
        }
        let volume = Volume::open(place, Flow::default()).await.unwrap();
        assert_eq!(volume.config().encode(), made.encode());
        let tail = serde_json::from_slice::<serde_json::Value>(&made.encode()).unwrap();
        assert_eq!(tail["records_at_once"], 3);
        volume.close().await.unwrap();
    }

    #[test]
    fn the_vault_has_as_many_records_under_way_as_the_volume_says() {
        let flags = Flags::default();
        let shape = VolumeShape { blocks: 256, block_bytes: 4096 };
        let mut tail =
            PartitionVolume::new(&NewVolume { shape, flags: &flags, url: "", second_store: None })
                .unwrap();
        let of =
            |tail: &PartitionVolume| tail.settings(shape, Flow::default()).vault().records_at_once;
        assert_eq!(of(&tail), 64);
        tail.records_at_once = 3;
        assert_eq!(of(&tail), 3);
    }

    #[test]
    fn memory_keeps_levels_in_the_proxy() {
        let kept = |blocks, cache| {
            let shape = VolumeShape { blocks, block_bytes: 4096 };
            let flags = Flags::default().with(&CACHE, cache);
            let volume = NewVolume { shape, flags: &flags, url: "", second_store: None };
            PartitionVolume::new(&volume).unwrap().kept_levels
        };
        assert_eq!((kept(1 << 18, 64 << 20), kept(1 << 18, 0)), (5, 0));
        assert_eq!((kept(1 << 28, 64 << 20), kept(64, 1 << 30)), (1, 5));
    }

    /// What is read of a commit record is only claimed.
    #[test]
    fn a_layout_that_cannot_be_is_refused() {
        let sound = r#"{"volume":"partition","blocks":256,"block_bytes":4096,"format":3,"records_at_once":64,"partitions":16,"levels":6,"top_blocks":63,"kept_levels":2,"checkpoint_every":8192,"quantum_us":1000}"#;
        VolumeConfig::decode(sound.as_bytes()).unwrap();
        for (is, wrong) in [
            ("\"format\":3", "\"format\":1"),
            ("\"format\":3,", ""),
            ("\"records_at_once\":64", "\"records_at_once\":0"),
            ("\"records_at_once\":64", "\"records_at_once\":65536"),
            ("\"partitions\":16", "\"partitions\":0"),
            ("\"partitions\":16", "\"partitions\":17"),
            ("\"levels\":6", "\"levels\":0"),
            ("\"levels\":6", "\"levels\":16"),
            ("\"top_blocks\":63", "\"top_blocks\":31"),
            ("\"top_blocks\":63", "\"top_blocks\":65535"),
            ("\"kept_levels\":2", "\"kept_levels\":6"),
            ("\"kept_levels\":2", "\"kept_levels\":2,\"segment_cells\":0"),
            ("\"checkpoint_every\":8192", "\"checkpoint_every\":0"),
        ] {
            let told = VolumeConfig::decode(sound.replace(is, wrong).as_bytes());
            assert!(matches!(told, Err(Error::Usage(_))), "{wrong}: {told:?}");
        }
    }
}
