//! Which configurations the oracle follows: a trace comes from anywhere, and its head must not buy
//! hours or memory.

use fogbank_env::Nanos;
use fogbank_store::trace::RingConfig;

use super::buckets::{Buckets, Shape};
use super::fault::Refused;

/// Checks a configuration; every derived number then fits its type.
pub(super) fn check(config: &RingConfig) -> Result<Shape, Refused> {
    let refuse = |reason| Err(Refused(reason));
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
        && config.window_chunks > 0;
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
const TIME_MAX: Nanos = 1 << 50;
/// Larger states are refused.
const MEMORY_MAX: u64 = 4 << 30;
