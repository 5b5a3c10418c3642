//! Programs: order, retries unseen, watches.

use bytes::Bytes;
use fogbank_txn::{Error, KeyRange, Pause, View, Watch};

use crate::support::{Setup, World, bytes, increment, key, keys};

#[tokio::test(start_paused = true)]
async fn a_thousand_increments_of_one_key_commit_within_two_epochs() {
    let world = Setup::default().start().await;
    world.fill(&keys(1), b"0").await;
    world.next_epoch().await;
    let before = world.count('c');
    let sessions: Vec<_> = (0..1_000).map(|_| world.proxy.session()).collect();
    let answers: Vec<_> = sessions.iter().map(|s| s.submit(increment(key(0)))).collect();
    let mut numbers = Vec::new();
    for answer in answers {
        numbers.push(answer.await.unwrap());
    }
    assert!(world.count('c') - before <= 2);
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=1_000).collect::<Vec<u64>>());
    assert_eq!(world.get(&key(0)).await.unwrap(), "1000");
    let asked: usize = world.reads().iter().map(Vec::len).sum();
    assert!(asked <= 2, "one read serves them all: {asked}");
}

/// A refusal is an answer: it is told with the epoch, and decided anew if what it was decided on
/// was taken back.
#[tokio::test(start_paused = true)]
async fn a_refusal_decided_on_what_never_was_is_not_told() {
    for commits in [false, true] {
        let world = Setup::default().start().await;
        let other = world.proxy.begin();
        other.put(&key(0), bytes("perhaps"), 0).await.unwrap();
        let (before, session) = (world.proxy.epoch(), world.proxy.session());
        let refused_if_there = session.submit(|v: &mut View<'_>| {
            v.put(&key(1), bytes("mine"), 0)?;
            match v.get(&key(0))? {
                Some(_) => Err(Pause::Refused(Error::NotACounter)),
                None => Ok(()),
            }
        });
        let behind = session.submit(|v: &mut View<'_>| v.get(&key(1)));
        let settled = async {
            if commits {
                other.commit().await.unwrap();
            } else {
                other.abort();
            }
        };
        let (told, behind, ()) = tokio::join!(refused_if_there, behind, settled);
        let right = if commits { Err(Error::NotACounter) } else { Ok(()) };
        assert_eq!(told, right);
        assert!(world.proxy.epoch() > before);
        let mine = (!commits).then(|| bytes("mine"));
        assert_eq!(behind.unwrap().map(|record| record.value), mine, "what was refused is seen");
        assert_eq!(world.get(&key(1)).await, mine);
    }
}

/// Its run was taken back and it will not run again: it has not taken place, which is no fault of
/// the epochs.
#[tokio::test(start_paused = true)]
async fn a_program_whose_session_has_gone_is_not_left_in_doubt() {
    let world = Setup::default().start().await;
    let other = world.proxy.begin();
    other.put(&key(0), bytes("perhaps"), 0).await.unwrap();
    let session = world.proxy.session();
    let reads = session.submit(|v: &mut View<'_>| v.get(&key(0)));
    drop(session);
    other.abort();
    assert_eq!(reads.await, Err(Error::Closed));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_answered_before_the_epoch_has_committed() {
    let world = Setup::default().start().await;
    let session = world.proxy.session();
    let answer = session.submit(|v: &mut View<'_>| v.put(&key(1), bytes("x"), 0));
    let commits = world.count('c');
    answer.await.unwrap();
    assert!(world.count('c') > commits);
}

#[tokio::test(start_paused = true)]
async fn programs_of_a_session_take_effect_in_order_and_share_a_batch() {
    let world = Setup::default().start().await;
    world.fill(&keys(6), b"5").await;
    world.next_epoch().await;
    let reads_before = world.reads().iter().map(Vec::len).sum::<usize>();
    let session = world.proxy.session();
    let mut answers = Vec::new();
    for n in 0..6 {
        answers.push(session.submit(increment(key(n))));
        answers.push(session.submit(increment(key(n))));
    }
    let epoch = world.proxy.epoch();
    let mut numbers = Vec::new();
    for answer in answers {
        numbers.push(answer.await.unwrap());
    }
    assert_eq!(numbers, [6, 7, 6, 7, 6, 7, 6, 7, 6, 7, 6, 7]);
    assert!(world.proxy.epoch() <= epoch + 2);
    let batches: Vec<usize> = world.reads().iter().map(Vec::len).filter(|&n| n > 0).collect();
    assert_eq!(batches.iter().sum::<usize>() - reads_before, 6);
    assert!(batches.contains(&6), "the pipeline's reads share a batch: {batches:?}");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_read_what_is_taken_back_runs_again_and_its_session_behind_it() {
    let world = Setup::default().start().await;
    world.fill(&keys(2), b"10").await;
    world.next_epoch().await;
    let txn = world.proxy.begin();
    txn.put(&key(0), bytes("90"), 0).await.unwrap();
    let session = world.proxy.session();
    let first = session.submit(increment(key(0)));
    let second = session.submit(|v: &mut View<'_>| {
        let seen = v.get(&key(0))?;
        v.put(&key(1), seen.map(|r| r.value).unwrap_or_default(), 0)
    });
    let other = world.proxy.session();
    let third = other.submit(|v: &mut View<'_>| v.get(&key(0)));
    txn.abort();
    assert_eq!(first.await.unwrap(), 11);
    second.await.unwrap();
    let seen = third.await.unwrap().unwrap().value;
    assert!(seen == "10" || seen == "11", "{seen:?}");
    assert_eq!(world.get(&key(1)).await.unwrap(), "11");
}

#[tokio::test(start_paused = true)]
async fn programs_stay_in_the_order_of_their_session_when_one_runs_again() {
    let world = Setup::default().start().await;
    let txn = world.proxy.begin();
    txn.put(&key(0), bytes("90"), 0).await.unwrap();
    let session = world.proxy.session();
    let first = session.submit(|v: &mut View<'_>| v.get(&key(0)).map(|_| v.stamp()));
    // Nothing but the session ties these to the first.
    let second = session.submit(|v: &mut View<'_>| Ok(v.stamp()));
    let third = session.submit(|v: &mut View<'_>| Ok(v.stamp()));
    drop(txn);
    let (first, second, third) = (first.await, second.await, third.await);
    assert!(first.unwrap() < second.clone().unwrap() && second.unwrap() < third.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_program_keeps_the_committed_write_it_read() {
    let world = Setup::default().start().await;
    let txn = world.proxy.begin();
    txn.put(&key(0), bytes("90"), 0).await.unwrap();
    let session = world.proxy.session();
    let answer = session.submit(increment(key(0)));
    txn.commit().await.unwrap();
    assert_eq!(answer.await.unwrap(), 91);
    assert_eq!(world.get(&key(0)).await.unwrap(), "91");
}

#[tokio::test(start_paused = true)]
async fn an_interactive_writer_below_a_programs_read_aborts() {
    let world = Setup::default().start().await;
    let txn = world.proxy.begin();
    txn.put(&key(9), bytes("x"), 0).await.unwrap();
    let session = world.proxy.session();
    let absent = session.submit(|v: &mut View<'_>| v.get(&key(0)));
    assert_eq!(txn.put(&key(0), bytes("y"), 0).await, Err(Error::Conflict));
    assert_eq!(absent.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn replies_of_one_program_are_one_state() {
    let world = Setup::default().start().await;
    world.fill(&keys(4), b"0").await;
    let sessions: Vec<_> = (0..40).map(|_| world.proxy.session()).collect();
    let transfer = |from: u32, to: u32| {
        move |v: &mut View<'_>| {
            let read = v.get_many(&[key(from), key(to)])?;
            let number = |i: usize| -> i64 {
                let record = read[i].as_ref().unwrap();
                std::str::from_utf8(&record.value).unwrap().parse().unwrap()
            };
            v.put(&key(from), bytes(&(number(0) - 1).to_string()), 0)?;
            v.put(&key(to), bytes(&(number(1) + 1).to_string()), 0)
        }
    };
    let sum = |v: &mut View<'_>| -> Result<i64, Pause> {
        let read = v.get_many(&keys(4))?;
        let number = |r: fogbank_txn::Record| std::str::from_utf8(&r.value).unwrap().parse::<i64>();
        Ok(read.into_iter().flatten().map(|r| number(r).unwrap()).sum())
    };
    let (mut moves, mut sums) = (Vec::new(), Vec::new());
    for (i, session) in sessions.iter().enumerate() {
        moves.push(session.submit(transfer(i as u32 % 4, (i as u32 + 1 + i as u32 / 4 % 3) % 4)));
        sums.push(session.submit(sum));
    }
    for answer in moves {
        answer.await.unwrap();
    }
    for answer in sums {
        assert_eq!(answer.await.unwrap(), 0);
    }
}

async fn watch(world: &World, range: bool) -> Watch {
    let session = world.proxy.session();
    let program = move |v: &mut View<'_>| {
        let watch = v.watch();
        if range {
            v.watch_range(&watch, &KeyRange::group(b"g"));
        } else {
            v.watch_key(&watch, &key(0));
        }
        Ok(watch)
    };
    session.submit(program).await.unwrap()
}

async fn changed(world: &World, watch: &Watch) -> bool {
    let watch = watch.clone();
    let session = world.proxy.session();
    session.submit(move |v: &mut View<'_>| Ok(v.changed(&watch))).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_later_writes_across_epochs_and_only_those() {
    let world = Setup::default().start().await;
    world.fill(&keys(2), b"1").await;
    for range in [false, true] {
        let watch = watch(&world, range).await;
        assert!(!changed(&world, &watch).await);
        world.next_epoch().await;
        assert!(!changed(&world, &watch).await);
        let elsewhere = fogbank_txn::Key::new(b"h", b"");
        world.fill(&[elsewhere], b"1").await;
        assert!(!changed(&world, &watch).await);
        // Even a write that leaves everything as it was.
        world.fill(&keys(1), b"1").await;
        assert!(changed(&world, &watch).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_writes_of_its_own_epoch() {
    let world = Setup::default().start().await;
    for range in [false, true] {
        let session = world.proxy.session();
        let (sender, receiver) = std::sync::mpsc::channel();
        let entered = session.submit(move |v: &mut View<'_>| {
            v.put(&key(0), Bytes::new(), 0)?;
            let watch = v.watch();
            v.watch_key(&watch, &key(0));
            if range {
                v.watch_range(&watch, &KeyRange::group(b"g"));
            }
            sender.send(watch).unwrap();
            Ok(())
        });
        let watch = receiver.try_iter().last().unwrap();
        let again = watch.clone();
        let before = session.submit(move |v: &mut View<'_>| Ok(v.changed(&again)));
        let write = session.submit(|v: &mut View<'_>| v.set_attr(&key(0), 7));
        let after = session.submit(move |v: &mut View<'_>| Ok(v.changed(&watch)));
        entered.await.unwrap();
        assert!(!before.await.unwrap());
        assert!(write.await.unwrap());
        assert!(after.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_said_about_a_write_taken_back_is_said_again() {
    let world = Setup::default().start().await;
    let watch = watch(&world, false).await;
    let txn = world.proxy.begin();
    txn.put(&key(0), bytes("dirty"), 0).await.unwrap();
    let session = world.proxy.session();
    let answer = session.submit(move |v: &mut View<'_>| Ok(v.changed(&watch)));
    drop(txn);
    assert!(!answer.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_program_that_panics_fails_alone() {
    let world = Setup::default().start().await;
    let session = world.proxy.session();
    let panics = session.submit(|v: &mut View<'_>| -> Result<(), Pause> {
        v.put(&key(0), bytes("never"), 0)?;
        panic!("on purpose");
    });
    let behind = session.submit(increment(key(0)));
    assert_eq!(panics.await, Err(Error::Panicked));
    assert_eq!(behind.await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_programs_fall_and_rise_with_one_transaction() {
    let world = Setup::default().start().await;
    let txn = world.proxy.begin();
    txn.put(&key(0), bytes("1000000"), 0).await.unwrap();
    let sessions: Vec<_> = (0..5_000).map(|_| world.proxy.session()).collect();
    let answers: Vec<_> = sessions.iter().map(|s| s.submit(increment(key(0)))).collect();
    world.sleep_ms(1).await;
    drop(txn);
    for (n, answer) in (1..).zip(answers) {
        assert_eq!(answer.await, Ok(n));
    }
}
