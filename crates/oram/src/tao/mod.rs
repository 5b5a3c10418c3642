//! `tao`: TaoStore's asynchronous Path ORAM.
//!
//! # The protocol, one access
//!
//! 1. It arrives and gets its place in the *sequencer*. The first request for a block reads the
//!    path that the block is mapped to; one that finds another request for its block waiting reads
//!    a path drawn at random. Either way one path, at once; so that requests for one block look
//!    like any.
//! 2. What is about to be read is journalled, together with whatever else has arrived, before it
//!    leaves (`departure`).
//! 3. It leaves (`leaving`) and names the buckets of the path that are not here (the *subtree*),
//!    and the lowest: those that are here are fresher. The reply may come whenever and in whatever
//!    order the network and the cloud please. Every cell of it is verified.
//! 4. If it was the block's own path, all requests that wait for the block are served in their
//!    order and the block is mapped to a fresh leaf, in one step.
//! 5. *Flush*: the blocks of the path and those waiting above it go as deep along the path as they
//!    may.
//! 6. Answers leave in the order of arrival, each when its own path has come back and its block is
//!    known.
//! 7. Every k flushes the k paths are written back as the union of their buckets under the next
//!    time stamp. Nothing waits for it, unless a public number of write-backs is not acknowledged:
//!    then nothing departs. When it is acknowledged, buckets that have not changed since and that
//!    no path under way goes through are dropped from the subtree.
//!
//! The top of the tree never leaves the proxy. After a public number of write-backs the trusted
//! state is written as a checkpoint, beside everything else; what it takes the place of is deleted.
//!
//! # Invariants
//!
//! - The fresh-subtree invariant (`subtree`): a bucket that is not here is current in the cloud.
//! - A path is journalled, and the register bumped, before it is read; recovery reads the same
//!   paths.
//! - The leaf of every path read is uniform and independent of everything before it.
//! - A block is in exactly one of stash, subtree and cloud.
//! - No version is used twice: (opening, time stamp).
//! - Every message and answer leaves at a point of a grid
//!   ([`ShellSettings::quantum`](crate::immediate::ShellSettings)). What comes is taken in the
//!   middle between two, paths in the order of their accesses, and what may leave is decided at a
//!   point at which nothing is being taken. So work that fits half a quantum is not seen, and work
//!   that does not moves what follows by whole quanta.
//! - Nothing is held across I/O but the journal by its owner; no lock across a cipher.
//!
//! # What the cloud sees
//!
//! For every access that arrives one uniform path, less what of it the cloud knows to be here, in
//! the order of arrival, in records as long as their number; after every k paths that came back,
//! the union of those in the order in which they did; a checkpoint of constant size after a
//! constant number of write-backs. How many accesses arrive, and when, is public, and so is when
//! they are answered; at a fixed rate ([`ShellSettings::rate`](crate::immediate::ShellSettings))
//! neither is seen.
//!
//! # Departures from the paper
//!
//! Buckets that are here are not asked for (decision 0034). Versions are in the names of what is
//! written, so the cloud compares no time stamps. One lock in place of one a bucket: under it
//! blocks move as handles and write-backs are copied; ciphers run outside. Integrity, journal,
//! checkpoints and recovery are ours.
//!
//! Paper: TaoStore, sections 5 (TaoORAM) and 6 (security: aaob).

#[cfg(not(feature = "canaries"))]
mod canary;
#[cfg(feature = "canaries")]
pub mod canary;
mod journal;
mod path;
mod path_requests;
mod plane;
mod processor;
mod public;
mod replay;
mod settings;
mod state;
mod stats;
mod subtree;
mod writeback;

#[cfg(test)]
mod tests;

pub use settings::TaoSettings;
pub use state::checkpoint_lengths;
pub use stats::{SecretStats, Stats};

use self::path::TaoCodec;
use self::processor::Processor;
use crate::Result;
use crate::geometry::Geometry;
use crate::immediate::engine::Immediate;
pub use crate::immediate::engine::{Parts, Progress};

/// The engine. See the module for the protocol.
pub type TaoEngine = Immediate<Processor>;

impl TaoEngine {
    /// Takes a store on: reads again what the journal names, writes a checkpoint if there was
    /// anything, deletes what a stop left behind, and serves from then on.
    ///
    /// # Errors
    /// As for an access; [`crate::Error::Caller`] for settings outside the limits or of another
    /// store.
    pub async fn open(settings: TaoSettings, parts: Parts<'_>) -> Result<Self> {
        let (keys, geometry) = (parts.vault.keys(), settings.geometry()?);
        let mut state = Processor::new(&settings, parts.random, keys.current().0)?;
        if !parts.recovered.full.is_empty() {
            state::restore(&mut state, keys.current().0, &parts.recovered.full)?;
        }
        let (shell, group_max) = (settings.shell.clone(), settings.group_max());
        let codec = TaoCodec { keys, array: state.array, geometry };
        Self::begin(state, (codec, shell, group_max), parts).await
    }

    /// The shape of the tree.
    pub fn geometry(&self) -> &Geometry {
        &self.shared.codec.geometry
    }

    /// Figures so far.
    pub fn stats(&self) -> Stats {
        self.shared.look(|core| core.plane.stats)
    }

    /// From now on the tree leaks what `canary` says.
    #[cfg(feature = "canaries")]
    pub fn set_canary(&self, canary: canary::Canary) {
        self.shared.step(|core| core.plane.canary = canary);
    }
}
