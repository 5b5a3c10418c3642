//! What a workload runs on: a database of records with transactions.
//!
//! Fogbank, the baseline without privacy and the servers that people run today are each one
//! implementation. A workload knows none of them: it is a stream of [`Procedure`]s, whose
//! statements are those that all of them have.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_txn::Key;

/// The result of a statement or a transaction.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a transaction did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Lost against another transaction. The database runs the procedure again.
    #[error("lost against another transaction")]
    Lost,
    /// What Fogbank's transaction layer said.
    #[error(transparent)]
    Transaction(#[from] fogbank_txn::Error),
    /// The records contradict each other or what was written: the database is at fault.
    #[error("the data are not what they have to be: {0}")]
    Broken(String),
    /// The database cannot be used, in its own words.
    #[error("the database fails: {0}")]
    Failed(String),
}

impl Error {
    /// A record is missing or makes no sense.
    pub fn broken(what: impl Into<String>) -> Self {
        Self::Broken(what.into())
    }
}

/// The statements of one transaction that has begun. Errors are passed on as they are.
#[async_trait]
pub trait Statements: Send + Sync {
    /// The records in the order asked, all of them in one round.
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>>;

    /// Writes a record. It is kept back until the commit, and seen by this transaction at once.
    async fn put(&self, key: &Key, value: Bytes) -> Result<()>;

    /// Deletes a record, if there is one.
    async fn delete(&self, key: &Key) -> Result<()>;

    /// At most `limit` records of the group of `from`, beginning with the first whose key is not
    /// before it. Only of groups that the workload has named as
    /// [`crate::Workload::scanned_groups`].
    async fn scan(&self, from: &Key, limit: usize) -> Result<Vec<(Key, Bytes)>>;

    /// Hints that these records will be needed: whoever can begins to fetch them, and nobody waits.
    async fn prefetch(&self, keys: &[Key]) -> Result<()> {
        let _ = keys;
        Ok(())
    }

    /// Whether who has to wait for a round gains by asking in it for what only a rival may leave
    /// over: where a store is far away, and not at a server nearby, to which every record is work.
    fn gains_by_reading_ahead(&self) -> bool {
        true
    }

    /// The record, if there is one.
    async fn get(&self, key: &Key) -> Result<Option<Bytes>> {
        let records = self.get_many(std::slice::from_ref(key)).await?;
        Ok(records.into_iter().next().flatten())
    }
}

/// What a procedure has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// Whether it did what it was for: a payment without the means for it is not one.
    pub done: bool,
    /// By how much it changes the sum that its workload keeps account of.
    pub sum: i64,
}

impl Effect {
    /// It did what it was for.
    pub const DONE: Self = Self { done: true, sum: 0 };
    /// It saw that it must not, and wrote nothing.
    pub const DECLINED: Self = Self { done: false, sum: 0 };
}

/// A transaction with its parameters drawn. It may be run several times, until it commits, and does
/// the same each time if it sees the same. One that declines has written nothing.
#[async_trait]
pub trait Procedure: Send + Sync {
    /// Which of [`crate::Workload::kinds`] it is.
    fn kind(&self) -> usize;

    /// Runs it.
    ///
    /// # Errors
    /// Those of its statements, as they are; [`Error::Broken`] for data that cannot be.
    async fn run(&self, on: &dyn Statements) -> Result<Effect>;
}

/// What became of a procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Performed {
    /// What it has come to.
    pub effect: Effect,
    /// How often it was run until it committed.
    pub attempts: u32,
}

/// A database with transactions that are serialisable.
#[async_trait]
pub trait Database: Send + Sync {
    /// Runs `procedure` until it has committed.
    ///
    /// # Errors
    /// [`Error::Lost`] if it never does; others at once.
    async fn perform(&self, procedure: &dyn Procedure) -> Result<Performed>;

    /// The records as they were committed last, all of one moment; for checks. At most
    /// [`Database::snapshot_max`] of them.
    ///
    /// # Errors
    /// Those of its statements.
    async fn snapshot(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>>;

    /// How many records one snapshot may be of.
    fn snapshot_max(&self) -> usize;
}
