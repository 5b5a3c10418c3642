//! What an engine has moved and done since it was opened.

use super::RingEngine;

/// Counts of the store calls, kept where they are made.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Moved {
    pub cells_read: u64,
    pub cells_received: u64,
    pub cells_written: u64,
    pub read_calls: u64,
    pub write_calls: u64,
}

/// Figures since the engine was opened. The cloud can count all of them but those in `secret`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Batch slots, read and write, padding included.
    pub accesses: u64,
    /// Cells the cloud has read for us.
    pub cells_read: u64,
    /// Cells it has sent: fewer where it XORs them.
    pub cells_received: u64,
    /// Cells written.
    pub cells_written: u64,
    /// Bytes of the cells received.
    pub bytes_received: u64,
    /// Bytes of the cells written.
    pub bytes_written: u64,
    /// Cells read on paths, by evictions and by early reshuffles.
    pub cells_read_by: ReadBy,
    /// Cells that the same accesses would have moved without the epoch's buffer.
    pub logical_cells: u64,
    /// Evictions.
    pub evictions: u64,
    /// Early reshuffles.
    pub early_reshuffles: u64,
    /// Bucket images written.
    pub buckets_written: u64,
    /// Messages that asked for cells, and windows written.
    pub read_calls: u64,
    /// Windows written.
    pub write_calls: u64,
    /// What the cloud must not learn.
    pub secret: SecretStats,
}

/// Why cells were read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ReadBy {
    /// Path reads.
    pub paths: u64,
    /// Evictions.
    pub evictions: u64,
    /// Early reshuffles.
    pub reshuffles: u64,
}

/// Figures that must not leave the trusted side.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SecretStats {
    /// Batch slots that carried a request; the rest was padding.
    pub real_accesses: u64,
    /// Blocks in the stash and the cached top now.
    pub stash_now: u64,
    /// The most of them before any eviction or at the end of any batch.
    pub stash_max: u64,
}

impl Stats {
    /// Cells received and written an access.
    pub fn cells_per_access(&self) -> f64 {
        (self.cells_received + self.cells_written) as f64 / self.accesses.max(1) as f64
    }

    /// Bytes of cells received and written an access.
    pub fn cell_bytes_per_access(&self) -> f64 {
        (self.bytes_received + self.bytes_written) as f64 / self.accesses.max(1) as f64
    }

    /// The share of batch slots that were padding. Secret.
    pub fn dummy_share(&self) -> f64 {
        1.0 - self.secret.real_accesses as f64 / self.accesses.max(1) as f64
    }
}

impl RingEngine {
    /// Figures since the engine was opened.
    pub fn stats(&self) -> Stats {
        let (moved, tally) = (&self.moved, &self.planner.tally);
        let cell_bytes = self.planner.geometry.cell_bytes() as u64;
        Stats {
            accesses: tally.accesses,
            cells_read: moved.cells_read,
            cells_received: moved.cells_received,
            cells_written: moved.cells_written,
            bytes_received: moved.cells_received * cell_bytes,
            bytes_written: moved.cells_written * cell_bytes,
            cells_read_by: ReadBy {
                paths: tally.path_cells,
                evictions: tally.evict_cells,
                reshuffles: tally.reshuffle_cells,
            },
            logical_cells: tally.logical_cells,
            evictions: tally.evictions,
            early_reshuffles: tally.early_reshuffles,
            buckets_written: tally.images,
            read_calls: moved.read_calls,
            write_calls: moved.write_calls,
            secret: SecretStats {
                real_accesses: tally.real_accesses,
                stash_now: self.planner.stash.len() as u64,
                stash_max: self.planner.stash.len_max() as u64,
            },
        }
    }
}
