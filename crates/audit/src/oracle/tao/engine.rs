//! What the auditor has to know of `tao`, by its public configuration.

use fogbank_store::trace::{PaceConfig, PublicConfig, TraceClock};

use super::{Tao, TaoConfig};
use crate::distinguish::Grid;
use crate::engine::Engine;
use crate::oracle::{Machine, Refused};
use crate::report::Tree;
use crate::report::config::{AS_THEY_COME, blocks, points, rate_line, vault_line};
use crate::report::words::{bytes, count};
use crate::statistics::Free;

/// As it stands in the head of a trace.
pub const NAME: &str = "tao";

impl Engine for TaoConfig {
    fn machine(&self, clock: TraceClock) -> Result<Box<dyn Machine + Send>, Refused> {
        Ok(Box::new(Tao::machine(clock, self)?))
    }

    fn free(&self) -> Free {
        Free {
            leaf_level: self.leaf_level,
            vault: Some(self.vault.clone()),
            parts: (self.part_bytes, self.parts_max),
            batches: None,
            cells: None,
        }
    }

    fn grid(&self) -> Grid {
        Grid { interval: self.rate.map_or(0, |rate| rate.interval_ns), quantum: 0 }
    }

    fn tree(&self) -> Option<Tree> {
        Some(Tree {
            leaf_level: self.leaf_level,
            cached_levels: self.cached_levels,
            array: self.array,
            beat: self.rate.map_or(0, |rate| rate.interval_ns),
        })
    }

    fn lines(&self, config: &PublicConfig) -> Vec<(&'static str, String)> {
        vec![
            (
                "engine",
                format!(
                    "{}, tree of {} levels, {} of them in the proxy, cells of {}",
                    blocks(config),
                    u32::from(self.leaf_level) + 1,
                    self.cached_levels,
                    bytes(self.cell_bytes.into()),
                ),
            ),
            ("buckets", format!("Z {}", self.reals)),
            ("rate", rate_line(self.rate)),
            ("pace", pace(self)),
            ("write-back", write_backs(self)),
            ("vault", vault_line(&self.vault)),
            (
                "journal",
                format!(
                    "records of {} and {} more an access, a checkpoint every {} write-backs",
                    bytes(self.vault.journal.record_bytes),
                    bytes(self.part_bytes),
                    count(self.write_backs_a_checkpoint),
                ),
            ),
        ]
    }

    fn caveat(&self) -> Option<&'static str> {
        self.rate.is_none().then_some(AS_THEY_COME)
    }
}

fn write_backs(tao: &TaoConfig) -> String {
    format!(
        "every {} paths, in windows of {} buckets, {} of them under way; {} paths under way and {} \
         write-backs not acknowledged at most",
        count(tao.write_back_every.into()),
        count(tao.window_chunks.into()),
        count(tao.windows.into()),
        count(tao.under_way_max.into()),
        count(tao.write_backs_max.into()),
    )
}

fn pace(tao: &TaoConfig) -> String {
    let of =
        |rate: Option<u64>| rate.map_or("no limit".into(), |rate| format!("{}/s", bytes(rate)));
    let PaceConfig { up_bytes_per_s, down_bytes_per_s } = tao.pace;
    let points = points(tao.quantum_ns);
    let (up, down) = (of(up_bytes_per_s), of(down_bytes_per_s));
    format!("messages leave {points}; write-backs: {up}, paths: {down}")
}
