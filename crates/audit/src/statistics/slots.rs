//! The cell that a path read takes of a bucket is any of the unread ones.
//!
//! The wanted block and a dummy must look alike, so the rank of the chosen cell among those not
//! read before is uniform, at each level and whatever the number of unread ones.

use super::counts::ChiSquare;
use super::levels::{Head, Levels, Tests};
use super::tails::normal_both;
use crate::Finding;

/// Counts kept at most; where levels times cells need more, the deepest levels share a table.
const COUNTS_MAX: usize = 1 << 24;

/// Counts of ranks, one row for each level and number of unread cells.
#[derive(Debug)]
pub(super) struct Ranks {
    levels: usize,
    cells: usize,
    /// Where the row of so many unread cells begins within a level's table.
    row: Vec<u32>,
    table: u32,
    counts: Vec<u32>,
}

impl Ranks {
    pub(super) fn new(levels: u8, cells: u16) -> Self {
        let cells = usize::from(cells);
        let row = |unread: usize| (unread * unread.saturating_sub(1) / 2) as u32;
        let row = (0..=cells).map(row).collect();
        let table = (cells * (cells + 1) / 2) as u32;
        let levels = (usize::from(levels) + 1).min(COUNTS_MAX / table.max(1) as usize);
        Self { levels, cells, row, table, counts: vec![0; levels * table as usize] }
    }

    /// Counts one cell; ranks that cannot be are left to the oracle.
    #[inline]
    pub(super) fn chosen(&mut self, level: u8, unread: u16, rank: u16) {
        let Some(&row) = self.row.get(usize::from(unread)) else { return };
        let level = u32::from(level).min(self.levels as u32 - 1);
        let at = (level * self.table + row + u32::from(rank)) as usize;
        if rank < unread
            && let Some(count) = self.counts.get_mut(at)
        {
            *count += 1;
        }
    }

    pub(super) fn levels(&self) -> usize {
        self.levels
    }

    pub(super) fn row(&self, level: usize, unread: usize) -> &[u32] {
        &self.counts[level * self.table as usize + self.row[unread] as usize..][..unread]
    }

    /// Ranks at each level (their chi-square over all numbers of unread cells, and their mean), for
    /// each number of unread cells over all levels, and the mean of all.
    ///
    /// Smallest leak: the share s of cells taken from the very front or back of the unread ones.
    /// That moves the sum of ranks by `s sum((u - 1) / 2)`, whose variance is
    /// `sum((u^2 - 1) / 12)`, over the numbers u of unread cells.
    pub(super) fn finding(&self, subject: &str, levels: &Levels) -> Finding {
        let mut tests = Tests::default();
        let mut all = Mean::default();
        for level in 0..self.levels {
            self.test_level(level, &mut all, &mut tests);
        }
        for unread in 2..=self.cells {
            let pooled = ChiSquare::uniform(&self.pooled(unread));
            if pooled.freedom > 0.0 {
                tests.add(pooled.p(), || format!("ranks among {unread} unread cells"));
            }
        }
        all.test("over all levels", &mut tests);
        let smallest = levels.reach(tests.count()) * all.variance.sqrt() / all.range;
        let head = Head::new("slot-ranks", subject, all.cells).leak(known(smallest));
        tests.finding(head, levels)
    }

    fn test_level(&self, level: usize, all: &mut Mean, tests: &mut Tests) {
        let (mut ranks, mut mean) = (ChiSquare::default(), Mean::default());
        for unread in 2..=self.cells {
            ranks.add(ChiSquare::uniform(self.row(level, unread)));
            mean.add(self.row(level, unread));
        }
        if ranks.freedom > 0.0 {
            tests.add(ranks.p(), || format!("ranks of cells at level {level}"));
            mean.test(&format!("at level {level}"), tests);
        }
        all.join(&mean);
    }

    pub(super) fn pooled(&self, unread: usize) -> Vec<u32> {
        let mut sum = vec![0; unread];
        for level in 0..self.levels {
            sum.iter_mut().zip(self.row(level, unread)).for_each(|(sum, count)| *sum += count);
        }
        sum
    }
}

/// The sum of ranks against half their range.
#[derive(Debug, Default)]
pub(super) struct Mean {
    pub(super) cells: u64,
    excess: f64,
    pub(super) variance: f64,
    /// By how much the sum would differ if every cell were the first.
    pub(super) range: f64,
}

impl Mean {
    pub(super) fn add(&mut self, row: &[u32]) {
        let cells: u64 = row.iter().map(|&c| u64::from(c)).sum();
        let ranks: u64 = (0..).zip(row).map(|(rank, &c)| rank * u64::from(c)).sum();
        let (n, unread) = (cells as f64, row.len() as f64);
        self.cells += cells;
        self.excess += ranks as f64 - n * (unread - 1.0) / 2.0;
        self.variance += n * (unread * unread - 1.0) / 12.0;
        self.range += n * (unread - 1.0) / 2.0;
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.cells += other.cells;
        self.excess += other.excess;
        self.variance += other.variance;
        self.range += other.range;
    }

    pub(super) fn test(&self, which: &str, tests: &mut Tests) {
        if self.cells > 0 {
            let z = self.excess / self.variance.sqrt();
            tests.add(normal_both(z), || {
                let share = 50.0 * (1.0 + self.excess / self.range);
                format!("the mean rank {which} lies at {share:.2} % of the unread cells")
            });
        }
    }
}

/// A leak that no data would show is a whole one.
pub(super) fn known(leak: f64) -> f64 {
    if leak.is_finite() { leak } else { 1.0 }
}
