//! Runs of one label against each other: what can be told there is the run, not the history.
//!
//! A classifier learns one run against another of the same label and judges the remaining ones, in
//! several rounds. If those lean differently, by more than chance takes blocks of one run apart,
//! then runs have something of their own: the moment they were recorded at, the machine's load, a
//! state that they began with. A difference between two labels may then be one between runs,
//! however many windows they have, because the windows of a run share it.
//!
//! One run against one is the sharpest form: nothing is averaged out. Rounds use neighbouring and
//! distant runs, so drift during the recording shows as well as noise. It takes two rounds at
//! least: where one pair of runs happens to lie on one side of all others, another does not.
//!
//! If runs do differ, the features whose means differ between them are set aside and the rest is
//! looked at again. What then shows between two labels is a leak all the same; that nothing shows
//! says nothing of what was set aside.

use serde::Serialize;

use super::compare::{Run, Telling, rows, shortest, telling};
use super::interval::{Lean, ROWS_MIN, by_blocks, spread};
use super::learner::{Learner, Training};
use super::{Options, RUNS_MIN};
use crate::Verdict;

/// What the runs of one label show of themselves.
#[derive(Debug, Clone, Serialize)]
pub struct Control {
    /// The label.
    pub label: String,
    /// How many runs of it there are.
    pub runs: usize,
    /// Failed: runs can be told apart, so that no pair with this label can be judged by its
    /// windows.
    pub verdict: Verdict,
    /// The chance, corrected for the number of rounds and labels, of what was seen.
    pub chance: f64,
    /// How far apart the runs leaned, a scale: shares of windows between 0 and 1.
    pub spreads: Vec<f64>,
    /// The smallest difference between two runs that would have been seen.
    pub smallest: f64,
    /// Windows that were judged.
    pub windows: u64,
    /// What told the runs apart most.
    pub telling: Vec<Telling>,
    /// Whether runs look alike without the features set aside.
    pub cleared: bool,
    /// Which columns are set aside, a scale.
    #[serde(skip)]
    pub(super) aside: Vec<Vec<bool>>,
}

/// Compares the runs of one label; `labels` is how many labels are tested so.
pub(super) fn control(label: &str, runs: &[&Run], labels: usize, options: &Options) -> Control {
    let mut control = Control::new(label, runs, options);
    if runs.len() < RUNS_MIN {
        return control;
    }
    control.all_rounds(runs, labels, options);
    if control.verdict == Verdict::Failed {
        let mut rest = Control::new(label, runs, options);
        let scales = 0..options.scales.len();
        rest.aside = scales.map(|scale| differing(runs, scale)).collect();
        rest.all_rounds(runs, labels, options);
        control.cleared = rest.verdict == Verdict::Passed;
        control.aside = rest.aside;
    }
    control
}

/// Which columns have means that differ between the runs of one label.
fn differing(runs: &[&Run], scale: usize) -> Vec<bool> {
    let produced = shortest(runs.iter().copied(), scale);
    let rows: Vec<Vec<&[f32]>> = runs.iter().map(|run| rows(run, scale, produced)).collect();
    let differs = |column: usize| {
        let values = |rows: &Vec<&[f32]>| -> Vec<f64> {
            rows.iter().map(|row| f64::from(row[column])).collect()
        };
        let means: Vec<Lean> = rows.iter().map(|rows| Lean::of_values(&values(rows))).collect();
        spread(&means).1 < DIFFERS
    };
    let width = rows.iter().flatten().map(|row| row.len()).next().unwrap_or(0);
    (0..width).map(differs).collect()
}

/// The chance below which a feature is set aside. It may be generous: what is set aside for nothing
/// costs little where a verdict has failed already.
const DIFFERS: f64 = 1e-3;

/// Which two runs teach, round by round.
fn rounds(runs: usize) -> Vec<(usize, usize)> {
    match runs {
        4 => vec![(0, 1), (2, 3), (0, 2), (1, 3)],
        _ => vec![(0, runs - 1), (1, runs - 2), (0, 1), (2, 3)],
    }
}

impl Control {
    fn new(label: &str, runs: &[&Run], options: &Options) -> Self {
        Self {
            label: label.to_owned(),
            runs: runs.len(),
            verdict: Verdict::TooFew,
            chance: 1.0,
            spreads: vec![0.0; options.scales.len()],
            smallest: 1.0,
            windows: 0,
            telling: Vec::new(),
            cleared: false,
            aside: vec![Vec::new(); options.scales.len()],
        }
    }

    /// Whether windows of this label say nothing, not even without the features set aside.
    pub(super) fn spoilt(&self) -> bool {
        self.verdict == Verdict::Failed && !self.cleared
    }

    fn all_rounds(&mut self, runs: &[&Run], labels: usize, options: &Options) {
        let rounds = rounds(runs.len());
        let tests = (rounds.len() * options.scales.len() * labels) as f64;
        for scale in 0..options.scales.len() {
            for &pair in &rounds {
                self.round(runs, pair, scale, tests, options);
            }
        }
        if self.windows > 0 {
            let failed = self.chance < 1.0 - options.confidence;
            self.verdict = if failed { Verdict::Failed } else { Verdict::Passed };
        }
    }

    fn round(
        &mut self,
        runs: &[&Run],
        (first, second): (usize, usize),
        scale: usize,
        tests: f64,
        options: &Options,
    ) {
        let produced = shortest(runs.iter().copied(), scale);
        let teach = [first, second].map(|run| rows(runs[run], scale, produced));
        if teach.iter().any(|rows| rows.len() < ROWS_MIN) {
            return;
        }
        let training = Training { rows_max: options.train_rows / 2, ..options.training() };
        let learner = Learner::train(&teach[0], &teach[1], &self.aside[scale], training);
        let others = (0..runs.len()).filter(|&run| run != first && run != second);
        let leans: Vec<Lean> = others
            .map(|run| Lean::of(&learner.decide(rows(runs[run], scale, produced).into_iter())))
            .collect();
        let (apart, chance) = spread(&leans);
        self.spreads[scale] = self.spreads[scale].max(apart);
        if scale == 0 {
            self.windows += leans.iter().map(|lean| lean.rows as u64).sum::<u64>();
            let interval = by_blocks(&leans[..1], &leans[1..2], (1.0 - options.confidence) / tests);
            self.smallest = self.smallest.min((interval.high - interval.low) / 2.0);
        }
        let chance = (chance * tests).min(1.0);
        if chance < self.chance {
            self.chance = chance;
            self.telling = telling(&learner, &teach[0], &teach[1], options.scales[scale]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_teach_two_runs_and_leave_two() {
        for runs in RUNS_MIN..12 {
            let rounds = rounds(runs);
            assert!(rounds.iter().all(|(a, b)| a != b && a.max(b) < &runs), "{runs} runs");
        }
    }
}
