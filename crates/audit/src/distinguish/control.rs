//! Runs of one label against each other: what can be told there is the run, not the history.
//!
//! A classifier learns one run against another of the same label and judges the remaining ones, in
//! several rounds. If those lean differently, by more than chance takes blocks of one run apart, then
//! runs have something of their own: the moment they were recorded at, the machine's load, a state
//! that they began with. A difference between two labels may then be one between runs, however many
//! windows they have, because the windows of a run share it.
//!
//! One run against one is the sharpest form: nothing is averaged out. Rounds use neighbouring and
//! distant runs, so drift during the recording shows as well as noise. It takes two rounds at least:
//! where one pair of runs happens to lie on one side of all others, another does not.

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
    /// Failed: runs can be told apart, so that no pair with this label can be judged by its windows.
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
}

/// Compares the runs of one label; `labels` is how many labels are tested so.
pub(super) fn control(label: &str, runs: &[&Run], labels: usize, options: &Options) -> Control {
    let mut control = Control {
        label: label.to_owned(),
        runs: runs.len(),
        verdict: Verdict::TooFew,
        chance: 1.0,
        spreads: vec![0.0; options.scales.len()],
        smallest: 1.0,
        windows: 0,
        telling: Vec::new(),
    };
    if runs.len() < RUNS_MIN {
        return control;
    }
    let rounds = rounds(runs.len());
    let tests = (rounds.len() * options.scales.len() * labels) as f64;
    for scale in 0..options.scales.len() {
        for &(first, second) in &rounds {
            control.round(runs, (first, second), scale, tests, options);
        }
    }
    if control.windows > 0 {
        let failed = control.chance < 1.0 - options.confidence;
        control.verdict = if failed { Verdict::Failed } else { Verdict::Passed };
    }
    control
}

/// Which two runs teach, round by round.
fn rounds(runs: usize) -> Vec<(usize, usize)> {
    match runs {
        4 => vec![(0, 1), (2, 3), (0, 2), (1, 3)],
        _ => vec![(0, runs - 1), (1, runs - 2), (0, 1), (2, 3)],
    }
}

impl Control {
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
        let learner = Learner::train(&teach[0], &teach[1], training);
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
