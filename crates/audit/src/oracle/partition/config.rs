//! The public configuration, and of which kind the oracle follows it: a trace comes from anywhere,
//! and its head must not buy hours or memory.

use fogbank_store::trace::{PaceConfig, RateConfig, TraceClock, VaultConfig};
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use crate::oracle::fault::Refused;
use crate::oracle::immediate::limits::{self, few};

/// The tail of the public configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionConfig {
    /// P.
    pub partitions: u32,
    /// L.
    pub levels: u8,
    /// C.
    pub top_blocks: u16,
    /// c0.
    pub kept_levels: u8,
    /// Cells of a chunk at most: a level of more lies in several. Older traces do not say it.
    #[serde(default = "whole_levels")]
    pub segment_cells: u16,
    /// Bytes of a sealed cell.
    pub cell_bytes: u32,
    /// D: orders given and not carried out, at most.
    pub orders_max: u64,
    /// K: cells of open jobs, at most, but for one job.
    pub job_cells_max: u64,
    /// E: accesses from one checkpoint to the next.
    pub checkpoint_every: u64,
    /// Jobs of a record at most, and commits.
    pub jobs_max: u32,
    /// A message of what is written ends where so many bytes are reached.
    pub window_bytes: u64,
    /// Such messages under way at once.
    pub windows: u32,
    /// No further one leaves while so many bytes are under way.
    pub bytes_at_once: u64,
    /// Accesses under way at once, at most.
    pub under_way_max: u32,
    /// Accesses of a record at most.
    pub accesses_max: u32,
    /// Parts of a record at most.
    pub parts_max: u32,
    /// Bytes of a part.
    pub part_bytes: u64,
    /// W: records under way at once, at most.
    pub records_at_once: u32,
    /// Messages leave at multiples of this; 0 if they leave as soon as they can.
    #[serde(default)]
    pub quantum_ns: u64,
    /// The rate, if it is fixed.
    #[serde(default)]
    pub rate: Option<RateConfig>,
    /// At which pace what is written and what is read leaves.
    #[serde(default)]
    pub pace: PaceConfig,
    /// Whether the trace holds when accesses arrive and are answered.
    #[serde(default)]
    pub clients: bool,
    /// Sizes of the objects around the levels. There are no deltas; a record of the journal is one
    /// of one part.
    pub vault: VaultConfig,
}

fn whole_levels() -> u16 {
    u16::MAX
}

/// Checks a configuration; every derived number then fits its type.
pub(super) fn check(clock: TraceClock, config: &PartitionConfig) -> Result<Layout, Refused> {
    let refuse = |reason: &str| Err(Refused(reason.into()));
    if clock == TraceClock::Real {
        return refuse("by a real clock nothing tells how long the proxy worked");
    }
    if config.pace.down_bytes_per_s.is_some() {
        return refuse("at a pace a record is put before what the one before reads is seen");
    }
    if !config.clients && config.rate.is_none() {
        return refuse("nothing tells how many accesses a record has");
    }
    let shell = limits::are_sound(
        &config.vault,
        (config.quantum_ns, config.rate),
        (config.under_way_max, config.accesses_max),
        config.part_bytes,
    );
    let levels = (1..=15).contains(&config.levels) && config.kept_levels < config.levels;
    let sound = levels
        && config.partitions.is_power_of_two()
        && config.partitions <= 1 << 16
        && config.top_blocks >= 1 << (config.levels - 1)
        && config.top_blocks < 1 << 15
        && config.segment_cells > 0
        && few(config.jobs_max, 1 << 16)
        && few(config.windows, 1 << 10)
        && few(config.parts_max, 1 << 16)
        && few(config.records_at_once, 1 << 16)
        && (1..1 << 40).contains(&config.checkpoint_every)
        && config.window_bytes < 1 << 48
        && config.bytes_at_once < 1 << 48
        && config.pace.up_bytes_per_s.is_none_or(|rate| rate > 0 && config.quantum_ns > 0)
        && shell;
    if !sound {
        return refuse("a number is out of its limits");
    }
    let PartitionConfig { partitions, levels, top_blocks, kept_levels, segment_cells, .. } =
        *config;
    Ok(Layout { partitions, levels, top_blocks, kept_levels, segment_cells })
}
