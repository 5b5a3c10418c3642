//! Leaves are uniform, and independent of the leaves before them and of the evictions.
//!
//! A block that an eviction left in the stash could not go along the path just evicted, so its leaf
//! leans away from it: whoever skips reads because a block is in the stash makes the leaves that
//! are read lean towards it. At production parameters almost no block is ever left, so such a leak
//! shows at stressed ones only (Z = 8, A = 16, L = 3, 64 blocks: 9.5 deviations in 2 million
//! reads).

use super::counts::{ChiSquare, noncentrality_reach};
use super::levels::{Head, Levels, Tests, poisson_reach};
use super::tails::{binomial_both, poisson_both};
use crate::Finding;

/// Leaves are counted one by one in trees of up to so many levels, by either end of the number in
/// deeper ones.
const COUNTED_LEVELS: u8 = 18;

/// How far back leaves are compared.
pub(super) const LAGS: usize = 64;

/// How many bits of either end of a leaf are compared with those of an earlier one.
const PAIR_BITS: u8 = 3;

/// Down to which level a leaf is compared with the path evicted last.
const EVICTED_LEVELS: u8 = 3;

/// Checks of leaves in the order in which they are read.
#[derive(Debug)]
pub(super) struct Leaves {
    levels: u8,
    read: u64,
    first: Vec<u32>,
    last: Vec<u32>,
    /// Leaves whose place in the order was given.
    ordered: u64,
    /// The last of them, in a ring that begins at `ordered % LAGS`.
    before: [u32; LAGS],
    lagged: Vec<Lagged>,
    evicted: Option<u32>,
    since_evicted: u64,
    like_evicted: [u64; EVICTED_LEVELS as usize],
}

/// What the pairs of one lag came to.
#[derive(Debug, Clone)]
struct Lagged {
    pairs: u64,
    same: u64,
    /// By the first bits of the earlier and of the later leaf.
    first: [u32; 1 << (2 * PAIR_BITS)],
    /// By the exclusive or of their last bits.
    last: [u32; 1 << PAIR_BITS],
}

impl Leaves {
    pub(super) fn new(levels: u8) -> Self {
        let counted = 1 << levels.min(COUNTED_LEVELS);
        let none = Lagged {
            pairs: 0,
            same: 0,
            first: [0; 1 << (2 * PAIR_BITS)],
            last: [0; 1 << PAIR_BITS],
        };
        Self {
            levels,
            read: 0,
            first: vec![0; counted],
            last: vec![0; counted],
            ordered: 0,
            before: [0; LAGS],
            lagged: vec![none; LAGS],
            evicted: None,
            since_evicted: 0,
            like_evicted: [0; EVICTED_LEVELS as usize],
        }
    }

    pub(super) fn evicted(&mut self, leaf: u32) {
        self.evicted = Some(leaf);
    }

    pub(super) fn read(&mut self, leaf: u32) {
        self.count(leaf);
        self.compare_with_evicted(leaf);
        self.read += 1;
    }

    /// The same leaves once more, in the order in which they may have been read.
    pub(super) fn next(&mut self, leaf: u32) {
        self.compare_with_earlier(leaf);
        self.before[(self.ordered % LAGS as u64) as usize] = leaf;
        self.ordered += 1;
    }

    fn count(&mut self, leaf: u32) {
        let counted = self.levels.min(COUNTED_LEVELS);
        if let Some(count) = self.first.get_mut((leaf >> (self.levels - counted)) as usize) {
            *count += 1;
        }
        let mask = self.last.len() - 1;
        self.last[leaf as usize & mask] += 1;
    }

    fn compare_with_evicted(&mut self, leaf: u32) {
        let Some(evicted) = self.evicted else { return };
        self.since_evicted += 1;
        for level in 1..=EVICTED_LEVELS.min(self.levels) {
            let same = (leaf ^ evicted) >> (self.levels - level) == 0;
            self.like_evicted[usize::from(level - 1)] += u64::from(same);
        }
    }

    fn compare_with_earlier(&mut self, leaf: u32) {
        let known = self.ordered.min(LAGS as u64) as usize;
        let bits = PAIR_BITS.min(self.levels);
        let (shift, mask) = (self.levels - bits, (1_u32 << bits) - 1);
        for (lag, lagged) in (1_u64..).zip(&mut self.lagged[..known]) {
            let earlier = self.before[((self.ordered - lag) % LAGS as u64) as usize];
            let (row, column) = ((earlier >> shift) & mask, (leaf >> shift) & mask);
            lagged.pairs += 1;
            lagged.same += u64::from(earlier == leaf);
            lagged.first[(row << bits | column) as usize] += 1;
            lagged.last[((earlier ^ leaf) & mask) as usize] += 1;
        }
    }

    /// Leaves by their first and by their last bits, in halves, quarters and so on down to single
    /// leaves, as far as each part expects enough of them.
    ///
    /// Smallest leak: the smallest d such that half of the tree, or the odd leaves, are read with
    /// probability 1/2 + d instead of 1/2: `(z + z') / (2 sqrt(n))`.
    pub(super) fn uniform(&self, subject: &str, levels: &Levels) -> Finding {
        let mut tests = Tests::default();
        for parts in 1..=self.levels.min(COUNTED_LEVELS) {
            let (first, last) =
                (folded(&self.first, parts, true), folded(&self.last, parts, false));
            let (first, last) = (ChiSquare::uniform(&first), ChiSquare::uniform(&last));
            if first.freedom < f64::from((1_u32 << parts) - 1) {
                break; // joined neighbours are the parts of the level above
            }
            tests.add(first.p(), || format!("leaves by their first {parts} bits"));
            if parts < self.levels {
                tests.add(last.p(), || format!("leaves by their last {parts} bits"));
            }
        }
        let smallest = levels.reach(tests.count()) / (2.0 * (self.read as f64).sqrt());
        let head = Head::new("leaves-uniform", subject, self.read).leak(smallest);
        tests.finding(head, levels)
    }

    /// Leaves against those read 1 to 64 reads before: the same leaf; the same part of the tree
    /// or any other dependence between eighths; the exclusive or of the last three bits.
    ///
    /// Smallest leak: the share s of reads that, at one lag, read the leaf read then. Of `n` pairs
    /// `s n` more are the same than the `n / 2^L` expected (Poisson), and over `k` last bits the
    /// chi-square has the noncentrality `n s^2 (k - 1)`; whichever sees less.
    pub(super) fn lagged(&self, subject: &str, levels: &Levels) -> Finding {
        let mut tests = Tests::default();
        for (lag, lagged) in (1..).zip(&self.lagged) {
            lagged.test(self.levels, lag, &mut tests);
        }
        let pairs = self.lagged[LAGS - 1].pairs as f64;
        let level = levels.each(tests.count());
        let same = poisson_reach(pairs * self.chance(), level, levels.power) / pairs.max(1.0);
        let freedom = f64::from((1_u32 << PAIR_BITS.min(self.levels)) - 1);
        let apart = noncentrality_reach(freedom, level, levels.power);
        let smallest = same.min((apart / (pairs.max(1.0) * freedom.max(1.0))).sqrt());
        let head = Head::new("leaves-lagged", subject, self.lagged[0].pairs).leak(smallest);
        tests.finding(head, levels)
    }

    /// The share of reads that go to the same half, quarter and eighth of the tree as the eviction
    /// last due.
    ///
    /// Smallest leak: the smallest d such that reads go to the half evicted last with probability
    /// 1/2 + d or 1/2 - d: `(z + z') / (2 sqrt(n))`.
    pub(super) fn against_last_evicted(&self, subject: &str, levels: &Levels) -> Finding {
        let mut tests = Tests::default();
        let reads = self.since_evicted;
        for (level, &same) in (1..=EVICTED_LEVELS.min(self.levels)).zip(&self.like_evicted) {
            let chance = 0.5_f64.powi(level.into());
            tests.add(binomial_both(same, reads, chance), || {
                let share = 100.0 * same as f64 / reads.max(1) as f64;
                format!("{share:.3} % of reads share level {level} with the path evicted last")
            });
        }
        let smallest = levels.reach(tests.count()) / (2.0 * (reads as f64).sqrt());
        let head = Head::new("leaves-against-last-evicted", subject, reads).leak(smallest);
        tests.finding(head, levels)
    }

    fn chance(&self) -> f64 {
        0.5_f64.powi(self.levels.into())
    }
}

impl Lagged {
    fn test(&self, levels: u8, lag: usize, tests: &mut Tests) {
        let bits = PAIR_BITS.min(levels);
        let side = 1 << bits;
        let expected = self.pairs as f64 * 0.5_f64.powi(levels.into());
        let last = ChiSquare::uniform(&self.last[..side]);
        if last.freedom == 0.0 {
            return;
        }
        if levels > bits {
            let p = poisson_both(self.same, expected);
            let same = self.same;
            tests.add(p, || {
                format!("{same} leaves read again {lag} reads later, {expected:.1} expected")
            });
        }
        tests.add(last.p(), || format!("last bits of leaves {lag} reads apart"));
        let first = ChiSquare::independence(&self.first[..side * side], side);
        if first.freedom > 0.0 {
            tests.add(first.p(), || format!("parts of the tree read {lag} reads apart"));
        }
    }
}

/// `counts`, whose length is a power of two, by the first or last `bits` of the index.
fn folded(counts: &[u32], bits: u8, first: bool) -> Vec<u32> {
    let parts = 1 << bits;
    let width = counts.len() / parts;
    let of = |part: usize| -> u32 {
        if first {
            counts[part * width..][..width].iter().sum()
        } else {
            counts[part..].iter().step_by(parts).sum()
        }
    };
    (0..parts).map(of).collect()
}
