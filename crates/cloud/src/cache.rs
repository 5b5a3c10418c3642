//! The chunks near the top of trees, kept in memory: they are asked for most.
//!
//! The rule is public, a function of the shapes of arrays alone: trees number their buckets from
//! the root, so the chunks below a number are kept, the same number of every array that has so
//! many, as large as fits when each is kept in two versions. What is beyond is never kept, whoever
//! asks how often.
//!
//! Invariants
//! - A chunk version never changes, so what is kept is what the store inside has; it is forgotten
//!   before it is deleted there.
//! - No more than the given bytes are kept.

use std::collections::BTreeMap;

use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_store::{
    ArrayId, ArrayShape, Call, Cell, CellReads, ChunkName, Reply, Result, Store, store_by_calls,
};

/// A store whose lowest chunks are kept in memory.
pub struct TopCache<S> {
    inner: S,
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    arrays: BTreeMap<ArrayId, ArrayShape>,
    chunks: BTreeMap<ChunkName, Bytes>,
    bytes: usize,
    /// Chunks from this number on are not kept.
    below: u32,
}

impl Kept {
    fn reckon(&mut self, bytes_max: usize) {
        let needed = |below: u32| {
            let of =
                |shape: &ArrayShape| below.min(shape.chunks) as usize * shape.chunk_bytes() * 2;
            self.arrays.values().map(of).sum::<usize>()
        };
        let (mut fits, mut does_not) = (0, u32::MAX);
        while does_not - fits > 1 {
            let middle = fits + (does_not - fits) / 2;
            if needed(middle) <= bytes_max { fits = middle } else { does_not = middle }
        }
        self.below = fits;
        let beyond: Vec<_> = self.chunks.keys().filter(|c| c.chunk >= fits).copied().collect();
        beyond.iter().for_each(|name| self.forget(name));
    }

    fn keep(&mut self, name: ChunkName, data: &Bytes, bytes_max: usize) {
        let wanted = name.chunk < self.below && self.arrays.contains_key(&name.array);
        if wanted && self.bytes + data.len() <= bytes_max && !self.chunks.contains_key(&name) {
            self.bytes += data.len();
            // In memory of its own: a slice would keep all that it arrived with.
            self.chunks.insert(name, Bytes::copy_from_slice(data));
        }
    }

    fn forget(&mut self, name: &ChunkName) {
        if let Some(data) = self.chunks.remove(name) {
            self.bytes -= data.len();
        }
    }

    fn forget_array(&mut self, array: ArrayId) {
        self.arrays.remove(&array);
        let of: Vec<_> = self.chunks.keys().filter(|name| name.array == array).copied().collect();
        of.iter().for_each(|name| self.forget(name));
    }

    fn cell(&self, name: ChunkName, cell: u16) -> Option<Cell> {
        let (data, shape) = (self.chunks.get(&name)?, self.arrays.get(&name.array)?);
        let start = usize::from(cell) * shape.cell_bytes as usize;
        let end = start + shape.cell_bytes as usize;
        (end <= data.len()).then(|| Cell::Bytes(data.slice(start..end)))
    }
}

impl<S: Store> TopCache<S> {
    /// Keeps up to `bytes_max` bytes of what is in `inner`, which has `arrays`.
    pub fn new(inner: S, arrays: Vec<(ArrayId, ArrayShape)>, bytes_max: usize) -> Self {
        let mut kept = Kept { arrays: arrays.into_iter().collect(), ..Kept::default() };
        kept.reckon(bytes_max);
        Self { inner, bytes_max, kept: Mutex::new(kept) }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        match call {
            Call::ReadCells(reads) => self.read(reads).await.map(Reply::Cells),
            Call::CreateArray(array, shape) => {
                self.inner.create_array(array, shape).await?;
                let mut kept = self.kept.lock();
                kept.arrays.insert(array, shape);
                kept.reckon(self.bytes_max);
                Ok(Reply::Done)
            }
            Call::DropArray(array) => {
                self.kept.lock().forget_array(array);
                self.inner.drop_array(array).await?;
                let mut kept = self.kept.lock();
                kept.forget_array(array); // what a write beside this one brought
                kept.reckon(self.bytes_max);
                Ok(Reply::Done)
            }
            Call::WriteChunks(writes) => {
                self.inner.write_chunks(writes.clone()).await?;
                let mut kept = self.kept.lock();
                writes.iter().for_each(|write| kept.keep(write.chunk, &write.data, self.bytes_max));
                Ok(Reply::Done)
            }
            Call::DeleteChunks(chunks) => {
                let forget = || {
                    let mut kept = self.kept.lock();
                    chunks.iter().for_each(|name| kept.forget(name));
                };
                forget();
                self.inner.delete_chunks(chunks).await?;
                forget();
                Ok(Reply::Done)
            }
            other => other.perform(&self.inner).await,
        }
    }

    /// Cells that are kept, and the others from inside, in the order asked.
    async fn read(&self, reads: &CellReads) -> Result<Vec<Cell>> {
        let mut found: Vec<Option<Cell>> = Vec::with_capacity(reads.cell_count());
        let mut beyond = CellReads::default();
        {
            let kept = self.kept.lock();
            for read in reads.iter() {
                let strictly = read.cells.windows(2).all(|pair| pair[0] < pair[1]);
                let cells: Option<Vec<Cell>> =
                    read.cells.iter().map(|cell| kept.cell(read.chunk, *cell)).collect();
                match cells.filter(|_| strictly) {
                    Some(cells) => found.extend(cells.into_iter().map(Some)),
                    None => {
                        beyond.push(read.chunk, read.cells.iter().copied());
                        found.extend(read.cells.iter().map(|_| None));
                    }
                }
            }
        }
        let mut others = match beyond.is_empty() {
            true => Vec::new(),
            false => self.inner.read_cells(&beyond).await?,
        }
        .into_iter();
        Ok(found.into_iter().filter_map(|cell| cell.or_else(|| others.next())).collect())
    }
}

store_by_calls!(TopCache);

#[cfg(test)]
mod tests {
    use fogbank_store::{ChunkWrite, Fault, Faulty, MemoryStore, Operation, conformance};

    use super::*;

    #[tokio::test]
    async fn conforms_whatever_is_kept() {
        for bytes in [0, 1_000, 1 << 20, 1 << 30] {
            let store = TopCache::new(MemoryStore::new(), Vec::new(), bytes);
            conformance::run(&store).await;
            assert!(store.kept.lock().bytes <= bytes);
        }
    }

    #[tokio::test]
    async fn the_top_is_read_without_the_store_and_the_rest_is_not() {
        let store = TopCache::new(Faulty::new(MemoryStore::new()), Vec::new(), 2 * 10 * 40);
        let shape = ArrayShape { chunks: 100, cells_per_chunk: 4, cell_bytes: 10 };
        store.create_array(ArrayId(1), shape).await.unwrap();
        let name = |chunk| ChunkName { array: ArrayId(1), chunk, version: 1 };
        let write = |chunk| ChunkWrite { chunk: name(chunk), data: vec![chunk as u8; 40].into() };
        store.write_chunks((0..100).map(write).collect()).await.unwrap();
        store
            .inner
            .on_call(|call, _| (call.operation() == Operation::ReadCells).then_some(Fault::Before));
        let read = async |chunk| {
            let mut reads = CellReads::default();
            reads.push(name(chunk), [1, 3]);
            store.read_cells(&reads).await
        };
        assert_eq!(read(9).await.unwrap(), vec![Cell::Bytes(vec![9; 10].into()); 2]);
        assert!(read(10).await.is_err());
        store.delete_chunks(&[name(9)]).await.unwrap();
        assert!(read(9).await.is_err(), "what was deleted is not kept");
    }
}
