//! The log of a tenant, with the memory that it takes.
//!
//! Invariant: what the log holds in memory is counted before it is there. A call takes room for
//! what it brings; when it is done, that becomes the log's, and what the log does not need goes
//! back.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Clock, Mutex, Nanos};
use fogbank_store::{
    BlobLog, LOG_KEPT_BYTES, Log, LogEntry, LogListener, Result, Store, StoreError,
};

use crate::pool::{Account, Room};
use crate::quota::Quota;

/// See the module.
pub struct TenantLog {
    log: BlobLog,
    memory: Arc<Account>,
    clock: Arc<dyn Clock>,
    room: Mutex<Room>,
}

impl TenantLog {
    /// The log in `store`.
    ///
    /// # Errors
    /// By blame; [`StoreError::Absent`] if there is no memory for it.
    pub async fn open(
        store: Arc<Quota<Box<dyn Store>>>,
        memory: Arc<Account>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let (bytes, clock) = (store.all_blobs_bytes() + SPARE_BYTES, clock.clone());
        let mut room = take(&memory, &*clock, bytes).await?;
        let log = BlobLog::open(store, clock.clone(), LOG_KEPT_BYTES).await?;
        room.shrink(log.kept_bytes());
        Ok(Self { log, memory, clock, room: Mutex::new(room) })
    }

    /// As [`Log::append`].
    ///
    /// # Errors
    /// As there; so the others.
    pub async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        let room = self.room(entry.bytes.len()).await?;
        let appended = self.log.append(entry).await;
        self.settle(room);
        appended
    }

    /// As [`Log::publish`].
    pub async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        let room = self.room(result.len()).await?;
        let published = self.log.publish(place, result).await;
        self.settle(room);
        published
    }

    /// As [`Log::forget`].
    pub async fn forget(&self, before: u64) -> Result<()> {
        let forgotten = self.log.forget(before).await;
        self.room.lock().shrink(self.log.kept_bytes());
        forgotten
    }

    /// As [`Log::follow`].
    pub fn listen(&self, from: u64) -> Result<LogListener> {
        self.log.listen(from)
    }

    async fn room(&self, bytes: usize) -> Result<Room> {
        take(&self.memory, &*self.clock, bytes as u64 + SPARE_BYTES).await
    }

    fn settle(&self, brought: Room) {
        let mut room = self.room.lock();
        room.merge(brought);
        room.shrink(self.log.kept_bytes());
    }
}

async fn take(memory: &Arc<Account>, clock: &dyn Clock, bytes: u64) -> Result<Room> {
    let room = memory.take(bytes, clock, clock.now() + ROOM_NANOS_MAX).await;
    room.ok_or_else(|| StoreError::Absent("the server has no memory left for the log".into()))
}

/// More than what an entry or a result counts for beside its bytes, with its session.
const SPARE_BYTES: u64 = 1 << 10;
const ROOM_NANOS_MAX: Nanos = 5_000_000_000;
