//! What a cloud asks for requests, storage and traffic: a table in TOML, which the user may replace.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::StoreConfig;
use crate::traffic::Traffic;
use crate::{Error, Result};
use serde::Deserialize;

use super::requests::{ITEM_KEY_BYTES, Requests};

/// The table that stands in for one of the user's.
const LIST_PRICES: &str = include_str!("prices.toml");
const SECONDS_A_MONTH: f64 = 365.25 / 12.0 * 86_400.0;

/// What one kind of cloud asks, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    /// A thousand reads.
    pub get_usd_per_1000: f64,
    /// Bytes that one read may have, if longer ones count several times.
    pub get_bytes: Option<f64>,
    /// A thousand writes.
    pub put_usd_per_1000: f64,
    /// Bytes that one write may have, if longer ones count several times.
    pub put_bytes: Option<f64>,
    /// A thousand deletions.
    pub delete_usd_per_1000: f64,
    /// 10^9 bytes for a month.
    pub storage_usd_per_gb_month: f64,
    /// 10^9 bytes that leave the cloud.
    pub egress_usd_per_gb: f64,
}

/// What it comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// A million accesses, reads and writes of records alike.
    pub per_million_usd: f64,
    /// The storage, a month.
    pub storage_per_month_usd: f64,
    /// Requests and traffic of a store that runs day and night, a month; `None` if it runs as fast as
    /// it can.
    pub running_per_month_usd: Option<f64>,
}

/// The prices of the cloud that `url` names: from the table at `path`, or list prices. Nothing is asked
/// for a store on a disk of one's own.
///
/// # Errors
/// [`Error::Usage`] if the table cannot be read or has no prices for that cloud.
pub fn prices(path: Option<&Path>, url: &str) -> Result<Prices> {
    let text = match path {
        None => LIST_PRICES.to_owned(),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|e| Error::Usage(format!("cannot read --prices {}: {e}", path.display())))?,
    };
    let table: BTreeMap<String, Prices> = toml::from_str(&text)
        .map_err(|e| Error::Usage(format!("the price table is not understood: {e}")))?;
    let scheme = url.split(':').next().unwrap_or_default();
    match table.get(scheme) {
        Some(prices) => Ok(*prices),
        None if matches!(scheme, "file" | "memory") => Ok(Prices::default()),
        None => Err(Error::Usage(format!(
            "the price table has no [{scheme}]; add it, or leave --prices out for list prices"
        ))),
    }
}

/// What epochs of this `traffic` cost, which make these `requests`, `epoch_s` seconds each, with
/// `storage_bytes` at rest.
pub fn cost(
    prices: &Prices,
    config: &StoreConfig,
    (traffic, requests): (&Traffic, &Requests),
    (epoch_s, storage_bytes): (f64, f64),
) -> Cost {
    let slots = f64::from(config.bucket_reals) + f64::from(config.bucket_dummies);
    let cell_bytes = config.cell_bytes() as f64;
    let item_bytes = cell_bytes + ITEM_KEY_BYTES;
    let gets = match requests.items {
        true => requests.cells_read * times(prices.get_bytes, item_bytes),
        false => requests.gets * times(prices.get_bytes, cell_bytes),
    };
    // An item a cell, and one that says that the bucket is there; to delete them costs as much.
    let bucket = match requests.items {
        true => slots * times(prices.put_bytes, item_bytes) + 1.0,
        false => times(prices.put_bytes, slots * cell_bytes),
    };
    let mut puts = traffic.buckets * bucket;
    puts += traffic.records * times(prices.put_bytes, traffic.record_bytes);
    puts += times(prices.put_bytes, traffic.commit_bytes);
    puts += blobs(prices.put_bytes, traffic.delta_pieces, traffic.delta_bytes);
    puts += blobs(prices.put_bytes, traffic.full_pieces, traffic.full_bytes);
    let buckets = traffic.buckets * if requests.items { bucket } else { 1.0 };
    let deletes = buckets + traffic.records + traffic.delta_pieces + traffic.full_pieces;
    let epoch_usd = (gets * prices.get_usd_per_1000
        + puts * prices.put_usd_per_1000
        + deletes * prices.delete_usd_per_1000)
        / 1e3
        + requests.cells_read * cell_bytes / 1e9 * prices.egress_usd_per_gb;
    let accesses = (config.read_batches * config.batch + config.write_batch) as f64;
    Cost {
        per_million_usd: epoch_usd / accesses * 1e6,
        storage_per_month_usd: storage_bytes / 1e9 * prices.storage_usd_per_gb_month,
        running_per_month_usd: (config.interval_ms > 0)
            .then(|| epoch_usd * SECONDS_A_MONTH / epoch_s),
    }
}

/// How often something of `bytes` counts.
fn times(unit: Option<f64>, bytes: f64) -> f64 {
    unit.map_or(1.0, |unit| (bytes / unit).ceil().max(1.0))
}

fn blobs(unit: Option<f64>, count: f64, bytes: f64) -> f64 {
    if count == 0.0 { 0.0 } else { count * times(unit, bytes / count) }
}

#[cfg(test)]
mod tests {
    use crate::args::ShapeArgs;

    use super::*;

    #[test]
    fn every_cloud_has_its_price_and_a_disk_none() {
        for url in ["s3://b/p", "az://c", "gs://b", "dynamodb://t", "grpc://h:1/t"] {
            assert!(prices(None, url).unwrap().storage_usd_per_gb_month > 0.0, "{url}");
        }
        assert_eq!(prices(None, "file:///srv").unwrap(), Prices::default());
        let told = prices(None, "ftp://x").unwrap_err().to_string();
        assert!(told.contains("[ftp]"), "{told}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        std::fs::write(&path, "[s3]\nput_usd = 1.0\n").unwrap();
        let told = prices(Some(&path), "s3://b").unwrap_err().to_string();
        assert!(told.contains("put_usd"), "{told}");
    }

    #[test]
    fn requests_bytes_and_months_add_up() {
        let config = StoreConfig::derive(&ShapeArgs::default(), false).unwrap();
        let traffic =
            Traffic { path_cells: 48.0, path_cells_sent: 48.0, buckets: 2.0, ..Traffic::default() };
        let requests = Requests { gets: 48.0, puts: 2.0, cells_read: 48.0, items: false };
        let only = |prices: Prices| cost(&prices, &config, (&traffic, &requests), (1.0, 5e9));
        let gets = only(Prices { get_usd_per_1000: 1.0, ..Prices::default() });
        assert!((gets.per_million_usd - 48.0 / 1e3 / 64.0 * 1e6).abs() < 1e-6);
        // A cell of 536 bytes is three units of 200.
        let units = Prices { get_usd_per_1000: 1.0, get_bytes: Some(200.0), ..Prices::default() };
        assert!((only(units).per_million_usd / gets.per_million_usd - 3.0).abs() < 1e-9);
        // An item a cell: what is read and written is charged singly.
        let items = Requests { items: true, ..requests };
        let writes = Prices { put_usd_per_1000: 1.0, ..Prices::default() };
        let written = |requests: &Requests| {
            cost(&writes, &config, (&traffic, requests), (1.0, 5e9)).per_million_usd
        };
        assert!(written(&items) > 100.0 * written(&requests));
        let stored = only(Prices { storage_usd_per_gb_month: 0.02, ..Prices::default() });
        assert_eq!(stored.storage_per_month_usd, 0.1);
        let running = gets.running_per_month_usd.unwrap();
        assert!((running / (0.048 * SECONDS_A_MONTH) - 1.0).abs() < 0.05, "{running}");
    }
}
