//! What transactions on a server have in common: they keep writes back until the commit, may lose
//! there, and are run again.
//!
//! A procedure may see what no serial order shows, and say so, before its commit would have told
//! that it has lost. So what it says of broken data counts only once its reads have been held
//! against the database.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_txn::Key;

use crate::database::{Effect, Error, Procedure, Result, Statements};

/// How often a procedure is run before it is given up.
pub(crate) const ATTEMPTS_MAX: u32 = 1_000;

/// One run of a procedure.
#[async_trait]
pub(crate) trait Attempt: Statements {
    /// Commits, with what was written or without.
    ///
    /// # Errors
    /// [`Error::Lost`] if what was read does not hold any more.
    async fn commit(&self, with_writes: bool) -> Result<()>;
}

/// Runs a procedure once, to its commit.
pub(crate) async fn once<A: Attempt>(attempt: &A, procedure: &dyn Procedure) -> Result<Effect> {
    match procedure.run(attempt).await {
        Ok(effect) => attempt.commit(true).await.map(|()| effect),
        Err(Error::Broken(what)) => {
            attempt.commit(false).await?;
            Err(Error::Broken(what))
        }
        Err(other) => Err(other),
    }
}

/// Writes that are kept back, in the order of their keys; `None` deletes.
#[derive(Default)]
pub(crate) struct Writes(BTreeMap<Key, Option<Bytes>>);

impl Writes {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was written of this record, if anything was.
    pub fn get(&self, key: &Key) -> Option<&Option<Bytes>> {
        self.0.get(key)
    }

    pub fn insert(&mut self, key: &Key, value: Option<Bytes>) {
        self.0.insert(key.clone(), value);
    }

    /// Records that are written, with what.
    pub fn puts(&self) -> impl Iterator<Item = (&Key, &Bytes)> {
        self.0.iter().filter_map(|(key, value)| value.as_ref().map(|value| (key, value)))
    }

    /// Records that are deleted.
    pub fn deletes(&self) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key)
    }

    /// How many records have to be asked for if `limit` are to be left, with those gone that are
    /// deleted.
    pub fn to_ask_for(&self, from: &Key, limit: usize) -> usize {
        limit.saturating_add(self.scanned(from).filter(|(_, value)| value.is_none()).count())
    }

    /// A scan that found these records, [`Writes::to_ask_for`] of them at most, as its transaction
    /// sees it.
    pub fn merged(&self, found: Vec<(Key, Bytes)>, from: &Key, limit: usize) -> Vec<(Key, Bytes)> {
        let mut all: BTreeMap<Key, Bytes> = found.into_iter().collect();
        for (key, value) in self.scanned(from) {
            match value {
                Some(value) => drop(all.insert(key.clone(), value.clone())),
                None => drop(all.remove(key)),
            }
        }
        all.into_iter().take(limit).collect()
    }

    fn scanned<'a>(&'a self, from: &Key) -> impl Iterator<Item = (&'a Key, &'a Option<Bytes>)> {
        let group = from.group().into_owned();
        self.0.range(from..).take_while(move |(key, _)| *key.group() == *group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(group: &[u8], member: u8) -> Key {
        Key::new(group, &[member])
    }

    #[test]
    fn a_scan_sees_what_its_transaction_has_written() {
        let mut writes = Writes::default();
        writes.insert(&key(b"a", 9), Some(Bytes::new()));
        writes.insert(&key(b"b", 1), None);
        writes.insert(&key(b"b", 3), None);
        writes.insert(&key(b"b", 4), Some(Bytes::from_static(b"new")));
        writes.insert(&key(b"b", 9), Some(Bytes::from_static(b"new")));
        writes.insert(&key(b"c", 4), None);
        let from = key(b"b", 2);
        assert_eq!(writes.to_ask_for(&from, 3), 4);
        let scan = |there: &[u8]| -> Vec<u8> {
            let found = there.iter().map(|member| (key(b"b", *member), Bytes::new())).collect();
            let seen = writes.merged(found, &from, 3);
            seen.iter().for_each(|(key, value)| {
                assert_eq!(value.is_empty(), !matches!(key.member(), [4] | [9]));
            });
            seen.iter().map(|(key, _)| key.member()[0]).collect()
        };
        assert_eq!(scan(&[2, 3, 5, 6]), [2, 4, 5]);
        assert_eq!(scan(&[2, 3, 4, 6]), [2, 4, 6]);
        assert_eq!(scan(&[5, 6, 7, 8]), [4, 5, 6]);
        assert_eq!(scan(&[3]), [4, 9]);
        assert_eq!((writes.puts().count(), writes.deletes().count()), (3, 3));
    }
}
