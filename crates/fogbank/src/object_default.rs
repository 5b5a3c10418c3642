//! What a new store has, where nothing else is said, in a cloud that charges for every request.
//!
//! Epochs ask and write whether they are used or not, so the pace decides what a month costs. Reads
//! are dear there, a request for each of the three lowest levels of a path, and writes are not:
//! many of them share a bucket. In a table every cell is an item, so writes are dear, too. Hence
//! small read batches, and the shortest interval at which a month stays below [`MONTH_USD`].

use crate::args::ShapeArgs;
use crate::config::StoreConfig;
use crate::error::Result;
use crate::link::LinkArgs;
use crate::plan::Plan;
use crate::plan::bill::{Bill, usd};
use crate::plan::distance::link_to;
use crate::plan::price::{Prices, prices};

/// A month of a store costs less, in US dollars of the list prices.
pub const MONTH_USD: f64 = 100.0;
/// What is left of that for epochs if storage alone takes it.
const RUNNING_USD_MIN: f64 = 50.0;
const READ_BATCHES: usize = 2;
const BATCH: usize = 32;
const TABLE_WRITE_BATCH: usize = 32;
/// Intervals that are tried, in milliseconds.
const STEPS_MS: [u64; 16] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    1_200_000, 1_800_000, 3_600_000,
];

/// Fills what `shape` leaves open for a new store at `url`; elsewhere nothing, nor if it names a
/// preset.
///
/// # Errors
/// [`crate::Error::Usage`] for a shape out of its limits.
pub fn shape_for(shape: &ShapeArgs, url: &str) -> Result<ShapeArgs> {
    let is_table = is_table(url);
    if !charges_for_requests(url) || shape.preset.is_some() {
        return Ok(shape.clone());
    }
    let open = ShapeArgs {
        read_batches: Some(READ_BATCHES),
        batch: Some(BATCH),
        write_batch: is_table.then_some(TABLE_WRITE_BATCH),
        ..ShapeArgs::default()
    };
    let shape = shape.clone().or(open);
    if shape.interval_ms.is_some() {
        return Ok(shape);
    }
    let config = StoreConfig::derive(&shape, false)?;
    Ok(ShapeArgs { interval_ms: Some(interval_for(&config, url)?), ..shape })
}

/// The interval of a new store at `url` like `config`, of which nobody has said one.
///
/// # Errors
/// [`crate::Error::Usage`] for a shape out of its limits.
pub fn interval_for(config: &StoreConfig, url: &str) -> Result<u64> {
    match charges_for_requests(url) {
        true => Ok(thrifty(config, url, &prices(None, url)?)?.interval_ms),
        false => Ok(config.interval_ms),
    }
}

fn charges_for_requests(url: &str) -> bool {
    is_table(url) || fogbank_objects::ObjectsUrl::is_one(url)
}

fn is_table(url: &str) -> bool {
    url.starts_with("dynamodb:")
}

/// A pace at which the epochs of a store could come, and what it would mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// The interval.
    pub interval_ms: u64,
    /// Seconds from a request to its answer at the most.
    pub answers_s: f64,
    /// A month, in US dollars.
    pub month_usd: f64,
    running_usd: f64,
    /// Whether a batch is here before the next one leaves.
    keeps_up: bool,
}

impl Pace {
    /// That of a store like `config` at another interval.
    fn of(config: &StoreConfig, interval_ms: u64, url: &str, prices: &Prices) -> Result<Self> {
        let config = StoreConfig { interval_ms, ..config.clone() };
        let (link, _) = link_to(url, &LinkArgs::default());
        let (bill, Plan { epoch, .. }) = Bill::of_store(&config, url, &link, prices)?;
        Ok(Self {
            interval_ms,
            answers_s: 2.0 * epoch.total_s,
            month_usd: bill.usd(),
            running_usd: bill.usd() - bill.storage_usd,
            keeps_up: epoch.read_batch_s <= interval_ms as f64 / 1e3,
        })
    }

    fn is_thrifty(&self) -> bool {
        self.month_usd < MONTH_USD || self.running_usd < RUNNING_USD_MIN
    }

    /// The pace in words.
    pub fn words(&self) -> String {
        format!(
            "a store made with --interval-ms {} answers within {} for {} a month",
            self.interval_ms,
            seconds(self.answers_s),
            usd(self.month_usd)
        )
    }
}

/// The shortest interval at which a month costs little; the longest if none does.
fn thrifty(config: &StoreConfig, url: &str, prices: &Prices) -> Result<Pace> {
    let mut pace = Pace::of(config, STEPS_MS[0], url, prices)?;
    for step in STEPS_MS {
        pace = Pace::of(config, step, url, prices)?;
        if pace.keeps_up && pace.is_thrifty() {
            break;
        }
    }
    Ok(pace)
}

/// What stands beside the bill of a store in such a cloud: the thrifty pace if its own is not,
/// otherwise one at which it would answer in a third of the time or less, if the cloud is near
/// enough.
///
/// # Errors
/// [`crate::Error::Usage`] for a shape out of its limits.
pub fn another_pace(config: &StoreConfig, url: &str, prices: &Prices) -> Result<Option<Pace>> {
    let charges = prices.get_usd_per_1000 > 0.0;
    if config.interval_ms == 0 || !charges {
        return Ok(None);
    }
    if !Pace::of(config, config.interval_ms, url, prices)?.is_thrifty() {
        return thrifty(config, url, prices).map(Some);
    }
    for step in STEPS_MS.into_iter().rev().filter(|step| 3 * step <= config.interval_ms) {
        let pace = Pace::of(config, step, url, prices)?;
        if pace.keeps_up {
            return Ok(Some(pace));
        }
    }
    Ok(None)
}

/// Seconds as people say them.
pub fn seconds(s: f64) -> String {
    match s {
        few if few < 1.0 => format!("{few:.2} s"),
        few if few < 10.0 => format!("{few:.1} s"),
        many => format!("{many:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(url: &str, edit: impl FnOnce(&mut ShapeArgs)) -> (StoreConfig, Bill) {
        let mut args = ShapeArgs::default();
        edit(&mut args);
        let config = StoreConfig::derive(&shape_for(&args, url).unwrap(), false).unwrap();
        let link = link_to(url, &LinkArgs::default()).0;
        let (bill, _) = Bill::of_store(&config, url, &link, &prices(None, url).unwrap()).unwrap();
        (config, bill)
    }

    #[test]
    fn a_month_stays_below_a_hundred_dollars_where_nothing_is_said() {
        for url in ["s3://b", "az://c", "gs://b/p", "dynamodb://t/p"] {
            let (config, bill) = made(url, |_| ());
            assert!(bill.usd() < MONTH_USD && bill.usd() > MONTH_USD / 4.0, "{url}: {bill:?}");
            let pace = another_pace(&config, url, &prices(None, url).unwrap()).unwrap().unwrap();
            assert!(pace.interval_ms < config.interval_ms && pace.month_usd > bill.usd());
            assert!(pace.words().contains("--interval-ms"), "{}", pace.words());
            // A larger one comes less often, if it has to.
            let (larger, bill) = made(url, |args| args.batch = Some(500));
            assert!(larger.interval_ms > config.interval_ms && bill.usd() < MONTH_USD, "{url}");
        }
    }

    #[test]
    fn what_is_said_counts_and_the_thrifty_pace_stands_beside_it() {
        let url = "s3://b";
        let (config, bill) = made(url, |args| args.interval_ms = Some(100));
        assert_eq!((config.interval_ms, config.batch), (100, BATCH));
        assert!(bill.usd() > MONTH_USD);
        let pace = another_pace(&config, url, &prices(None, url).unwrap()).unwrap().unwrap();
        assert!(pace.month_usd < MONTH_USD && pace.interval_ms > 100, "{pace:?}");
        assert_eq!(pace.interval_ms, made(url, |_| ()).0.interval_ms);
        let given = ShapeArgs { batch: Some(7), read_batches: Some(5), ..ShapeArgs::default() };
        let shape = shape_for(&given, url).unwrap();
        assert_eq!((shape.batch, shape.read_batches), (Some(7), Some(5)));
    }

    #[test]
    fn elsewhere_nothing_changes() {
        for url in ["file:///x", "memory:", "grpc://h:1/t"] {
            let shape = shape_for(&ShapeArgs::default(), url).unwrap();
            assert!(shape.flags().is_empty(), "{url}");
            let config = StoreConfig::derive(&shape, false).unwrap();
            let pace = another_pace(&config, url, &prices(None, url).unwrap()).unwrap();
            assert_eq!(pace, None, "{url}");
        }
    }

    /// What storage alone costs more than leaves the epochs something, and no endless search.
    #[test]
    fn a_huge_store_still_has_a_pace() {
        let (config, bill) = made("s3://b", |args| {
            (args.capacity, args.value_size) =
                (Some(100_000_000), Some(bytesize::ByteSize::kib(4)));
        });
        assert!(bill.storage_usd > MONTH_USD / 2.0, "{bill:?}");
        let running = bill.usd() - bill.storage_usd;
        assert!(running < RUNNING_USD_MIN && config.interval_ms < 3_600_000, "{bill:?}");
    }
}
