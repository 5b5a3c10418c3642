//! What the head of a trace says of a store: its public configuration, with every size that follows
//! from it, so that the auditor has to know neither an engine nor a checkpoint.

use fogbank_durable::{Pieces, commit_bytes};
use fogbank_oram::geometry::Geometry;
use fogbank_oram::ring::WINDOW_BYTES;
use fogbank_store::trace::{EngineConfig, PublicConfig, RingConfig, TraceClock, VaultConfig};

use crate::config::StoreConfig;
use crate::error::Result;

impl StoreConfig {
    /// The public configuration for the head of a trace whose times are by `clock`.
    ///
    /// # Errors
    /// [`crate::error::Error::Usage`] if the shape is out of the engine's limits.
    pub fn public(&self, clock: TraceClock) -> Result<PublicConfig> {
        let geometry = self.geometry()?;
        Ok(PublicConfig { clock, engine: EngineConfig::Ring(self.public_ring(&geometry)) })
    }

    fn public_ring(&self, geometry: &Geometry) -> RingConfig {
        let (engine, proxy) = (self.ring_settings(), self.proxy_settings());
        let window = |bytes: usize| (WINDOW_BYTES / bytes).max(1) as u32;
        RingConfig {
            capacity: self.capacity,
            value_bytes: self.value_size as u64,
            read_batches: self.read_batches as u32,
            read_batch: self.batch as u32,
            write_batch: self.write_batch as u32,
            interval_ns: proxy.interval.as_nanos() as u64,
            slack_ns: proxy.slack.as_nanos() as u64,
            quantum_ns: self.departure_quantum().as_nanos() as u64,
            reals: geometry.bucket.reals,
            dummies: geometry.bucket.dummies,
            evict_every: geometry.bucket.evict_every,
            leaf_level: geometry.leaf_level(),
            cached_levels: geometry.cached_levels,
            array: engine.array.into(),
            cell_bytes: geometry.cell_bytes() as u32,
            window_cells: window(geometry.cell_bytes()),
            window_chunks: window(geometry.chunk_bytes()),
            epoch_buffer: engine.epoch_buffer,
            prefetch: engine.prefetch,
            xor: engine.xor,
            keep_superseded: engine.keep_superseded,
            vault: Some(self.public_vault(geometry)),
        }
    }

    fn public_vault(&self, geometry: &Geometry) -> VaultConfig {
        let of_engine = fogbank_oram::ring::checkpoint_lengths(geometry);
        let shape = self.ring_settings().shape;
        let of_proxy = fogbank_txn::checkpoint_lengths(&shape, self.key_budget);
        let pieces = Pieces::of(of_engine.into_iter().chain(of_proxy));
        let config_bytes = self.encode().len();
        let [first, second] = [1, 2].map(|openings| commit_bytes(config_bytes, openings));
        VaultConfig {
            commit_bytes: first,
            commit_bytes_an_opening: second - first,
            piece_bytes: pieces.bytes,
            pieces: pieces.count,
            last_piece_bytes: pieces.last_bytes,
            journal: None,
        }
    }
}
