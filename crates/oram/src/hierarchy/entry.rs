//! An entry of the query log: what a client asks, with the bytes it writes.
//!
//! One length for all kinds, so a read carries zeros. Section 3 of the protocol (module).

use bytes::Bytes;
use fogbank_seal::Digest;

use crate::Access;

/// What a session appends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Whose it is.
    pub session: u32,
    /// 1, 2, .. within the session.
    pub turn: u64,
    /// Length of the log that its sealer knew.
    pub seen: u64,
    /// The digest of that log.
    pub seen_digest: Digest,
    /// The address and what is done to it; `None` of one that only shows that its session lives.
    pub query: Option<(u32, Access)>,
    /// Whether it is the session's last: its client leaves. It asks for nothing then.
    pub leaves: bool,
    /// Whether its client has come to move the site elsewhere: all others end. It asks for nothing
    /// then.
    pub moves: bool,
    /// Whether its session is one that builds. It says so itself, before it logs anything.
    pub builds: bool,
}

/// What is published of a place, the same by whoever does it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Found {
    /// The place.
    pub place: u64,
    /// The digest of the log with its entry: names the history.
    pub digest: Digest,
    /// The block as the tables of the epoch hold it, if the place is the first of its address in
    /// its window; else zeros.
    pub base: Bytes,
}
