//! What a key maps to, as clients see it.

use bytes::Bytes;

/// A record read in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The value.
    pub value: Bytes,
    /// The front end's own attribute.
    pub attr: u64,
}

/// What the directory knows of a record: no round is spent to learn it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes of the value.
    pub len: u32,
    /// The front end's own attribute.
    pub attr: u64,
}
