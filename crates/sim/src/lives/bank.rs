//! Transfers between accounts, each with a receipt, and what has to be true of them after any stop.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use fogbank_env::Stream;
use fogbank_txn::{Error, Key, Proxy, Transaction};
use rand_core::Rng;

const ACCOUNTS: u64 = 5;
const OPENING_BALANCE: i64 = 100;

/// What clients were told, over all lives.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    /// Transfers begun: their numbers are the receipts.
    begun: u64,
    /// Transfers that were acknowledged.
    acknowledged: Vec<u64>,
}

impl Ledger {
    fn begin(&self) -> u64 {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.begun += 1;
        told.begun
    }

    fn acknowledge(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).acknowledged.push(number);
    }

    /// How many were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).acknowledged.len()
    }

    /// Transfers until the proxy stops.
    pub async fn transfer(self, proxy: Proxy, mut random: Stream) {
        loop {
            let (from, to) = (random.next_u64() % ACCOUNTS, random.next_u64() % ACCOUNTS);
            let amount = (random.next_u64() % 9) as i64 + 1;
            let number = self.begin();
            let moved = proxy.transact(|txn| move_money(txn, number, from, to, amount)).await;
            match moved {
                Ok(()) => self.acknowledge(number),
                Err(Error::Conflict | Error::EpochOver | Error::BatchFull) => {}
                Err(_) => return,
            }
        }
    }

    /// Holds what the store has against what clients were told.
    ///
    /// # Errors
    /// What is not as it has to be, in words.
    pub async fn check(&self, proxy: &Proxy) -> Result<(), String> {
        let (begun, acknowledged) = {
            let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (told.begun, told.acknowledged.clone())
        };
        let mut expected = vec![OPENING_BALANCE; ACCOUNTS as usize];
        for number in 1..=begun {
            let receipt = read(proxy, receipt_key(number)).await?;
            if receipt.is_none() && acknowledged.contains(&number) {
                return Err(format!("transfer {number} was acknowledged and is lost"));
            }
            let Some(receipt) = receipt else { continue };
            let [from, to, amount] = receipt[..] else { return Err("a torn receipt".into()) };
            expected[from as usize] -= amount;
            expected[to as usize] += amount;
        }
        for (account, expected) in (0..ACCOUNTS).zip(expected) {
            let found = read(proxy, account_key(account)).await?;
            let found = found.map_or(OPENING_BALANCE, |balance| balance[0]);
            if found != expected {
                return Err(format!("account {account} has {found}, its receipts say {expected}"));
            }
        }
        Ok(())
    }
}

async fn move_money(
    txn: Transaction,
    number: u64,
    from: u64,
    to: u64,
    amount: i64,
) -> fogbank_txn::Result<()> {
    let keys = [account_key(from), account_key(to)];
    let found = if from == to { Vec::new() } else { txn.get_many(&keys).await? };
    for ((key, record), change) in keys.iter().zip(&found).zip([-amount, amount]) {
        let old = record.as_ref().map(|record| parse(&record.value));
        let balance = old.map_or(OPENING_BALANCE, |old| old[0]) + change;
        txn.put(key, Bytes::from(balance.to_string()), 0).await?;
    }
    let receipt = Bytes::from(format!("{from} {to} {amount}"));
    txn.put(&receipt_key(number), receipt, 0).await
}

async fn read(proxy: &Proxy, key: Key) -> Result<Option<Vec<i64>>, String> {
    let record = proxy.transact(|txn| {
        let key = key.clone();
        async move { txn.get(&key).await }
    });
    let record = record.await.map_err(|e| format!("cannot read: {e}"))?;
    Ok(record.map(|record| parse(&record.value)))
}

fn parse(value: &[u8]) -> Vec<i64> {
    let text = String::from_utf8_lossy(value);
    text.split(' ').filter_map(|number| number.parse().ok()).collect()
}

fn account_key(account: u64) -> Key {
    Key::new(b"account", account.to_string().as_bytes())
}

fn receipt_key(number: u64) -> Key {
    Key::new(b"receipt", number.to_string().as_bytes())
}
