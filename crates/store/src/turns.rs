//! Turns on one direction of a link whose rate is known.
//!
//! What is sent faster than a link carries it waits in the link, and whatever is sent later waits behind it:
//! a request of a few bytes as long as a megabyte. So large messages leave no sooner than those before
//! them are through, and the small ones between them pass.
//!
//! A message leaves at the first point ([`crate::Points`]) at which it is ready and the link is free. The link
//! then is busy for as long as it takes the message. A point that comes late for it is made good by the next,
//! so the rate is kept on average however long a quantum is; an idle link saves up no more than a quantum.
//!
//! What the cloud sees: when messages leave. That follows from when they were ready, from their
//! sizes and from the rate; the rate is public configuration.

use fogbank_env::Nanos;

/// See the module.
#[derive(Debug, Clone)]
pub struct Turns {
    quantum: Nanos,
    bytes_per_s: Option<u64>,
    free_at: Nanos,
}

impl Turns {
    /// On a link that carries so much, at points that are `quantum` apart (not zero); without a rate every
    /// message has its turn when it is ready.
    pub fn new(quantum: Nanos, bytes_per_s: Option<u64>) -> Self {
        Self { quantum, bytes_per_s, free_at: 0 }
    }

    /// The point at which a message of so many bytes leaves that is ready at `now`, if it has to wait for its
    /// turn: later than the next one. It takes its turn by asking.
    pub fn next(&mut self, now: Nanos, bytes: u64) -> Option<Nanos> {
        let rate = self.bytes_per_s?.max(1);
        let takes = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let soonest = (now / self.quantum + 1) * self.quantum;
        let point = soonest.max(self.free_at.next_multiple_of(self.quantum));
        let begins = self.free_at.max(point - self.quantum);
        self.free_at = begins.saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
        (point > soonest).then_some(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// When messages of 1.5 ms leave that are all ready at 10.2 ms.
    fn departures(quantum: Nanos) -> Vec<Nanos> {
        let mut turns = Turns::new(quantum, Some(1_000_000));
        let now = 10 * MS + MS / 5;
        let soonest = (now / quantum + 1) * quantum;
        (0..7).map(|_| turns.next(now, 1500).unwrap_or(soonest) / MS).collect()
    }

    #[test]
    fn messages_leave_as_fast_as_the_link_carries_them() {
        // Two of three points; of long quanta as many at once as go into one.
        assert_eq!(departures(MS), [11, 12, 13, 15, 16, 18, 19]);
        assert_eq!(departures(8 * MS), [16, 16, 16, 16, 16, 16, 24]);
    }

    #[test]
    fn an_idle_link_saves_up_a_quantum_and_without_a_rate_nothing_waits() {
        let mut turns = Turns::new(MS, Some(1_000_000));
        assert_eq!(turns.next(0, 5000), None);
        assert_eq!(turns.next(0, 5000), Some(5 * MS));
        assert_eq!(turns.next(100 * MS, 1), None);
        assert_eq!(turns.next(100 * MS, 1000), None, "within the quantum that was saved up");
        assert_eq!(turns.next(100 * MS, 1), Some(102 * MS));
        let mut free = Turns::new(MS, None);
        assert!((0..9).all(|_| free.next(0, u64::MAX).is_none()));
        // No size and no rate overflows.
        let mut slow = Turns::new(MS, Some(0));
        slow.next(0, u64::MAX);
    }
}
