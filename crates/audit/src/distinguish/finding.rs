//! What the comparison came to, as findings for people and programs.

use fogbank_env::counted;

use super::compare::{Pair, Telling};
use super::control::Control;
use super::{Comparison, Options, RUNS_MIN};
use crate::{Finding, Verdict};

impl Comparison {
    /// A finding for each label's control, then one for each pair.
    pub fn findings(&self) -> Vec<Finding> {
        let controls = self.controls.iter().map(|control| control.finding(&self.options));
        controls.chain(self.pairs.iter().map(|pair| pair.finding(&self.options))).collect()
    }
}

impl Control {
    fn finding(&self, options: &Options) -> Finding {
        let words = match self.verdict {
            _ if self.runs < RUNS_MIN => {
                let runs = counted(self.runs, "run", "runs");
                format!("{} has {runs}; {RUNS_MIN} are needed.", self.label)
            }
            Verdict::TooFew => format!("The runs of {} are too short to compare.", self.label),
            Verdict::Passed => {
                format!(
                    "The {} runs of {} look alike to a classifier; the figure is the chance of as \
                     much difference as was seen (a p-value), and a small one is bad.",
                    self.runs, self.label
                )
            }
            Verdict::Failed => format!(
                "Runs of {} can be told apart from each other, by {}: {}. The figure is the chance \
                 of as much difference as was seen (a p-value), and a small one is bad.",
                self.label,
                list(&self.telling),
                match self.cleared {
                    true => "the features in which they differ are set aside",
                    false => "windows say nothing of pairs with it, only whole runs do",
                }
            ),
        };
        Finding {
            check: "same-history".to_owned(),
            subject: self.label.clone(),
            verdict: self.verdict,
            figure: self.chance,
            threshold: 1.0 - options.confidence,
            samples: self.windows,
            smallest_leak: Some(self.smallest),
            words,
        }
    }
}

impl Pair {
    fn finding(&self, options: &Options) -> Finding {
        let shown = match self.verdict {
            Verdict::Failed => self.clearest(),
            _ => self.scales.first(),
        };
        Finding {
            check: "two-histories".to_owned(),
            subject: format!("{} / {}", self.first, self.second),
            verdict: self.verdict,
            figure: shown.map_or(0.0, |shown| shown.advantage),
            threshold: options.bound,
            samples: shown.map_or(0, |shown| shown.guesses),
            smallest_leak: Some(shown.map_or(1.0, |shown| (shown.high - shown.low) / 2.0)),
            words: self.words(options),
        }
    }

    fn words(&self, options: &Options) -> String {
        let (first, second) = (&self.first, &self.second);
        let bound = self.bound().unwrap_or(1.0);
        let bound = format!("advantage at most {:.2} %", 100.0 * bound.clamp(0.0, 1.0));
        match self.verdict {
            Verdict::Failed => match self.clearest() {
                Some(told) => format!(
                    "{first} and {second} can be told apart on runs never seen, with an advantage \
                     of {:.1} % ({:.1} to {:.1} %) by {} at a time; most telling: {}.",
                    100.0 * told.advantage,
                    100.0 * told.low,
                    100.0 * told.high,
                    windows(told.windows),
                    list(&self.telling)
                ),
                None => format!("{first} and {second} can be told apart."),
            },
            Verdict::Passed => format!(
                "A classifier cannot tell {first} from {second} on runs it never saw: {bound}."
            ),
            Verdict::TooFew if self.scales.is_empty() => format!(
                "{first} and {second} need {RUNS_MIN} runs each, and longer ones, to be compared."
            ),
            Verdict::TooFew if self.by_runs => format!(
                "{first} and {second}: runs of one history differ by themselves, so their windows \
                 say nothing of the history; {bound}, counting whole runs."
            ),
            Verdict::TooFew if !self.aside.is_empty() => format!(
                "{first} and {second} could not be told apart, but without features in which runs \
                 of one history differ by themselves ({}); {bound} by the others.",
                self.aside.iter().take(3).cloned().collect::<Vec<_>>().join("; ")
            ),
            Verdict::TooFew => format!(
                "{first} and {second} could not be told apart, but the runs are too short: \
                 {bound}, where {:.2} % is asked for.",
                100.0 * options.bound
            ),
        }
    }
}

fn windows(count: usize) -> String {
    if count == 1 { "one window".to_owned() } else { format!("{count} windows") }
}

fn list(telling: &[Telling]) -> String {
    let told: Vec<&str> = telling.iter().take(3).map(|told| told.feature.as_str()).collect();
    told.join("; ")
}
