//! Chunk versions: reading them whole, writing, deleting, listing.
//!
//! A chunk version is put only if there is none of its name. If there is one, it is read back: the
//! same bytes mean that this was done before (an earlier try whose answer was lost), others that
//! the caller gave one version two contents. That makes a put of a chunk version the same however
//! often it is sent, and lets it be tried again blindly.
//!
//! A large one goes up in parts, which takes no condition, so it is asked first whether it is
//! there. Two writers of one version there are none: versions carry the number of the opening,
//! which is fenced.

use bytes::Bytes;
use fogbank_store::shape::rewritten;
use fogbank_store::{
    ArrayId, ArrayShape, ChunkName, ChunkWrite, PlaceMap, PutCondition, Result, StoreError,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::ObjectMeta;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::names::{Names, SHARDS};
use crate::objects::{Objects, Put};
use crate::store::ObjectsOptions;

/// The chunk objects of a store.
pub(crate) struct Chunks<'a> {
    pub objects: &'a Objects,
    pub names: &'a Names,
    pub options: &'a ObjectsOptions,
    pub writing: &'a Writing,
}

/// Chunks take no more than three quarters of the requests while they are written, however many
/// wait: a journal record, or a read, finds a free one.
pub(crate) struct Writing {
    places: Semaphore,
    all: usize,
}

impl Writing {
    /// Of so many requests.
    pub(crate) fn of(requests_max: usize) -> Self {
        let all = (requests_max / 4 * 3).clamp(1, Semaphore::MAX_PERMITS);
        Self { places: Semaphore::new(all), all }
    }

    /// Places for so many requests, or for as many as there are.
    pub(crate) async fn take(&self, requests: usize) -> Option<SemaphorePermit<'_>> {
        self.places.acquire_many(requests.min(self.all) as u32).await.ok()
    }
}

impl Chunks<'_> {
    /// Reads one whole; `None` where it was not written.
    pub(crate) async fn read(&self, name: ChunkName, shape: ArrayShape) -> Result<Option<Bytes>> {
        let length = shape.chunk_bytes() as u64;
        self.objects.read(&self.names.chunk(name)?, 0..length, length).await
    }

    /// Writes all of `writes`, which fit their arrays.
    pub(crate) async fn write(&self, writes: Vec<ChunkWrite>) -> Result<()> {
        let writes = without_repetitions(writes)?;
        let puts = writes.into_iter().map(|write| self.write_one(write));
        stream::iter(puts).buffer_unordered(self.options.requests_max).try_collect().await
    }

    async fn write_one(&self, write: ChunkWrite) -> Result<()> {
        if write.data.len() > self.options.parts_from_bytes {
            return self.write_large(write).await;
        }
        let _place = self.writing.take(1).await;
        let path = self.names.chunk(write.chunk)?;
        let data = write.data.clone();
        match self.objects.put(&path, data, PutCondition::IfAbsent).await? {
            Put::Done(_) => Ok(()),
            Put::ConditionFailed | Put::Doubtful => self.read_back(write).await,
        }
    }

    async fn write_large(&self, write: ChunkWrite) -> Result<()> {
        let path = self.names.chunk(write.chunk)?;
        if self.objects.length(&path).await?.is_some() {
            return self.read_back(write).await;
        }
        let _places = self.writing.take(PARTS_AT_ONCE).await;
        let part_bytes = self.options.part_bytes;
        self.objects.put_in_parts(&path, write.data, part_bytes, PARTS_AT_ONCE).await
    }

    async fn read_back(&self, write: ChunkWrite) -> Result<()> {
        let length = write.data.len() as u64;
        match self.objects.read(&self.names.chunk(write.chunk)?, 0..length, length).await? {
            Some(there) if there == write.data => Ok(()),
            Some(_) => Err(rewritten(write.chunk)),
            None => Err(StoreError::Misbehaved(
                "refuses to put what is there already, and shows nothing there".into(),
            )),
        }
    }

    pub(crate) async fn delete(&self, chunks: &[ChunkName]) -> Result<()> {
        let paths: Result<Vec<_>> = chunks.iter().map(|&name| self.names.chunk(name)).collect();
        self.objects.delete(paths?).await
    }

    /// The versions of all chunks of `array`, sixteen lists side by side.
    pub(crate) async fn list(&self, array: ArrayId, shape: ArrayShape) -> Result<Vec<ChunkName>> {
        let names_max = of_shard(shape).listed_max();
        let shards = (0..SHARDS).map(|shard| async move {
            let parse = |found: &ObjectMeta| self.names.parse_chunk(array, &found.location);
            self.objects.list(&self.names.shard(array, shard)?, names_max, parse).await
        });
        let listed: Result<Vec<_>> =
            stream::iter(shards).buffered(SHARDS as usize).try_collect().await;
        Ok(listed?.concat())
    }
}

/// What a shard has of an array of this shape, at most.
pub(crate) fn of_shard(shape: ArrayShape) -> ArrayShape {
    ArrayShape { chunks: shape.chunks.div_ceil(SHARDS), ..shape }
}

/// Each chunk version once; two contents of one are the caller's error.
pub(crate) fn without_repetitions(writes: Vec<ChunkWrite>) -> Result<Vec<ChunkWrite>> {
    let mut seen: PlaceMap<ChunkName, Bytes> = PlaceMap::default();
    let mut once = Vec::with_capacity(writes.len());
    for write in writes {
        match seen.get(&write.chunk) {
            Some(data) if *data == write.data => {}
            Some(_) => return Err(rewritten(write.chunk)),
            None => {
                seen.insert(write.chunk, write.data.clone());
                once.push(write);
            }
        }
    }
    Ok(once)
}

/// Of one chunk; each takes one of the places for requests.
const PARTS_AT_ONCE: usize = 8;
