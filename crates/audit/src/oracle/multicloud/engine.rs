//! What the auditor has to know of one cloud of two, by its public configuration.

use fogbank_store::trace::{PublicConfig, TraceClock};

use super::{Multicloud, MulticloudConfig};
use crate::distinguish::Grid;
use crate::engine::Engine;
use crate::oracle::{Machine, Refused};
use crate::report::Tree;
use crate::report::config::{AS_THEY_COME, blocks};
use crate::report::words::{bytes, count};
use crate::statistics::Free;

/// As it stands in the head of a trace.
pub const NAME: &str = "multicloud";

impl Engine for MulticloudConfig {
    fn machine(&self, _: TraceClock) -> Result<Box<dyn Machine + Send>, Refused> {
        Ok(Box::new(Multicloud::new(self)?))
    }

    /// Partitions stand in for leaves, and the order of a read for a level above all others.
    fn free(&self) -> Free {
        let top = self.levels.min(15);
        let cells = self.top_blocks.saturating_add(1 << top).saturating_add(self.spare * 15);
        Free {
            leaf_level: self.partitions.checked_ilog2().unwrap_or(0) as u8,
            vault: None,
            parts: (0, 0),
            batches: None,
            cells: Some((top + 1, cells)),
        }
    }

    fn grid(&self) -> Grid {
        Grid { interval: 0, quantum: 0 }
    }

    fn tree(&self) -> Option<Tree> {
        None
    }

    fn lines(&self, config: &PublicConfig) -> Vec<(&'static str, String)> {
        let whose = if self.cloud == 0 { "first" } else { "second" };
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
            ("view", format!("of the {whose} cloud of two")),
        ]
    }

    fn caveat(&self) -> Option<&'static str> {
        Some(AS_THEY_COME)
    }
}
