//! Leaves repeat as often as birthdays do, within a batch and between batches.
//!
//! Two requests for one block in a batch would read one leaf twice, which is why a batch holds
//! distinct blocks; a block that is not moved after a read shows the same leaf again when it is
//! next asked for, some batches later.

use std::collections::VecDeque;

use super::leaves::LAGS;
use super::levels::{Head, Levels, Tests, poisson_reach};
use super::tails::{binomial_both, poisson_both};
use crate::Finding;

/// Leaves of deeper trees are folded onto so many bits, so that the table stays in the cache.
const FOLDED_BITS: u8 = 16;

/// Coincidences among leaves, batch by batch.
#[derive(Debug)]
pub(super) struct Repeats {
    bits: u8,
    /// How often each leaf was read in the batch at hand.
    times: Vec<u16>,
    number: u64,
    batch: Vec<u32>,
    earlier: VecDeque<(u64, Vec<u32>)>,
    reads: u64,
    batches: u64,
    within: Coincidences,
    across: [Coincidences; LAGS],
}

/// How many pairs agree, of how many.
#[derive(Debug, Clone, Copy, Default)]
struct Coincidences {
    pairs: u64,
    same: u64,
}

impl Repeats {
    pub(super) fn new(levels: u8) -> Self {
        let bits = levels.min(FOLDED_BITS);
        Self {
            bits,
            times: vec![0; 1 << bits],
            number: 0,
            batch: Vec::new(),
            earlier: VecDeque::new(),
            reads: 0,
            batches: 0,
            within: Coincidences::default(),
            across: [Coincidences::default(); LAGS],
        }
    }

    pub(super) fn read(&mut self, batch: u64, leaf: u32) {
        if batch != self.number {
            self.close();
            self.number = batch;
        }
        let folded = (leaf ^ (leaf >> self.bits)) & ((1 << self.bits) - 1);
        self.batch.push(folded);
    }

    /// Compares the batch at hand with itself and with those before it.
    pub(super) fn close(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let size = self.batch.len() as u64;
        self.reads += size;
        self.batches += 1;
        self.within.pairs += size * (size - 1) / 2;
        for &leaf in &self.batch {
            let times = &mut self.times[leaf as usize];
            self.within.same += u64::from(*times);
            *times = times.saturating_add(1);
        }
        for (number, leaves) in &self.earlier {
            let lag = self.number.wrapping_sub(*number).wrapping_sub(1) as usize;
            let Some(across) = self.across.get_mut(lag) else { continue };
            across.pairs += size * leaves.len() as u64;
            across.same += leaves.iter().map(|&l| u64::from(self.times[l as usize])).sum::<u64>();
        }
        for &leaf in &self.batch {
            self.times[leaf as usize] = 0;
        }
        self.keep();
    }

    fn keep(&mut self) {
        let mut room = if self.earlier.len() == LAGS {
            self.earlier.pop_front().map_or_else(Vec::new, |(_, leaves)| leaves)
        } else {
            Vec::new()
        };
        room.clear();
        std::mem::swap(&mut room, &mut self.batch);
        self.earlier.push_back((self.number, room));
    }

    /// Equal leaves among the pairs of each batch: `n 2^-L` of `n` pairs.
    ///
    /// Smallest leak: the share of reads that repeat another leaf of their batch.
    pub(super) fn within(&self, subject: &str, levels: &Levels) -> Finding {
        let mut tests = Tests::default();
        if self.within.pairs > 0 && self.near_normal(1) {
            self.within.test(self.chance(), "within a batch", &mut tests);
        }
        let smallest = self.smallest(self.within, levels, tests.count());
        let head = Head::new("leaves-repeat-in-batch", subject, self.reads);
        tests.finding(head.leak(smallest), levels)
    }

    /// Equal leaves between each batch and those 1 to 64 before it, each lag and all together.
    ///
    /// Smallest leak: the share of reads that repeat a leaf of the batch so far before, for the
    /// lag that shows least.
    pub(super) fn across(&self, subject: &str, levels: &Levels) -> Finding {
        let mut tests = Tests::default();
        let mut all = Coincidences::default();
        for (lag, across) in (1..).zip(&self.across).filter(|(_, across)| across.pairs > 0) {
            across.test(self.chance(), &format!("{lag} batches apart"), &mut tests);
            all.pairs += across.pairs;
            all.same += across.same;
        }
        if self.near_normal(LAGS as u64) {
            all.test(self.chance(), &format!("up to {LAGS} batches apart"), &mut tests);
        }
        let most = self.across.iter().max_by_key(|a| a.pairs).copied().unwrap_or_default();
        let smallest = self.smallest(most, levels, tests.count());
        let head = Head::new("leaves-repeat-across-batches", subject, self.reads);
        tests.finding(head.leak(smallest), levels)
    }

    /// The extra coincidences that would have been seen, as a share of all reads.
    fn smallest(&self, of: Coincidences, levels: &Levels, tests: usize) -> f64 {
        let expected = of.pairs as f64 * self.chance();
        let extra = poisson_reach(expected, levels.each(tests), levels.power);
        extra / (self.reads as f64).max(1.0)
    }

    /// Whether sums over so many batches at a time are many enough to be taken for normal.
    ///
    /// Where leaves are few, a sum over all pairs of a group of batches is a chi-square in disguise
    /// (of 2^L - 1 degrees of freedom, a group), whose skewness misleads seven deviations out.
    fn near_normal(&self, together: u64) -> bool {
        let freedom = self.batches / together * ((1 << self.bits) - 1);
        freedom >= 3000
    }

    fn chance(&self) -> f64 {
        0.5_f64.powi(self.bits.into())
    }
}

impl Coincidences {
    /// Pairs are independent two by two, so their sum has the variance of a binomial count; where
    /// coincidences are rare a Poisson one says the same.
    fn test(self, chance: f64, apart: &str, tests: &mut Tests) {
        let expected = self.pairs as f64 * chance;
        let p = if chance < 1e-3 {
            poisson_both(self.same, expected)
        } else {
            binomial_both(self.same, self.pairs, chance)
        };
        let same = self.same;
        tests.add(p, || format!("{same} pairs of equal leaves {apart}, {expected:.1} expected"));
    }
}
