//! Under a real clock: how late messages leave after their public cause, and whether that changes.
//!
//! In virtual time the oracle demands equality and nothing is left to test. On a machine timers and
//! scheduling add a little, which must not depend on what clients do; what can be seen in one run
//! is that its halves differ, and of several runs that they differ. Halves have no others of their
//! kind beside them to tell the machine from the proxy by, and one burst of other work fills half
//! of a short run. So halves fail a run only where it has the samples that the check asks for.
//!
//! *Late.* Lateness counts from the point of the grid at which a message left. Neighbouring
//! messages are late together, so samples count only as far as they are independent: by the
//! variance of the means of blocks against that of single ones.
//!
//! *Missed.* A message that left at a later point than it was due at has missed its point. That is
//! a series of its own; where it is common, lateness says nothing. A machine that is shared misses
//! some points, in all runs alike. So if runs of two labels differ more in the points they miss
//! than runs of one label do, the machine is not the cause.

use fogbank_env::Nanos;

use super::levels::{Head, Levels, Tests};
use super::tails::{normal_both, normal_point_above};
use crate::{Finding, Verdict};

/// Samples kept of each kind; beyond, every second one goes, again and again.
const KEPT_MAX: usize = 1 << 18;

/// Fewer independent samples than these are no test.
const INDEPENDENT_MIN: f64 = 20.0;

/// The share of messages that may miss their point.
const MISSED_MAX: f64 = 0.01;

/// The kinds of messages, in the order of an epoch. Each has its own surroundings: what follows the
/// answers leaves while clients go on, for instance.
const KINDS: [&str; 5] = ["read batches", "write batches", "images", "commits", "deletions"];

/// What a difference in time comes to: halves of a run, and runs, have the machine in common with
/// whatever else it did meanwhile.
pub(super) const FAILURE: &str = "a leak, or another load on the machine in the meantime, which \
                       shows the same way: repeat on a quiet machine; if it persists it is the \
                       proxy";

/// Lateness of messages and its change from one to the next, by kind of message.
#[derive(Debug, Clone)]
pub(super) struct Departures {
    /// Whether messages have points to leave at; if not, their times are those of the work.
    timed: bool,
    read_batches: u32,
    late: [Thinned; KINDS.len()],
    change: [Thinned; KINDS.len()],
    /// 1 for a message that missed its point, else 0.
    missed: [Thinned; KINDS.len()],
    before: [Option<f64>; KINDS.len()],
}

/// A series of which every 2^k-th sample is kept.
#[derive(Debug, Clone, Default)]
struct Thinned {
    kept: Vec<f64>,
    skip: u32,
    seen: u64,
}

impl Thinned {
    fn push(&mut self, sample: f64) {
        if self.seen.is_multiple_of(1 << self.skip) {
            self.kept.push(sample);
            if self.kept.len() == KEPT_MAX {
                let mut at = 0;
                self.kept.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.skip += 1;
            }
        }
        self.seen += 1;
    }

    fn halves(&self) -> (&[f64], &[f64]) {
        self.kept.split_at(self.kept.len() / 2)
    }
}

impl Departures {
    pub(super) fn new(read_batches: u32, timed: bool) -> Self {
        Self {
            timed,
            read_batches,
            late: Default::default(),
            change: Default::default(),
            missed: Default::default(),
            before: [None; KINDS.len()],
        }
    }

    pub(super) fn departed(&mut self, at: Nanos, cause: Nanos, missed: u64, batch: u32) {
        let kind = batch.saturating_sub(self.read_batches.saturating_sub(1)) as usize;
        let kind = kind.min(KINDS.len() - 1);
        self.missed[kind].push(f64::from(u8::from(missed > 0)));
        let late = at.saturating_sub(cause) as f64;
        self.late[kind].push(late);
        if let Some(before) = self.before[kind].replace(late) {
            self.change[kind].push(late - before);
        }
    }

    /// Lateness in the first half of the run against the second, by Kolmogorov and Smirnov and by
    /// Mann and Whitney.
    ///
    /// Smallest leak: the advantage d (largest difference of the distribution functions) with which
    /// one message tells the halves apart: `(K + z' / 2) / sqrt(m)`, K being the critical point of
    /// Kolmogorov's distribution and `1/m` the sum of the reciprocals of the independent samples.
    pub(super) fn halves(&self, subject: &str, levels: &Levels) -> Finding {
        let between = "between the halves of the run";
        let pairs = self.late.each_ref().map(Thinned::halves);
        let missed = self.missed.each_ref().map(Thinned::halves);
        let found = || compared("departures", between, &pairs, Some(&missed), subject, levels);
        self.if_timed("departures", subject, || with_missed(long_enough(found(), levels), &missed))
    }

    /// The change of lateness from one message to the next of its kind, between halves: the part of
    /// a gap that its causes do not explain. Smallest leak as for [`Departures::halves`].
    pub(super) fn gaps(&self, subject: &str, levels: &Levels) -> Finding {
        let pairs = self.change.each_ref().map(Thinned::halves);
        let between = "between the halves of the run";
        let found = || compared("gaps", between, &pairs, None, subject, levels);
        self.if_timed("gaps", subject, || long_enough(found(), levels))
    }

    /// Lateness in one run against that in another.
    pub(super) fn between(&self, other: &Self, subject: &str, levels: &Levels) -> Finding {
        let pairs = both(&self.late, &other.late);
        let missed = both(&self.missed, &other.missed);
        let (check, between) = ("departures-between-runs", "between the runs");
        let found = || compared(check, between, &pairs, Some(&missed), subject, levels);
        self.if_timed(check, subject, || with_missed(found(), &missed))
    }

    /// How far the shares of messages that missed their point lie apart in two sets of runs, by
    /// kind; nothing where there are no points. A kind of which there are too few, or none, has no
    /// share.
    pub(super) fn missed_apart(
        first: &[&Self],
        second: &[&Self],
    ) -> Option<[Option<Apart>; Apart::KINDS]> {
        let timed = first.iter().chain(second).all(|run| run.timed);
        let series = |runs: &[&Self], kind: usize| {
            runs.iter().flat_map(|run| run.missed[kind].kept.iter().copied()).collect::<Vec<_>>()
        };
        let apart = |kind| Apart::new(KINDS[kind], &series(first, kind), &series(second, kind));
        timed.then(|| std::array::from_fn(apart))
    }

    /// The finding; without points to leave at there is nothing to hold times against.
    fn if_timed(&self, check: &str, subject: &str, found: impl FnOnce() -> Finding) -> Finding {
        if self.timed {
            return found();
        }
        Finding {
            check: check.into(),
            subject: subject.into(),
            verdict: Verdict::TooFew,
            figure: 0.0,
            threshold: 0.0,
            samples: 0,
            smallest_leak: Some(1.0),
            words: "does not apply: without an interval and a quantum, times of departures follow \
                    the work, which depends on what clients do"
                .into(),
        }
    }
}

/// The shares of messages of one kind that missed their point, of two series.
#[derive(Debug, Clone, Copy)]
pub(super) struct Apart {
    kind: &'static str,
    /// By how much they differ.
    pub(super) share: f64,
    /// The deviation of that, were they the same.
    pub(super) deviation: f64,
    pub(super) samples: u64,
}

impl Apart {
    /// Kinds of messages.
    pub(super) const KINDS: usize = KINDS.len();
    /// What any machine may miss more in one run than in another.
    pub(super) const ALLOWED_MIN: f64 = MISSED_MAX;

    fn new(kind: &'static str, first: &[f64], second: &[f64]) -> Option<Self> {
        let (a, b) =
            (first.len() as f64 / dependence(first), second.len() as f64 / dependence(second));
        if !(a >= INDEPENDENT_MIN && b >= INDEPENDENT_MIN) {
            return None;
        }
        let mean = |series: &[f64]| series.iter().sum::<f64>() / series.len() as f64;
        let (one, two) = (mean(first), mean(second));
        // One more that missed and one that did not: no share is known to be nothing or all.
        let pooled = (one * a + two * b + 1.0) / (a + b + 2.0);
        let deviation = (pooled * (1.0 - pooled) * (1.0 / a + 1.0 / b)).sqrt();
        let samples = (first.len() + second.len()) as u64;
        Some(Self { kind, share: (one - two).abs(), deviation, samples })
    }

    /// How improbable so much is where no more than `allowed` lies between the two.
    pub(super) fn beyond(&self, allowed: f64) -> f64 {
        normal_both(((self.share - allowed) / self.deviation).max(0.0))
    }

    /// In words, `allowed` being what runs of one label differ by.
    pub(super) fn words(&self, allowed: f64) -> String {
        let [share, allowed] = [self.share, allowed].map(|share| 100.0 * share);
        format!(
            "the share of {} that missed their point differs by {share:.1} %, between runs of one \
             label by {allowed:.1} % at most",
            self.kind
        )
    }
}

/// Two series of every kind of message.
type Kinds<'a> = [(&'a [f64], &'a [f64]); KINDS.len()];

fn both<'a>(first: &'a [Thinned; KINDS.len()], second: &'a [Thinned; KINDS.len()]) -> Kinds<'a> {
    std::array::from_fn(|kind| (&first[kind].kept[..], &second[kind].kept[..]))
}

/// The finding about the halves of one run; no failure where the run is too short for the check.
fn long_enough(mut finding: Finding, levels: &Levels) -> Finding {
    let too_short = finding.smallest_leak.is_some_and(|leak| leak > levels.smallest_timing_leak);
    if too_short && finding.verdict == Verdict::Failed {
        finding.verdict = Verdict::TooFew;
        finding.words += ". The run is too short to tell the two apart: record for longer";
    }
    finding
}

/// The finding with the share of messages that missed their point; no pass if there are many.
fn with_missed(mut finding: Finding, missed: &Kinds<'_>) -> Finding {
    let all = || missed.iter().flat_map(|(first, second)| first.iter().chain(*second));
    let share = all().sum::<f64>() / (all().count() as f64).max(1.0);
    finding.words += &format!("; {:.2} % of messages missed their point", 100.0 * share);
    if share > MISSED_MAX && finding.verdict != Verdict::Failed {
        finding.verdict = Verdict::TooFew;
        finding.words += ": the machine was too busy to keep the beat";
    }
    finding
}

fn compared(
    check: &str,
    between: &str,
    pairs: &Kinds<'_>,
    missed: Option<&Kinds<'_>>,
    subject: &str,
    levels: &Levels,
) -> Finding {
    let mut tests = Tests::default();
    // What the kind with the fewest shows; nothing if one has too few for a test.
    let mut least = f64::INFINITY;
    for (kind, (first, second)) in KINDS.iter().zip(pairs) {
        if first.is_empty() && second.is_empty() {
            continue;
        }
        let Some(pair) = Pair::new(first, second) else {
            least = 0.0;
            continue;
        };
        let (distance, z) = (pair.distance, pair.shift);
        let p = kolmogorov_above(distance * pair.independent.sqrt());
        tests.add(p, || format!("lateness of {kind} differs by {distance:.3} {between}"));
        tests.add(normal_both(z), || format!("lateness of {kind} moves by {z:.1} {between}"));
        least = least.min(pair.independent);
    }
    test_missed(missed, between, &mut tests);
    if tests.count() == 0 {
        least = 0.0;
    }
    let point = kolmogorov_point_above(levels.each(tests.count()));
    let smallest = (point + 0.5 * normal_point_above(1.0 - levels.power)) / least.sqrt();
    let samples = pairs.iter().map(|(a, b)| (a.len() + b.len()) as u64).sum();
    let head = Head::new(check, subject, samples).leak(smallest);
    let leak_max = Some(levels.smallest_timing_leak);
    tests.finding(Head { leak_max, failure: FAILURE, ..head }, levels)
}

/// The shares of messages that missed their point against one another.
fn test_missed(missed: Option<&Kinds<'_>>, between: &str, tests: &mut Tests) {
    for (kind, (first, second)) in KINDS.iter().zip(missed.into_iter().flatten()) {
        let Some(pair) = Pair::new(first, second) else { continue };
        tests.add(normal_both(pair.shift), || {
            let apart = 100.0 * pair.distance;
            format!("the share of {kind} that missed their point differs by {apart:.2} % {between}")
        });
    }
}

/// Two series against one another.
struct Pair {
    /// The harmonic sum of the independent samples of both.
    independent: f64,
    /// The largest difference of the distribution functions.
    distance: f64,
    /// How many deviations one lies above the other.
    shift: f64,
}

impl Pair {
    fn new(first: &[f64], second: &[f64]) -> Option<Self> {
        let (a, b) =
            (first.len() as f64 / dependence(first), second.len() as f64 / dependence(second));
        if !(a >= INDEPENDENT_MIN && b >= INDEPENDENT_MIN) {
            return None;
        }
        let independent = a * b / (a + b);
        let (first, second) = (sorted(first), sorted(second));
        let (distance, above, ties) = walk(&first, &second);
        // The chance that one of the second exceeds one of the first has the variance
        // (1 - ties) / 12 (1/a + 1/b), up to a term that is small for large samples.
        let deviation = ((1.0 - ties) / (12.0 * independent)).sqrt();
        let shift = if deviation > 0.0 { (above - 0.5) / deviation } else { 0.0 };
        Some(Self { independent, distance, shift })
    }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// One walk up both sorted samples: the largest difference of their distribution functions, the
/// chance that one of the second lies above one of the first (ties half), and what ties take
/// from the variance of that.
fn walk(first: &[f64], second: &[f64]) -> (f64, f64, f64) {
    let (n, m) = (first.len() as f64, second.len() as f64);
    let (mut i, mut j) = (0, 0);
    let (mut distance, mut above, mut ties) = (0.0_f64, 0.0, 0.0);
    while i < first.len() || j < second.len() {
        let at = first.get(i).copied().unwrap_or(f64::INFINITY);
        let at = at.min(second.get(j).copied().unwrap_or(f64::INFINITY));
        let (below, from) = (i, j);
        i += first[i..].iter().take_while(|x| **x == at).count();
        j += second[j..].iter().take_while(|x| **x == at).count();
        if (i, j) == (below, from) {
            break; // not a number
        }
        let (here, there) = ((i - below) as f64, (j - from) as f64);
        above += there / m * (below as f64 + 0.5 * here) / n;
        ties += ((here + there) / (n + m)).powi(3);
        distance = distance.max((i as f64 / n - j as f64 / m).abs());
    }
    (distance, above, ties)
}

/// How many samples of a series say as much as one independent one: the variance of the means of
/// blocks over what it would be if samples were independent, for "above the median".
fn dependence(samples: &[f64]) -> f64 {
    let length = (samples.len() as f64).sqrt() as usize;
    if length < 4 {
        return 1.0;
    }
    let median = sorted(samples)[samples.len() / 2];
    let share = |s: &[f64]| {
        s.iter().map(|&x| if x > median { 1.0 } else { 0.0 }).sum::<f64>() / s.len() as f64
    };
    let all = share(samples);
    let blocks: Vec<f64> = samples.chunks_exact(length).map(share).collect();
    let mean = blocks.iter().sum::<f64>() / blocks.len() as f64;
    let spread = blocks.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / (blocks.len() - 1) as f64;
    if all <= 0.0 || all >= 1.0 {
        1.0
    } else {
        (spread * length as f64 / (all * (1.0 - all))).max(1.0)
    }
}

/// P(K >= k) of Kolmogorov's distribution.
fn kolmogorov_above(k: f64) -> f64 {
    if k < 0.3 {
        return 1.0;
    }
    let term = |i: i32| {
        let sign = if i % 2 == 0 { -2.0 } else { 2.0 };
        sign * (-2.0 * f64::from(i * i) * k * k).exp()
    };
    (1..=12).map(term).sum::<f64>().clamp(0.0, 1.0)
}

/// The k with P(K >= k) = p.
fn kolmogorov_point_above(p: f64) -> f64 {
    super::tails::bisect(0.3, 30.0, |k| kolmogorov_above(k) > p)
}

#[cfg(test)]
mod tests {
    use fogbank_env::{Purpose, Randomness};
    use rand_core::Rng;

    use super::*;

    #[test]
    fn kolmogorovs_distribution_has_its_known_points() {
        assert!((kolmogorov_above(1.3580986) - 0.05).abs() < 1e-6);
        assert!((kolmogorov_above(4.0) / 2.5328339e-14 - 1.0).abs() < 1e-6);
        assert!((kolmogorov_point_above(0.01) - 1.6276236).abs() < 1e-6);
    }

    #[test]
    fn two_samples_are_walked_with_their_ties() {
        let (distance, above, _) = walk(&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0]);
        assert!((distance - 1.0 / 3.0).abs() < 1e-12);
        assert!((above - 7.0 / 9.0).abs() < 1e-12);
    }

    /// Of 4000 messages of each kind those whose point is missed, half by half, of 1000.
    fn run(missed: [u64; 2], commits: u64) -> Finding {
        let mut random = Randomness::repeatable(2).stream(Purpose::Workload);
        let mut departures = Departures::new(1, true);
        for number in 0..4000 {
            let each = missed[usize::from(number >= 2000)];
            for kind in (0..5).filter(|kind| *kind < 2 || number < commits) {
                let late = u64::from(random.next_u32() >> 16);
                let misses = u64::from(u64::from(random.next_u32()) % 1000 < each);
                departures.departed(late, 0, misses, kind);
            }
        }
        let levels = Levels { smallest_timing_leak: 0.2, ..Levels::default() };
        departures.halves("a run", &levels)
    }

    #[test]
    fn missed_points_are_told_and_judged() {
        assert_eq!(run([0, 0], 4000).verdict, Verdict::Passed);
        assert!(run([5, 5], 4000).words.contains("% of messages missed"));
        let busy = run([50, 50], 4000);
        assert_eq!(busy.verdict, Verdict::TooFew);
        assert!(busy.words.contains("too busy"));
        assert_eq!(run([5, 100], 4000).verdict, Verdict::Failed);
    }

    /// Clients go on by their answers while deletions wait for their point. The rest of an epoch
    /// does not show it.
    #[test]
    fn each_kind_is_held_against_its_own() {
        let run = |late_kind: Option<u32>| {
            let mut random = Randomness::repeatable(3).stream(Purpose::Workload);
            let mut departures = Departures::new(1, true);
            for number in 0..20_000 {
                let kind = number % 5;
                let held_up =
                    u64::from(late_kind == Some(kind)) * 300_000 * (u64::from(number) / 5 % 2);
                departures.departed(u64::from(random.next_u32() >> 16) + held_up, 0, 0, kind);
            }
            departures
        };
        let idle = run(None);
        let levels = Levels { smallest_timing_leak: 0.2, ..Levels::default() };
        let verdict = |late| run(late).between(&idle, "two runs", &levels).verdict;
        assert_eq!(verdict(None), Verdict::Passed);
        for kind in 0..5 {
            assert_eq!(verdict(Some(kind)), Verdict::Failed, "{}", KINDS[kind as usize]);
        }
    }

    /// Half of a short run is as long as one burst of other work on the machine.
    #[test]
    fn halves_of_a_short_run_do_not_fail_it() {
        let levels = Levels { smallest_timing_leak: 0.2, ..Levels::default() };
        let of = |messages: u64| {
            let mut departures = Departures::new(1, true);
            for number in 0..messages {
                let misses = u64::from(number >= messages / 2 && number % 5 > 0);
                departures.departed(number * 7 % 101, 0, misses, 0);
            }
            departures.halves("a run", &levels)
        };
        let short = of(64);
        assert_eq!(short.verdict, Verdict::TooFew, "{short:?}");
        assert!(short.words.contains("missed their point differs"), "{short:?}");
        assert!(short.words.contains("record for longer"), "{short:?}");
        assert_eq!(of(4000).verdict, Verdict::Failed, "the canary");
    }

    #[test]
    fn the_rarest_kind_says_what_would_have_been_seen() {
        assert_eq!(run([0, 0], 0).verdict, Verdict::Passed, "a kind that does not occur");
        assert_eq!(run([0, 0], 30).verdict, Verdict::TooFew);
        assert_eq!(run([0, 0], 200).verdict, Verdict::TooFew);
    }

    #[test]
    fn what_stays_for_a_while_counts_less() {
        let mut random = Randomness::repeatable(1).stream(Purpose::Workload);
        let fast: Vec<_> = (0..10_000).map(|_| f64::from(random.next_u32())).collect();
        let held: Vec<_> = (0..10_000).map(|i| fast[i / 20]).collect();
        assert!(dependence(&fast) < 2.0);
        assert!(dependence(&held) > 10.0);
    }

    #[test]
    fn without_points_to_leave_at_no_timing_check_passes_or_fails() {
        let mut departures = Departures::new(1, false);
        (0..4000).for_each(|number| departures.departed(number * number, 0, 0, 0));
        let levels = Levels { smallest_timing_leak: 1.0, ..Levels::default() };
        let other = departures.clone();
        for finding in [
            departures.halves("a run", &levels),
            departures.gaps("a run", &levels),
            departures.between(&other, "two runs", &levels),
        ] {
            assert_eq!(finding.verdict, Verdict::TooFew, "{finding:?}");
            assert!(finding.words.contains("does not apply"), "{finding:?}");
        }
        // The canary: with points, these halves differ, and the words say what else it may be.
        let timed = Departures { timed: true, ..departures }.halves("a run", &levels);
        assert_eq!(timed.verdict, Verdict::Failed);
        assert!(timed.words.contains("repeat on a quiet machine"), "{timed:?}");
    }
}
