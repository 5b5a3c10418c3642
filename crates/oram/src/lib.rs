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
//! | [`partition`] | ObliviStore: many small pyramids, shuffled in the background |
//! | [`multicloud`] | Multi-Cloud Oblivious Storage: two clouds shuffle for each other; as yet its client without I/O |
//! | [`hierarchy`] | PD-ORAM: many clients, no proxy; as yet its rules and its client without I/O |
//! | [`geometry`] | checked shapes of trees and the analytical model behind them |
//! | [`tree`] | arithmetic of complete binary trees: paths, buckets, eviction order |
//! | `position` | which leaf a block is mapped to, and where it is |
//! | `stash` | the stash and the cached top of the tree, one structure |
//! | `slab` | payloads behind handles |
//! | `turn` | which partition gets an eviction in its turn |
//! | `memory` | what immediate engines keep in memory |
//! | `unverified` | where on the cloud something did not verify |
//! | `checkpoint` | what the checkpoints of all engines begin with |
//! | `sweep` | what a stop has left behind in the cloud |
//! | `canary` | leaks made on purpose, for tests of whoever looks for them |
//! | [`batch`] | the shape of engines that serve epochs of batches, and their recovery |
//! | [`immediate`] | the shape of engines that serve every access as it comes, the shell that runs their planes, and a plain one for tests |
//! | [`conformance`] | the suite that every batched engine passes |

pub mod batch;
mod canary;
mod checkpoint;
pub mod conformance;
pub mod geometry;
pub mod hierarchy;
pub mod immediate;
mod memory;
pub mod multicloud;
pub mod partition;
mod position;
pub mod ring;
mod slab;
mod stash;
mod sweep;
pub mod tao;
pub mod tree;
mod turn;
mod unverified;

use fogbank_store::StoreError;
use tokio::task::JoinError;

pub use batch::{BatchEngine, BatchShape, ReadJournal, RecoverableEngine, Scanned};
pub use fogbank_durable::{Section, Sections};
pub use immediate::{Access, ImmediateEngine, ImmediateShape, Ticket};
pub use memory::ProxyMemory;
pub use unverified::Unverified;

/// A logical address: which block, from 0 to the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u32);

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
    /// Another client moves the site elsewhere: this one has stopped, and all that it has answered
    /// goes along.
    #[error(
        "another client moves this site to a new one that has another key (fogbank site \
         rotate-key); this one has stopped"
    )]
    Moved,
    /// The trusted side cannot be used, the freshness register or a disk: nothing more is read or
    /// acknowledged.
    #[error("{0}")]
    Register(String),
    /// The caller broke the contract of the call (too many addresses, a repeated one, wrong
    /// length).
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
            lost @ (fogbank_durable::Error::Register { .. } | fogbank_durable::Error::Near(_)) => {
                Self::Register(lost.to_string())
            }
            other => Self::Bug(other.to_string()),
        }
    }
}

/// The result of an engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// A store's error by who is to blame for it.
pub(crate) fn blame(error: StoreError) -> Error {
    match error {
        StoreError::Absent(reason) => Error::Absent(reason),
        StoreError::Refused(reason) => Error::Refused(reason),
        StoreError::Near(reason) => Error::Register(reason),
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

/// The same where something is made anew: an array, of a shape that follows from what has verified,
/// or a version, whose number no opening but this one uses and this one uses once. If there is
/// another of that name, somebody else made it.
pub(crate) fn blame_new(error: StoreError) -> Error {
    blame(match error {
        StoreError::Caller(reason) => StoreError::Misbehaved(reason),
        other => other,
    })
}

/// What a task has returned. One that panics takes its owner with it.
pub(crate) fn of_task<T>(ended: std::result::Result<Result<T>, JoinError>) -> Result<T> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(result) => result,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => Err(Error::Bug("the runtime has ended".into())),
    }
}
