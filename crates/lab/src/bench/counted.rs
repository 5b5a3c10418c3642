//! Counts what passes to a store: calls, and the bytes at rest that they move. Names, places and
//! framing are not counted: these differ from one back end to the next.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_store::{Call, Cell, Operation, Reply, Store, StoreError, store_by_calls};

/// A store that counts.
pub struct Counted<S> {
    inner: S,
    calls: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
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
}

impl Traffic {
    /// What has passed since `before`.
    pub fn since(self, before: Traffic) -> Traffic {
        Traffic {
            calls: self.calls - before.calls,
            read: self.read - before.read,
            written: self.written - before.written,
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.read += other.read;
        self.written += other.written;
    }
}

impl<S: Store> Counted<S> {
    /// Counts what passes to `inner`.
    pub fn new(inner: S) -> Self {
        Self { inner, calls: 0.into(), read: 0.into(), written: 0.into() }
    }

    /// What has passed so far.
    pub fn traffic(&self) -> Traffic {
        let [calls, read, written] =
            [&self.calls, &self.read, &self.written].map(|count| count.load(Ordering::Relaxed));
        Traffic { calls, read, written }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        let sent: usize = match &call {
            Call::WriteChunks(writes) => writes.iter().map(|write| write.data.len()).sum(),
            Call::BlobPut(_, data, _) => data.len(),
            _ => 0,
        };
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
