//! Tells people that a cloud is absent: at once, and then seldom.
//!
//! 1. The first failed try is told while the proxy still tries on, which can take it some time.
//! 2. Further ones are counted. When ten seconds have passed since the last line, the next one that
//!    fails is told with that count.
//!
//! What the cloud sees: nothing; what is told follows from its own failures and goes to the
//! operator.

use std::sync::Arc;

use fogbank_env::{Clock, Mutex, Nanos};

/// Between two lines.
const QUIET_NANOS: Nanos = 10_000_000_000;

/// What is told of the absence of one store.
pub struct Absences {
    clock: Arc<dyn Clock>,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// When the last line was written.
    at: Option<Nanos>,
    /// Failed tries since then.
    untold: u64,
}

impl Absences {
    /// Nothing has failed yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, told: Mutex::default() }
    }

    /// A try of `what` has failed for `reason`, and another follows.
    pub fn failed(&self, what: &str, reason: &str) {
        let told = self.told.lock().note(self.clock.now());
        match told {
            None => {}
            Some(0) => tracing::warn!("the cloud does not answer, trying again: {what}: {reason}"),
            Some(more) => tracing::warn!(
                "the cloud does not answer, trying again ({more} more failures since the last such \
                 line): {what}: {reason}"
            ),
        }
    }
}

impl Told {
    /// How many failures were kept back before the one of `now`, if that is to be told.
    fn note(&mut self, now: Nanos) -> Option<u64> {
        if self.at.is_some_and(|at| now.saturating_sub(at) < QUIET_NANOS) {
            self.untold += 1;
            return None;
        }
        self.at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_told_at_once_and_the_others_by_their_number() {
        let mut told = Told::default();
        let second = QUIET_NANOS / 10;
        assert_eq!(told.note(5), Some(0));
        let kept = (0..40).filter(|n| told.note(5 + n * second / 5).is_some()).count();
        assert_eq!(kept, 0);
        assert_eq!(told.note(5 + 10 * second), Some(40));
        assert_eq!(told.note(6 + 10 * second), None);
        assert_eq!(told.note(5 + 60 * second), Some(1));
        assert_eq!(told.note(5 + 99 * second), Some(0), "nothing was kept back");
    }
}
