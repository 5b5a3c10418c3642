//! The public arithmetic: sizes of levels, which are filled, which job writes which.
//!
//! A partition counts evictions. Every U-th is carried out by a job, U = 2^c0: the job that ends at
//! d writes level min(trailing zeros of d, L - 1), the *top*. With d carried out, level j below the
//! top is there if bit j of d is set, and was written by the job that ended at (d >> j) << j; the
//! top always is. What a job before the first of a volume would have written is absent: it has no
//! cells. Levels below c0 are the client's.

use crate::{Error, Result};

/// 2^32 over the golden ratio: its multiples, taken modulo 2^32, lie evenly.
const SPREAD: u32 = 0x9e37_79b9;
/// Partitions that a volume has at most.
pub const PARTITIONS_MAX: u32 = 1 << 16;
/// What one cloud can make the other keep in memory of reads, and of rebuilds.
const AHEAD_BYTES: usize = 64 << 20;
/// Bytes that sealing adds to a block.
const TAG_BYTES: usize = 16;

/// Sizes of a volume. Public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// P: partitions, [`PARTITIONS_MAX`] at most: their numbers have 16 bits.
    pub partitions: u32,
    /// L: levels of a partition; the top is the last.
    pub levels: u8,
    /// c0: levels below this are the client's. Not the top.
    pub kept_levels: u8,
    /// C: blocks that the cells of a partition hold at most.
    pub top_blocks: u16,
    /// s: dummies of a level for reads while a list of it is out.
    pub spare: u16,
    /// e: dummies of a level below the top beyond those that its evictions ask for.
    pub extra: u16,
    /// R: every so many rebuilds of the top one is a refresh.
    pub refresh_every: u16,
    /// B: bytes of a block, a multiple of 16.
    pub block_bytes: u32,
}

/// Which job wrote a level: d, 6 bytes, and the attempt, 2 bytes. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

impl Generation {
    /// The one of an attempt of the job that ends at `count`.
    pub fn new(count: u64, attempt: u16) -> Self {
        Self(count << 16 | u64::from(attempt))
    }

    /// d: evictions carried out when the job is done.
    pub fn count(self) -> u64 {
        self.0 >> 16
    }

    /// Which attempt of the job it is, from 0.
    pub fn attempt(self) -> u16 {
        self.0 as u16
    }
}

impl Shape {
    /// Whether there can be such a volume.
    ///
    /// # Errors
    /// [`Error::Client`] naming what cannot be.
    pub fn check(&self) -> Result<()> {
        let levels = (1..=15).contains(&self.levels) && self.kept_levels < self.levels;
        if !levels || u64::from(self.top_blocks) < self.cycle() {
            return Err(Error::Client("no partition has such levels"));
        }
        // With spare cells, if it ever has them, and one for the seal of the records.
        let fits = |level| self.size(level, self.cycle() - (1 << level)) < u32::from(u16::MAX);
        if !self.stored_levels().all(fits) {
            return Err(Error::Client("a level would have more than 65534 cells"));
        }
        let blocks = self.block_bytes > 0 && self.block_bytes.is_multiple_of(16);
        let partitions = (1..=PARTITIONS_MAX).contains(&self.partitions);
        match partitions && self.refresh_every > 0 && blocks {
            true => Ok(()),
            false => Err(Error::Client("a volume has partitions, refreshes and blocks")),
        }
    }

    /// The top level.
    pub fn top(&self) -> u8 {
        self.levels - 1
    }

    /// Evictions from one rebuild of the top to the next.
    pub fn cycle(&self) -> u64 {
        1 << self.top()
    }

    /// U: evictions, and blocks uploaded, of a job.
    pub fn batch(&self) -> u64 {
        1 << self.kept_levels
    }

    /// All partitions.
    pub fn all(&self) -> impl Iterator<Item = u16> + use<> {
        (0..=u16::MAX).take(self.partitions as usize)
    }

    /// Whether there is a partition of this number.
    pub fn has(&self, partition: u16) -> bool {
        u32::from(partition) < self.partitions
    }

    /// P in 16 bits: 0 stands for [`PARTITIONS_MAX`].
    pub fn partitions_as_written(&self) -> u16 {
        self.partitions as u16
    }

    /// P, as [`Shape::partitions_as_written`] gave it.
    pub fn partitions_as_read(written: u16) -> u32 {
        u32::from(written.wrapping_sub(1)) + 1
    }

    /// Bytes of a cell: a sealed block.
    pub fn cell_bytes(&self) -> usize {
        self.block_bytes as usize + TAG_BYTES
    }

    /// The levels in the cloud, from the lowest.
    pub fn stored_levels(&self) -> impl Iterator<Item = u8> + use<> {
        self.kept_levels..self.levels
    }

    /// Evictions that a partition of a new volume has carried out: spread evenly over a cycle of
    /// refreshes, so that tops do not fall due together.
    pub fn first(&self, partition: u16) -> u64 {
        self.spread(partition, self.refresh_cycle()) & !(self.batch() - 1)
    }

    /// Evictions from one refresh to the next.
    pub fn refresh_cycle(&self) -> u64 {
        self.cycle() * u64::from(self.refresh_every)
    }

    /// A number below `bound`: those of all partitions lie evenly.
    pub fn spread(&self, partition: u16, bound: u64) -> u64 {
        let spread = u32::from(partition).wrapping_mul(SPREAD);
        (u64::from(spread) * bound) >> 32
    }

    /// The level that the job ending at `count` writes.
    pub fn written(&self, count: u64) -> u8 {
        (count.trailing_zeros() as u8).min(self.top())
    }

    /// Whether the job ending at `count` is a refresh: all that it moves goes through the client.
    pub fn refreshes(&self, count: u64) -> bool {
        self.written(count) == self.top()
            && (count / self.cycle()).is_multiple_of(u64::from(self.refresh_every))
    }

    /// The levels of `partition` that are there when `done` evictions are carried out, from the
    /// lowest, each with the d of the job that wrote it.
    pub fn filled(&self, partition: u16, done: u64) -> impl Iterator<Item = (u8, u64)> + use<> {
        let (top, first) = (self.top(), self.first(partition));
        let there = move |level: &u8| *level == top || done >> level & 1 == 1;
        let written = move |level: u8| (level, done >> level << level);
        self.stored_levels().filter(there).map(written).filter(move |(_, count)| *count > first)
    }

    /// What the job of `partition` that ends at `count` reads: levels, each with the d of the job
    /// that wrote it. All that lies below the level it writes, and the top for a top.
    pub fn sources(&self, partition: u16, count: u64) -> impl Iterator<Item = (u8, u64)> + use<> {
        let (level, top) = (self.written(count), self.top());
        let is_source = move |(from, _): &(u8, u64)| *from < level || level == top;
        self.filled(partition, count - self.batch()).filter(is_source)
    }

    /// Cells of `level` as the job ending at `count` writes it. Only what the next rebuild of the
    /// top reads has room for accesses while the list is out.
    pub fn size(&self, level: u8, count: u64) -> u32 {
        let spare = u32::from(self.spare);
        if level == self.top() {
            let levels = u32::from(self.levels - self.kept_levels);
            return u32::from(self.top_blocks) + self.cycle() as u32 + spare * levels;
        }
        self.body(level) + if self.has_spare(level, count) { spare } else { 0 }
    }

    /// Whether `level` as the job ending at `count` writes it, below the top, is what the next
    /// rebuild of the top reads.
    pub fn has_spare(&self, level: u8, count: u64) -> bool {
        level < self.top() && (count + (1 << level)).is_multiple_of(self.cycle())
    }

    /// Cells of a level below the top, without those for a list that is out.
    fn body(&self, level: u8) -> u32 {
        let below: u32 = (self.kept_levels..level).map(|level| self.body(level)).sum();
        ((2 << level) + u32::from(self.extra)).max(below + self.batch() as u32)
    }

    /// Unread cells of `level` that a rebuild of the top takes, all that hold blocks among them.
    pub fn quota(&self, level: u8) -> u32 {
        let blocks = if level == self.top() { self.top_blocks.into() } else { 1 << level };
        blocks + u32::from(self.spare)
    }

    /// Reads that a generation of `level` bears before its job, a list out or not.
    pub fn bears(&self, level: u8) -> u32 {
        if level == self.top() { 1 << level } else { self.body(level) - (1 << level) }
    }

    /// Reads of which a shuffler keeps what the client wants, and as many of which it keeps what
    /// the holder sent before: as many as take 64 MiB, and no more than 1024. The lowest numbers go
    /// first.
    pub fn reads_ahead(&self) -> usize {
        let each = usize::from(self.levels) * self.cell_bytes();
        (AHEAD_BYTES / each).clamp(16, 1024)
    }

    /// Rebuilds of which a shuffler keeps what the holder sent before the client named them: as
    /// many as take 64 MiB, and two at least. The oldest go first.
    pub fn rebuilds_ahead(&self) -> usize {
        let each = self.size(self.top(), self.cycle()) as usize * self.cell_bytes();
        (AHEAD_BYTES / each).clamp(2, 64)
    }

    /// Levels of a partition that a holder keeps without a commit, one of them before the client
    /// has named it.
    pub fn levels_ahead(&self) -> usize {
        2
    }

    /// Cells of a batch, at most: the largest level, and as many more as a job uploads. Longer ones
    /// are no messages, so whatever came can be shown.
    pub fn batch_cells_max(&self) -> usize {
        let size = |level| self.size(level, self.cycle() - (1 << level)) as usize;
        self.stored_levels().map(size).max().unwrap_or(0) + self.batch() as usize
    }

    /// Blocks that the client uploads for the job ending at `count`.
    pub fn uploads(&self, count: u64) -> u32 {
        if self.refreshes(count) { self.top_blocks.into() } else { self.batch() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(levels: u8, kept_levels: u8, top_blocks: u16, extra: u16) -> Shape {
        let (partitions, spare, refresh_every, block_bytes) = (64, 16, 4, 4096);
        Shape {
            partitions,
            levels,
            kept_levels,
            top_blocks,
            spare,
            extra,
            refresh_every,
            block_bytes,
        }
    }

    /// Over whole cycles: what a job reads and is given fits what it writes, and a rebuild of the
    /// top adds no zeros. Levels hold their blocks and the reads that they bear.
    #[test]
    fn what_is_read_fits_what_is_written() {
        for shape in
            [shape(10, 3, 609, 8), shape(10, 3, 609, 0), shape(4, 1, 9, 2), shape(1, 0, 1, 0)]
        {
            shape.check().unwrap();
            for partition in [0, 1, 63] {
                let first = shape.first(partition);
                let last = first + 3 * shape.cycle();
                for count in (first..last).step_by(shape.batch() as usize).skip(1) {
                    let level = shape.written(count);
                    let sources: Vec<_> = shape.sources(partition, count).collect();
                    let (rebuilds, size) = (level == shape.top(), shape.size(level, count));
                    let cells = |(level, written): &(u8, u64)| match rebuilds {
                        true => shape.quota(*level),
                        false => shape.size(*level, *written),
                    };
                    let read: u32 = sources.iter().map(cells).sum();
                    let all = read + shape.batch() as u32;
                    assert!(all <= size, "{shape:?} at {count}");
                    let stored = usize::from(shape.levels - shape.kept_levels);
                    assert_eq!(rebuilds && sources.len() == stored, all == size && rebuilds);
                    let filled: Vec<_> = shape.filled(partition, count).collect();
                    assert!(filled.contains(&(level, count)));
                    for (level, written) in filled {
                        let spare = shape.size(level, written) - shape.bears(level);
                        assert!(spare >= shape.quota(level) - u32::from(shape.spare));
                    }
                    for (level, written) in sources.iter().filter(|_| rebuilds) {
                        let unread = shape.size(*level, *written) - shape.bears(*level);
                        assert!(unread >= shape.quota(*level), "{level}");
                    }
                    let handed: u32 =
                        sources.iter().map(|(level, written)| shape.size(*level, *written)).sum();
                    let handed = if rebuilds { 0 } else { handed };
                    assert!(handed.max(size) as usize <= shape.batch_cells_max());
                }
            }
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        for bad in [
            shape(0, 0, 9, 0),
            shape(4, 4, 9, 0),
            shape(4, 1, 7, 0),
            shape(15, 3, u16::MAX, 0),
            Shape { spare: u16::MAX - 40, ..shape(4, 1, 9, 0) },
            Shape { block_bytes: 8, ..shape(4, 1, 9, 0) },
            Shape { refresh_every: 0, ..shape(4, 1, 9, 0) },
            Shape { partitions: 0, ..shape(4, 1, 9, 0) },
            Shape { partitions: PARTITIONS_MAX + 1, ..shape(4, 1, 9, 0) },
        ] {
            assert!(matches!(bad.check(), Err(Error::Client(_))), "{bad:?}");
        }
    }

    #[test]
    fn new_partitions_are_spread_over_a_cycle_of_refreshes() {
        let shape = shape(4, 1, 9, 0);
        let firsts: std::collections::BTreeSet<u64> = (0..64).map(|p| shape.first(p)).collect();
        assert_eq!(firsts.len() as u64, shape.cycle() * 4 / 2);
        assert!(firsts.iter().all(|first| *first < 32 && first % 2 == 0));
        assert!((0..64).all(|p| shape.filled(p, shape.first(p)).next().is_none()));
    }

    /// As many partitions as there are numbers: each has one.
    #[test]
    fn every_number_may_be_a_partition() {
        let shape = Shape { partitions: PARTITIONS_MAX, ..shape(4, 1, 9, 0) };
        shape.check().unwrap();
        assert_eq!(Shape::partitions_as_read(shape.partitions_as_written()), PARTITIONS_MAX);
        assert!(shape.all().eq(0..=u16::MAX) && shape.has(u16::MAX));
        let fewer = Shape { partitions: 3, ..shape };
        assert_eq!(Shape::partitions_as_read(fewer.partitions_as_written()), 3);
        assert!(fewer.all().eq(0..3) && fewer.has(2) && !fewer.has(3));
    }
}
