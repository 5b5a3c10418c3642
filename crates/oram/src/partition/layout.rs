//! The public arithmetic of partitions and levels: sizes, which levels are filled, which are due.
//!
//! A partition is a small pyramid. Level l below the top has room for 2^l blocks and as many
//! dummies; the top has room for `top_blocks` and 2^(L-1) dummies. Counters say the rest: level l
//! is filled if bit l of the orders carried out is 1, the top always; it is due when orders given
//! reach beyond it. All of it is known to the cloud.
//!
//! Paper: ObliviStore, section 3; SSS, section 4.

use crate::turn::EVICTIONS;
use crate::{Error, Result};

/// The probability that a partition has more blocks than its top takes, as a power of two. Those
/// beyond wait in the stash, so nothing is lost: only its bound depends on this.
const OVERFLOW_BITS: f64 = 80.0;
/// 2^32 over the golden ratio: its multiples, taken modulo 2^32, lie evenly.
const SPREAD: u32 = 0x9e37_79b9;
/// A level has so many cells at most: places have 16 bits.
const CELLS_MAX: usize = u16::MAX as usize;

/// Sizes of a store. Public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// N: blocks.
    pub blocks: u32,
    /// P: partitions, a power of two, about the square root of N; 2^16 at most.
    pub partitions: u32,
    /// L: levels of a partition; the top is the last.
    pub levels: u8,
    /// C: blocks that the top has room for, at least 2^(L-1).
    pub top_blocks: u16,
    /// c0: levels below this are the proxy's. Not the top.
    pub kept_levels: u8,
    /// Cells of a segment at most: a level of more lies in several chunks (`segment`).
    pub segment_cells: u16,
}

impl Layout {
    /// The layout of a store of `blocks`, of whose partitions `kept_levels` levels stay in the
    /// proxy (or all but the top, if there are fewer). A level is one chunk.
    ///
    /// # Errors
    /// [`Error::Caller`] if there are no blocks, or more than levels can hold.
    pub fn new(blocks: u32, kept_levels: u8) -> Result<Self> {
        if blocks == 0 || blocks >= 1 << 31 {
            return Err(Error::Caller("a store has 1 to 2^31 - 1 blocks".into()));
        }
        Self::of(blocks, 1 << blocks.ilog2().div_ceil(2), kept_levels)
    }

    /// The same in so many partitions, a power of two.
    ///
    /// # Errors
    /// [`Error::Caller`] if levels cannot hold so many blocks.
    pub fn of(blocks: u32, partitions: u32, kept_levels: u8) -> Result<Self> {
        let top_blocks = poisson_bound(f64::from(blocks) / f64::from(partitions));
        let levels = top_blocks.ilog2() as u8 + 1;
        if top_blocks + (1 << (levels - 1)) > CELLS_MAX {
            return Err(Error::Caller(format!("{blocks} blocks are too many for one store")));
        }
        let kept_levels = kept_levels.min(levels - 1);
        let top_blocks = top_blocks as u16;
        Ok(Self { blocks, partitions, levels, top_blocks, kept_levels, segment_cells: u16::MAX })
    }

    /// The same with as many levels in the proxy as hold so many blocks.
    pub fn with_kept_blocks(self, blocks: u64) -> Self {
        let held = |levels: u8| u64::from(self.partitions) * ((1 << levels) - 1);
        let kept_levels = (0..self.levels).rev().find(|levels| held(*levels) <= blocks);
        Self { kept_levels: kept_levels.unwrap_or(0), ..self }
    }

    /// Whether it can be: its fields may have been read, and not made by [`Layout::new`].
    ///
    /// # Errors
    /// [`Error::Caller`] naming what cannot be.
    pub fn check(&self) -> Result<()> {
        let levels = (1..=15).contains(&self.levels) && self.kept_levels < self.levels;
        let partitions = self.partitions.is_power_of_two() && self.partitions <= 1 << 16;
        let top = levels
            && self.segment_cells > 0
            && u64::from(self.top_blocks) >= self.cycle()
            && self.all_cells(self.top()) as usize <= CELLS_MAX;
        match self.blocks > 0 && self.blocks < 1 << 31 && partitions && top {
            true => Ok(()),
            false => Err(Error::Caller("no store has such partitions and levels".into())),
        }
    }

    /// The top level.
    pub fn top(&self) -> u8 {
        self.levels - 1
    }

    /// Orders from one rebuild of the top to the next.
    pub fn cycle(&self) -> u64 {
        1 << self.top()
    }

    /// Orders that a partition of a new store has carried out. Spread evenly, so that tops do not
    /// fall due together; public, so the cloud may know them.
    pub fn first_orders(&self, partition: u32) -> u64 {
        (u64::from(partition.wrapping_mul(SPREAD)) * self.cycle()) >> 32
    }

    /// Live blocks that `level` has room for; also its quota: so many cells of it are read by a
    /// job, or early for one.
    pub fn room(&self, level: u8) -> u16 {
        if level == self.top() { self.top_blocks } else { 1 << level }
    }

    /// Dummies of `level` at least.
    pub fn dummies(&self, level: u8) -> u16 {
        1 << level
    }

    /// Cells of `level`, in all of its segments.
    pub fn cells(&self, level: u8) -> u16 {
        // No more than there are places: see `check`.
        self.all_cells(level) as u16
    }

    fn all_cells(&self, level: u8) -> u32 {
        self.least_cells(level).next_multiple_of(self.segments(level))
    }

    /// What has to be room for in `level`.
    pub(super) fn least_cells(&self, level: u8) -> u32 {
        u32::from(self.room(level)) + u32::from(self.dummies(level))
    }

    /// The levels in the cloud, from the lowest.
    pub fn stored_levels(&self) -> impl Iterator<Item = u8> + use<> {
        self.kept_levels..self.levels
    }

    /// Cells read and written an access on average, when every job is done at once.
    pub fn cells_an_access(&self) -> (f64, f64) {
        let stored = f64::from(self.top() - self.kept_levels);
        let top = f64::from(self.top_blocks) / self.cycle() as f64;
        (stored / 2.0 + 1.0 + EVICTIONS * (stored / 2.0 + top), EVICTIONS * (stored + 1.0 + top))
    }

    /// How often an access has `level` written on average, when every job is done at once.
    pub fn writes_an_access(&self, level: u8) -> f64 {
        EVICTIONS / f64::from(1u32 << (level + 1).min(self.top()))
    }

    /// Blocks that the stashes hold in all, but with a negligible probability, when no job is open:
    /// half of what the proxy's levels hold, and what waits for a job with room.
    pub fn stash_blocks_max(&self) -> usize {
        let (partitions, kept) = (self.partitions as usize, (1usize << self.kept_levels) - 1);
        let spread = 16 * (partitions.isqrt() + 1) + 64;
        partitions * kept.div_ceil(2) + partitions * 5 / 2 + spread
    }

    /// What a job takes of the budget: the quotas of its sources and the cells of its destinations.
    pub fn job_cells(&self, until: u64, done: u64) -> u64 {
        let (sources, written) = (self.sources(until, done), self.destinations(until, done));
        let read: u64 = sources.iter().map(|level| u64::from(self.room(*level))).sum();
        read + written.iter().map(|level| u64::from(self.cells(*level))).sum::<u64>()
    }

    /// The filled levels in the cloud of a partition that has carried out `done` orders.
    pub fn filled(&self, done: u64) -> impl Iterator<Item = u8> + use<> {
        let top = self.top();
        self.stored_levels().filter(move |level| *level == top || done >> level & 1 == 1)
    }

    /// Whether `level` takes part in the next job of a partition that was given so many orders and
    /// has carried out so many.
    pub fn is_due(&self, level: u8, given: u64, done: u64) -> bool {
        let shift = (level + 1).min(self.top());
        given >> shift != done >> shift
    }

    /// Whether orders from `done` to `until` touch a level in the cloud.
    pub fn needs_job(&self, until: u64, done: u64) -> bool {
        (until ^ done) >> self.kept_levels != 0
    }

    /// The highest level that a job from `done` to `until` writes.
    fn highest(&self, until: u64, done: u64) -> u8 {
        let bit = 63 - (until ^ done).leading_zeros().min(63);
        (bit as u8).min(self.top())
    }

    /// The levels that a job from `done` to `until` orders reads.
    pub fn sources(&self, until: u64, done: u64) -> Vec<u8> {
        let (highest, top) = (self.highest(until, done), self.top());
        let is_source = |level: &u8| *level < highest || (*level == top && highest == top);
        self.filled(done).filter(is_source).collect()
    }

    /// The levels that a job from `done` to `until` orders writes, from the lowest.
    pub fn destinations(&self, until: u64, done: u64) -> Vec<u8> {
        let highest = self.highest(until, done);
        self.filled(until).filter(|level| *level <= highest).collect()
    }
}

/// The smallest bound that a Poisson variable of this mean exceeds with a probability of at most
/// 2^-[`OVERFLOW_BITS`].
fn poisson_bound(mean: f64) -> usize {
    let mut count = 0.0;
    let mut ln_probability = -mean;
    loop {
        // Beyond the mean terms fall at least geometrically.
        let (next, ratio) = (ln_probability + (mean / (count + 1.0)).ln(), mean / (count + 2.0));
        if ratio < 1.0 {
            let ln_tail = next - (1.0 - ratio).ln();
            if ln_tail <= -OVERFLOW_BITS * std::f64::consts::LN_2 {
                return count as usize;
            }
        }
        (count, ln_probability) = (count + 1.0, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the protocol, section 2.
    #[test]
    fn sizes_follow_from_the_number_of_blocks() {
        for (blocks, partitions, levels, top_blocks) in [
            (100_000, 256, 10, 609),
            (1 << 18, 512, 10, 761),
            (1_000_000, 1_024, 11, 1_313),
            (10_000_000, 4_096, 12, 2_963),
            (100_000_000, 8_192, 14, 13_353),
        ] {
            let layout = Layout::new(blocks, 3).unwrap();
            assert_eq!((layout.partitions, layout.levels), (partitions, levels), "{blocks}");
            assert!(layout.top_blocks.abs_diff(top_blocks) <= 1, "{blocks}: {layout:?}");
        }
        for blocks in [1, 2, 3, 64, 1 << 28] {
            let layout = Layout::new(blocks, 200).unwrap();
            assert_eq!(layout.kept_levels, layout.top());
            assert!(u64::from(layout.top_blocks) >= layout.cycle(), "{layout:?}");
        }
        assert!(Layout::new(0, 3).is_err() && Layout::new(u32::MAX, 3).is_err());
        assert!(Layout::new((1 << 31) - 1, 3).is_err(), "a level has more cells than a chunk");
    }

    #[test]
    fn a_job_reads_what_is_below_and_writes_what_the_counter_says() {
        let layout = Layout {
            blocks: 8,
            partitions: 1,
            levels: 4,
            top_blocks: 9,
            kept_levels: 1,
            segment_cells: 5,
        };
        // From 0b011: one order fills level 2 and empties those below; level 0 is the proxy's.
        assert_eq!(layout.sources(4, 3), [1, 3].map(|l: u8| l)[..1]);
        assert_eq!(layout.destinations(4, 3), [2]);
        // Several orders at once leave what their last one leaves.
        assert_eq!((layout.sources(7, 3), layout.destinations(7, 3)), (vec![1], vec![1, 2]));
        // Beyond the cycle the top is rebuilt.
        assert_eq!((layout.sources(8, 7), layout.destinations(8, 7)), (vec![1, 2, 3], vec![3]));
        assert_eq!(
            (layout.sources(18, 7), layout.destinations(18, 7)),
            (vec![1, 2, 3], vec![1, 3])
        );
        assert!(!layout.needs_job(5, 4) && layout.needs_job(6, 5));
        assert!(layout.is_due(1, 4, 3) && !layout.is_due(2, 6, 4) && layout.is_due(3, 8, 7));
    }
}
