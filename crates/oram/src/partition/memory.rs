//! What the proxy of a `partition` store keeps in memory.

use super::settings::PartitionSettings;
use super::state::checkpoint_lengths;
use crate::memory::{BESIDE_A_VALUE, ProxyMemory, READ_TIMES, SEALED_PIECES_BYTES};

/// A block of the position map, and of a level.
const POSITION_BYTES: f64 = 8.0;
const LIVE_BYTES: f64 = 4.0;
/// A block while levels are made of a checkpoint, in lists that have grown.
const RANKED_BYTES: f64 = 12.0;
/// The place of a cell, once a level has been asked.
const PLACE_BYTES: f64 = 2.0;
/// A level beside its tables, and a partition.
const LEVEL_BYTES: f64 = 136.0;
const PARTITION_BYTES: f64 = 192.0;

impl PartitionSettings {
    /// What is kept once every partition has been asked, with as much under way as may be.
    pub fn memory(&self) -> ProxyMemory {
        let layout = self.layout;
        let (partitions, blocks) = (f64::from(layout.partitions), f64::from(layout.blocks));
        let cells = |level: u8| f64::from(layout.cells(level));
        // Below the top every second level is filled. A block that has left a level keeps its rank there.
        let stored: Vec<u8> = layout.stored_levels().collect();
        let below = stored.iter().filter(|level| **level != layout.top());
        let places = cells(layout.top()) + below.map(|level| cells(*level) / 2.0).sum::<f64>();
        let ranks = blocks + partitions * layout.cycle() as f64 / 2.0;
        let levels = partitions * stored.len() as f64 * LEVEL_BYTES;
        let state = POSITION_BYTES * blocks
            + LIVE_BYTES * ranks
            + PLACE_BYTES * partitions * places
            + levels
            + partitions * PARTITION_BYTES;
        // Values of stashes; of jobs one at most a partition, of whose cells half are dummies, not held.
        let value = self.shell.shape.value_bytes as f64 + BESIDE_A_VALUE;
        let quotas: f64 = stored.iter().map(|level| f64::from(layout.room(*level))).sum();
        let written: f64 = stored.iter().map(|level| cells(*level)).sum();
        let of_jobs = (partitions * (quotas / 2.0 + written)).min(self.job_cells_max() as f64);
        let values = self.saved_blocks_max() as f64 * value + of_jobs * self.cell_bytes() as f64;
        let flat: usize = checkpoint_lengths(self).iter().take(4).sum();
        let opening = (POSITION_BYTES + LIVE_BYTES + RANKED_BYTES) * blocks
            + READ_TIMES * self.checkpoint_bytes() as f64;
        ProxyMemory { state, values, checkpoint: flat as f64 + SEALED_PIECES_BYTES, opening }
    }
}
