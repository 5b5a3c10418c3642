//! Delivery (clause 2.7): the oldest order of every district of a warehouse is delivered.
//!
//! 1. In one round: the next order to deliver of all districts.
//! 2. In one round: these orders and their lines. A district that has none waiting is left out. What is
//!    known by then is written at once: other deliveries of the warehouse wait for nothing else.
//! 3. In one round: the customers, who are then written.

use async_trait::async_trait;
use fogbank_env::Stream;
use fogbank_txn::Key;

use super::customers::Customer;
use super::keys::{self, Place};
use super::orders::{Lines, Order};
use super::rows::{Found, Number, Row};
use super::{DELIVERY, Tpcc, draws};
use crate::chance::between;
use crate::database::{Effect, Procedure, Result, Statements};

/// A delivery to be made.
pub(super) struct Delivery {
    warehouse: u32,
    districts: u32,
    carrier: u32,
    date: i64,
}

/// An order that is next in its district.
#[derive(Debug, Clone, Copy)]
struct Next {
    at: Place,
    order: u32,
}

/// What a customer is to get.
struct Due {
    customer: Key,
    /// In cents.
    amount: i64,
}

impl Delivery {
    /// Draws one.
    pub fn draw(tpcc: &Tpcc, stream: &mut Stream) -> Self {
        Self {
            warehouse: draws::warehouse(tpcc, stream),
            districts: tpcc.scale.districts,
            carrier: between(1, 10, stream),
            date: draws::date(stream),
        }
    }

    /// The next order of each district, whether it has been made or not.
    async fn next(&self, on: &dyn Statements) -> Result<Vec<Next>> {
        let place = |district| Place { warehouse: self.warehouse, district };
        let places: Vec<Place> = (1..=self.districts).map(place).collect();
        let keys: Vec<Key> = places.iter().map(|at| keys::next_delivery(*at)).collect();
        let mut found = Found::of(on, &keys).await?;
        let mut next = |at| Ok(Next { at, order: found.row::<Number>()?.0 });
        places.into_iter().map(&mut next).collect()
    }

    /// Delivers those that are waiting; to whom.
    async fn orders(&self, all: &[Next], on: &dyn Statements) -> Result<Vec<Due>> {
        let keys: Vec<Key> = all.iter().flat_map(Next::keys).collect();
        let mut found = Found::of(on, &keys).await?;
        let mut due = Vec::with_capacity(all.len());
        for next in all {
            let [waiting, order, lines] = [found.record(), found.record(), found.record()];
            if waiting.is_some() {
                due.push(self.order(*next, Row::of(order)?, Row::of(lines)?, on).await?);
            }
        }
        Ok(due)
    }

    async fn order(
        &self,
        next: Next,
        order: Order,
        lines: Lines,
        on: &dyn Statements,
    ) -> Result<Due> {
        let after = Number(next.order.saturating_add(1));
        let due = Due { customer: keys::customer(next.at, order.customer), amount: lines.amount() };
        let [waiting_key, order_key, lines_key] = next.keys();
        on.put(&keys::next_delivery(next.at), after.record()).await?;
        on.delete(&waiting_key).await?;
        on.put(&order_key, Order { carrier: self.carrier, ..order }.record()).await?;
        on.put(&lines_key, Lines { delivered: self.date, ..lines }.record()).await?;
        Ok(due)
    }
}

#[async_trait]
impl Procedure for Delivery {
    fn kind(&self) -> usize {
        DELIVERY
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let next = self.next(on).await?;
        let due = self.orders(&next, on).await?;
        let keys: Vec<Key> = due.iter().map(|due| due.customer.clone()).collect();
        let mut found = Found::of(on, &keys).await?;
        for due in due {
            let mut customer: Customer = found.row()?;
            customer.receive(due.amount);
            on.put(&due.customer, customer.record()).await?;
        }
        Ok(Effect::DONE)
    }
}

impl Next {
    /// That it waits, the order, its lines.
    fn keys(&self) -> [Key; 3] {
        [
            keys::undelivered(self.at, self.order),
            keys::order(self.at, self.order),
            keys::lines(self.at, self.order),
        ]
    }
}
