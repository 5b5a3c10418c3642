//! What a workload is: the records it begins with, the transactions it draws, and what has to hold
//! after.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Stream;
use fogbank_txn::Key;

use crate::database::{Database, Effect, Procedure, Result};

/// Records that a workload begins with, each key once.
pub type Records<'a> = Box<dyn Iterator<Item = (Key, Bytes)> + Send + 'a>;

/// A workload: initial records, a mix of transactions, and a check.
#[async_trait]
pub trait Workload: Send + Sync {
    /// What it is called in tables.
    fn name(&self) -> &str;

    /// Its transactions by name, and what part of a hundred each is.
    fn kinds(&self) -> Vec<(&str, u32)>;

    /// Groups of keys that are scanned.
    fn scanned_groups(&self) -> Vec<&[u8]> {
        Vec::new()
    }

    /// What it begins with: the same records each time it is asked.
    fn records(&self) -> Records<'_>;

    /// The next transaction of some client: kinds by their parts, parameters as the workload's
    /// rules say.
    fn draw(&self, stream: &mut Stream) -> Box<dyn Procedure>;

    /// The same workload as it was before anything was drawn: for another database, in which
    /// nothing of what was drawn so far is.
    fn fresh(&self) -> Arc<dyn Workload>;

    /// Holds the database, in which nothing runs, against what its rules and `ledger` say. Whatever
    /// was performed since the records were loaded is in the ledger.
    ///
    /// # Errors
    /// [`crate::Error::Broken`] says what does not hold.
    async fn check(&self, database: &dyn Database, ledger: &Ledger) -> Result<()>;
}

/// What transactions that committed have come to, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// How many did what they were for.
    pub done: Vec<u64>,
    /// How many declined.
    pub declined: Vec<u64>,
    /// The sum of their effects.
    pub sum: i64,
}

impl Ledger {
    /// Of a workload with so many kinds.
    pub fn new(kinds: usize) -> Self {
        Self { done: vec![0; kinds], declined: vec![0; kinds], sum: 0 }
    }

    /// One more has committed.
    pub fn enter(&mut self, kind: usize, effect: Effect) {
        let counts = if effect.done { &mut self.done } else { &mut self.declined };
        if let Some(count) = counts.get_mut(kind) {
            *count += 1;
        }
        self.sum += effect.sum;
    }

    /// What another has entered, too.
    pub fn add(&mut self, other: &Self) {
        let add = |to: &mut Vec<u64>, from: &[u64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        add(&mut self.done, &other.done);
        add(&mut self.declined, &other.declined);
        self.sum += other.sum;
    }
}

/// Reads any number of records for a check, with a part of them at a time.
///
/// # Errors
/// Those of the database.
pub async fn read_all<T>(
    database: &dyn Database,
    keys: impl IntoIterator<Item = Key>,
    mut each: impl FnMut(&Key, Option<Bytes>) -> Result<T>,
) -> Result<()> {
    let mut keys = keys.into_iter();
    let most = database.snapshot_max().max(1);
    loop {
        let part: Vec<Key> = keys.by_ref().take(most).collect();
        if part.is_empty() {
            return Ok(());
        }
        let records = database.snapshot(&part).await?;
        for (key, record) in part.iter().zip(records) {
            each(key, record)?;
        }
    }
}
