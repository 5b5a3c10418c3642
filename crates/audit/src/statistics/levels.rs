//! When a check fails, and what it must have been able to see to pass: the levels, in one place.
//!
//! *Correction.* All findings of one audit share [`Levels::fail`] equally (Bonferroni), and each
//! splits its share equally among its own tests (64 lags, 12 levels, ...). So the chance that an
//! honest engine fails anything at all in one audit is at most `fail`, whatever the tests have to
//! do with one another, and a check of one test is not made blunt by a check of two hundred. Holm's
//! refinement would lower the bar of a second failure only; it would make the smallest leak of one
//! check hang on the outcome of others.
//!
//! *Power.* A pass says something only about leaks that would have been seen. Each finding states
//! the smallest leak that its tests find with probability [`Levels::power`] at their corrected
//! level; if that is more than [`Levels::smallest_leak`], it ends as [`Verdict::TooFew`].

use super::tails::{normal_point_above, poisson_at_least};
use crate::{Finding, Verdict};

/// The levels of one audit.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels {
    /// The chance that anything in an audit of an honest engine fails.
    pub fail: f64,
    /// The same for checks of fingerprints. These have 64 bits, so two of 10^8 differing
    /// ciphertexts agree in one run of 3700; at 1e-9 a single true repeat would count only below
    /// 50,000 cells. In an audit of one trace it counts at this level up to a million, and two up
    /// to 10^8.
    pub fail_fingerprints: f64,
    /// Below this, still after correction, a pass is called unusual in its words.
    pub warn: f64,
    /// With which probability the smallest leak that a finding states would have been seen.
    pub power: f64,
    /// A check passes only if it would have seen a leak of this size: a share of accesses (of
    /// cells, of messages) or an advantage, as the check says.
    pub smallest_leak: f64,
    /// The same for the lateness of messages under a real clock, as the advantage that one message
    /// gives. Coarser, because neighbours are late together and a run has few independent ones.
    pub smallest_timing_leak: f64,
    /// How many findings share `fail`.
    pub findings: u32,
}

impl Default for Levels {
    fn default() -> Self {
        let (fail, fail_fingerprints, warn) = (1e-9, 1e-6, 1e-4);
        Self {
            fail,
            fail_fingerprints,
            warn,
            power: 0.9,
            smallest_leak: 0.01,
            smallest_timing_leak: 0.1,
            findings: 16,
        }
    }
}

impl Levels {
    /// The default levels, shared by the findings of so many traces and of their comparison: of two
    /// traces how late messages are, and how many missed their point.
    pub fn for_traces(traces: u32) -> Self {
        let pairs = traces.saturating_mul(traces.saturating_sub(1));
        let findings = traces.saturating_mul(super::Battery::FINDINGS).saturating_add(pairs);
        Self { findings: findings.saturating_add(3), ..Self::default() }
    }

    /// The level of each of `tests` tests of one finding.
    pub(super) fn each(&self, tests: usize) -> f64 {
        self.fail / f64::from(self.findings.max(1)) / tests.max(1) as f64
    }

    /// How many deviations from its mean a two-sided normal test finds with the stated power.
    pub(super) fn reach(&self, tests: usize) -> f64 {
        normal_point_above(self.each(tests) / 2.0) + normal_point_above(1.0 - self.power)
    }
}

/// The tests of one finding as they are made.
#[derive(Debug, Default)]
pub(super) struct Tests {
    count: usize,
    worst: Option<(f64, String)>,
}

impl Tests {
    /// Takes in a test that comes out so improbably; `what` names it in words.
    pub(super) fn add(&mut self, p: f64, what: impl FnOnce() -> String) {
        self.count += 1;
        let p = if p.is_nan() { 0.0 } else { p }; // what cannot be computed is no pass
        if self.worst.as_ref().is_none_or(|(worst, _)| p < *worst) {
            self.worst = Some((p, what()));
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The finding they come to.
    ///
    /// Its figure is the worst test's probability as deviations of a standard normal, two-sided;
    /// its threshold is the corrected level in the same unit.
    pub(super) fn finding(self, head: Head<'_>, levels: &Levels) -> Finding {
        let level = levels.each(self.count) * head.looser;
        let (p, what) = self.worst.unwrap_or((1.0, "nothing to test".into()));
        let overall = (p / level * levels.fail * head.looser).min(1.0);
        let verdict = match head.smallest_leak {
            _ if p < level => Verdict::Failed,
            Some(leak) if leak > head.leak_max.unwrap_or(levels.smallest_leak) => Verdict::TooFew,
            _ => Verdict::Passed,
        };
        let end = match verdict {
            Verdict::Failed => head.failure,
            _ if overall < levels.warn => "unusual, though within the level: run it again",
            Verdict::TooFew => "too few samples to say",
            Verdict::Passed => "as chance would have it",
        };
        Finding {
            check: head.check.into(),
            subject: head.subject.into(),
            verdict,
            figure: normal_point_above(p / 2.0),
            threshold: normal_point_above(level / 2.0),
            samples: head.samples,
            smallest_leak: head.smallest_leak.map(|leak| leak.min(1.0)),
            words: format!("{what} (p = {overall:.1e} over all tests): {end}"),
        }
    }
}

/// What a finding is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) check: &'a str,
    pub(super) subject: &'a str,
    pub(super) samples: u64,
    pub(super) smallest_leak: Option<f64>,
    /// If not the usual bound.
    pub(super) leak_max: Option<f64>,
    /// By how much the level is looser than `fail`: 1, but for fingerprints.
    pub(super) looser: f64,
    /// What a failure comes to, in words.
    pub(super) failure: &'a str,
}

impl<'a> Head<'a> {
    pub(super) fn new(check: &'a str, subject: &'a str, samples: u64) -> Self {
        let (smallest_leak, leak_max, looser) = (Some(1.0), None, 1.0);
        Self { check, subject, samples, smallest_leak, leak_max, looser, failure: "a leak" }
    }

    pub(super) fn leak(self, smallest: f64) -> Self {
        Self { smallest_leak: Some(smallest), ..self }
    }
}

/// How many events beyond a Poisson mean are found with `power` at `level` (one side of two): the
/// smallest extra mean m with P(Poisson(mean + m) >= k) >= power, k being the critical count.
pub(super) fn poisson_reach(mean: f64, level: f64, power: f64) -> f64 {
    let spread = mean.max(1.0).sqrt();
    let (mut low, mut high) = (mean.floor() as u64, mean as u64 + 40 + (50.0 * spread) as u64);
    while low < high {
        let middle = low.midpoint(high);
        if poisson_at_least(middle, mean) > level / 2.0 { low = middle + 1 } else { high = middle }
    }
    super::tails::bisect(0.0, low as f64 + 50.0 + 10.0 * spread, |extra| {
        poisson_at_least(low, mean + extra) < power
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reach_of_a_count_is_what_it_says() {
        for mean in [0.0, 0.3, 20.0, 5e3, 2e5] {
            let extra = poisson_reach(mean, 1e-10, 0.9);
            let critical = (0..).find(|&k| poisson_at_least(k, mean) <= 5e-11);
            let critical = critical.unwrap_or(0);
            assert!((poisson_at_least(critical, mean + extra) - 0.9).abs() < 1e-6, "{mean}");
        }
    }

    #[test]
    fn what_is_no_number_is_no_pass() {
        let mut tests = Tests::default();
        tests.add(0.5, || "a test".into());
        tests.add(f64::NAN, || "no test".into());
        let head = Head::new("a-check", "a trace", 9).leak(0.001);
        assert_eq!(tests.finding(head, &Levels::default()).verdict, Verdict::Failed);
    }

    #[test]
    fn a_pass_needs_power_and_a_failure_does_not() {
        let levels = Levels::default();
        let finding = |p, leak| {
            let mut tests = Tests::default();
            tests.add(p, || "a test".into());
            tests.finding(Head::new("a-check", "a trace", 9).leak(leak), &levels).verdict
        };
        assert_eq!(finding(0.3, 0.001), Verdict::Passed);
        assert_eq!(finding(0.3, 0.5), Verdict::TooFew);
        assert_eq!(finding(1e-12, 0.5), Verdict::Failed);
        assert_eq!(finding(1e-10, 0.001), Verdict::Passed, "1e-9 is for 16 findings");
    }
}
