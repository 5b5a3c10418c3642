//! DynamoDB as a back end of [`fogbank_store::Store`]: a table of items.
//!
//! How a call becomes requests:
//!
//! 1. A call is checked against the shape of its arrays before anything is sent (`arrays`).
//! 2. There are no ranges, so a cell is an item of its own (`keys`), read with up to 100 others and
//!    written with up to 25 (`chunks`). A blob is an item, put conditionally if asked, a long one
//!    in parts (`blobs`).
//! 3. Requests leave in the order of the call, at most so many at once (`table`), sent again by the
//!    rule of object stores (`retry`). The library's own retries are off.
//!
//! Invariants: a chunk version never changes; a put is durable when it returns, so a barrier has
//! nothing to do; a conditional put whose outcome is unknown is an error, never a guess; no message
//! holds a credential.
//!
//! What the cloud sees: the keys of items, which are array, chunk, version, cell and blob, in
//! batches cut from the call by count and length. All of it is a function of the call, of public
//! settings, and of the cloud's own answers.

mod blobs;
mod chunks;
mod connect;
mod keys;
mod table;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Clock;
use fogbank_store::{
    ArrayId, ArrayShape, BlobTag, Cell, CellReads, ChunkName, ChunkWrite, PutCondition, PutOutcome,
    Result, Store, StoreError,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;

use crate::arrays::{self, Arrays, SMALL_BYTES_MAX, Small, Which, look};
use crate::asked::Asked;
use crate::chunks::Writing;
use crate::environment::Environment;
use crate::error::Failure;
use crate::names::Names;
use crate::requests::RequestCount;
use crate::retry::{Tries, Twice};
use crate::store::ObjectsOptions;
use crate::table_url::TableUrl;
use crate::trial;

use blobs::{Blobs, PART_BYTES};
use chunks::Chunks;
use keys::{Key, Keys};
use table::{Condition, Table, data_of};

/// A store in a table.
pub struct DynamoStore {
    table: Table,
    keys: Keys,
    arrays: Arrays,
    requests_max: usize,
    /// Done before the first array is made.
    tried: OnceCell<()>,
    writing: Writing,
}

impl DynamoStore {
    /// Opens the store at `url` with the credentials of `environment`, and sees that both are
    /// right. Writes nothing. Of the `options`, those about requests and waits count.
    ///
    /// # Errors
    /// [`StoreError::Caller`] for a table that is not there or has other keys, credentials that are
    /// not set, or an endpoint without TLS; [`StoreError::Refused`] for credentials that are
    /// refused; [`StoreError::Absent`] if nobody answers.
    pub async fn open(
        url: &TableUrl,
        environment: &Environment,
        options: ObjectsOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let prefix = Names::under(&url.prefix)?.prefix().to_owned();
        let client = connect::connect(environment, clock.clone())?;
        let requests_max = url.requests_max.unwrap_or(options.requests_max);
        let tries = Tries::new(requests_max, clock, options.absent, options.throttled);
        let table = Table::new(client, url.table.clone(), tries);
        let (keys, tried, writing) = (Keys { prefix }, OnceCell::new(), Writing::of(requests_max));
        let mut store = Self { table, keys, arrays: Arrays::new(), requests_max, tried, writing };
        let asked = Asked::of_table(&url.table, environment);
        if look(&store).await.map_err(|error| asked.told(error))? {
            // It was tried when it was made: what it does otherwise now is no want but a lie.
            store.tried = OnceCell::new_with(Some(()));
        }
        Ok(store)
    }

    /// Requests sent so far, tries counted singly.
    pub fn requests(&self) -> RequestCount {
        self.table.count()
    }

    fn chunks(&self) -> Chunks<'_> {
        let Self { table, keys, requests_max, writing, .. } = self;
        Chunks { table, keys, requests_max: *requests_max, writing }
    }

    fn blobs(&self) -> Blobs<'_> {
        Blobs(self.chunks())
    }

    fn small_key(&self, which: Which) -> Key {
        match which {
            Which::Format => self.keys.format(),
            Which::Array(array) => self.keys.array(array),
        }
    }
}

#[async_trait]
impl Small for DynamoStore {
    async fn read(&self, which: Which) -> std::result::Result<Option<Bytes>, Failure> {
        let Some(item) = self.table.get(&self.small_key(which)).await? else { return Ok(None) };
        let data = data_of(item)?;
        if data.len() as u64 > SMALL_BYTES_MAX {
            return Err(Failure::misbehaved("an item longer than what was written"));
        }
        Ok(Some(data))
    }

    async fn put(&self, which: Which, data: Bytes) -> Result<()> {
        let (key, item) = (self.small_key(which), blobs::head_of(SMALL_TAG, &data));
        self.table.put(&key, item, Condition::IfAbsent, Twice::Harmless).await?;
        Ok(())
    }
}

#[async_trait]
impl Store for DynamoStore {
    async fn create_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        if shape.cell_bytes as usize > PART_BYTES {
            return Err(StoreError::Caller(format!(
                "a cell of {} bytes does not fit an item of a DynamoDB table, which has 400 KiB: \
                 choose a --value-size below {PART_BYTES}, or another cloud",
                shape.cell_bytes
            )));
        }
        self.tried.get_or_try_init(|| trial::try_out(self, async || Ok(()))).await?;
        self.arrays.create(self, array, shape).await
    }

    fn expect_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        self.arrays.expect(array, shape)
    }

    /// Chunks first: a stop in between leaves an array that can be dropped again.
    async fn drop_array(&self, array: ArrayId) -> Result<()> {
        let known = self.arrays.shape(array).ok();
        self.arrays.forget(array);
        // No proxy drops an array; a tool that drops one of others has to go by what the cloud
        // says.
        let there = arrays::read(self, array).await?;
        let Some(shape) = there.map(|there| known.unwrap_or(there)) else { return Ok(()) };
        loop {
            let chunks = self.chunks().list(array, shape).await?;
            if chunks.is_empty() {
                break;
            }
            self.chunks().delete(&chunks, |_| Some(shape)).await?;
        }
        self.chunks().change(vec![table::Change::Delete(self.keys.array(array))]).await
    }

    async fn read_cells(&self, reads: &CellReads) -> Result<Vec<Cell>> {
        let shapes = self.arrays.shapes(reads.iter().map(|read| read.chunk.array))?;
        for read in reads.iter() {
            shapes[&read.chunk.array.0].check_read(read)?;
        }
        self.chunks().read_cells(reads, |name| shapes[&name.array.0]).await
    }

    async fn read_chunks(&self, chunks: &[ChunkName]) -> Result<Vec<Option<Bytes>>> {
        let shapes = self.arrays.shapes(chunks.iter().map(|name| name.array))?;
        for &name in chunks {
            shapes[&name.array.0].check_chunk(name)?;
        }
        let reads = self.chunks();
        let asked: Vec<_> =
            chunks.iter().map(|&name| reads.read(name, shapes[&name.array.0])).collect();
        stream::iter(asked).buffered(self.requests_max).try_collect().await
    }

    async fn write_chunks(&self, writes: Vec<ChunkWrite>) -> Result<()> {
        let shapes = self.arrays.shapes(writes.iter().map(|write| write.chunk.array))?;
        for write in &writes {
            shapes[&write.chunk.array.0].check_write(write)?;
        }
        self.chunks().write(writes, |name| shapes[&name.array.0]).await
    }

    async fn delete_chunks(&self, chunks: &[ChunkName]) -> Result<()> {
        // Of an array that nobody told of nothing is there.
        self.chunks().delete(chunks, |name| self.arrays.shape(name.array).ok()).await
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

/// What is never changed needs no tag of its own.
const SMALL_TAG: &str = "small";
