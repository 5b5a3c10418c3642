//! What a cloud asks for requests, storage and traffic: a table in TOML, which the user may
//! replace.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::StoreConfig;
use crate::traffic::Traffic;
use crate::{Error, Result};
use serde::Deserialize;

use super::requests::{ITEM_KEY_BYTES, Requests};

/// The table that stands in for one of the user's.
const LIST_PRICES: &str = include_str!("prices.toml");

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

/// What messages cost, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// Their requests.
    pub requests_usd: f64,
    /// The bytes that leave the cloud.
    pub traffic_usd: f64,
}

impl Spent {
    /// Both.
    pub fn usd(&self) -> f64 {
        self.requests_usd + self.traffic_usd
    }

    /// These and others.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self {
            requests_usd: self.requests_usd + others.requests_usd,
            traffic_usd: self.traffic_usd + others.traffic_usd,
        }
    }

    /// So many of them.
    #[must_use]
    pub fn times(self, n: f64) -> Self {
        Self { requests_usd: n * self.requests_usd, traffic_usd: n * self.traffic_usd }
    }
}

impl Prices {
    /// So many requests of each kind, and bytes that leave the cloud.
    pub fn of(&self, gets: f64, puts: f64, deletes: f64, bytes_out: f64) -> Spent {
        let requests = gets * self.get_usd_per_1000
            + puts * self.put_usd_per_1000
            + deletes * self.delete_usd_per_1000;
        Spent {
            requests_usd: requests / 1e3,
            traffic_usd: bytes_out / 1e9 * self.egress_usd_per_gb,
        }
    }

    /// `bytes` for a month.
    pub fn storage_usd(&self, bytes: f64) -> f64 {
        bytes / 1e9 * self.storage_usd_per_gb_month
    }
}

/// The prices of the cloud that `url` names: from the table at `path`, or list prices. A table that
/// is named by a place goes before that of its scheme, for two providers may run the same server.
/// Nothing is asked for a store on a disk of one's own.
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
    let of_place = table.iter().filter(|(place, _)| place.contains("://") && is_at(url, place));
    let of_place = of_place.max_by_key(|(place, _)| place.len()).map(|(_, prices)| prices);
    match of_place.or_else(|| table.get(scheme)) {
        Some(prices) => Ok(*prices),
        None if matches!(scheme, "file" | "memory") => Ok(Prices::default()),
        None => Err(Error::Usage(format!(
            "the price table has no [{scheme}]; add it, or leave --prices out for list prices"
        ))),
    }
}

/// Whether `url` is that place, or in it.
fn is_at(url: &str, place: &str) -> bool {
    let rest = url.strip_prefix(place.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}

/// What an epoch of this `traffic` costs, which makes these `requests`.
pub fn of_epoch(
    prices: &Prices,
    config: &StoreConfig,
    traffic: &Traffic,
    requests: &Requests,
) -> Spent {
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
    prices.of(gets, puts, deletes, requests.cells_read * cell_bytes)
}

/// How often something of `bytes` counts.
pub(crate) fn times(unit: Option<f64>, bytes: f64) -> f64 {
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
    fn a_place_has_prices_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        let table = "[grpc]\negress_usd_per_gb = 1.0\n[\"grpc://h:7\"]\negress_usd_per_gb = 2.0\n\
                     [\"grpc://h:7/t/\"]\negress_usd_per_gb = 3.0\n";
        std::fs::write(&path, table).unwrap();
        for (url, asked) in [
            ("grpc://h:7/s?credentials=c", 2.0),
            ("grpc://h:7", 2.0),
            ("grpc://h:7/t?credentials=c", 3.0),
            ("grpc://h:70/t", 1.0),
            ("grpc://i:7/t", 1.0),
        ] {
            assert_eq!(prices(Some(&path), url).unwrap().egress_usd_per_gb, asked, "{url}");
        }
    }

    #[test]
    fn requests_and_bytes_add_up() {
        let config = StoreConfig::derive(&ShapeArgs::default(), false).unwrap();
        let traffic =
            Traffic { path_cells: 48.0, path_cells_sent: 48.0, buckets: 2.0, ..Traffic::default() };
        let requests = Requests { gets: 48.0, puts: 2.0, cells_read: 48.0, items: false };
        let only = |prices: Prices| of_epoch(&prices, &config, &traffic, &requests);
        let gets = only(Prices { get_usd_per_1000: 1.0, ..Prices::default() });
        assert_eq!(gets, Spent { requests_usd: 0.048, traffic_usd: 0.0 });
        // A cell of 536 bytes is three units of 200.
        let units = Prices { get_usd_per_1000: 1.0, get_bytes: Some(200.0), ..Prices::default() };
        assert!((only(units).usd() / gets.usd() - 3.0).abs() < 1e-9);
        // An item a cell: what is read and written is charged singly.
        let items = Requests { items: true, ..requests };
        let writes = Prices { put_usd_per_1000: 1.0, ..Prices::default() };
        let written = |requests: &Requests| of_epoch(&writes, &config, &traffic, requests).usd();
        assert!(written(&items) > 100.0 * written(&requests));
        let out = only(Prices { egress_usd_per_gb: 1.0, ..Prices::default() });
        let bytes = 48.0 * config.cell_bytes() as f64;
        assert_eq!(out, Spent { requests_usd: 0.0, traffic_usd: bytes / 1e9 });
        let stored = Prices { storage_usd_per_gb_month: 0.02, ..Prices::default() };
        assert_eq!(stored.storage_usd(5e9), 0.1);
    }
}
