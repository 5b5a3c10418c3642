//! Counts what passes to a store: calls, and the bytes at rest that they move. Names, places and
//! framing are not counted: these differ from one back end to the next.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_store::{Call, Cell, Operation, Reply, Store, StoreError, store_by_calls};

/// What the names of the vault's blobs begin with (`docs/format.md`).
const JOURNAL: &str = "journal/";
const CHECKPOINT: &str = "checkpoint/";

/// A store that counts.
pub struct Counted<S> {
    inner: S,
    calls: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    journal: AtomicU64,
    checkpoints: AtomicU64,
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
    /// Those of them in the journal's records.
    pub journal: u64,
    /// Those in pieces of checkpoints.
    pub checkpoints: u64,
}

impl Traffic {
    /// What has passed since `before`.
    pub fn since(self, before: Traffic) -> Traffic {
        Traffic {
            calls: self.calls - before.calls,
            read: self.read - before.read,
            written: self.written - before.written,
            journal: self.journal - before.journal,
            checkpoints: self.checkpoints - before.checkpoints,
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.read += other.read;
        self.written += other.written;
        self.journal += other.journal;
        self.checkpoints += other.checkpoints;
    }
}

impl<S: Store> Counted<S> {
    /// Counts what passes to `inner`.
    pub fn new(inner: S) -> Self {
        let none = AtomicU64::default;
        let (calls, read, written) = (none(), none(), none());
        Self { inner, calls, read, written, journal: none(), checkpoints: none() }
    }

    /// What has passed so far.
    pub fn traffic(&self) -> Traffic {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Traffic {
            calls: now(&self.calls),
            read: now(&self.read),
            written: now(&self.written),
            journal: now(&self.journal),
            checkpoints: now(&self.checkpoints),
        }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        let sent: usize = match &call {
            Call::WriteChunks(writes) => writes.iter().map(|write| write.data.len()).sum(),
            Call::BlobPut(_, data, _) => data.len(),
            _ => 0,
        };
        if let Call::BlobPut(name, ..) = &call {
            let parts = [(JOURNAL, &self.journal), (CHECKPOINT, &self.checkpoints)].into_iter();
            for (_, part) in parts.filter(|(prefix, _)| name.starts_with(prefix)) {
                part.fetch_add(sent as u64, Ordering::Relaxed);
            }
        }
        let asks = call.operation() != Operation::Barrier;
        self.calls.fetch_add(asks.into(), Ordering::Relaxed);
        self.written.fetch_add(sent as u64, Ordering::Relaxed);
        let reply = call.perform(&self.inner).await?;
        let came: usize = match &reply {
            Reply::Cells(cells) => cells.iter().map(cell_bytes).sum(),
            Reply::Chunks(chunks) => chunks.iter().flatten().map(|data| data.len()).sum(),
            Reply::Blob(Some((data, _))) => data.len(),
            _ => 0,
        };
        self.read.fetch_add(came as u64, Ordering::Relaxed);
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
