//! Anomalies that must not happen, and histories against a model.

use std::collections::BTreeMap;

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_txn::{Error, Key, KeyRange, Pause, Result, Transaction, View};
use rand_core::Rng;

use crate::support::{Setup, World, bytes, key, keys};

#[tokio::test(start_paused = true)]
async fn who_read_what_is_taken_back_aborts_too_and_so_on() {
    let world = Setup::default().start().await;
    let chain: Vec<Transaction> = (0..5).map(|_| world.proxy.begin()).collect();
    chain[0].put(&key(0), bytes("dirty"), 0).await.unwrap();
    for (n, txn) in chain.iter().enumerate().skip(1) {
        let read = txn.get(&key(n as u32 - 1)).await.unwrap().unwrap();
        assert_eq!(read.value, "dirty");
        txn.put(&key(n as u32), read.value, 0).await.unwrap();
    }
    let last = chain[4].clone();
    let commit = tokio::spawn(async move { last.commit().await });
    tokio::task::yield_now().await;
    chain[0].abort();
    assert_eq!(commit.await.unwrap(), Err(Error::Conflict));
    assert!(chain[1..].iter().all(Transaction::is_doomed));
    for n in 0..5 {
        assert_eq!(world.get(&key(n)).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dependant_commits_with_what_it_read_or_not_at_all() {
    let world = Setup::default().start().await;
    let (writer, reader) = (world.proxy.begin(), world.proxy.begin());
    writer.put(&key(0), bytes("a"), 0).await.unwrap();
    reader.get(&key(0)).await.unwrap();
    reader.put(&key(1), bytes("b"), 0).await.unwrap();
    // The writer never asks for its commit: the deadline takes both.
    assert_eq!(reader.commit().await, Err(Error::EpochOver));
    assert_eq!(world.get(&key(1)).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_lost_update_a_write_skew_and_a_phantom_do_not_happen() {
    let world = Setup::default().start().await;
    world.fill(&keys(2), b"1").await;
    // Lost update.
    let (a, b) = (world.proxy.begin(), world.proxy.begin());
    let read_a = tokio::spawn({
        let a = a.clone();
        async move { a.get(&key(0)).await }
    });
    tokio::task::yield_now().await;
    b.get(&key(0)).await.unwrap();
    read_a.await.unwrap().unwrap();
    assert_eq!(a.put(&key(0), bytes("a"), 0).await, Err(Error::Conflict));
    b.put(&key(0), bytes("b"), 0).await.unwrap();
    b.commit().await.unwrap();
    // Write skew: each reads what the other writes.
    let (a, b) = (world.proxy.begin(), world.proxy.begin());
    let read_a = tokio::spawn({
        let a = a.clone();
        async move { a.get_many(&keys(2)).await }
    });
    tokio::task::yield_now().await;
    b.get_many(&keys(2)).await.unwrap();
    read_a.await.unwrap().unwrap();
    b.put(&key(1), bytes("0"), 0).await.unwrap();
    assert_eq!(a.put(&key(0), bytes("0"), 0).await, Err(Error::Conflict));
    b.commit().await.unwrap();
    // Phantoms: an insert, a delete and a change of length below a scan, a count, an absent read.
    for reader in 0..4 {
        for writer in 0..3 {
            let (a, b) = (world.proxy.begin(), world.proxy.begin());
            a.exists(&Key::new(b"elsewhere", b"")).await.unwrap();
            let group = KeyRange::group(b"g");
            match reader {
                0 => drop(b.scan_keys(&group, 10, false).await.unwrap()),
                1 => drop(b.scan_keys(&group, 2, true).await.unwrap()),
                2 => drop(b.count(b"g").await.unwrap()),
                _ => {
                    b.exists(&key(5)).await.unwrap();
                    b.exists(&key(1)).await.unwrap();
                }
            }
            let late = match writer {
                0 => a.put(&key(5), bytes("phantom"), 0).await,
                1 => a.delete(&key(1)).await.map(drop),
                _ => a.put(&key(1), bytes("longer"), 0).await,
            };
            let seen = reader != 2 || writer != 2;
            assert_eq!(late.is_err(), seen, "reader {reader}, writer {writer}");
        }
    }
    // Outside of what a scan that stopped has seen, writers are free.
    let (a, b) = (world.proxy.begin(), world.proxy.begin());
    a.exists(&Key::new(b"elsewhere", b"")).await.unwrap();
    assert_eq!(b.scan_keys(&KeyRange::group(b"g"), 1, false).await.unwrap()[0].0, key(0));
    a.put(&key(5), bytes("no phantom"), 0).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn older_transactions_read_older_versions() {
    let world = Setup::default().start().await;
    world.fill(&keys(1), b"old").await;
    let (old, reader) = (world.proxy.begin(), world.proxy.begin());
    old.count(b"elsewhere").await.unwrap(); // who has counted keeps its timestamp
    reader.exists(&key(7)).await.unwrap();
    for n in 0..3 {
        let session = world.proxy.session();
        drop(session.submit(move |v: &mut View<'_>| v.put(&key(0), bytes(&n.to_string()), 0)));
        let middle = world.proxy.begin();
        assert_eq!(middle.get(&key(0)).await.unwrap().unwrap().value, n.to_string());
        middle.commit_later();
    }
    let hot = key(0);
    let (seen, also_seen) = tokio::join!(old.get(&hot), reader.get(&hot));
    assert_eq!(seen.unwrap().unwrap().value, "old");
    assert_eq!(also_seen.unwrap().unwrap().value, "2", "it has waited, and moved to the present");
    assert!(reader.stamp() > old.stamp());
    let (done, also_done) = tokio::join!(old.commit(), reader.commit());
    done.and(also_done).unwrap();
    assert_eq!(world.get(&key(0)).await.unwrap(), "2");
}

trait CommitLater {
    fn commit_later(self);
}

impl CommitLater for Transaction {
    fn commit_later(self) {
        tokio::spawn(async move { self.commit().await });
    }
}

/// What one statement of a history did and saw.
#[derive(Debug, Clone)]
enum Seen {
    Got(u32, Option<Bytes>),
    Put(u32, Bytes),
    Deleted(u32, bool),
    Scanned(Vec<u32>),
    Counted(u64),
    Added(u32, i64),
}

type State = BTreeMap<u32, Bytes>;

/// Replays a statement on a model; whether it would see the same.
fn replay(state: &mut State, seen: &Seen) -> bool {
    match seen {
        Seen::Got(n, value) => state.get(n) == value.as_ref(),
        Seen::Put(n, value) => {
            state.insert(*n, value.clone());
            true
        }
        Seen::Deleted(n, was) => state.remove(n).is_some() == *was,
        Seen::Scanned(found) => state.keys().copied().eq(found.iter().copied()),
        Seen::Counted(count) => state.len() as u64 == *count,
        Seen::Added(n, delta) => {
            let old = state.get(n).map_or(0, |v| i64::from_le_bytes(v[..].try_into().unwrap()));
            state.insert(*n, Bytes::copy_from_slice(&(old + delta).to_le_bytes()));
            true
        }
    }
}

const KEYS: u64 = 6;

fn number_of(key: &Key) -> u32 {
    u32::from_be_bytes(key.member().try_into().unwrap())
}

fn value(random: &mut Stream) -> Bytes {
    Bytes::copy_from_slice(&(random.next_u64() >> 8).to_le_bytes())
}

async fn statement(txn: &Transaction, random: &mut Stream) -> Result<Seen> {
    let n = (random.next_u64() % KEYS) as u32;
    Ok(match random.next_u64() % 10 {
        0..=3 => Seen::Got(n, txn.get(&key(n)).await?.map(|r| r.value)),
        4..=5 => {
            let value = value(random);
            txn.put(&key(n), value.clone(), 0).await?;
            Seen::Put(n, value)
        }
        6 => Seen::Deleted(n, txn.delete(&key(n)).await?),
        7 => {
            let found = txn.scan_keys(&KeyRange::group(b"g"), 100, false).await?;
            Seen::Scanned(found.iter().map(|(k, _)| number_of(k)).collect())
        }
        8 => Seen::Counted(txn.count(b"g").await?),
        _ => {
            let delta = (random.next_u64() % 100) as i64;
            txn.add(&key(n), delta).await?;
            Seen::Added(n, delta)
        }
    })
}

/// One program with two statements, as a history.
fn program(
    mut random: Stream,
) -> impl FnMut(&mut View<'_>) -> std::result::Result<Vec<Seen>, Pause> {
    let (a, b) = ((random.next_u64() % KEYS) as u32, (random.next_u64() % KEYS) as u32);
    let (kind, new) = (random.next_u64() % 4, value(&mut random));
    move |v: &mut View<'_>| {
        let mut seen = vec![Seen::Got(a, v.get(&key(a))?.map(|r| r.value))];
        match kind {
            0 => {
                v.put(&key(b), new.clone(), 0)?;
                seen.push(Seen::Put(b, new.clone()));
            }
            1 => seen.push(Seen::Deleted(b, v.delete(&key(b))?)),
            2 => {
                let found = v.scan(&KeyRange::group(b"g"), 100, false)?;
                seen.push(Seen::Scanned(found.iter().map(|(k, _)| number_of(k)).collect()));
            }
            _ => {}
        }
        seen.push(Seen::Counted(v.count(b"g")?));
        Ok(seen)
    }
}

async fn client(world: std::sync::Arc<World>, seed: u64) -> Vec<(u64, u64, Vec<Seen>)> {
    let mut random = Randomness::repeatable(seed).stream(Purpose::Workload);
    let session = world.proxy.session();
    let mut committed = Vec::new();
    for turn in 0..12 {
        let nap = random.next_u64() % 9;
        world.sleep_ms(nap).await;
        if random.next_u64().is_multiple_of(3) {
            let draw = Randomness::repeatable(seed * 1_000 + turn).stream(Purpose::Workload);
            let mut body = program(draw);
            let stamped = session.submit(move |v: &mut View<'_>| Ok((body(v)?, v.stamp())));
            let (seen, (epoch, ts)) = stamped.await.unwrap();
            committed.push((epoch, ts, seen));
            continue;
        }
        let txn = world.proxy.begin();
        let mut history = Vec::new();
        for _ in 0..1 + random.next_u64() % 4 {
            let savepoint = txn.savepoint();
            match statement(&txn, &mut random).await {
                Ok(seen) if random.next_u64().is_multiple_of(8) && savepoint.is_ok() => {
                    // What was read stays read; what was written goes.
                    let Ok(()) = txn.rollback_to(savepoint.unwrap()) else { break };
                    history.extend(
                        matches!(seen, Seen::Got(..) | Seen::Scanned(_) | Seen::Counted(_))
                            .then_some(seen),
                    );
                }
                Ok(seen) => history.push(seen),
                Err(_) => break,
            }
            let nap = random.next_u64() % 4;
            world.sleep_ms(nap).await;
        }
        let Some((epoch, ts)) = txn.stamp() else { continue };
        if !random.next_u64().is_multiple_of(5) && txn.commit().await.is_ok() {
            committed.push((epoch, ts, history));
        }
    }
    committed
}

#[tokio::test(start_paused = true)]
async fn committed_histories_equal_a_serial_one_in_the_order_of_timestamps() {
    let (mut transactions, mut programs) = (0, 0);
    for seed in 0..60 {
        let world = std::sync::Arc::new(Setup { seed, ..Setup::default() }.start().await);
        let clients: Vec<_> =
            (0..8).map(|c| tokio::spawn(client(world.clone(), seed * 100 + c))).collect();
        let mut history = Vec::new();
        for client in clients {
            history.extend(client.await.unwrap());
        }
        history.sort_by_key(|(epoch, ts, _)| (*epoch, *ts));
        let mut state = State::new();
        for (epoch, ts, seen) in &history {
            for step in seen {
                assert!(
                    replay(&mut state, step),
                    "seed {seed}, {epoch}.{ts}: {step:?} in {seen:?}"
                );
            }
        }
        transactions += history.len();
        programs +=
            history.iter().filter(|(_, _, s)| matches!(s.last(), Some(Seen::Counted(_)))).count();
        for n in 0..KEYS as u32 {
            assert_eq!(world.get(&key(n)).await, state.get(&n).cloned(), "seed {seed}, key {n}");
        }
    }
    assert!(transactions > 2_000 && programs > 500, "{transactions}, {programs}");
}
