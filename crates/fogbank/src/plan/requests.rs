//! What a store is asked for in requests of its own: objects have ranges, items have none but 100
//! of them are read and 25 written at once, a server takes a batch whole.
//!
//! In an object store cells of one bucket that lie close together share a ranged GET, and what lies
//! between them comes along (`fogbank_objects`). Which cells lie close is chance: k of n cells,
//! each set as likely as any other, so that the cells between two neighbours are more than m with
//! probability (n-k)/(n-1) * (n-k-1)/(n-2) * ... over m + 1 factors.

use crate::config::StoreConfig;
use crate::traffic::{Level, Traffic};
use fogbank_objects::{ObjectsOptions, ObjectsUrl};

/// Requests of an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Requests {
    /// Reads.
    pub gets: f64,
    /// Buckets and blobs written.
    pub puts: f64,
    /// Cells that come back, asked for or not.
    pub cells_read: f64,
    /// Whether each cell is an item, and charged as one.
    pub items: bool,
}

impl Requests {
    /// Those of an epoch of this `traffic`, towards the store at `url`.
    pub fn of(config: &StoreConfig, traffic: &Traffic, url: &str) -> Self {
        let records = traffic.records + traffic.delta_pieces + traffic.full_pieces;
        let puts = traffic.buckets + records + 1.0;
        let asked = traffic.path_cells + traffic.rewrite_cells;
        if let Ok(objects) = url.parse::<ObjectsUrl>() {
            let gap = objects.gap_bytes.unwrap_or(ObjectsOptions::default().gap_bytes);
            let [paths, rewrites] = ranges(config, traffic, gap);
            let cells_read = paths.1 + rewrites.1;
            return Self { gets: paths.0 + rewrites.0, puts, cells_read, items: false };
        }
        // A message a batch, and one for what a write batch reads.
        let messages = config.read_batches as f64 + traffic.write_batch_cells.min(1.0);
        if url.starts_with("dynamodb:") {
            let slots = f64::from(config.bucket_reals) + f64::from(config.bucket_dummies);
            let at_once =
                (ITEM_BATCH_BYTES / (config.cell_bytes() as f64 + ITEM_KEY_BYTES)).floor();
            let gets = messages * (asked / messages / at_once.clamp(1.0, 100.0)).ceil();
            let cells = (traffic.buckets * slots / at_once.clamp(1.0, 25.0)).ceil();
            return Self { gets, puts: puts + cells, cells_read: asked, items: true };
        }
        Self {
            gets: messages,
            puts,
            cells_read: traffic.path_cells_sent + traffic.rewrite_cells,
            items: false,
        }
    }
}

/// Ranges and the cells in them: of path reads, and of rewrites.
fn ranges(config: &StoreConfig, traffic: &Traffic, gap_bytes: u64) -> [(f64, f64); 2] {
    let slots = f64::from(config.bucket_reals) + f64::from(config.bucket_dummies);
    let skipped = (gap_bytes / config.cell_bytes() as u64) as f64;
    let batches = config.read_batches as f64;
    let mut paths = (0.0, 0.0);
    for (n, level) in Level::all(config) {
        // The cells that a batch reads of one level fall on its buckets as chance has it.
        let cells = level.path / batches;
        let touched = n * (1.0 - (-cells / n).exp());
        if touched > 0.0 {
            let (ranges, read) = of_bucket(cells / touched, slots, skipped);
            paths.0 += batches * touched * ranges;
            paths.1 += batches * touched * read;
        }
    }
    let reals = f64::from(config.bucket_reals);
    let (ranges, read) = of_bucket(reals, slots, skipped);
    let retired = traffic.rewrite_cells / reals;
    [paths, (retired * ranges, retired * read)]
}

/// Ranges in which `k` of `n` cells are read if at most `skipped` others may come along between
/// two, and how many cells that are.
fn of_bucket(k: f64, n: f64, skipped: f64) -> (f64, f64) {
    if k <= 1.0 {
        return (k, k);
    }
    let mut wide = 1.0;
    let mut i = 0.0;
    while i <= skipped && wide > 1e-9 {
        wide *= ((n - k - i) / (n - 1.0 - i)).max(0.0);
        i += 1.0;
    }
    let between = (n - k) / (k + 1.0);
    // A gap that is not read through is longer than those that are.
    let left_out = (k - 1.0) * wide * (skipped + 1.0 + between).min(n - k);
    let read = k + ((k - 1.0) * between - left_out).max(0.0);
    (1.0 + (k - 1.0) * wide, read)
}

/// What a batch of items may hold, and what the keys of an item add to it.
const ITEM_BATCH_BYTES: f64 = 15e6;
pub(crate) const ITEM_KEY_BYTES: f64 = 64.0;

#[cfg(test)]
mod tests {
    use crate::args::ShapeArgs;

    use super::*;

    #[test]
    fn cells_far_apart_are_ranges_of_their_own_and_near_ones_share_one() {
        let (ranges, read) = of_bucket(100.0, 296.0, 0.0);
        assert!((60.0..70.0).contains(&ranges) && read < 101.0, "{ranges} {read}");
        let (ranges, read) = of_bucket(100.0, 296.0, 30.0);
        assert!(ranges < 1.01 && (285.0..296.0).contains(&read), "{ranges} {read}");
        assert_eq!(of_bucket(1.0, 296.0, 30.0), (1.0, 1.0));
    }

    /// What was counted at a server: 157 GETs an epoch of 3 x 16 reads, 9.9 PUTs, where 500 slots
    /// are written.
    #[test]
    fn a_shape_asks_as_often_as_was_counted() {
        let (read_batches, batch, write_batch) = (Some(3), Some(16), Some(500));
        let args = ShapeArgs { read_batches, batch, write_batch, ..ShapeArgs::default() };
        let config = StoreConfig::derive(&args, false).unwrap();
        let traffic = Traffic::of(&config).unwrap();
        let requests = Requests::of(&config, &traffic, "s3://bucket");
        assert!((150.0..165.0).contains(&requests.gets), "{requests:?}");
        let items = Requests::of(&config, &traffic, "dynamodb://table");
        assert!(items.cells_read < requests.cells_read && items.items);
        let batches = items.cells_read / 100.0;
        assert!((batches..batches + 4.0).contains(&items.gets), "{items:?}");
        let messages = Requests::of(&config, &traffic, "file:///x");
        assert_eq!(messages.gets, 4.0);
    }
}
