//! Delivery (clause 2.7): the oldest order of every district of a warehouse is delivered.
//!
//! 1. In one round: the next order to deliver of all districts.
//! 2. In one round: these orders and their lines. A district that has none waiting is left out.
//! 3. In one round: the customers.
//! 4. Everything is written, what all rivals have read first: who has only read until then has not
//!    lost to others because it waited, and loses to whoever reads it before it is written.
//!
//! All deliveries of a warehouse are rivals, and who loses needs the orders that come next. So each
//! asks for some of those, too, in the round in which it waits for its own, and for twice as many
//! whenever these are used up: otherwise there is one delivery in three rounds, and at a distance
//! everybody in the end waits for a delivery. In between it asks for nothing that is not its own,
//! for that would be one more round. A database that gains nothing by it
//! ([`Statements::gains_by_reading_ahead`]) is not asked for them.

use std::sync::atomic::{AtomicU32, Ordering};

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

/// Orders of a district that others may deliver meanwhile: at first, and at most.
const AHEAD: u32 = 8;
const AHEAD_MAX: u32 = 32;

/// A delivery to be made.
pub(super) struct Delivery {
    warehouse: u32,
    districts: u32,
    carrier: u32,
    date: i64,
    /// How many orders of a district it asks for beside its own, the next time it does.
    ahead: AtomicU32,
    /// Up to which order of its first district it has asked.
    asked: AtomicU32,
}

/// An order that is next in its district.
#[derive(Debug, Clone, Copy)]
struct Next {
    at: Place,
    order: u32,
}

/// An order that is waiting, as it was found.
struct Due {
    next: Next,
    order: Order,
    lines: Lines,
}

impl Delivery {
    /// Draws one.
    pub fn draw(tpcc: &Tpcc, stream: &mut Stream) -> Self {
        Self {
            warehouse: draws::warehouse(tpcc, stream),
            districts: tpcc.scale.districts,
            carrier: between(1, 10, stream),
            date: draws::date(stream),
            ahead: AtomicU32::new(AHEAD),
            asked: AtomicU32::new(0),
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

    /// How many orders to ask for beside those that begin with `first`.
    fn ahead(&self, first: u32) -> u32 {
        if first < self.asked.load(Ordering::Relaxed) {
            return 0;
        }
        let ahead = self.ahead.load(Ordering::Relaxed);
        self.ahead.store((2 * ahead).min(AHEAD_MAX), Ordering::Relaxed);
        self.asked.store(first.saturating_add(ahead), Ordering::Relaxed);
        ahead
    }

    /// Those that are waiting.
    async fn waiting(&self, all: Vec<Next>, on: &dyn Statements) -> Result<Vec<Due>> {
        let keys: Vec<Key> = all.iter().flat_map(Next::keys).collect();
        let first = all.first().map_or(0, |next| next.order);
        let ahead = if on.gains_by_reading_ahead() { self.ahead(first) } else { 0 };
        let after: Vec<Next> = all.iter().flat_map(|next| next.after(ahead)).collect();
        let hinted: Vec<Key> = after.iter().flat_map(Next::keys).collect();
        on.prefetch(&hinted).await?;
        let orders = after.iter().map(|next| keys::order(next.at, next.order));
        let keys: Vec<Key> = keys.into_iter().chain(orders).collect();
        let mut found = Found::of(on, &keys).await?;
        let mut due = Vec::with_capacity(all.len());
        for next in all {
            let [waiting, order, lines] = [found.record(), found.record(), found.record()];
            if waiting.is_some() {
                due.push(Due { next, order: Row::of(order)?, lines: Row::of(lines)? });
            }
        }
        let mut customers = Vec::with_capacity(after.len());
        for next in after {
            if let Some(order) = found.record() {
                customers.push(keys::customer(next.at, Order::of(Some(order))?.customer));
            }
        }
        on.prefetch(&customers).await?;
        Ok(due)
    }

    /// Delivers one.
    async fn deliver(&self, due: Due, on: &dyn Statements) -> Result<()> {
        let Due { next, order, lines } = due;
        let [waiting_key, order_key, lines_key] = next.keys();
        on.delete(&waiting_key).await?;
        on.put(&order_key, Order { carrier: self.carrier, ..order }.record()).await?;
        on.put(&lines_key, Lines { delivered: self.date, ..lines }.record()).await
    }
}

#[async_trait]
impl Procedure for Delivery {
    fn kind(&self) -> usize {
        DELIVERY
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let next = self.next(on).await?;
        let due = self.waiting(next, on).await?;
        let keys: Vec<Key> = due.iter().map(Due::customer).collect();
        let mut found = Found::of(on, &keys).await?;
        let mut customers = Vec::with_capacity(due.len());
        for due in &due {
            let mut customer: Customer = found.row()?;
            customer.receive(due.lines.amount());
            customers.push(customer);
        }
        for Due { next, .. } in &due {
            let after = Number(next.order.saturating_add(1));
            on.put(&keys::next_delivery(next.at), after.record()).await?;
        }
        for (key, customer) in keys.iter().zip(customers) {
            on.put(key, customer.record()).await?;
        }
        for due in due {
            self.deliver(due, on).await?;
        }
        Ok(Effect::DONE)
    }
}

impl Due {
    fn customer(&self) -> Key {
        keys::customer(self.next.at, self.order.customer)
    }
}

impl Next {
    /// So many that come after it.
    fn after(&self, ahead: u32) -> impl Iterator<Item = Self> {
        let (at, order) = (self.at, self.order);
        (1..=ahead).map(move |ahead| Self { at, order: order.saturating_add(ahead) })
    }

    /// That it waits, the order, its lines.
    fn keys(&self) -> [Key; 3] {
        [
            keys::undelivered(self.at, self.order),
            keys::order(self.at, self.order),
            keys::lines(self.at, self.order),
        ]
    }
}
