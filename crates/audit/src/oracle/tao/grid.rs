//! The points at which records leave at a fixed rate.
//!
//! A record leaves at the first multiple of the interval after the one before was durable; if something
//! else has held departures up past it, at the first after that. If there is no room for its paths, the
//! point is passed over. A store that lets one pass otherwise has ended: it only closes.

use fogbank_env::Nanos;
use fogbank_store::trace::RateConfig;

/// See the module; of an engine without a rate it holds nothing up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    interval: Option<Nanos>,
    next: Nanos,
}

impl Grid {
    pub fn new(rate: Option<RateConfig>) -> Self {
        Self { interval: rate.map(|rate| rate.interval_ns), next: 0 }
    }

    /// The next point, if there is a rate.
    pub fn next(&self) -> Option<Nanos> {
        self.interval.map(|_| self.next)
    }

    /// The next record leaves after `at`.
    pub fn after(&mut self, at: Nanos) {
        if let Some(interval) = self.interval {
            self.next = (at / interval + 1) * interval;
        }
    }

    /// Departures were held up until `at`.
    pub fn held_up(&mut self, at: Nanos) {
        if at > self.next {
            self.after(at);
        }
    }
}
