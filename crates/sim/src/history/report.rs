//! What was found, in words.

use std::collections::BTreeMap;
use std::fmt;

use super::{History, Key};

/// Anomalies kept with their words, a class; the others are counted.
const KEPT_PER_CLASS: usize = 20;

/// The class of an anomaly, after Adya where he named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The history breaks the checker's contract (a value appended twice); the run is at fault.
    Malformed,
    /// A cycle of writes alone: two transactions' writes are interleaved.
    G0,
    /// A read of an aborted transaction's write.
    G1a,
    /// A read of a version that its writer overwrote within the same transaction.
    G1b,
    /// A cycle of writes and reads: information flowed in a circle.
    G1c,
    /// A cycle with one anti-dependency: read skew, lost update.
    GSingle,
    /// A cycle with several anti-dependencies between keys: write skew.
    G2Item,
    /// A cycle through a predicate: a phantom.
    G2,
    /// Each of the above that needs real time to close the cycle.
    RealTime,
    /// A transaction did not see its own write.
    Internal,
    /// Two reads of one key of which neither is a prefix of the other.
    IncompatibleOrder,
    /// A committed append that a later reader should have seen and did not.
    LostAppend,
    /// A value twice in one list.
    Duplicate,
    /// A value or a grave that nobody wrote.
    Garbage,
    /// Two transactions committed the deletion of one key.
    DuplicateDelete,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Malformed => "malformed history",
            Class::G0 => "G0 (dirty write)",
            Class::G1a => "G1a (aborted read)",
            Class::G1b => "G1b (intermediate read)",
            Class::G1c => "G1c (circular information flow)",
            Class::GSingle => "G-single (read skew)",
            Class::G2Item => "G2-item (write skew)",
            Class::G2 => "G2 (phantom)",
            Class::RealTime => "real-time order",
            Class::Internal => "internal",
            Class::IncompatibleOrder => "incompatible order",
            Class::LostAppend => "lost append",
            Class::Duplicate => "duplicate append",
            Class::Garbage => "garbage read",
            Class::DuplicateDelete => "duplicate delete",
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.range, self.member)
    }
}

/// One thing that no serial execution could have shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// Its class.
    pub class: Class,
    /// The transactions involved, by their place in the history.
    pub transactions: Vec<u32>,
    /// What happened, for a person.
    pub words: String,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Transactions in the history.
    pub transactions: usize,
    /// Those acknowledged as committed.
    pub committed: usize,
    /// The anomalies kept, by class.
    pub anomalies: Vec<Anomaly>,
    /// How many were found of each class.
    pub found: BTreeMap<Class, usize>,
}

impl Report {
    pub(super) fn new(history: &History) -> Self {
        let committed = history.transactions.iter();
        let committed = committed.filter(|t| t.outcome == super::Outcome::Committed).count();
        Self { transactions: history.transactions.len(), committed, ..Self::default() }
    }

    pub(super) fn add(&mut self, class: Class, transactions: Vec<u32>, words: String) {
        let found = self.found.entry(class).or_default();
        *found += 1;
        if *found <= KEPT_PER_CLASS {
            self.anomalies.push(Anomaly { class, transactions, words });
        }
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether an anomaly of `class` was found.
    pub fn has(&self, class: Class) -> bool {
        self.found.contains_key(&class)
    }

    /// Fails a test with everything that was found.
    ///
    /// # Panics
    /// If the history was not clean.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.is_clean(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} transactions, {} committed", self.transactions, self.committed)?;
        for (class, count) in &self.found {
            writeln!(f, "  {class}: {count}")?;
        }
        for anomaly in &self.anomalies {
            writeln!(f, "{}: {}", anomaly.class, anomaly.words)?;
        }
        Ok(())
    }
}
