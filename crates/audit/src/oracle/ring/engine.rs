//! What the auditor has to know of `ring`, by its public configuration.

use fogbank_env::Nanos;
use fogbank_store::trace::{PublicConfig, TraceClock, VaultConfig};

use super::{Ring, RingConfig};
use crate::distinguish::Grid;
use crate::engine::Engine;
use crate::oracle::{Machine, Refused};
use crate::report::Tree;
use crate::report::config::{blocks, pieces, vault_line};
use crate::report::words::{bytes, count, duration};
use crate::statistics::{Batches, Free};

/// As it stands in the head of a trace.
pub const NAME: &str = "ring";

impl Engine for RingConfig {
    fn machine(&self, clock: TraceClock) -> Result<Box<dyn Machine + Send>, Refused> {
        Ok(Box::new(Ring::new(clock, self)?))
    }

    fn free(&self) -> Free {
        let batches = Batches {
            reals: self.reals,
            dummies: self.dummies,
            read_batches: self.read_batches,
            is_timed: self.interval_ns > 0 && self.quantum_ns > 0,
        };
        Free {
            leaf_level: self.leaf_level,
            vault: self.vault.clone(),
            parts: (0, 1),
            batches: Some(batches),
            cells: Some((self.leaf_level.min(31), self.reals.saturating_add(self.dummies))),
        }
    }

    fn grid(&self) -> Grid {
        Grid { interval: self.interval_ns, quantum: self.quantum_ns }
    }

    fn tree(&self) -> Option<Tree> {
        Some(Tree {
            leaf_level: self.leaf_level,
            cached_levels: self.cached_levels,
            array: self.array,
            beat: self.interval_ns.saturating_mul(u64::from(self.read_batches) + 1),
        })
    }

    fn lines(&self, config: &PublicConfig) -> Vec<(&'static str, String)> {
        let (levels, cell) = (u32::from(self.leaf_level) + 1, bytes(self.cell_bytes.into()));
        let tree = format!("{}, tree of {levels} levels, cells of {cell}", blocks(config));
        let mut lines = vec![
            ("engine", tree),
            ("buckets", format!("Z {}, S {}, A {}", self.reals, self.dummies, self.evict_every)),
            ("epochs", epochs(self)),
            ("beat", beat(self)),
            ("options", options(self)),
        ];
        lines.extend(vault(self.vault.as_ref()));
        lines
    }

    fn caveat(&self) -> Option<&'static str> {
        match (self.interval_ns, self.quantum_ns) {
            (0, _) => Some(BACK_TO_BACK),
            (_, 0) => Some(NO_QUANTUM),
            _ => None,
        }
    }
}

const BACK_TO_BACK: &str = "back to back (interval 0): times of departures follow the work, which \
                            depends on what clients do; timing checks do not apply";
const NO_QUANTUM: &str = "departures at once (quantum 0): between the points of the epochs, times \
                          of departures follow the work, which depends on what clients do; timing \
                          checks do not apply";

fn epochs(ring: &RingConfig) -> String {
    let (batches, reads, writes) = (ring.read_batches, ring.read_batch, ring.write_batch);
    format!("R {batches} read batches of b {reads}, one write batch of b_w {writes}")
}

fn beat(ring: &RingConfig) -> String {
    let time = |nanos: Nanos| if nanos == 0 { "0".into() } else { duration(nanos) };
    let (interval, slack) = (time(ring.interval_ns), time(ring.slack_ns));
    format!("interval {interval}, slack {slack}, quantum {}", time(ring.quantum_ns))
}

fn options(ring: &RingConfig) -> String {
    let on = |on: bool| if on { "on" } else { "off" };
    format!(
        "XOR {}, prefetch {}, {} levels in the proxy, epoch buffer {}, superseded versions {}, \
         windows of {} cells and {}, {} of them and {} read batches under way",
        on(ring.xor),
        on(ring.prefetch),
        ring.cached_levels,
        on(ring.epoch_buffer),
        if ring.keep_superseded { "kept until the commit" } else { "deleted with their epoch" },
        count(ring.window_cells.into()),
        images(ring),
        count(ring.windows.into()),
        count(ring.in_flight.into()),
    )
}

fn images(ring: &RingConfig) -> String {
    let most = count(ring.window_chunks.into());
    match ring.image_points {
        0 => format!("{most} buckets"),
        points => format!("{most} buckets (at point {} of an epoch's end)", count(points.into())),
    }
}

fn vault(vault: Option<&VaultConfig>) -> [(&'static str, String); 2] {
    let Some(vault) = vault else {
        return [("vault", "none, a bare engine".into()), ("journal", "none".into())];
    };
    let journal = &vault.journal;
    let (each, last) = (journal.delta_piece_bytes, journal.delta_last_piece_bytes);
    let journal = format!(
        "records of {}, deltas of {}, a full checkpoint every {} epochs",
        bytes(journal.record_bytes),
        pieces(journal.delta_pieces, each, last),
        count(journal.full_every),
    );
    [("vault", vault_line(vault)), ("journal", journal)]
}
