//! Fogbank as a database: its interactive transactions.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_txn::{Key, KeyRange, Proxy, Transaction};

use crate::database::{Database, Effect, Error, Performed, Procedure, Result, Statements};

/// A running proxy.
pub struct Fogbank(pub Proxy);

struct Open(Transaction);

#[async_trait]
impl Statements for Open {
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let records = self.0.get_many(keys).await?;
        Ok(records.into_iter().map(|record| record.map(|record| record.value)).collect())
    }

    async fn put(&self, key: &Key, value: Bytes) -> Result<()> {
        Ok(self.0.put(key, value, 0).await?)
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        Ok(self.0.delete(key).await.map(drop)?)
    }

    async fn scan(&self, from: &Key, limit: usize) -> Result<Vec<(Key, Bytes)>> {
        let found = self.0.scan(&in_group_from(from), limit, false).await?;
        Ok(found.into_iter().map(|(key, record)| (key, record.value)).collect())
    }

    async fn prefetch(&self, keys: &[Key]) -> Result<()> {
        Ok(self.0.prefetch(keys).await?)
    }
}

#[async_trait]
impl Database for Fogbank {
    async fn perform(&self, procedure: &dyn Procedure) -> Result<Performed> {
        let run = Run::of(procedure);
        let run = &run;
        let done = self.0.transact(|open| run.once(Open(open))).await;
        run.end(done)
    }

    async fn snapshot(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let done = self.0.transact(|open| async move { open.get_many(keys).await }).await?;
        Ok(done.into_iter().map(|record| record.map(|record| record.value)).collect())
    }

    fn snapshot_max(&self) -> usize {
        self.0.limits().records_read_max
    }
}

/// The part of a group from a key on.
pub(crate) fn in_group_from(from: &Key) -> KeyRange {
    use std::ops::Bound;
    KeyRange::members(&from.group(), Bound::Included(from.member()), Bound::Unbounded)
}

/// A procedure under way: how often it was run, and what it said that a transaction has no word
/// for.
pub(crate) struct Run<'a> {
    procedure: &'a dyn Procedure,
    attempts: AtomicU32,
    said: Mutex<Option<Error>>,
}

impl<'a> Run<'a> {
    pub(crate) fn of(procedure: &'a dyn Procedure) -> Self {
        Self { procedure, attempts: 0.into(), said: Mutex::default() }
    }

    /// Runs it in one transaction.
    pub(crate) fn once<S: Statements>(
        &self,
        open: S,
    ) -> impl Future<Output = fogbank_txn::Result<Effect>> + Send {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            match self.procedure.run(&open).await {
                Ok(effect) => Ok(effect),
                Err(Error::Transaction(error)) => Err(error),
                Err(other) => {
                    *self.said.lock() = Some(other);
                    // Not one to be tried again, unless the transaction was doomed anyway.
                    Err(fogbank_txn::Error::Ended)
                }
            }
        }
    }

    /// What has become of it.
    pub(crate) fn end(&self, done: fogbank_txn::Result<Effect>) -> Result<Performed> {
        let said = self.said.lock().take();
        match done {
            Ok(effect) => Ok(Performed { effect, attempts: self.attempts.load(Ordering::Relaxed) }),
            Err(fogbank_txn::Error::Ended) => Err(said.unwrap_or(Error::Lost)),
            Err(error) if error.is_retryable() => Err(Error::Lost),
            Err(error) => Err(error.into()),
        }
    }
}
