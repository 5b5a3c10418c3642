//! A store in memory: for tests, simulation and engines measured without a disk.
//!
//! Invariants:
//! - a chunk version, once there, never changes until it is deleted;
//! - a cell read is a slice of the chunk that was written: nothing is copied;
//! - what is kept owns its memory alone, so one chunk never keeps a whole written batch alive.
//!
//! What the cloud sees is the calls; there is nothing else.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::RwLock;
use hashbrown::hash_map::Entry;

use crate::shape::{as_expected, check_blob_name, check_groups, no_array, rewritten};
use crate::xor::fold;
use crate::{
    ArrayId, ArrayShape, BlobTag, Cell, CellReads, ChunkName, ChunkWrite, PlaceHashing, PlaceMap,
    PutCondition, PutOutcome, Result, Store, StoreError, XorCells,
};

/// A store that lives and dies with the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    arrays: RwLock<PlaceMap<ArrayId, Arc<Array>>>,
    blobs: RwLock<BTreeMap<String, Blob>>,
    puts: AtomicU64,
    hashing: PlaceHashing,
}

#[derive(Debug, Clone)]
struct Blob {
    data: Bytes,
    tag: u64,
}

#[derive(Debug)]
struct Array {
    id: ArrayId,
    shape: ArrayShape,
    /// Chunk versions, spread by chunk so that parallel batches rarely meet at a lock.
    shards: [RwLock<PlaceMap<(u32, u64), Bytes>>; SHARDS],
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store that hashes places in this way: keyed where others choose them.
    pub fn hashed(hashing: PlaceHashing) -> Self {
        Self { hashing, ..Self::default() }
    }

    /// Bytes of all chunk versions and blobs that are there.
    pub fn stored_bytes(&self) -> u64 {
        let arrays = self.arrays.read();
        let blobs = self.blobs.read();
        let blobs: usize = blobs.values().map(|blob| blob.data.len()).sum();
        let chunks: usize = arrays
            .values()
            .flat_map(|array| array.shards.iter().map(move |shard| (array, shard)))
            .map(|(array, shard)| shard.read().len() * array.shape.chunk_bytes())
            .sum();
        (blobs + chunks) as u64
    }

    /// A store of its own that holds what is here now: what somebody has who puts a state back.
    pub fn image(&self) -> Self {
        let arrays = self.arrays.read();
        let image = |array: &Array| Array {
            shards: array.shards.each_ref().map(|shard| RwLock::new(shard.read().clone())),
            ..*array
        };
        let arrays = arrays.iter().map(|(id, array)| (*id, Arc::new(image(array)))).collect();
        Self {
            arrays: RwLock::new(arrays),
            blobs: RwLock::new(self.blobs.read().clone()),
            puts: AtomicU64::new(self.puts.load(Ordering::Relaxed)),
            hashing: self.hashing,
        }
    }

    /// The arrays that are there, by number, with their shapes.
    pub fn arrays(&self) -> Vec<(ArrayId, ArrayShape)> {
        let arrays = self.arrays.read();
        let mut found: Vec<_> = arrays.values().map(|array| (array.id, array.shape)).collect();
        found.sort_unstable_by_key(|(id, _)| *id);
        found
    }

    fn array(&self, id: ArrayId) -> Result<Arc<Array>> {
        let arrays = self.arrays.read();
        arrays.get(&id).cloned().ok_or_else(|| no_array(id))
    }
}

/// The arrays that a batch touches: nearly always one, so the last one found is kept at hand.
struct Cursor<'a> {
    store: &'a MemoryStore,
    last: Option<Arc<Array>>,
}

impl Cursor<'_> {
    fn array(&mut self, id: ArrayId) -> Result<&Array> {
        if self.last.as_ref().is_none_or(|array| array.id != id) {
            self.last = Some(self.store.array(id)?);
        }
        self.last.as_deref().ok_or_else(|| no_array(id))
    }
}

impl Array {
    fn shard(&self, chunk: u32) -> &RwLock<PlaceMap<(u32, u64), Bytes>> {
        &self.shards[chunk as usize % SHARDS]
    }

    fn find(&self, name: ChunkName) -> Option<Bytes> {
        let shard = self.shard(name.chunk).read();
        shard.get(&(name.chunk, name.version)).cloned()
    }

    fn insert(&self, write: &ChunkWrite) -> Result<()> {
        let name = write.chunk;
        let mut shard = self.shard(name.chunk).write();
        match shard.entry((name.chunk, name.version)) {
            Entry::Occupied(there) if *there.get() == write.data => Ok(()),
            Entry::Occupied(_) => Err(rewritten(name)),
            Entry::Vacant(place) => {
                place.insert(owned(&write.data));
                Ok(())
            }
        }
    }
}

/// The bytes, in memory that nothing else shares: chunks cut from one large buffer would keep all
/// of it alive as long as one of them is stored.
fn owned(data: &Bytes) -> Bytes {
    if data.is_unique() { data.clone() } else { Bytes::copy_from_slice(data) }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        shape.check()?;
        let mut arrays = self.arrays.write();
        match arrays.entry(array) {
            Entry::Occupied(there) if there.get().shape == shape => Ok(()),
            Entry::Occupied(there) => Err(StoreError::Caller(format!(
                "array {} exists with another shape: {:?}",
                array.0,
                there.get().shape
            ))),
            Entry::Vacant(place) => {
                let shards =
                    std::array::from_fn(|_| RwLock::new(PlaceMap::with_hasher(self.hashing)));
                place.insert(Arc::new(Array { id: array, shape, shards }));
                Ok(())
            }
        }
    }

    fn expect_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        let arrays = self.arrays.read();
        as_expected(array, shape, arrays.get(&array).map(|array| array.shape))
    }

    async fn drop_array(&self, array: ArrayId) -> Result<()> {
        self.arrays.write().remove(&array);
        Ok(())
    }

    async fn read_cells(&self, reads: &CellReads) -> Result<Vec<Cell>> {
        let mut cursor = Cursor { store: self, last: None };
        for read in reads.iter() {
            cursor.array(read.chunk.array)?.shape.check_read(read)?;
        }
        let mut reply = Vec::with_capacity(reads.cell_count());
        for read in reads.iter() {
            let array = cursor.array(read.chunk.array)?;
            let cell_bytes = array.shape.cell_bytes as usize;
            match array.find(read.chunk) {
                Some(data) => reply.extend(read.cells.iter().map(|&cell| {
                    let start = cell as usize * cell_bytes;
                    Cell::Bytes(data.slice(start..start + cell_bytes))
                })),
                None => reply.extend(read.cells.iter().map(|_| Cell::NotWritten)),
            }
        }
        Ok(reply)
    }

    async fn read_chunks(&self, chunks: &[ChunkName]) -> Result<Vec<Option<Bytes>>> {
        let mut cursor = Cursor { store: self, last: None };
        chunks
            .iter()
            .map(|&name| {
                let array = cursor.array(name.array)?;
                array.shape.check_chunk(name)?;
                Ok(array.find(name))
            })
            .collect()
    }

    async fn write_chunks(&self, writes: Vec<ChunkWrite>) -> Result<()> {
        let mut cursor = Cursor { store: self, last: None };
        for write in &writes {
            cursor.array(write.chunk.array)?.shape.check_write(write)?;
        }
        // By reference: were each consumed in turn, the last chunk of a shared buffer would look
        // like its only owner and keep the whole of it.
        for write in &writes {
            cursor.array(write.chunk.array)?.insert(write)?;
        }
        Ok(())
    }

    async fn delete_chunks(&self, chunks: &[ChunkName]) -> Result<()> {
        for name in chunks {
            if let Ok(array) = self.array(name.array) {
                let mut shard = array.shard(name.chunk).write();
                shard.remove(&(name.chunk, name.version));
            }
        }
        Ok(())
    }

    async fn list_chunks(&self, array: ArrayId) -> Result<Vec<ChunkName>> {
        let found = self.array(array)?;
        let mut names = Vec::new();
        for shard in &found.shards {
            let shard = shard.read();
            names.extend(shard.keys().map(|&(chunk, version)| ChunkName { array, chunk, version }));
        }
        names.sort_unstable(); // the same run lists in the same order, however it was written
        Ok(names)
    }

    async fn blob_get(&self, name: &str) -> Result<Option<(Bytes, BlobTag)>> {
        let blobs = self.blobs.read();
        Ok(blobs.get(name).map(|blob| (blob.data.clone(), tag(blob.tag))))
    }

    async fn blob_put(
        &self,
        name: &str,
        data: Bytes,
        condition: PutCondition,
    ) -> Result<PutOutcome> {
        check_blob_name(name)?;
        let mut blobs = self.blobs.write();
        let there = blobs.get(name);
        let holds = match condition {
            PutCondition::Always => true,
            PutCondition::IfAbsent => there.is_none(),
            PutCondition::IfUnchanged(seen) => there.is_some_and(|blob| tag(blob.tag) == seen),
        };
        if !holds {
            return Ok(PutOutcome::ConditionFailed);
        }
        let put = self.puts.fetch_add(1, Ordering::Relaxed);
        blobs.insert(name.to_owned(), Blob { data: owned(&data), tag: put });
        Ok(PutOutcome::Done(tag(put)))
    }

    async fn blob_delete(&self, names: &[&str]) -> Result<()> {
        let mut blobs = self.blobs.write();
        for name in names {
            blobs.remove(*name);
        }
        Ok(())
    }

    async fn blob_list(&self, prefix: &str) -> Result<Vec<String>> {
        let blobs = self.blobs.read();
        let from = blobs.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        Ok(from.map(|(name, _)| name.clone()).take_while(|name| name.starts_with(prefix)).collect())
    }

    async fn barrier(&self) -> Result<()> {
        Ok(())
    }

    fn xor(&self) -> Option<&dyn XorCells> {
        Some(self)
    }
}

#[async_trait]
impl XorCells for MemoryStore {
    async fn read_xor(&self, reads: &CellReads, groups: &[u32]) -> Result<Vec<Cell>> {
        check_groups(reads, groups)?;
        fold(reads, groups, &self.read_cells(reads).await?)
    }
}

fn tag(put: u64) -> BlobTag {
    BlobTag(format!("{put}").into())
}

const SHARDS: usize = 16;

#[cfg(test)]
mod tests {
    use fogbank_env::{Purpose, Randomness};

    use super::*;

    #[tokio::test]
    async fn conforms() {
        crate::conformance::run(&MemoryStore::new()).await;
        let keyed =
            PlaceHashing::keyed(&mut Randomness::repeatable(1).stream(Purpose::Incarnation));
        crate::conformance::run(&MemoryStore::hashed(keyed)).await;
    }

    #[tokio::test]
    async fn a_stored_chunk_does_not_keep_its_batch_alive() {
        let store = MemoryStore::new();
        let shape = ArrayShape { chunks: 8, cells_per_chunk: 1, cell_bytes: 4 };
        store.create_array(ArrayId(1), shape).await.unwrap();
        let batch = Bytes::from(vec![1; 32]);
        let name = |chunk| ChunkName { array: ArrayId(1), chunk, version: 0 };
        let writes = (0..8).map(|chunk| {
            let at = chunk as usize * 4;
            ChunkWrite { chunk: name(chunk), data: batch.slice(at..at + 4) }
        });
        store.write_chunks(writes.collect()).await.unwrap();
        assert!(batch.is_unique());
        let (one, two) = (store.read_chunks(&[name(0)]).await, store.read_chunks(&[name(0)]).await);
        let pointer =
            |read: Result<Vec<Option<Bytes>>>| read.unwrap()[0].as_ref().unwrap().as_ptr();
        assert_eq!(pointer(one), pointer(two), "reads are slices of what is kept");
        assert_eq!(store.stored_bytes(), 32);
    }
}
