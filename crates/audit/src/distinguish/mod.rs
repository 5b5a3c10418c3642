//! Two histories, one guess: a classifier that is trained to tell two histories apart by what the
//! store saw, judged on runs it never saw.
//!
//! 1. A run is cut into windows, one a read request, and each window becomes a row of features;
//!    rows of ten and a hundred windows show a leak that touches few accesses.
//! 2. Runs of one label are held against each other first. What can be told there is the run, not
//!    the history: [`Control`].
//! 3. For each pair of labels a forest and a linear model learn on some runs and guess on the
//!    others, where the advantage gets an interval, corrected over all pairs: [`Pair`].
//!
//! Nothing here knows an engine; of the configuration only the grid of departures is used. All that
//! is random follows from one seed.
//!
//! What it cannot see: what differs in windows in no way that its features show, what happens
//! before the first read and after the last, and a cause that comes with the label but is not the
//! history (all runs of one label recorded at night). Record the runs of all labels in turn.

mod compare;
mod control;
mod distribution;
mod feature;
mod finding;
mod interval;
mod learner;
mod matrix;
mod moments;
mod parallel;
mod past;
mod place;
mod reads;
mod window;

#[cfg(test)]
mod tests;

pub use compare::{Advantage, Pair, Run, Telling};
pub use control::Control;
pub use window::Extractor;
pub(crate) use window::Grid;

use fogbank_store::trace::{Event, PublicConfig};
use serde::Serialize;

use self::learner::Training;

/// Runs that a label needs: two to learn from, two to judge.
pub const RUNS_MIN: usize = 4;

/// How histories are compared.
#[derive(Debug, Clone, Serialize)]
pub struct Options {
    /// How many windows make one guess, rising. The bound is about the first.
    pub scales: Vec<usize>,
    /// Rows kept of a run and scale; a longer run is thinned evenly.
    pub rows_max: usize,
    /// Rows that a classifier learns from.
    pub train_rows: usize,
    /// Trees of its forest.
    pub trees: usize,
    /// How sure all intervals together are.
    pub confidence: f64,
    /// The advantage of one guess that is still let pass.
    pub bound: f64,
    /// What all randomness follows from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scales: vec![1, 10, 100],
            rows_max: 1 << 15,
            train_rows: 20_000,
            trees: 24,
            confidence: 0.99,
            bound: 0.01,
            seed: 1,
        }
    }
}

impl Options {
    fn training(&self) -> Training {
        Training { rows_max: self.train_rows, trees: self.trees, seed: self.seed }
    }

    /// The error that intervals at the scale with this number may make, over all pairs.
    fn alpha(&self, scale: usize) -> f64 {
        let error = 1.0 - self.confidence;
        match (self.scales.len(), scale) {
            (..=1, _) => error,
            (_, 0) => error / 2.0,
            (scales, _) => error / 2.0 / (scales - 1) as f64,
        }
    }
}

impl Extractor {
    /// An extractor for a run under `config`; without one, the grid of departures is not known.
    pub fn new(config: Option<&PublicConfig>, options: &Options) -> Self {
        Self::keeping(config, &options.scales, options.rows_max)
    }

    /// Ends the run, which was one of the history `label`.
    pub fn finish(self, label: &str) -> Run {
        Run { label: label.to_owned(), table: self.into_table() }
    }
}

impl Run {
    /// Reads a whole run of the history `label`.
    ///
    /// # Errors
    /// The first error among the events.
    pub fn read<E>(
        label: &str,
        config: Option<&PublicConfig>,
        events: impl IntoIterator<Item = Result<Event, E>>,
        options: &Options,
    ) -> Result<Self, E> {
        let mut extractor = Extractor::new(config, options);
        for event in events {
            extractor.event(&event?);
        }
        Ok(extractor.finish(label))
    }

    /// The label.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How many whole windows the run has.
    pub fn windows(&self) -> u64 {
        self.table.windows()
    }
}

/// What came of comparing all labels.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// How they were compared.
    pub options: Options,
    /// Each label's runs against each other, in the order in which labels first appear.
    pub controls: Vec<Control>,
    /// Every pair of labels.
    pub pairs: Vec<Pair>,
}

/// Compares every pair of labels among `runs`, which stand in the order in which they were recorded
/// under the same `options`.
pub fn distinguish(runs: &[Run], options: &Options) -> Comparison {
    let labels = labels(runs);
    let of = |label: &str| -> Vec<&Run> { runs.iter().filter(|run| run.label == label).collect() };
    let groups: Vec<Vec<&Run>> = labels.iter().map(|label| of(label)).collect();
    let controls = parallel::each(labels.len(), |at| {
        control::control(labels[at], &groups[at], labels.len(), options)
    });
    let all = 0..labels.len();
    let sides: Vec<_> = all.flat_map(|i| (i + 1..labels.len()).map(move |j| (i, j))).collect();
    let pairs = parallel::each(sides.len(), |at| {
        let side = |at: usize| (&groups[at][..], &controls[at]);
        compare::compare(side(sides[at].0), side(sides[at].1), sides.len(), options)
    });
    Comparison { options: options.clone(), controls, pairs }
}

/// The labels in the order of their first runs.
fn labels(runs: &[Run]) -> Vec<&str> {
    let mut labels: Vec<&str> = Vec::new();
    for run in runs {
        if !labels.contains(&run.label.as_str()) {
            labels.push(&run.label);
        }
    }
    labels
}
