//! What one lock guards: the shell's part (who has arrived, what is under way, in which order
//! answers leave) beside the plane's (what the engine knows).
//!
//! The lock is held for one step at a time and never across I/O or a cipher.

use std::collections::BTreeSet;

use super::canary::Canary;
use super::sequencer::{Number, Reply, Sequencer};

/// See the module.
#[derive(Debug)]
pub struct Core<P> {
    /// What the engine knows.
    pub plane: P,
    /// The order of answers.
    pub sequencer: Sequencer,
    /// What is about to be asked for, or was and has not been taken.
    pub under_way: UnderWay,
    /// What the shell leaks: nothing, but in tests.
    pub canary: Canary,
}

impl<P> Core<P> {
    /// Nothing has arrived.
    pub fn new(plane: P) -> Self {
        let (sequencer, under_way) = (Sequencer::default(), UnderWay::default());
        Self { plane, sequencer, under_way, canary: Canary::default() }
    }

    /// An access arrives, to be answered by `reply`.
    pub fn arrive(&mut self, reply: Reply) -> Number {
        let number = self.sequencer.arrive(reply);
        self.under_way.begin(number);
        number
    }

    /// What an access asked for has come and is being taken.
    pub fn ended(&mut self, number: Number) {
        self.under_way.end(number);
        self.sequencer.has_come(number);
    }
}

/// Accesses from their arrival until what they asked for has been taken.
#[derive(Debug, Default)]
pub struct UnderWay(BTreeSet<Number>);

impl UnderWay {
    /// It has arrived.
    pub fn begin(&mut self, number: Number) {
        self.0.insert(number);
    }

    /// What it asked for has been taken.
    pub fn end(&mut self, number: Number) {
        self.0.remove(&number);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number from which on none has ended: that of the oldest under way, beyond all if there
    /// is none.
    pub fn oldest(&self) -> Number {
        self.0.first().copied().unwrap_or(Number::MAX)
    }
}
