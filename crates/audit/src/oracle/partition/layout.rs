//! The public arithmetic of partitions and levels: what is filled, what is due, what a job merges.
//!
//! The engine has the same (`oram/partition/layout.rs`). This one is not shared with it on purpose:
//! a mistake in one would hide in both.

use fogbank_store::{ArrayId, ChunkName};

use crate::oracle::immediate::stored::TICK_BITS;

/// Sizes of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub partitions: u32,
    pub levels: u8,
    pub top_blocks: u16,
    pub kept_levels: u8,
}

impl Layout {
    pub fn top(&self) -> u8 {
        self.levels - 1
    }

    /// Live blocks that a level has room for, which is its quota.
    pub fn quota(&self, level: u8) -> u16 {
        if level == self.top() { self.top_blocks } else { 1 << level }
    }

    /// Cells that accesses may read before a level is due.
    pub fn dummies(&self, level: u8) -> u16 {
        1 << level
    }

    pub fn cells(&self, level: u8) -> u16 {
        self.quota(level) + self.dummies(level)
    }

    pub fn stored(&self) -> impl Iterator<Item = u8> + use<> {
        self.kept_levels..self.levels
    }

    /// The stored levels that are filled after so many orders.
    pub fn filled(&self, done: u64) -> impl Iterator<Item = u8> + use<> {
        let top = self.top();
        self.stored().filter(move |level| *level == top || done >> level & 1 == 1)
    }

    /// Whether orders from `done` to `given` reach beyond a level.
    pub fn is_due(&self, level: u8, given: u64, done: u64) -> bool {
        let shift = (level + 1).min(self.top());
        given >> shift != done >> shift
    }

    pub fn needs_job(&self, until: u64, done: u64) -> bool {
        (until ^ done) >> self.kept_levels != 0
    }

    /// What a job from `done` to `until` reads, and what it writes.
    pub fn job(&self, until: u64, done: u64) -> (Vec<u8>, Vec<u8>) {
        let bit = (until ^ done).checked_ilog2().unwrap_or(0) as u8;
        let (highest, top) = (bit.min(self.top()), self.top());
        let is_source = |level: &u8| *level < highest || (*level == top && highest == top);
        let sources = self.filled(done).filter(is_source).collect();
        (sources, self.filled(until).filter(|level| *level <= highest).collect())
    }

    /// Where a new store begins to count: spread evenly, by the golden ratio.
    pub fn first_orders(&self, partition: u32) -> u64 {
        let spread = partition.wrapping_mul(0x9e37_79b9);
        u64::from(spread) >> (32 - u32::from(self.top()))
    }
}

/// The chunk of a level: an array a level, a chunk a partition, a version a generation.
pub(super) fn name(partition: u32, level: u8, version: u64) -> ChunkName {
    ChunkName { array: ArrayId(u16::from(level) + 1), chunk: partition, version }
}

/// The generation that a job of this opening up to so many orders makes.
pub(super) fn version(opening: u32, until: u64) -> u64 {
    (u64::from(opening) << TICK_BITS) | until
}

/// The orders up to which the job went that made a generation.
pub(super) fn orders(name: &ChunkName) -> u64 {
    name.version & ((1 << TICK_BITS) - 1)
}

/// Whether it is one of a new store, which nobody has written.
pub(super) fn is_new(name: &ChunkName) -> bool {
    orders(name) == 0
}
