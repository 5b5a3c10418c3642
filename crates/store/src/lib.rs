//! What the cloud keeps and what it sees.
//!
//! Everything that passes through [`Store`] is seen by the adversary, so the interface is small and
//! in his terms. A place is (array, chunk, version, cell):
//!
//! - an *array* is a set of equal cells grouped in chunks;
//! - a *chunk version* is written whole, once, and never changed; its cells may be read singly;
//! - a *blob* is a small named object (journal record, checkpoint piece, commit record) that can be
//!   put conditionally, which is what commit and fencing stand on.
//!
//! What was never written is a value ([`Cell::NotWritten`], `None`), not an error; an absent cloud
//! is an error. This crate cannot name a key: it does not depend on the crate that holds them.

//!
//! Back ends: [`MemoryStore`], [`FileStore`]; by URL: [`url::open`]. Wrappers, one behaviour each,
//! stack on any of them: [`Recorded`] (the [`trace`] of everything the cloud saw), [`Delay`],
//! [`BlobsApart`], [`BlobsTwice`], [`Faulty`], [`Limit`], [`OrderedGridStore`], [`Retry`], and
//! under the feature `testing` the store that lies.
//!
//! A [`Log`] is what clients without a proxy meet at; [`BlobLog`] is one over any store,
//! [`RecordedLog`] records it.

mod absence;
mod blob_log;
mod blobs_apart;
mod blobs_twice;
mod call;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod delay;
mod departure_grid;
mod fault;
mod file;
mod forward;
mod hash;
mod limit;
mod link_pacer;
mod log;
#[cfg(any(test, feature = "testing"))]
pub mod log_conformance;
mod memory;
mod ordered_grid_store;
mod reading;
mod record;
mod record_log;
mod retry;
pub mod shape;
#[cfg(any(test, feature = "testing"))]
mod tamper;
mod told_log;
pub mod trace;
pub mod url;
mod xor;

pub use absence::Absences;
pub use blob_log::{BlobLog, LOG_KEPT_BYTES, LogListener, is_of_forgotten};
pub use blobs_apart::BlobsApart;
pub use blobs_twice::BlobsTwice;
pub use call::{Call, Operation, Reply};
pub use delay::{Delay, FarLog, Link};
pub use departure_grid::{DepartureGrid, GridStore};
pub use fault::{Fault, FaultRule, Faulty};
pub use file::{FileOptions, FileStore};
pub use hash::{PlaceHasher, PlaceHashing, PlaceMap};
pub use limit::Limit;
pub use link_pacer::LinkPacer;
pub use log::{
    LOG_BYTES_MAX, LOG_EVENTS_AHEAD, Log, LogEntry, LogEvent, LogEvents, check_log_bytes,
};
pub use memory::MemoryStore;
pub use ordered_grid_store::OrderedGridStore;
pub use reading::Reading;
pub use record::Recorded;
pub use record_log::RecordedLog;
pub use retry::{Retry, RetrySchedule};
pub use shape::CHUNK_BYTES_MAX;
#[cfg(any(test, feature = "testing"))]
pub use tamper::{Lie, LieRule, Tampering};
pub use told_log::ToldLog;
pub use xor::{read_xor_or_fold, xor_into};

use async_trait::async_trait;
use bytes::Bytes;

/// Names one array of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArrayId(pub u16);

/// The shape of an array, fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayShape {
    /// Chunks that may exist, numbered from 0.
    pub chunks: u32,
    /// Cells of every chunk.
    pub cells_per_chunk: u16,
    /// Bytes of every cell.
    pub cell_bytes: u32,
}

impl ArrayShape {
    /// Bytes of one chunk version.
    pub fn chunk_bytes(&self) -> usize {
        self.cells_per_chunk as usize * self.cell_bytes as usize
    }
}

/// Names one version of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkName {
    /// The array.
    pub array: ArrayId,
    /// The chunk within it.
    pub chunk: u32,
    /// The version: never reused for other content.
    pub version: u64,
}

/// A read of some cells of one chunk version: `cells` are strictly increasing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellRead<'a> {
    /// Where to read.
    pub chunk: ChunkName,
    /// Which cells, strictly increasing.
    pub cells: &'a [u16],
}

/// A batch of cell reads in one flat allocation: `cells` of read `i` follow those of read `i - 1`.
#[derive(Debug, Clone, Default)]
pub struct CellReads {
    chunks: Vec<(ChunkName, u32)>, // name, end of its cells in `cells`
    cells: Vec<u16>,
}

impl CellReads {
    /// Appends a read of `cells` (strictly increasing) of `chunk`.
    pub fn push(&mut self, chunk: ChunkName, cells: impl IntoIterator<Item = u16>) {
        self.cells.extend(cells);
        self.chunks.push((chunk, self.cells.len() as u32));
    }

    /// The reads in order.
    pub fn iter(&self) -> impl Iterator<Item = CellRead<'_>> {
        (0..self.chunks.len()).map(move |i| self.get(i))
    }

    /// The read at `index`, which must be less than [`CellReads::len`].
    pub fn get(&self, index: usize) -> CellRead<'_> {
        let start = if index == 0 { 0 } else { self.chunks[index - 1].1 as usize };
        let (chunk, end) = self.chunks[index];
        CellRead { chunk, cells: &self.cells[start..end as usize] }
    }

    /// How many reads (chunk versions touched).
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// How many cells over all reads: the length of the reply.
    pub fn cell_count(&self) -> usize {
        self.cells.len()
    }

    /// Forgets all reads, keeping the memory.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.cells.clear();
    }
}

/// What the store holds at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// The bytes written there. As long as the array's cells unless the cloud lies: the reader
    /// checks.
    Bytes(Bytes),
    /// That chunk version was never written, or was deleted.
    NotWritten,
}

/// One chunk version to write, whole.
#[derive(Debug, Clone)]
pub struct ChunkWrite {
    /// Its name; must not have been written before.
    pub chunk: ChunkName,
    /// All its cells one after the other.
    pub data: Bytes,
}

/// When a blob may be put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutCondition {
    /// Whatever is there.
    Always,
    /// Only if nothing is there.
    IfAbsent,
    /// Only if what is there is still what [`Store::blob_get`] returned with this tag.
    IfUnchanged(BlobTag),
}

impl PutCondition {
    /// What became of a put of `data` whose condition does not hold any more though an earlier try
    /// may have been done, as what is `there` tells: its own bytes are its own work. So no two
    /// writers put the same.
    pub fn settled(&self, there: Option<(Bytes, BlobTag)>, data: &Bytes) -> PutOutcome {
        let untouched = |tag: &BlobTag| matches!(self, Self::IfUnchanged(seen) if seen == tag);
        match there {
            Some((there, tag)) if there == *data && !untouched(&tag) => PutOutcome::Done(tag),
            _ => PutOutcome::ConditionFailed,
        }
    }
}

/// The store's own mark of one content of a blob (an object store's ETag). Two puts of the same
/// bytes may have the same tag: whoever stands on [`PutCondition::IfUnchanged`] never puts the same
/// bytes twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobTag(pub Box<str>);

/// What became of a conditional put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// It is there now, under this tag.
    Done(BlobTag),
    /// The condition did not hold; nothing was changed.
    ConditionFailed,
}

/// Errors of a store, by blame.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The cloud did not answer, or answered that it cannot now. Trying again is sound.
    #[error("the store is absent: {0}")]
    Absent(String),
    /// The cloud broke the contract in a way that is visible without any key.
    #[error("the store misbehaved: {0}")]
    Misbehaved(String),
    /// The store is there and allows no more: its operator has to. Trying again changes nothing.
    #[error("the store refuses: {0}")]
    Refused(String),
    /// What is kept on the disk of this process itself, and in no cloud, cannot be used now:
    /// whoever runs it has to see to that.
    #[error("{0}")]
    Near(String),
    /// There is no such array. Whoever has created it learns that the cloud has lost it.
    #[error("{0}")]
    NoArray(String),
    /// The caller asked for what the store's shape does not allow.
    #[error("wrong use of the store: {0}")]
    Caller(String),
}

/// The result of a store call.
pub type Result<T> = std::result::Result<T, StoreError>;

/// What the cloud can do. Every call is one batch; one round trip where the back end can.
///
/// Implementers owe: replies complete and in the order asked; a chunk version readable by the
/// caller after `write_chunks` returns, durable after `barrier` returns; a blob durable when its
/// put returns; atomic conditional puts. `conformance::run` is the suite that every back end
/// passes.
#[async_trait]
pub trait Store: Send + Sync {
    /// Makes an array; instant whatever its size. Creating it again with the same shape is fine,
    /// with another one is the caller's error.
    async fn create_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()>;

    /// Says which shape an array has that an earlier process made. Nothing is asked of the cloud:
    /// what it says from now on is held against this, and takes no more memory than this allows. A
    /// store across a network reads and lists no other arrays than those that it was told of here
    /// or made itself.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if what is at hand already says otherwise.
    fn expect_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()>;

    /// Removes an array and all its chunks; fine if there is none.
    async fn drop_array(&self, array: ArrayId) -> Result<()>;

    /// Reads cells; the reply has one entry a cell, in the order asked.
    async fn read_cells(&self, reads: &CellReads) -> Result<Vec<Cell>>;

    /// Reads whole chunk versions; `None` where not written.
    async fn read_chunks(&self, chunks: &[ChunkName]) -> Result<Vec<Option<Bytes>>>;

    /// Writes chunk versions, each whole.
    async fn write_chunks(&self, writes: Vec<ChunkWrite>) -> Result<()>;

    /// Deletes chunk versions; fine if they are not there.
    async fn delete_chunks(&self, chunks: &[ChunkName]) -> Result<()>;

    /// Every chunk version of an array that is there, in no particular order. Of more than
    /// [`ArrayShape::listed_max`] some may be left out: a cloud does not decide how long a list is.
    /// Whoever deletes what is listed and lists again gets the others.
    async fn list_chunks(&self, array: ArrayId) -> Result<Vec<ChunkName>>;

    /// Reads a blob with its tag; `None` where there is none.
    async fn blob_get(&self, name: &str) -> Result<Option<(Bytes, BlobTag)>>;

    /// Puts a blob if `condition` holds. It is durable when this returns.
    async fn blob_put(
        &self,
        name: &str,
        data: Bytes,
        condition: PutCondition,
    ) -> Result<PutOutcome>;

    /// Deletes blobs; fine if they are not there.
    async fn blob_delete(&self, names: &[&str]) -> Result<()>;

    /// The names of all blobs that start with `prefix`, in order; some may be left out if there are
    /// more than [`shape::BLOBS_LISTED_MAX`].
    async fn blob_list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Returns once everything written or deleted before is durable.
    async fn barrier(&self) -> Result<()>;

    /// Waits until every call made so far has left and what leaves next may be made: where calls
    /// leave at points of a grid, until the middle between the last point and the next. At once
    /// where nobody waits.
    async fn all_left(&self) {}

    /// Where calls leave at points of a grid: those made from now on leave no sooner than `points`
    /// after the first that follows the last reply. However late the caller is woken after that
    /// reply, they leave then.
    fn let_points_pass(&self, points: u32) {
        let _ = points;
    }

    /// The store's offer to combine cells for us, if it has one.
    fn xor(&self) -> Option<&dyn XorCells> {
        None
    }
}

/// Work the cloud may do: the XOR of some cells as one reply (Ring ORAM's bandwidth trick).
#[async_trait]
pub trait XorCells: Send + Sync {
    /// One reply a group: the XOR of all cells of the reads `groups[i-1]..groups[i]` of `reads`
    /// (from 0 for the first). A cell that was not written makes that group's reply `NotWritten`.
    async fn read_xor(&self, reads: &CellReads, groups: &[u32]) -> Result<Vec<Cell>>;
}
