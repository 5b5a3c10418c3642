//! A database for tests of workloads: one transaction after the other, in memory. It can be made to
//! lose writes, so that a check is seen to fail.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Mutex, Purpose, Randomness};
use fogbank_txn::Key;

use crate::database::{Database, Effect, Performed, Procedure, Result, Statements};
use crate::workload::{Ledger, Workload};

#[derive(Default)]
pub struct Serial {
    records: Mutex<BTreeMap<Key, Bytes>>,
    turn: tokio::sync::Mutex<()>,
}

/// The open transaction: what it has written and not committed.
struct Open<'a> {
    on: &'a Serial,
    writes: Mutex<BTreeMap<Key, Option<Bytes>>>,
}

impl Serial {
    pub fn loaded(workload: &dyn Workload) -> Self {
        let serial = Self::default();
        let mut records = BTreeMap::new();
        for (key, value) in workload.records() {
            assert!(records.insert(key, value).is_none(), "a key comes twice");
        }
        *serial.records.lock() = records;
        serial
    }

    /// Changes what is kept behind everybody's back.
    pub fn alter(&self, change: impl FnOnce(&mut BTreeMap<Key, Bytes>)) {
        change(&mut self.records.lock());
    }

    /// Performs `count` transactions of a workload; what they came to.
    pub async fn play(&self, workload: &dyn Workload, count: usize, seed: u64) -> Ledger {
        let mut stream = Randomness::repeatable(seed).stream(Purpose::Workload);
        let mut ledger = Ledger::new(workload.kinds().len());
        for _ in 0..count {
            let procedure = workload.draw(&mut stream);
            let performed = self.perform(&*procedure).await.unwrap();
            ledger.enter(procedure.kind(), performed.effect);
        }
        ledger
    }
}

#[async_trait]
impl Statements for Open<'_> {
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let (writes, records) = (self.writes.lock(), self.on.records.lock());
        let read = |key| writes.get(key).cloned().unwrap_or_else(|| records.get(key).cloned());
        Ok(keys.iter().map(read).collect())
    }

    async fn put(&self, key: &Key, value: Bytes) -> Result<()> {
        self.writes.lock().insert(key.clone(), Some(value));
        Ok(())
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.writes.lock().insert(key.clone(), None);
        Ok(())
    }

    async fn scan(&self, from: &Key, limit: usize) -> Result<Vec<(Key, Bytes)>> {
        let (writes, records) = (self.writes.lock(), self.on.records.lock());
        let mut all = records.clone();
        for (key, value) in writes.iter() {
            match value {
                Some(value) => all.insert(key.clone(), value.clone()),
                None => all.remove(key),
            };
        }
        let group = from.group().into_owned();
        let found = all.range(from..).take_while(|(key, _)| *key.group() == group);
        Ok(found.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

#[async_trait]
impl Database for Serial {
    async fn perform(&self, procedure: &dyn Procedure) -> Result<Performed> {
        let _turn = self.turn.lock().await;
        let open = Open { on: self, writes: Mutex::default() };
        let effect = procedure.run(&open).await?;
        let writes = open.writes.into_inner();
        assert!(effect.done || writes.is_empty(), "one that declines has written nothing");
        assert!(effect != Effect { done: false, ..effect } || effect.sum == 0);
        let mut records = self.records.lock();
        for (key, value) in writes {
            match value {
                Some(value) => records.insert(key, value),
                None => records.remove(&key),
            };
        }
        Ok(Performed { effect, attempts: 1 })
    }

    async fn snapshot(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let records = self.records.lock();
        Ok(keys.iter().map(|key| records.get(key).cloned()).collect())
    }

    fn snapshot_max(&self) -> usize {
        7
    }
}
