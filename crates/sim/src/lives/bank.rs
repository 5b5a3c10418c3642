//! Transfers between accounts, each with a receipt, and what has to be true of them after any stop.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Mutex, Purpose, Randomness, Stream};
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
    /// The number of a transfer that is about to be tried.
    pub fn begin(&self) -> u64 {
        let mut told = self.0.lock();
        told.begun += 1;
        told.begun
    }

    /// It was said to be done.
    pub fn acknowledge(&self, number: u64) {
        self.0.lock().acknowledged.push(number);
    }

    /// Clients that transfer until the proxy stops, without end; each draws from its own stream.
    pub fn clients<'a>(
        &'a self,
        proxy: &'a Proxy,
        random: &'a Randomness,
    ) -> impl Iterator<Item = impl Future<Output = ()> + Send + use<>> + 'a {
        let streams = (0..).map(|client| random.split(client).stream(Purpose::Workload));
        streams.map(|stream| self.clone().transfer(proxy.clone(), stream))
    }

    /// How many were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.0.lock().acknowledged.len()
    }

    /// Transfers until the proxy stops.
    async fn transfer(self, proxy: Proxy, mut random: Stream) {
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
            let told = self.0.lock();
            (told.begun, told.acknowledged.clone())
        };
        let mut expected = vec![OPENING_BALANCE; ACCOUNTS as usize];
        let keys: Vec<Key> = (1..=begun).map(receipt_key).collect();
        for (number, receipt) in (1..).zip(read(proxy, &keys).await?) {
            if receipt.is_none() && acknowledged.contains(&number) {
                return Err(format!("transfer {number} was acknowledged and is lost"));
            }
            let Some(receipt) = receipt else { continue };
            let [from, to, amount] = receipt[..] else { return Err("a torn receipt".into()) };
            expected[from as usize] -= amount;
            expected[to as usize] += amount;
        }
        let keys: Vec<Key> = (0..ACCOUNTS).map(account_key).collect();
        for (account, found) in (0..).zip(read(proxy, &keys).await?) {
            let (found, expected) = (found.map_or(OPENING_BALANCE, |b| b[0]), expected[account]);
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

/// Reads keys, as many at once as one transaction may.
async fn read(proxy: &Proxy, keys: &[Key]) -> Result<Vec<Option<Vec<i64>>>, String> {
    let mut found = Vec::new();
    for keys in keys.chunks(proxy.limits().records_read_max) {
        let records = proxy.transact(|txn| async move { txn.get_many(keys).await }).await;
        let records = records.map_err(|e| format!("cannot read: {e}"))?;
        found.extend(records.into_iter().map(|record| record.map(|r| parse(&r.value))));
    }
    Ok(found)
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
