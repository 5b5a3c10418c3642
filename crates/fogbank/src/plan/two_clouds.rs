//! What each of two clouds that shuffle for each other holds, sends and costs, and what passes
//! between them.
//!
//! Each provider bills what leaves it, to the client or to the other cloud, at its own prices. What
//! comes in is free at both, as everywhere. Both bills are the bill of the volume.

use fogbank_oram::multicloud::MulticloudSettings;

use super::bill::{Bill, SECONDS_A_MONTH, usd};
use super::lines::Line;
use super::price::Prices;
use super::size;
use crate::error::Result;

/// Of one of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CloudPlan {
    /// Bytes that it holds at most, once every block was written.
    pub storage_bytes: f64,
    /// Bytes that an access of the volume has it send to the client, on average.
    pub to_client_bytes: f64,
    /// The same to the other cloud.
    pub to_other_bytes: f64,
    /// What its provider asks.
    pub bill: Bill,
}

/// Of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoClouds {
    /// The first and the second.
    pub clouds: [CloudPlan; 2],
    /// Cells that an access moves between them, both ways together.
    pub cells_between: f64,
    /// Whether both ask the same, or nobody has said where the second is.
    pub are_priced_alike: bool,
}

impl TwoClouds {
    /// Of such a volume, the second cloud at the prices of the first if there are none of its own.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] if there is no such volume.
    pub fn of(
        settings: &MulticloudSettings,
        first: &Prices,
        second: Option<&Prices>,
    ) -> Result<Self> {
        let second = second.unwrap_or(first);
        let (cell, [of_first, of_second]) = (settings.cell_bytes()? as f64, settings.shares()?);
        let clouds = [(of_first, first), (of_second, second)].map(|(share, prices)| {
            let to_other_bytes = share.to_other_cells * cell;
            // No object, range or item: a server of our own, inside each cloud.
            let access = prices.of(0.0, 0.0, 0.0, share.to_client_bytes + to_other_bytes);
            let storage_usd = prices.storage_usd(share.storage_bytes);
            CloudPlan {
                storage_bytes: share.storage_bytes,
                to_client_bytes: share.to_client_bytes,
                to_other_bytes,
                bill: Bill::of_accesses(access, 0.0, None, storage_usd),
            }
        });
        let cells_between = settings.cells_between()?;
        Ok(Self { clouds, cells_between, are_priced_alike: first == second })
    }

    /// Bytes that an access moves between them, both ways together.
    pub fn bytes_between(&self) -> f64 {
        self.clouds.iter().map(|cloud| cloud.to_other_bytes).sum()
    }

    /// Both bills as one.
    pub fn bill(&self) -> Bill {
        let [first, second] = self.clouds.map(|cloud| cloud.bill);
        Bill {
            per_million: first.per_million.and(second.per_million),
            storage_usd: first.storage_usd + second.storage_usd,
            ..first
        }
    }

    /// In lines of a plan, of a volume that serves `per_s` accesses a second, if that is known.
    pub fn lines(&self, per_s: Option<f64>) -> Vec<Line> {
        let of = |cloud: &CloudPlan, other: &str| {
            let (to_you, to_other) = (size(cloud.to_client_bytes), size(cloud.to_other_bytes));
            format!(
                "holds {}; an access sends {to_you} to you, {to_other} to the {other}; {}",
                size(cloud.storage_bytes),
                of_month(&cloud.bill, per_s)
            )
        };
        let [first, second] = &self.clouds;
        let (between, rate) = (self.bytes_between(), per_s.unwrap_or(1.0));
        let month = size(between * rate * SECONDS_A_MONTH);
        let when = match per_s {
            Some(per_s) => format!("at {per_s:.0} accesses/s"),
            None => "for each access/s".into(),
        };
        let mut lines = vec![
            ("first cloud", of(first, "second")),
            ("second cloud", of(second, "first")),
            (
                "between the clouds",
                format!(
                    "{} an access, which is {:.1} cells; {month} a month {when}, day and night",
                    size(between),
                    self.cells_between
                ),
            ),
        ];
        if self.are_priced_alike {
            let rent = match self.bill().per_million.usd() > 0.0 {
                true => "",
                false => ", with traffic in the rent of the servers",
            };
            let own = "--prices FILE may have a table for one of them, named by its URL";
            lines.push(("both clouds", format!("at the same prices{rent}; {own}")));
        }
        lines
    }
}

/// What a cloud costs a month that serves nothing, and one that is busy all the time.
fn of_month(bill: &Bill, per_s: Option<f64>) -> String {
    let million = usd(bill.per_million.usd());
    let idle = format!("{} a month idle, {million} a million accesses", usd(bill.storage_usd));
    match per_s {
        None => idle,
        Some(per_s) => format!("{idle}, {} a month at {per_s:.0}/s", usd(bill.usd_at(per_s))),
    }
}

#[cfg(test)]
mod tests {
    use fogbank_oram::ImmediateShape;

    use super::*;

    fn settings() -> MulticloudSettings {
        let shape = ImmediateShape { capacity: 1 << 18, value_bytes: 4096 };
        MulticloudSettings::new(shape, 3).unwrap()
    }

    const FIRST: Prices = Prices {
        storage_usd_per_gb_month: 0.05,
        egress_usd_per_gb: 0.09,
        get_usd_per_1000: 0.0,
        get_bytes: None,
        put_usd_per_1000: 0.0,
        put_bytes: None,
        delete_usd_per_1000: 0.0,
    };

    fn near(one: f64, other: f64) {
        assert!((one - other).abs() <= 1e-9 * other.abs(), "{one} and {other}");
    }

    #[test]
    fn both_bills_are_the_bill_and_each_is_of_what_leaves_it() {
        let settings = settings();
        let plan = TwoClouds::of(&settings, &FIRST, None).unwrap();
        let cell = settings.cell_bytes().unwrap() as f64;
        near(plan.bytes_between(), settings.cells_between().unwrap() * cell);
        let [first, second] = plan.clouds;
        near(first.storage_bytes + second.storage_bytes, {
            settings.storage_bytes_max().unwrap() as f64
        });
        let down = settings.traffic().unwrap().down_bytes;
        near(first.to_client_bytes + second.to_client_bytes, down);
        for cloud in plan.clouds {
            let gb = (cloud.to_client_bytes + cloud.to_other_bytes) / 1e9;
            near(cloud.bill.per_million.usd(), 1e6 * gb * FIRST.egress_usd_per_gb);
            near(cloud.bill.storage_usd, cloud.storage_bytes / 1e9 * 0.05);
        }
        let whole = plan.bill();
        near(whole.usd(), first.bill.usd() + second.bill.usd());
        near(whole.usd_at(7.0), first.bill.usd_at(7.0) + second.bill.usd_at(7.0));
        // The whole of a month: storage, and all that leaves a cloud.
        let gb = (down + plan.bytes_between()) * 7.0 * SECONDS_A_MONTH / 1e9;
        near(whole.usd_at(7.0), whole.storage_usd + gb * FIRST.egress_usd_per_gb);
    }

    #[test]
    fn another_second_provider_changes_the_second_bill_alone() {
        let alike = TwoClouds::of(&settings(), &FIRST, None).unwrap();
        let other = Prices { egress_usd_per_gb: 0.01, storage_usd_per_gb_month: 0.1, ..FIRST };
        let apart = TwoClouds::of(&settings(), &FIRST, Some(&other)).unwrap();
        assert!(alike.are_priced_alike && !apart.are_priced_alike);
        assert_eq!(alike.clouds[0], apart.clouds[0]);
        let [before, now] = [alike, apart].map(|plan| plan.clouds[1]);
        assert_eq!(CloudPlan { bill: before.bill, ..now }, before, "nothing but its bill");
        near(now.bill.storage_usd, 2.0 * before.bill.storage_usd);
        near(now.bill.per_million.usd() * 9.0, before.bill.per_million.usd());
    }

    #[test]
    fn a_rate_is_said_with_what_it_moves() {
        let plan = TwoClouds::of(&settings(), &FIRST, None).unwrap();
        let said = |per_s| plan.lines(per_s).into_iter().map(|(_, said)| said).collect::<Vec<_>>();
        let month = size(plan.bytes_between() * 100.0 * SECONDS_A_MONTH);
        let (known, unknown) = (said(Some(100.0)), said(None));
        assert!(known[2].contains(&format!("{month} a month at 100 accesses/s")), "{known:?}");
        assert!(known[0].contains("a month at 100/s"), "{known:?}");
        assert!(unknown[2].contains("for each access/s"), "{unknown:?}");
        assert!(unknown[3].contains("same prices"), "{unknown:?}");
    }
}
