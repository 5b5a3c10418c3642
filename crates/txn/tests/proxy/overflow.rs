//! Batches that are full: who waits, who aborts, who can never fit.

use bytes::Bytes;
use fogbank_txn::{Error, Key, View};

use crate::support::{Setup, World, bytes, increment, key, keys};

async fn filled(setup: Setup, records: u32, value: &'static [u8]) -> World {
    let world = setup.start().await;
    world.fill(&keys(records), value).await;
    world.next_epoch().await;
    world
}

#[tokio::test(start_paused = true)]
async fn reads_beyond_the_batches_move_to_later_epochs_first_come_first_served() {
    let world = filled(Setup::default(), 100, b"1").await;
    let sessions: Vec<_> = (0..100).map(|_| world.proxy.session()).collect();
    let done = std::sync::Arc::new(fogbank_env::Mutex::new(Vec::new()));
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let answer = sessions[n].submit(increment(key(n as u32)));
            let (done, proxy) = (done.clone(), world.proxy.clone());
            tokio::spawn(async move {
                answer.await.unwrap();
                done.lock().push((proxy.epoch(), n));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let done = done.lock().clone();
    // 16 write slots an epoch: in the order of arrival, 16 by 16.
    for pair in done.windows(17) {
        assert!(pair[0].0 < pair[16].0);
        assert!(pair[0].1 < pair[16].1);
    }
    assert!(world.reads().iter().all(|batch| batch.len() <= 8));
}

#[tokio::test(start_paused = true)]
async fn a_large_program_is_not_starved_by_small_ones() {
    let world = filled(Setup::default(), 60, b"1").await;
    // Readers that fill every batch, writers that fill every write batch, for ever.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let noise: Vec<_> = (0..60)
        .map(|n| {
            let (session, stop) = (world.proxy.session(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let put = session.submit(move |v: &mut View<'_>| v.put(&key(n), bytes("2"), 0));
                    let get = session.submit(move |v: &mut View<'_>| v.get(&key((n + 30) % 60)));
                    put.await.unwrap();
                    get.await.unwrap();
                }
            })
        })
        .collect();
    world.sleep_ms(100).await;
    let session = world.proxy.session();
    let began = world.proxy.epoch();
    let large = session.submit(|v: &mut View<'_>| {
        let read = v.get_many(&keys(16))?;
        for (n, record) in (0..).zip(read) {
            v.put(&key(100 + n), record.map(|r| r.value).unwrap_or_default(), 1)?;
        }
        Ok(())
    });
    large.await.unwrap();
    assert!(world.proxy.epoch() - began < 20, "{}", world.proxy.epoch() - began);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for task in noise {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_has_one_epoch_and_a_program_many() {
    let world = filled(Setup::default(), 40, b"1").await;
    let session = world.proxy.session();
    let hinted = session.submit(|v: &mut View<'_>| {
        v.want(&keys(20));
        (0..20).try_for_each(|n| v.get(&key(n)).map(drop))
    });
    hinted.await.unwrap();
    let writes =
        session.submit(|v: &mut View<'_>| (0..17).try_for_each(|n| v.put(&key(n), bytes("2"), 0)));
    writes.await.unwrap();
    let txn = world.proxy.begin();
    assert!(matches!(txn.get_many(&keys(25)).await, Err(Error::TooLarge { .. })));
}

/// What writes no block takes no slot, but what its entry takes in the delta.
#[tokio::test(start_paused = true)]
async fn removals_take_less_than_writes() {
    let world = filled(Setup::default(), 60, b"1").await;
    let session = world.proxy.session();
    let delete = |of: std::ops::Range<u32>| {
        move |v: &mut View<'_>| of.clone().try_for_each(|n| v.delete(&key(n)).map(drop))
    };
    let epoch = world.proxy.epoch();
    assert_eq!(session.submit(delete(0..48)).await, Ok(()));
    assert!(world.proxy.epoch() <= epoch + 2);
    assert_eq!(world.proxy.records(), 12);
    world.fill(&keys(60), b"2").await;
    let epoch = world.proxy.epoch();
    assert_eq!(session.submit(delete(0..49)).await, Ok(()));
    assert!(world.proxy.epoch() >= epoch + 3);
    // A long key takes all of its bytes.
    let long = |n: u8| Key::new(&[n], &[b'k'; 1_000]);
    let puts =
        |of: u8| move |v: &mut View<'_>| (0..of).try_for_each(|n| v.put(&long(n), Bytes::new(), 0));
    let epoch = world.proxy.epoch();
    assert_eq!(session.submit(puts(4)).await, Ok(()));
    assert!(world.proxy.epoch() <= epoch + 2);
    assert_eq!(session.submit(puts(5)).await, Ok(()));
    assert!(world.proxy.epoch() >= epoch + 4);
}

#[tokio::test(start_paused = true)]
async fn long_values_wait_for_a_batch_with_room_for_all_of_their_blocks() {
    // Three blocks each, eight a batch: two a batch and a short one beside them.
    let world = filled(Setup::default(), 5, b"0123456789012345678901234567890123456789").await;
    world.fill(&[key(9)], b"s").await;
    world.next_epoch().await;
    let sessions: Vec<_> = (0..6).map(|_| world.proxy.session()).collect();
    let get = |n: u32| move |v: &mut View<'_>| v.get(&key(n));
    let mut answers: Vec<_> = (0..5).map(|n| sessions[n].submit(get(n as u32))).collect();
    answers.push(sessions[5].submit(get(9)));
    let epoch = world.proxy.epoch();
    for answer in answers {
        assert!(answer.await.unwrap().is_some());
    }
    assert_eq!(world.proxy.epoch(), epoch + 1);
    let batches: Vec<usize> = world.reads().iter().map(Vec::len).filter(|&n| n > 0).collect();
    assert_eq!(batches, [7, 6, 3]);
}

#[tokio::test(start_paused = true)]
async fn interactive_writers_that_find_the_write_batch_full_abort() {
    let world = filled(Setup { write_batch: 2, ..Setup::default() }, 4, b"1").await;
    let txn = world.proxy.begin();
    txn.put(&key(0), bytes("a"), 0).await.unwrap();
    txn.put(&key(1), bytes("b"), 0).await.unwrap();
    txn.put(&key(1), bytes("c"), 0).await.unwrap();
    let other = world.proxy.begin();
    assert_eq!(other.put(&key(2), bytes("d"), 0).await, Err(Error::BatchFull));
    // The same record takes no second slot.
    let third = world.proxy.begin();
    third.put(&key(1), bytes("e"), 0).await.unwrap();
    let commit = tokio::spawn(async move { third.commit().await });
    txn.commit().await.unwrap();
    commit.await.unwrap().unwrap();
    assert_eq!(world.get(&key(1)).await.unwrap(), "e");
}

#[tokio::test(start_paused = true)]
async fn interactive_reads_go_first_and_leave_programs_a_share() {
    let world = filled(Setup::default(), 60, b"1").await;
    let sessions: Vec<_> = (0..20).map(|_| world.proxy.session()).collect();
    let answers: Vec<_> = (0..20).map(|n| sessions[n].submit(increment(key(n as u32)))).collect();
    let transactions: Vec<_> = (0..3).map(|_| world.proxy.begin()).collect();
    let tasks: Vec<_> = (transactions.iter().enumerate())
        .map(|(n, txn)| {
            let txn = txn.clone();
            let wanted: Vec<_> = (0..6).map(|i| key(30 + n as u32 * 6 + i)).collect();
            tokio::spawn(async move {
                txn.get_many(&wanted).await.unwrap();
                txn.commit().await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    for answer in answers {
        answer.await.unwrap();
    }
    let first = world.reads().into_iter().find(|batch| !batch.is_empty()).unwrap();
    assert_eq!(first.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_does_not_queue_behind_the_program_that_asked_for_the_same() {
    let world = filled(Setup::default(), 60, b"1").await;
    let sessions: Vec<_> = (0..60).map(|_| world.proxy.session()).collect();
    let answers: Vec<_> = (0..60)
        .map(|n| sessions[n].submit(move |v: &mut View<'_>| v.get(&key(n as u32))))
        .collect();
    let txn = world.proxy.begin();
    txn.get(&key(31)).await.unwrap();
    assert_eq!(txn.rounds(), 1);
    txn.commit().await.unwrap();
    for answer in answers {
        answer.await.unwrap();
    }
}

/// A rollback that brings back a longer value needs what was reserved for it: else the epoch has
/// more writes than slots, and the engine refuses it and everybody with it.
#[tokio::test(start_paused = true)]
async fn what_a_rollback_brings_back_stays_reserved() {
    let world = Setup::default().start().await;
    let txn = world.proxy.begin();
    txn.put(&key(0), Bytes::from(vec![b'x'; 128]), 0).await.unwrap();
    let one = txn.savepoint().unwrap();
    txn.put(&key(0), bytes("a"), 0).await.unwrap();
    let two = txn.savepoint().unwrap();
    txn.put(&key(0), bytes("b"), 0).await.unwrap();
    txn.rollback_to(two).unwrap();
    txn.rollback_to(one).unwrap();
    for n in 1..16 {
        let _ = txn.put(&key(n), bytes("c"), 0).await; // not all of them fit
    }
    assert!(!matches!(txn.commit().await, Err(Error::Stopped(_))));
    let other = world.proxy.begin().exists(&key(0)).await;
    assert!(!matches!(other, Err(Error::Stopped(_))), "{other:?}");
}
