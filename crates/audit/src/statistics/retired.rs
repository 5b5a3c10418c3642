//! The Z cells that retire a bucket version are any Z of the unread ones.
//!
//! Some are blocks that were still there, the rest dummies to make up the number. Which are which
//! is hidden only if the set is drawn evenly: dummies taken from the front, or blocks that stand
//! together, would show how full the bucket was.

use super::counts::ChiSquare;
use super::levels::{Head, Levels, Tests};
use super::slots::{Mean, Ranks, known};
use super::tails::normal_both;
use crate::Finding;

/// Counts of the ranks that retiring reads took.
#[derive(Debug)]
pub(super) struct Retired {
    drawn: usize,
    ranks: Ranks,
    /// By number of unread cells: how many such reads, and pairs of neighbours in them.
    reads: Vec<(u64, u64)>,
}

impl Retired {
    pub(super) fn new(levels: u8, cells: u16, drawn: u16) -> Self {
        let reads = vec![(0, 0); usize::from(cells) + 1];
        Self { drawn: drawn.into(), ranks: Ranks::new(levels, cells), reads }
    }

    pub(super) fn read(&mut self, level: u8, unread: u16, ranks: &[u16]) {
        let Some(reads) = self.reads.get_mut(usize::from(unread)) else { return };
        if ranks.len() != self.drawn {
            return; // the oracle's matter
        }
        let neighbours = ranks.windows(2).filter(|pair| pair[1] == pair[0].wrapping_add(1));
        reads.0 += 1;
        reads.1 += neighbours.count() as u64;
        ranks.iter().for_each(|&rank| self.ranks.chosen(level, unread, rank));
    }

    /// How often each rank is among the Z, the mean rank and the number of neighbouring pairs,
    /// with the variances of drawing without replacement: for q = Z / u, single inclusions have the
    /// covariance `q (1 - q) u / (u - 1) (1 - 1/u)` on the diagonal and sum to Z; the sum of ranks
    /// varies by `Z (u - Z)(u + 1) / 12`; the number of runs is hypergeometric.
    ///
    /// Smallest leak: the share s of these reads that take the first (or last) Z of the unread
    /// cells. That moves the sum of ranks by `s sum(Z (u - Z) / 2)`.
    pub(super) fn finding(&self, subject: &str, levels: &Levels) -> Finding {
        let mut tests = Tests::default();
        let (mut all, mut pairs) = (Mean::default(), (0.0, 0.0));
        for unread in self.drawn + 1..self.reads.len() {
            self.test_inclusion(unread, &mut tests);
            let off = self.neighbours(unread);
            pairs = (pairs.0 + off.0, pairs.1 + off.1);
        }
        for level in 0..self.ranks.levels() {
            let mean = self.mean(level);
            mean.test(&format!("of retiring reads at level {level}"), &mut tests);
            all.join(&mean);
        }
        all.test("of all retiring reads", &mut tests);
        if pairs.1 > 0.0 {
            tests.add(normal_both(pairs.0 / pairs.1.sqrt()), || "neighbours read together".into());
        }
        let smallest = levels.reach(tests.count()) * all.variance.sqrt() / all.range;
        let samples = self.reads.iter().map(|reads| reads.0).sum();
        let head = Head::new("retired-ranks", subject, samples).leak(known(smallest));
        tests.finding(head, levels)
    }

    fn test_inclusion(&self, unread: usize, tests: &mut Tests) {
        let counts = self.ranks.pooled(unread);
        let mut inclusion = ChiSquare::uniform(&counts);
        if inclusion.freedom > 0.0 {
            let (u, drawn) = (unread as f64, self.drawn as f64);
            inclusion.sum *= (u - 1.0) / (u - drawn);
            tests.add(inclusion.p(), || format!("ranks retired among {unread} unread cells"));
        }
    }

    /// Pairs of neighbours beyond the expected ones, and their variance.
    fn neighbours(&self, unread: usize) -> (f64, f64) {
        let (reads, pairs) = self.reads[unread];
        let (n, u, z) = (reads as f64, unread as f64, self.drawn as f64);
        let rest = u - z;
        let variance = z * (z - 1.0) * (rest + 1.0) * rest / (u * u * (u - 1.0));
        (pairs as f64 - n * z * (z - 1.0) / u, n * variance)
    }

    fn mean(&self, level: usize) -> Mean {
        let mut sum = Mean::default();
        for unread in self.drawn + 1..self.reads.len() {
            let row = self.ranks.row(level, unread);
            let mut mean = Mean::default();
            mean.add(row);
            let (u, z) = (unread as f64, self.drawn as f64);
            let reads = mean.cells as f64 / z;
            mean.variance = reads * z * (u - z) * (u + 1.0) / 12.0;
            mean.range = reads * z * (u - z) / 2.0;
            sum.join(&mean);
        }
        sum
    }
}
