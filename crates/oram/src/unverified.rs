//! Where on the cloud something did not verify.
//!
//! Invariants
//! - A place is public: the cloud was asked for it by this name, in this order.
//! - Of several cells of a message the first in the order of the message is named, whatever is in
//!   any of them: not the first block, not the first dummy. Every cell of the message has been
//!   opened by then.
//!
//! It is for whoever runs the proxy. The cloud is told nothing, as after every lie.

use std::fmt::{Display, Formatter, Result};

use fogbank_durable::Suspicion;
use fogbank_store::ChunkName;

/// What did not verify, by the names that the cloud knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unverified {
    /// A cell: forged, stale or not there.
    Cell {
        /// The chunk version that it is in.
        chunk: ChunkName,
        /// Which cell of it, from 0.
        cell: u16,
    },
    /// A chunk version: not there, or not as long as all are.
    Chunk(ChunkName),
    /// Cells of which the cloud returned the XOR. Which of them it is cannot be told.
    Path {
        /// The chunk version of the first of them.
        chunk: ChunkName,
        /// Which cell of it.
        cell: u16,
        /// How many there are.
        cells: usize,
    },
    /// What the vault reads: a blob, or the whole state that they make.
    Vault(Suspicion),
    /// A reply that no store gives, in the words of who noticed.
    Reply(String),
}

impl Display for Unverified {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Cell { chunk, cell } => write!(f, "{}, cell {cell}", named(chunk)),
            Self::Chunk(chunk) => write!(f, "{}", named(chunk)),
            Self::Path { chunk, cell, cells } => {
                write!(f, "the XOR of {cells} cells that begin with {}, cell {cell}", named(chunk))
            }
            Self::Vault(suspicion) => write!(f, "{suspicion}"),
            Self::Reply(what) => write!(f, "{what}"),
        }
    }
}

fn named(ChunkName { array, chunk, version }: &ChunkName) -> impl Display {
    format!("array {}, chunk {chunk}, version {version}", array.0)
}
