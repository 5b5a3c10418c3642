//! The public configuration, and of which kind the oracle follows it: a trace comes from anywhere,
//! and its head must not buy hours or memory.

use fogbank_env::Nanos;
use fogbank_store::trace::VaultConfig;
use serde::{Deserialize, Serialize};

use super::buckets::{Buckets, Shape};
use super::fault::Refused;

/// The tail of the public configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingConfig {
    /// R: read batches of an epoch.
    pub read_batches: u32,
    /// Path reads of a read batch.
    pub read_batch: u32,
    /// Slots of a write batch.
    pub write_batch: u32,
    /// The points of the epochs' grid are multiples of this; 0 is back to back.
    pub interval_ns: u64,
    /// How long after its point a batch is sent.
    pub slack_ns: u64,
    /// Departures are multiples of this; 0 is at once.
    pub quantum_ns: u64,
    /// Z.
    pub reals: u16,
    /// S.
    pub dummies: u16,
    /// A.
    pub evict_every: u16,
    /// L: the root is level 0, leaves are level L.
    pub leaf_level: u8,
    /// Levels kept in the proxy, from the root.
    pub cached_levels: u8,
    /// The array of the tree.
    pub array: u16,
    /// Bytes of a sealed cell.
    pub cell_bytes: u32,
    /// Cells that one message names at most before the next window of a batch begins.
    pub window_cells: u32,
    /// Buckets that one message writes at most.
    pub window_chunks: u32,
    /// Points that pass between the last reply of an epoch's batches and its buckets.
    #[serde(default)]
    pub image_points: u32,
    /// Windows of a batch, or of a commit, that are under way at once.
    #[serde(default = "one")]
    pub windows: u32,
    /// Read batches that are under way at once.
    #[serde(default = "one")]
    pub in_flight: u32,
    /// Whether an epoch may begin later than it could: a schedule says when epochs run.
    #[serde(default)]
    pub pauses: bool,
    /// Whether rewritten buckets stay in the proxy to the end of the epoch.
    pub epoch_buffer: bool,
    /// Whether the last read batch of an epoch fetches for the write batch's evictions.
    pub prefetch: bool,
    /// Whether a path read is one XORed cell.
    pub xor: bool,
    /// Whether superseded versions stay until a later, public moment.
    pub keep_superseded: bool,
    /// Sizes of the objects around the tree; `None` where a bare engine runs.
    pub vault: Option<VaultConfig>,
}

/// What heads say nothing of that were written before there was a choice.
fn one() -> u32 {
    1
}

/// Checks a configuration; every derived number then fits its type.
pub(super) fn check(config: &RingConfig) -> Result<Shape, Refused> {
    let refuse = |reason: &str| Err(Refused(reason.into()));
    if !config.epoch_buffer {
        return refuse("rewritten buckets are written through");
    }
    if config.reals < 2 {
        return refuse("Z is below 2: a path read cannot be told from one that retires a bucket");
    }
    let sound = config.leaf_level <= 28
        && config.cached_levels <= config.leaf_level
        && (1..=4096).contains(&config.reals)
        && (1..=4096).contains(&config.dummies)
        && config.evict_every > 0
        && config.read_batches > 0
        && config.read_batch > 0
        && config.read_batches <= READ_BATCHES_MAX
        && accesses(config).is_some_and(|accesses| accesses <= EPOCH_ACCESSES_MAX)
        && config.window_cells > 0
        && config.window_chunks > 0
        && config.image_points <= IMAGE_POINTS_MAX;
    let times = [config.interval_ns, config.slack_ns, config.quantum_ns];
    let few = |pieces: u32| (1..=PIECES_MAX).contains(&pieces);
    let pieces = config
        .vault
        .as_ref()
        .is_none_or(|vault| few(vault.pieces) && few(vault.journal.delta_pieces));
    if config.vault.is_some() && !config.keep_superseded {
        return refuse("an engine in a vault keeps what an epoch supersedes until its commit");
    }
    if !sound || !pieces || times.iter().any(|time| *time > TIME_MAX) {
        return refuse("a number is out of its limits");
    }
    let shape = Shape {
        leaf_level: config.leaf_level,
        cached_levels: config.cached_levels,
        reals: config.reals,
        dummies: config.dummies,
    };
    if Buckets::bytes(shape) > MEMORY_MAX {
        return refuse("the state of its buckets would not fit the memory");
    }
    Ok(shape)
}

/// Accesses of an epoch.
fn accesses(config: &RingConfig) -> Option<u64> {
    let reads = u64::from(config.read_batches).checked_mul(config.read_batch.into())?;
    reads.checked_add(config.write_batch.into())
}

/// Batches and accesses of an epoch, and pieces of a checkpoint: a hostile head must not buy hours.
const READ_BATCHES_MAX: u32 = 10_000;
const EPOCH_ACCESSES_MAX: u64 = 1 << 24;
const PIECES_MAX: u32 = 1 << 20;
/// Longer times are a mistake.
const IMAGE_POINTS_MAX: u32 = 1 << 10;
const TIME_MAX: Nanos = 1 << 50;
/// Larger states are refused.
const MEMORY_MAX: u64 = 4 << 30;
