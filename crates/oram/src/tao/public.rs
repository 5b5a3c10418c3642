//! What the head of a trace says of an engine: its public configuration, with every size that
//! follows from it, so that whoever reads the trace has to know no engine.

use fogbank_durable::Pieces;
use fogbank_store::trace::{PublicConfig, TraceClock};
use serde_json::json;

use super::settings::{PIECES, TaoSettings};
use super::{journal, state};
use crate::Result;

impl TaoSettings {
    /// The public configuration of an engine of these settings in a store whose configuration has
    /// `config_bytes`. `clients` says whether the trace holds what clients ask and are answered.
    ///
    /// # Errors
    /// Those of [`TaoSettings::geometry`].
    pub fn public(
        &self,
        clock: TraceClock,
        config_bytes: usize,
        clients: bool,
    ) -> Result<PublicConfig> {
        let (geometry, shell) = (self.geometry()?, &self.shell);
        let full = PIECES.checkpoint(state::checkpoint_lengths(&geometry));
        let no_delta = Pieces { count: 0, bytes: 0, last_bytes: 0 };
        let (rate, pace) = shell.flow();
        let tail = json!({
            "reals": geometry.bucket.reals,
            "leaf_level": geometry.leaf_level(),
            "cached_levels": geometry.cached_levels,
            "array": self.array,
            "cell_bytes": geometry.cell_bytes(),
            "write_back_every": self.write_back_every,
            "write_backs_a_checkpoint": self.write_backs_a_checkpoint()?,
            "window_chunks": shell.window_chunks(geometry.chunk_bytes()),
            "windows": shell.windows,
            "under_way_max": shell.under_way_max,
            "parts_max": self.group_max(),
            "write_backs_max": self.write_backs_max(),
            "quantum_ns": shell.quantum.as_nanos() as u64,
            "part_bytes": journal::entry_bytes(geometry.value_bytes),
            "rate": rate,
            "pace": pace,
            "clients": clients,
            "vault": self.vault().public(config_bytes, full, no_delta),
        });
        let blocks = (geometry.capacity, geometry.value_bytes as u64);
        Ok(PublicConfig::new(clock, "tao", blocks, tail))
    }
}
