//! How a replay can end early, and what it comes to when it does not.

use serde::Serialize;

use crate::Breach;

/// A rule that the event at hand breaks; where and when is known to the caller.
#[derive(Debug)]
pub(crate) struct Fault {
    pub rule: &'static str,
    pub expected: String,
    pub seen: String,
}

/// An end of the replay, with or without a place in the trace.
pub(crate) enum Stop {
    Fault(Box<Fault>),
    Unpredictable(&'static str),
    Unfollowing(String),
}

impl From<Box<Fault>> for Stop {
    fn from(fault: Box<Fault>) -> Self {
        Stop::Fault(fault)
    }
}

/// What came of a step of the replay.
pub(super) type Step<T = ()> = Result<T, Box<Fault>>;

/// Stops the replay at `rule`.
pub(super) fn fault<T>(
    rule: &'static str,
    expected: impl Into<String>,
    seen: impl Into<String>,
) -> Step<T> {
    Err(Box::new(Fault { rule, expected: expected.into(), seen: seen.into() }))
}

/// Why a replay ended before its trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The trace is not what the proxy's rules lead to.
    #[error(transparent)]
    Breach(#[from] Breach),
    /// The trace begins within the life of a store, whose state so far nobody told.
    #[error("event {event}: cannot be predicted: {reason}")]
    Unpredictable {
        /// The number of the event, from 0.
        event: u64,
        /// What is missing.
        reason: &'static str,
    },
    /// The trace is not the next one of its store: one is missing before it, or its end.
    #[error(
        "event {event}: this trace does not follow the one before it: {reason}; if none is \
         missing, it leaks, or the proxy has believed a forgery"
    )]
    Unfollowing {
        /// The number of the event, from 0.
        event: u64,
        /// What tells.
        reason: String,
    },
}

/// A configuration that the oracle does not follow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the oracle does not follow this configuration: {0}")]
pub struct Refused(pub String);

/// What a replay saw, as far as it went. All of it public.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Events taken in.
    pub events: u64,
    /// Requests sent.
    pub requests: u64,
    /// Proxies that claimed the store; 1 for a bare engine.
    pub openings: u32,
    /// Checkpoints that closed it.
    pub closings: u32,
    /// Proxies that stopped without closing it, as far as a later opening shows it.
    pub crashes: u32,
    /// Epochs that were committed; of an engine that serves accesses as they come, checkpoints.
    pub epochs: u64,
    /// Read batches; of an engine that serves accesses as they come, journal records.
    pub read_batches: u64,
    /// Accesses, write slots included.
    pub accesses: u64,
    /// Path reads that showed nothing.
    pub silent_paths: u64,
    /// Those of them whose leaves were completed a moment too late, as may be.
    pub guessed_paths: u64,
    /// Evictions.
    pub evictions: u64,
    /// Early reshuffles.
    pub reshuffles: u64,
    /// Cells read.
    pub cells_read: u64,
    /// Bucket images written.
    pub images: u64,
    /// Replies that were not what had been written, or said to be lies.
    pub lies: u32,
    /// The latest departure after its point, in nanoseconds.
    pub latest_ns: u64,
}
