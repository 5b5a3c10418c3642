//! Tells people that a cloud is away, and that it is back: one line each.
//!
//! 1. Away is a cloud that has answered nothing for a second, though it was asked: what one more
//!    try mends nobody has to know. That is told while the proxy still tries on, which can take it
//!    some time.
//! 2. The first answer after that is told, with how long it was away.
//! 3. Tries that fail while others are answered are counted, and told with their number, at most
//!    every ten seconds.
//!
//! What the cloud sees: nothing. What is told follows from its own failures and from when it was
//! asked, which it knows, and goes to the operator.

use fogbank_env::{Mutex, Nanos};

/// After so long it is told.
const AWAY_NANOS: Nanos = 1_000_000_000;
/// Between two lines of failures among answers.
const QUIET_NANOS: Nanos = 10_000_000_000;

/// What is told of the absence of one cloud.
pub struct Absences {
    /// As people call it.
    cloud: &'static str,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// When it answered last.
    heard: Nanos,
    /// Since when it has answered nothing, if it was asked.
    since: Option<Nanos>,
    /// Whether that is told.
    is_told: bool,
    /// Failed tries that are not told.
    untold: Untold,
}

/// Tries that have failed with less than [`QUIET_NANOS`] from one to the next.
#[derive(Debug, Clone, Copy, Default)]
struct Untold {
    count: u64,
    first: Nanos,
    last: Nanos,
}

/// What there is to say of a try that has failed.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Away,
    /// So many have failed in so long.
    Some(u64, Nanos),
}

impl Absences {
    /// Nothing has failed yet.
    pub fn new(cloud: &'static str) -> Self {
        Self { cloud, told: Mutex::default() }
    }

    /// A try of `what`, begun at `began`, has failed for `reason`, and another follows.
    pub fn failed(&self, (began, now): (Nanos, Nanos), what: &str, reason: &str) {
        let (word, cloud) = (self.told.lock().failed(began, now), self.cloud);
        match word {
            None => {}
            Some(Word::Away) => {
                tracing::warn!("{cloud} does not answer, trying again: {what}: {reason}");
            }
            Some(Word::Some(failures, nanos)) => tracing::warn!(
                "{cloud} answers, but not always: {failures} tries have failed in {} s, the last: \
                 {what}: {reason}",
                seconds(nanos)
            ),
        }
    }

    /// It has answered, whatever.
    pub fn answered(&self, now: Nanos) {
        let away = self.told.lock().answered(now);
        if let Some(away) = away {
            tracing::warn!("{} answers again, after {} s", self.cloud, seconds(away));
        }
    }
}

fn seconds(nanos: Nanos) -> u64 {
    nanos.div_ceil(1_000_000_000)
}

impl Told {
    fn failed(&mut self, began: Nanos, now: Nanos) -> Option<Word> {
        if self.is_told {
            return None;
        }
        let since = *self.since.get_or_insert(began.max(self.heard));
        if now.saturating_sub(since) >= AWAY_NANOS {
            (self.is_told, self.untold) = (true, Default::default());
            return Some(Word::Away);
        }
        let Untold { count, first, last } = self.untold;
        let goes_on = count > 0 && now.saturating_sub(last) < QUIET_NANOS;
        let (count, first) = if goes_on { (count + 1, first) } else { (1, now) };
        self.untold = Untold { count, first, last: now };
        let passed = now.saturating_sub(first);
        if passed < QUIET_NANOS {
            return None;
        }
        self.untold = Untold::default();
        Some(Word::Some(count, passed))
    }

    /// How long it was away, if that was told.
    fn answered(&mut self, now: Nanos) -> Option<Nanos> {
        self.heard = now;
        let since = self.since.take()?;
        std::mem::take(&mut self.is_told).then(|| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    /// A line when it is away and a line when it is back, however many ask meanwhile.
    #[test]
    fn away_and_back_are_told_once_each() {
        let mut told = Told::default();
        told.answered(100 * SECOND);
        // What one more try mends nobody is told.
        assert_eq!(told.failed(200 * SECOND, 200 * SECOND + 5), None);
        assert_eq!(told.answered(200 * SECOND + 6), None);
        let lines = (0..40).filter_map(|n| {
            let now = 300 * SECOND + n * SECOND / 4;
            told.failed(now, now + 5)
        });
        assert_eq!(lines.collect::<Vec<_>>(), [Word::Away]);
        assert_eq!(told.answered(500 * SECOND), Some(200 * SECOND));
        assert_eq!(told.answered(501 * SECOND), None);
        // One that was asked before others were answered.
        assert_eq!(told.failed(400 * SECOND, 503 * SECOND), Some(Word::Away));
        assert_eq!(told.answered(504 * SECOND), Some(3 * SECOND));
    }

    /// What fails among answers, as where too much is asked at once, is no absence.
    #[test]
    fn failures_among_answers_are_told_by_their_number() {
        let mut told = Told::default();
        let mut lines = Vec::new();
        for n in 0..30 {
            let now = 1000 * SECOND + n * SECOND / 2;
            told.answered(now);
            lines.extend(told.failed(now, now + 1));
        }
        assert_eq!(lines, [Word::Some(21, 10 * SECOND)]);
    }
}
