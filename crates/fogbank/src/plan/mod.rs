//! What a store of a shape will need and cost, before it is made: for `fogbank plan`, the banners
//! of what serves, and whatever looks for a shape.
//!
//! Everything is reckoned from the public configuration (`traffic`), the link ([`time`]), a price
//! table ([`price`]) and how fast this machine opens and seals cells ([`machine`]). Nothing is
//! asked of the store and nothing is made.

pub mod bill;
pub mod bound;
pub mod distance;
pub mod lines;
pub mod machine;
pub mod price;
pub mod requests;
pub mod site;
pub mod time;
pub mod two_clouds;
pub mod volume;

use fogbank_oram::ring::WINDOW_BYTES;

use self::time::{Epoch, Machine};
use crate::config::StoreConfig;
use crate::error::Result;
use crate::link::LinkArgs;
use crate::traffic::Traffic;

/// What a store will need.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What an epoch moves.
    pub traffic: Traffic,
    /// How long it takes.
    pub epoch: Epoch,
    /// Accesses of an epoch, used or not.
    pub accesses: f64,
    /// Bytes in the cloud once every bucket is written.
    pub storage_bytes: f64,
    /// Bytes of memory of the proxy once the store is full.
    pub proxy_bytes: f64,
}

impl Plan {
    /// Of a store of this configuration, across such a link.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] if the shape is out of the engine's limits.
    pub fn of(config: &StoreConfig, link: &LinkArgs, machine: &Machine) -> Result<Self> {
        let traffic = Traffic::of(config)?;
        let epoch = Epoch::of(config, &traffic, link, machine);
        let accesses = (config.read_batches * config.batch + config.write_batch) as f64;
        let storage_bytes = storage_bytes(config, &traffic)?;
        let proxy_bytes = proxy_bytes(config, &traffic)?;
        Ok(Self { traffic, epoch, accesses, storage_bytes, proxy_bytes })
    }

    /// Bytes that a store of this configuration takes in the cloud when every bucket is written.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn storage_bytes_of(config: &StoreConfig) -> Result<f64> {
        storage_bytes(config, &Traffic::of(config)?)
    }

    /// Bytes that an access moves, journal and checkpoints included.
    pub fn bytes_per_access(&self, config: &StoreConfig) -> f64 {
        (self.traffic.bytes_read(config) + self.traffic.bytes_written(config)) / self.accesses
    }

    /// Cells that an access moves.
    pub fn cells_per_access(&self, config: &StoreConfig) -> f64 {
        let slots = f64::from(config.bucket_reals) + f64::from(config.bucket_dummies);
        let sent = self.traffic.path_cells_sent + self.traffic.rewrite_cells;
        (sent + self.traffic.buckets * slots) / self.accesses
    }

    /// From a request to its answer, the mean and the longest: a moment of the epoch to its end, or
    /// all of the next one.
    pub fn latency_s(&self) -> (f64, f64) {
        (1.5 * self.epoch.total_s, 2.0 * self.epoch.total_s)
    }
}

/// Bytes of memory once the store is full: positions, buckets' metadata, the cached top, the images
/// of an epoch, windows under way, the directory, and what the process takes anyway. Buckets, those
/// that an epoch writes beside the ones they replace, and the checkpoints.
fn storage_bytes(config: &StoreConfig, traffic: &Traffic) -> Result<f64> {
    let geometry = config.geometry()?;
    let full_every = config.vault_settings()?.full_every as f64;
    Ok(geometry.storage_bytes() as f64
        + traffic.buckets * geometry.chunk_bytes() as f64
        + full_every * (traffic.full_bytes + traffic.delta_bytes))
}

fn proxy_bytes(config: &StoreConfig, traffic: &Traffic) -> Result<f64> {
    let geometry = config.geometry()?;
    let (reals, slots) = (f64::from(config.bucket_reals), f64::from(geometry.bucket.slots()));
    let capacity = f64::from(config.capacity);
    let payload = geometry.plaintext_bytes() as f64;
    let metadata = f64::from(geometry.stored_buckets()) * (32.0 + 2.0 * slots + 4.0 * reals);
    let directory = capacity * (config.key_budget as f64 + 40.0);
    let held = f64::from(geometry.stash_blocks_max()) * payload;
    // A bucket is about half full.
    let images = traffic.buckets * (reals / 2.0 * payload + 4.0 * reals);
    let windows = config.in_flight.max(2) as f64 * config.windows as f64 * WINDOW_BYTES as f64;
    let windows = windows.min(2.0 * traffic.bytes_read(config));
    Ok(16e6 + 8.0 * capacity + metadata + directory + held + images + windows)
}

/// Decimal units, as clouds count.
pub fn size(bytes: f64) -> String {
    let unit = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")]
        .into_iter()
        .find(|(scale, _)| bytes >= *scale);
    match unit {
        Some((scale, unit)) => format!("{:.2} {unit}", bytes / scale),
        None => format!("{bytes:.0} B"),
    }
}
