//! A picture of heat: bands one above the other that share the axis of time.
//!
//! The colour of a square is how often it was touched, against the average of its band, because
//! bands differ in how many places share the same traffic (the root of a tree is on every path).

use fogbank_env::Nanos;

use crate::heat::{COLUMNS, HeatMap};

/// A band of equal places.
#[derive(Debug, Clone)]
pub struct Band {
    /// What stands beside it.
    pub title: String,
    /// Its touches.
    pub map: HeatMap,
}

/// Bands that share the axis of time.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// From top to bottom.
    pub bands: Vec<Band>,
}

/// A square that is touched this many times the average has the last colour.
pub const FULL_HEAT: f64 = 8.0;
/// Colours of a picture, the coldest included.
pub const SHADES: usize = 64;

impl Picture {
    /// Brings all bands to one scale of time: the widest columns and the longest run.
    pub fn align(&mut self) {
        let width = self.bands.iter().map(|band| band.map.column_ns()).max().unwrap_or(1);
        self.bands.iter_mut().for_each(|band| band.map.coarsen_to(width));
        let columns = self.columns();
        self.bands.iter_mut().for_each(|band| band.map.crop(columns));
    }

    /// Brings this picture and another that began at the same time to one scale; the other's end
    /// counts.
    pub fn follow(&mut self, other: &mut Picture) {
        self.align();
        other.align();
        let width = self.column_ns().max(other.column_ns());
        for picture in [&mut *self, &mut *other] {
            picture.bands.iter_mut().for_each(|band| band.map.coarsen_to(width));
        }
        let columns = other.columns();
        self.bands.iter_mut().for_each(|band| band.map.crop(columns));
    }

    /// How many columns the longest band has.
    pub fn columns(&self) -> usize {
        self.bands.iter().map(|band| band.map.columns()).max().unwrap_or(0)
    }

    /// How wide a column is, once aligned.
    pub fn column_ns(&self) -> Nanos {
        self.bands.first().map_or(1, |band| band.map.column_ns())
    }

    /// The time that the columns span.
    pub fn span_ns(&self) -> Nanos {
        self.column_ns().saturating_mul(self.columns() as u64)
    }

    /// All touches.
    pub fn sum(&self) -> u64 {
        self.bands.iter().map(|band| band.map.sum()).sum()
    }

    /// The touches of every column, over all bands.
    pub fn load(&self) -> Vec<u64> {
        let columns = self.columns().min(COLUMNS);
        (0..columns).map(|c| self.bands.iter().map(|band| band.map.column_sum(c)).sum()).collect()
    }
}

impl Band {
    /// The shades of one row, column by column.
    pub fn shades(&self, row: usize, columns: usize) -> Vec<u8> {
        let squares = (self.map.rows() * columns.max(1)) as f64;
        let average = self.map.sum() as f64 / squares;
        (0..columns).map(|column| shade(self.map.at(column, row), average)).collect()
    }
}

/// The colour of `count` touches where `average` are usual: 0 only for none. Where less than one is
/// usual, one is: a single touch among few would glare.
pub fn shade(count: u64, average: f64) -> u8 {
    if count == 0 {
        return 0;
    }
    let times = (count as f64 / average.max(1.0)).min(FULL_HEAT);
    let heat = (1.0 + times).log2() / (1.0 + FULL_HEAT).log2();
    (1.0 + heat * (SHADES - 2) as f64) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_the_average_and_the_most_look_different() {
        let shades: Vec<u8> = [0, 1, 10, 20, 80, 8_000].map(|count| shade(count, 10.0)).into();
        assert!(shades.is_sorted() && shades[0] == 0 && shades[1] > 0);
        assert_eq!(shades[4], SHADES as u8 - 1);
        assert_eq!(shades[5], shades[4]);
        assert_eq!(shade(1, 0.01), shade(10, 10.0));
    }

    #[test]
    fn what_was_asked_ends_with_what_was_seen() {
        let band = |at| {
            let mut map = HeatMap::new(2, 0, 1);
            map.touch(at, 0, 1);
            Picture { bands: vec![Band { title: String::new(), map }] }
        };
        let (mut asked, mut seen) = (band(10_000), band(3_000));
        asked.follow(&mut seen);
        assert_eq!((asked.column_ns(), asked.columns()), (seen.column_ns(), seen.columns()));
        assert_eq!((asked.sum(), seen.sum()), (0, 1)); // asked after the end of the trace
    }
}
