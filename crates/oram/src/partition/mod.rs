//! `partition`: ObliviStore's square root of N small pyramids, shuffled in the background.
//!
//! # The protocol, one access
//!
//! 1. It is cut into a record, in the order of arrival. It shows the partition of its block, or one
//!    drawn at random if the block is under way already; and it is fixed which cells it reads: one
//!    of every filled level of that partition (`reader`).
//! 2. The partition is given an order, and every fourth access gives one to the next in turn
//!    (`orders`).
//! 3. When the record is durable the cells are read, all in one message.
//! 4. The access ends when its cells have come, those of a job of its partition cut before it, and
//!    all accesses before it have ended. Its block goes to the stash of a partition drawn at
//!    random.
//! 5. A partition whose durable orders touch a stored level gets a *job* (`job`): it reads a fixed
//!    quota of the levels that they merge, and writes whole the levels that they leave. Orders that
//!    wait are carried out by one job. Jobs of different partitions do not wait for each other.
//! 6. When the job's commit is durable, what it has written takes the place of what it has read.
//!
//! A checkpoint is cut between any two records and lacks what stands in cells of quotas; a recovery
//! reads those again, then what the journal names (`state`, `replay`).
//!
//! Levels below c0 never leave the proxy: their blocks wait in the stash of the partition.
//!
//! # Invariants
//!
//! - No cell is read for two purposes, no generation of a level is written twice.
//! - A block is in one level, stash or job of its partition, or under way.
//! - The partition of a block was drawn when it was last asked for, and has been shown by nobody.
//! - Whatever is delayed, no level runs out of dummies: it joins its job when it is due (`level`).
//!
//! # What the cloud sees
//!
//! Of each access a uniform partition and a uniform unread cell of each of its filled levels; of
//! each job a partition and the counter that it reaches, from which everything follows; and times.
//!
//! # Departures from the paper
//!
//! A level that is due gives its cells to accesses on account of its job (early cells), so that
//! nobody waits for a level without dummies. A job is due by durable orders only. The top has
//! 2^(L-1) dummies in place of C.
//!
//! Paper: ObliviStore, sections 3 to 5; SSS for the pyramids.

#[cfg(not(feature = "canaries"))]
mod canary;
#[cfg(feature = "canaries")]
pub mod canary;
mod codec;
mod job;
mod journal;
mod layout;
mod level;
mod memory;
mod orders;
mod plane;
mod public;
mod pyramid;
mod pyramids;
mod reader;
mod replay;
mod saved;
mod segment;
mod settings;
mod state;
mod stats;
mod steps;

#[cfg(test)]
mod tests;

pub use journal::RECORD_FORMAT;
pub use layout::Layout;
pub use settings::PartitionSettings;
pub use state::checkpoint_lengths;
pub use stats::{SecretStats, Stats};

use std::sync::Arc;

use self::canary::Canary;
use self::codec::PartitionCodec;
use self::plane::PartitionPlane;
use crate::Result;
use crate::immediate::{Immediate, Parts};

/// Told of every access that reads nothing, when its record is durable: its number in the record,
/// and its partition. Both are public, and no message shows them; a trace is to say them.
pub type Silent = dyn Fn(u32, u32) + Send + Sync;

/// The engine. See the module for the protocol.
pub type PartitionEngine = Immediate<PartitionPlane>;

impl PartitionEngine {
    /// Takes a store on: reads again what the journal names, writes a checkpoint if there was
    /// anything, deletes what a stop left behind, and serves from then on.
    ///
    /// # Errors
    /// As for an access; [`crate::Error::Caller`] for settings outside the limits or of another
    /// store.
    pub async fn open(settings: PartitionSettings, parts: Parts<'_>) -> Result<Self> {
        Self::open_with(settings, parts, (None, Canary::default())).await
    }

    /// The same; `silent` is told of accesses that read nothing. For traces.
    ///
    /// # Errors
    /// As [`PartitionEngine::open`].
    pub async fn open_telling(
        settings: PartitionSettings,
        parts: Parts<'_>,
        silent: Arc<Silent>,
    ) -> Result<Self> {
        Self::open_with(settings, parts, (Some(silent), Canary::default())).await
    }

    /// The same, leaking from the first call on.
    ///
    /// # Errors
    /// As [`PartitionEngine::open`].
    #[cfg(feature = "canaries")]
    pub async fn open_leaking(
        settings: PartitionSettings,
        parts: Parts<'_>,
        silent: Arc<Silent>,
        canary: Canary,
    ) -> Result<Self> {
        Self::open_with(settings, parts, (Some(silent), canary)).await
    }

    async fn open_with(
        settings: PartitionSettings,
        mut parts: Parts<'_>,
        (silent, canary): (Option<Arc<Silent>>, Canary),
    ) -> Result<Self> {
        settings.check()?;
        let keys = parts.vault.keys();
        let mut plane = PartitionPlane::new(&settings, keys.clone(), parts.random);
        (plane.silent, plane.canary) = (silent, canary);
        if parts.recovered.full.is_empty() {
            plane = plane.fill()?;
        } else {
            state::restore(&mut plane, &mut std::mem::take(&mut parts.recovered.full))?;
        }
        let (shell, group_max) = (settings.shell.clone(), settings.group_max());
        Self::begin(plane, (PartitionCodec::new(keys, settings), shell, group_max), parts).await
    }

    /// From now on the pyramids leak what `canary` says.
    #[cfg(feature = "canaries")]
    pub fn set_canary(&self, canary: Canary) {
        self.shared.step(|core| core.plane.canary = canary);
    }

    /// Other budgets: orders given and not carried out, and cells of open jobs.
    #[cfg(feature = "canaries")]
    pub fn set_budgets(&self, (orders_max, cells_max): (u64, u64)) {
        self.shared
            .step(|core| (core.plane.orders_max, core.plane.cells_max) = (orders_max, cells_max));
    }

    /// Figures so far.
    pub fn stats(&self) -> Stats {
        self.shared.look(|core| Stats { orders_open: core.plane.open_orders, ..core.plane.stats })
    }
}
