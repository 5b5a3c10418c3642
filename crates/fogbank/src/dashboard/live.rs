//! What is seen of a running proxy: keys asked, places touched, the beat, how fast answers come.
//!
//! Everything here is counted whether or not anybody looks, in memory only, without a lock; a
//! viewer reads copies. Keys are hashed under a salt of this process into a few rows, so that no
//! name can be read back. Counts of the cloud's side are public figures too; the others are secret.

use std::sync::{Arc, OnceLock};

use fogbank_env::{Clock, Gauge, Metrics, Nanos, Visibility};
use fogbank_front::resp::Watcher;
use fogbank_oram::geometry::Geometry;
use fogbank_store::{Call, ChunkName, Operation};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::rolling::Rolling;
use crate::config::StoreConfig;

/// Rows of the keys' picture.
pub const KEY_ROWS: usize = 64;
/// Latencies are counted by quarters of an octave from a microsecond on, up to 17 s.
pub const LATENCY_ROWS: usize = 96;
/// Kinds of messages that the beat tells apart: cells asked for, buckets written, anything else.
pub const KINDS: usize = 3;

/// Everything that is counted.
pub struct Live {
    pub(super) clock: Arc<dyn Clock>,
    salt: u64,
    /// Known once the store's configuration is.
    counts: OnceLock<Counts>,
    figures: Figures,
}

/// What is counted over time.
pub(super) struct Counts {
    pub keys: Rolling,
    pub places: Rolling,
    pub bytes: Rolling,
    pub latency: Rolling,
    pub beat: Rolling,
    pub tree: Levels,
    pub beat_of: Beat,
}

/// The public rhythm.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beat {
    pub interval_ns: Nanos,
    pub points: u64,
}

/// Where the buckets of each level stand in the picture.
pub(super) struct Levels {
    geometry: Option<Geometry>,
    /// Level, first row, rows; the blobs' row follows.
    pub bands: Vec<(u8, usize, usize)>,
}

struct Figures {
    requests: Gauge,
    cells_read: Gauge,
    chunks_written: Gauge,
    bytes_up: Gauge,
    bytes_down: Gauge,
    reads_asked: Gauge,
    writes_asked: Gauge,
    answers: Gauge,
    answer_ns: Gauge,
}

impl Live {
    /// Nothing yet. `salt` is to be fresh randomness.
    pub fn new(clock: Arc<dyn Clock>, salt: u64, metrics: &Metrics) -> Arc<Self> {
        let public = |name| metrics.gauge(Visibility::Public, name);
        let secret = |name| metrics.gauge(Visibility::Secret, name);
        let figures = Figures {
            requests: public("cloud_requests"),
            cells_read: public("cloud_cells_read"),
            chunks_written: public("cloud_chunks_written"),
            bytes_up: public("cloud_bytes_up"),
            bytes_down: public("cloud_bytes_down"),
            reads_asked: secret("keys_asked_to_read"),
            writes_asked: secret("keys_asked_to_write"),
            answers: secret("answers"),
            answer_ns: secret("answers_took_ns"),
        };
        Arc::new(Self { clock, salt, counts: OnceLock::new(), figures })
    }

    /// Begins to count, for a store of this configuration.
    pub(crate) fn begin(&self, config: &StoreConfig) {
        self.counts.get_or_init(|| Counts::new(config));
    }

    pub(super) fn counts(&self) -> Option<&Counts> {
        self.counts.get()
    }

    /// A message leaves for the store.
    pub(super) fn sent(&self, call: &Call<'_>) {
        let (at, figures) = (self.clock.now(), &self.figures);
        figures.requests.add(1);
        figures.bytes_up.add(call.bytes_up());
        if let Call::ReadCells(reads) | Call::ReadXor(reads, _) = call {
            figures.cells_read.add(reads.cell_count() as u64);
        }
        if let Call::WriteChunks(writes) = call {
            figures.chunks_written.add(writes.len() as u64);
        }
        let Some(counts) = self.counts.get() else { return };
        counts.bytes.add(at, 0, whole(call.bytes_up()));
        counts.beat.add(at, kind(call.operation()), touches(call));
        counts.touched(at, call);
    }

    /// A reply of the store is there.
    pub(super) fn arrived(&self, bytes: u64) {
        self.figures.bytes_down.add(bytes);
        if let Some(counts) = self.counts.get() {
            counts.bytes.add(self.clock.now(), 1, whole(bytes));
        }
    }
}

impl Watcher for Live {
    fn asked(&self, changes: bool, key: &[u8]) {
        let figures = &self.figures;
        if changes {
            figures.writes_asked.add(1)
        } else {
            figures.reads_asked.add(1)
        }
        if let Some(counts) = self.counts.get() {
            let row = xxh3_64_with_seed(key, self.salt) as usize % KEY_ROWS;
            counts.keys.add(self.clock.now(), row, 1);
        }
    }

    fn answered(&self, nanos: Nanos) {
        self.figures.answers.add(1);
        self.figures.answer_ns.add(nanos);
        if let Some(counts) = self.counts.get() {
            counts.latency.add(self.clock.now(), latency_row(nanos), 1);
        }
    }
}

impl Counts {
    fn new(config: &StoreConfig) -> Self {
        let interval_ns = config.interval_ms.saturating_mul(1_000_000);
        let points = config.read_batches as u64 + 1;
        let width = column_width(interval_ns.saturating_mul(points));
        let fine = if interval_ns == 0 { 5_000_000 } else { (interval_ns / 8).max(1) };
        let tree = Levels::new(config.geometry().ok());
        Self {
            keys: Rolling::new(KEY_ROWS, width),
            places: Rolling::new(tree.rows(), width),
            bytes: Rolling::new(2, width),
            latency: Rolling::new(LATENCY_ROWS, width),
            beat: Rolling::new(KINDS, fine),
            tree,
            beat_of: Beat { interval_ns, points },
        }
    }

    fn touched(&self, at: Nanos, call: &Call<'_>) {
        let touch = |name: ChunkName, amount: usize| {
            if let Some(row) = self.tree.row(name.chunk) {
                self.places.add(at, row, amount as u32);
            }
        };
        match call {
            Call::ReadCells(reads) | Call::ReadXor(reads, _) => {
                reads.iter().for_each(|read| touch(read.chunk, read.cells.len()));
            }
            Call::ReadChunks(chunks) | Call::DeleteChunks(chunks) => {
                chunks.iter().for_each(|chunk| touch(*chunk, 1));
            }
            Call::WriteChunks(writes) => writes.iter().for_each(|write| touch(write.chunk, 1)),
            Call::BlobGet(_) | Call::BlobPut(..) => self.places.add(at, self.tree.blobs(), 1),
            Call::BlobDelete(names) => self.places.add(at, self.tree.blobs(), names.len() as u32),
            Call::CreateArray(..)
            | Call::DropArray(_)
            | Call::ListChunks(_)
            | Call::BlobList(_)
            | Call::Barrier => {}
        }
    }
}

impl Levels {
    fn new(geometry: Option<Geometry>) -> Self {
        let mut bands = Vec::new();
        if let Some(geometry) = &geometry {
            let top = geometry.leaf_level() + 1 - geometry.stored_levels();
            let each = (ROWS / usize::from(geometry.stored_levels()).max(1)).next_power_of_two();
            let mut first = 0;
            for level in top..=geometry.leaf_level() {
                let rows = (1usize << level).min((each / 2).clamp(1, BAND_ROWS));
                bands.push((level, first, rows));
                first += rows;
            }
        }
        Self { geometry, bands }
    }

    fn rows(&self) -> usize {
        self.blobs() + 1
    }

    /// The row of the blobs.
    pub fn blobs(&self) -> usize {
        self.bands.last().map_or(0, |(_, first, rows)| first + rows)
    }

    /// The row of a bucket.
    fn row(&self, chunk: u32) -> Option<usize> {
        let geometry = self.geometry.as_ref().filter(|g| chunk < g.stored_buckets())?;
        let level = geometry.level_of(chunk);
        let top = self.bands.first()?.0;
        let (_, first, rows) = self.bands.get(usize::from(level.checked_sub(top)?))?;
        let index = chunk.checked_sub(geometry.chunk(level, 0))?;
        Some(first + ((u64::from(index) * *rows as u64) >> level) as usize)
    }
}

/// The longest whole part of an epoch that is at most a second, if that is one, or so many whole
/// epochs that they are a fifth of a second: columns of other widths beat against the epochs.
fn column_width(epoch: Nanos) -> Nanos {
    match epoch {
        0 => COLUMN_NS_MIN,
        epoch if epoch <= COLUMN_NS_MAX => epoch * COLUMN_NS_MIN.div_ceil(epoch),
        epoch => epoch / epoch.div_ceil(COLUMN_NS_MAX),
    }
}

fn kind(operation: Operation) -> usize {
    match operation {
        Operation::ReadCells | Operation::ReadChunks | Operation::ReadXor => 0,
        Operation::WriteChunks => 1,
        _ => 2,
    }
}

fn touches(call: &Call<'_>) -> u32 {
    let touches = match call {
        Call::ReadCells(reads) | Call::ReadXor(reads, _) => reads.cell_count(),
        Call::ReadChunks(chunks) => chunks.len(),
        Call::WriteChunks(writes) => writes.len(),
        _ => 1,
    };
    touches as u32
}

fn whole(bytes: u64) -> u32 {
    bytes.min(u64::from(u32::MAX)) as u32
}

/// The row of a latency.
fn latency_row(nanos: Nanos) -> usize {
    let octaves = (nanos.max(1) as f64 / 1e3).log2();
    ((octaves * 4.0).max(0.0) as usize).min(LATENCY_ROWS - 1)
}

/// The latency in the middle of a row, in milliseconds.
pub(super) fn latency_ms(row: usize) -> f64 {
    ((row as f64 + 0.5) / 4.0).exp2() / 1e3
}

const COLUMN_NS_MIN: Nanos = 200_000_000;
const COLUMN_NS_MAX: Nanos = 1_000_000_000;
/// Rows of all levels together, about, and of one at most.
const ROWS: usize = 160;
const BAND_ROWS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ShapeArgs;

    #[test]
    fn every_bucket_has_a_row_of_its_level() {
        for capacity in [1, 10, 5_000, 1_000_000] {
            for cache in [0, 1 << 20] {
                let shape = ShapeArgs {
                    capacity: Some(capacity),
                    cache: Some(bytesize::ByteSize::b(cache)),
                    ..ShapeArgs::default()
                };
                let config = StoreConfig::derive(&shape, false).unwrap();
                let levels = Levels::new(config.geometry().ok());
                let buckets = config.geometry().unwrap().stored_buckets();
                let rows: Vec<usize> = (0..buckets).map(|b| levels.row(b).unwrap()).collect();
                assert!(rows.is_sorted());
                assert_eq!((rows[0], *rows.last().unwrap()), (0, levels.blobs() - 1));
                assert_eq!(levels.row(buckets), None);
                assert!(levels.rows() < 300);
            }
        }
    }

    #[test]
    fn columns_are_parts_or_multiples_of_an_epoch() {
        let ms = 1_000_000;
        for (epoch, column) in
            [(0, 200), (240, 240), (10, 200), (70, 210), (3_000, 1_000), (1_500, 750)]
        {
            assert_eq!(column_width(epoch * ms), column * ms);
        }
    }

    #[test]
    fn latencies_are_told_within_a_tenth() {
        for nanos in [2_000, 1_000_000, 240_000_000, 9_000_000_000] {
            let told = latency_ms(latency_row(nanos)) * 1e6;
            assert!((0.9..1.1).contains(&(told / nanos as f64)), "{nanos}");
        }
        assert_eq!((latency_row(0), latency_row(u64::MAX)), (0, LATENCY_ROWS - 1));
    }
}
