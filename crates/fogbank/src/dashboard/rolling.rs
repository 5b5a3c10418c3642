//! Counts over the last while, written by many and read by anybody, without a lock.
//!
//! A ring of columns of time. Whoever first counts in a new column clears it; what others count in
//! it meanwhile may be lost, which a picture can bear. Readers copy what is there: they hold
//! nothing that a writer could wait for.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fogbank_env::Nanos;
use fogbank_picture::COLUMNS;

/// Counts of `rows` rows over the last [`COLUMNS`] columns of time.
pub struct Rolling {
    width: Nanos,
    rows: usize,
    /// Which column of all time each column of the ring holds, plus one.
    held: Vec<AtomicU64>,
    counts: Vec<AtomicU32>, // column by column
}

/// A copy of the counts, the oldest column first.
pub struct Copied {
    rows: usize,
    counts: Vec<u32>,
}

impl Rolling {
    /// Nothing counted yet, in columns of `width` nanoseconds.
    pub fn new(rows: usize, width: Nanos) -> Self {
        // One column more than is read: the one that is being counted in.
        let columns = COLUMNS + 1;
        let rows = rows.max(1);
        Self {
            width: width.max(1),
            rows,
            held: (0..columns).map(|_| AtomicU64::new(0)).collect(),
            counts: (0..columns * rows).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Counts `amount` in `row` at `at`.
    pub fn add(&self, at: Nanos, row: usize, amount: u32) {
        let column = at / self.width;
        let slot = (column % self.held.len() as u64) as usize;
        let counts = &self.counts[slot * self.rows..][..self.rows];
        let held = self.held[slot].load(Ordering::Acquire);
        if held > column + 1 {
            return; // the ring has gone round
        }
        let renewed = held <= column
            && self.held[slot]
                .compare_exchange(held, column + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if renewed {
            counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
        if let Some(count) = counts.get(row) {
            count.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// The last whole columns before `now`.
    pub fn copy(&self, now: Nanos) -> Copied {
        let end = now / self.width;
        let mut counts = Vec::with_capacity(COLUMNS * self.rows);
        for ago in (1..=COLUMNS as u64).rev() {
            let column = end.checked_sub(ago);
            let slot = column.map(|column| (column % self.held.len() as u64) as usize);
            let held = slot.map(|slot| self.held[slot].load(Ordering::Acquire));
            match slot.filter(|_| held == column.map(|column| column + 1)) {
                Some(slot) => {
                    let column = &self.counts[slot * self.rows..][..self.rows];
                    counts.extend(column.iter().map(|count| count.load(Ordering::Relaxed)));
                }
                None => counts.resize(counts.len() + self.rows, 0),
            }
        }
        Copied { rows: self.rows, counts }
    }

    /// How wide a column is.
    pub fn width(&self) -> Nanos {
        self.width
    }
}

impl Copied {
    /// One square.
    pub fn at(&self, column: usize, row: usize) -> u32 {
        self.counts.get(column * self.rows + row).copied().unwrap_or(0)
    }

    /// One row, column by column.
    pub fn row(&self, row: usize) -> Vec<u32> {
        (0..COLUMNS).map(|column| self.at(column, row)).collect()
    }

    /// Every row of one column.
    pub fn column(&self, column: usize) -> &[u32] {
        self.counts.get(column * self.rows..(column + 1) * self.rows).unwrap_or_default()
    }

    /// The sum of every column.
    pub fn columns(&self) -> Vec<u64> {
        (0..COLUMNS).map(|column| self.column(column).iter().map(|n| u64::from(*n)).sum()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_columns_are_kept_and_older_ones_forgotten() {
        let rolling = Rolling::new(2, 10);
        for at in 0..10_000 {
            rolling.add(at, (at % 2) as usize, 1);
        }
        rolling.add(5, 0, 1_000); // too late
        let copied = rolling.copy(9_999);
        assert!(copied.row(0).iter().chain(&copied.row(1)).all(|count| *count == 5));
        assert_eq!(copied.columns().iter().sum::<u64>(), 10 * COLUMNS as u64);
        let later = rolling.copy(9_999 + 100 * 10);
        assert_eq!(later.columns().iter().sum::<u64>(), 10 * (COLUMNS as u64 - 99));
        assert_eq!(rolling.copy(1 << 60).columns().iter().sum::<u64>(), 0);
    }

    #[test]
    fn a_young_ring_is_empty_at_its_beginning() {
        let rolling = Rolling::new(1, 10);
        rolling.add(0, 0, 7);
        rolling.add(0, 9, 7); // no such row
        let copied = rolling.copy(35);
        assert_eq!((copied.at(COLUMNS - 3, 0), copied.columns().iter().sum::<u64>()), (7, 7));
    }

    #[test]
    fn many_may_count_at_once() {
        let rolling = Rolling::new(1, 1_000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|at| rolling.add(at, 0, 1)));
            }
        });
        let counted = rolling.copy(1_000).at(COLUMNS - 1, 0);
        assert!((3_000..=4_000).contains(&counted), "{counted}");
    }
}
