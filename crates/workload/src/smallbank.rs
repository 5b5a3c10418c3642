//! SmallBank: customers with a checking and a savings account each (Alomari et al., ICDE 2008).
//!
//! 1. A customer is found by name, which gives the number of the accounts.
//! 2. Six transactions read and write one or two accounts, in the usual mix.
//!
//! Invariant, held after each run: all money is what it was at first and what committed deposits,
//! withdrawals and penalties have changed.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Stream;
use fogbank_txn::Key;
use rand::RngExt;

use crate::chance;
use crate::database::{Database, Effect, Error, Procedure, Result, Statements};
use crate::workload::{Ledger, Records, Workload, read_all};

/// Money that every account begins with, in cents.
const OPENING_BALANCE: i64 = 1_000_000;
/// What a cheque without cover costs, in cents.
const PENALTY: i64 = 100;

const KINDS: [(&str, u32); 6] = [
    ("balance", 15),
    ("deposit checking", 15),
    ("transact savings", 15),
    ("amalgamate", 15),
    ("write check", 15),
    ("send payment", 25),
];

/// SmallBank.
#[derive(Debug, Clone, Copy)]
pub struct SmallBank {
    /// Customers, each with two accounts.
    pub customers: u32,
    /// A part of the customers that most transactions are about.
    pub hot: Option<Hot>,
}

/// Customers that are met more often than others.
#[derive(Debug, Clone, Copy)]
pub struct Hot {
    /// How many they are.
    pub customers: u32,
    /// Which part of all draws falls on them.
    pub share: f64,
}

impl SmallBank {
    /// Every customer as likely as any other.
    pub fn uniform(customers: u32) -> Self {
        Self { customers: customers.max(2), hot: None }
    }

    /// Nine of ten draws fall on a hundred customers.
    pub fn hot(customers: u32) -> Self {
        let customers = customers.max(2);
        let hot = Hot { customers: customers.min(100), share: 0.9 };
        Self { customers, hot: Some(hot) }
    }

    fn customer(&self, stream: &mut Stream) -> u32 {
        match self.hot {
            Some(hot) if stream.random_bool(hot.share) => stream.random_range(0..hot.customers),
            Some(hot) if hot.customers < self.customers => {
                stream.random_range(hot.customers..self.customers)
            }
            _ => stream.random_range(0..self.customers),
        }
    }
}

#[async_trait]
impl Workload for SmallBank {
    fn name(&self) -> &str {
        if self.hot.is_some() { "SmallBank, hot" } else { "SmallBank" }
    }

    fn kinds(&self) -> Vec<(&str, u32)> {
        KINDS.to_vec()
    }

    fn records(&self) -> Records<'_> {
        Box::new((0..self.customers).flat_map(|customer| {
            [
                (by_name(customer), Bytes::copy_from_slice(&customer.to_le_bytes())),
                (checking(customer), cents(OPENING_BALANCE)),
                (savings(customer), cents(OPENING_BALANCE)),
            ]
        }))
    }

    fn draw(&self, stream: &mut Stream) -> Box<dyn Procedure> {
        let kind = chance::kind(&KINDS, stream);
        let first = self.customer(stream);
        let second = loop {
            let second = self.customer(stream);
            if second != first {
                break second;
            }
        };
        let amount = stream.random_range(1..=5_000);
        let act = match kind {
            0 => Act::Balance,
            1 => Act::DepositChecking(amount),
            // As often taken out as put in.
            2 => Act::TransactSavings(if stream.random_bool(0.5) { amount } else { -amount }),
            3 => Act::Amalgamate(second),
            4 => Act::WriteCheck(amount),
            _ => Act::SendPayment(second, amount),
        };
        Box::new(Transfer { kind, customer: first, act })
    }

    fn fresh(&self) -> Arc<dyn Workload> {
        Arc::new(*self)
    }

    async fn check(&self, database: &dyn Database, ledger: &Ledger) -> Result<()> {
        let accounts = (0..self.customers).flat_map(|c| [checking(c), savings(c)]);
        let mut all = 0_i64;
        read_all(database, accounts, |_, record| {
            all += read_cents(record)?;
            Ok(())
        })
        .await?;
        let expected = i64::from(self.customers) * 2 * OPENING_BALANCE + ledger.sum;
        if all == expected {
            return Ok(());
        }
        Err(Error::broken(format!("there are {all} cents in all, and have to be {expected}")))
    }
}

/// What is done for a customer; amounts in cents.
#[derive(Debug, Clone, Copy)]
enum Act {
    Balance,
    DepositChecking(i64),
    TransactSavings(i64),
    Amalgamate(u32),
    WriteCheck(i64),
    SendPayment(u32, i64),
}

struct Transfer {
    kind: usize,
    customer: u32,
    act: Act,
}

#[async_trait]
impl Procedure for Transfer {
    fn kind(&self) -> usize {
        self.kind
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        match self.act {
            Act::Amalgamate(to) | Act::SendPayment(to, _) => {
                let found = on.get_many(&[by_name(self.customer), by_name(to)]).await?;
                let [from, to] = two(found)?;
                let (from, to) = (number(from)?, number(to)?);
                match self.act {
                    Act::SendPayment(_, amount) => send_payment(on, from, to, amount).await,
                    _ => amalgamate(on, from, to).await,
                }
            }
            act => {
                let id = number(on.get(&by_name(self.customer)).await?)?;
                of_one(on, id, act).await
            }
        }
    }
}

async fn of_one(on: &dyn Statements, id: u32, act: Act) -> Result<Effect> {
    match act {
        Act::DepositChecking(amount) => {
            let balance = read_cents(on.get(&checking(id)).await?)?;
            on.put(&checking(id), cents(balance + amount)).await?;
            Ok(Effect { done: true, sum: amount })
        }
        Act::TransactSavings(amount) => {
            let balance = read_cents(on.get(&savings(id)).await?)?;
            if balance + amount < 0 {
                return Ok(Effect::DECLINED);
            }
            on.put(&savings(id), cents(balance + amount)).await?;
            Ok(Effect { done: true, sum: amount })
        }
        Act::WriteCheck(amount) => {
            let [savings, balance] = two(on.get_many(&[savings(id), checking(id)]).await?)?;
            let (savings, balance) = (read_cents(savings)?, read_cents(balance)?);
            let penalty = if savings + balance < amount { PENALTY } else { 0 };
            on.put(&checking(id), cents(balance - amount - penalty)).await?;
            Ok(Effect { done: true, sum: -amount - penalty })
        }
        _ => {
            let [savings, balance] = two(on.get_many(&[savings(id), checking(id)]).await?)?;
            read_cents(savings)?;
            read_cents(balance)?;
            Ok(Effect::DONE)
        }
    }
}

async fn amalgamate(on: &dyn Statements, from: u32, to: u32) -> Result<Effect> {
    let keys = [savings(from), checking(from), checking(to)];
    let found = on.get_many(&keys).await?;
    let [saved, had, has] = found.try_into().map_err(|_| other_number())?;
    let (saved, had, has) = (read_cents(saved)?, read_cents(had)?, read_cents(has)?);
    on.put(&keys[0], cents(0)).await?;
    on.put(&keys[1], cents(0)).await?;
    on.put(&keys[2], cents(has + saved + had)).await?;
    Ok(Effect::DONE)
}

async fn send_payment(on: &dyn Statements, from: u32, to: u32, amount: i64) -> Result<Effect> {
    let keys = [checking(from), checking(to)];
    let [had, has] = two(on.get_many(&keys).await?)?;
    let (had, has) = (read_cents(had)?, read_cents(has)?);
    if had < amount {
        return Ok(Effect::DECLINED);
    }
    on.put(&keys[0], cents(had - amount)).await?;
    on.put(&keys[1], cents(has + amount)).await?;
    Ok(Effect::DONE)
}

fn by_name(customer: u32) -> Key {
    Key::new(b"n", format!("customer{customer:08}").as_bytes())
}

fn checking(id: u32) -> Key {
    Key::new(b"c", &id.to_be_bytes())
}

fn savings(id: u32) -> Key {
    Key::new(b"s", &id.to_be_bytes())
}

fn cents(amount: i64) -> Bytes {
    Bytes::copy_from_slice(&amount.to_le_bytes())
}

fn read_cents(record: Option<Bytes>) -> Result<i64> {
    let record = record.ok_or_else(|| Error::broken("there is no such account"))?;
    let bytes = record[..].try_into().map_err(|_| Error::broken("an account holds no amount"))?;
    Ok(i64::from_le_bytes(bytes))
}

fn number(record: Option<Bytes>) -> Result<u32> {
    let record = record.ok_or_else(|| Error::broken("there is no such customer"))?;
    let bytes = record[..].try_into().map_err(|_| Error::broken("a customer has no number"))?;
    Ok(u32::from_le_bytes(bytes))
}

fn two(found: Vec<Option<Bytes>>) -> Result<[Option<Bytes>; 2]> {
    found.try_into().map_err(|_| other_number())
}

fn other_number() -> Error {
    Error::broken("another number of records came back than was asked for")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serial::Serial;

    #[tokio::test]
    async fn money_is_neither_made_nor_lost() {
        for bank in [SmallBank::uniform(50), SmallBank::hot(500)] {
            let database = Serial::loaded(&bank);
            let ledger = database.play(&bank, 3_000, 1).await;
            assert!(ledger.done.iter().all(|count| *count > 200), "{ledger:?}");
            bank.check(&database, &ledger).await.unwrap();
            // The canary: a cent too much anywhere is seen, and so is an account that has gone.
            database.alter(|records| {
                let balance = read_cents(records.get(&savings(7)).cloned()).unwrap();
                records.insert(savings(7), cents(balance + 1));
            });
            assert!(matches!(bank.check(&database, &ledger).await, Err(Error::Broken(_))));
            database.alter(|records| drop(records.remove(&checking(8))));
            assert!(matches!(bank.check(&database, &ledger).await, Err(Error::Broken(_))));
        }
    }
}
