//! Tests of what the oracle leaves free.
//!
//! The oracle predicts every record of a trace but for a few values that must look like fair dice:
//! which leaf a read goes to, which unread cells are taken, what ciphertexts look like, and under a
//! real clock how late messages leave. One pass counts them; memory does not grow with the trace,
//! and a cell costs a few array increments. When the trace has ended each check says how far its
//! worst figure lies from what dice would give, how many samples that is, and the smallest leak that
//! so many would have shown. A leak beyond the level fails; too little data to have shown one of
//! the size asked for is [`Verdict::TooFew`](crate::Verdict::TooFew), never a pass.
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

use fogbank_store::trace::{EngineConfig, PublicConfig, RingConfig, TaoConfig, TraceClock};

use self::ciphertexts::{Ciphertexts, Sizes};
use self::departures::Departures;
use self::leaves::Leaves;
use self::repeats::Repeats;
use self::retired::Retired;
use self::slots::Ranks;
use self::stretch::Stretch;
use self::versions::Versions;
use crate::{Finding, Observation, Observer};

/// Ranks are counted in buckets of up to so many cells.
const CELLS_MAX: u16 = 4096;

/// All checks of one trace.
#[derive(Debug)]
pub struct Battery {
    subject: String,
    /// What only an engine of batches has: slots of its buckets, and the grid of its epochs.
    batched: bool,
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
    pub fn new(config: &PublicConfig, subject: &str) -> Self {
        match &config.engine {
            EngineConfig::Ring(ring) => Self::of_batches(config, ring, subject),
            EngineConfig::Tao(tao) => Self::of_accesses(tao, subject),
        }
    }

    /// Leaves and what is written are all that is free.
    fn of_accesses(tao: &TaoConfig, subject: &str) -> Self {
        let levels = tao.leaf_level.min(31);
        Self {
            subject: subject.into(),
            batched: false,
            mask: ((1_u64 << levels) - 1) as u32,
            stretch: Stretch::default(),
            leaves: Leaves::new(levels),
            repeats: Repeats::new(levels),
            ranks: Ranks::new(levels, 0),
            retired: Retired::new(levels, 0, 0),
            versions: Versions::new(0, 0, 0),
            ciphertexts: Ciphertexts::new(),
            sizes: Sizes::new(Some(tao.vault.clone()), (tao.part_bytes, tao.parts_max)),
            departures: None,
            digest: RunDigest::new(subject, levels),
        }
    }

    fn of_batches(config: &PublicConfig, ring: &RingConfig, subject: &str) -> Self {
        let levels = ring.leaf_level.min(31);
        let real = config.clock == TraceClock::Real;
        let cells = cells(ring);
        Self {
            subject: subject.into(),
            batched: true,
            mask: ((1_u64 << levels) - 1) as u32,
            stretch: Stretch::default(),
            leaves: Leaves::new(levels),
            repeats: Repeats::new(levels),
            ranks: Ranks::new(levels, cells),
            retired: Retired::new(levels, cells, ring.reals),
            versions: Versions::new(buckets(ring), cells, ring.dummies.min(cells)),
            ciphertexts: Ciphertexts::new(),
            sizes: Sizes::new(ring.vault.clone(), (0, 1)),
            departures: real.then(|| Departures::new(ring.read_batches, is_timed(ring))),
            digest: RunDigest::new(subject, levels),
        }
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
            findings.extend([
                self.leaves.against_last_evicted(subject, levels),
                self.ranks.finding(subject, levels),
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
fn cells(ring: &RingConfig) -> u16 {
    let cells = ring.reals.saturating_add(ring.dummies);
    if cells <= CELLS_MAX { cells } else { 0 }
}

/// Whether messages have points to leave at.
fn is_timed(ring: &RingConfig) -> bool {
    ring.interval_ns > 0 && ring.quantum_ns > 0
}

fn buckets(ring: &RingConfig) -> u64 {
    (2 << ring.leaf_level.min(31)) - 1
}
