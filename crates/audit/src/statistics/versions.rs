//! Every version of a bucket has a permutation of its own.
//!
//! Reused, it makes the cell read n-th in one version the likelier n-th choice in the next; with no
//! permutation at all, or one for all buckets, the n-th choice leans to one cell.

use super::counts::ChiSquare;
use super::levels::{Head, Levels, Tests, poisson_reach};
use super::tails::poisson_both;
use crate::Finding;

/// At most so many choices are remembered; buckets beyond are left out. They are the deepest ones,
/// which live longest and so say least.
const REMEMBERED_MAX: usize = 1 << 24;

/// And of so many buckets.
const BUCKETS_MAX: usize = 1 << 20;

/// No cell: that choice was not made.
const NONE: u16 = u16::MAX;

/// Cells by the order in which they are read, compared from version to version.
#[derive(Debug)]
pub(super) struct Versions {
    cells: usize,
    /// Choices a version has, at most.
    choices: usize,
    buckets: Vec<Bucket>,
    /// Two rows of choices a bucket: the version at hand and the one before, in turn.
    chosen: Vec<u16>,
    compared: u64,
    same: u64,
    /// By the number of the choice and its cell.
    by_place: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    version: u64,
    /// Which of its two rows is the version at hand.
    row: bool,
}

impl Versions {
    pub(super) fn new(buckets: u64, cells: u16, choices: u16) -> Self {
        let (cells, choices) = (usize::from(cells), usize::from(choices));
        let most = (REMEMBERED_MAX / (2 * choices).max(1)).min(BUCKETS_MAX);
        let known = usize::try_from(buckets).map_or(most, |buckets| buckets.min(most));
        Self {
            cells,
            choices,
            buckets: vec![Bucket { version: u64::MAX, row: false }; known],
            chosen: vec![NONE; known * 2 * choices],
            compared: 0,
            same: 0,
            by_place: vec![0; choices * cells],
        }
    }

    #[inline]
    pub(super) fn chosen(&mut self, chunk: u32, version: u64, nth: u16, cell: u16) {
        let (nth, place) = (usize::from(nth), usize::from(cell));
        if nth >= self.choices || place >= self.cells {
            return; // the oracle's matter
        }
        self.by_place[nth * self.cells + place] += 1;
        if (chunk as usize) < self.buckets.len() {
            self.compare(chunk as usize, version, nth, cell);
        }
    }

    fn compare(&mut self, chunk: usize, version: u64, nth: usize, cell: u16) {
        let bucket = &mut self.buckets[chunk];
        let rows = &mut self.chosen[chunk * 2 * self.choices..][..2 * self.choices];
        let (first, second) = rows.split_at_mut(self.choices);
        if bucket.version != version {
            *bucket = Bucket { version, row: !bucket.row };
            if bucket.row { first.fill(NONE) } else { second.fill(NONE) }
        }
        let (now, before) = if bucket.row { (first, second) } else { (second, first) };
        now[nth] = cell;
        self.compared += u64::from(before[nth] != NONE);
        self.same += u64::from(before[nth] == cell);
    }

    /// Equal choices in consecutive versions of a bucket, one in Z + S expected; and for each n the
    /// places of n-th choices.
    ///
    /// The matches of one pair of versions are the fixed points of a random permutation as far as
    /// it is seen: a little more even than Poisson, which errs on the side of silence.
    ///
    /// Smallest leak: the share of choices that repeat that of the version before.
    pub(super) fn finding(&self, subject: &str, levels: &Levels) -> Finding {
        let mut tests = Tests::default();
        let expected = self.compared as f64 / self.cells.max(1) as f64;
        if self.compared > 0 {
            let same = self.same;
            tests.add(poisson_both(same, expected), || {
                format!("{same} cells chosen as in the version before, {expected:.1} expected")
            });
        }
        for (nth, places) in (1..).zip(self.by_place.chunks(self.cells.max(1))) {
            let places = ChiSquare::uniform(places);
            if places.freedom > 0.0 {
                tests.add(places.p(), || format!("places of the cells read as number {nth}"));
            }
        }
        let extra = poisson_reach(expected, levels.each(tests.count()), levels.power);
        let smallest = extra / (self.compared as f64).max(1.0);
        let head = Head::new("slots-across-versions", subject, self.compared).leak(smallest);
        tests.finding(head, levels)
    }
}
