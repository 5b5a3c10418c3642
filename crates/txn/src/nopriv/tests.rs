//! What committed transactions saw, replayed in the order of timestamps, must be what a plain map
//! shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use fogbank_env::{Clock, Purpose, Randomness, Stream, SystemClock};
use fogbank_store::{Delay, Fault, FaultRule, Faulty, Link, MemoryStore, Operation};
use rand_core::Rng;

use super::*;

const KEYS: u32 = 12;
const BLOCK_BYTES: usize = 8;

fn name(n: u32) -> Key {
    Key::new(b"g", &n.to_be_bytes())
}

/// A value of one or two blocks.
fn value(n: u64) -> Bytes {
    Bytes::from(n.to_le_bytes().repeat(1 + (n % 2) as usize))
}

fn far(round_trip_ms: u64) -> Arc<Delay<Arc<MemoryStore>>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let ms = Duration::from_millis;
    let link = Link { round_trip: ms(round_trip_ms), jitter: ms(7), ..Link::instant() };
    let faults = Randomness::repeatable(9).stream(Purpose::Faults);
    Arc::new(Delay::new(Arc::new(MemoryStore::new()), clock, link, faults))
}

async fn loaded(store: Arc<dyn Store>) -> NoPriv {
    let proxy = NoPriv::create(store, 4 * KEYS, BLOCK_BYTES, 1_000).await.unwrap();
    proxy.load((0..KEYS / 2).map(|n| (name(n), value(u64::from(n))))).await.unwrap();
    proxy
}

fn model() -> BTreeMap<u32, Bytes> {
    (0..KEYS / 2).map(|n| (n, value(u64::from(n)))).collect()
}

/// What a committed transaction did, in its order.
#[derive(Debug, Clone)]
enum Did {
    Read(u32, Option<Bytes>),
    Scanned(u32, Vec<(Key, Bytes)>),
    Wrote(u32, Option<Bytes>),
}

type History = BTreeMap<u64, Vec<Did>>;

async fn body(transaction: &PlainTransaction, stream: &mut Stream) -> Result<Vec<Did>> {
    let mut did = Vec::new();
    for _ in 0..1 + stream.next_u32() % 4 {
        let n = stream.next_u32() % KEYS;
        match stream.next_u32() % 8 {
            0..3 => {
                let pair = [name(n), name((n + 5) % KEYS)];
                let found = transaction.get_many(&pair).await?;
                did.push(Did::Read(n, found[0].clone()));
                did.push(Did::Read((n + 5) % KEYS, found[1].clone()));
            }
            3 => {
                let range = KeyRange::members(
                    b"g",
                    std::ops::Bound::Included(&n.to_be_bytes()),
                    std::ops::Bound::Unbounded,
                );
                did.push(Did::Scanned(n, transaction.scan(&range, 3).await?));
            }
            4 => {
                transaction.delete(&name(n))?;
                did.push(Did::Wrote(n, None));
            }
            5 => transaction.prefetch(&[name(n)])?,
            _ => {
                let new = value(stream.next_u64() >> 8);
                transaction.put(&name(n), new.clone())?;
                did.push(Did::Wrote(n, Some(new)));
            }
        }
    }
    Ok(did)
}

async fn client(proxy: NoPriv, seed: u64, count: u32) -> Vec<(u64, Vec<Did>)> {
    let mut stream = Randomness::repeatable(seed).stream(Purpose::Workload);
    let mut committed = Vec::new();
    for _ in 0..count {
        let transaction = proxy.begin();
        let Ok(did) = body(&transaction, &mut stream).await else { continue };
        match stream.next_u32() % 16 {
            0 => drop(transaction),
            // Its owner goes away while it commits; what became of it shows in the records.
            _ if transaction.commit().await.is_ok() => committed.push((transaction.stamp(), did)),
            _ => {}
        }
    }
    committed
}

/// The first read that the serial order does not show.
fn contradiction(history: &History) -> Option<String> {
    let mut model = model();
    for (ts, did) in history {
        for did in did {
            let wrong = match did {
                Did::Read(n, found) => model.get(n) != found.as_ref(),
                Did::Scanned(from, found) => {
                    let expected = model.range(from..).take(3);
                    !expected.map(|(n, v)| (name(*n), v.clone())).eq(found.iter().cloned())
                }
                Did::Wrote(n, Some(value)) => {
                    model.insert(*n, value.clone());
                    false
                }
                Did::Wrote(n, None) => {
                    model.remove(n);
                    false
                }
            };
            if wrong {
                return Some(format!("{ts}: {did:?}, and there was {model:?}"));
            }
        }
    }
    None
}

async fn history(clients: u64, count: u32, seed: u64) -> (NoPriv, History) {
    let proxy = loaded(far(10)).await;
    let tasks = (0..clients).map(|n| tokio::spawn(client(proxy.clone(), seed * 100 + n, count)));
    let mut history = History::new();
    for task in tasks.collect::<Vec<_>>() {
        history.extend(task.await.unwrap());
    }
    (proxy, history)
}

#[tokio::test(start_paused = true)]
async fn histories_are_serial_in_the_order_of_timestamps_and_memory_is_let_go() {
    for seed in 0..40 {
        let (proxy, history) = history(6, 40, seed).await;
        assert!(history.len() > 60, "{}", history.len());
        assert_eq!(contradiction(&history), None, "seed {seed}");
        // Aborted handles have gone, messages that were under way arrive.
        for _ in 0..10 {
            proxy.transact(|_| std::future::ready(Ok(()))).await.unwrap();
        }
        let last = proxy.begin();
        let keys: Vec<Key> = (0..KEYS).map(name).collect();
        let found = last.get_many(&keys).await.unwrap();
        let mut model = model();
        history.values().flatten().for_each(|did| match did {
            Did::Wrote(n, Some(value)) => drop(model.insert(*n, value.clone())),
            Did::Wrote(n, None) => drop(model.remove(n)),
            _ => {}
        });
        let expected: Vec<_> = (0..KEYS).map(|n| model.get(&n).cloned()).collect();
        assert_eq!(found, expected, "seed {seed}");
        last.commit().await.unwrap();
        drop(last);
        assert_eq!(proxy.rows(), 0, "seed {seed}");
    }
}

/// The canary: a history in which one read shows something else is told from one that is serial.
#[tokio::test(start_paused = true)]
async fn a_read_of_something_else_is_seen() {
    let (_, mut history) = history(6, 40, 1).await;
    let read = history.values_mut().rev().flatten().find_map(|did| match did {
        Did::Read(_, Some(found)) => Some(found),
        _ => None,
    });
    *read.unwrap() = Bytes::from_static(b"forged");
    assert!(contradiction(&history).is_some());
}

#[tokio::test(start_paused = true)]
async fn increments_are_neither_lost_nor_made_twice() {
    let proxy = loaded(far(10)).await;
    let add = |proxy: NoPriv| async move {
        proxy
            .transact(|transaction| async move {
                let found = transaction.get_many(&[name(0)]).await?;
                let old = found[0].as_ref().map_or(0, |v| v.as_ref().get_u64_le());
                transaction.put(&name(0), Bytes::copy_from_slice(&(old + 1).to_le_bytes()))
            })
            .await
            .unwrap();
    };
    let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(add(proxy.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let reader = proxy.begin();
    let found = reader.get_many(&[name(0)]).await.unwrap();
    assert_eq!(found[0].as_ref().unwrap().as_ref().get_u64_le(), 50);
}

/// Nobody is answered before what it has read from is stored, and a chain of writers is stored all
/// at once.
#[tokio::test(start_paused = true)]
async fn a_chain_of_writers_takes_one_round_trip() {
    let clock = SystemClock::new();
    let proxy = loaded(far(100)).await;
    proxy.begin().get_many(&[name(0)]).await.unwrap();
    let holder = proxy.begin(); // keeps the record here
    holder.get_many(&[name(0)]).await.unwrap();
    let started = clock.now();
    let mut commits = Vec::new();
    for n in 0..20 {
        let transaction = proxy.begin();
        transaction.get_many(&[name(0)]).await.unwrap();
        transaction.put(&name(0), value(n)).unwrap();
        commits.push(tokio::spawn(async move { transaction.commit().await }));
    }
    assert_eq!(clock.now(), started, "nobody has waited yet");
    for commit in commits {
        commit.await.unwrap().unwrap();
    }
    let took_ms = (clock.now() - started) / 1_000_000;
    assert!((100..120).contains(&took_ms), "{took_ms}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_told_to_everybody() {
    let broken = Arc::new(Faulty::new(MemoryStore::new()));
    let proxy = loaded(broken.clone()).await;
    broken.add(FaultRule::nth(Some(Operation::WriteChunks), 1, Fault::Before));
    let told = proxy.transact(|t| async move { t.put(&name(1), value(3)) }).await;
    assert!(matches!(told, Err(Error::Stopped(_))), "{told:?}");
    let told = proxy.begin().get_many(&[name(1)]).await;
    assert!(matches!(told, Err(Error::Stopped(_))), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_decided_on_what_never_was_is_not_told() {
    for commits in [false, true] {
        let proxy = loaded(far(0)).await;
        let other = proxy.begin();
        other.put(&name(1), value(77)).unwrap();
        let runs = AtomicU32::new(0);
        let refused = proxy.transact(|txn| {
            runs.fetch_add(1, Ordering::Relaxed);
            async move {
                txn.put(&name(2), value(5))?;
                match txn.get_many(&[name(1)]).await? == [Some(value(77))] {
                    true => Err(Error::NotACounter),
                    false => Ok(()),
                }
            }
        });
        let settled = async {
            while runs.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            if commits {
                other.commit().await.unwrap();
            }
            drop(other);
        };
        let (told, ()) = tokio::join!(refused, settled);
        let (right, times) = if commits { (Err(Error::NotACounter), 1) } else { (Ok(()), 2) };
        assert_eq!((told, runs.into_inner()), (right, times));
        let written = proxy.begin().get_many(&[name(2)]).await.unwrap();
        assert_eq!(written == [Some(value(5))], !commits, "an error takes back what was written");
    }
}
