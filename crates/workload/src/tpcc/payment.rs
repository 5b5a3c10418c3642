//! Payment (clause 2.5): a customer pays, and warehouse and district take it in.
//!
//! 1. In one round: warehouse, district and customer; a customer that goes by name takes one more.
//! 2. The takings of warehouse and district are read last. They have been fetched since the
//!    beginning.
//! 3. They are written within the same moment, then customer and history.

use async_trait::async_trait;
use fogbank_env::Stream;
use fogbank_txn::Key;
use rand::RngExt;

use super::customers::{Customer, Namesakes, Who, history};
use super::keys::{self, Place};
use super::rows::{Found, Row, Site, Takings};
use super::{PAYMENT, Tpcc, draws};
use crate::chance::between;
use crate::database::{Effect, Procedure, Result, Statements};

/// A payment to be made.
pub(super) struct Payment {
    /// Where it is paid.
    home: Place,
    /// Where the customer is at home.
    at: Place,
    who: Who,
    /// In cents.
    amount: u32,
    date: i64,
    /// Names the payment among those of the customer.
    unique: u64,
}

impl Payment {
    /// Draws one.
    pub fn draw(tpcc: &Tpcc, stream: &mut Stream) -> Self {
        let home = draws::home(tpcc, stream);
        let at = match draws::remote(0.15, home.warehouse, tpcc, stream) {
            Some(warehouse) => Place { warehouse, ..draws::home(tpcc, stream) },
            None => home,
        };
        Self {
            home,
            at,
            who: draws::who(&tpcc.scale, stream),
            amount: between(100, 500_000, stream),
            date: draws::date(stream),
            // 0 is the payment that is there at first.
            unique: stream.random_range(1..=u64::MAX),
        }
    }

    async fn put_customer(
        &self,
        number: u32,
        mut customer: Customer,
        sites: &[Site; 2],
        on: &dyn Statements,
    ) -> Result<()> {
        let (at, home, amount) = (self.at, self.home, i64::from(self.amount));
        let note = format!(
            "{number} {} {} {} {} {amount}|",
            at.district, at.warehouse, home.district, home.warehouse
        );
        customer.pay(amount, &note);
        on.put(&keys::customer(at, number), customer.record()).await?;
        let [warehouse, district] = sites.each_ref().map(|site| &site.name[..]);
        let data = [warehouse, b"    ", district].concat();
        let paid = history(home, self.date, amount, &data);
        on.put(&keys::history(at, number, self.unique), paid).await
    }

    async fn take_in(&self, on: &dyn Statements) -> Result<()> {
        let hot = self.hot();
        let mut found = Found::of(on, &hot).await?;
        for key in &hot {
            let Takings(before) = found.row()?;
            on.put(key, Takings(before + i64::from(self.amount)).record()).await?;
        }
        Ok(())
    }

    fn hot(&self) -> [Key; 2] {
        [keys::warehouse_ytd(self.home.warehouse), keys::district_ytd(self.home)]
    }
}

#[async_trait]
impl Procedure for Payment {
    fn kind(&self) -> usize {
        PAYMENT
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        on.prefetch(&self.hot()).await?;
        let cold = [
            keys::warehouse(self.home.warehouse),
            keys::district(self.home),
            self.who.key(self.at),
        ];
        let mut found = Found::of(on, &cold).await?;
        let sites = [found.row()?, found.row()?];
        let (number, customer) = match self.who {
            Who::Number(number) => (number, found.row()?),
            Who::Name(_) => {
                let number = found.row::<Namesakes>()?.middle()?;
                (number, Customer::of(on.get(&keys::customer(self.at, number)).await?)?)
            }
        };
        self.take_in(on).await?;
        self.put_customer(number, customer, &sites, on).await?;
        Ok(Effect { done: true, sum: self.amount.into() })
    }
}
