//! Counts what passes to a store: calls, and the bytes at rest that they move. Names, places and
//! framing are not counted: these differ from one back end to the next.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_store::{Call, Cell, Operation, Reply, Store, StoreError, store_by_calls};

/// What the names of the vault's blobs begin with (`docs/format.md`).
const JOURNAL: &str = "journal/";
const CHECKPOINT: &str = "checkpoint/";
/// And those of a site's superblocks.
const SUPERBLOCK: &str = "superblock/";

/// A store that counts.
pub struct Counted<S> {
    inner: S,
    calls: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    cells: AtomicU64,
    chunks: AtomicU64,
    journal: AtomicU64,
    checkpoints: AtomicU64,
    superblocks: AtomicU64,
}

/// What has passed so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traffic {
    /// Calls.
    pub calls: u64,
    /// Bytes of cells, chunks and blobs that came back.
    pub read: u64,
    /// Bytes of chunks and blobs that were sent.
    pub written: u64,
    /// Those of the first in cells that were read one by one.
    pub cells: u64,
    /// Those of both in whole chunks.
    pub chunks: u64,
    /// Those that were sent in the journal's records.
    pub journal: u64,
    /// Those that were sent in pieces of checkpoints.
    pub checkpoints: u64,
    /// Those of both in superblocks of a site.
    pub superblocks: u64,
}

impl Traffic {
    /// What has passed since `before`.
    pub fn since(self, before: Traffic) -> Traffic {
        Traffic {
            calls: self.calls - before.calls,
            read: self.read - before.read,
            written: self.written - before.written,
            cells: self.cells - before.cells,
            chunks: self.chunks - before.chunks,
            journal: self.journal - before.journal,
            checkpoints: self.checkpoints - before.checkpoints,
            superblocks: self.superblocks - before.superblocks,
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.read += other.read;
        self.written += other.written;
        self.cells += other.cells;
        self.chunks += other.chunks;
        self.journal += other.journal;
        self.checkpoints += other.checkpoints;
        self.superblocks += other.superblocks;
    }
}

impl<S: Store> Counted<S> {
    /// Counts what passes to `inner`.
    pub fn new(inner: S) -> Self {
        let none = AtomicU64::default;
        let (calls, read, written, cells, chunks) = (none(), none(), none(), none(), none());
        let (journal, checkpoints, superblocks) = (none(), none(), none());
        Self { inner, calls, read, written, cells, chunks, journal, checkpoints, superblocks }
    }

    /// What has passed so far.
    pub fn traffic(&self) -> Traffic {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Traffic {
            calls: now(&self.calls),
            read: now(&self.read),
            written: now(&self.written),
            cells: now(&self.cells),
            chunks: now(&self.chunks),
            journal: now(&self.journal),
            checkpoints: now(&self.checkpoints),
            superblocks: now(&self.superblocks),
        }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        let sent: usize = match &call {
            Call::WriteChunks(writes) => writes.iter().map(|write| write.data.len()).sum(),
            Call::BlobPut(_, data, _) => data.len(),
            _ => 0,
        };
        let add = |part: &AtomicU64, bytes: usize| part.fetch_add(bytes as u64, Ordering::Relaxed);
        match &call {
            Call::WriteChunks(_) => _ = add(&self.chunks, sent),
            Call::BlobPut(name, ..) => {
                let parts = [
                    (JOURNAL, &self.journal),
                    (CHECKPOINT, &self.checkpoints),
                    (SUPERBLOCK, &self.superblocks),
                ];
                let of = parts.into_iter().filter(|(prefix, _)| name.starts_with(prefix));
                of.for_each(|(_, part)| _ = add(part, sent));
            }
            _ => {}
        }
        let is_superblock = matches!(&call, Call::BlobGet(name) if name.starts_with(SUPERBLOCK));
        let asks = call.operation() != Operation::Barrier;
        self.calls.fetch_add(asks.into(), Ordering::Relaxed);
        add(&self.written, sent);
        let reply = call.perform(&self.inner).await?;
        let came: usize = match &reply {
            Reply::Cells(cells) => cells.iter().map(cell_bytes).sum(),
            Reply::Chunks(chunks) => chunks.iter().flatten().map(|data| data.len()).sum(),
            Reply::Blob(Some((data, _))) => data.len(),
            _ => 0,
        };
        add(&self.read, came);
        match &reply {
            Reply::Cells(_) => _ = add(&self.cells, came),
            Reply::Chunks(_) => _ = add(&self.chunks, came),
            Reply::Blob(_) if is_superblock => _ = add(&self.superblocks, came),
            _ => {}
        }
        Ok(reply)
    }
}

store_by_calls!(Counted);

fn cell_bytes(cell: &Cell) -> usize {
    match cell {
        Cell::Bytes(bytes) => bytes.len(),
        Cell::NotWritten => 0,
    }
}
