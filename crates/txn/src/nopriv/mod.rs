//! The baseline without privacy: the same concurrency control over plain remote storage (NoPriv;
//! Obladi, section 10). **For measurements only.** The cloud sees every record that is read or
//! written, when, and by which transaction; nothing is encrypted.
//!
//! 1. A transaction takes its timestamp at its first statement. What it reads and is not in memory
//!    is fetched at once; all records of a statement are one message, and whoever wants the same
//!    record meanwhile waits for the same message. Who has waited and only read moves to the newest
//!    timestamp ([`crate::timestamp_renewal`]).
//! 2. What it writes stays in the proxy until it asks for the commit. Others see it before that and
//!    then depend on it, as in an epoch.
//! 3. When all that it depends on has settled it settles: its writes leave in one message, at new
//!    places, whatever else is under way.
//! 4. It is answered when that message and those of all it has read from have been acknowledged.
//! 5. A record is kept in memory for as long as some transaction is under way that has touched it,
//!    or that is older than one that has; what its new version supersedes is deleted then.
//!
//! Nothing is batched and nothing waits for a point in time. Rules of conflicts ([`crate::mvtso`])
//! and the directory are those of the epochs, shared with them. What is missing on purpose: nothing
//! is kept for a recovery, so a proxy that stops has lost its directory.

mod ground;
mod table;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_store::Store;
use tokio::sync::oneshot;

use self::ground::Ground;
use self::table::{Ask, Job, Table};
use crate::error::{Error, Result};
use crate::key::{Key, KeyRange};
use crate::retry_locks::{ConflictKey, RetryLocks};
use crate::version::{Change, Ts};

/// Attempts that need no turn; later ones of those that keep losing take turns
/// ([`crate::retry_locks`]).
const ATTEMPTS_AT_ONCE: u32 = 8;

/// A proxy without privacy. Clones are handles to the same one.
#[derive(Clone)]
pub struct NoPriv(Arc<Shared>);

struct Shared {
    store: Arc<dyn Store>,
    table: Mutex<Table>,
    /// Of those that have lost often.
    retry_locks: RetryLocks,
    attempts_max: u32,
}

/// A transaction of the baseline. Clones are handles to the same one; when the last is dropped
/// before the commit was asked for, it aborts.
#[derive(Clone)]
pub struct PlainTransaction(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    /// Its timestamp; another one after it has waited.
    ts: AtomicU32,
}

impl NoPriv {
    /// A proxy over an empty part of a store, for records of which each block of `block_bytes` is
    /// one place.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the store fails.
    pub async fn create(
        store: Arc<dyn Store>,
        capacity: u32,
        block_bytes: usize,
        attempts_max: u32,
    ) -> Result<Self> {
        let ground = Ground::create(&*store, capacity, block_bytes).await.map_err(absent)?;
        let table = Mutex::new(Table::new(ground));
        let retry_locks = RetryLocks::default();
        Ok(Self(Arc::new(Shared { store, table, retry_locks, attempts_max })))
    }

    /// Puts records that are there from the beginning, each key once.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`]; [`Error::Stopped`] if the store fails.
    pub async fn load(&self, records: impl IntoIterator<Item = (Key, Bytes)>) -> Result<()> {
        let writes = self.0.with(|table| {
            let put = |(key, value): (Key, Bytes)| table.load(&key, &value);
            records.into_iter().map(put).collect::<Result<Vec<_>>>()
        })?;
        let writes = writes.into_iter().flatten().collect();
        self.0.store.write_chunks(writes).await.map_err(absent)
    }

    /// Begins a transaction.
    pub fn begin(&self) -> PlainTransaction {
        let ts = self.0.with(Table::begin);
        PlainTransaction(Arc::new(Handle { shared: self.0.clone(), ts: ts.into() }))
    }

    /// Runs `body` in a transaction and commits it, again if it loses: at once, and in turn once it
    /// has often. A turn lasts for the body's round trips; without turns those that lose make
    /// others lose.
    ///
    /// An error of the body is told once what it has read is committed, so the body must not read
    /// what a transaction has written that waits for this one.
    ///
    /// # Errors
    /// Those of the body; [`Error::Conflict`] if all attempts have lost.
    pub async fn transact<T, F, Fut>(&self, mut body: F) -> Result<T>
    where
        F: FnMut(PlainTransaction) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let mut lost = None;
        for attempt in 1..=self.0.attempts_max {
            let turn = match attempt <= ATTEMPTS_AT_ONCE {
                true => None,
                false => Some(self.0.retry_locks.take(lost).await),
            };
            let transaction = self.begin();
            let mut result = body(transaction.clone()).await;
            drop(turn);
            if let Ok(done) = result {
                result = transaction.commit().await.map(|()| done);
            } else if result.as_ref().is_err_and(|error| !error.is_retryable()) {
                result = match transaction.end_in_error().await {
                    Ok(()) | Err(Error::Ended) => result,
                    Err(lost) => Err(lost), // what it saw may make no sense
                };
            }
            match result {
                Err(error) if error.is_retryable() => {}
                other => return other,
            }
            lost = transaction.lost().or(lost);
        }
        Err(Error::Conflict)
    }

    /// Rows that are kept in memory.
    #[cfg(test)]
    pub(crate) fn rows(&self) -> usize {
        self.0.with(|table| table.rows())
    }
}

impl PlainTransaction {
    /// The records in the order asked; those that are not here are fetched in one message.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it has lost; so for all statements.
    pub async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        loop {
            match self.0.shared.with(|table| table.read(self.0.ts(), keys))? {
                Ask::Here(records) => return Ok(records),
                Ask::Fetch { fetch, others } => {
                    let arrived = fetch.map(|fetch| self.0.shared.clone().fetch(fetch));
                    for event in arrived.into_iter().chain(others) {
                        event.passed().await;
                    }
                    self.catch_up();
                }
            }
        }
    }

    /// At most `limit` records of a range in key order.
    ///
    /// # Errors
    /// As [`PlainTransaction::get_many`].
    pub async fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Bytes)>> {
        let keys = self.0.shared.with(|table| table.scan(self.0.ts(), range, limit))?;
        let records = self.get_many(&keys).await?;
        Ok(keys.into_iter().zip(records).filter_map(|(k, r)| r.map(|r| (k, r))).collect())
    }

    /// Begins to fetch records; nobody waits for them, and they are not part of what it has read.
    ///
    /// # Errors
    /// As [`PlainTransaction::get_many`].
    pub fn prefetch(&self, keys: &[Key]) -> Result<()> {
        if let Some(fetch) = self.0.shared.with(|table| table.prefetch(self.0.ts(), keys))? {
            self.0.shared.clone().fetch(fetch);
        }
        Ok(())
    }

    /// Writes a record.
    ///
    /// # Errors
    /// As [`PlainTransaction::get_many`].
    pub fn put(&self, key: &Key, value: Bytes) -> Result<()> {
        self.0.shared.write(self.0.ts(), key, Change::put(value, 0))
    }

    /// Deletes a record, if it is there.
    ///
    /// # Errors
    /// As [`PlainTransaction::get_many`].
    pub fn delete(&self, key: &Key) -> Result<()> {
        self.0.shared.write(self.0.ts(), key, Change::delete())
    }

    /// Asks for the commit and waits until what it wrote, and what it has read from, has been
    /// acknowledged.
    ///
    /// # Errors
    /// As [`PlainTransaction::get_many`].
    pub async fn commit(&self) -> Result<()> {
        let (sender, outcome) = oneshot::channel();
        let shared = &self.0.shared;
        shared.change(|table| table.request(self.0.ts(), sender))?;
        outcome.await.unwrap_or(Err(Error::Closed))
    }

    /// Its place in the serial order, for checkers of histories.
    pub fn stamp(&self) -> u64 {
        u64::from(self.0.ts())
    }

    /// Takes back what it has written, and waits until what it has read is committed.
    async fn end_in_error(&self) -> Result<()> {
        let (sender, outcome) = oneshot::channel();
        let reads = self.0.shared.change(|table| table.end_in_error(self.0.ts(), sender))?;
        if reads { outcome.await.unwrap_or(Err(Error::Closed)) } else { Ok(()) }
    }

    fn catch_up(&self) {
        let handle = &self.0;
        // Under the table's lock, so that clones never see one without the other.
        handle.shared.with(|table| {
            handle.ts.store(table.catch_up(handle.ts()), Ordering::Relaxed);
        });
    }

    /// Where it has lost, unless that was after it had asked for its commit.
    fn lost(&self) -> Option<ConflictKey> {
        self.0.shared.with(|table| table.lost(self.0.ts()))
    }
}

impl Handle {
    fn ts(&self) -> Ts {
        self.ts.load(Ordering::Relaxed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.change(|table| table.leave(self.ts()));
    }
}

impl Shared {
    fn with<T>(&self, action: impl FnOnce(&mut Table) -> T) -> T {
        action(&mut self.table.lock())
    }

    /// Does something that may settle transactions, and sends what these have written.
    fn change<T>(self: &Arc<Self>, action: impl FnOnce(&mut Table) -> T) -> T {
        let (result, jobs, lost) = self.with(|table| {
            let result = action(table);
            (result, table.take_settled(), table.take_lost())
        });
        for (answer, error) in lost {
            // The owner may have gone.
            let _ = answer.send(Err(error));
        }
        for job in jobs {
            tokio::spawn(self.clone().store(job));
        }
        result
    }

    fn write(self: &Arc<Self>, ts: Ts, key: &Key, change: Change) -> Result<()> {
        self.change(|table| table.write(ts, key, change))
    }

    /// Fetches in the background, so that a transaction that is dropped leaves nobody waiting.
    fn fetch(self: Arc<Self>, fetch: table::Fetch) -> table::Event {
        let event = fetch.event.clone();
        tokio::spawn(async move {
            let cells = self.store.read_cells(&fetch.reads).await.map_err(absent);
            let event = fetch.event.clone();
            self.with(|table| table.deliver(fetch, cells));
            event.pass();
        });
        event
    }

    /// Stores what a settled transaction has written, then answers it.
    async fn store(self: Arc<Self>, job: Job) {
        let Job { ts, writes, after, event, answer } = job;
        let stored = match writes.is_empty() {
            true => Ok(()),
            false => self.store.write_chunks(writes).await.map_err(absent),
        };
        for event in after {
            event.passed().await;
        }
        let outcome = self.with(|table| table.stored(ts, stored));
        event.pass();
        // The owner may have gone.
        let _ = answer.send(outcome);
        if let Some(garbage) = self.with(Table::take_garbage)
            && let Err(error) = self.store.delete_chunks(&garbage).await
        {
            self.with(|table| table.fail(&absent(error)));
        }
    }
}

fn absent(error: fogbank_store::StoreError) -> Error {
    Error::Stopped(fogbank_durable::Error::from(error).into())
}

#[cfg(test)]
mod tests;
