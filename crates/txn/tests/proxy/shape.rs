//! What the engine is asked for, and when: the same whatever clients do.

use std::time::Duration;

use fogbank_env::{Nanos, Visibility};
use fogbank_txn::{Error, View};

use crate::support::{Setup, World, bytes, increment, key, keys};

const MS: Nanos = 1_000_000;

/// The calls of the first epochs of a world on which `work` runs meanwhile.
async fn shape_under<F: Future<Output = ()>>(work: impl FnOnce(World) -> F) -> Vec<(Nanos, char)> {
    let world = Setup::default().start().await;
    let record = world.record.clone();
    let clock = world.clock.clone();
    let proxy = world.proxy.clone();
    work(world).await;
    clock.sleep_until(2_200 * MS).await;
    drop(proxy);
    let calls = record.lock();
    calls
        .calls
        .iter()
        .map(|(at, c)| (*at, c.kind()))
        .take_while(|(at, _)| *at < 2_000 * MS)
        .collect()
}

async fn saturate(world: World) {
    world.fill(&keys(40), b"1").await;
    for round in 0..20_u32 {
        let sessions: Vec<_> = (0..60).map(|_| world.proxy.session()).collect();
        for (n, session) in sessions.iter().enumerate() {
            drop(session.submit(increment(key((n as u32 * 7 + round) % 40))));
        }
        world.sleep_ms(20).await;
    }
}

async fn abort_storm(world: World) {
    world.fill(&keys(20), b"1").await;
    for _ in 0..10 {
        let mut transactions = Vec::new();
        for n in 0..20 {
            let txn = world.proxy.begin();
            let _ = txn.put(&key(n), bytes("7"), 0).await;
            transactions.push(txn);
        }
        let sessions: Vec<_> = (0..200).map(|_| world.proxy.session()).collect();
        let answers: Vec<_> =
            (0..).zip(&sessions).map(|(n, s)| s.submit(increment(key(n % 20)))).collect();
        world.sleep_ms(13).await;
        transactions.iter().for_each(|txn| txn.abort());
        world.sleep_ms(17).await;
        drop(answers);
    }
}

/// Programs that change more than an epoch writes, one after the other; some of their clients go
/// away.
async fn large_programs(world: World) {
    world.fill(&keys(100), b"1").await;
    let (stays, leaves) = (world.proxy.session(), world.proxy.session());
    let rewrite = |from: u32, to: u32| {
        move |view: &mut View<'_>| {
            (from..to).try_for_each(|n| view.delete(&key(n)).map(drop))?;
            (to..from + 150).try_for_each(|n| view.put(&key(n), bytes("2"), 0))
        }
    };
    stays.submit(rewrite(0, 50)).await.unwrap();
    let dropped = leaves.submit(rewrite(50, 100));
    world.sleep_ms(130).await;
    drop((dropped, leaves));
    stays.submit(rewrite(0, 100)).await.unwrap();
}

async fn vanishing_clients(world: World) {
    world.fill(&keys(40), b"1").await;
    for round in 0..20 {
        let txn = world.proxy.begin();
        let _ = txn.put(&key(round), bytes("8"), 0).await;
        let session = world.proxy.session();
        (0..40).for_each(|n| drop(session.submit(increment(key(n)))));
        let read = txn.clone();
        let waiting = tokio::spawn(async move { read.get_many(&keys(20)).await });
        world.sleep_ms(7).await;
        waiting.abort();
        drop((txn, session));
        world.sleep_ms(20).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_calls_and_their_times_do_not_depend_on_the_load() {
    let idle = shape_under(|_| async {}).await;
    let period: String = idle.iter().take(5).map(|(_, kind)| kind).collect();
    assert_eq!(period, "rrrwc");
    for (i, (at, kind)) in idle.iter().enumerate() {
        let (epoch, place) = (i as u64 / 5, i as u64 % 5);
        let point = epoch * 4 + place.min(3) + 1;
        assert_eq!(*at, (point * 10 + 1) * MS, "call {i}, {kind}");
    }
    assert_eq!(shape_under(saturate).await, idle);
    assert_eq!(shape_under(abort_storm).await, idle);
    assert_eq!(shape_under(vanishing_clients).await, idle);
    assert_eq!(shape_under(large_programs).await, idle);
}

#[tokio::test(start_paused = true)]
async fn a_late_engine_makes_points_be_skipped_and_never_caught_up() {
    let world = Setup::default().start().await;
    world.record.lock().delays.extend([
        (1, Duration::from_millis(25)),
        (3, Duration::from_millis(10)),
        (9, Duration::from_millis(3)),
    ]);
    world.sleep_ms(200).await;
    let at: Vec<u64> = world.shape().iter().map(|(at, _)| at / MS).take(11).collect();
    // The second read ends at 46, the write at 71; the commit of 101 ends before the next point.
    assert_eq!(at, [11, 21, 51, 61, 71, 81, 91, 101, 111, 111, 121]);
}

#[tokio::test(start_paused = true)]
async fn the_write_phase_that_takes_long_delays_the_next_epoch_to_a_point() {
    let world = Setup::default().start().await;
    world.record.lock().delays.insert(4, Duration::from_millis(50));
    world.sleep_ms(200).await;
    let at: Vec<u64> = world.shape().iter().map(|(at, _)| at / MS).take(7).collect();
    assert_eq!(at, [11, 21, 31, 41, 41, 101, 111]);
}

/// A fault of ours must not leave clients waiting for ever.
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_engine_stops_everything() {
    let world = Setup::default().start().await;
    world.fill(&keys(3), b"1").await;
    let next = world.shape().len();
    world.record.lock().panic_at = Some(next + 2);
    let session = world.proxy.session();
    let answer = session.submit(increment(key(0))).await;
    assert!(matches!(answer, Err(Error::Stopped(_))), "{answer:?}");
    assert!(matches!(world.proxy.stopped().await, Error::Stopped(_)));
    assert!(matches!(world.proxy.close().await, Err(Error::Stopped(_))));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_fails_stops_everything() {
    for fail_at in 0..5 {
        let world = Setup::default().start().await;
        world.record.lock().fail_at = Some(5 + fail_at);
        world.fill(&keys(3), b"1").await;
        let session = world.proxy.session();
        let txn = world.proxy.begin();
        let answer = session.submit(increment(key(0)));
        let waiting = txn.get(&key(1)).await;
        let outcome = match waiting {
            Ok(_) => txn.commit().await,
            Err(error) => Err(error),
        };
        assert!(matches!(outcome, Err(Error::Stopped(_))), "{fail_at}: {outcome:?}");
        assert!(matches!(answer.await, Err(Error::Stopped(_))));
        let later = session.submit(|v: &mut View<'_>| v.get(&key(0))).await;
        assert!(matches!(later, Err(Error::Stopped(_))));
        assert!(matches!(world.proxy.begin().get(&key(0)).await, Err(Error::Stopped(_))));
        world.sleep_ms(500).await;
        assert_eq!(world.shape().len(), 6 + fail_at, "nothing more is sent");
        assert!(matches!(world.proxy.close().await, Err(Error::Stopped(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn closing_finishes_the_epoch_and_adds_one_of_dummies() {
    let world = Setup::default().start().await;
    world.fill(&keys(30), b"1").await;
    world.next_epoch().await;
    let session = world.proxy.session();
    let fits = session.submit(increment(key(0)));
    let other = world.proxy.session();
    let too_late: Vec<_> = (0..30).map(|n| other.submit(increment(key(n)))).collect();
    let commits = world.count('c');
    let record = world.record.clone();
    world.proxy.close().await.unwrap();
    fits.await.unwrap();
    let mut closed = 0;
    for answer in too_late {
        closed += usize::from(answer.await == Err(Error::Closed));
    }
    assert!(closed > 0);
    let calls = &record.lock().calls;
    let kinds: String = calls.iter().map(|(_, c)| c.kind()).collect();
    assert_eq!(kinds, "rrrwc".repeat(kinds.len() / 5));
    assert!(kinds.len() / 5 <= commits + 3);
    let last = &calls[calls.len() - 5..];
    let empty = |call: &crate::support::Call| match call {
        crate::support::Call::Read(addresses) => addresses.is_empty(),
        crate::support::Call::Write(writes) => writes.iter().all(|(_, full)| !full),
        crate::support::Call::Commit => true,
    };
    assert!(last.iter().all(|(_, call)| empty(call)));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_ends_the_epochs() {
    let world = Setup::default().start().await;
    let (record, clock) = (world.record.clone(), world.clock.clone());
    let session = world.proxy.session();
    drop(world);
    clock.sleep_until(500 * MS).await;
    assert_eq!(record.lock().calls.len(), 10);
    let answer = session.submit(|v: &mut View<'_>| v.get(&key(0)));
    assert_eq!(answer.await, Err(Error::Closed));
}

#[tokio::test(start_paused = true)]
async fn back_to_back_epochs_keep_the_shape_and_let_transactions_go_on() {
    let mut setup = Setup::default();
    setup.settings.interval = Duration::ZERO;
    let world = setup.start().await;
    world.fill(&keys(10), b"1").await;
    let rounds = world.proxy.transact(|txn| async move {
        for n in 0..3 {
            txn.get(&key(n)).await?;
        }
        Ok(txn.rounds())
    });
    assert_eq!(rounds.await, Ok(3));
    let kinds: String = world.shape().iter().map(|(_, kind)| kind).collect();
    assert!(kinds.starts_with("rrrwcrrrwc"));
}

#[tokio::test(start_paused = true)]
async fn figures_that_depend_on_the_load_are_secret() {
    let world = Setup::default().start().await;
    world.fill(&keys(5), b"1").await;
    let public: Vec<_> = world.metrics.snapshot(Visibility::Public);
    let epochs = world.count('c') as u64;
    assert_eq!(public, [("epochs", epochs), ("grid_points_skipped", 0)]);
    let secret = world.metrics.snapshot(Visibility::Secret);
    assert!(secret.contains(&("programs_committed", 5)));
    assert!(secret.contains(&("blocks_written", 5)));
}
