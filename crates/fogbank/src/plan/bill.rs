//! The bill: what a month of a store costs, its requests, its storage and its traffic apart.
//!
//! Epochs never stop, used or not, so the bill of a store that runs day and night is known before
//! it is made. A volume that serves accesses as they come sends when it is asked, so its bill is
//! storage, and so much an access; at a fixed rate it is known, too. Traffic is what leaves the
//! cloud for a proxy outside of it.

use fogbank_oram::immediate::Rate;

use super::Plan;
use super::price::{self, Prices, Spent};
use super::requests::Requests;
use super::time::Machine;
use crate::config::StoreConfig;
use crate::error::Result;
use crate::link::LinkArgs;

/// Seconds of a month.
pub const SECONDS_A_MONTH: f64 = 365.25 / 12.0 * 86_400.0;
const SECONDS_A_DAY: f64 = 86_400.0;

/// What a store or a volume costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bill {
    /// A million accesses, reads and writes alike.
    pub per_million: Spent,
    /// Requests and traffic of a month, used or not; none if they follow what is asked for, or if
    /// epochs run as fast as they can.
    pub running: Option<Spent>,
    /// Storage of a month.
    pub storage_usd: f64,
    /// Bytes written to the store in a day, used or not; none where `running` is.
    pub written_a_day: Option<f64>,
}

impl Bill {
    /// Of a store whose epochs are those of `plan`.
    pub fn of_epochs(
        config: &StoreConfig,
        plan: &Plan,
        requests: &Requests,
        prices: &Prices,
    ) -> Self {
        let epoch = price::of_epoch(prices, config, &plan.traffic, requests);
        let runs = config.interval_ms > 0;
        let written = plan.traffic.bytes_written(config);
        Self {
            per_million: epoch.times(1e6 / plan.accesses),
            running: runs.then(|| epoch.times(SECONDS_A_MONTH / plan.epoch.total_s)),
            storage_usd: prices.storage_usd(plan.storage_bytes),
            written_a_day: runs.then(|| written * SECONDS_A_DAY / plan.epoch.total_s),
        }
    }

    /// The same across a link, by a machine that costs no time: for whoever has no moment to try
    /// it.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] if the shape is out of the engine's limits.
    pub fn of_store(
        config: &StoreConfig,
        url: &str,
        link: &LinkArgs,
        prices: &Prices,
    ) -> Result<(Self, Plan)> {
        let plan = Plan::of(config, link, &Machine::IDEAL)?;
        let requests = Requests::of(config, &plan.traffic, url);
        Ok((Self::of_epochs(config, &plan, &requests, prices), plan))
    }

    /// Of an engine that serves accesses as they come: what each of them costs and sends is known,
    /// and at a fixed rate how many there are.
    pub fn of_accesses(access: Spent, up_bytes: f64, rate: Option<Rate>, storage_usd: f64) -> Self {
        let per_s = rate.map(|rate| rate.accesses as f64 * 1e9 / rate.interval as f64);
        Self {
            per_million: access.times(1e6),
            running: per_s.map(|per_s| access.times(per_s * SECONDS_A_MONTH)),
            storage_usd,
            written_a_day: per_s.map(|per_s| per_s * up_bytes * SECONDS_A_DAY),
        }
    }

    /// All of a month; storage alone where the rest is not known.
    pub fn usd(&self) -> f64 {
        self.storage_usd + self.running.map_or(0.0, |running| running.usd())
    }

    /// A month of so many accesses a second, day and night.
    pub fn usd_at(&self, per_s: f64) -> f64 {
        self.storage_usd + self.per_million.usd() / 1e6 * per_s * SECONDS_A_MONTH
    }

    /// A month in words, of what sends `when`.
    pub fn words(&self, when: &str) -> String {
        let storage = usd(self.storage_usd);
        match self.running {
            Some(Spent { requests_usd, traffic_usd }) => format!(
                "{} a month, {when}: requests {}, traffic {}, storage {storage}",
                usd(self.usd()),
                usd(requests_usd),
                usd(traffic_usd)
            ),
            None => format!(
                "{} a million accesses; idle, {storage} a month for storage",
                usd(self.per_million.usd())
            ),
        }
    }
}

/// Dollars as people say them.
pub fn usd(usd: f64) -> String {
    match usd {
        0.0 => "$ 0".into(),
        few if few < 0.01 => "less than $ 0.01".into(),
        few if few < 10.0 => format!("$ {few:.2}"),
        many => format!("$ {many:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ShapeArgs;
    use crate::plan::price::prices;

    fn of(interval_ms: u64, url: &str) -> Bill {
        let shape = ShapeArgs { interval_ms: Some(interval_ms), ..ShapeArgs::default() };
        let config = StoreConfig::derive(&shape, false).unwrap();
        let prices = prices(None, url).unwrap();
        Bill::of_store(&config, url, &LinkArgs::default(), &prices).unwrap().0
    }

    #[test]
    fn a_month_is_its_requests_its_storage_and_its_traffic() {
        let (slow, fast) = (of(2_000, "s3://b"), of(1_000, "s3://b"));
        let running = slow.running.unwrap();
        assert!(running.requests_usd > running.traffic_usd && running.traffic_usd > 0.0);
        assert_eq!(slow.usd(), running.requests_usd + running.traffic_usd + slow.storage_usd);
        assert!((fast.running.unwrap().usd() / running.usd() - 2.0).abs() < 1e-9);
        let told = slow.words("busy or idle");
        for part in ["a month, busy or idle", "requests $ ", "traffic $ ", "storage $ "] {
            assert!(told.contains(part), "{told}");
        }
        let free = of(0, "s3://b");
        assert_eq!(free.usd(), free.storage_usd);
        assert!(free.words("busy or idle").contains("a million accesses"));
    }

    #[test]
    fn a_disk_costs_nothing_and_wears() {
        let bill = of(2_000, "file:///x");
        assert_eq!((bill.usd(), bill.per_million.usd()), (0.0, 0.0));
        let (once, twice) = (bill.written_a_day.unwrap(), of(1_000, "file:///x").written_a_day);
        assert!(once > 1e6 && (twice.unwrap() / once - 2.0).abs() < 1e-9);
    }

    #[test]
    fn dollars_are_said_as_people_say_them() {
        let said = [0.0, 0.004, 0.126, 9.5, 87.4].map(usd);
        assert_eq!(said, ["$ 0", "less than $ 0.01", "$ 0.13", "$ 9.50", "$ 87"]);
    }
}
