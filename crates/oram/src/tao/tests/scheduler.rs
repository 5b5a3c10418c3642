//! A cloud that notes what it sees and answers when and in which order it pleases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Mutex, Purpose, Randomness, Stream, SystemClock};
use fogbank_store::{
    ArrayId, ArrayShape, BlobTag, Cell, CellReads, ChunkName, ChunkWrite, MemoryStore,
    PutCondition, PutOutcome, Result, Store,
};
use rand_core::Rng;
use tokio::sync::Notify;

/// What the cloud saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A path was asked for: the n-th.
    Path(Vec<ChunkName>),
    /// The reply to the n-th path was sent.
    Returned(usize),
    /// Buckets were written.
    Written(Vec<ChunkName>),
    /// A blob was put.
    Put(String, usize),
    /// Buckets were deleted.
    Deleted(usize),
}

/// How replies are held.
#[derive(Debug)]
enum Holding {
    /// Each for up to so long.
    Random { most: Duration, stream: Box<Stream> },
    /// Replies to paths until they are released.
    Scripted,
}

/// See the module.
pub struct Scheduler {
    inner: Arc<MemoryStore>,
    holding: Mutex<Holding>,
    clock: SystemClock,
    pub events: Mutex<Vec<Event>>,
    released: Mutex<BTreeMap<usize, bool>>,
    changed: Notify,
    paths: Mutex<usize>,
    /// Puts of blobs whose names begin so are not done yet.
    held_puts: Mutex<Option<&'static str>>,
    /// Whether paths come back as zeros.
    lies: AtomicBool,
}

impl Scheduler {
    /// Holds every reply for a random time up to `most`.
    pub fn random(inner: Arc<MemoryStore>, seed: u64, most: Duration) -> Arc<Self> {
        let stream = Box::new(Randomness::repeatable(seed).stream(Purpose::Faults));
        Self::holding(inner, Holding::Random { most, stream })
    }

    /// Holds replies to paths until [`Scheduler::release`].
    pub fn scripted(inner: Arc<MemoryStore>) -> Arc<Self> {
        Self::holding(inner, Holding::Scripted)
    }

    fn holding(inner: Arc<MemoryStore>, holding: Holding) -> Arc<Self> {
        Arc::new(Self {
            inner,
            holding: Mutex::new(holding),
            clock: SystemClock::new(),
            events: Mutex::default(),
            released: Mutex::default(),
            changed: Notify::new(),
            paths: Mutex::new(0),
            held_puts: Mutex::default(),
            lies: AtomicBool::new(false),
        })
    }

    /// Lets the reply to the n-th path go.
    pub fn release(&self, path: usize) {
        self.released.lock().insert(path, true);
        self.changed.notify_waiters();
    }

    /// From now on puts of blobs whose names begin so wait; none do if `None`.
    pub fn hold_puts(&self, prefix: Option<&'static str>) {
        *self.held_puts.lock() = prefix;
        self.changed.notify_waiters();
    }

    /// Paths that are released from now on come back as zeros.
    pub fn lie(&self) {
        self.lies.store(true, Ordering::Relaxed);
    }

    /// The paths asked for so far.
    pub fn paths(&self) -> Vec<Vec<ChunkName>> {
        let events = self.events.lock();
        let paths = events.iter().filter_map(|event| match event {
            Event::Path(names) => Some(names.clone()),
            _ => None,
        });
        paths.collect()
    }

    fn note(&self, event: Event) {
        self.events.lock().push(event);
    }

    async fn hold(&self, path: Option<usize>) {
        let wait = match &mut *self.holding.lock() {
            Holding::Random { most, stream } => Some(*most * (stream.next_u32() % 1000) / 1000),
            Holding::Scripted => None,
        };
        match (wait, path) {
            (Some(wait), _) => {
                self.clock.sleep_until(self.clock.now() + wait.as_nanos() as u64).await;
            }
            (None, None) => {}
            (None, Some(path)) => {
                self.until(|| self.released.lock().contains_key(&path)).await;
            }
        }
    }

    async fn until(&self, reached: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if reached() {
                return;
            }
            changed.await;
        }
    }
}

#[async_trait]
impl Store for Scheduler {
    async fn create_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        self.inner.create_array(array, shape).await
    }

    fn expect_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        self.inner.expect_array(array, shape)
    }

    async fn drop_array(&self, array: ArrayId) -> Result<()> {
        self.inner.drop_array(array).await
    }

    async fn read_cells(&self, reads: &CellReads) -> Result<Vec<Cell>> {
        self.inner.read_cells(reads).await
    }

    async fn read_chunks(&self, chunks: &[ChunkName]) -> Result<Vec<Option<Bytes>>> {
        let path = {
            let mut paths = self.paths.lock();
            *paths += 1;
            *paths - 1
        };
        self.note(Event::Path(chunks.to_vec()));
        let reply = self.inner.read_chunks(chunks).await;
        self.hold(Some(path)).await;
        self.note(Event::Returned(path));
        if self.lies.load(Ordering::Relaxed) {
            let zeros = |chunk: Option<Bytes>| chunk.map(|chunk| vec![0; chunk.len()].into());
            return reply.map(|chunks| chunks.into_iter().map(zeros).collect());
        }
        reply
    }

    async fn write_chunks(&self, writes: Vec<ChunkWrite>) -> Result<()> {
        self.note(Event::Written(writes.iter().map(|write| write.chunk).collect()));
        self.hold(None).await; // it may land late
        let written = self.inner.write_chunks(writes).await;
        self.hold(None).await;
        written
    }

    async fn delete_chunks(&self, chunks: &[ChunkName]) -> Result<()> {
        self.note(Event::Deleted(chunks.len()));
        self.inner.delete_chunks(chunks).await
    }

    async fn list_chunks(&self, array: ArrayId) -> Result<Vec<ChunkName>> {
        self.inner.list_chunks(array).await
    }

    async fn blob_get(&self, name: &str) -> Result<Option<(Bytes, BlobTag)>> {
        self.inner.blob_get(name).await
    }

    async fn blob_put(
        &self,
        name: &str,
        data: Bytes,
        condition: PutCondition,
    ) -> Result<PutOutcome> {
        self.note(Event::Put(name.to_owned(), data.len()));
        let is_held = || self.held_puts.lock().is_some_and(|held| name.starts_with(held));
        self.until(|| !is_held()).await;
        self.hold(None).await;
        self.inner.blob_put(name, data, condition).await
    }

    async fn blob_delete(&self, names: &[&str]) -> Result<()> {
        self.inner.blob_delete(names).await
    }

    async fn blob_list(&self, prefix: &str) -> Result<Vec<String>> {
        self.inner.blob_list(prefix).await
    }

    async fn barrier(&self) -> Result<()> {
        self.inner.barrier().await
    }
}
