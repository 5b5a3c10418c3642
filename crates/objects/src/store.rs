//! The store itself: checks a call against shapes, then hands it to those who know how.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Clock;
use fogbank_store::{
    ArrayId, ArrayShape, BlobTag, Cell, CellReads, ChunkName, ChunkWrite, PutCondition, PutOutcome,
    Result, RetrySchedule, Store, StoreError,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use tokio::sync::OnceCell;

use crate::arrays::{Arrays, FORMAT, SMALL_BYTES_MAX, Small, Which, look};
use crate::asked::Asked;
use crate::blobs::Blobs;
use crate::chunks::{Chunks, Writing};
use crate::credentials;
use crate::environment::Environment;
use crate::error::{Failure, failure};
use crate::names::Names;
use crate::objects::Objects;
use crate::reads;
use crate::requests::{Connector, RequestCount, Requests};
use crate::retry::throttled_schedule;
use crate::trial;
use crate::url::ObjectsUrl;

/// What there is to choose. All of it is public.
#[derive(Debug, Clone)]
pub struct ObjectsOptions {
    /// Requests under way at once, over all calls.
    pub requests_max: usize,
    /// Two cells with at most so many bytes between them are read by one request. A request costs
    /// as much as some 4 KB sent out of a provider's network, or as much time as some tens of KB of
    /// a fast link.
    pub gap_bytes: u64,
    /// A chunk of more bytes goes up in parts.
    pub parts_from_bytes: usize,
    /// Bytes of a part; providers ask for 5 MiB at least.
    pub part_bytes: usize,
    /// When to try again what was not answered.
    pub absent: RetrySchedule,
    /// When to try again what was throttled.
    pub throttled: RetrySchedule,
}

impl Default for ObjectsOptions {
    fn default() -> Self {
        Self {
            requests_max: 64,
            gap_bytes: 16 << 10,
            parts_from_bytes: 16 << 20,
            part_bytes: 8 << 20,
            absent: RetrySchedule::default(),
            throttled: throttled_schedule(),
        }
    }
}

/// A store in a bucket.
pub struct ObjectsStore {
    objects: Objects,
    names: Names,
    arrays: Arrays,
    options: ObjectsOptions,
    requests: Arc<Requests>,
    /// Done before the first array is made.
    tried: OnceCell<()>,
    writing: Writing,
}

impl ObjectsStore {
    /// Opens the store at `url` with the credentials of `environment`, and sees that both are
    /// right. Writes nothing.
    ///
    /// # Errors
    /// [`fogbank_store::StoreError::Caller`] for a bucket that is not there, credentials that are
    /// not set, or an endpoint without TLS; [`fogbank_store::StoreError::Refused`] for credentials
    /// that are refused; [`fogbank_store::StoreError::Absent`] if nobody answers.
    pub async fn open(
        url: &ObjectsUrl,
        environment: &Environment,
        options: ObjectsOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let names = Names::under(&url.prefix)?;
        let (absent, throttled) = (options.absent.clone(), options.throttled.clone());
        let requests = Requests::new(options.requests_max, clock, absent, throttled);
        let connector = Connector { requests: requests.clone(), authorities: Vec::new() };
        let store = credentials::connect(url, environment, connector)?;
        let objects = Objects::new(store, url.provider);
        let (arrays, tried) = (Arrays::new(), OnceCell::new());
        let writing = Writing::of(options.requests_max);
        let mut store = Self { objects, names, arrays, options, requests, tried, writing };
        let asked = Asked::of(url, environment);
        if look(&store).await.map_err(|error| asked.told(error))? {
            // It was tried when it was made: what it does otherwise now is no want but a lie.
            store.tried = OnceCell::new_with(Some(()));
        }
        Ok(store)
    }

    /// The same of a URL as it was typed, with the options that it asks for.
    ///
    /// # Errors
    /// As [`ObjectsStore::open`]; [`fogbank_store::StoreError::Caller`] for a URL that is none.
    pub async fn at(url: &str, environment: &Environment, clock: Arc<dyn Clock>) -> Result<Self> {
        let url: ObjectsUrl = url.parse()?;
        Self::open(&url, environment, url.options(), clock).await
    }

    /// Tries the server if no store was made here yet, and marks the place as that of one. What has
    /// blobs alone would be in a bucket that nobody has tried.
    ///
    /// # Errors
    /// [`fogbank_store::StoreError::Refused`] if it lacks a guarantee; else as every call.
    pub async fn make(&self) -> Result<()> {
        if self.tried.initialized() {
            return Ok(());
        }
        self.try_once().await?;
        self.put(Which::Format, Bytes::from_static(FORMAT)).await
    }

    async fn try_once(&self) -> Result<()> {
        let tried = self.tried.get_or_try_init(|| trial::try_out(self, || self.try_range()));
        tried.await.copied()
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    /// Requests sent so far, tries counted singly.
    pub fn requests(&self) -> RequestCount {
        self.requests.count()
    }

    fn chunks(&self) -> Chunks<'_> {
        let Self { objects, names, options, writing, .. } = self;
        Chunks { objects, names, options, writing }
    }

    pub(crate) fn blobs(&self) -> Blobs<'_> {
        Blobs { objects: &self.objects, names: &self.names }
    }

    /// Part of a trial: a range of an object is that range and nothing else.
    async fn try_range(&self) -> Result<()> {
        let (path, length) = (self.names.blob(trial::NAME)?, trial::LAST.len());
        let range = 3..length - 2;
        match self.objects.read(&path, 3..length as u64 - 2, length as u64).await? {
            Some(read) if read == trial::LAST[range] => Ok(()),
            _ => Err(trial::lacking("a part of an object is not read as that part (Range)")),
        }
    }

    fn small_path(&self, which: Which) -> Result<Path> {
        match which {
            Which::Format => self.names.format(),
            Which::Array(array) => self.names.array(array),
        }
    }
}

#[async_trait]
impl Small for ObjectsStore {
    async fn read(&self, which: Which) -> std::result::Result<Option<Bytes>, Failure> {
        let path = self.small_path(which).map_err(|e| Failure::denied(e.to_string()))?;
        let found = self.objects.read_whole(&path, SMALL_BYTES_MAX).await;
        Ok(found.map_err(|e| failure(&e))?.map(|(data, _)| data))
    }

    async fn put(&self, which: Which, data: Bytes) -> Result<()> {
        let path = self.small_path(which)?;
        self.objects.put(&path, data, PutCondition::IfAbsent).await.map(|_| ())
    }
}

#[async_trait]
impl Store for ObjectsStore {
    async fn create_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        self.try_once().await?;
        self.arrays.create(self, array, shape).await
    }

    fn expect_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        self.arrays.expect(array, shape)
    }

    /// Chunks first: a stop in between leaves an array that can be dropped again.
    async fn drop_array(&self, array: ArrayId) -> Result<()> {
        // Of an array that nobody told of there may be any number of chunks.
        let any = ArrayShape { chunks: u32::MAX, cells_per_chunk: 1, cell_bytes: 1 };
        let shape = self.arrays.shape(array).unwrap_or(any);
        self.arrays.forget(array);
        loop {
            let chunks = self.chunks().list(array, shape).await?;
            if chunks.is_empty() {
                break;
            }
            self.chunks().delete(&chunks).await?;
        }
        self.objects.delete(vec![self.names.array(array)?]).await
    }

    async fn read_cells(&self, reads: &CellReads) -> Result<Vec<Cell>> {
        let shapes = self.arrays.shapes(reads.iter().map(|read| read.chunk.array))?;
        for read in reads.iter() {
            shapes[&read.chunk.array.0].check_read(read)?;
        }
        let ranges = reads::ranges(reads, self.options.gap_bytes, |chunk| shapes[&chunk.array.0]);
        let asked = ranges.into_iter().map(|read| async move {
            let path = self.names.chunk(read.chunk)?;
            let length = read.shape.chunk_bytes() as u64;
            let found = self.objects.read(&path, read.range.clone(), length).await?;
            Ok::<_, StoreError>((read, found))
        });
        let mut found = stream::iter(asked).buffer_unordered(self.options.requests_max);
        let mut reply = vec![Cell::NotWritten; reads.cell_count()];
        while let Some((read, bytes)) = found.try_next().await? {
            read.deliver(bytes, &mut reply);
        }
        Ok(reply)
    }

    async fn read_chunks(&self, chunks: &[ChunkName]) -> Result<Vec<Option<Bytes>>> {
        let shapes = self.arrays.shapes(chunks.iter().map(|name| name.array))?;
        for &name in chunks {
            shapes[&name.array.0].check_chunk(name)?;
        }
        let reads = self.chunks();
        let asked: Vec<_> =
            chunks.iter().map(|&name| reads.read(name, shapes[&name.array.0])).collect();
        stream::iter(asked).buffered(self.options.requests_max).try_collect().await
    }

    async fn write_chunks(&self, writes: Vec<ChunkWrite>) -> Result<()> {
        let shapes = self.arrays.shapes(writes.iter().map(|write| write.chunk.array))?;
        for write in &writes {
            shapes[&write.chunk.array.0].check_write(write)?;
        }
        self.chunks().write(writes).await
    }

    async fn delete_chunks(&self, chunks: &[ChunkName]) -> Result<()> {
        self.chunks().delete(chunks).await
    }

    async fn list_chunks(&self, array: ArrayId) -> Result<Vec<ChunkName>> {
        let shape = self.arrays.shape(array)?;
        self.chunks().list(array, shape).await
    }

    async fn blob_get(&self, name: &str) -> Result<Option<(Bytes, BlobTag)>> {
        self.blobs().get(name).await
    }

    async fn blob_put(
        &self,
        name: &str,
        data: Bytes,
        condition: PutCondition,
    ) -> Result<PutOutcome> {
        self.blobs().put(name, data, condition).await
    }

    async fn blob_delete(&self, names: &[&str]) -> Result<()> {
        self.blobs().delete(names).await
    }

    async fn blob_list(&self, prefix: &str) -> Result<Vec<String>> {
        self.blobs().list(prefix).await
    }

    /// Every put and every deletion is durable when it returns.
    async fn barrier(&self) -> Result<()> {
        Ok(())
    }
}
