//! The public configuration of what one cloud of two sees.

use serde::{Deserialize, Serialize};

use crate::oracle::fault::Refused;
use crate::oracle::immediate::limits::few;

/// Their numbers have 16 bits.
const PARTITIONS_MAX: u32 = 1 << 16;

/// The tail of the public configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MulticloudConfig {
    /// Whose view it is: of the first (0) or the second (1) cloud.
    pub cloud: u8,
    /// P.
    pub partitions: u32,
    /// L.
    pub levels: u8,
    /// C.
    pub top_blocks: u16,
    /// c0.
    pub kept_levels: u8,
    /// s: dummies of a level for reads while a list of it is out.
    pub spare: u16,
    /// e: dummies of a level below the top beyond those that its evictions ask for.
    pub extra: u16,
    /// R: every so many rebuilds of the top one goes through the client.
    pub refresh_every: u16,
    /// Bytes of a cell.
    pub cell_bytes: u32,
}

impl MulticloudConfig {
    /// Whether there can be such a volume.
    pub(super) fn check(&self) -> Result<(), Refused> {
        let levels = few(self.levels.into(), 15) && self.kept_levels < self.levels;
        let numbers = self.cloud < 2
            && few(self.partitions, PARTITIONS_MAX)
            && self.refresh_every > 0
            && few(self.cell_bytes, 1 << 24)
            && levels
            && u32::from(self.top_blocks) >= 1 << (self.levels - 1);
        if numbers {
            Ok(())
        } else {
            Err(Refused("a shape that no volume in two clouds has".into()))
        }
    }
}
