//! No ciphertext is written twice, and blobs of one kind have one size.
//!
//! Exact up to [`KEPT_MAX`] cells: every 64-bit fingerprint is kept and every repeat counted. Of
//! more cells than that only those are kept whose fingerprints begin with so many zeros (of bits
//! that are used for nothing else), one more each time the room is full. They are put down as they
//! come and sorted when the room is full, in shards that fit a cache: every cell would miss it in
//! one table.
//!
//! Both copies of a ciphertext share their fingerprint, so they are kept or left out together: at
//! 10^8 cells each repeat is still seen with probability 1/8, and an image that is written again
//! repeats dozens of cells at once. That holds memory at 150 MB without a second pass over the
//! trace, which a filter with suspects would need.
//!
//! Of n differing ciphertexts `n^2 / 2^65` pairs share a fingerprint by chance. Repeats are a
//! Poisson count against that, at a level of their own ([`Levels::fail_fingerprints`]).

use std::collections::BTreeMap;

use fogbank_store::trace::VaultConfig;
use hashbrown::HashTable;

use super::levels::{Head, Levels, Tests, poisson_reach};
use super::tails::poisson_at_least;
use crate::{Finding, Verdict};

/// Fingerprints kept. A list doubles at powers of two, here 65,536: forty deviations above what
/// falls to each.
const KEPT_MAX: usize = SHARDS * 55_000;

/// Lists grow one by one, so that no moment holds all of them twice.
const SHARDS: usize = 256;

/// Kinds of blobs told apart.
const KINDS_MAX: usize = 1024;

/// All ciphertexts that were written.
#[derive(Debug)]
pub(super) struct Ciphertexts {
    /// By their top bits: sorted and distinct when last settled, and after those as they came.
    shards: Vec<Vec<u64>>,
    kept_max: usize,
    kept: usize,
    /// Fingerprints with any of these bits set are left out.
    left_out: u64,
    blobs: HashTable<u64>,
    written: u64,
    repeats: u64,
}

impl Ciphertexts {
    pub(super) fn new() -> Self {
        Self::keeping(KEPT_MAX)
    }

    fn keeping(kept_max: usize) -> Self {
        Self {
            shards: vec![Vec::new(); SHARDS],
            kept_max,
            kept: 0,
            left_out: 0,
            blobs: HashTable::new(),
            written: 0,
            repeats: 0,
        }
    }

    pub(super) fn image(&mut self, fingerprints: &[u64]) {
        self.written += fingerprints.len() as u64;
        fingerprints.iter().for_each(|&fingerprint| self.cell(fingerprint));
    }

    pub(super) fn blob(&mut self, fingerprint: u64) {
        self.written += 1;
        self.repeats += u64::from(!insert(&mut self.blobs, fingerprint));
    }

    #[inline]
    fn cell(&mut self, fingerprint: u64) {
        if fingerprint & self.left_out != 0 {
            return;
        }
        self.shards[(fingerprint >> 48) as usize & (SHARDS - 1)].push(fingerprint);
        self.kept += 1;
        if self.kept > self.kept_max {
            self.settle();
            if self.kept > self.kept_max / 4 * 3 {
                self.thin();
            }
        }
    }

    /// Counts what was repeated since the last time; has to be done before a finding.
    pub(super) fn settle(&mut self) {
        for shard in &mut self.shards {
            let before = shard.len();
            shard.sort_unstable();
            shard.dedup();
            self.repeats += (before - shard.len()) as u64;
        }
        self.kept = self.shards.iter().map(Vec::len).sum();
    }

    fn thin(&mut self) {
        self.left_out = (self.left_out << 1) | (1 << 32);
        let left_out = self.left_out;
        self.shards.iter_mut().for_each(|shard| shard.retain(|kept| *kept & left_out == 0));
        self.kept = self.shards.iter().map(Vec::len).sum();
    }

    /// Smallest leak: the share of cells that are copies. With all fingerprints kept, the critical
    /// count itself; else as many as show it among those kept.
    pub(super) fn finding(&self, subject: &str, levels: &Levels) -> Finding {
        let n = self.written as f64;
        let by_chance = n * n / 2.0_f64.powi(65);
        let mut tests = Tests::default();
        let repeats = self.repeats;
        if self.written > 0 {
            tests.add(poisson_at_least(repeats, by_chance), || {
                format!("{repeats} ciphertexts seen before, {by_chance:.1e} expected by chance")
            });
        }
        let looser = levels.fail_fingerprints / levels.fail;
        let level = levels.each(1) * looser;
        let critical = (1..).find(|&k| poisson_at_least(k, by_chance) < level).unwrap_or(1);
        let kept = 0.5_f64.powi(self.left_out.count_ones() as i32);
        let copies = if self.left_out == 0 {
            critical as f64
        } else {
            poisson_reach(by_chance, 2.0 * level, levels.power) / kept
        };
        let head = Head::new("ciphertexts-fresh", subject, self.written).leak(copies / n.max(1.0));
        tests.finding(Head { looser, ..head }, levels)
    }
}

/// Whether it was new.
fn insert(table: &mut HashTable<u64>, fingerprint: u64) -> bool {
    use hashbrown::hash_table::Entry;
    match table.entry(fingerprint, |&kept| kept == fingerprint, |&kept| kept) {
        Entry::Occupied(_) => false,
        Entry::Vacant(room) => {
            room.insert(fingerprint);
            true
        }
    }
}

/// The sizes of blobs, by kind.
#[derive(Debug)]
pub(super) struct Sizes {
    vault: Option<VaultConfig>,
    /// What every further part adds to a journal record, and how many parts one has at most.
    parts: (u64, u32),
    first: BTreeMap<String, u64>,
    blobs: u64,
    odd: u64,
    words: Option<String>,
}

impl Sizes {
    pub(super) fn new(vault: Option<VaultConfig>, parts: (u64, u32)) -> Self {
        Self { vault, parts, first: BTreeMap::new(), blobs: 0, odd: 0, words: None }
    }

    pub(super) fn blob(&mut self, kind: &str, bytes: u64) {
        self.blobs += 1;
        if self.is_public(kind, bytes) || self.is_as_before(kind, bytes) {
            return;
        }
        self.odd += 1;
        self.words.get_or_insert_with(|| format!("a blob of kind {kind} has {bytes} bytes"));
    }

    fn is_public(&self, kind: &str, bytes: u64) -> bool {
        let Some(vault) = &self.vault else { return false };
        match kind {
            "commit" => match bytes.checked_sub(vault.commit_bytes) {
                Some(more) => more.checked_rem(vault.commit_bytes_an_opening).unwrap_or(more) == 0,
                None => false,
            },
            "checkpoint" => bytes == vault.piece_bytes || bytes == vault.last_piece_bytes,
            "journal" => {
                let (part, most) = self.parts;
                let further = bytes.checked_sub(vault.journal.record_bytes);
                further.is_some_and(|more| {
                    let parts = more.checked_div(part).unwrap_or(0);
                    parts < u64::from(most) && parts * part == more
                })
            }
            "delta" => {
                let journal = &vault.journal;
                bytes == journal.delta_piece_bytes || bytes == journal.delta_last_piece_bytes
            }
            _ => false,
        }
    }

    fn has_public_sizes(&self, kind: &str) -> bool {
        self.vault.is_some() && ["commit", "checkpoint", "journal", "delta"].contains(&kind)
    }

    fn is_as_before(&mut self, kind: &str, bytes: u64) -> bool {
        if self.has_public_sizes(kind) {
            return false;
        }
        match self.first.get(kind) {
            Some(&first) => first == bytes,
            None if self.first.len() == KINDS_MAX => false,
            None => {
                self.first.insert(kind.into(), bytes);
                true
            }
        }
    }

    /// Exact. A bare engine writes no blobs, and passes without any; a store that is opened has at
    /// least its commit record.
    pub(super) fn finding(&self, subject: &str) -> Finding {
        let verdict = match (self.odd, self.blobs, &self.vault) {
            (1.., ..) => Verdict::Failed,
            (0, 0, Some(_)) => Verdict::TooFew,
            _ => Verdict::Passed,
        };
        let as_public = || format!("{} blobs, each of its kind's public size", self.blobs);
        Finding {
            check: "one-size-per-kind".into(),
            subject: subject.into(),
            verdict,
            figure: self.odd as f64,
            threshold: 0.0,
            samples: self.blobs,
            smallest_leak: None,
            words: self.words.clone().unwrap_or_else(as_public),
        }
    }
}

#[cfg(test)]
mod tests {
    use fogbank_env::{Purpose, Randomness};
    use rand_core::Rng;

    use super::*;

    /// Thinned to an eighth, 200 copies among 100,000 cells still show.
    #[test]
    fn copies_are_seen_when_not_all_can_be_kept() {
        let mut random = Randomness::repeatable(3).stream(Purpose::Workload);
        let mut seen = Ciphertexts::keeping(20_000);
        let cells: Vec<u64> = (0..100_000).map(|_| random.next_u64()).collect();
        seen.image(&cells);
        seen.settle();
        assert_eq!(seen.finding("honest", &Levels::default()).verdict, Verdict::Passed);
        assert!(seen.kept <= 20_000 && seen.left_out.count_ones() == 3);
        let smallest = seen.finding("honest", &Levels::default()).smallest_leak.unwrap();
        let copies = (smallest * 100_000.0) as usize;
        assert!((10..40).contains(&copies), "{copies}");
        seen.image(&cells[5_000..][..copies * 3 / 2]);
        seen.settle();
        assert_eq!(seen.finding("copies", &Levels::default()).verdict, Verdict::Failed);
    }
}
