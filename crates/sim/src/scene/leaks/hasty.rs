//! A store that has the cells before they have all come: what an engine does that goes on once the
//! block it seeks is there.
//!
//! It remembers every chunk that it was given. A read that takes longer than usual is answered from
//! memory, while the request itself is still under way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_env::{Clock, Mutex, Nanos};
use fogbank_store::{Call, Cell, CellReads, ChunkName, Reply, Result, Store, store_by_calls};

/// Answers reads after `patience` at the latest.
pub struct Hasty<S> {
    inner: S,
    /// The same store, for requests that outlast their caller.
    lasting: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    patience: Nanos,
    cell_bytes: usize,
    chunks: Mutex<BTreeMap<ChunkName, Bytes>>,
}

impl Hasty<Arc<dyn Store>> {
    pub fn new(
        inner: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        patience: Duration,
        cell_bytes: usize,
    ) -> Self {
        let patience = patience.as_nanos() as Nanos;
        let lasting = inner.clone();
        Self { inner, lasting, clock, patience, cell_bytes, chunks: Mutex::default() }
    }
}

impl<S: Store> Hasty<S> {
    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        match call {
            Call::ReadCells(reads) => self.read(reads.clone()).await,
            Call::WriteChunks(writes) => {
                self.chunks
                    .lock()
                    .extend(writes.iter().map(|write| (write.chunk, write.data.clone())));
                Call::WriteChunks(writes).perform(&self.inner).await
            }
            other => other.perform(&self.inner).await,
        }
    }

    async fn read(&self, reads: CellReads) -> Result<Reply> {
        let (lasting, asked) = (self.lasting.clone(), reads.clone());
        let underway = tokio::spawn(async move { lasting.read_cells(&asked).await });
        tokio::select! {
            biased;
            Ok(reply) = underway => Ok(Reply::Cells(reply?)),
            () = self.clock.sleep_until(self.clock.now() + self.patience) => Ok(self.known(&reads)),
        }
    }

    fn known(&self, reads: &CellReads) -> Reply {
        let chunks = self.chunks.lock();
        let cell = |name, cell: &u16| {
            let start = usize::from(*cell) * self.cell_bytes;
            let chunk = chunks.get(&name)?;
            Some(Cell::Bytes(chunk.slice(start..start + self.cell_bytes)))
        };
        let each = reads.iter().flat_map(|read| {
            let cells: Vec<_> = read.cells.iter().map(|at| cell(read.chunk, at)).collect();
            cells
        });
        Reply::Cells(each.map(|cell| cell.unwrap_or(Cell::NotWritten)).collect())
    }
}

store_by_calls!(Hasty);
