//! Interactive transactions: rounds, hints, savepoints, counters, retries, vanishing.

use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use fogbank_txn::{Error, Key, KeyRange, Transaction, View};

use crate::support::{Setup, World, bytes, increment, key, keys};

#[tokio::test(start_paused = true)]
async fn rounds_are_counted_and_what_was_read_costs_none() {
    let world = Setup::default().start().await;
    world.fill(&keys(8), b"v").await;
    let txn = world.proxy.begin();
    assert!(txn.exists(&key(3)).await.unwrap());
    assert_eq!(txn.scan_keys(&KeyRange::group(b"g"), 3, true).await.unwrap().len(), 3);
    assert_eq!(txn.count(b"g").await.unwrap(), 8);
    assert_eq!(txn.get(&key(100)).await.unwrap(), None);
    assert_eq!(txn.rounds(), 0);
    assert_eq!(txn.get_many(&keys(6)).await.unwrap().len(), 6);
    assert_eq!(txn.rounds(), 1);
    txn.get_many(&keys(6)).await.unwrap();
    txn.put(&key(2), bytes("w"), 0).await.unwrap();
    assert_eq!(txn.get(&key(2)).await.unwrap().unwrap().value, "w");
    assert_eq!(txn.rounds(), 1);
    txn.get(&key(7)).await.unwrap();
    assert_eq!(txn.rounds(), 2);
    txn.commit().await.unwrap();
    assert_eq!(txn.get(&key(0)).await, Err(Error::Ended));
}

#[tokio::test(start_paused = true)]
async fn an_epoch_has_r_rounds_and_then_it_is_over() {
    let world = Setup::default().start().await;
    world.fill(&keys(8), b"v").await;
    let txn = world.proxy.begin();
    for n in 0..3 {
        txn.get(&key(n)).await.unwrap();
    }
    assert_eq!(txn.get(&key(4)).await, Err(Error::BatchFull));
    assert!(txn.is_doomed());
    let idle = world.proxy.begin();
    idle.put(&key(1), bytes("w"), 0).await.unwrap();
    world.next_epoch().await;
    assert!(idle.is_doomed());
    assert_eq!(idle.commit().await, Err(Error::EpochOver));
    assert_eq!(world.get(&key(1)).await.unwrap(), "v");
}

#[tokio::test(start_paused = true)]
async fn hints_fill_padding_only_and_are_not_read() {
    let world = Setup::default().start().await;
    world.fill(&keys(30), b"v").await;
    let txn = world.proxy.begin();
    txn.prefetch(&keys(30)[10..]).await.unwrap();
    txn.get_many(&keys(6)).await.unwrap();
    let batch = world.reads().last().unwrap().clone();
    assert_eq!(batch.len(), 8, "six wanted, two of padding");
    // Prefetched: no round. Not read: a writer with an earlier timestamp may still come.
    let early = world.proxy.begin();
    early.exists(&key(200)).await.unwrap();
    let late = world.proxy.begin();
    late.prefetch(&[key(10)]).await.unwrap();
    early.put(&key(10), bytes("w"), 0).await.unwrap();
    early.commit().await.unwrap();
    assert_eq!(txn.rounds(), 1);
}

#[tokio::test(start_paused = true)]
async fn savepoints_take_writes_back_and_release_them() {
    let world = Setup { write_batch: 3, ..Setup::default() }.start().await;
    world.fill(&keys(1), b"v").await;
    let txn = world.proxy.begin();
    let start = txn.savepoint().unwrap();
    txn.put(&key(0), bytes("a"), 1).await.unwrap();
    let middle = txn.savepoint().unwrap();
    txn.put(&key(0), bytes("b"), 2).await.unwrap();
    txn.put(&key(1), bytes("c"), 3).await.unwrap();
    assert!(txn.delete(&key(0)).await.unwrap());
    txn.put(&key(2), bytes("d"), 4).await.unwrap();
    assert_eq!(txn.count(b"g").await.unwrap(), 2);
    txn.rollback_to(middle).unwrap();
    assert_eq!(txn.count(b"g").await.unwrap(), 1);
    assert_eq!(txn.get(&key(0)).await.unwrap().unwrap().attr, 1);
    // The two slots taken back are free again.
    txn.put(&key(3), bytes("e"), 0).await.unwrap();
    txn.put(&key(4), bytes("f"), 0).await.unwrap();
    txn.commit().await.unwrap();
    let txn = world.proxy.begin();
    assert_eq!(txn.get(&key(0)).await.unwrap().unwrap().value, "a");
    let found = txn.scan(&KeyRange::group(b"g"), 9, false).await.unwrap();
    assert_eq!(found.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>(), [0, 3, 4].map(key));
    txn.rollback_to(start).unwrap();
    drop(txn);
}

#[tokio::test(start_paused = true)]
async fn a_savepoint_cannot_take_back_what_others_have_read() {
    let world = Setup::default().start().await;
    let txn = world.proxy.begin();
    let start = txn.savepoint().unwrap();
    txn.put(&key(0), bytes("a"), 0).await.unwrap();
    let reader = world.proxy.begin();
    assert_eq!(reader.get(&key(0)).await.unwrap().unwrap().value, "a");
    assert_eq!(txn.rollback_to(start), Err(Error::Conflict));
    assert!(reader.is_doomed());
}

fn number(value: &Bytes) -> i64 {
    i64::from_le_bytes(value[..].try_into().unwrap())
}

#[tokio::test(start_paused = true)]
async fn additions_commute_and_read_nothing_until_the_commit() {
    let world = Setup::default().start().await;
    let session = world.proxy.session();
    let start = Bytes::copy_from_slice(&100_i64.to_le_bytes());
    session.submit(move |v: &mut View<'_>| v.put(&key(0), start.clone(), 77)).await.unwrap();
    world.next_epoch().await;
    let transactions: Vec<_> = (0..10).map(|_| world.proxy.begin()).collect();
    // In reverse: timestamps are taken in this order, additions arrive in the other.
    for txn in &transactions {
        txn.exists(&key(500)).await.unwrap();
    }
    for (n, txn) in transactions.iter().enumerate().rev() {
        txn.add(&key(0), n as i64).await.unwrap();
        txn.add(&key(0), 1).await.unwrap();
        txn.add(&key(1), 2).await.unwrap();
        assert_eq!(txn.rounds(), 0);
    }
    transactions[3].abort();
    let commits = transactions.iter().map(|txn| {
        let txn = txn.clone();
        tokio::spawn(async move { txn.commit().await })
    });
    let mut committed = 0;
    for commit in commits.collect::<Vec<_>>() {
        committed += usize::from(commit.await.unwrap().is_ok());
    }
    assert_eq!(committed, 9);
    let records = world.proxy.begin().get_many(&keys(2)).await.unwrap();
    let [counter, fresh] = &records[..] else { panic!() };
    assert_eq!(number(&counter.as_ref().unwrap().value), 100 + 45 - 3 + 9);
    assert_eq!(counter.as_ref().unwrap().attr, 77);
    assert_eq!(number(&fresh.as_ref().unwrap().value), 18);
}

#[tokio::test(start_paused = true)]
async fn an_addition_to_what_is_no_counter_fails_and_stays_correct_with_other_writes() {
    let world = Setup::default().start().await;
    world.fill(&keys(1), b"text").await;
    let txn = world.proxy.begin();
    txn.add(&key(0), 1).await.unwrap();
    assert_eq!(txn.commit().await, Err(Error::NotACounter));
    // Over its own writes; and read by itself.
    let txn = world.proxy.begin();
    txn.delete(&key(0)).await.unwrap();
    txn.add(&key(0), 5).await.unwrap();
    txn.add(&key(1), 7).await.unwrap();
    txn.set_attr(&key(1), 9).await.unwrap();
    txn.add(&key(1), 1).await.unwrap();
    let read = txn.get_many(&keys(2)).await.unwrap();
    assert_eq!(number(&read[0].as_ref().unwrap().value), 5);
    assert_eq!((number(&read[1].as_ref().unwrap().value), read[1].as_ref().unwrap().attr), (8, 9));
    txn.commit().await.unwrap();
    // A value that is none cannot slip under an addition that has asked to commit.
    let early = world.proxy.begin();
    early.exists(&key(99)).await.unwrap();
    let late = world.proxy.begin();
    late.add(&key(1), 1).await.unwrap();
    let commit = tokio::spawn(async move { late.commit().await });
    world.sleep_ms(25).await;
    assert_eq!(early.put(&key(1), bytes("text"), 0).await, Err(Error::Conflict));
    commit.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_insertion_happens_once() {
    let world = Setup::default().start().await;
    let tries = (0..20).map(|n| {
        let proxy = world.proxy.clone();
        let body = move |txn: fogbank_txn::Transaction| async move {
            txn.insert_if_absent(&key(0), bytes(&n.to_string()), 0).await
        };
        tokio::spawn(async move { proxy.transact(body).await })
    });
    let mut inserted = 0;
    for attempt in tries.collect::<Vec<_>>() {
        inserted += usize::from(attempt.await.unwrap().unwrap());
    }
    assert_eq!(inserted, 1);
}

#[tokio::test(start_paused = true)]
async fn transact_retries_conflicts_until_all_have_committed() {
    let world = Setup::default().start().await;
    world.fill(&keys(1), b"0").await;
    let attempts = std::sync::Arc::new(AtomicU32::new(0));
    let tasks = (0..50).map(|_| {
        let (proxy, attempts) = (world.proxy.clone(), attempts.clone());
        tokio::spawn(async move {
            proxy
                .transact(|txn| {
                    attempts.fetch_add(1, Ordering::Relaxed);
                    async move {
                        let old = txn.get(&key(0)).await?.map(|r| r.value).unwrap_or_default();
                        let old: u64 = std::str::from_utf8(&old).unwrap().parse().unwrap();
                        tokio::task::yield_now().await; // let the others read it too
                        txn.put(&key(0), bytes(&(old + 1).to_string()), 0).await?;
                        Ok(old)
                    }
                })
                .await
        })
    });
    let mut seen = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        seen.push(task.await.unwrap().unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..50).collect::<Vec<u64>>());
    assert_eq!(world.get(&key(0)).await.unwrap(), "50");
    assert!(attempts.load(Ordering::Relaxed) > 50);
}

#[tokio::test(start_paused = true)]
async fn transact_passes_other_errors_and_honours_an_abort() {
    let world = Setup::default().start().await;
    let long = Bytes::from(vec![0; 1_000]);
    let refused = world.proxy.transact(|txn| {
        let long = long.clone();
        async move { txn.put(&key(0), long, 0).await }
    });
    assert_eq!(refused.await, Err(Error::ValueTooLong { bytes: 1_000, limit: 128 }));
    let given_up = world.proxy.transact(|txn| async move {
        txn.put(&key(0), bytes("x"), 0).await?;
        txn.abort();
        Ok(5)
    });
    assert_eq!(given_up.await, Ok(5));
    assert_eq!(world.get(&key(0)).await, None);
}

/// What it has done would count as often as it is run, whatever it returns.
#[tokio::test(start_paused = true)]
async fn a_body_that_commits_by_itself_is_not_run_again() {
    let world = Setup::default().start().await;
    for ends in [Ok(()), Err(Error::Conflict), Err(Error::NotACounter)] {
        let runs = AtomicU32::new(0);
        let body = |txn: Transaction| {
            let (runs, ends) = (&runs, ends.clone());
            async move {
                runs.fetch_add(1, Ordering::Relaxed);
                txn.put(&key(0), bytes("v"), 0).await?;
                txn.commit().await?;
                assert_eq!(txn.get(&key(0)).await, Err(Error::Ended));
                assert_eq!(txn.commit().await, Err(Error::Ended));
                ends
            }
        };
        assert_eq!((world.proxy.transact(body).await, runs.into_inner()), (ends, 1));
    }
    // Unless its commit has lost: then nothing of it counts.
    let (runs, rival) = (AtomicU32::new(0), world.proxy.begin());
    rival.put(&key(1), bytes("perhaps"), 0).await.unwrap();
    let body = |txn: Transaction| {
        let (runs, rival) = (&runs, &rival);
        async move {
            runs.fetch_add(1, Ordering::Relaxed);
            txn.get(&key(1)).await?;
            let loses = async {
                tokio::task::yield_now().await;
                rival.abort();
            };
            tokio::join!(txn.commit(), loses).0
        }
    };
    assert_eq!((world.proxy.transact(body).await, runs.into_inner()), (Ok(()), 2));
}

/// Reads key 0; what is there is an error of its own.
async fn refused_if_there(world: &World, runs: &AtomicU32) -> Result<(), Error> {
    let body = |txn: Transaction| async move {
        runs.fetch_add(1, Ordering::Relaxed);
        txn.put(&key(1), bytes("mine"), 0).await?;
        match txn.get(&key(0)).await? {
            Some(_) => Err(Error::NotACounter),
            None => Ok(()),
        }
    };
    world.proxy.transact(body).await
}

#[tokio::test(start_paused = true)]
async fn an_error_decided_on_what_never_was_is_not_told() {
    for commits in [false, true] {
        let world = Setup::default().start().await;
        let other = world.proxy.begin();
        other.put(&key(0), bytes("perhaps"), 0).await.unwrap();
        let runs = AtomicU32::new(0);
        let settled = async {
            while runs.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            if commits {
                other.commit().await.unwrap();
            } else {
                other.abort();
            }
        };
        let (told, ()) = tokio::join!(refused_if_there(&world, &runs), settled);
        let (right, times) = if commits { (Err(Error::NotACounter), 1) } else { (Ok(()), 2) };
        assert_eq!((told, runs.into_inner()), (right, times));
        let mine = (!commits).then(|| bytes("mine"));
        assert_eq!(world.get(&key(1)).await, mine, "an error takes back what was written");
    }
}

/// What was read may be of an epoch that is not durable yet: the answer comes with the end of this
/// one.
#[tokio::test(start_paused = true)]
async fn an_error_is_an_answer_as_any_other() {
    let world = Setup::default().start().await;
    let (before, runs) = (world.proxy.epoch(), AtomicU32::new(0));
    let reads_nothing = world.proxy.transact(|_| async { Err::<(), _>(Error::NotACounter) });
    assert_eq!(reads_nothing.await, Err(Error::NotACounter));
    assert_eq!(world.proxy.epoch(), before);
    world.fill(&keys(1), b"there").await;
    let before = world.proxy.epoch();
    assert_eq!(refused_if_there(&world, &runs).await, Err(Error::NotACounter));
    assert!(world.proxy.epoch() > before);
}

/// To take back what a body has written that went wrong costs those who have read it, not the body.
#[tokio::test(start_paused = true)]
async fn an_error_does_not_lose_to_those_who_have_read_what_it_wrote() {
    let world = Setup::default().start().await;
    world.fill(&keys(1), b"there").await;
    let (runs, younger) = (AtomicU32::new(0), fogbank_env::Mutex::new(None));
    let body = |txn: Transaction| {
        let (runs, younger, proxy) = (&runs, &younger, &world.proxy);
        async move {
            runs.fetch_add(1, Ordering::Relaxed);
            txn.get(&key(0)).await?;
            txn.put(&key(1), bytes("wrong"), 0).await?;
            let reader = proxy.begin();
            assert_eq!(reader.get(&key(1)).await?.unwrap().value, "wrong");
            *younger.lock() = Some(reader);
            Err::<(), _>(Error::NotACounter)
        }
    };
    assert_eq!(world.proxy.transact(body).await, Err(Error::NotACounter));
    assert_eq!(runs.into_inner(), 1);
    let reader = younger.into_inner().unwrap();
    assert!(reader.is_doomed());
    assert_eq!(world.get(&key(1)).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_vanishes_releases_what_it_reserved() {
    let world = Setup { write_batch: 4, capacity: 13, ..Setup::default() }.start().await;
    world.fill(&keys(8), b"v").await;
    world.next_epoch().await;
    let epoch = world.proxy.epoch();
    let txn = world.proxy.begin();
    for n in 100..104 {
        txn.put(&key(n), bytes("never"), 0).await.unwrap();
    }
    // Slots and addresses are all taken.
    let full = world.proxy.begin();
    assert_eq!(full.delete(&key(0)).await, Err(Error::BatchFull));
    let reading = txn.clone();
    let waiting = tokio::spawn(async move { reading.get_many(&keys(8)).await });
    tokio::task::yield_now().await;
    waiting.abort();
    let _ = waiting.await;
    drop(txn);
    let session = world.proxy.session();
    let puts: Vec<_> = (110..114)
        .map(|n| session.submit(move |v: &mut View<'_>| v.put(&key(n), bytes("w"), 0)))
        .collect();
    assert_eq!(world.proxy.epoch(), epoch);
    for put in puts {
        put.await.unwrap();
    }
    assert_eq!(world.proxy.epoch(), epoch + 1);
    // Nobody waited for the reads of the client that vanished, so none was made.
    let reads = world.reads();
    assert!(reads.iter().all(Vec::is_empty), "{reads:?}");
    assert_eq!(world.get(&key(112)).await.unwrap(), "w");
    assert_eq!(world.get(&key(102)).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_vanishes_cancels_what_has_not_run() {
    let world = Setup::default().start().await;
    world.fill(&keys(8), b"1").await;
    world.next_epoch().await;
    let session = world.proxy.session();
    let ran = session.submit(|v: &mut View<'_>| v.put(&key(50), bytes("ran"), 0));
    let waits = session.submit(increment(key(0)));
    let behind = session.submit(|v: &mut View<'_>| v.put(&key(51), bytes("never"), 0));
    drop(session);
    ran.await.unwrap();
    assert_eq!(waits.await, Err(Error::Closed));
    assert_eq!(behind.await, Err(Error::Closed));
    assert!(world.reads().iter().all(Vec::is_empty));
    assert_eq!(world.get(&key(50)).await.unwrap(), "ran");
    assert_eq!(world.get(&key(51)).await, None);
    assert_eq!(world.get(&key(0)).await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_without_statements_takes_no_timestamp() {
    let world = Setup::default().start().await;
    let txn = world.proxy.begin();
    world.next_epoch().await;
    assert_eq!(txn.rounds(), 0);
    assert!(!txn.is_doomed());
    // Bound only now: the epochs before do not matter.
    assert_eq!(txn.get(&Key::new(b"", b"")).await.unwrap(), None);
    txn.commit().await.unwrap();
    world.proxy.begin().commit().await.unwrap();
}
