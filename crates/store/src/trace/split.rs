//! What comes to one cloud of two, as it stands in its trace: no call of a store, but written as
//! one.
//!
//! A message with cells is the write of a chunk version, whose array says what kind of message it
//! was; any other is the put of a blob, whose name says all of it that is public. Whoever writes
//! such traces and whoever follows them have nothing else in common.

use super::event::{ChunkSeen, Condition, Request};
use crate::{ArrayId, ChunkName, Operation};

/// A message that came to one cloud of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// One without cells.
    Said {
        /// All that is public in it.
        name: String,
        /// Bytes of it.
        bytes: u64,
        /// That of the seeds in it.
        fingerprint: u64,
    },
    /// One with cells.
    Cells {
        /// As which it stands in the trace: see [`CellsOf`].
        chunk: ChunkName,
        /// Bytes of all cells, and a fingerprint each.
        seen: ChunkSeen,
    },
}

impl Shown {
    pub(super) fn operation(&self) -> Operation {
        match self {
            Self::Said { .. } => Operation::BlobPut,
            Self::Cells { .. } => Operation::WriteChunks,
        }
    }
}

/// As a reader of the trace gets it.
impl From<Shown> for Request {
    fn from(shown: Shown) -> Self {
        match shown {
            Shown::Said { name, bytes, fingerprint } => {
                Self::BlobPut { name, bytes, condition: Condition::Always, fingerprint }
            }
            Shown::Cells { chunk, seen } => Self::WriteChunks { writes: vec![(chunk, seen)] },
        }
    }
}

/// Of what kind a message with cells is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellsOf {
    /// What the client uploads.
    Upload,
    /// Cells of a read, of the other cloud.
    Blinded,
    /// Cells that a rebuild carries, of the other cloud.
    Moved,
    /// Levels that this cloud has lost, of the other.
    Handed,
    /// A new level, of the other cloud.
    Level,
}

impl CellsOf {
    const ALL: [Self; 5] = [Self::Upload, Self::Blinded, Self::Moved, Self::Handed, Self::Level];

    /// The array that says so.
    pub fn array(self) -> ArrayId {
        ArrayId(self as u16)
    }

    /// What an array says; nothing, if it is none of these.
    pub fn of(array: ArrayId) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.array() == array)
    }
}
