//! Settings (plain values) and components (given to [`crate::Proxy::start`]).

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, Metrics, Randomness};
use fogbank_oram::BatchShape;
use tokio::runtime::Handle;

/// The public shape of epochs in time, and bounds. The batch sizes come from the engine's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// R: read batches of every epoch.
    pub read_batches: usize,
    /// Read batches that are under way at once: 1 waits for each. More let a batch leave before the
    /// one before has arrived, so what was read in one can be built on only so many batches later.
    pub in_flight: usize,
    /// Distance of the points of the time grid. Zero: back to back, for benchmarks.
    pub interval: Duration,
    /// From a point of the grid to the moment something is sent: hides the work before the send,
    /// so it must be longer than that ([`Settings::slack_for`]).
    pub slack: Duration,
    /// Average bytes of a key the directory has room for; times the capacity it bounds all keys.
    pub key_budget_bytes: usize,
    /// Bytes of the longest key accepted.
    pub key_bytes_max: usize,
    /// Bytes of the longest value accepted, if less than the batches would carry.
    pub value_bytes_max: usize,
    /// Bytes of blocks that a program may read over several epochs, and write, all in memory at the
    /// end; at least what one epoch reads, or writes.
    pub gathered_bytes_max: usize,
    /// Epochs that still run for what was accepted when the proxy is told to close, beyond the one
    /// that is open: so many, whatever there is to do.
    pub closing_epochs: usize,
    /// How often `transact` runs a body before it gives up.
    pub attempts_max: u32,
}

impl Settings {
    /// A slack that the collection of an epoch and the freeze of a full read batch stay well
    /// within: 2.5 ms and 5 microseconds a slot.
    pub fn slack_for(shape: &BatchShape) -> Duration {
        Duration::from_micros(2_500) + per_slot(shape)
    }

    /// What messages leave at multiples of, at least: the slack, and 2 ms and 5 microseconds a slot
    /// for what is done between it and a message.
    pub fn quantum_for(shape: &BatchShape) -> Duration {
        Self::slack_for(shape) + Duration::from_millis(2) + per_slot(shape)
    }
}

fn per_slot(shape: &BatchShape) -> Duration {
    let slots = shape.read_batch.max(shape.write_batch);
    Duration::from_micros(5).saturating_mul(slots as u32)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            read_batches: 4,
            in_flight: 1,
            interval: Duration::from_millis(50),
            slack: Duration::from_millis(2),
            key_budget_bytes: 64,
            key_bytes_max: 4096,
            value_bytes_max: usize::MAX,
            gathered_bytes_max: 32 << 20,
            closing_epochs: 0,
            attempts_max: 32,
        }
    }
}

/// What a proxy runs on, passed in.
pub struct Components {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Randomness,
    /// Figures.
    pub metrics: Metrics,
    /// Where what clients ask for runs, if not where epochs do: threads of its own keep it from the
    /// work that lets messages leave.
    pub clients: Option<Handle>,
}
