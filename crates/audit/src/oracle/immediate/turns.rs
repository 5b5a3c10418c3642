//! Turns at a link's pace: of each direction, which is busy as long as what left takes.
//!
//! A message that could leave from a point on leaves at the first point from then at which its
//! direction is free. That is busy from there on, or from up to a quantum before if it was free,
//! for the time of the bytes.
//!
//! The engine keeps the same account (`store/link_pacer.rs`). This one is not shared with it on
//! purpose: a mistake in one would hide in both.
//!
//! A pace so slow that a full message of a write-back takes longer than a round trip cannot be
//! followed while buckets are written for the first time: nobody can tell in time that a message
//! was the last.

use fogbank_env::Nanos;

use crate::oracle::fault::{Step, fault};

/// See the module; without a rate nothing waits.
#[derive(Debug, Clone)]
pub(in crate::oracle) struct Turns {
    quantum: Nanos,
    bytes_per_s: Option<u64>,
    free_at: Nanos,
}

impl Turns {
    pub fn new(quantum: Nanos, bytes_per_s: Option<u64>) -> Self {
        Self { quantum, bytes_per_s, free_at: 0 }
    }

    /// A new process.
    pub fn restart(&mut self) {
        self.free_at = 0;
    }

    /// When a message leaves that could from `ready` on.
    pub fn due(&self, ready: Nanos) -> Nanos {
        match self.bytes_per_s {
            Some(_) => ready.max(self.free_at.next_multiple_of(self.quantum)),
            None => ready,
        }
    }

    /// A message of so many bytes leaves at `at`, or will.
    pub fn take(&mut self, at: Nanos, bytes: u64) {
        let Some(rate) = self.bytes_per_s else { return };
        let busy = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let from = self.free_at.max(at.saturating_sub(self.quantum));
        let busy = u64::try_from(busy).unwrap_or(LATEST).min(LATEST);
        self.free_at = from.saturating_add(busy).min(LATEST);
    }
}

/// No time in a trace is later: rounding it up overflows nothing.
const LATEST: Nanos = Nanos::MAX / 2;

/// Holds the time at which something leaves against that of its turn. That it does not leave later
/// is looked at when its turn is over.
pub(in crate::oracle) fn check_turn(due: Nanos, at: Nanos) -> Step {
    if at < due {
        return fault("in-turn", format!("{due} ns"), format!("{at} ns"));
    }
    Ok(())
}
