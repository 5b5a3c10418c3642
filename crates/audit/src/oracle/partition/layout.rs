//! The public arithmetic of partitions and levels: what is filled, what is due, what a job merges.
//!
//! The engine has the same (`oram/partition/layout.rs`). This one is not shared with it on purpose:
//! a mistake in one would hide in both.

use fogbank_store::{ArrayId, ChunkName};

use super::CellSeen;
use crate::oracle::immediate::stored::TICK_BITS;

/// Sizes of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub partitions: u32,
    pub levels: u8,
    pub top_blocks: u16,
    pub kept_levels: u8,
    /// Cells of a chunk at most.
    pub segment_cells: u16,
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

    /// Quota and dummies, and as many more as make all segments of a level alike.
    pub fn cells(&self, level: u8) -> u16 {
        self.segment(level) * self.segments(level) as u16
    }

    /// Segments of a level, and cells of each.
    pub fn segments(&self, level: u8) -> u32 {
        self.least(level).div_ceil(self.segment_cells.into())
    }

    pub fn segment(&self, level: u8) -> u16 {
        self.least(level).div_ceil(self.segments(level)) as u16
    }

    fn least(&self, level: u8) -> u32 {
        u32::from(self.quota(level)) + u32::from(self.dummies(level))
    }

    /// A cell of a message, by its place in its level; of no level, if there is no such cell.
    pub fn seen(&self, (chunk, cell): (ChunkName, u16)) -> CellSeen {
        let level = self.level_of(&chunk).filter(|(_, level)| cell < self.segment(*level));
        let Some((partition, level)) = level else {
            return (ChunkName { chunk: u32::MAX, ..chunk }, cell);
        };
        let place = (chunk.chunk % self.segments(level)) as u16 * self.segment(level) + cell;
        (name(partition, level, chunk.version), place)
    }

    /// Where a cell of a level lies: its chunk, and its place there.
    pub fn chunk_of(&self, (level, place): CellSeen) -> (ChunkName, u16) {
        let Some(number) = level.array.0.checked_sub(1) else { return (level, place) };
        let (segments, segment) = (self.segments(number as u8), self.segment(number as u8));
        let chunk = level.chunk * segments + u32::from(place / segment);
        (ChunkName { chunk, ..level }, place % segment)
    }

    /// The partition and the level of which a chunk is.
    pub fn level_of(&self, chunk: &ChunkName) -> Option<(u32, u8)> {
        let level = u8::try_from(chunk.array.0.checked_sub(1)?).ok();
        let level = level.filter(|level| *level < self.levels)?;
        let partition = chunk.chunk / self.segments(level);
        (partition < self.partitions).then_some((partition, level))
    }

    /// Cells of a chunk, if it is of a level.
    pub fn chunk_cells(&self, chunk: &ChunkName) -> u64 {
        self.level_of(chunk).map_or(0, |(_, level)| self.segment(level).into())
    }

    /// The chunks of a level in one generation.
    pub fn chunks(
        &self,
        partition: u32,
        level: u8,
        version: u64,
    ) -> impl Iterator<Item = ChunkName> + use<> {
        let (segments, array) = (self.segments(level), ArrayId(u16::from(level) + 1));
        let chunks = partition * segments..(partition + 1) * segments;
        chunks.map(move |chunk| ChunkName { array, chunk, version })
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

/// What a level of a partition is called here in one generation, in however many chunks it lies.
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
