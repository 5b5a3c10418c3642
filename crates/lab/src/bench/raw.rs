//! The other bound: what the disk does with the same bytes, written and synced by the same calls,
//! when nothing is sealed, opened or planned.
//!
//! A [`Witness`] keeps the calls of some epochs as the engine made them; [`seconds_per_epoch`]
//! makes them again on an array of their own, with chunk versions of its own and bytes of no
//! meaning.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fogbank::Result;
use fogbank_env::{Clock, Mutex};
use fogbank_store::{
    ArrayId, ArrayShape, Call, CellReads, ChunkName, ChunkWrite, Reply, Store, StoreError,
    store_by_calls,
};

const ARRAY: ArrayId = ArrayId(1000);

/// A store that keeps what it is asked while told to.
pub struct Witness<S> {
    inner: S,
    kept: Mutex<Option<Vec<Kept>>>,
}

/// A call, without its bytes.
enum Kept {
    Read(CellReads),
    Write(Vec<u32>),
    Delete(Vec<u32>),
    Barrier,
}

impl<S: Store> Witness<S> {
    /// Watches what passes to `inner`.
    pub fn new(inner: S) -> Self {
        Self { inner, kept: Mutex::new(None) }
    }

    /// Keeps calls from now on.
    pub fn watch(&self) {
        *self.kept.lock() = Some(Vec::new());
    }

    fn take(&self) -> Vec<Kept> {
        self.kept.lock().take().unwrap_or_default()
    }

    async fn call(&self, call: Call<'_>) -> std::result::Result<Reply, StoreError> {
        if let Some(kept) = &mut *self.kept.lock() {
            kept.extend(Kept::of(&call));
        }
        call.perform(&self.inner).await
    }
}

store_by_calls!(Witness);

impl Kept {
    fn of(call: &Call<'_>) -> Option<Self> {
        match call {
            Call::ReadCells(reads) => Some(Self::Read((*reads).clone())),
            Call::WriteChunks(writes) => {
                Some(Self::Write(writes.iter().map(|w| w.chunk.chunk).collect()))
            }
            Call::DeleteChunks(names) => {
                Some(Self::Delete(names.iter().map(|n| n.chunk).collect()))
            }
            Call::Barrier => Some(Self::Barrier),
            _ => None,
        }
    }
}

/// Makes the calls that `witness` kept again, on `shape`, and returns seconds an epoch.
///
/// # Errors
/// Those of the store.
pub async fn seconds_per_epoch<S: Store>(
    witness: &Witness<S>,
    clock: &Arc<dyn Clock>,
    shape: ArrayShape,
) -> Result<f64> {
    let calls = witness.take();
    let epochs = calls.iter().filter(|call| matches!(call, Kept::Barrier)).count();
    let mut replay = Replay {
        store: &witness.inner,
        image: vec![0x5a; shape.chunk_bytes()].into(),
        current: BTreeMap::new(),
        superseded: BTreeMap::new(),
    };
    replay.prepare(shape, &calls).await?;
    let started = clock.now();
    for call in &calls {
        replay.make(call).await?;
    }
    let seconds = (clock.now() - started) as f64 / 1e9;
    witness.inner.drop_array(ARRAY).await?;
    Ok(seconds / epochs.max(1) as f64)
}

struct Replay<'a, S> {
    store: &'a S,
    image: Bytes,
    current: BTreeMap<u32, u64>,
    superseded: BTreeMap<u32, u64>,
}

impl<S: Store> Replay<'_, S> {
    /// Writes every chunk that will be asked for.
    async fn prepare(
        &mut self,
        shape: ArrayShape,
        calls: &[Kept],
    ) -> std::result::Result<(), StoreError> {
        self.store.create_array(ARRAY, shape).await?;
        for call in calls {
            let Kept::Read(reads) = call else { continue };
            for read in reads.iter() {
                if !self.current.contains_key(&read.chunk.chunk) {
                    self.write(&[read.chunk.chunk]).await?;
                }
            }
        }
        self.store.barrier().await
    }

    async fn write(&mut self, chunks: &[u32]) -> std::result::Result<(), StoreError> {
        let mut writes = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let version = self.current.entry(*chunk).or_insert(0);
            if *version > 0 {
                self.superseded.insert(*chunk, *version);
            }
            *version += 1;
            let name = ChunkName { array: ARRAY, chunk: *chunk, version: *version };
            writes.push(ChunkWrite { chunk: name, data: self.image.clone() });
        }
        self.store.write_chunks(writes).await
    }

    async fn make(&mut self, call: &Kept) -> std::result::Result<(), StoreError> {
        match call {
            Kept::Read(reads) => self.store.read_cells(&self.renamed(reads)).await.map(drop),
            Kept::Write(chunks) => self.write(chunks).await,
            Kept::Delete(chunks) => {
                let named = |chunk: &u32| {
                    let version = self.superseded.remove(chunk)?;
                    Some(ChunkName { array: ARRAY, chunk: *chunk, version })
                };
                let names: Vec<ChunkName> = chunks.iter().filter_map(named).collect();
                self.store.delete_chunks(&names).await
            }
            Kept::Barrier => self.store.barrier().await,
        }
    }

    fn renamed(&self, reads: &CellReads) -> CellReads {
        let mut renamed = CellReads::default();
        for read in reads.iter() {
            let chunk = read.chunk.chunk;
            let version = self.current.get(&chunk).copied().unwrap_or(1);
            let name = ChunkName { array: ARRAY, chunk, version };
            renamed.push(name, read.cells.iter().copied());
        }
        renamed
    }
}
