//! What the head of a trace says of an engine: its public configuration, with every size that
//! follows from it, so that whoever reads the trace has to know no engine.

use std::time::Duration;

use fogbank_store::trace::{PublicConfig, TraceClock, VaultConfig};
use serde_json::json;

use super::RingSettings;
use super::writeback::IMAGE_POINTS;
use crate::Result;

/// The public times by which an engine is called and its messages leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochTiming {
    /// Distance of the points of the grid; 0 is back to back.
    pub interval: Duration,
    /// How long after its point a batch is sent.
    pub slack: Duration,
    /// What departures are multiples of; 0 lets them leave at once.
    pub quantum: Duration,
    /// Read batches that are under way at once.
    pub in_flight: usize,
    /// Whether an epoch may begin later than it could.
    pub pauses: bool,
}

impl RingSettings {
    /// The public configuration of an engine of these settings, called at `pace`, beside `vault`.
    ///
    /// # Errors
    /// Those of [`RingSettings::geometry`].
    pub fn public(
        &self,
        clock: TraceClock,
        pace: EpochTiming,
        vault: Option<VaultConfig>,
    ) -> Result<PublicConfig> {
        let (geometry, shape) = (self.geometry()?, &self.shape);
        let window = |bytes: usize| (self.window_bytes / bytes).max(1);
        let tail = json!({
            "read_batches": self.read_batches,
            "read_batch": shape.read_batch,
            "write_batch": shape.write_batch,
            "interval_ns": pace.interval.as_nanos() as u64,
            "slack_ns": pace.slack.as_nanos() as u64,
            "quantum_ns": pace.quantum.as_nanos() as u64,
            "reals": geometry.bucket.reals,
            "dummies": geometry.bucket.dummies,
            "evict_every": geometry.bucket.evict_every,
            "leaf_level": geometry.leaf_level(),
            "cached_levels": geometry.cached_levels,
            "array": self.array,
            "cell_bytes": geometry.cell_bytes(),
            "window_cells": window(geometry.cell_bytes()),
            "window_chunks": window(geometry.chunk_bytes()),
            "image_points": IMAGE_POINTS,
            "windows": self.windows,
            "in_flight": pace.in_flight,
            "pauses": pace.pauses,
            "epoch_buffer": self.epoch_buffer,
            "prefetch": self.prefetch,
            "xor": self.xor,
            "keep_superseded": self.keep_superseded,
            "vault": vault,
        });
        let blocks = (shape.capacity, shape.value_bytes as u64);
        Ok(PublicConfig::new(clock, "ring", blocks, tail))
    }
}
