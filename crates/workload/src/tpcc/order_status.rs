//! Order status (clause 2.6): what a customer ordered last, and how far it is.
//!
//! 1. A customer that goes by name is found.
//! 2. In one round: the customer and the number of the latest order.
//! 3. In one round: that order and its lines.

use async_trait::async_trait;
use fogbank_env::Stream;

use super::customers::{Customer, Namesakes, Who};
use super::keys::{self, Place};
use super::orders::{Lines, Order};
use super::rows::{Found, Number, Row};
use super::{ORDER_STATUS, Tpcc, draws};
use crate::database::{Effect, Error, Procedure, Result, Statements};

/// A question for a customer's latest order.
pub(super) struct OrderStatus {
    at: Place,
    who: Who,
}

impl OrderStatus {
    /// Draws one.
    pub fn draw(tpcc: &Tpcc, stream: &mut Stream) -> Self {
        Self { at: draws::home(tpcc, stream), who: draws::who(&tpcc.scale, stream) }
    }

    async fn order(&self, number: u32, customer: u32, on: &dyn Statements) -> Result<()> {
        let both = [keys::order(self.at, number), keys::lines(self.at, number)];
        let mut found = Found::of(on, &both).await?;
        let (order, lines) = (found.row::<Order>()?, found.row::<Lines>()?);
        if order.customer == customer && lines.lines.len() == order.lines as usize {
            return Ok(());
        }
        Err(Error::broken(format!("order {number} is not what customer {customer} ordered")))
    }
}

#[async_trait]
impl Procedure for OrderStatus {
    fn kind(&self) -> usize {
        ORDER_STATUS
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let customer = match self.who {
            Who::Number(number) => number,
            Who::Name(_) => Namesakes::of(on.get(&self.who.key(self.at)).await?)?.middle()?,
        };
        let both = [keys::customer(self.at, customer), keys::latest_order(self.at, customer)];
        let mut found = Found::of(on, &both).await?;
        found.row::<Customer>()?;
        // 0 stands for none yet.
        if let Number(number @ 1..) = found.row()? {
            self.order(number, customer, on).await?;
        }
        Ok(Effect::DONE)
    }
}
