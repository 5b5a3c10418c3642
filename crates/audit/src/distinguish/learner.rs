//! A classifier of rows: a forest of trees and a linear model, their scores added.
//!
//! The forest finds what stands out in a few windows or needs two features at once; the linear
//! model finds what shifts all windows a little. Both estimate how far a row's chance of being of
//! the second kind lies above one half, so a model that sees nothing adds little to the score of
//! the other.

use smartcore::ensemble::random_forest_regressor::{
    RandomForestRegressor, RandomForestRegressorParameters,
};
use smartcore::linalg::basic::arrays::Array;
use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::linear::ridge_regression::{RidgeRegression, RidgeRegressionParameters};

use super::moments::Moments;

/// Training stops seeing a feature that is further from its mean than so many spreads: a linear
/// model must not hang on a few rows.
const CLIP: f64 = 5.0;

/// The weight of the linear model's penalty, per row.
const PENALTY: f64 = 0.01;

/// Rows scored at a time.
const BATCH: usize = 8192;

type Forest = RandomForestRegressor<f32, f64, DenseMatrix<f32>, Vec<f64>>;
type Linear = RidgeRegression<f64, f64, DenseMatrix<f64>, Vec<f64>>;

/// How a classifier is trained.
#[derive(Debug, Clone, Copy)]
pub(super) struct Training {
    /// Rows of both kinds together, at most.
    pub(super) rows_max: usize,
    /// Trees of the forest.
    pub(super) trees: usize,
    /// What the forest's randomness follows from.
    pub(super) seed: u64,
}

/// A trained classifier.
pub(super) struct Learner {
    columns: Vec<Column>,
    weights: Vec<f64>,
    forest: Option<Forest>,
    width: usize,
}

/// A column that is not the same in all rows.
#[derive(Debug, Clone, Copy)]
struct Column {
    at: usize,
    mean: f64,
    spread: f64,
}

impl Learner {
    /// Learns to tell the rows `first` from the rows `second`, using as many of each, spread
    /// evenly, without the columns that are set `aside`.
    pub(super) fn train(
        first: &[&[f32]],
        second: &[&[f32]],
        aside: &[bool],
        training: Training,
    ) -> Self {
        let each = first.len().min(second.len()).min(training.rows_max / 2);
        let pick = |rows: &[&'_ [f32]], i: usize| i * rows.len() / each.max(1);
        let mut rows = Vec::with_capacity(2 * each);
        for i in 0..each {
            rows.extend([first[pick(first, i)], second[pick(second, i)]]);
        }
        let kinds: Vec<f64> = (0..rows.len()).map(|i| (i % 2) as f64 - 0.5).collect();
        let width = rows.first().map_or(0, |row| row.len());
        let columns = columns(&rows, width, aside);
        let weights = linear(&rows, &kinds, &columns);
        let forest = forest(&rows, &kinds, &columns, training);
        Self { columns, weights, forest, width }
    }

    /// For each row whether it is held for one of the second kind.
    pub(super) fn decide<'a>(&self, rows: impl Iterator<Item = &'a [f32]>) -> Vec<bool> {
        let mut decided = Vec::new();
        let mut rows = rows.peekable();
        while rows.peek().is_some() {
            let batch: Vec<&[f32]> = rows.by_ref().take(BATCH).collect();
            let trees = self.forest_scores(&batch);
            let score = |(row, trees): (&&[f32], f64)| self.linear_score(row) + trees > 0.0;
            decided.extend(batch.iter().zip(trees).map(score));
        }
        decided
    }

    /// How much each column counts: the shares of both models, averaged.
    pub(super) fn importance(&self) -> Vec<f64> {
        let mut importance = vec![0.0; self.width];
        let trees = self.forest.as_ref().and_then(|f| f.compute_feature_importances().ok());
        let squares: f64 = self.weights.iter().map(|weight| weight * weight).sum();
        for (i, column) in self.columns.iter().enumerate() {
            let tree = trees.as_ref().map_or(0.0, |trees| trees[i]);
            let weight = self.weights.as_slice().get(i).map_or(0.0, |weight: &f64| weight * weight);
            importance[column.at] = (tree + weight / squares.max(f64::MIN_POSITIVE)) / 2.0;
        }
        importance
    }

    fn linear_score(&self, row: &[f32]) -> f64 {
        let products = self.columns.iter().zip(&self.weights);
        products.map(|(column, weight)| weight * column.standard(row)).sum()
    }

    fn forest_scores(&self, rows: &[&[f32]]) -> Vec<f64> {
        let scores = self.forest.as_ref().and_then(|forest| {
            forest.predict(&matrix(rows, &self.columns, |column, row| row[column.at])?).ok()
        });
        scores.unwrap_or_else(|| vec![0.0; rows.len()])
    }
}

impl Column {
    /// The value in `row`, in spreads from the mean.
    fn standard(&self, row: &[f32]) -> f64 {
        ((f64::from(row[self.at]) - self.mean) / self.spread).clamp(-CLIP, CLIP)
    }
}

/// The columns that vary and are not set aside.
fn columns(rows: &[&[f32]], width: usize, aside: &[bool]) -> Vec<Column> {
    let column = |at: usize| {
        let mut moments = Moments::default();
        rows.iter().for_each(|row| moments.add(f64::from(row[at])));
        let (mean, spread) = (moments.mean_or(0.0), moments.spread());
        let varies = moments.max_or(0.0) > moments.min_or(0.0) && spread > 1e-7 * mean.abs();
        varies.then_some(Column { at, mean, spread })
    };
    let kept = (0..width).filter(|&at| aside.get(at) != Some(&true));
    kept.filter_map(column).collect()
}

/// The weights of the linear model; none if it cannot be found.
fn linear(rows: &[&[f32]], kinds: &[f64], columns: &[Column]) -> Vec<f64> {
    let parameters = RidgeRegressionParameters::default()
        .with_alpha(PENALTY * rows.len() as f64)
        .with_normalize(false);
    let found = matrix(rows, columns, Column::standard).and_then(|x| {
        let linear = Linear::fit(&x, &kinds.to_vec(), parameters).ok()?;
        let weights = linear.coefficients();
        Some((0..columns.len()).map(|i| *weights.get((i, 0))).collect())
    });
    found.unwrap_or_default()
}

fn forest(
    rows: &[&[f32]],
    kinds: &[f64],
    columns: &[Column],
    training: Training,
) -> Option<Forest> {
    let parameters = RandomForestRegressorParameters::default()
        .with_n_trees(training.trees)
        .with_max_depth(6)
        .with_min_samples_leaf((rows.len() / 500).clamp(5, 40))
        .with_m((columns.len() / 5).clamp(1, 12))
        .with_seed(training.seed);
    let x = matrix(rows, columns, |column, row| row[column.at])?;
    Forest::fit(&x, &kinds.to_vec(), parameters).ok()
}

/// The columns of `rows` as a matrix; `None` if it would be empty.
fn matrix<T>(
    rows: &[&[f32]],
    columns: &[Column],
    value: impl Fn(&Column, &[f32]) -> T,
) -> Option<DenseMatrix<T>>
where
    T: Copy + std::fmt::Debug + std::fmt::Display,
{
    if rows.is_empty() || columns.is_empty() {
        return None;
    }
    let values = columns.iter().flat_map(|column| rows.iter().map(|row| value(column, row)));
    DenseMatrix::new(rows.len(), columns.len(), values.collect(), true).ok()
}
