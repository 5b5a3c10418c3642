//! The check: consistency conditions of clause 3.3.2, and the ledger.
//!
//! For every district, from what it says of itself (takings, next order, next delivery):
//!
//! 1. The takings of a warehouse are those of its districts.
//! 2. The order before the next number is there, and none with that number. If any order waits,
//!    that one is the newest of those that wait.
//! 3. All orders from the next delivery on wait, and none before.
//! 4. Every order from the first has as many lines as it says.
//!
//! Over all of them: orders since loading are as many as the ledger has, and takings since loading
//! are its sum. So nothing that was committed is missing, and nothing is there twice.
//!
//! Orders are read a few at a time: memory does not grow with their number.

use bytes::Bytes;
use fogbank_txn::Key;

use super::keys::{self, Place};
use super::loading::DISTRICT_TAKINGS;
use super::orders::{Lines, Order};
use super::rows::{Found, Number, Row, Takings};
use super::{NEW_ORDER, Tpcc};
use crate::database::{Database, Error, Result};
use crate::workload::{Ledger, read_all};

/// What all districts or warehouses have come to.
#[derive(Default)]
struct Totals {
    orders: i64,
    /// In cents.
    takings: i64,
}

/// What a district says of itself.
struct Head {
    at: Place,
    /// In cents.
    takings: i64,
    next_order: u32,
    next_delivery: u32,
}

/// Holds the database against all of it.
pub(super) async fn hold(tpcc: &Tpcc, database: &dyn Database, ledger: &Ledger) -> Result<()> {
    let mut totals = Totals::default();
    for warehouse in 1..=tpcc.warehouses {
        let mut districts = 0;
        for district in 1..=tpcc.scale.districts {
            let head = Head::read(Place { warehouse, district }, database).await?;
            head.hold(database).await?;
            districts += head.takings;
            totals.orders += i64::from(head.next_order) - 1 - i64::from(tpcc.scale.orders);
        }
        totals.takings += takings(warehouse, districts, database).await?;
    }
    totals.hold(tpcc, ledger)
}

/// Condition 1; what the warehouse has taken.
async fn takings(warehouse: u32, districts: i64, database: &dyn Database) -> Result<i64> {
    let records = read(database, [keys::warehouse_ytd(warehouse)]).await?;
    let Takings(own) = Found::from(records).row()?;
    if own == districts {
        return Ok(own);
    }
    Err(Error::broken(format!(
        "condition 1: warehouse {warehouse} has taken {own} cents, its districts {districts}"
    )))
}

impl Totals {
    fn hold(&self, tpcc: &Tpcc, ledger: &Ledger) -> Result<()> {
        let made = ledger.done.get(NEW_ORDER).copied().unwrap_or_default();
        if i128::from(self.orders) != i128::from(made) {
            return Err(Error::broken(format!(
                "ledger of orders: there are {} since loading, and {made} were made",
                self.orders
            )));
        }
        let districts = i64::from(tpcc.warehouses) * i64::from(tpcc.scale.districts);
        let since = self.takings - districts * DISTRICT_TAKINGS;
        if since == ledger.sum {
            return Ok(());
        }
        Err(Error::broken(format!(
            "ledger of payments: {since} cents were taken since loading, and {} were paid",
            ledger.sum
        )))
    }
}

impl Head {
    async fn read(at: Place, database: &dyn Database) -> Result<Self> {
        let keys = [keys::district_ytd(at), keys::next_order(at), keys::next_delivery(at)];
        let mut found = Found::from(read(database, keys).await?);
        let (Takings(takings), Number(next_order)) = (found.row()?, found.row()?);
        let Number(next_delivery) = found.row()?;
        Ok(Self { at, takings, next_order, next_delivery })
    }

    async fn hold(&self, database: &dyn Database) -> Result<()> {
        self.newest(database).await?;
        self.waiting(database).await?;
        self.lines(database).await
    }

    /// Condition 2.
    async fn newest(&self, database: &dyn Database) -> Result<()> {
        let (at, next) = (self.at, self.next_order);
        let last = next.saturating_sub(1);
        let keys = [
            keys::order(at, last),
            keys::order(at, next),
            keys::undelivered(at, last),
            keys::undelivered(at, next),
        ];
        let there: Vec<bool> = read(database, keys).await?.iter().map(Option::is_some).collect();
        // Where the last order is delivered already, all are, and none is the newest that waits.
        let waits = self.next_delivery < next;
        if there == [true, false, waits, false] {
            return Ok(());
        }
        Err(self.broken(2, format!("the next order is {next}, and orders do not end before it")))
    }

    /// Condition 3.
    async fn waiting(&self, database: &dyn Database) -> Result<()> {
        let (at, first, next) = (self.at, self.next_delivery, self.next_order);
        if first > next {
            return Err(self.broken(3, format!("order {first} is to be delivered, {next} made")));
        }
        let mut order = 1;
        read_all(
            database,
            (order..next).map(move |order| keys::undelivered(at, order)),
            |_, record| {
                let (this, waits) = (order, order >= first);
                order += 1;
                if record.is_some() == waits {
                    return Ok(());
                }
                let does = if waits { "does not wait" } else { "waits" };
                Err(self
                    .broken(3, format!("the next delivery is {first}, and order {this} {does}")))
            },
        )
        .await
    }

    /// Condition 4.
    async fn lines(&self, database: &dyn Database) -> Result<()> {
        let at = self.at;
        let keys = (1..self.next_order).flat_map(move |o| [keys::order(at, o), keys::lines(at, o)]);
        let (mut number, mut says) = (0, None);
        read_all(database, keys, |_, record| {
            let Some(expected) = says.take() else {
                number += 1;
                says = Some(self.count::<Order>(number, record, |order| order.lines as usize)?);
                return Ok(());
            };
            let lines = self.count::<Lines>(number, record, |lines| lines.lines.len())?;
            if lines == expected {
                return Ok(());
            }
            let what = format!("order {number} says it has {expected} lines, and has {lines}");
            Err(self.broken(4, what))
        })
        .await
    }

    fn count<R: Row>(
        &self,
        number: u32,
        record: Option<Bytes>,
        count: impl Fn(&R) -> usize,
    ) -> Result<usize> {
        let row =
            R::of(record).map_err(|error| self.broken(4, format!("order {number}: {error}")))?;
        Ok(count(&row))
    }

    fn broken(&self, condition: u32, what: String) -> Error {
        let Place { warehouse, district } = self.at;
        Error::broken(format!(
            "condition {condition}: warehouse {warehouse}, district {district}: {what}"
        ))
    }
}

async fn read<const N: usize>(
    database: &dyn Database,
    keys: [Key; N],
) -> Result<Vec<Option<Bytes>>> {
    let mut records = Vec::with_capacity(N);
    read_all(database, keys, |_, record| {
        records.push(record);
        Ok(())
    })
    .await?;
    Ok(records)
}
