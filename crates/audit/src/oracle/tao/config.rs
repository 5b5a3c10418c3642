//! The public configuration, and of which kind the oracle follows it: a trace comes from anywhere,
//! and its head must not buy hours or memory.

use fogbank_store::trace::{PaceConfig, RateConfig, TraceClock, VaultConfig};
use serde::{Deserialize, Serialize};

use crate::oracle::fault::Refused;
use crate::oracle::immediate::limits::{self, few};
use crate::oracle::shape::Shape;

/// The tail of the public configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaoConfig {
    /// Z.
    pub reals: u16,
    /// L: the root is level 0, leaves are level L.
    pub leaf_level: u8,
    /// Levels kept in the proxy, from the root.
    pub cached_levels: u8,
    /// The array of the tree.
    pub array: u16,
    /// Bytes of a sealed cell.
    pub cell_bytes: u32,
    /// k: paths from one write-back to the next.
    pub write_back_every: u32,
    /// s: write-backs from one checkpoint to the next.
    pub write_backs_a_checkpoint: u64,
    /// Buckets that one message writes at most.
    pub window_chunks: u32,
    /// Messages of write-backs that are under way at once.
    pub windows: u32,
    /// Write-backs that are begun and not acknowledged, at most: then nothing departs.
    pub write_backs_max: u32,
    /// Messages leave at multiples of this; 0 if they leave as soon as they can.
    #[serde(default)]
    pub quantum_ns: u64,
    /// Paths that are under way at once, at most.
    pub under_way_max: u32,
    /// Accesses of a journal record, at most.
    pub parts_max: u32,
    /// What every access of a journal record but the first adds to its bytes.
    pub part_bytes: u64,
    /// The rate, if it is fixed.
    #[serde(default)]
    pub rate: Option<RateConfig>,
    /// At which pace paths and write-backs leave.
    #[serde(default)]
    pub pace: PaceConfig,
    /// Whether the trace holds when accesses arrive and are answered.
    #[serde(default)]
    pub clients: bool,
    /// Sizes of the objects around the tree. There are no deltas; a record of the journal is one of
    /// one access.
    pub vault: VaultConfig,
}

/// Checks a configuration; every derived number then fits its type.
pub(super) fn check(clock: TraceClock, config: &TaoConfig) -> Result<Shape, Refused> {
    let refuse = |reason: &str| Err(Refused(reason.into()));
    if clock == TraceClock::Real {
        return refuse("by a real clock nothing tells how long the proxy worked");
    }
    let shell = limits::are_sound(
        &config.vault,
        (config.quantum_ns, config.rate),
        (config.under_way_max, config.parts_max),
        config.part_bytes,
    );
    let paces = [config.pace.up_bytes_per_s, config.pace.down_bytes_per_s];
    let pace = paces.iter().flatten().all(|rate| *rate > 0 && config.quantum_ns > 0);
    let sound = config.leaf_level <= LEVELS_MAX
        && config.cached_levels <= config.leaf_level
        && (1..=1024).contains(&config.reals)
        && few(config.write_back_every, 1 << 20)
        && (1..=1 << 40).contains(&config.write_backs_a_checkpoint)
        && few(config.window_chunks, u32::MAX)
        && few(config.windows, 1 << 10)
        && few(config.write_backs_max, 1 << 20)
        && shell
        && pace;
    if !sound {
        return refuse("a number is out of its limits");
    }
    Ok(Shape {
        leaf_level: config.leaf_level,
        cached_levels: config.cached_levels,
        reals: config.reals,
        dummies: 0,
    })
}

/// Deeper trees would not fit the memory.
const LEVELS_MAX: u8 = 24;
