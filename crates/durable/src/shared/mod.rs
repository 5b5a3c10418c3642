//! What clients of a site keep at the server together: they share a key, and have no proxy.
//!
//! # The protocol
//!
//! 1. *Create*: the header of the site, put if absent, and superblock 1.
//! 2. *Join*: a process takes the next free number of a session and puts its salt there. By the key
//!    that follows from both it seals everything that it ever writes.
//! 3. *Superblocks*: number k is put if absent, over number k - 1 alone, and names the history up
//!    to its epoch and the tables that count from it on. Who is refused has the same plaintext.
//! 4. *Seen*: a process keeps what it has seen on its own disk ([`SeenRegister`]), before it does
//!    what another history must not make it do again.
//!
//! 5. *Compare*: two people read each other a code of what their clients have seen ([`Compared`]);
//!    or a register elsewhere, which all clients share, does it for them ([`Witnessed`]).
//!
//! # Invariants
//! - A name is sealed with what stands under it, so no object passes for another.
//! - Superblocks are a chain: each has the digest of the one before, the first that of the header.
//! - No (key, nonce) pair ever seals two plaintexts (`fogbank_seal`, `shared`).
//!
//! # What the cloud sees
//! How many sessions there were and when; names, which are numbers of sessions, epochs and tables;
//! who put what; objects of public length.
//!
//! Sections 2, 3 and 9 of the protocol of `hierarchy`.

mod compare;
mod header;
mod names;
mod seen;
mod session;
mod superblock;
mod witness;

pub use compare::Compared;
pub use header::SiteParameters;
pub use names::Object;
pub use seen::{FileSeen, MemorySeen, Seen, SeenRegister};
pub use session::{Coming, Site};
pub use superblock::Superblock;
pub use witness::Witnessed;

use crate::{Error, Suspicion};

/// What was noticed at a site.
fn lied(what: &'static str) -> Error {
    Error::CloudLied(Suspicion::Site(what))
}
