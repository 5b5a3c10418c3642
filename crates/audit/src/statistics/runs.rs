//! Several runs of one configuration have nothing to do with one another.
//!
//! Randomness that can be seeded alike (the time of the start, a constant) gives two runs the same
//! leaves at the same places in their sequences, the same cells of the same bucket versions, or the
//! very same ciphertexts. Each run leaves a digest of bounded size; samples are chosen by what is
//! sampled, so that two runs choose alike.

use super::departures::{Apart, Departures, FAILURE};
use super::levels::{Head, Levels, Tests, poisson_reach};
use super::tails::{poisson_at_least, poisson_both};
use crate::{Finding, Verdict};

/// Accesses whose leaf is kept.
const ACCESSES_MAX: usize = 1 << 20;

/// Samples kept of cells and of ciphertexts.
const SAMPLES_MAX: usize = 1 << 18;

/// No leaf: a write slot.
const NONE: u32 = u32::MAX;

/// What is kept of one run to compare it with others.
#[derive(Debug, Clone)]
pub struct RunDigest {
    subject: String,
    /// Which history it lived through; runs of one label are compared as a control.
    label: String,
    levels: u8,
    leaves: Vec<u32>,
    slots: Sample<(u16, u16)>,
    ciphertexts: Sample<()>,
    written: u64,
    pub(super) departures: Option<Departures>,
}

impl RunDigest {
    pub(super) fn new(subject: &str, levels: u8) -> Self {
        Self {
            subject: subject.into(),
            label: subject.into(),
            levels,
            leaves: Vec::new(),
            slots: Sample::default(),
            ciphertexts: Sample::default(),
            written: 0,
            departures: None,
        }
    }

    /// The digest of a run that lived through this history; without it, through one of its own.
    pub fn labelled(self, label: &str) -> Self {
        Self { label: label.into(), ..self }
    }

    pub(super) fn read(&mut self, access: u64, leaf: u32) {
        if let Ok(access) = usize::try_from(access)
            && (self.leaves.len()..ACCESSES_MAX).contains(&access)
        {
            self.leaves.resize(access, NONE);
            self.leaves.push(leaf);
        }
    }

    #[inline]
    pub(super) fn chosen(&mut self, chunk: u32, version: u64, nth: u16, unread: u16, rank: u16) {
        let place = (u64::from(chunk) << 16) | u64::from(nth);
        let key = mixed(version ^ mixed(place));
        if self.slots.takes(key) {
            self.slots.push(key, (unread, rank));
        }
    }

    pub(super) fn image(&mut self, fingerprints: &[u64]) {
        self.written += fingerprints.len() as u64;
        for &fingerprint in fingerprints {
            if self.ciphertexts.takes(fingerprint) {
                self.ciphertexts.push(fingerprint, ());
            }
        }
    }

    pub(super) fn finished(mut self) -> Self {
        self.slots.sort();
        self.ciphertexts.sort();
        self
    }
}

/// Spreads the bits of a key (the last steps of splitmix64).
pub(super) fn mixed(key: u64) -> u64 {
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

/// Values whose keys are below a bound, which sinks as they become many.
#[derive(Debug, Clone)]
struct Sample<T> {
    /// Keys with any of these bits are left out.
    left_out: u64,
    kept: Vec<(u64, T)>,
}

impl<T> Default for Sample<T> {
    fn default() -> Self {
        Self { left_out: 0, kept: Vec::new() }
    }
}

impl<T: Copy> Sample<T> {
    #[inline]
    fn takes(&self, key: u64) -> bool {
        key & self.left_out == 0
    }

    fn push(&mut self, key: u64, value: T) {
        if self.kept.len() == SAMPLES_MAX {
            self.left_out = (self.left_out << 1) | 1;
            let left_out = self.left_out;
            self.kept.retain(|(key, _)| key & left_out == 0);
            if !self.takes(key) {
                return;
            }
        }
        self.kept.push((key, value));
    }

    fn sort(&mut self) {
        self.kept.sort_unstable_by_key(|(key, _)| *key);
    }

    /// How many of this one's samples the other one would have kept as well.
    fn shared(&self, other: &Self) -> u64 {
        self.kept.iter().filter(|(key, _)| other.takes(*key)).count() as u64
    }

    /// Values of both under one key.
    fn joined<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (T, T)> + 'a {
        let mut rest = &other.kept[..];
        self.kept.iter().filter_map(move |(key, value)| {
            let skip = rest.iter().take_while(|(other, _)| other < key).count();
            rest = &rest[skip..];
            rest.first().filter(|(other, _)| other == key).map(|(_, other)| (*value, *other))
        })
    }
}

/// Compares every run with every other: `runs-independent-leaves`, `runs-independent-slots`,
/// `runs-independent-ciphertexts`, and under real clocks `departures-between-runs` for each pair
/// and `departures-between-labels` for every two labels that have several runs.
///
/// All runs have one configuration. Smallest leaks: the share of accesses that read the same leaf
/// in both runs of a pair; the share of cells chosen alike in the same version of the same bucket;
/// the share of a run's ciphertexts that are another's.
pub fn runs_independent(runs: &[RunDigest], levels: &Levels) -> Vec<Finding> {
    let names: Vec<_> = runs.iter().map(|run| run.subject.as_str()).collect();
    let subject = names.join(", ");
    let pairs: Vec<_> = (0..runs.len())
        .flat_map(|a| (0..a).map(move |b| (b, a)))
        .map(|(a, b)| (&runs[a], &runs[b]))
        .collect();
    let mut findings = vec![
        agreeing("runs-independent-leaves", &subject, &pairs, levels, same_leaves),
        agreeing("runs-independent-slots", &subject, &pairs, levels, same_slots),
        same_ciphertexts(&subject, &pairs, levels),
    ];
    findings.extend(departures_between(runs, &pairs, levels));
    findings.extend(missed_between(runs, &pairs, levels));
    findings
}

/// The lateness of messages in every two runs. A machine whose clock differs between runs of one
/// label tells nothing of labels; so a difference between labels is a leak only where runs of each
/// were compared and look alike.
fn departures_between(runs: &[RunDigest], pairs: &[RunPair<'_>], levels: &Levels) -> Vec<Finding> {
    let compare = |&(a, b): &RunPair<'_>| {
        let (first, second) = (a.departures.as_ref()?, b.departures.as_ref()?);
        let subject = format!("{} and {}", a.subject, b.subject);
        Some((a.label == b.label, first.between(second, &subject, levels)))
    };
    let mut found: Vec<_> = pairs.iter().filter_map(compare).collect();
    let controls = || found.iter().filter(|(control, _)| *control);
    let unlike = controls().any(|(_, finding)| finding.verdict == Verdict::Failed);
    let alike = controls().all(|(_, finding)| finding.verdict == Verdict::Passed);
    let twice = |run: &RunDigest| runs.iter().filter(|other| other.label == run.label).count() > 1;
    let why = match (unlike, runs.iter().all(twice)) {
        (true, _) => Some(CLOCK_DIFFERS),
        (false, false) => Some("differs, but there is no second run of a label to compare with"),
        (false, true) if !alike => Some("differs, but runs of one label say too little to compare"),
        (false, true) => None,
    };
    let failure = format!(": {FAILURE}");
    for (_, finding) in &mut found {
        if let Some(why) = why
            && (unlike || finding.verdict == Verdict::Failed)
        {
            finding.verdict = Verdict::TooFew;
            finding.words = format!("{}: {why}", finding.words.replacen(&failure, "", 1));
        }
    }
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Points that were missed, by whole quanta, in all runs of one label against those of another:
/// `departures-between-labels`. It does not count how late the machine is within a quantum, nor
/// that it misses points, as far as it does so in some runs of a label more than in others.
///
/// Smallest leak: the share of messages of a kind that miss their point under one label only.
fn missed_between(runs: &[RunDigest], pairs: &[RunPair<'_>], levels: &Levels) -> Vec<Finding> {
    let controls = pairs.iter().filter(|(a, b)| a.label == b.label);
    let controls: Vec<_> = controls.filter_map(|(a, b)| missed_apart(&[a], &[b])).collect();
    let mut labels: Vec<&str> = runs.iter().map(|run| run.label.as_str()).collect();
    labels.sort_unstable();
    labels.dedup();
    let of = |label: &str| runs.iter().filter(|run| run.label == label).collect::<Vec<_>>();
    labels.retain(|label| of(label).len() > 1);
    let (labels, numbers) = (&labels, 0..labels.len());
    let pairs = numbers.flat_map(|b| labels[..b].iter().map(move |a| (*a, labels[b])));
    let found = pairs.filter_map(|(first, second)| {
        let apart = missed_apart(&of(first), &of(second))?;
        Some(told_missed(&format!("{first} and {second}"), &apart, &controls, levels))
    });
    found.collect()
}

/// What runs differ by, one kind of message after the other; nothing without points to leave at.
type MissedApart = [Option<Apart>; Apart::KINDS];

fn missed_apart(first: &[&RunDigest], second: &[&RunDigest]) -> Option<MissedApart> {
    let [first, second] = [first, second].map(|runs| {
        let departures: Option<Vec<_>> = runs.iter().map(|run| run.departures.as_ref()).collect();
        departures
    });
    Departures::missed_apart(&first?, &second?)
}

fn told_missed(
    subject: &str,
    apart: &MissedApart,
    controls: &[MissedApart],
    levels: &Levels,
) -> Finding {
    let mut tests = Tests::default();
    let mut smallest = 0.0_f64;
    for (kind, apart) in apart.iter().enumerate() {
        let shares = controls.iter().filter_map(|control| control[kind]).map(|apart| apart.share);
        let allowed = shares.fold(Apart::ALLOWED_MIN, f64::max);
        let Some(apart) = apart else {
            smallest = 1.0;
            continue;
        };
        tests.add(apart.beyond(allowed), || apart.words(allowed));
        smallest = smallest.max(allowed + levels.reach(Apart::KINDS) * apart.deviation);
    }
    let head = Head::new(
        "departures-between-labels",
        subject,
        apart.iter().flatten().map(|a| a.samples).sum(),
    );
    let leak_max = Some(levels.smallest_timing_leak);
    tests.finding(Head { leak_max, failure: FAILURE, ..head.leak(smallest) }, levels)
}

const CLOCK_DIFFERS: &str = "this machine's clock differs between runs of one label, so it says \
                             nothing of labels; give the store a free core, make intervals longer \
                             and record the labels in turn";

type RunPair<'a> = (&'a RunDigest, &'a RunDigest);

/// What two runs have in common: how many comparisons, how many agreed, how many by chance.
#[derive(Debug, Default)]
struct Agreement {
    compared: u64,
    same: u64,
    expected: f64,
}

impl Agreement {
    fn compare(&mut self, same: bool, chance: f64) {
        self.compared += 1;
        self.same += u64::from(same);
        self.expected += chance;
    }
}

fn agreeing(
    check: &str,
    subject: &str,
    pairs: &[RunPair<'_>],
    levels: &Levels,
    agreement: fn(RunPair<'_>) -> Agreement,
) -> Finding {
    let (mut tests, mut samples) = (Tests::default(), 0);
    let level = levels.each(pairs.len());
    let mut smallest = 0.0_f64;
    for &(a, b) in pairs {
        let found = agreement((a, b));
        let p = poisson_both(found.same, found.expected);
        tests.add(p, || {
            let (same, expected) = (found.same, found.expected);
            format!("{} and {}: {same} agree, {expected:.1} expected", a.subject, b.subject)
        });
        samples += found.compared;
        let extra = poisson_reach(found.expected, level, levels.power);
        smallest = smallest.max(extra / (found.compared as f64).max(1.0));
    }
    let smallest = if pairs.is_empty() { 1.0 } else { smallest };
    tests.finding(Head::new(check, subject, samples).leak(smallest), levels)
}

fn same_leaves((a, b): RunPair<'_>) -> Agreement {
    let mut found = Agreement::default();
    let chance = 0.5_f64.powi(a.levels.into());
    for (&first, &second) in a.leaves.iter().zip(&b.leaves) {
        if first != NONE && second != NONE {
            found.compare(first == second, chance);
        }
    }
    found
}

fn same_slots((a, b): RunPair<'_>) -> Agreement {
    let mut found = Agreement::default();
    for ((unread, first), (other, second)) in a.slots.joined(&b.slots) {
        if unread == other && unread > 1 {
            found.compare(first == second, 1.0 / f64::from(unread));
        }
    }
    found
}

fn same_ciphertexts(subject: &str, pairs: &[RunPair<'_>], levels: &Levels) -> Finding {
    let (mut tests, mut samples, mut smallest) = (Tests::default(), 0, 0.0_f64);
    let looser = levels.fail_fingerprints / levels.fail;
    let level = levels.each(pairs.len()) * looser;
    for (a, b) in pairs {
        let compared = a.ciphertexts.shared(&b.ciphertexts);
        let same = a.ciphertexts.joined(&b.ciphertexts).count() as u64;
        let by_chance = a.written as f64 * b.written as f64 / 2.0_f64.powi(64);
        tests.add(poisson_at_least(same, by_chance), || {
            format!("{} and {}: {same} ciphertexts in common", a.subject, b.subject)
        });
        samples += compared;
        let extra = poisson_reach(by_chance, 2.0 * level, levels.power);
        smallest = smallest.max(extra / (compared as f64).max(1.0));
    }
    let smallest = if pairs.is_empty() { 1.0 } else { smallest };
    let head = Head::new("runs-independent-ciphertexts", subject, samples).leak(smallest);
    tests.finding(Head { looser, ..head }, levels)
}
