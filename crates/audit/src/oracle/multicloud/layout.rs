//! The public arithmetic: which levels are filled, which job writes which, and how many cells each
//! has.
//!
//! With `done` evictions carried out level j below the top is there if bit j of `done` is set; the
//! job that ends at `count` writes the level of the lowest bit of `count`, or the top.

use super::MulticloudConfig;

/// 2^32 over the golden ratio: by which partitions of a new volume are spread.
const SPREAD: u32 = 0x9e37_79b9;

/// See the module.
#[derive(Debug, Clone)]
pub struct Layout(pub MulticloudConfig);

impl Layout {
    pub fn top(&self) -> u8 {
        self.0.levels - 1
    }

    pub fn cycle(&self) -> u64 {
        1 << self.top()
    }

    /// Evictions of a job.
    pub fn batch(&self) -> u64 {
        1 << self.0.kept_levels
    }

    /// Evictions of a partition of a new volume.
    pub fn first(&self, partition: u16) -> u64 {
        let refreshes = self.cycle() * u64::from(self.0.refresh_every);
        let spread = u64::from(u32::from(partition).wrapping_mul(SPREAD));
        (spread * refreshes) >> 32 & !(self.batch() - 1)
    }

    /// The partition whose turn it is after this one.
    pub fn after(&self, partition: u16) -> u16 {
        ((u32::from(partition) + 1) % self.0.partitions) as u16
    }

    pub fn written(&self, count: u64) -> u8 {
        (count.trailing_zeros() as u8).min(self.top())
    }

    pub fn refreshes(&self, count: u64) -> bool {
        let rebuilds = count / self.cycle();
        self.written(count) == self.top()
            && rebuilds.is_multiple_of(u64::from(self.0.refresh_every))
    }

    /// Levels that are there, from the lowest, each with the count of the job that wrote it.
    pub fn filled(&self, partition: u16, done: u64) -> Vec<(u8, u64)> {
        let (top, first) = (self.top(), self.first(partition));
        (self.0.kept_levels..self.0.levels)
            .filter(|level| *level == top || done >> level & 1 == 1)
            .map(|level| (level, done >> level << level))
            .filter(|(_, count)| *count > first)
            .collect()
    }

    /// What the job of `partition` that ends at `count` reads.
    pub fn sources(&self, partition: u16, count: u64) -> Vec<(u8, u64)> {
        let level = self.written(count);
        let mut filled = self.filled(partition, count - self.batch());
        filled.retain(|(from, _)| *from < level || level == self.top());
        filled
    }

    pub fn size(&self, level: u8, count: u64) -> u32 {
        let spare = u32::from(self.0.spare);
        if level == self.top() {
            let levels = u32::from(self.0.levels - self.0.kept_levels);
            return u32::from(self.0.top_blocks) + self.cycle() as u32 + spare * levels;
        }
        let is_last = (count + (1 << level)).is_multiple_of(self.cycle());
        self.body(level) + if is_last { spare } else { 0 }
    }

    fn body(&self, level: u8) -> u32 {
        let below: u32 = (self.0.kept_levels..level).map(|level| self.body(level)).sum();
        ((2 << level) + u32::from(self.0.extra)).max(below + self.batch() as u32)
    }

    /// Cells of `level` that the list of a rebuild has.
    pub fn quota(&self, level: u8) -> u32 {
        let blocks = if level == self.top() { self.0.top_blocks.into() } else { 1 << level };
        blocks + u32::from(self.0.spare)
    }

    /// Blocks that the client uploads.
    pub fn uploads(&self, count: u64) -> u32 {
        if self.refreshes(count) { self.0.top_blocks.into() } else { self.batch() as u32 }
    }
}
