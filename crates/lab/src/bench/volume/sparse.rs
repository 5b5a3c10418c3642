//! A store that is full although nobody has filled it: a cell that its engine never wrote is made
//! when it is asked for, from a seed.
//!
//! 1. At the far end ([`Far`]) such a cell is sealed under the seed's key, at its place: the
//!    cloud's disks, the link and whoever counts have as much to do with it as with any other.
//! 2. At the near end ([`Near`]) it is opened, as the engine would, and becomes again what the
//!    engine expects of a cell that it never wrote: nothing, which it takes for zeros.
//!
//! Only for engines that place all blocks when a store is made. What is measured has a third cipher
//! in it: that of the cloud, which makes cells that it would keep.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_seal::{IncarnationKeys, MasterKey, Place, Salt, StoreId, TAG_BYTES};
use fogbank_store::{ArrayId, Call, Cell, CellReads, ChunkName, PlaceMap, Reply};
use fogbank_store::{Store, StoreError, store_by_calls};

/// What both ends know.
pub struct Seed {
    keys: IncarnationKeys,
    cell_bytes: Mutex<HashMap<ArrayId, u32>>,
    /// What the engine has written and not deleted.
    written: Mutex<PlaceMap<ChunkName, ()>>,
}

impl Seed {
    /// Of a number.
    pub fn new(seed: u64) -> Arc<Self> {
        let mut master = [0; 32];
        master[..8].copy_from_slice(&seed.to_le_bytes());
        let master = MasterKey::from_bytes(&mut master);
        let keys = IncarnationKeys::derive(&master, StoreId([0; 16]), Salt([0; 16]));
        Arc::new(Self { keys, cell_bytes: Mutex::default(), written: Mutex::default() })
    }

    /// A cell, as long as those of its array.
    fn make(&self, place: Place) -> Option<Bytes> {
        let known = self.cell_bytes.lock().get(&ArrayId(place.array.into())).copied();
        let mut cell = vec![0; known? as usize];
        self.keys.cells().seal(place, &mut cell);
        Some(cell.into())
    }

    fn forget(&self, chunks: &[ChunkName]) {
        let mut written = self.written.lock();
        chunks.iter().for_each(|chunk| _ = written.remove(chunk));
    }

    /// Whether a cell is one that was made for `place`.
    fn verify(&self, place: Place, cell: &[u8]) -> bool {
        let mut plaintext = vec![0; cell.len().saturating_sub(TAG_BYTES)];
        self.keys.cells().open(place, cell, &mut plaintext).is_ok()
    }
}

/// The places of a message, a cell each.
fn places(reads: &CellReads) -> impl Iterator<Item = (ChunkName, Place)> {
    reads.iter().flat_map(|read| {
        let ChunkName { array, chunk, version } = read.chunk;
        let tick = version & ((1 << fogbank_seal::TICK_BITS) - 1);
        let place = move |cell: &u16| Place { array: array.0 as u8, chunk, cell: *cell, tick };
        read.cells.iter().map(move |cell| (read.chunk, place(cell)))
    })
}

/// The far end.
pub struct Far<S> {
    inner: S,
    seed: Arc<Seed>,
}

impl<S: Store> Far<S> {
    /// Makes what `inner` lacks.
    pub fn new(inner: S, seed: Arc<Seed>) -> Self {
        Self { inner, seed }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        if let Call::CreateArray(array, shape) = &call {
            self.seed.cell_bytes.lock().insert(*array, shape.cell_bytes);
        }
        let Call::ReadCells(reads) = call else { return call.perform(&self.inner).await };
        let mut cells = self.inner.read_cells(reads).await?;
        for (cell, (_, place)) in cells.iter_mut().zip(places(reads)) {
            if *cell == Cell::NotWritten {
                *cell = self.seed.make(place).map_or(Cell::NotWritten, Cell::Bytes);
            }
        }
        Ok(Reply::Cells(cells))
    }
}

store_by_calls!(Far);

/// The near end.
pub struct Near<S> {
    inner: S,
    seed: Arc<Seed>,
}

impl<S: Store> Near<S> {
    /// Opens what was made.
    pub fn new(inner: S, seed: Arc<Seed>) -> Self {
        Self { inner, seed }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        let reads = match call {
            Call::ReadCells(reads) => reads,
            Call::WriteChunks(writes) => {
                let names: Vec<_> = writes.iter().map(|write| (write.chunk, ())).collect();
                self.inner.write_chunks(writes).await?;
                self.seed.written.lock().extend(names);
                return Ok(Reply::Done);
            }
            Call::DeleteChunks(chunks) => {
                self.seed.forget(chunks);
                return call.perform(&self.inner).await;
            }
            call => return call.perform(&self.inner).await,
        };
        let mut cells = self.inner.read_cells(reads).await?;
        for (cell, (chunk, place)) in cells.iter_mut().zip(places(reads)) {
            let Cell::Bytes(bytes) = cell else { continue };
            if self.seed.written.lock().contains_key(&chunk) {
                continue;
            }
            if !self.seed.verify(place, bytes) {
                return Err(StoreError::Misbehaved("a cell that was made is another".into()));
            }
            *cell = Cell::NotWritten;
        }
        Ok(Reply::Cells(cells))
    }
}

store_by_calls!(Near);

#[cfg(test)]
mod tests {
    use fogbank_store::{ArrayShape, ChunkWrite, MemoryStore, conformance};

    use super::*;

    fn both(seed: &Arc<Seed>) -> Near<Far<MemoryStore>> {
        Near::new(Far::new(MemoryStore::new(), seed.clone()), seed.clone())
    }

    /// To an engine it is a store like any other.
    #[tokio::test]
    async fn conforms() {
        conformance::run(&both(&Seed::new(1))).await;
    }

    #[tokio::test]
    async fn what_was_never_written_is_there_in_between() {
        let (seed, array) = (Seed::new(1), ArrayId(1));
        let store = Far::new(MemoryStore::new(), seed.clone());
        let shape = ArrayShape { chunks: 4, cells_per_chunk: 2, cell_bytes: 64 };
        store.create_array(array, shape).await.unwrap();
        let chunk = |chunk| ChunkName { array, chunk, version: 0 };
        let write = ChunkWrite { chunk: chunk(1), data: vec![7; 128].into() };
        store.write_chunks(vec![write]).await.unwrap();
        let mut reads = CellReads::default();
        (0..3).for_each(|at| reads.push(chunk(at), [1]));
        let cells = store.read_cells(&reads).await.unwrap();
        let lengths = cells.iter().map(|cell| match cell {
            Cell::Bytes(bytes) => bytes.len(),
            Cell::NotWritten => 0,
        });
        assert_eq!(lengths.collect::<Vec<_>>(), [64, 64, 64]);
        assert_eq!(cells[1], Cell::Bytes(vec![7; 64].into()));
        assert_ne!(cells[0], cells[2]);
        assert_eq!(store.read_cells(&reads).await.unwrap(), cells, "the same seed, the same cells");
        // The canary of the near end: a cell of another seed is seen.
        let near = Near::new(store, Seed::new(2));
        let told = near.read_cells(&reads).await;
        assert!(matches!(told, Err(StoreError::Misbehaved(_))), "{told:?}");
    }
}
