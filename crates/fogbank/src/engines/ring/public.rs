//! What a store's public configuration leads to: the sizes of its objects, how often it writes full
//! checkpoints, and what the head of a trace says of it all.

use fogbank_durable::{Pieces, Piecing, VaultSettings, full_every};
use fogbank_oram::ring::{EpochTiming, record_bytes};
use fogbank_store::trace::{PublicConfig, TraceClock, VaultConfig};

use crate::config::StoreConfig;
use crate::error::{Error, Result};

impl StoreConfig {
    /// The public configuration for the head of a trace whose times are by `clock`. `pauses` says
    /// whether an epoch may begin later than it could, `record_bytes` how long the configuration is
    /// in the commit record.
    ///
    /// # Errors
    /// [`crate::error::Error::Usage`] if the shape is out of the engine's limits.
    pub fn public(
        &self,
        clock: TraceClock,
        pauses: bool,
        record_bytes: usize,
    ) -> Result<PublicConfig> {
        let proxy = self.proxy_settings();
        let pace = EpochTiming {
            interval: proxy.interval,
            slack: proxy.slack,
            quantum: self.departure_quantum(),
            in_flight: proxy.in_flight,
            pauses,
        };
        let vault = Some(self.public_vault(record_bytes)?);
        self.ring_settings().public(clock, pace, vault).map_err(usage)
    }

    /// Sizes of the objects around the tree.
    pub(crate) fn public_vault(&self, record_bytes: usize) -> Result<VaultConfig> {
        let (full, delta) = (self.full_pieces()?, self.delta_pieces()?);
        Ok(self.vault_settings()?.public(record_bytes, full, delta))
    }

    /// What the vault is opened with.
    ///
    /// # Errors
    /// As [`StoreConfig::public`].
    pub fn vault_settings(&self) -> Result<VaultSettings> {
        let epoch_bytes = self.cells_per_epoch() * self.cell_bytes() as f64;
        let accesses = self.read_batches * self.batch + self.write_batch;
        let full_bytes = self.full_pieces()?.total_bytes();
        Ok(VaultSettings {
            record_bytes: record_bytes(self.batch),
            record_parts_max: 1,
            records_at_once: 1,
            full_every: full_every(full_bytes, epoch_bytes as u64, accesses as u64),
            pieces: self.piecing(),
            journal_is_near: false,
        })
    }

    fn piecing(&self) -> Piecing {
        Piecing::usual(self.windows)
    }

    fn full_pieces(&self) -> Result<Pieces> {
        let of_engine = fogbank_oram::ring::checkpoint_lengths(&self.geometry()?);
        let shape = self.ring_settings().shape;
        let of_proxy = fogbank_txn::checkpoint_lengths(&shape, self.key_budget);
        Ok(self.piecing().checkpoint(of_engine.into_iter().chain(of_proxy)))
    }

    fn delta_pieces(&self) -> Result<Pieces> {
        let settings = self.ring_settings();
        let of_engine = fogbank_oram::ring::delta_lengths(&settings).map_err(usage)?;
        let of_proxy = fogbank_txn::delta_length(&settings.shape);
        Ok(self.piecing().delta(of_engine.into_iter().chain([of_proxy])))
    }
}

fn usage(error: fogbank_oram::Error) -> Error {
    Error::Usage(error.to_string())
}
