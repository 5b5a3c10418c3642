//! Two labels: a classifier learns on some runs of each and is judged on the others.
//!
//! 1. All runs are cut to as many windows as the shortest has: a store behaves differently when it
//!    is new, so a longer run is another history.
//! 2. Some runs of each label teach, spread over the time of recording; the rest is never seen.
//! 3. The advantage on the rest gets an interval for each scale, corrected over all pairs and
//!    scales: half of the error for the first scale, which the bound is about, the rest for the
//!    others.
//! 4. If a control failed, the features that differ between runs of one label are set aside; if
//!    that does not help, windows are no independent evidence and the interval is by whole runs.

use serde::Serialize;

use super::control::Control;
use super::feature::words;
use super::interval::{Interval, Lean, ROWS_MIN, by_blocks, by_runs};
use super::learner::Learner;
use super::matrix::Table;
use super::moments::Moments;
use super::{Options, RUNS_MIN};
use crate::Verdict;

/// The features of one run of a history.
#[derive(Debug)]
pub struct Run {
    pub(super) label: String,
    pub(super) table: Table,
}

/// What a classifier made of one pair of labels.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    /// The first label.
    pub first: String,
    /// The second.
    pub second: String,
    /// Failed: the two can be told apart.
    pub verdict: Verdict,
    /// The advantage, a scale; scales with too few windows are left out.
    pub scales: Vec<Advantage>,
    /// Whether the intervals are by whole runs, because runs of one label differ by themselves.
    pub by_runs: bool,
    /// The features that were set aside, because runs of one label differ in them. What they would
    /// tell was not judged.
    pub aside: Vec<String>,
    /// What told the labels apart most, at the scale that told most; without a leak, what the
    /// classifier went by, which is noise.
    pub telling: Vec<Telling>,
}

/// How well two labels can be told apart by windows of one scale: 0 is guessing, 1 is certainty.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Advantage {
    /// How many windows, one after another, make one guess.
    pub windows: usize,
    /// Right guesses less wrong ones, as a share, on runs never seen, both labels weighing alike.
    pub advantage: f64,
    /// The lower end of the corrected interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Guesses that were judged.
    pub guesses: u64,
}

/// A feature that a classifier went by.
#[derive(Debug, Clone, Serialize)]
pub struct Telling {
    /// What it is, in words.
    pub feature: String,
    /// Its share of what the classifier went by.
    pub importance: f64,
    /// Its mean in the first label's windows.
    pub first: f64,
    /// Its mean in the second's.
    pub second: f64,
    /// How many windows make one guess.
    pub windows: usize,
}

impl Advantage {
    /// Whether the interval lies above guessing.
    pub fn tells(&self) -> bool {
        self.low > 0.0
    }
}

/// Compares two labels by the runs of each; `pairs` is how many pairs are tested so.
pub(super) fn compare(
    first: (&[&Run], &Control),
    second: (&[&Run], &Control),
    pairs: usize,
    options: &Options,
) -> Pair {
    let by_runs = first.1.spoilt() || second.1.spoilt();
    let mut pair = Pair {
        first: first.1.label.clone(),
        second: second.1.label.clone(),
        verdict: Verdict::TooFew,
        scales: Vec::new(),
        by_runs,
        aside: Vec::new(),
        telling: Vec::new(),
    };
    if first.0.len().min(second.0.len()) < RUNS_MIN {
        return pair;
    }
    for scale in 0..options.scales.len() {
        let known = first.1.spreads[scale].max(second.1.spreads[scale]);
        let alpha = options.alpha(scale) / pairs as f64;
        let nuisance = by_runs.then_some(known);
        let aside = if by_runs { Vec::new() } else { first.1.either_aside(second.1, scale) };
        pair.aside.extend((0..aside.len()).filter(|&at| aside[at]).map(words));
        let best = pair.scales.iter().map(|scale| scale.low).fold(f64::NEG_INFINITY, f64::max);
        let Some((advantage, telling)) =
            judge((first.0, second.0), scale, (&aside, nuisance), alpha, options)
        else {
            continue;
        };
        if advantage.low > best {
            pair.telling = telling;
        }
        pair.scales.push(advantage);
    }
    pair.aside.sort();
    pair.aside.dedup();
    pair.verdict = pair.judged(options);
    pair
}

impl Pair {
    /// The scale that tells most.
    pub fn clearest(&self) -> Option<&Advantage> {
        self.scales.iter().max_by(|a, b| a.low.total_cmp(&b.low))
    }

    /// The upper end for single windows: no classifier of this kind does better on them.
    pub fn bound(&self) -> Option<f64> {
        self.scales.iter().find(|scale| scale.windows == 1).map(|scale| scale.high)
    }

    fn judged(&self, options: &Options) -> Verdict {
        match self.bound() {
            _ if self.scales.iter().any(Advantage::tells) => Verdict::Failed,
            _ if self.by_runs || !self.aside.is_empty() => Verdict::TooFew,
            Some(_) if self.scales.iter().any(|scale| scale.high < 0.0) => Verdict::TooFew,
            Some(high) if high < options.bound => Verdict::Passed,
            _ => Verdict::TooFew,
        }
    }
}

impl Control {
    /// The columns that this control or the other sets aside at a scale.
    fn either_aside(&self, other: &Control, scale: usize) -> Vec<bool> {
        let (own, others) = (&self.aside[scale], &other.aside[scale]);
        let set = |aside: &[bool], at| aside.get(at) == Some(&true);
        (0..own.len().max(others.len())).map(|at| set(own, at) || set(others, at)).collect()
    }
}

/// Trains on some runs, without the columns set aside, and judges the others, by whole runs if
/// there is a nuisance; `None` if the runs are too short for the scale.
fn judge(
    (first, second): (&[&Run], &[&Run]),
    scale: usize,
    (aside, nuisance): (&[bool], Option<f64>),
    alpha: f64,
    options: &Options,
) -> Option<(Advantage, Vec<Telling>)> {
    let produced = shortest(first.iter().chain(second).copied(), scale);
    let sets = [first, second].map(|runs| Split::of(runs, scale, produced));
    if sets.iter().any(|set| set.test.iter().any(|rows| rows.len() < ROWS_MIN)) {
        return None;
    }
    let learner = Learner::train(&sets[0].teach, &sets[1].teach, aside, options.training());
    let [first, second] = sets.each_ref().map(|set| set.leans(&learner));
    let Interval { advantage, low, high } = match nuisance {
        None => by_blocks(&first, &second, alpha),
        Some(known) => by_runs(&first, &second, known, alpha),
    };
    let guesses = first.iter().chain(&second).map(|lean| lean.rows as u64).sum();
    let windows = options.scales[scale];
    let telling = telling(&learner, &sets[0].teach, &sets[1].teach, windows);
    Some((Advantage { windows, advantage, low, high, guesses }, telling))
}

/// The rows of a label's runs that teach, and those that are judged, run by run.
struct Split<'a> {
    teach: Vec<&'a [f32]>,
    test: Vec<Vec<&'a [f32]>>,
}

impl<'a> Split<'a> {
    fn of(runs: &[&'a Run], scale: usize, produced: u64) -> Self {
        let step = if runs.len() < 6 { 2 } else { 3 };
        let mut split = Self { teach: Vec::new(), test: Vec::new() };
        for (i, run) in runs.iter().enumerate() {
            match i % step {
                0 => split.teach.extend(rows(run, scale, produced)),
                _ => split.test.push(rows(run, scale, produced)),
            }
        }
        split
    }

    fn leans(&self, learner: &Learner) -> Vec<Lean> {
        self.test.iter().map(|rows| Lean::of(&learner.decide(rows.iter().copied()))).collect()
    }
}

/// How many rows the shortest of the runs has at a scale.
pub(super) fn shortest<'a>(runs: impl Iterator<Item = &'a Run>, scale: usize) -> u64 {
    runs.map(|run| run.table.sheet(scale).produced()).min().unwrap_or(0)
}

/// The rows of a run at a scale, of the first `produced` ones.
pub(super) fn rows(run: &Run, scale: usize, produced: u64) -> Vec<&[f32]> {
    run.table.sheet(scale).first(produced).collect()
}

/// What a classifier goes by most, and its means in the rows of both kinds.
pub(super) fn telling(
    learner: &Learner,
    first: &[&[f32]],
    second: &[&[f32]],
    windows: usize,
) -> Vec<Telling> {
    let mut ranked: Vec<(usize, f64)> = learner.importance().into_iter().enumerate().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mean = |rows: &[&[f32]], column: usize| {
        let mut moments = Moments::default();
        rows.iter().for_each(|row| moments.add(f64::from(row[column])));
        moments.mean_or(0.0)
    };
    let told = |(column, importance): (usize, f64)| Telling {
        feature: words(column),
        importance,
        first: mean(first, column),
        second: mean(second, column),
        windows,
    };
    ranked.into_iter().take(TELLING).filter(|(_, importance)| *importance > 0.0).map(told).collect()
}

/// How many features are reported of a classifier.
const TELLING: usize = 5;
