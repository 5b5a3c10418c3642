//! Errors by what the caller does next.

use std::fmt;

use fogbank_oram as oram;

/// The result of a transaction or of one of its statements.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Lost against another transaction, or read what one wrote that then aborted. Retry.
    #[error("conflict with another transaction")]
    Conflict,
    /// The epoch ended before commit was asked for. Retry.
    #[error("the epoch ended before the transaction did")]
    EpochOver,
    /// The batches of this epoch are full. Retry in the next.
    #[error("the batches of this epoch are full")]
    BatchFull,
    /// The transaction was aborted, by its owner or by an earlier error. Begin another.
    #[error("the transaction has ended")]
    Ended,
    /// Needs more than one transaction may have. It never will fit.
    #[error("needs {needed} {what}, and {limit} are the most")]
    TooLarge {
        /// What there was too much of.
        what: Bound,
        /// How much is needed, as far as that was found out: at least so much.
        needed: usize,
        /// How much it may have.
        limit: usize,
    },
    /// The store or its key budget is full.
    #[error("the store is full")]
    OutOfSpace,
    /// The same of a program, which needs so much more.
    #[error("the store is full: it lacks room for {0}")]
    NoRoom(Lack),
    /// The key is longer than the limit.
    #[error("the key is too long: it takes {bytes} bytes, and the longest {limit}")]
    KeyTooLong {
        /// Bytes of it, encoded.
        bytes: usize,
        /// Bytes of the longest.
        limit: usize,
    },
    /// The value is longer than the limit.
    #[error("the value is too long: it has {bytes} bytes, and the longest {limit}")]
    ValueTooLong {
        /// Bytes of it.
        bytes: usize,
        /// Bytes of the longest.
        limit: usize,
    },
    /// `add` met a value that is not a counter of eight bytes.
    #[error("the value is not a counter")]
    NotACounter,
    /// The program panicked; nothing of it counts.
    #[error("the program panicked")]
    Panicked,
    /// The saved directory does not fit the engine or cannot be read.
    #[error("the saved directory is not usable: {0}")]
    BadCheckpoint(&'static str),
    /// The engine failed: nothing is answered or sent any more. Whether what was under way
    /// committed is decided by recovery. The error says who is to blame.
    #[error("stopped: {0}")]
    Stopped(oram::Error),
    /// Epochs do not run now: the schedule says so. Nothing of it took place.
    #[error("the proxy rests: {0}")]
    Resting(String),
    /// The proxy was closed in an orderly way.
    #[error("closed")]
    Closed,
}

/// What a transaction may have so much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Bound {
    /// Blocks read: of a transaction those of one epoch's batches, of a program those of many.
    #[error("blocks read")]
    Reads,
    /// Blocks of the write batch, and places of the directory's delta.
    #[error("write slots")]
    Writes,
    /// Records touched and names gone through.
    #[error("steps")]
    Steps,
    /// What is told, for programs whose owner bounds that.
    #[error("bytes of reply")]
    Reply,
}

/// What a store has no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lack {
    /// Blocks of values.
    pub blocks: usize,
    /// Records.
    pub records: usize,
    /// Bytes of their keys.
    pub key_bytes: usize,
    /// Whether it is of a program that takes several epochs: what that replaces keeps its room
    /// until all of it is written.
    pub is_staged: bool,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.blocks, "block", " of values"),
            (self.records, "record", ""),
            (self.key_bytes, "byte", " of keys"),
        ];
        let parts = parts.iter().filter(|(count, ..)| *count > 0);
        let told = |&(count, one, of): &(usize, &str, &str)| {
            format!("{count} {one}{}{of}", if count == 1 { "" } else { "s" })
        };
        f.write_str(&parts.map(told).collect::<Vec<_>>().join(" and "))?;
        match self.is_staged {
            true => f.write_str("; what it replaces keeps its room until all of it is written"),
            false => Ok(()),
        }
    }
}

impl Error {
    /// Whether the same transaction may succeed when run again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict | Self::EpochOver | Self::BatchFull)
    }

    /// An invariant of ours does not hold.
    pub(crate) fn fault(what: &str) -> Self {
        Self::Stopped(oram::Error::Bug(what.into()))
    }
}

/// Of a commit whose answer was dropped, which no orderly end does: nobody knows whether it took
/// place.
pub(crate) fn unanswered() -> Error {
    Error::fault("the epochs have ended without an answer")
}

impl From<oram::Error> for Error {
    fn from(error: oram::Error) -> Self {
        Self::Stopped(error)
    }
}

/// Why a program's run stopped before its end. Programs pass it on with `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pause {
    /// Records are missing; the program is run again once they are here.
    Missing,
    /// The program can not be done. This becomes the error of its submission.
    Refused(Error),
}
