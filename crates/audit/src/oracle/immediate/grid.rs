//! The points at which records leave at a fixed rate.
//!
//! A record leaves at the first multiple of the interval after the one before was durable; if
//! something else has held departures up past it, at the first after that. If there is no room for
//! its accesses, the point is passed over. A store that lets one pass otherwise has ended: it only
//! closes.
//!
//! Here they are the moments at which it is decided what leaves: a quantum before, if there is one.

use fogbank_env::Nanos;
use fogbank_store::trace::RateConfig;

/// See the module; of an engine without a rate it holds nothing up.
#[derive(Debug, Clone, Copy)]
pub(in crate::oracle) struct Grid {
    interval: Option<Nanos>,
    quantum: Nanos,
    next: Nanos,
}

impl Grid {
    pub fn new(rate: Option<RateConfig>, quantum: Nanos) -> Self {
        Self { interval: rate.map(|rate| rate.interval_ns), quantum, next: 0 }
    }

    /// The next point, if there is a rate.
    pub fn next(&self) -> Option<Nanos> {
        self.interval.map(|_| self.next)
    }

    /// The next record is decided about after what counts from `at` was taken: by a quantum, that
    /// was half of one before.
    pub fn after(&mut self, at: Nanos) {
        if let Some(interval) = self.interval {
            let left = at.max(self.next + self.quantum);
            self.next = (left / interval + 1) * interval - self.quantum;
        }
    }

    /// Departures were held up until `at`.
    pub fn held_up(&mut self, at: Nanos) {
        if at > self.next {
            self.after(at);
        }
    }
}
