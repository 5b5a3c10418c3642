//! Counts over time and place, in memory that does not grow with what is counted.
//!
//! Both axes rescale by doubling: when time runs over the last column every two columns become one,
//! and when a place lies beyond the last row every two rows become one. So one pass is enough, and
//! two maps that began at the same time with columns of one width can always be brought to one
//! scale.

use fogbank_env::Nanos;

/// The most columns a map has; it uses at least half of them once it has doubled.
pub const COLUMNS: usize = 240;

/// How often each place was touched, over time.
#[derive(Debug, Clone)]
pub struct HeatMap {
    origin: Nanos,
    column_ns: Nanos,
    columns: usize,
    rows: usize,
    /// Places a row stands for.
    scale: u64,
    /// Places known: one more than the highest touched or announced.
    places: u64,
    counts: Vec<u64>, // column by column
}

impl HeatMap {
    /// An empty map of `rows` rows of one place each, whose first column begins at `origin` and is
    /// `column_ns` nanoseconds wide.
    pub fn new(rows: usize, origin: Nanos, column_ns: Nanos) -> Self {
        let rows = rows.max(1);
        let counts = vec![0; rows * COLUMNS];
        Self { origin, column_ns: column_ns.max(1), columns: 0, rows, scale: 1, places: 0, counts }
    }

    /// The same, with room for `places` places from the start.
    pub fn with_places(self, places: u64) -> Self {
        let mut map = self;
        map.announce(places);
        map
    }

    /// Counts `amount` touches of `place` at `at`; what lies before the origin is in the first
    /// column.
    pub fn touch(&mut self, at: Nanos, place: u64, amount: u64) {
        self.announce(place.saturating_add(1));
        self.extend_to(at);
        let column = self.column_of(at) as usize;
        let row = ((place / self.scale) as usize).min(self.rows - 1);
        let count = &mut self.counts[column * self.rows + row];
        *count = count.saturating_add(amount);
    }

    /// Makes time up to `at` part of the map, touched or not.
    pub fn extend_to(&mut self, at: Nanos) {
        while self.column_of(at) >= COLUMNS as u64 {
            self.halve_columns();
        }
        self.columns = self.columns.max(self.column_of(at) as usize + 1);
    }

    /// Makes the columns at least `column_ns` wide, as far as doubling goes.
    pub fn coarsen_to(&mut self, column_ns: Nanos) {
        while self.column_ns < column_ns {
            self.halve_columns();
        }
    }

    /// Forgets the columns after the first `columns`, and has so many.
    pub fn crop(&mut self, columns: usize) {
        self.columns = columns.min(COLUMNS);
        self.counts[self.columns * self.rows..].fill(0);
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How many rows stand for places that are known; all of them are drawn.
    pub fn rows(&self) -> usize {
        (self.places.div_ceil(self.scale) as usize).clamp(1, self.rows)
    }

    /// How many places are known.
    pub fn places(&self) -> u64 {
        self.places
    }

    /// How wide a column is.
    pub fn column_ns(&self) -> Nanos {
        self.column_ns
    }

    /// Where the first column begins.
    pub fn origin(&self) -> Nanos {
        self.origin
    }

    /// The touches of one square.
    pub fn at(&self, column: usize, row: usize) -> u64 {
        self.counts.get(column * self.rows + row).copied().unwrap_or(0)
    }

    /// The touches of a column.
    pub fn column_sum(&self, column: usize) -> u64 {
        (0..self.rows).map(|row| self.at(column, row)).sum()
    }

    /// All touches.
    pub fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn column_of(&self, at: Nanos) -> u64 {
        at.saturating_sub(self.origin) / self.column_ns
    }

    fn announce(&mut self, places: u64) {
        self.places = self.places.max(places);
        while self.places > self.scale.saturating_mul(self.rows as u64) {
            self.halve_rows();
        }
    }

    fn halve_columns(&mut self) {
        for column in 0..COLUMNS {
            for row in 0..self.rows {
                let merged = self.at(2 * column, row) + self.at(2 * column + 1, row);
                self.counts[column * self.rows + row] = merged;
            }
        }
        self.columns = self.columns.div_ceil(2);
        self.column_ns = self.column_ns.saturating_mul(2);
    }

    fn halve_rows(&mut self) {
        for column in self.counts.chunks_exact_mut(self.rows) {
            for row in 0..column.len() {
                let pair = column.get(2 * row..).unwrap_or_default();
                column[row] = pair.iter().take(2).sum();
            }
        }
        self.scale = self.scale.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same counts as a map that kept everything and was drawn afterwards.
    #[test]
    fn doubling_loses_nothing() {
        let mut map = HeatMap::new(4, 100, 10);
        let touches: Vec<(Nanos, u64)> = (0..5_000).map(|i| (100 + 7 * i, i * i % 37)).collect();
        for (at, place) in &touches {
            map.touch(*at, *place, 1);
        }
        assert_eq!((map.sum(), map.column_ns(), map.places()), (5_000, 160, 37));
        assert_eq!((map.columns(), map.rows()), (219, 3)); // sixteen places a row
        for column in 0..map.columns() {
            for row in 0..map.rows() {
                let here = |(at, place): &&(Nanos, u64)| {
                    (at - 100) / 160 == column as u64 && place / 16 == row as u64
                };
                assert_eq!(map.at(column, row), touches.iter().filter(here).count() as u64);
            }
        }
    }

    #[test]
    fn any_time_and_place_has_a_square() {
        let mut map = HeatMap::new(3, 5, 0);
        for (at, place) in [(0, 0), (5, 1), (Nanos::MAX, u64::MAX), (7, u64::MAX - 1)] {
            map.touch(at, place, 1);
        }
        assert_eq!(map.sum(), 4);
        assert!(map.columns() > COLUMNS / 2 && map.rows() == 2);
    }

    #[test]
    fn two_maps_come_to_one_scale() {
        let (mut short, mut long) = (HeatMap::new(1, 0, 10), HeatMap::new(1, 0, 10));
        short.touch(100, 0, 1);
        long.touch(1_000_000, 0, 1);
        short.coarsen_to(long.column_ns());
        short.crop(long.columns());
        assert_eq!((short.column_ns(), short.columns()), (long.column_ns(), long.columns()));
        assert_eq!(short.sum(), 1);
    }
}
