//! Stock level (clause 2.8): how many of the items ordered last in a district are low in stock.
//!
//! 1. The number of the next order.
//! 2. In one round: the lines of the twenty orders before it.
//! 3. In one round: what the warehouse has of all items in them, each once.

use std::collections::BTreeSet;

use async_trait::async_trait;
use fogbank_env::Stream;
use fogbank_txn::Key;

use super::keys::{self, Place};
use super::orders::Lines;
use super::rows::{Found, Number, Row, Stock};
use super::{STOCK_LEVEL, Tpcc, draws};
use crate::chance::between;
use crate::database::{Effect, Procedure, Result, Statements};

/// Orders that are looked at.
const ORDERS: u32 = 20;

/// A question for what is low in stock.
pub(super) struct StockLevel {
    at: Place,
    /// Less than so many pieces are low.
    threshold: u32,
}

impl StockLevel {
    /// Draws one.
    pub fn draw(tpcc: &Tpcc, stream: &mut Stream) -> Self {
        Self { at: draws::home(tpcc, stream), threshold: between(10, 20, stream) }
    }

    /// Items of the latest orders.
    async fn items(&self, on: &dyn Statements) -> Result<BTreeSet<u32>> {
        let Number(next) = Number::of(on.get(&keys::next_order(self.at)).await?)?;
        let orders = next.saturating_sub(ORDERS).max(1)..next;
        let keys: Vec<Key> = orders.map(|order| keys::lines(self.at, order)).collect();
        let mut found = Found::of(on, &keys).await?;
        let mut items = BTreeSet::new();
        for _ in &keys {
            items.extend(found.row::<Lines>()?.lines.iter().map(|line| line.item));
        }
        Ok(items)
    }

    /// How many of `items` are low.
    async fn low(&self, items: &BTreeSet<u32>, on: &dyn Statements) -> Result<usize> {
        let keys: Vec<Key> =
            items.iter().map(|item| keys::stock(self.at.warehouse, *item)).collect();
        let mut found = Found::of(on, &keys).await?;
        let mut low = 0;
        for _ in &keys {
            low += usize::from(found.row::<Stock>()?.quantity < self.threshold);
        }
        Ok(low)
    }
}

#[async_trait]
impl Procedure for StockLevel {
    fn kind(&self) -> usize {
        STOCK_LEVEL
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let items = self.items(on).await?;
        // The number is shown and not kept.
        self.low(&items, on).await?;
        Ok(Effect::DONE)
    }
}
