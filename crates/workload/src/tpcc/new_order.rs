//! New order (clause 2.4): a customer orders 5 to 15 items.
//!
//! 1. In one round: taxes, the customer, all items and stocks. An item that is not there declines
//!    the order, as one in a hundred has it, before anything is written.
//! 2. The number of the next order is read last. It has been fetched since the beginning.
//! 3. Everything is written within the same moment, that number last: whoever sees it sees the
//!    order.

use async_trait::async_trait;
use fogbank_env::Stream;
use fogbank_txn::Key;

use super::customers::Customer;
use super::keys::{self, Place};
use super::orders::{self, Line, Lines, Order};
use super::rows::{Found, Item, Number, Row, Site, Stock};
use super::{NEW_ORDER, Tpcc, draws};
use crate::chance::{between, happens};
use crate::database::{Effect, Error, Procedure, Result, Statements};

/// An order to be made.
pub(super) struct NewOrder {
    home: Place,
    customer: u32,
    /// No item twice, so that no stock is written twice.
    wanted: Vec<Wanted>,
    date: i64,
}

#[derive(Debug, Clone, Copy)]
struct Wanted {
    item: u32,
    supply: u32,
    quantity: u32,
}

/// What an order takes, and the stocks after it.
struct Taken {
    lines: Vec<Line>,
    stocks: Vec<Stock>,
}

impl NewOrder {
    /// Draws one.
    pub fn draw(tpcc: &Tpcc, stream: &mut Stream) -> Self {
        let home = draws::home(tpcc, stream);
        let customer = draws::customer(&tpcc.scale, stream);
        let count = between(orders::FEWEST, orders::MOST, stream).min(tpcc.scale.items);
        let mut wanted = Vec::with_capacity(count as usize);
        for _ in 0..count {
            wanted.push(wanted_beside(&wanted, home.warehouse, tpcc, stream));
        }
        if let (Some(last), true) = (wanted.last_mut(), happens(0.01, stream)) {
            last.item = tpcc.scale.items + 1;
        }
        Self { home, customer, wanted, date: draws::date(stream) }
    }

    /// Warehouse, district, customer, then items, then stocks.
    fn cold(&self) -> Vec<Key> {
        let mut all = vec![
            keys::warehouse(self.home.warehouse),
            keys::district(self.home),
            keys::customer(self.home, self.customer),
        ];
        all.extend(self.wanted.iter().map(|wanted| keys::item(wanted.item)));
        all.extend(self.wanted.iter().map(|wanted| keys::stock(wanted.supply, wanted.item)));
        all
    }

    /// What the order takes; none if an item is not there.
    fn take(&self, found: &mut Found) -> Result<Option<Taken>> {
        let sites = [found.row::<Site>()?, found.row::<Site>()?];
        let customer: Customer = found.row()?;
        let items: Vec<Option<Item>> =
            self.wanted.iter().map(|_| found.row_if_any()).collect::<Result<_>>()?;
        let Some(items) = items.into_iter().collect::<Option<Vec<Item>>>() else {
            return Ok(None);
        };
        let mut taken = Taken { lines: Vec::new(), stocks: Vec::new() };
        for (wanted, item) in self.wanted.iter().zip(&items) {
            let mut stock: Stock = found.row()?;
            stock.take(wanted.quantity, wanted.supply != self.home.warehouse);
            taken.lines.push(wanted.line(item, &stock, self.home.district));
            taken.stocks.push(stock);
        }
        bill(&taken.lines, &customer, &sites)?;
        Ok(Some(taken))
    }

    async fn put_stocks(&self, stocks: &[Stock], on: &dyn Statements) -> Result<()> {
        for (wanted, stock) in self.wanted.iter().zip(stocks) {
            on.put(&keys::stock(wanted.supply, wanted.item), stock.record()).await?;
        }
        Ok(())
    }

    async fn put_order(&self, number: u32, lines: Vec<Line>, on: &dyn Statements) -> Result<()> {
        let order = Order {
            customer: self.customer,
            entered: self.date,
            carrier: 0,
            lines: lines.len() as u32,
            local: lines.iter().all(|line| line.supply == self.home.warehouse),
        };
        let lines = Lines { delivered: 0, lines };
        on.put(&keys::order(self.home, number), order.record()).await?;
        on.put(&keys::lines(self.home, number), lines.record()).await?;
        let waiting = orders::undelivered(self.home, number);
        on.put(&keys::undelivered(self.home, number), waiting).await?;
        on.put(&keys::latest_order(self.home, self.customer), Number(number).record()).await
    }
}

#[async_trait]
impl Procedure for NewOrder {
    fn kind(&self) -> usize {
        NEW_ORDER
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let next = keys::next_order(self.home);
        on.prefetch(std::slice::from_ref(&next)).await?;
        let mut found = Found::of(on, &self.cold()).await?;
        let Some(taken) = self.take(&mut found)? else {
            return Ok(Effect::DECLINED);
        };
        let Number(number) = Number::of(on.get(&next).await?)?;
        self.put_stocks(&taken.stocks, on).await?;
        self.put_order(number, taken.lines, on).await?;
        on.put(&next, Number(number.saturating_add(1)).record()).await?;
        Ok(Effect::DONE)
    }
}

impl Wanted {
    fn line(&self, item: &Item, stock: &Stock, district: u32) -> Line {
        Line {
            item: self.item,
            supply: self.supply,
            quantity: self.quantity,
            amount: item.price.saturating_mul(self.quantity),
            info: stock.info(district),
        }
    }
}

/// One more line of an order: where an item is drawn that is among the others, the next one that is
/// not.
fn wanted_beside(others: &[Wanted], home: u32, tpcc: &Tpcc, stream: &mut Stream) -> Wanted {
    let mut item = draws::item(&tpcc.scale, stream);
    while others.iter().any(|other| other.item == item) {
        item = item % tpcc.scale.items + 1;
    }
    let supply = draws::remote(0.01, home, tpcc, stream).unwrap_or(home);
    Wanted { item, supply, quantity: between(1, 10, stream) }
}

/// What the customer has to pay, in cents. It is shown and not kept; one that cannot be is an
/// error.
fn bill(lines: &[Line], customer: &Customer, sites: &[Site; 2]) -> Result<i128> {
    const WHOLE: i128 = 10_000;
    let all: i128 = lines.iter().map(|line| i128::from(line.amount)).sum();
    let taxes: i128 = sites.iter().map(|site| i128::from(site.tax)).sum();
    let bill = all * (WHOLE - i128::from(customer.discount)) * (WHOLE + taxes) / (WHOLE * WHOLE);
    if bill > 0 { Ok(bill) } else { Err(Error::broken("an order costs nothing")) }
}
