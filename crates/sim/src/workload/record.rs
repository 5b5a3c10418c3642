//! Writing down what clients did and saw.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use fogbank_env::{Clock, Mutex, Nanos};

use crate::history::{History, Op, Outcome, Transaction, Value};

/// The history of a run; clones write to the same one.
#[derive(Clone)]
pub struct Recorder {
    clock: Arc<dyn Clock>,
    next_value: Arc<AtomicU64>,
    attempts: Arc<Mutex<Vec<Attempt>>>,
}

impl Recorder {
    /// An empty history.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, next_value: Arc::default(), attempts: Arc::default() }
    }

    /// The time now.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Starts the record of one transaction.
    pub fn attempt(&self, client: u32) -> Attempt {
        let state = State { ops: Vec::new(), failed: Vec::new(), ended: None };
        let attempt = Attempt {
            client,
            started: self.clock.now(),
            next_value: self.next_value.clone(),
            state: Arc::new(Mutex::new(state)),
        };
        lock(&self.attempts).push(attempt.clone());
        attempt
    }

    /// Everything recorded. An attempt whose end nobody heard of is of unknown outcome.
    pub fn history(&self) -> History {
        let mut transactions = Vec::new();
        for attempt in lock(&self.attempts).iter() {
            attempt.describe(self.clock.now(), &mut transactions);
        }
        History { transactions }
    }
}

struct State {
    ops: Vec<Op>,
    /// What earlier runs of the same body did. They must have left no trace.
    failed: Vec<Vec<Op>>,
    ended: Option<(Nanos, Outcome)>,
}

/// The record of one transaction while it runs; clones write to the same one.
#[derive(Clone)]
pub struct Attempt {
    client: u32,
    started: Nanos,
    next_value: Arc<AtomicU64>,
    state: Arc<Mutex<State>>,
}

impl Attempt {
    /// The body runs from its beginning; what it did before counts for nothing.
    pub fn restart(&self) {
        let mut state = lock(&self.state);
        let ops = mem::take(&mut state.ops);
        if !ops.is_empty() {
            state.failed.push(ops);
        }
    }

    /// An operation took place.
    pub fn op(&self, op: Op) {
        lock(&self.state).ops.push(op);
    }

    /// How many operations took place.
    pub fn len(&self) -> usize {
        lock(&self.state).ops.len()
    }

    /// Whether nothing took place yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The operations after the first `len` were taken back. What they saw was seen all the same.
    pub fn take_back(&self, len: usize) {
        let mut state = lock(&self.state);
        let tail = state.ops.split_off(len);
        let mut undone = tail.clone();
        undone.retain(|op| matches!(op, Op::Append { .. } | Op::Delete { .. }));
        state.ops.extend(tail.into_iter().filter(|op| matches!(op, Op::Read { .. })));
        if !undone.is_empty() {
            state.failed.push(undone);
        }
    }

    /// A record that is not in the history, for a part of what this one claims to have done.
    pub fn part(&self) -> Attempt {
        let state = State { ops: Vec::new(), failed: Vec::new(), ended: None };
        Attempt { state: Arc::new(Mutex::new(state)), ..self.clone() }
    }

    /// What the part did counts as done here.
    pub fn absorb(&self, part: &Attempt) {
        lock(&self.state).ops.append(&mut lock(&part.state).ops);
    }

    /// A value that no one appended before.
    pub fn fresh_value(&self) -> Value {
        1 + self.next_value.fetch_add(1, Ordering::Relaxed)
    }

    /// The outcome was heard.
    pub fn end(&self, now: Nanos, outcome: Outcome) {
        lock(&self.state).ended = Some((now, outcome));
    }

    fn describe(&self, now: Nanos, into: &mut Vec<Transaction>) {
        let state = lock(&self.state);
        let (ended, outcome) = state.ended.unwrap_or((now, Outcome::Unknown));
        let (client, started) = (self.client, self.started);
        let one = |outcome, ops| Transaction { client, started, ended, outcome, ops };
        into.extend(state.failed.iter().map(|ops| one(Outcome::Aborted, ops.clone())));
        into.push(one(outcome, state.ops.clone()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
