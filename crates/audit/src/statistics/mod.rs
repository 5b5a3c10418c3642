//! Tests of what the oracle leaves free.
//!
//! The oracle predicts every record of a trace but for a few values that must look like fair dice:
//! which leaf a read goes to, which unread cells are taken, what ciphertexts look like, and under a
//! real clock how late messages leave. One pass counts them; memory does not grow with the trace,
//! and a cell costs a few array increments. When the trace has ended each check says how far its
//! worst figure lies from what dice would give, how many samples that is, and the smallest leak
//! that so many would have shown. A leak beyond the level fails; too little data to have shown one
//! of the size asked for is [`Verdict::TooFew`](crate::Verdict::TooFew), never a pass.
//!
//! In the formulas of the checks z is the normal point of the level that each test of a finding is
//! left with (half of it, on two sides), and z' that of the power, 1.28 for 0.9.

mod ciphertexts;
mod counts;
mod departures;
mod leaves;
mod levels;
mod repeats;
mod retired;
mod runs;
mod slots;
mod stretch;
mod tails;
mod versions;

pub use levels::Levels;
pub use runs::{RunDigest, runs_independent};

use fogbank_store::trace::{PublicConfig, TraceClock, VaultConfig};

use self::ciphertexts::{Ciphertexts, Sizes};
use self::departures::Departures;
use self::leaves::Leaves;
use self::repeats::Repeats;
use self::retired::Retired;
use self::slots::Ranks;
use self::stretch::Stretch;
use self::versions::Versions;
use crate::{Finding, Observation, Observer, engine};

/// Ranks are counted in buckets of up to so many cells.
const CELLS_MAX: u16 = 4096;

/// What a run leaves free: leaves and what is written, at the least.
#[derive(Debug)]
pub(crate) struct Free {
    pub leaf_level: u8,
    /// Sizes of what is written; a bare engine has no vault.
    pub vault: Option<VaultConfig>,
    /// What every further part of a journal record adds to its bytes, and how many there are at
    /// most.
    pub parts: (u64, u32),
    pub batches: Option<Batches>,
    /// The last level of which single cells are read, and the cells of the largest, if any are.
    pub cells: Option<(u8, u16)>,
}

/// What is free besides with an engine of batches: slots of its buckets, and times on the grid of
/// its epochs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batches {
    pub reals: u16,
    pub dummies: u16,
    pub read_batches: u32,
    /// Whether messages have points to leave at.
    pub is_timed: bool,
}

/// All checks of one trace.
#[derive(Debug)]
pub struct Battery {
    subject: String,
    /// What only an engine of batches has: slots of its buckets, and the grid of its epochs.
    batched: bool,
    /// Whether single cells are read: then ranks are free.
    has_cells: bool,
    /// Bits of a leaf that count.
    mask: u32,
    stretch: Stretch,
    leaves: Leaves,
    repeats: Repeats,
    ranks: Ranks,
    retired: Retired,
    versions: Versions,
    ciphertexts: Ciphertexts,
    sizes: Sizes,
    /// Under a real clock.
    departures: Option<Departures>,
    digest: RunDigest,
}

impl Battery {
    /// Findings of one trace under a real clock at most; two fewer in virtual time.
    pub const FINDINGS: u32 = 12;

    /// The checks of a run of this configuration; findings will name it `subject`.
    ///
    /// # Errors
    /// What of the configuration is not known, in words.
    pub fn new(config: &PublicConfig, subject: &str) -> Result<Self, String> {
        let (_, engine) = engine::of(config)?;
        let Free { leaf_level, vault, parts, batches, cells: free } = engine.free();
        let levels = leaf_level.min(31);
        let real = config.clock == TraceClock::Real;
        let (reals, dummies) = batches.map_or((0, 0), |batches| (batches.reals, batches.dummies));
        let cells = cells(reals, dummies);
        let (last, most) = free.unwrap_or((0, 0));
        let buckets = batches.map_or(0, |_| (2_u64 << levels) - 1);
        Ok(Self {
            subject: subject.into(),
            batched: batches.is_some(),
            has_cells: free.is_some(),
            mask: ((1_u64 << levels) - 1) as u32,
            stretch: Stretch::default(),
            leaves: Leaves::new(levels),
            repeats: Repeats::new(levels),
            ranks: Ranks::new(last, if most <= CELLS_MAX { most } else { 0 }),
            retired: Retired::new(levels, cells, reals),
            versions: Versions::new(buckets, cells, dummies.min(cells)),
            ciphertexts: Ciphertexts::new(),
            sizes: Sizes::new(vault, parts),
            departures: batches
                .filter(|_| real)
                .map(|batches| Departures::new(batches.read_batches, batches.is_timed)),
            digest: RunDigest::new(subject, levels),
        })
    }

    /// What the checks of this trace come to, and what is kept of it to compare it with other runs.
    pub fn finish(mut self, levels: &Levels) -> (Vec<Finding>, RunDigest) {
        self.settle();
        self.repeats.close();
        self.ciphertexts.settle();
        let subject = &*self.subject;
        let mut findings = vec![
            self.leaves.uniform(subject, levels),
            self.leaves.lagged(subject, levels),
            self.repeats.within(subject, levels),
            self.repeats.across(subject, levels),
            self.ciphertexts.finding(subject, levels),
            self.sizes.finding(subject),
        ];
        if self.batched {
            findings.push(self.leaves.against_last_evicted(subject, levels));
        }
        if self.has_cells {
            findings.push(self.ranks.finding(subject, levels));
        }
        if self.batched {
            findings.extend([
                self.retired.finding(subject, levels),
                self.versions.finding(subject, levels),
            ]);
        }
        if let Some(departures) = &self.departures {
            findings.push(departures.halves(subject, levels));
            findings.push(departures.gaps(subject, levels));
        }
        self.digest.departures = self.departures;
        (findings, self.digest.finished())
    }

    fn read(&mut self, batch: u64, leaf: u32) {
        self.leaves.read(leaf);
        self.repeats.read(batch, leaf);
    }

    /// Gives the paths of the stretch that is over their order.
    fn settle(&mut self) {
        let Self { stretch, leaves, digest, .. } = self;
        stretch.settle(|access, leaf| {
            leaves.next(leaf);
            digest.read(access, leaf);
        });
    }
}

impl Observer for Battery {
    fn observe(&mut self, observation: &Observation<'_>) {
        match *observation {
            Observation::PathCell { chunk, level, version, nth, cell, unread, rank } => {
                self.ranks.chosen(level, unread, rank);
                self.versions.chosen(chunk, version, nth, cell);
                self.digest.chosen(chunk, version, nth, unread, rank);
            }
            Observation::Path { batch, access, leaf, shown, stretch, .. } => {
                let leaf = leaf & self.mask;
                if !self.stretch.holds(stretch) {
                    self.settle();
                }
                self.stretch.path(stretch, access, leaf, shown);
                self.read(batch, leaf);
            }
            Observation::Retired { level, unread, ranks, .. } => {
                self.retired.read(level, unread, ranks);
            }
            Observation::Evicted { leaf, .. } => self.leaves.evicted(leaf & self.mask),
            Observation::Image { fingerprints, .. } => {
                self.ciphertexts.image(fingerprints);
                self.digest.image(fingerprints);
            }
            Observation::Blob { kind, bytes, fingerprint } => {
                self.ciphertexts.blob(fingerprint);
                self.sizes.blob(kind, bytes);
            }
            Observation::Departed { at, cause, missed, batch, .. } => {
                if let Some(departures) = &mut self.departures {
                    departures.departed(at, cause, missed, batch);
                }
            }
        }
    }
}

/// Cells of a bucket; none if there are more than a table of ranks can be kept of, and then the
/// checks of slots find too few.
fn cells(reals: u16, dummies: u16) -> u16 {
    let cells = reals.saturating_add(dummies);
    if cells <= CELLS_MAX { cells } else { 0 }
}
