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
    /// What it says to all; [`Says::Nothing`] if it asks for something.
    pub says: Says,
    /// Whether its session is one that builds. It says so itself, before it logs anything.
    pub builds: bool,
}

/// What an entry that asks for nothing may say to all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Says {
    /// Nothing.
    #[default]
    Nothing,
    /// Its client leaves: it is the session's last.
    Leaves,
    /// Its client has come to move the site elsewhere: all others end, and nobody works here after
    /// it.
    Moves,
    /// That nothing came of a move: there is work here again.
    Stays,
}

impl Says {
    /// Whether the site has moved after it, if that `has_moved` before it.
    pub fn moved(self, has_moved: bool) -> bool {
        match self {
            Self::Nothing | Self::Leaves => has_moved,
            Self::Moves => true,
            Self::Stays => false,
        }
    }
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
