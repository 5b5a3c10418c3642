//! Tables of counts against what chance expects of them.

use super::tails::{chi_square_above, chi_square_point_above, normal_point_above};

/// Every cell of a chi-square expects at least this many. Ten serve at the usual levels; at 1e-13 a
/// lone cell that expects ten is far likelier to be high than chi-square says.
pub(super) const EXPECTED_MIN: f64 = 20.0;

/// A chi-square and its degrees of freedom; independent ones add.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ChiSquare {
    pub(super) sum: f64,
    pub(super) freedom: f64,
}

impl ChiSquare {
    pub(super) fn p(self) -> f64 {
        chi_square_above(self.sum, self.freedom)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.freedom += other.freedom;
    }

    /// Equal chances for all cells; neighbours are joined until each joint cell expects enough.
    /// Nothing if there are too few for two cells.
    pub(super) fn uniform(counts: &[u32]) -> Self {
        let total = counts.iter().map(|&c| f64::from(c)).sum::<f64>();
        let cells = counts.len().min((total / EXPECTED_MIN) as usize);
        if cells < 2 {
            return Self::default();
        }
        let each = total / counts.len() as f64;
        let sum = joined(counts, cells)
            .map(|(width, count)| (count - width * each).powi(2) / (width * each))
            .sum();
        Self { sum, freedom: (cells - 1) as f64 }
    }

    /// Independence of the rows of a square table from its columns, given both sums.
    pub(super) fn independence(table: &[u32], side: usize) -> Self {
        let row = |r: usize| table[r * side..][..side].iter().map(|&c| f64::from(c)).sum::<f64>();
        let column = |c: usize| (0..side).map(|r| f64::from(table[r * side + c])).sum::<f64>();
        let rows: Vec<_> = (0..side).map(row).collect();
        let columns: Vec<_> = (0..side).map(column).collect();
        let total = rows.iter().sum::<f64>();
        if total < EXPECTED_MIN * (side * side) as f64
            || rows.iter().chain(&columns).any(|&n| n == 0.0)
        {
            return Self::default();
        }
        let cell = |at: usize| {
            let expected = rows[at / side] * columns[at % side] / total;
            (f64::from(table[at]) - expected).powi(2) / expected
        };
        let freedom = ((side - 1) * (side - 1)) as f64;
        Self { sum: (0..side * side).map(cell).sum(), freedom }
    }
}

/// `counts` in `cells` groups of neighbours, of sizes as equal as can be: width and sum of each.
pub(super) fn joined(counts: &[u32], cells: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
    (0..cells).map(move |cell| {
        let (from, to) = (cell * counts.len() / cells, (cell + 1) * counts.len() / cells);
        let sum = counts[from..to].iter().map(|&c| f64::from(c)).sum::<f64>();
        ((to - from) as f64, sum)
    })
}

/// The noncentrality that a chi-square finds with `power` at `level`: the l with
/// `(critical - f - l) / sqrt(2 (f + 2 l))` = minus the normal point of `power`.
pub(super) fn noncentrality_reach(freedom: f64, level: f64, power: f64) -> f64 {
    let over = chi_square_point_above(level, freedom) - freedom;
    if !over.is_finite() {
        return over;
    }
    let z = normal_point_above(1.0 - power);
    super::tails::bisect(0.0, 4.0 * over + 100.0, |l| {
        l - over < z * (2.0 * (freedom + 2.0 * l)).sqrt()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_counts_are_no_wonder_and_uneven_ones_are() {
        assert_eq!(ChiSquare::uniform(&[100; 8]).sum, 0.0);
        assert_eq!(ChiSquare::uniform(&[100; 8]).freedom, 7.0);
        assert!(ChiSquare::uniform(&[100, 100, 100, 300]).p() < 1e-9);
        assert_eq!(ChiSquare::uniform(&[1; 100]).freedom, 4.0, "joined to expect twenty");
        assert_eq!(ChiSquare::uniform(&[30, 3]), ChiSquare::default());
    }

    #[test]
    fn a_diagonal_is_not_independent() {
        assert!(ChiSquare::independence(&[60, 40, 40, 60], 2).p() < 0.01);
        assert_eq!(ChiSquare::independence(&[60, 30, 40, 20], 2).sum, 0.0);
    }
}
