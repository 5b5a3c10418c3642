//! What the head of a trace says of an engine: its public configuration, with every size that
//! follows from it, so that whoever reads the trace has to know no engine.

use fogbank_durable::Pieces;
use fogbank_store::trace::{PublicConfig, TraceClock};
use serde_json::json;

use super::settings::{PIECES, PartitionSettings};
use super::state;

impl PartitionSettings {
    /// The public configuration of an engine of these settings in a store whose configuration has
    /// `config_bytes`. `clients` says whether the trace holds what clients ask and are answered.
    pub fn public(&self, clock: TraceClock, config_bytes: usize, clients: bool) -> PublicConfig {
        let budgets = (self.orders_max(), self.job_cells_max());
        self.public_within(budgets, clock, config_bytes, clients)
    }

    /// The same with other budgets: of orders given and not carried out, and of cells of open jobs.
    pub fn public_within(
        &self,
        (orders_max, job_cells_max): (u64, u64),
        clock: TraceClock,
        config_bytes: usize,
        clients: bool,
    ) -> PublicConfig {
        let (layout, shell, vault) = (&self.layout, &self.shell, self.vault());
        let full = PIECES.checkpoint(state::checkpoint_lengths(self));
        let no_delta = Pieces { count: 0, bytes: 0, last_bytes: 0 };
        let (rate, pace) = shell.flow();
        let tail = json!({
            "partitions": layout.partitions,
            "levels": layout.levels,
            "top_blocks": layout.top_blocks,
            "kept_levels": layout.kept_levels,
            "segment_cells": layout.segment_cells,
            "cell_bytes": self.cell_bytes(),
            "orders_max": orders_max,
            "job_cells_max": job_cells_max,
            "checkpoint_every": self.checkpoint_every,
            "jobs_max": self.jobs_max(),
            "window_bytes": shell.window_bytes,
            "windows": shell.windows,
            "bytes_at_once": shell.bytes_at_once,
            "under_way_max": shell.under_way_max,
            "accesses_max": self.group_max(),
            "parts_max": vault.record_parts_max,
            "part_bytes": self.part_bytes(),
            "records_at_once": shell.records_at_once,
            "quantum_ns": shell.quantum.as_nanos() as u64,
            "rate": rate,
            "pace": pace,
            "clients": clients,
            "vault": vault.public(config_bytes, full, no_delta),
        });
        let blocks = (layout.blocks, shell.shape.value_bytes as u64);
        PublicConfig::new(clock, "partition", blocks, tail)
    }
}
