//! The baseline without privacy as a database.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_txn::{Key, NoPriv, PlainTransaction};

use crate::database::{Database, Performed, Procedure, Result, Statements};
use crate::fogbank::{Run, in_group_from};

/// Records that one snapshot is of.
const SNAPSHOT: usize = 500;

struct Open(PlainTransaction);

#[async_trait]
impl Statements for Open {
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        Ok(self.0.get_many(keys).await?)
    }

    async fn put(&self, key: &Key, value: Bytes) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        Ok(self.0.delete(key)?)
    }

    async fn scan(&self, from: &Key, limit: usize) -> Result<Vec<(Key, Bytes)>> {
        Ok(self.0.scan(&in_group_from(from), limit).await?)
    }

    async fn prefetch(&self, keys: &[Key]) -> Result<()> {
        Ok(self.0.prefetch(keys)?)
    }
}

#[async_trait]
impl Database for NoPriv {
    async fn perform(&self, procedure: &dyn Procedure) -> Result<Performed> {
        let run = Run::of(procedure);
        let run = &run;
        let done = self.transact(|open| run.once(Open(open))).await;
        run.end(done)
    }

    async fn snapshot(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        Ok(self.transact(|open| async move { open.get_many(keys).await }).await?)
    }

    fn snapshot_max(&self) -> usize {
        SNAPSHOT
    }
}
