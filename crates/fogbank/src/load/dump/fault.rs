//! What can be wrong with a dump.

use std::io;

/// Why a dump cannot be read on.
#[derive(Debug)]
pub enum Fault {
    /// The file ends before the dump does.
    CutOff,
    /// The file cannot be read.
    Unreadable(io::Error),
    /// It holds what no Redis writes: this, in words.
    Damaged(String),
    /// It holds what is not known here: this, in words.
    Unknown(String),
}

/// What was read of a dump.
pub type Found<T> = Result<T, Fault>;

impl Fault {
    /// `what` is wrong with it.
    pub fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// A name as an error tells it, or as much of it as helps.
pub fn quoted(name: &[u8]) -> String {
    match name.split_at_checked(QUOTED_BYTES) {
        Some((begin, [_, ..])) => format!("\"{}...\"", begin.escape_ascii()),
        _ => format!("\"{}\"", name.escape_ascii()),
    }
}

const QUOTED_BYTES: usize = 200;
