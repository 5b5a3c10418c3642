//! What keeps a freshness register and what it keeps, apart from everything that holds keys: a
//! server that does this for others is not trusted, and must not be able to name a key.
//!
//! 1. `peer`: what a server holds under a stamp and a promise, and what it does when it is asked;
//! 2. `slot_file`: a small value in a file, replaced often and durably.
//!
//! Invariants are theirs. Who sees what is said where they are used
//! (`fogbank_durable::QuorumRegister`, `fogbank_peer`).

mod peer;
mod slot_file;

pub use peer::{Ballot, Held, PeerDown, RegisterPeer, Stamp};
pub use slot_file::SlotFile;
