//! What the head of a trace says of an engine: its public configuration, with every size that
//! follows from it, so that whoever reads the trace has to know no engine.

use fogbank_durable::Pieces;
use fogbank_store::trace::{PaceConfig, RateConfig, TaoConfig};

use super::settings::{PIECES, TaoSettings};
use super::{journal, state};
use crate::Result;

impl TaoSettings {
    /// The public configuration of an engine of these settings in a store whose configuration has
    /// `config_bytes`. `clients` says whether the trace holds what clients ask and are answered.
    ///
    /// # Errors
    /// Those of [`TaoSettings::geometry`].
    pub fn public(&self, config_bytes: usize, clients: bool) -> Result<TaoConfig> {
        let (geometry, shell) = (self.geometry()?, &self.shell);
        let full = PIECES.checkpoint(state::checkpoint_lengths(&geometry));
        let no_delta = Pieces { count: 0, bytes: 0, last_bytes: 0 };
        Ok(TaoConfig {
            capacity: geometry.capacity,
            value_bytes: geometry.value_bytes as u64,
            reals: geometry.bucket.reals,
            leaf_level: geometry.leaf_level(),
            cached_levels: geometry.cached_levels,
            array: self.array.into(),
            cell_bytes: geometry.cell_bytes() as u32,
            write_back_every: self.write_back_every,
            write_backs_a_checkpoint: self.write_backs_a_checkpoint()?,
            window_chunks: shell.window_chunks(geometry.chunk_bytes()) as u32,
            windows: shell.windows as u32,
            under_way_max: shell.under_way_max as u32,
            parts_max: self.group_max() as u32,
            write_backs_max: self.write_backs_max() as u32,
            quantum_ns: shell.quantum.as_nanos() as u64,
            part_bytes: journal::entry_bytes(geometry.value_bytes) as u64,
            rate: shell.rate.map(|rate| RateConfig {
                interval_ns: rate.interval,
                accesses: rate.accesses as u32,
            }),
            pace: PaceConfig {
                up_bytes_per_s: shell.pace.up_bytes_per_s,
                down_bytes_per_s: shell.pace.down_bytes_per_s,
            },
            clients,
            vault: self.vault().public(config_bytes, full, no_delta),
        })
    }
}
