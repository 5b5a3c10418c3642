//! What a tenant may keep: bytes and arrays, and no chunk too large to be served.
//!
//! A chunk version counts for [`VERSION_BYTES_MIN`] at least and a blob for more than its bytes,
//! since each takes a place in an index in memory. Bytes are counted from above: a write counts
//! whether or not its version was there already, a delete counts when the array is counted anew,
//! and that is done when the quota would be passed. So no write is refused that has room, and what
//! is kept never exceeds the quota.
//!
//! Invariant: counting anew takes the count for itself, so no write that is under way is missed.

use std::collections::{BTreeMap, BTreeSet};

use fogbank_env::{Mutex, counted};
use fogbank_store::{
    ArrayId, ArrayShape, Call, ChunkName, ChunkWrite, PutCondition, PutOutcome, Reply, Result,
    Store, StoreError, store_by_calls,
};
use tokio::sync::RwLock;

use crate::wire::{BLOB_BYTES_MAX, SERVED_CHUNK_BYTES_MAX};

/// How much a tenant may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes of chunk versions and blobs.
    pub bytes: u64,
    /// Arrays.
    pub arrays: usize,
}

/// A store that holds no more than is allowed.
pub struct Quota<S> {
    inner: S,
    allowed: Allowance,
    used: Mutex<Used>,
    /// Writes share it, counting anew has it alone.
    counting: RwLock<()>,
}

#[derive(Debug, Default)]
struct Used {
    arrays: BTreeMap<ArrayId, Kept>,
    /// With the bytes each counts for.
    blobs: BTreeMap<String, u64>,
    /// The sum of those, and the bytes of their names.
    blobs_bytes: u64,
    names_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    shape: ArrayShape,
    versions_max: u64,
    /// Whether there may be fewer.
    fewer: bool,
}

impl Used {
    fn bytes(&self) -> u64 {
        let chunks = self.arrays.values().map(|kept| kept.bytes(kept.versions_max));
        chunks.fold(self.blobs_bytes, u64::saturating_add)
    }

    fn keep_blob(&mut self, name: &str, bytes: u64) {
        self.forget_blob(name);
        self.blobs.insert(name.to_owned(), bytes);
        self.blobs_bytes = self.blobs_bytes.saturating_add(bytes);
        self.names_bytes += name.len();
    }

    fn forget_blob(&mut self, name: &str) {
        if let Some(bytes) = self.blobs.remove(name) {
            self.blobs_bytes -= bytes;
            self.names_bytes -= name.len();
        }
    }

    /// What naming all versions of an array takes.
    fn listing_bytes(&self, array: ArrayId) -> usize {
        let versions = self.arrays.get(&array).map_or(0, |kept| kept.versions_max);
        usize::try_from(versions).unwrap_or(usize::MAX).saturating_mul(LISTED_BYTES)
    }
}

impl Kept {
    fn bytes(&self, versions: u64) -> u64 {
        versions.saturating_mul((self.shape.chunk_bytes() as u64).max(VERSION_BYTES_MIN))
    }
}

impl<S: Store> Quota<S> {
    /// Counts what `inner` holds in `arrays` and as blobs, and holds it to `allowed` from then on.
    /// Blobs whose bytes nobody told are read for that.
    ///
    /// # Errors
    /// Those of `inner`.
    pub async fn new(
        inner: S,
        arrays: Vec<(ArrayId, ArrayShape)>,
        blobs: Option<Vec<(String, u64)>>,
        allowed: Allowance,
    ) -> Result<Self> {
        let mut used = Used::default();
        for (array, shape) in arrays {
            let versions_max = inner.list_chunks(array).await?.len() as u64;
            used.arrays.insert(array, Kept { shape, versions_max, fewer: false });
        }
        let blobs = match blobs {
            Some(blobs) => blobs,
            None => {
                let mut read = Vec::new();
                for name in inner.blob_list("").await? {
                    let found = inner.blob_get(&name).await?;
                    read.extend(found.map(|(data, _)| (name, data.len() as u64)));
                }
                read
            }
        };
        for (name, bytes) in blobs {
            used.keep_blob(&name, blob_bytes(&name, bytes as usize));
        }
        Ok(Self { inner, allowed, used: Mutex::new(used), counting: RwLock::new(()) })
    }

    /// The shape of an array, if there is one.
    pub fn shape(&self, array: ArrayId) -> Option<ArrayShape> {
        self.used.lock().arrays.get(&array).map(|kept| kept.shape)
    }

    /// Memory for the names of an array's versions, at most.
    pub fn listing_bytes(&self, array: ArrayId) -> usize {
        self.used.lock().listing_bytes(array)
    }

    /// Memory for a blob, at most.
    pub fn blob_bytes(&self, name: &str) -> usize {
        self.used.lock().blobs.get(name).map_or(0, |bytes| *bytes as usize)
    }

    /// What all blobs count for.
    pub fn all_blobs_bytes(&self) -> u64 {
        self.used.lock().blobs_bytes
    }

    /// Memory for the names of all blobs.
    pub fn blob_listing_bytes(&self) -> usize {
        let used = self.used.lock();
        used.blobs.len() * LISTED_BYTES + 2 * used.names_bytes
    }

    /// Memory for counting anew, if a write comes so near the quota that it has to be done.
    pub fn counting_bytes(&self, written: u64) -> usize {
        let used = self.used.lock();
        if used.bytes().saturating_add(written) <= self.allowed.bytes {
            return 0;
        }
        used.arrays.keys().map(|array| used.listing_bytes(*array)).max().unwrap_or(0)
    }

    /// Bytes counted, from above.
    pub fn used_bytes(&self) -> u64 {
        self.used.lock().bytes()
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        match call {
            Call::CreateArray(array, shape) => self.create(array, shape).await,
            Call::DropArray(array) => {
                let _alone = self.counting.write().await;
                self.inner.drop_array(array).await?;
                self.used.lock().arrays.remove(&array);
                Ok(Reply::Done)
            }
            Call::WriteChunks(writes) => self.write(writes).await,
            Call::DeleteChunks(chunks) => {
                let _shared = self.counting.read().await;
                self.inner.delete_chunks(chunks).await?;
                let mut used = self.used.lock();
                for name in chunks {
                    if let Some(kept) = used.arrays.get_mut(&name.array) {
                        kept.fewer = true;
                    }
                }
                Ok(Reply::Done)
            }
            Call::BlobPut(name, data, condition) => self.put(name, data, condition).await,
            Call::BlobDelete(names) => {
                let _alone = self.counting.write().await;
                self.inner.blob_delete(names).await?;
                let mut used = self.used.lock();
                for name in names {
                    used.forget_blob(name);
                }
                Ok(Reply::Done)
            }
            other => other.perform(&self.inner).await,
        }
    }

    async fn create(&self, array: ArrayId, shape: ArrayShape) -> Result<Reply> {
        let _alone = self.counting.write().await;
        if shape.chunk_bytes() > SERVED_CHUNK_BYTES_MAX {
            return Err(StoreError::Caller(format!(
                "chunks of {} bytes are larger than the {SERVED_CHUNK_BYTES_MAX} that are served \
                 here",
                shape.chunk_bytes()
            )));
        }
        let there = self.used.lock().arrays.contains_key(&array);
        if !there && self.used.lock().arrays.len() >= self.allowed.arrays {
            return Err(used_up(counted(self.allowed.arrays, "array", "arrays")));
        }
        self.inner.create_array(array, shape).await?;
        let kept = Kept { shape, versions_max: 0, fewer: false };
        self.used.lock().arrays.entry(array).or_insert(kept);
        Ok(Reply::Done)
    }

    async fn write(&self, writes: Vec<ChunkWrite>) -> Result<Reply> {
        let names = writes.iter().map(|write| write.chunk);
        {
            let _shared = self.counting.read().await;
            if self.reserve(&by_array(names.clone())) {
                self.inner.write_chunks(writes).await?;
                return Ok(Reply::Done);
            }
        }
        let _alone = self.counting.write().await;
        self.count_anew().await?;
        // What is there already takes no more room: a write that is repeated must not be refused.
        let wanted: BTreeSet<ChunkName> = names.clone().collect();
        let mut there = BTreeSet::new();
        for array in by_array(names.clone()).into_keys() {
            if self.shape(array).is_some() {
                let listed = self.inner.list_chunks(array).await?;
                there.extend(listed.into_iter().filter(|name| wanted.contains(name)));
            }
        }
        if !self.reserve(&by_array(names.filter(|name| !there.contains(name)))) {
            return Err(self.no_room());
        }
        self.inner.write_chunks(writes).await?;
        Ok(Reply::Done)
    }

    /// Counts these versions if there is room for them.
    fn reserve(&self, versions: &BTreeMap<ArrayId, u64>) -> bool {
        let mut used = self.used.lock();
        if !fits(&used, &self.allowed, versions, 0) {
            return false;
        }
        for (array, many) in versions {
            if let Some(kept) = used.arrays.get_mut(array) {
                kept.versions_max += many;
                kept.fewer = true; // they may have been there, or be refused
            }
        }
        true
    }

    async fn put(&self, name: &str, data: bytes::Bytes, condition: PutCondition) -> Result<Reply> {
        if data.len() > BLOB_BYTES_MAX {
            return Err(StoreError::Caller(format!(
                "a blob of {} bytes is larger than the {BLOB_BYTES_MAX} that are served here",
                data.len()
            )));
        }
        let bytes = blob_bytes(name, data.len());
        let _alone = self.counting.write().await;
        let before = self.used.lock().blobs.get(name).copied().unwrap_or(0);
        if !self.has_room(bytes.saturating_sub(before)) {
            self.count_anew().await?;
        }
        if !self.has_room(bytes.saturating_sub(before)) {
            return Err(self.no_room());
        }
        let outcome = self.inner.blob_put(name, data, condition).await?;
        if matches!(outcome, PutOutcome::Done(_)) {
            self.used.lock().keep_blob(name, bytes);
        }
        Ok(Reply::Put(outcome))
    }

    fn has_room(&self, bytes: u64) -> bool {
        fits(&self.used.lock(), &self.allowed, &BTreeMap::new(), bytes)
    }

    /// Counts what there may be fewer of. The caller has the count for itself.
    async fn count_anew(&self) -> Result<()> {
        let uncertain: Vec<ArrayId> = {
            let used = self.used.lock();
            used.arrays.iter().filter(|(_, kept)| kept.fewer).map(|(array, _)| *array).collect()
        };
        for array in uncertain {
            let versions = self.inner.list_chunks(array).await?.len() as u64;
            if let Some(kept) = self.used.lock().arrays.get_mut(&array) {
                (kept.versions_max, kept.fewer) = (versions, false);
            }
        }
        Ok(())
    }

    fn no_room(&self) -> StoreError {
        used_up(format!("{} bytes, of which {} are taken", self.allowed.bytes, self.used_bytes()))
    }
}

store_by_calls!(Quota);

fn by_array(names: impl Iterator<Item = ChunkName>) -> BTreeMap<ArrayId, u64> {
    let mut versions = BTreeMap::new();
    names.for_each(|name| *versions.entry(name.array).or_default() += 1);
    versions
}

fn fits(used: &Used, allowed: &Allowance, versions: &BTreeMap<ArrayId, u64>, bytes: u64) -> bool {
    let more =
        versions.iter().filter_map(|(array, many)| Some(used.arrays.get(array)?.bytes(*many)));
    let more = more.fold(bytes, u64::saturating_add);
    more == 0 || used.bytes().saturating_add(more) <= allowed.bytes
}

/// What a blob counts for: one of nothing takes room too.
pub fn blob_bytes(name: &str, length: usize) -> u64 {
    (length + name.len() + BLOB_BYTES) as u64
}

/// Neither the caller's error nor one that waiting mends.
fn used_up(what: String) -> StoreError {
    StoreError::Refused(format!(
        "the tenant's quota is used up: {what}; the operator of the server can raise it by \
         `fogbank-cloud tenant add` with the same name and starting the server again"
    ))
}

const BLOB_BYTES: usize = 512;
/// A chunk version counts for so much at least.
pub const VERSION_BYTES_MIN: u64 = 512;
/// A name in a list, and in what is made of it.
const LISTED_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use fogbank_store::{MemoryStore, conformance};

    use super::*;

    async fn quota(bytes: u64, arrays: usize) -> Quota<MemoryStore> {
        Quota::new(MemoryStore::new(), Vec::new(), None, Allowance { bytes, arrays }).await.unwrap()
    }

    fn writes(chunks: std::ops::Range<u32>, version: u64) -> Vec<ChunkWrite> {
        let name = |chunk| ChunkName { array: ArrayId(1), chunk, version };
        chunks.map(|c| ChunkWrite { chunk: name(c), data: vec![c as u8; 1000].into() }).collect()
    }

    #[tokio::test]
    async fn conforms() {
        conformance::run(&quota(u64::MAX, 100).await).await;
    }

    #[tokio::test]
    async fn the_quota_is_never_passed_and_room_is_found_again() {
        let store = quota(10_000, 2).await;
        let shape = ArrayShape { chunks: 100, cells_per_chunk: 1, cell_bytes: 1000 };
        store.create_array(ArrayId(1), shape).await.unwrap();
        store.create_array(ArrayId(2), shape).await.unwrap();
        let more = store.create_array(ArrayId(3), shape).await.unwrap_err().to_string();
        assert!(more.contains("quota") && more.contains("2 arrays"), "{more}");
        let mut version = 0;
        for round in 0..50 {
            store.write_chunks(writes(0..10, round)).await.unwrap();
            // The same again is nothing more.
            store.write_chunks(writes(0..10, round)).await.unwrap();
            let full = store.write_chunks(writes(10..11, round)).await.unwrap_err();
            assert!(matches!(&full, StoreError::Refused(why) if why.contains("quota")), "{full}");
            assert!(store.inner.stored_bytes() <= 10_000);
            assert!(store.blob_put("a", "".into(), PutCondition::Always).await.is_err());
            version = round;
            let names: Vec<_> = writes(0..10, round).iter().map(|write| write.chunk).collect();
            store.delete_chunks(&names).await.unwrap();
        }
        let huge = ArrayShape { cell_bytes: 1 << 30, ..shape };
        store.drop_array(ArrayId(2)).await.unwrap();
        let huge = store.create_array(ArrayId(2), huge).await.unwrap_err();
        assert!(matches!(huge, StoreError::Caller(_)), "{huge}");
        store.blob_put("a", vec![0; 9000].into(), PutCondition::Always).await.unwrap();
        store.blob_put("a", vec![1; 9000].into(), PutCondition::Always).await.unwrap();
        assert!(store.write_chunks(writes(0..1, version + 1)).await.is_err());
        store.blob_delete(&["a"]).await.unwrap();
        store.write_chunks(writes(0..10, version + 1)).await.unwrap();
    }

    /// Small things fill a quota by what the index of them takes.
    #[tokio::test]
    async fn what_is_small_counts_for_its_place() {
        let store = quota(100 * VERSION_BYTES_MIN, 2).await;
        let shape = ArrayShape { chunks: 1000, cells_per_chunk: 1, cell_bytes: 1 };
        store.create_array(ArrayId(1), shape).await.unwrap();
        let write = |chunk| {
            let chunk = ChunkName { array: ArrayId(1), chunk, version: 1 };
            vec![ChunkWrite { chunk, data: "x".into() }]
        };
        for chunk in 0..100 {
            store.write_chunks(write(chunk)).await.unwrap();
        }
        assert!(store.write_chunks(write(100)).await.is_err());
        assert_eq!(store.listing_bytes(ArrayId(1)), 100 * LISTED_BYTES);
        assert_eq!(store.counting_bytes(0), 0);
        assert_eq!(store.counting_bytes(1), 100 * LISTED_BYTES);
    }

    #[tokio::test]
    async fn what_was_there_before_counts() {
        let store = MemoryStore::new();
        let shape = ArrayShape { chunks: 100, cells_per_chunk: 1, cell_bytes: 1000 };
        store.create_array(ArrayId(1), shape).await.unwrap();
        store.write_chunks(writes(0..9, 1)).await.unwrap();
        let arrays = store.arrays();
        let allowed = Allowance { bytes: 10_000, arrays: 9 };
        let store = Quota::new(store, arrays, None, allowed).await.unwrap();
        assert_eq!(store.used_bytes(), 9000);
        store.write_chunks(writes(9..10, 1)).await.unwrap();
        assert!(store.write_chunks(writes(10..11, 1)).await.is_err());
    }
}
