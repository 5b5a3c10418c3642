//! What the proxy of a `partition` store keeps in memory.

use super::settings::{PARTS_AN_ACCESS, PartitionSettings};
use super::state::checkpoint_lengths;
use crate::memory::{BESIDE_A_VALUE, ProxyMemory, SEALED_PIECES_BYTES};

/// A block of the position map, and of the list of a level.
const POSITION_BYTES: f64 = 2.0;
const LIST_BYTES: f64 = 4.0;
/// Of a list up to an eighth has left, half of that on average.
const LIST_GROWTH: f64 = 1.0 + 1.0 / 14.0;
/// Two marks of a cell.
const MARKS_BYTES: f64 = 0.25;
/// A level beside its list and its marks, with what an allocator takes for these; and a partition.
const LEVEL_BYTES: f64 = 144.0;
const ALLOCATED_BYTES: f64 = 80.0;
const PARTITION_BYTES: f64 = 256.0;
/// A section of a checkpoint with partitions.
const SECTION_BYTES: f64 = (1 << 20) as f64;

impl PartitionSettings {
    /// What is kept once every partition has been asked, with as much under way as may be.
    pub fn memory(&self) -> ProxyMemory {
        let layout = self.layout;
        let (partitions, blocks) = (f64::from(layout.partitions), f64::from(layout.blocks));
        let cells = |level: u8| f64::from(layout.cells(level));
        // Below the top every second level is filled.
        let stored: Vec<u8> = layout.stored_levels().collect();
        let below = stored.iter().filter(|level| **level != layout.top());
        let filled = cells(layout.top()) + below.map(|level| cells(*level) / 2.0).sum::<f64>();
        let levels = f64::from(layout.levels) * LEVEL_BYTES
            + (stored.len() as f64 + 1.0) / 2.0 * ALLOCATED_BYTES;
        let marks = partitions * (MARKS_BYTES * filled + levels + PARTITION_BYTES);
        let lists = LIST_BYTES * blocks;
        let state = POSITION_BYTES * blocks + LIST_GROWTH * lists + marks;
        // Values of stashes; of jobs one at most a partition, of whose cells half are dummies, not
        // held.
        let value = self.shell.shape.value_bytes as f64 + BESIDE_A_VALUE;
        let quotas: f64 = stored.iter().map(|level| f64::from(layout.room(*level))).sum();
        let written: f64 = stored.iter().map(|level| cells(*level)).sum();
        let of_jobs = (partitions * (quotas / 2.0 + written)).min(self.job_cells_max() as f64);
        let values = self.saved_blocks_max() as f64 * value + of_jobs * self.cell_bytes() as f64;
        // A cut holds the values of stashes, also of blocks that jobs have stored since, and what
        // partitions that have changed were, but for their lists.
        let held = layout.stash_blocks_max() as f64 * value;
        let checkpoint = held + marks + 2.0 * SECTION_BYTES + SEALED_PIECES_BYTES;
        // A checkpoint is read as a whole. Its sections go while partitions are made of them.
        let saved: usize = checkpoint_lengths(self).iter().sum();
        let opening = POSITION_BYTES * blocks + (saved as f64).max(lists + marks);
        // Of the cut before last, too; jobs and commits are parts of records.
        let parts = 2.0 * PARTS_AN_ACCESS * self.checkpoint_every as f64;
        let journal = parts * self.part_bytes() as f64;
        ProxyMemory { state, values, checkpoint, opening, journal }
    }
}
