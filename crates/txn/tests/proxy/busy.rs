//! Clients that keep the proxy busy: no call of the engine waits for them, and nothing is lost.

use std::sync::mpsc;
use std::time::Duration;

use fogbank_env::{Nanos, Visibility};
use fogbank_txn::{Bound, Error, KeyRange, View};

use crate::support::{Call, Setup, World, bytes, increment, key, keys};

const MS: Nanos = 1_000_000;

/// Calls and their times until the first second is over, on a proxy on which a unit of work takes a
/// tenth of a millisecond; what of them held a record; how many asks nobody came to in time.
async fn shape_under<F: Future<Output = ()>>(
    work: impl FnOnce(World) -> F,
) -> (Vec<(Nanos, char)>, usize, u64) {
    let world = Setup { unit_ns: MS / 10, ..Setup::default() }.start().await;
    let (record, clock, proxy) = (world.record.clone(), world.clock.clone(), world.proxy.clone());
    let metrics = world.metrics.clone();
    work(world).await;
    clock.sleep_until(1_000 * MS).await;
    let missed = metrics.gauge(Visibility::Secret, "asks_missed").get();
    drop(proxy);
    let calls = record.lock();
    let first = calls.calls.iter().filter(|(at, _)| *at < 1_000 * MS);
    let full = |call: &Call| match call {
        Call::Read(addresses) => addresses.len(),
        Call::Write(writes) => writes.len(),
        Call::Commit => 0,
    };
    let full = first.clone().map(|(_, call)| full(call)).sum();
    (first.map(|(at, call)| (*at, call.kind())).collect(), full, missed)
}

/// Programs that go through many names, for about as long as an epoch; beside them small ones.
async fn go_through_names(world: World) {
    world.fill(&keys(40), b"1").await;
    let all = KeyRange::group(b"g");
    let long = world.proxy.session();
    let small = world.proxy.session();
    let mut answers = Vec::new();
    for round in 0..20 {
        let all = all.clone();
        drop(long.submit(move |view: &mut View<'_>| {
            (0..10).try_for_each(|_| view.scan(&all, 100, false).map(drop))
        }));
        answers.push(small.submit(increment(key(round))));
        world.sleep_ms(31).await;
    }
    for answer in answers {
        assert_eq!(answer.await, Ok(2));
    }
}

/// A driver that took the lock under which programs run left as late as they took.
#[tokio::test(start_paused = true)]
async fn work_that_takes_time_moves_no_call() {
    let (idle, empty, missed) = shape_under(|_| async {}).await;
    assert_eq!((empty, missed), (0, 0));
    let (busy, full, missed) = shape_under(go_through_names).await;
    assert_eq!(busy, idle);
    assert!(full > 40, "{full}");
    assert!(missed > 3, "{missed}: the proxy was not busy when a batch was due");
}

/// The whole of it on threads: a program that holds the core for as long as it likes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_program_that_does_not_end_delays_no_epoch() {
    let world = Setup::default().start().await;
    world.fill(&keys(3), b"1").await;
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let ended = fogbank_env::Mutex::new(ended);
    let session = world.proxy.session();
    let endless = tokio::task::spawn_blocking(move || {
        let answer = session.submit(move |view: &mut View<'_>| {
            let _first = begin.send(());
            let _ended = ended.lock().recv();
            view.put(&key(0), bytes("9"), 0)
        });
        (session, answer)
    });
    tokio::task::spawn_blocking(move || begun.recv()).await.unwrap().unwrap();
    let commits = world.count('c');
    let mut looks = 0;
    while world.count('c') < commits + 5 {
        looks += 1;
        assert!(looks < 2_000, "no epoch has ended while a program ran");
        world.sleep_ms(10).await;
    }
    drop(end);
    let (_session, answer) = endless.await.unwrap();
    answer.await.unwrap();
    assert_eq!(world.get(&key(0)).await, Some(bytes("9")));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_is_refused_when_that_is_known() {
    let mut setup = Setup::default();
    setup.settings.gathered_bytes_max = 100 * setup.value_bytes;
    let world = setup.start().await;
    let session = world.proxy.session();
    let writes = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = writes.clone();
    let answer = session.submit(move |view: &mut View<'_>| {
        (0..5_000).try_for_each(|n| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            view.put(&key(n), bytes("1"), 0)
        })
    });
    let (limit, counted_max) = (100, 101);
    let error = Error::TooLarge { what: Bound::Writes, needed: counted_max, limit };
    assert_eq!(answer.await, Err(error));
    assert_eq!(writes.load(std::sync::atomic::Ordering::Relaxed), counted_max);

    world.fill(&keys(16), b"1").await;
    let all = KeyRange::group(b"g");
    let endless = session.submit(move |view: &mut View<'_>| -> Result<(), _> {
        loop {
            view.scan(&all, 100, false)?;
        }
    });
    let limit = world.proxy.limits().steps_max;
    let refused = endless.await;
    assert!(
        matches!(refused, Err(Error::TooLarge { what: Bound::Steps, limit: l, .. }) if l == limit),
        "{refused:?}"
    );
}

/// Closing took as long as there was work.
#[tokio::test(start_paused = true)]
async fn closing_takes_as_many_epochs_whoever_waits() {
    let mut epochs = Vec::new();
    for waiting in [0, 10, 500] {
        let mut setup = Setup { unit_ns: MS / 100, ..Setup::default() };
        setup.settings.closing_epochs = 3;
        let world = setup.start().await;
        world.sleep_ms(205).await;
        let sessions: Vec<_> = (0..waiting).map(|_| world.proxy.session()).collect();
        let answers: Vec<_> =
            (0..).zip(&sessions).map(|(n, s)| s.submit(increment(key(n % 100)))).collect();
        let (record, clock) = (world.record.clone(), world.clock.clone());
        let begun = clock.now();
        world.proxy.close().await.unwrap();
        let took = Duration::from_nanos(clock.now() - begun);
        epochs.push((took, record.lock().calls.len()));
        let mut done = 0;
        for answer in answers {
            match answer.await {
                Ok(_) => done += 1,
                Err(error) => assert_eq!(error, Error::Closed),
            }
        }
        // The open epoch and three more, of sixteen writes each.
        assert!(done >= waiting.min(48), "{done} of {waiting}");
    }
    assert!(epochs.windows(2).all(|pair| pair[0] == pair[1]), "{epochs:?}");
}
