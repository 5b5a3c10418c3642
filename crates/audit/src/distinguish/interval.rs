//! How far apart a classifier's guesses are on two sets of runs, and how sure that is.
//!
//! The advantage is the share of rows held for the second kind among rows of the second kind, less
//! that among rows of the first: twice the accuracy less one for balanced kinds, and free of the
//! classifier's leaning to one side. Neighbouring rows are not independent, so each run is cut into
//! [`BLOCKS`] blocks and the variance is that of block means (never less than independent rows
//! would have). Runs may differ for a reason of their own; [`spread`] tests that.

use super::distribution::{f_tail, t_quantile};

/// Blocks that a run is cut into.
pub(super) const BLOCKS: usize = 16;

/// Rows that a run needs, for blocks of more than a few.
pub(super) const ROWS_MIN: usize = 4 * BLOCKS;

/// What a classifier thinks of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lean {
    /// The share of rows held for the second kind.
    pub(super) share: f64,
    /// The variance that the share has by chance.
    variance: f64,
    /// How many rows.
    pub(super) rows: usize,
}

/// An advantage and the interval around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub(super) advantage: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Lean {
    /// What the decisions on the rows of a run come to.
    pub(super) fn of(decisions: &[bool]) -> Self {
        let values = decisions.iter().map(|&second| f64::from(u8::from(second)));
        let lean = Self::of_values(&values.collect::<Vec<f64>>());
        // One row more of each kind: a share of nothing or of all is not known exactly either.
        let rows = lean.rows as f64;
        let smooth = (lean.share * rows + 1.0) / (rows + 2.0);
        let variance = lean.variance.max(smooth * (1.0 - smooth) / rows.max(1.0));
        Self { variance, ..lean }
    }

    /// The same for any feature of the rows: its mean and the variance of that.
    pub(super) fn of_values(values: &[f64]) -> Self {
        let rows = values.len();
        let blocks = (0..BLOCKS).map(|i| &values[i * rows / BLOCKS..(i + 1) * rows / BLOCKS]);
        let means: Vec<f64> = blocks.map(average).collect();
        let independent = variance(values) / rows.max(1) as f64;
        let variance = (variance(&means) / BLOCKS as f64).max(independent);
        Self { share: average(values), variance, rows }
    }
}

/// The advantage over the test runs, with an interval of error `alpha` by the variance of blocks.
pub(super) fn by_blocks(first: &[Lean], second: &[Lean], alpha: f64) -> Interval {
    let freedom = (first.len() + second.len()) * (BLOCKS - 1);
    let variance = |leans: &[Lean]| {
        leans.iter().map(|lean| lean.variance).sum::<f64>() / (leans.len() * leans.len()) as f64
    };
    interval(first, second, variance(first) + variance(second), freedom as f64, alpha)
}

/// The same by the variance of whole runs, which is right where runs differ by themselves. Runs of
/// a label are taken to differ at least by `known`, as those of the control did.
pub(super) fn by_runs(first: &[Lean], second: &[Lean], known: f64, alpha: f64) -> Interval {
    let freedom = (first.len() + second.len()).saturating_sub(2).max(1);
    let variance = |leans: &[Lean]| {
        let own = leans.iter().map(|lean| (lean.share - mean(leans)).powi(2)).sum::<f64>();
        let own = own / leans.len().saturating_sub(1).max(1) as f64;
        own.max(known * known / 4.0) / leans.len() as f64
    };
    interval(first, second, variance(first) + variance(second), freedom as f64, alpha)
}

/// How far apart runs of one label are, and how likely chance alone would take them so far.
pub(super) fn spread(leans: &[Lean]) -> (f64, f64) {
    let runs = leans.len() as f64;
    let between: f64 = leans.iter().map(|lean| (lean.share - mean(leans)).powi(2)).sum();
    let within: f64 = leans.iter().map(|lean| lean.variance).sum::<f64>() / runs;
    let ratio = between / (runs - 1.0) / within;
    let shares = leans.iter().map(|lean| lean.share);
    let range = shares.clone().fold(0.0, f64::max) - shares.fold(1.0, f64::min);
    (range, f_tail(ratio, runs - 1.0, runs * (BLOCKS - 1) as f64))
}

fn interval(first: &[Lean], second: &[Lean], variance: f64, freedom: f64, alpha: f64) -> Interval {
    let advantage = mean(second) - mean(first);
    let half = t_quantile(alpha / 2.0, freedom) * variance.sqrt();
    let (low, high) = ((advantage - half).max(-1.0), (advantage + half).min(1.0));
    Interval { advantage, low, high }
}

fn mean(leans: &[Lean]) -> f64 {
    leans.iter().map(|lean| lean.share).sum::<f64>() / leans.len().max(1) as f64
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = average(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / values.len().saturating_sub(1).max(1) as f64
}
