//! When large messages may leave on one direction of a link whose rate is known: each in its turn.
//!
//! What is sent faster than a link carries it waits in the link. Whatever is sent later waits
//! behind it: a request of a few bytes as long as a megabyte. So a large message leaves no sooner
//! than those before it are through, and small ones pass between.
//!
//! 1. A message leaves at the first point ([`crate::DepartureGrid`]) at which it is ready and the
//!    link is free.
//! 2. The link is busy for as long as the message takes.
//! 3. Where a point comes late for a message the next makes good for it, so the rate is kept on
//!    average however long a quantum is. An idle link saves up no more than a quantum.
//!
//! What the cloud sees: when messages leave. That follows from when they were ready, from their
//! sizes and from the rate. The rate is public configuration.

use fogbank_env::Nanos;

/// See the module.
#[derive(Debug, Clone)]
pub struct LinkPacer {
    quantum: Nanos,
    bytes_per_s: Option<u64>,
    free_at: Nanos,
}

impl LinkPacer {
    /// On a link that carries so much, at points that are `quantum` apart (not zero); without a
    /// rate every message has its turn when it is ready.
    pub fn new(quantum: Nanos, bytes_per_s: Option<u64>) -> Self {
        Self { quantum, bytes_per_s, free_at: 0 }
    }

    /// The first point at which the link is free; `None` if nothing waits for it.
    pub fn soonest(&self) -> Option<Nanos> {
        self.bytes_per_s.map(|_| self.free_at.next_multiple_of(self.quantum))
    }

    /// Whether the link is free at a point.
    pub fn is_free(&self, point: Nanos) -> bool {
        self.soonest().is_none_or(|soonest| soonest <= point)
    }

    /// A message of so many bytes leaves at `point`.
    pub fn take(&mut self, point: Nanos, bytes: u64) {
        let Some(rate) = self.bytes_per_s else { return };
        let takes = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let begins = self.free_at.max(point.saturating_sub(self.quantum));
        // No time that can be waited for is later, and none overflows when it is rounded up.
        let takes = u64::try_from(takes).unwrap_or(Nanos::MAX).min(Nanos::MAX / 4);
        self.free_at = begins.saturating_add(takes).min(Nanos::MAX / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// When messages of 1.5 ms leave that are all ready at 10.2 ms.
    fn departures(quantum: Nanos) -> Vec<Nanos> {
        let mut pacer = LinkPacer::new(quantum, Some(1_000_000));
        let ready = (10 * MS + MS / 5).next_multiple_of(quantum);
        let mut next = || {
            let point = pacer.soonest().unwrap_or(0).max(ready);
            pacer.take(point, 1500);
            point / MS
        };
        (0..7).map(|_| next()).collect()
    }

    #[test]
    fn messages_leave_as_fast_as_the_link_carries_them() {
        // Two of three points; of long quanta as many at once as go into one.
        assert_eq!(departures(MS), [11, 12, 13, 15, 16, 18, 19]);
        assert_eq!(departures(8 * MS), [16, 16, 16, 16, 16, 16, 24]);
    }

    #[test]
    fn an_idle_link_saves_up_a_quantum_and_without_a_rate_nothing_waits() {
        let mut pacer = LinkPacer::new(MS, Some(1_000_000));
        pacer.take(MS, 5000);
        assert_eq!(pacer.soonest(), Some(5 * MS));
        pacer.take(100 * MS, 1000);
        assert!(pacer.is_free(100 * MS), "within the quantum that was saved up");
        pacer.take(100 * MS, 1);
        assert!(!pacer.is_free(100 * MS) && pacer.is_free(101 * MS));
        let mut free = LinkPacer::new(0, None);
        free.take(0, u64::MAX);
        assert!(free.is_free(0) && free.soonest().is_none());
    }

    #[test]
    fn no_size_and_no_rate_overflows() {
        let mut slow = LinkPacer::new(MS, Some(0));
        (0..3).for_each(|_| slow.take(Nanos::MAX / 2, u64::MAX));
        assert!(slow.soonest() > Some(Nanos::MAX / 4));
    }
}
