//! TPC-C: a wholesale supplier with warehouses, districts, customers, orders and stock (revision
//! 5.11).
//!
//! 1. Five transactions run in the standard mix. Numbers and names are drawn as the specification
//!    says (clause 2.1.6); what a transaction draws stays the same however often it is run.
//! 2. A warehouse and a district are several records each: name, address and tax, which nobody
//!    writes; the takings of the year, which payments write; the number of the next order, which
//!    new orders write; the next order to deliver, which deliveries write. As one record, all these
//!    would conflict.
//! 3. The lines of an order are one record. Tables are added as in Obladi's evaluation (OSDI 2018):
//!    customers by last name, and a customer's latest order. Nothing is scanned.
//! 4. A transaction reads what is hot last, right before it writes it, and asks for it to be
//!    fetched when it begins. Whoever holds a read of a hot record for a round loses to all that
//!    come in that time.
//! 5. What leads to other records (the number of the next order, a customer's latest) is written
//!    after them: whoever is shown writes of a transaction that has not committed finds no loose
//!    end.
//!
//! Invariants, held after each run: the consistency conditions 1 to 4 of clause 3.3.2, and as many
//! orders and as much money as committed transactions have entered.
//!
//! Warehouses, districts, customers, items and orders are counted from one. Money is in cents;
//! taxes and discounts are in parts of ten thousand; dates are in milliseconds.

mod conditions;
mod customers;
mod delivery;
mod draws;
mod keys;
mod loading;
mod new_order;
mod order_status;
mod orders;
mod payment;
mod rows;
mod stock_level;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_env::Stream;

use crate::chance;
use crate::database::{Database, Procedure, Result};
use crate::workload::{Ledger, Records, Workload};

const NEW_ORDER: usize = 0;
const PAYMENT: usize = 1;
const ORDER_STATUS: usize = 2;
const DELIVERY: usize = 3;
const STOCK_LEVEL: usize = 4;

const KINDS: [(&str, u32); 5] =
    [("new order", 45), ("payment", 43), ("order status", 4), ("delivery", 4), ("stock level", 4)];

/// TPC-C.
#[derive(Debug, Clone, Copy)]
pub struct Tpcc {
    /// Warehouses; at least one.
    pub warehouses: u32,
    /// How large each of them is.
    pub scale: Scale,
}

/// How much there is at first. All but `undelivered` are at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Items, and stocks of each warehouse.
    pub items: u32,
    /// Districts of a warehouse.
    pub districts: u32,
    /// Customers of a district.
    pub customers: u32,
    /// Orders of a district.
    pub orders: u32,
    /// How many of a district's orders, the newest ones, are not delivered yet.
    pub undelivered: u32,
}

impl Tpcc {
    /// With as many warehouses, but at least one.
    pub fn new(warehouses: u32, scale: Scale) -> Self {
        Self { warehouses: warehouses.max(1), scale }
    }
}

impl Scale {
    /// As the specification says: about 270,000 records a warehouse.
    pub fn full() -> Self {
        Self { items: 100_000, districts: 10, customers: 3_000, orders: 3_000, undelivered: 900 }
    }

    /// For tests: about 200 records a warehouse.
    pub fn small() -> Self {
        Self { items: 50, districts: 2, customers: 12, orders: 12, undelivered: 4 }
    }

    /// Last names: three customers of a district share one on average, in the specification too.
    fn names(&self) -> u32 {
        (self.customers / 3).clamp(1, draws::NAMES)
    }

    /// The first order that is not delivered yet.
    fn first_undelivered(&self) -> u32 {
        self.orders.saturating_sub(self.undelivered) + 1
    }
}

#[async_trait]
impl Workload for Tpcc {
    fn name(&self) -> &str {
        "TPC-C"
    }

    fn kinds(&self) -> Vec<(&str, u32)> {
        KINDS.to_vec()
    }

    fn records(&self) -> Records<'_> {
        Box::new(loading::records(*self))
    }

    fn draw(&self, stream: &mut Stream) -> Box<dyn Procedure> {
        match chance::kind(&KINDS, stream) {
            PAYMENT => Box::new(payment::Payment::draw(self, stream)),
            ORDER_STATUS => Box::new(order_status::OrderStatus::draw(self, stream)),
            DELIVERY => Box::new(delivery::Delivery::draw(self, stream)),
            STOCK_LEVEL => Box::new(stock_level::StockLevel::draw(self, stream)),
            _ => Box::new(new_order::NewOrder::draw(self, stream)),
        }
    }

    fn fresh(&self) -> Arc<dyn Workload> {
        Arc::new(*self)
    }

    async fn check(&self, database: &dyn Database, ledger: &Ledger) -> Result<()> {
        conditions::hold(self, database, ledger).await
    }
}
