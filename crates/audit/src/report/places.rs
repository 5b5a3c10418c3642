//! What the cloud saw: which places were touched when, and how much of everything went by.
//!
//! A touch is a cell read, or a bucket read, written or deleted as a whole. The root of a tree is
//! on top, one band a level; other arrays have a band each; blobs share one. Memory is a few bands,
//! whatever the trace's length.

use fogbank_env::Nanos;
use fogbank_picture::{Band, HeatMap, Picture};
use fogbank_store::trace::{Event, LogCall, Outcome, Request};
use fogbank_store::{ArrayId, ChunkName};
use serde::Serialize;

use crate::engine;

/// How much went by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Events of the trace.
    pub events: u64,
    /// Requests.
    pub requests: u64,
    /// Cells asked for.
    pub cells_read: u64,
    /// Chunks written.
    pub chunks_written: u64,
    /// Bytes of chunks and blobs written.
    pub bytes_up: u64,
    /// Bytes of cells, chunks and blobs returned.
    pub bytes_down: u64,
    /// From the first event to the last.
    pub duration_ns: u64,
}

impl Sizes {
    /// These and those of another run.
    pub fn and(self, other: Sizes) -> Sizes {
        Sizes {
            events: self.events + other.events,
            requests: self.requests + other.requests,
            cells_read: self.cells_read + other.cells_read,
            chunks_written: self.chunks_written + other.chunks_written,
            bytes_up: self.bytes_up + other.bytes_up,
            bytes_down: self.bytes_down + other.bytes_down,
            duration_ns: self.duration_ns + other.duration_ns,
        }
    }
}

/// What of an engine's configuration the picture goes by.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub leaf_level: u8,
    pub cached_levels: u8,
    pub array: u16,
    /// How long an epoch is, or from one point of a fixed rate to the next; 0 if there is no beat.
    pub beat: Nanos,
}

/// One run as the cloud saw it, gathered event by event.
#[derive(Debug, Clone)]
pub struct Seen {
    tree: Option<Tree>,
    started: Option<Nanos>,
    last: Nanos,
    /// Of a tree: a band a level that is in the cloud, from its top.
    levels: Vec<Band>,
    arrays: Vec<(ArrayId, Band)>,
    blobs: Option<Band>,
    sizes: Sizes,
}

impl Seen {
    /// Nothing yet. `config` is what the head of the trace holds; where it says nothing that is
    /// understood, places are shown by array and chunk.
    pub fn new(config: &[u8]) -> Self {
        let tree = engine::decode(config).ok().and_then(|(_, engine)| engine.tree());
        Self {
            tree: tree.filter(|t| t.leaf_level < 32 && t.cached_levels <= t.leaf_level),
            started: None,
            last: 0,
            levels: Vec::new(),
            arrays: Vec::new(),
            blobs: None,
            sizes: Sizes::default(),
        }
    }

    /// Takes in the next event of the trace.
    pub fn event(&mut self, event: &Event) {
        let at = event.at();
        if self.started.is_none() {
            self.begin(at);
        }
        self.last = self.last.max(at);
        self.sizes.events += 1;
        match event {
            Event::Sent(sent) => self.request(at, &sent.request),
            Event::Done(done) => self.sizes.bytes_down += bytes_of(&done.outcome),
            Event::Heard(heard) => self.sizes.bytes_down += heard.bytes,
            Event::Mark(_) | Event::ClientRequest(_) | Event::ClientReply(_) => {}
        }
    }

    /// How much went by.
    pub fn sizes(&self) -> Sizes {
        let duration_ns = self.last - self.started.unwrap_or(self.last);
        Sizes { duration_ns, ..self.sizes }
    }

    /// When the picture of this run begins, and how wide a column is at first: a history that is
    /// shown beside it begins the same.
    pub fn scale(&self) -> (Nanos, Nanos) {
        (self.started.unwrap_or(0), self.column_ns())
    }

    /// The picture of all places over time.
    pub fn picture(&self) -> Picture {
        let arrays = self.arrays.iter().map(|(_, band)| band);
        let bands = self.levels.iter().chain(arrays).chain(&self.blobs).cloned();
        let mut picture = Picture { bands: bands.collect() };
        if let Some(first) = picture.bands.first_mut() {
            first.map.extend_to(self.last);
        }
        picture.align();
        picture
    }

    fn begin(&mut self, at: Nanos) {
        self.started = Some(at);
        let Some(tree) = &self.tree else { return };
        let levels = tree.cached_levels..=tree.leaf_level;
        let rows = (ROWS / levels.clone().count()).next_power_of_two() / 2;
        let bands = levels.map(|level| {
            let buckets = 1u64 << level;
            let rows = buckets.min(rows.clamp(1, BAND_ROWS) as u64) as usize;
            let map = HeatMap::new(rows, at, self.column_ns()).with_places(buckets);
            Band { title: format!("level {level}"), map }
        });
        self.levels = bands.collect();
    }

    /// Columns of a whole part of an epoch show its beat, and never a pattern of their own once
    /// they are wider than one.
    fn column_ns(&self) -> Nanos {
        let beat = self.tree.as_ref().map_or(0, |tree| tree.beat);
        if beat == 0 {
            return COLUMN_NS;
        }
        let halvings = (beat / COLUMN_NS).max(1).ilog2().min(beat.trailing_zeros());
        beat >> halvings
    }

    fn request(&mut self, at: Nanos, request: &Request) {
        self.sizes.requests += 1;
        match request {
            Request::CreateArray { array, shape } => {
                self.array(at, *array, u64::from(shape.chunks));
            }
            Request::ReadCells { reads } | Request::ReadXor { reads, .. } => {
                for read in reads {
                    self.sizes.cells_read += read.cells.len() as u64;
                    self.touch(at, read.chunk, read.cells.len() as u64);
                }
            }
            Request::ReadChunks { chunks } | Request::DeleteChunks { chunks } => {
                chunks.iter().for_each(|chunk| self.touch(at, *chunk, 1));
            }
            Request::WriteChunks { writes } => {
                self.sizes.chunks_written += writes.len() as u64;
                for (chunk, seen) in writes {
                    self.sizes.bytes_up += seen.bytes;
                    self.touch(at, *chunk, 1);
                }
            }
            Request::BlobPut { bytes, .. } => {
                self.sizes.bytes_up += bytes;
                self.blob(at, 1);
            }
            Request::Log(LogCall::Append { bytes, .. } | LogCall::Publish { bytes, .. }) => {
                self.sizes.bytes_up += bytes;
            }
            Request::BlobGet { .. } => self.blob(at, 1),
            Request::BlobDelete { names } => self.blob(at, names.len() as u64),
            Request::DropArray { .. }
            | Request::ListChunks { .. }
            | Request::BlobList { .. }
            | Request::Barrier
            | Request::Log(LogCall::Follow { .. } | LogCall::Forget { .. }) => {}
        }
    }

    fn touch(&mut self, at: Nanos, name: ChunkName, amount: u64) {
        match self.level_of(name) {
            Some((level, index)) => self.levels[level].map.touch(at, index, amount),
            None => self.array(at, name.array, 0).map.touch(at, u64::from(name.chunk), amount),
        }
    }

    /// The band and the index within it of a bucket of the tree: chunks are numbered level by level
    /// from the first that is not kept in the proxy.
    fn level_of(&self, name: ChunkName) -> Option<(usize, u64)> {
        let tree = self.tree.as_ref().filter(|tree| ArrayId(tree.array) == name.array)?;
        let number = u64::from(name.chunk) + (1u64 << tree.cached_levels);
        let level = number.ilog2() as u8;
        let band = usize::from(level.checked_sub(tree.cached_levels)?);
        (band < self.levels.len()).then(|| (band, number - (1u64 << level)))
    }

    fn array(&mut self, at: Nanos, array: ArrayId, chunks: u64) -> &mut Band {
        let is_tree = self.tree.as_ref().is_some_and(|tree| ArrayId(tree.array) == array);
        if is_tree && chunks > 0 {
            return &mut self.levels[0]; // it has its bands already
        }
        let known = self.arrays.iter().position(|(id, _)| *id == array);
        let slot = known.unwrap_or_else(|| {
            if self.arrays.len() == ARRAYS_MAX {
                return ARRAYS_MAX - 1; // the last band is for all that found no other
            }
            let (origin, column_ns) = self.scale();
            let map = HeatMap::new(BAND_ROWS, origin.min(at), column_ns);
            let title = match self.arrays.len() + 1 {
                ARRAYS_MAX => "others".into(),
                _ => format!("array {}", array.0),
            };
            self.arrays.push((array, Band { title, map: map.with_places(chunks) }));
            self.arrays.len() - 1
        });
        &mut self.arrays[slot].1
    }

    fn blob(&mut self, at: Nanos, amount: u64) {
        let (origin, column_ns) = self.scale();
        let band = self.blobs.get_or_insert_with(|| Band {
            title: "blobs".into(),
            map: HeatMap::new(1, origin, column_ns),
        });
        band.map.touch(at, 0, amount);
    }
}

fn bytes_of(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Cells(seen) | Outcome::Chunks(seen) => {
            seen.iter().flatten().map(|one| one.bytes).sum()
        }
        Outcome::Blob(Some(seen)) => seen.bytes,
        _ => 0,
    }
}

/// Rows of all levels together, about.
const ROWS: usize = 160;
/// Rows of one band at most.
const BAND_ROWS: usize = 32;
/// Bands of arrays at most.
const ARRAYS_MAX: usize = 6;
/// A first column where there is no epoch to go by.
const COLUMN_NS: Nanos = 1_000_000;
