//! What a check came to.

use fogbank_env::Nanos;
use serde::Serialize;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing found, with enough data to find what it looks for.
    Passed,
    /// A leak was found.
    Failed,
    /// Nothing found, and too little data to say.
    TooFew,
}

/// One check over one trace or several.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The stable name of the check, in kebab case: `leaves-uniform`.
    pub check: String,
    /// Which trace or pair of labels it is about.
    pub subject: String,
    /// How it ended.
    pub verdict: Verdict,
    /// The statistic, in its own unit.
    pub figure: f64,
    /// The bound that `figure` is held against.
    pub threshold: f64,
    /// How many samples went into it.
    pub samples: u64,
    /// The smallest leak that this many samples would have shown, as an advantage or a share of
    /// accesses between 0 and 1; `None` for exact checks, which miss nothing.
    pub smallest_leak: Option<f64>,
    /// One sentence for a person: what was looked at and what came of it.
    pub words: String,
}

/// The first record of a trace that is not what the oracle predicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{rule}: event {event} at {at} ns: expected {expected}, saw {seen}")]
pub struct Breach {
    /// The stable name of the rule that it breaks, in kebab case: `full-batch`.
    pub rule: &'static str,
    /// The number of the event in the trace, from 0.
    pub event: u64,
    /// When it happened.
    pub at: Nanos,
    /// What the public state machine predicted.
    pub expected: String,
    /// What the trace has.
    pub seen: String,
}
