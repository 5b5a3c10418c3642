//! A store between engine and cloud that writes the first cell of a bucket as it was in the version
//! before: what an engine does that seals a block again only when it has changed.
//!
//! The engine itself gets back what it wrote, so that it goes on.

use std::collections::BTreeMap;

use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_store::{
    Call, Cell, CellReads, ChunkName, ChunkWrite, Reply, Result, Store, store_by_calls,
};

/// Writes first cells once.
pub struct Keeping<S> {
    inner: S,
    cell_bytes: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// What the engine wrote.
    chunks: BTreeMap<ChunkName, Bytes>,
    /// By chunk: the first cell that was ever written.
    first: BTreeMap<u32, Bytes>,
}

impl<S: Store> Keeping<S> {
    pub fn new(inner: S, cell_bytes: usize) -> Self {
        Self { inner, cell_bytes, known: Mutex::default() }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        match call {
            Call::WriteChunks(writes) => {
                let kept = writes.iter().map(|write| self.keep(write)).collect();
                Call::WriteChunks(kept).perform(&self.inner).await
            }
            Call::ReadCells(reads) => {
                Call::ReadCells(reads).perform(&self.inner).await?;
                Ok(Reply::Cells(self.written(reads)))
            }
            other => other.perform(&self.inner).await,
        }
    }

    fn keep(&self, write: &ChunkWrite) -> ChunkWrite {
        let mut known = self.known.lock();
        known.chunks.insert(write.chunk, write.data.clone());
        let own = write.data.slice(..self.cell_bytes);
        let first = known.first.entry(write.chunk.chunk).or_insert(own);
        let data = [first, &write.data[self.cell_bytes..]].concat().into();
        ChunkWrite { chunk: write.chunk, data }
    }

    fn written(&self, reads: &CellReads) -> Vec<Cell> {
        let known = self.known.lock();
        let cell = |chunk: &Bytes, cell: u16| {
            let start = usize::from(cell) * self.cell_bytes;
            Cell::Bytes(chunk.slice(start..start + self.cell_bytes))
        };
        let mut cells = Vec::with_capacity(reads.cell_count());
        for read in reads.iter() {
            let chunk = known.chunks.get(&read.chunk);
            let of = |at: &u16| chunk.map_or(Cell::NotWritten, |chunk| cell(chunk, *at));
            cells.extend(read.cells.iter().map(of));
        }
        cells
    }
}

store_by_calls!(Keeping);
