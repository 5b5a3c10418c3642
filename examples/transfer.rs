//! Transfers money between accounts from many tasks at once; the total never changes.
//!
//! `cargo run --release --example transfer`

use fogbank::{Error, Key, OpenOptions, Place, Proxy, Result};

const ACCOUNTS: u32 = 8;
const OPENING_BALANCE: i64 = 100;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("fogbank-transfer-{}", std::process::id()));
    let opened = OpenOptions::new(Place::local(&folder)).open().await?;
    open_accounts(opened.proxy()).await?;

    let transfers = (0..40).map(|i| {
        let proxy = opened.proxy().clone();
        tokio::spawn(async move { transfer(&proxy, i % ACCOUNTS, (i * 3 + 1) % ACCOUNTS, 7).await })
    });
    let mut moved = 0;
    for transfer in transfers.collect::<Vec<_>>() {
        let done = transfer.await.map_err(|e| Error::Bug(e.to_string()))??;
        moved += u32::from(done);
    }
    println!("{moved} of 40 transfers went through; the total is {}", total(opened.proxy()).await?);

    opened.close().await?;
    std::fs::remove_dir_all(&folder).ok();
    Ok(())
}

fn account(number: u32) -> Key {
    Key::new(b"account", &number.to_be_bytes())
}

fn balance(record: Option<fogbank::Record>) -> i64 {
    let text = record.map(|r| String::from_utf8_lossy(&r.value).into_owned());
    text.and_then(|t| t.parse().ok()).unwrap_or(0)
}

async fn open_accounts(proxy: &Proxy) -> Result<()> {
    let opened = proxy.transact(|txn| async move {
        for number in 0..ACCOUNTS {
            txn.put(&account(number), OPENING_BALANCE.to_string().into(), 0).await?;
        }
        Ok(())
    });
    Ok(opened.await?)
}

/// Moves `amount` if the source has it. Both balances are read in one round; a conflict with
/// another transfer makes `transact` run the body again.
async fn transfer(proxy: &Proxy, from: u32, to: u32, amount: i64) -> Result<bool> {
    let done = proxy.transact(|txn| async move {
        let keys = [account(from), account(to)];
        let mut records = txn.get_many(&keys).await?.into_iter();
        let (source, target) =
            (balance(records.next().flatten()), balance(records.next().flatten()));
        if from == to || source < amount {
            return Ok(false);
        }
        txn.put(&keys[0], (source - amount).to_string().into(), 0).await?;
        txn.put(&keys[1], (target + amount).to_string().into(), 0).await?;
        Ok(true)
    });
    Ok(done.await?)
}

async fn total(proxy: &Proxy) -> Result<i64> {
    let sum = proxy.transact(|txn| async move {
        let keys: Vec<Key> = (0..ACCOUNTS).map(account).collect();
        Ok(txn.get_many(&keys).await?.into_iter().map(balance).sum())
    });
    Ok(sum.await?)
}
