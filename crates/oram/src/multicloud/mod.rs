//! `multicloud`: two clouds that do not collude shuffle for each other.
//!
//! Of every other partition the first cloud is the *holder* (S1) and the second the *shuffler*
//! (S2); of the others it is the other way round (`fogbank_mix`). Levels, stash and positions are
//! those of `partition`. The client is a plane without I/O: what happens goes in, [`Effect`]s come
//! out in the order in which they have to take place. One task (`serving`) carries them out.
//!
//! # The protocol, one access (`reader`)
//!
//! 1. One unread cell of every filled level of the block's partition: the block's own, else a
//!    dummy, in a secret order. The journal has it, then the holder is told the cells and the
//!    shuffler an index.
//! 2. The holder sends the cells, covered, to the shuffler and their records to the client; the
//!    shuffler sends the one wanted, and a digest of all.
//! 3. Checks, before anything is used: all cells at the shuffler's point, then the one at the
//!    holder's. Then the covers come off and the block is opened. Which covers, follows from a
//!    chain that was walked while messages travelled (`chain`).
//! 4. Accesses end in their order: the journal has the block, the answer leaves, and the block goes
//!    to the stash of a partition drawn at random.
//!
//! # The protocol, one job (`job`, `rebuild`)
//!
//! 5. Every U-th eviction of a partition begins a job: the journal has which blocks it takes from
//!    the stash. They go to the shuffler, dummies as well, with seeds of an order and of covers.
//! 6. Below the top the shuffler merges what it kept; a rebuild of the top has the holder send a
//!    list of unread cells; every R-th is a refresh, which goes through the client.
//! 7. The holder gets the level, the client its digest: it is checked, and records are sent.
//! 8. When they are durable: journal, and accesses take the new level. When no read is under way
//!    that departed before, both clouds are told.
//!
//! # Invariants
//!
//! - A journal entry is durable before what stands behind it among the effects leaves.
//! - No cell is read twice; no seed, place of an upload or generation is used for two purposes.
//! - What the holder sends is checked at the shuffler's point and the reverse, every cell of it.
//! - After a check that failed nothing leaves any more, no answer either; but for one question,
//!   where only a proof says which cloud has lied (`blame`).
//! - No journal is served that ends before what a cloud has seen (`witness`).
//!
//! # What the clouds see
//!
//! The holder: of each access a uniform unread cell of each filled level (while a list is out, of
//! the list); of each rebuild a uniform list of public length. The shuffler: a uniform index, and
//! cells that look fresh. Both: partitions, which are uniform, counters, lengths and times. How
//! long a chain is does not show: all take the same work, beside the steps (`chain`).
//!
//! # Departures from the protocol
//!
//! Whoever waits for a level holds up all later accesses: they depart in the order of arrival. A
//! recovery sends the last commits first (decision 0052). A commit is journalled before both clouds
//! are told (decision 0070).
//!
//! Paper: Stefanov and Shi, Multi-Cloud Oblivious Storage, CCS 2013.

mod blame;
#[cfg(not(feature = "canaries"))]
mod canary;
#[cfg(feature = "canaries")]
pub mod canary;
mod chain;
mod checks;
mod departing;
mod engine;
mod figures;
mod imagined;
mod job;
mod journal;
mod level;
mod lineage;
mod links;
mod plane;
mod pyramid;
mod reader;
mod rebuild;
mod refusals;
mod replay;
mod serving;
mod settings;
mod shares;
mod state;
mod waiting;
mod walking;
mod witness;

#[cfg(test)]
mod tests;

pub use chain::{Uncovered, Uncovering};
pub use engine::MulticloudEngine;
pub use imagined::Imagined;
pub use journal::Entry;
pub use plane::{Effect, MulticloudPlane};
pub use settings::MulticloudSettings;
pub use shares::CloudShare;
pub use witness::{WitnessedRegister, signers};
