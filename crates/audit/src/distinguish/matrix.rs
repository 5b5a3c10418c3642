//! Rows of features of one run, at several scales, in bounded memory.
//!
//! A sheet that is full drops every second row and from then on keeps every second of those that
//! come: what is kept is spread over the whole run and follows from the count of windows alone.

use super::feature::{Row, WIDTH};

/// The sheets of one run, one a scale.
#[derive(Debug)]
pub(super) struct Table {
    windows: u64,
    sheets: Vec<Sheet>,
}

/// Rows that cover `windows` windows each.
#[derive(Debug)]
pub(super) struct Sheet {
    windows: usize,
    rows_max: usize,
    cells: Vec<f32>,
    /// One of so many rows is kept.
    stride: u64,
    /// Rows that there would be if all were kept.
    produced: u64,
    gathered: usize,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Table {
    pub(super) fn new(scales: &[usize], rows_max: usize) -> Self {
        let sheets = scales.iter().map(|&windows| Sheet::new(windows, rows_max)).collect();
        Self { windows: 0, sheets }
    }

    pub(super) fn push(&mut self, row: &Row) {
        self.windows += 1;
        self.sheets.iter_mut().for_each(|sheet| sheet.push(row));
    }

    /// How many windows were taken in.
    pub(super) fn windows(&self) -> u64 {
        self.windows
    }

    /// The sheet of the scale with this number.
    pub(super) fn sheet(&self, scale: usize) -> &Sheet {
        &self.sheets[scale]
    }
}

impl Sheet {
    fn new(windows: usize, rows_max: usize) -> Self {
        Self {
            windows: windows.max(1),
            rows_max: rows_max.max(2),
            cells: Vec::new(),
            stride: 1,
            produced: 0,
            gathered: 0,
            sums: vec![0.0; WIDTH],
            squares: vec![0.0; WIDTH],
        }
    }

    fn push(&mut self, row: &Row) {
        if self.windows == 1 {
            return self.keep(&row.0);
        }
        self.sums.iter_mut().zip(row.0).for_each(|(sum, value)| *sum += f64::from(value));
        self.squares
            .iter_mut()
            .zip(row.0)
            .for_each(|(sum, value)| *sum += f64::from(value).powi(2));
        self.gathered += 1;
        if self.gathered == self.windows {
            let gathered = self.gathered();
            self.keep(&gathered);
            self.gathered = 0;
            self.sums.fill(0.0);
            self.squares.fill(0.0);
        }
    }

    /// The means of the windows gathered, then their spreads.
    fn gathered(&self) -> Vec<f32> {
        let count = self.gathered as f64;
        let means = self.sums.iter().map(|sum| (sum / count) as f32);
        let spreads = self.squares.iter().zip(&self.sums).map(|(squares, sum)| {
            let mean = sum / count;
            // Rounding would give equal values a spread, and a different one in every run.
            let variance = squares / count - mean * mean;
            if variance > 1e-9 * mean * mean { variance.sqrt() as f32 } else { 0.0 }
        });
        means.chain(spreads).collect()
    }

    fn keep(&mut self, row: &[f32]) {
        if self.produced.is_multiple_of(self.stride) {
            if self.rows() == self.rows_max {
                self.thin();
            }
            if self.produced.is_multiple_of(self.stride) {
                self.cells.extend_from_slice(row);
            }
        }
        self.produced += 1;
    }

    /// Drops every second row.
    fn thin(&mut self) {
        let width = self.width();
        let kept = self.rows().div_ceil(2);
        for row in 1..kept {
            self.cells.copy_within(2 * row * width..(2 * row + 1) * width, row * width);
        }
        self.cells.truncate(kept * width);
        self.stride *= 2;
    }

    /// How many numbers a row has.
    pub(super) fn width(&self) -> usize {
        if self.windows == 1 { WIDTH } else { 2 * WIDTH }
    }

    /// How many rows are kept.
    fn rows(&self) -> usize {
        self.cells.len() / self.width()
    }

    /// How many rows there would be if all were kept.
    pub(super) fn produced(&self) -> u64 {
        self.produced
    }

    /// The rows kept of the first `produced` ones.
    pub(super) fn first(&self, produced: u64) -> impl ExactSizeIterator<Item = &[f32]> {
        let rows = produced.div_ceil(self.stride).min(self.rows() as u64) as usize;
        self.cells.chunks_exact(self.width()).take(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: usize) -> Row {
        let mut row = Row::new();
        row.0[0] = number as f32;
        row
    }

    #[test]
    fn a_full_sheet_keeps_rows_from_the_whole_run() {
        let mut table = Table::new(&[1, 10], 8);
        (0..100).for_each(|number| table.push(&numbered(number)));
        let sheet = table.sheet(0);
        let kept: Vec<f32> = sheet.first(100).map(|row| row[0]).collect();
        assert_eq!(kept, [0.0, 16.0, 32.0, 48.0, 64.0, 80.0, 96.0]);
        assert_eq!(sheet.first(33).len(), 3);
        let tens: Vec<f32> = table.sheet(1).first(3).map(|row| row[0]).collect();
        assert_eq!(tens, [4.5, 44.5 - 20.0]);
    }

    #[test]
    fn equal_values_have_no_spread() {
        let mut table = Table::new(&[7], 8);
        (0..7).for_each(|_| table.push(&numbered(1_000_003)));
        let sheet = table.sheet(0);
        let row = sheet.first(1).next().unwrap();
        assert_eq!((row[0], row[WIDTH]), (1_000_003.0, 0.0));
    }
}
