//! What the auditor has to know of `partition`, by its public configuration.

use fogbank_store::trace::{PublicConfig, TraceClock};

use super::{Partition, PartitionConfig};
use crate::distinguish::Grid;
use crate::engine::Engine;
use crate::oracle::{Machine, Refused};
use crate::report::Tree;
use crate::report::config::{AS_THEY_COME, blocks, points, rate_line, vault_line};
use crate::report::words::{bytes, count};
use crate::statistics::Free;

/// As it stands in the head of a trace.
pub const NAME: &str = "partition";

impl Engine for PartitionConfig {
    fn machine(&self, clock: TraceClock) -> Result<Box<dyn Machine + Send>, Refused> {
        Ok(Box::new(Partition::machine(clock, self)?))
    }

    /// Partitions stand in for leaves.
    fn free(&self) -> Free {
        let top = self.levels.saturating_sub(1).min(15);
        Free {
            leaf_level: self.partitions.checked_ilog2().unwrap_or(0) as u8,
            vault: Some(self.vault.clone()),
            parts: (self.part_bytes, self.parts_max),
            batches: None,
            cells: Some((top, self.top_blocks.saturating_add(1 << top))),
        }
    }

    fn grid(&self) -> Grid {
        Grid { interval: self.rate.map_or(0, |rate| rate.interval_ns), quantum: 0 }
    }

    fn tree(&self) -> Option<Tree> {
        None
    }

    fn lines(&self, config: &PublicConfig) -> Vec<(&'static str, String)> {
        vec![
            (
                "engine",
                format!(
                    "{}, {} partitions of {} levels, {} of them in the proxy, cells of {}",
                    blocks(config),
                    count(self.partitions.into()),
                    self.levels,
                    self.kept_levels,
                    bytes(self.cell_bytes.into()),
                ),
            ),
            ("rate", rate_line(self.rate)),
            ("pace", format!("messages leave {}", points(self.quantum_ns))),
            (
                "budgets",
                format!(
                    "{} orders, {} cells of open jobs, {} accesses under way",
                    count(self.orders_max),
                    count(self.job_cells_max),
                    count(self.under_way_max.into()),
                ),
            ),
            ("vault", vault_line(&self.vault)),
            (
                "journal",
                format!(
                    "records of parts of {}, a checkpoint every {} accesses",
                    bytes(self.part_bytes),
                    count(self.checkpoint_every),
                ),
            ),
        ]
    }

    fn caveat(&self) -> Option<&'static str> {
        self.rate.is_none().then_some(AS_THEY_COME)
    }
}
