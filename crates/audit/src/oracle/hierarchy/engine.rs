//! What the auditor has to know of a site, by its public configuration.

use fogbank_store::trace::{PublicConfig, TraceClock};

use super::cells::PARTS;
use super::{Hierarchy, HierarchyConfig};
use crate::distinguish::Grid;
use crate::engine::Engine;
use crate::oracle::{Machine, Refused};
use crate::report::Tree;
use crate::report::config::{AS_THEY_COME, blocks, points};
use crate::report::words::{bytes, count};
use crate::statistics::Free;

/// As it stands in the head of a trace.
pub const NAME: &str = "hierarchy";

impl Engine for HierarchyConfig {
    fn machine(&self, _: TraceClock) -> Result<Box<dyn Machine + Send>, Refused> {
        Ok(Box::new(Hierarchy::new(self)?))
    }

    fn is_joint(&self) -> bool {
        true
    }

    /// The part of the bottom in which a slot lies stands in for a leaf.
    fn free(&self) -> Free {
        let bottom = super::Layout::new(self).bottom;
        Free {
            leaf_level: PARTS.ilog2() as u8,
            vault: None,
            parts: (0, 0),
            batches: None,
            cells: Some((bottom, PARTS)),
        }
    }

    fn grid(&self) -> Grid {
        Grid { interval: 0, quantum: self.quantum_ns }
    }

    fn tree(&self) -> Option<Tree> {
        None
    }

    fn lines(&self, config: &PublicConfig) -> Vec<(&'static str, String)> {
        vec![
            (
                "engine",
                format!(
                    "a site of {}, epochs of {} queries, tables {} times as large from level to \
                     level, cells of {}",
                    blocks(config),
                    count(self.epoch.into()),
                    self.growth,
                    bytes(self.cell_bytes.into()),
                ),
            ),
            ("pace", format!("messages leave {}", points(self.quantum_ns))),
        ]
    }

    fn caveat(&self) -> Option<&'static str> {
        Some(AS_THEY_COME)
    }
}
