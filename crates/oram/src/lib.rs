//! The engines: oblivious RAM over an untrusted [`fogbank_store::Store`].
//!
//! An engine turns accesses to logical *addresses* into traffic whose shape is a randomised
//! function of public data only. What the engines share stands beside them; each engine is a
//! folder whose files carry its paper's nouns.
//!
//! | module | one line |
//! |---|---|
//! | [`ring`] | Obladi: epochs of fixed batches over a parallel Ring ORAM |
//! | [`tao`] | TaoStore: asynchronous Path ORAM, every access served as it comes |
//! | [`geometry`] | checked shapes of trees and the analytical model behind them |
//! | [`tree`] | arithmetic of complete binary trees: paths, buckets, eviction order |
//! | `position` | which leaf a block is mapped to, and where it is |
//! | `stash` | the stash and the cached top of the tree, one structure |
//! | `slab` | payloads behind handles |
//! | `unverified` | where on the cloud something did not verify |
//! | `canary` | leaks made on purpose, for tests of whoever looks for them |
//! | [`immediate`] | the shape of engines that serve every access as it comes, and a plain one for tests |
//! | [`conformance`] | the suite that every batched engine passes |

#[cfg(feature = "canaries")]
pub mod canary;
#[cfg(not(feature = "canaries"))]
mod canary;
pub mod conformance;
pub mod geometry;
pub mod immediate;
mod position;
pub mod ring;
mod slab;
mod stash;
pub mod tao;
pub mod tree;
mod unverified;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_store::StoreError;
use tokio::task::JoinError;

pub use fogbank_durable::{Section, Sections};
pub use immediate::{Access, ImmediateEngine, ImmediateShape, Ticket};
pub use unverified::Unverified;

/// A logical address: which block, from 0 to the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u32);

/// The public shape of a batched engine's traffic, fixed when the store is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchShape {
    /// Logical blocks; addresses are below it.
    pub capacity: u32,
    /// Bytes of every value.
    pub value_bytes: usize,
    /// Path reads of every read batch.
    pub read_batch: usize,
    /// Write slots of every write batch.
    pub write_batch: usize,
}

/// Errors of an engine, by blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The cloud is absent; nothing was learned or lost.
    #[error("the store is absent: {0}")]
    Absent(String),
    /// The cloud allows no more: its operator has to. Nothing was learned or lost.
    #[error("the store refuses: {0}")]
    Refused(String),
    /// Something the cloud returned is forged, stale or missing. One behaviour whatever the cause:
    /// the engine has stopped and sends nothing more. Where it was is for the operator.
    #[error("the store returned something that does not verify: {0}; stopped")]
    CloudLied(Unverified),
    /// Another proxy has taken the store over: this one has stopped and changed nothing since.
    #[error("another proxy has opened this store; this one has stopped")]
    Fenced,
    /// The freshness register cannot be used: without it nothing more is read or acknowledged.
    #[error("{0}")]
    Register(String),
    /// The caller broke the contract of the call (too many addresses, a repeated one, wrong length).
    #[error("wrong use of the engine: {0}")]
    Caller(String),
    /// An invariant of ours does not hold, or a bound that should hold with overwhelming
    /// probability (the stash) was exceeded. The engine has stopped.
    #[error("internal fault, stopped: {0}")]
    Bug(String),
}

impl From<fogbank_durable::Error> for Error {
    fn from(error: fogbank_durable::Error) -> Self {
        match error {
            fogbank_durable::Error::Absent(StoreError::Absent(reason)) => Self::Absent(reason),
            fogbank_durable::Error::Absent(other) => Self::Absent(other.to_string()),
            fogbank_durable::Error::Refused(reason) => Self::Refused(reason),
            fogbank_durable::Error::CloudLied(suspicion) => {
                Self::CloudLied(Unverified::Vault(suspicion))
            }
            fogbank_durable::Error::Fenced => Self::Fenced,
            lost @ fogbank_durable::Error::Register { .. } => Self::Register(lost.to_string()),
            other => Self::Bug(other.to_string()),
        }
    }
}

/// Takes what a scan finds.
pub trait Scanned: Send {
    /// A block and its value. Every block that holds one comes once, in no order.
    ///
    /// # Errors
    /// Whatever ends the scan.
    fn block(&mut self, address: Address, value: &[u8]) -> Result<()>;

    /// So much of so much that is stored has been read and verified.
    fn progress(&mut self, done: u32, of: u32);

    /// Something does not verify, and `block` is lost with it, if it held one that counts. Ends the
    /// scan unless it returns well.
    ///
    /// # Errors
    /// Whatever ends the scan.
    fn lost(&mut self, place: Unverified, block: Option<Address>) -> Result<()> {
        let _ = block;
        Err(Error::CloudLied(place))
    }

    /// Whether it goes on past what is lost. Then chunks of a reply that is of no use as a whole
    /// are asked for one by one.
    fn goes_on(&self) -> bool {
        false
    }
}

/// The result of an engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// The batched shape of an engine: epochs of R read batches and one write batch of fixed sizes.
///
/// The caller decides when a call is made (the clock is his); the engine makes every call of one
/// kind look the same. After any error other than [`Error::Caller`] the engine refuses all calls.
#[async_trait]
pub trait BatchEngine: Send {
    /// The public shape.
    fn shape(&self) -> BatchShape;

    /// One read batch: at most `read_batch` distinct addresses, padded inside to exactly that many
    /// path reads in a random order. The reply is in the order asked; `None` for an address that
    /// holds nothing. Every cell of the batch has arrived and verified before this returns.
    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>>;

    /// As [`BatchEngine::read_batch`], but returns when the batch is on its way: further ones may be
    /// sent before it has arrived. Then nothing but [`BatchEngine::start_read`] and
    /// [`BatchEngine::finish_read`] may be called until all have.
    async fn start_read(&mut self, addresses: &[Address]) -> Result<()> {
        let _ = addresses;
        Err(Error::Caller("this engine reads one batch at a time".into()))
    }

    /// Waits until the next batch may be started: every message of those before has been sent, or is
    /// about to be. Calling it first keeps the time of [`BatchEngine::start_read`] the caller's.
    async fn ready_to_start(&mut self) -> Result<()> {
        Ok(())
    }

    /// The reply of the oldest batch that was started, when every cell of it has arrived and verified.
    /// May be given up and called again. An error of any batch under way ends it.
    async fn finish_read(&mut self) -> Result<Vec<Option<Bytes>>> {
        Err(Error::Caller("this engine reads one batch at a time".into()))
    }

    /// The write batch of the epoch: at most `write_batch` distinct addresses, padded inside.
    /// `None` empties the address. Values are exactly `value_bytes` long.
    async fn write_batch(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()>;

    /// Ends the epoch: writes every bucket rewritten in it once, makes that durable, and deletes
    /// what it supersedes. Returns what leads from the trusted state before the epoch to that after
    /// it, in sections of public lengths; none from an engine that was not told to keep track.
    async fn commit(&mut self) -> Result<Vec<Section>>;

    /// Deletes the chunk versions that commits so far have superseded, for an engine that was told
    /// to keep them until the checkpoint that needs them no more is durable. Otherwise nothing.
    async fn collect(&mut self) -> Result<()> {
        Ok(())
    }

    /// Reads and verifies everything that is stored, between epochs, and hands over every block.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if anything is missing or does not verify, unless `into` goes on;
    /// whatever `into` returns.
    async fn scan(&mut self, into: &mut dyn Scanned) -> Result<()> {
        let _ = into;
        Err(Error::Caller("this engine cannot be scanned".into()))
    }

    /// The engine's trusted state between epochs, for a checkpoint: every section is made when it is
    /// asked for.
    fn save(&mut self) -> Result<Sections<'_>>;
}

/// A store's error by who is to blame for it.
pub(crate) fn blame(error: StoreError) -> Error {
    match error {
        StoreError::Absent(reason) => Error::Absent(reason),
        StoreError::Refused(reason) => Error::Refused(reason),
        // The engine names none that it has not created.
        StoreError::Misbehaved(what) | StoreError::NoArray(what) => lied(what),
        StoreError::Caller(reason) => Error::Bug(reason),
    }
}

/// A reply that no store gives.
pub(crate) fn lied(what: impl Into<String>) -> Error {
    Error::CloudLied(Unverified::Reply(what.into()))
}

/// The reply has another number of parts than were asked for.
pub(crate) fn miscounted(found: usize, asked: usize) -> Error {
    lied(format!("a reply of {found} parts where {asked} were asked for"))
}

/// The same where an array is made, of a shape that follows from what has verified: one that is
/// there already and has another was changed.
pub(crate) fn blame_making(error: StoreError) -> Error {
    blame(match error {
        StoreError::Caller(reason) => StoreError::Misbehaved(reason),
        other => other,
    })
}

/// A section of just its length.
pub(crate) fn exact(tag: u16, data: Vec<u8>) -> Section {
    Section { tag, padded_len: data.len(), data }
}

/// A checkpoint verified, but its parts contradict each other.
pub(crate) fn torn() -> Error {
    Error::Bug("the checkpoint does not hold together".into())
}

/// What a task has returned. One that panics takes its owner with it.
pub(crate) fn of_task<T>(ended: std::result::Result<Result<T>, JoinError>) -> Result<T> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(result) => result,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => Err(Error::Bug("the runtime has ended".into())),
    }
}
