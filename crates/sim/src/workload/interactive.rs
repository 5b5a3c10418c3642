//! A planned transaction statement by statement, as a client that thinks in between.

use std::sync::Arc;

use fogbank_env::{Clock, Nanos};
use fogbank_txn::{Error, Transaction};

use super::encode;
use super::plan::Planned;
use super::program::scan_op;
use super::record::Attempt;
use crate::history::{Key, Op, Seen};

/// Runs a plan within a transaction and writes down what it saw.
pub struct Script {
    /// What to do.
    pub plan: Arc<Vec<Planned>>,
    /// Where it is written down.
    pub attempt: Attempt,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// How long the client thinks between two statements.
    pub think: Nanos,
}

impl Script {
    /// Runs all of it; the commit is the caller's.
    pub async fn run(&self, transaction: &Transaction) -> Result<(), Error> {
        for planned in self.plan.iter() {
            self.step(transaction, planned).await?;
            if self.think > 0 {
                self.clock.sleep_until(self.clock.now() + self.think).await;
            }
        }
        Ok(())
    }

    async fn step(&self, transaction: &Transaction, planned: &Planned) -> Result<(), Error> {
        match planned {
            Planned::Read(key) => self.read(transaction, *key).await.map(drop),
            Planned::ReadMany(keys) => self.read_many(transaction, keys).await,
            Planned::Append(key) => self.append(transaction, *key).await,
            Planned::Delete(key) => self.delete(transaction, *key).await,
            Planned::Undo(key) => self.undo(transaction, *key).await,
            Planned::Scan { lists: true, .. } => self.scan_lists(transaction, planned).await,
            Planned::Scan { .. } => self.scan_keys(transaction, planned).await,
        }
    }

    async fn read(&self, transaction: &Transaction, key: Key) -> Result<Seen, Error> {
        let record = transaction.get(&encode::list_key(key)).await?;
        let grave = record.is_none() && transaction.exists(&encode::grave_key(key)).await?;
        let seen = encode::seen(record.as_ref(), grave);
        self.attempt.op(Op::Read { key, seen: seen.clone() });
        Ok(seen)
    }

    async fn read_many(&self, transaction: &Transaction, keys: &[Key]) -> Result<(), Error> {
        let lists: Vec<_> = keys.iter().map(|key| encode::list_key(*key)).collect();
        transaction.prefetch(&lists).await?;
        let records = transaction.get_many(&lists).await?;
        for (key, record) in keys.iter().zip(&records) {
            let grave = transaction.exists(&encode::grave_key(*key)).await?;
            if grave && record.is_some() {
                self.attempt.op(Op::Read { key: *key, seen: Seen::Gone });
            }
            let seen = encode::seen(record.as_ref(), grave);
            self.attempt.op(Op::Read { key: *key, seen });
        }
        Ok(())
    }

    async fn append(&self, transaction: &Transaction, key: Key) -> Result<(), Error> {
        let (mut list, fresh) = match self.read(transaction, key).await? {
            Seen::List(list) => (list, false),
            Seen::NotYet => (Vec::new(), true),
            _ => return Ok(()),
        };
        let value = self.attempt.fresh_value();
        list.push(value);
        let (bytes, attr) = encode::encode(&list);
        let record = encode::list_key(key);
        if fresh && value.is_multiple_of(2) {
            if !transaction.insert_if_absent(&record, bytes, attr).await? {
                self.attempt.op(Op::Read { key, seen: Seen::Alive });
                return Ok(());
            }
        } else {
            transaction.put(&record, bytes, attr).await?;
        }
        self.attempt.op(Op::Append { key, value });
        Ok(())
    }

    async fn delete(&self, transaction: &Transaction, key: Key) -> Result<(), Error> {
        if let Seen::List(_) = self.read(transaction, key).await? {
            let (nothing, attr) = encode::encode(&[]);
            if !transaction.delete(&encode::list_key(key)).await? {
                self.attempt.op(Op::Read { key, seen: Seen::NotYet });
            }
            transaction.put(&encode::grave_key(key), nothing, attr).await?;
            self.attempt.op(Op::Delete { key });
        }
        Ok(())
    }

    async fn undo(&self, transaction: &Transaction, key: Key) -> Result<(), Error> {
        let point = transaction.savepoint()?;
        let before = self.attempt.len();
        self.append(transaction, key).await?;
        transaction.rollback_to(point)?;
        self.attempt.take_back(before);
        Ok(())
    }

    async fn scan_keys(&self, transaction: &Transaction, planned: &Planned) -> Result<(), Error> {
        let Planned::Scan { range, from, to, limit, reverse, .. } = planned else {
            return Ok(());
        };
        let stretch = encode::stretch(*range, *from, *to);
        let page = transaction.scan_keys(&stretch, *limit, *reverse).await?;
        let keys = page.iter().map(|(key, _)| encode::found(key));
        let keys = keys.map(|(member, grave)| (member, grave, Seen::Alive)).collect();
        let cut = page.len() == *limit;
        self.attempt.op(scan_op(*range, (*from, *to), keys, cut, *reverse));
        Ok(())
    }

    async fn scan_lists(&self, transaction: &Transaction, planned: &Planned) -> Result<(), Error> {
        let Planned::Scan { range, from, to, limit, reverse, .. } = planned else {
            return Ok(());
        };
        let stretch = encode::stretch(*range, *from, *to);
        let page = transaction.scan(&stretch, *limit, *reverse).await?;
        let keys = page.iter().map(|(key, record)| (encode::found(key), record));
        let keys = keys
            .map(|((member, grave), record)| (member, grave, encode::seen(Some(record), grave)));
        let cut = page.len() == *limit;
        self.attempt.op(scan_op(*range, (*from, *to), keys.collect(), cut, *reverse));
        Ok(())
    }
}
