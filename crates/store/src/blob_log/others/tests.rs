//! Several processes at one log.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};

use super::super::form::{FORGOTTEN, encode_forgotten, name};
use super::*;
use crate::blob_log::tests::Life;
use crate::blob_log::{BlobLog, LOG_KEPT_BYTES};
use crate::log_conformance::{self, entry};
use crate::{
    Call, Delay, Faulty, Link, Log, LogEntry, LogEvent, LogEvents, MemoryStore, PutCondition,
    Store, is_of_forgotten,
};

const INTERVAL: Nanos = 50_000_000;
/// It looks once, in a time beyond all tests.
const NEVER: Nanos = 1 << 62;

async fn open(store: &Arc<dyn Store>, interval: Nanos) -> BlobLog {
    let clock = Arc::new(SystemClock::new());
    BlobLog::open_beside_others(store.clone(), clock, LOG_KEPT_BYTES, interval).await.unwrap()
}

/// A log of which each call is another process's.
struct Two {
    logs: [BlobLog; 2],
    next: AtomicUsize,
}

impl Two {
    async fn open(store: &Arc<dyn Store>) -> Self {
        let logs = [open(store, INTERVAL).await, open(store, INTERVAL).await];
        Self { logs, next: AtomicUsize::new(0) }
    }

    fn one(&self) -> &BlobLog {
        &self.logs[self.next.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[async_trait]
impl Log for Two {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        self.one().append(entry).await
    }

    async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        self.one().publish(place, result).await
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        self.one().follow(from).await
    }

    async fn forget(&self, before: u64) -> Result<()> {
        self.one().forget(before).await
    }
}

#[tokio::test(start_paused = true)]
async fn two_processes_conform_as_one() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    log_conformance::run(async || Two::open(&store).await).await;
    log_conformance::a_turn_that_never_comes(&Two::open(&store).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_beside_others_that_ends_loses_nothing_acknowledged() {
    Life { beside_others: true }.ends_at_every_call().await;
}

fn far_away() -> Arc<dyn Store> {
    let random = Randomness::repeatable(7).stream(Purpose::Faults);
    let link = Link {
        round_trip: Duration::from_millis(20),
        jitter: Duration::from_millis(15),
        ..Link::instant()
    };
    Arc::new(Delay::new(MemoryStore::new(), Arc::new(SystemClock::new()), link, random))
}

/// Processes that append at once agree on the order, and so does one that comes later.
#[tokio::test(start_paused = true)]
async fn processes_that_race_agree_on_the_order() {
    let store = far_away();
    let mut processes = tokio::task::JoinSet::new();
    for session in 0..4 {
        let log = open(&store, INTERVAL).await;
        processes.spawn(async move {
            let mut events = log.follow(0).await.unwrap();
            let mut own = Vec::new();
            for turn in 1..=20 {
                let place = log.append(entry(session, turn)).await.unwrap().unwrap();
                log.publish(place, format!("{place}").into()).await.unwrap();
                own.push((place, entry(session, turn).bytes));
            }
            let (mut entries, mut results) = (Vec::new(), BTreeSet::new());
            while entries.len() < 80 || results.len() < 80 {
                match events.recv().await.unwrap().unwrap() {
                    LogEvent::Entry(_, bytes) => entries.push(bytes),
                    LogEvent::Result(place, bytes) => {
                        assert_eq!(bytes, format!("{place}"));
                        assert!(results.insert(place));
                    }
                }
            }
            assert!(own.iter().all(|(place, bytes)| entries[*place as usize] == *bytes));
            entries
        });
    }
    let seen = processes.join_all().await;
    assert!(seen.iter().all(|entries| *entries == seen[0]));
    let mut events = open(&store, INTERVAL).await.listen(0).unwrap();
    for (place, bytes) in seen[0].iter().enumerate() {
        let came = events.ready().unwrap();
        assert_eq!(came, Some(LogEvent::Entry(place as u64, bytes.clone())));
        events.ready().unwrap();
    }
}

/// A process that has not looked for long finds places free that were forgotten. It is told so,
/// puts nothing more, and nobody believes what it put there meanwhile.
#[tokio::test(start_paused = true)]
async fn a_process_far_behind_takes_no_place_that_was_forgotten() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (behind, also) = (open(&store, NEVER).await, open(&store, NEVER).await);
    let mut listening = also.listen(0).unwrap();
    let ahead = open(&store, INTERVAL).await;
    for turn in 1..=10 {
        ahead.append(entry(1, turn)).await.unwrap();
    }
    ahead.forget(8).await.unwrap();
    let told = behind.append(entry(2, 1)).await;
    assert!(matches!(&told, Err(StoreError::Refused(why)) if is_of_forgotten(why)), "{told:?}");
    // Two, what was forgotten, and
    assert_eq!(store.blob_list(ENTRIES).await.unwrap().len(), 3 + 1, "a stray, which stays");
    let refused = behind.listen(7).map(drop);
    assert!(matches!(refused, Err(StoreError::Refused(_))));

    assert!(also.append(entry(4, 1)).await.is_err());
    let told = listening.next().await;
    assert!(matches!(told, Err(StoreError::Absent(_))), "what it wants was forgotten: {told:?}");
    let fresh = open(&store, INTERVAL).await;
    assert_eq!(fresh.append(entry(3, 1)).await.unwrap(), Some(10));
    assert_eq!(fresh.append(entry(2, 1)).await.unwrap(), Some(11), "the stray counted for nobody");
    assert!(store.blob_list(ENTRIES).await.unwrap().len() > 4, "nor did it go");
    fresh.forget(9).await.unwrap();
    assert_eq!(store.blob_list(ENTRIES).await.unwrap().len(), 3 + 1, "who forgets puts it away");
}

/// What the log has forgotten is said in a blob that nobody has sealed. A cloud that says it of
/// more has nobody delete anything, before or after a start.
#[tokio::test(start_paused = true)]
async fn nothing_goes_on_the_word_of_the_cloud() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let log = open(&store, NEVER).await;
    for turn in 1..=10 {
        log.append(entry(1, turn)).await.unwrap();
    }
    let forged = encode_forgotten(100, &[(1, 10)].into());
    store.blob_put(FORGOTTEN, forged, PutCondition::Always).await.unwrap();
    let told = log.append(entry(1, 11)).await;
    assert!(matches!(told, Err(StoreError::Refused(_))), "{told:?}");
    let started = open(&store, INTERVAL).await;
    let refused = started.listen(10).map(drop);
    assert!(matches!(refused, Err(StoreError::Refused(_))));
    started.forget(8).await.unwrap();
    assert!(store.blob_list(ENTRIES).await.unwrap().len() >= 3, "but what a client says may go");
    store.blob_delete(&[FORGOTTEN]).await.unwrap();
}

/// Beside one that has always something to put, another is not too late again and again, though
/// all are as far away.
#[tokio::test(start_paused = true)]
async fn nobody_is_too_late_again_and_again() {
    let link = Link { round_trip: Duration::from_millis(30), ..Link::instant() };
    let clock = Arc::new(SystemClock::new());
    let random = Randomness::repeatable(8).stream(Purpose::Faults);
    let store: Arc<dyn Store> =
        Arc::new(Delay::new(MemoryStore::new(), clock.clone(), link, random));
    for busy_ones in [1, 3] {
        let mut busy = tokio::task::JoinSet::new();
        for session in 0..busy_ones {
            let log = open(&store, INTERVAL).await;
            busy.spawn(async move {
                for turn in 1.. {
                    log.append(entry(10 * busy_ones + session, turn)).await.unwrap();
                }
            });
        }
        let log = open(&store, INTERVAL).await;
        let mut most = 0;
        for turn in 1..=60 {
            // At whatever moment of the others.
            clock.sleep_until(clock.now() + 7_000_000 * turn).await;
            let begun = clock.now();
            log.append(entry(busy_ones, turn)).await.unwrap();
            let trips = (clock.now() - begun) / 30_000_000;
            most = most.max(trips);
        }
        // Some to pass what has come since it looked, and two to read that.
        assert!(most <= 4 + 6 * u64::from(busy_ones), "{busy_ones} beside: {most} trips");
        busy.shutdown().await;
    }
}

/// A cloud that took long once does not have everybody wait as long for everybody.
#[tokio::test(start_paused = true)]
async fn places_are_not_left_for_as_long_as_a_cloud_is_away() {
    let link = Link { round_trip: Duration::from_secs(20), ..Link::instant() };
    let clock = Arc::new(SystemClock::new());
    let random = Randomness::repeatable(9).stream(Purpose::Faults);
    let store: Arc<dyn Store> =
        Arc::new(Delay::new(MemoryStore::new(), clock.clone(), link, random));
    for session in 1..=5 {
        open(&store, NEVER).await.append(entry(session, 1)).await.unwrap();
    }
    let log = open(&store, NEVER).await;
    log.append(entry(6, 1)).await.unwrap();
    let begun = clock.now();
    log.append(entry(6, 2)).await.unwrap();
    // A put and what was forgotten; five others would be 100 seconds more.
    assert!(clock.now() - begun <= 41_000_000_000, "{}", clock.now() - begun);
}

/// A place that is missing before others is told before anything is put there.
#[tokio::test(start_paused = true)]
async fn a_hole_is_told_at_the_start_and_left_as_it_is() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let log = open(&store, INTERVAL).await;
    for turn in 1..=4 {
        log.append(entry(1, turn)).await.unwrap();
    }
    store.blob_delete(&[&name(ENTRIES, 2)]).await.unwrap();
    let clock = Arc::new(SystemClock::new());
    let opened = BlobLog::open_beside_others(store.clone(), clock, LOG_KEPT_BYTES, INTERVAL).await;
    assert!(matches!(opened, Err(StoreError::Misbehaved(_))));
    assert_eq!(store.blob_list(ENTRIES).await.unwrap().len(), 3);
}

/// What a store in memory answers at once.
fn now<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

/// That a place is taken, and that nothing is there, cannot both be so.
#[tokio::test(start_paused = true)]
async fn a_place_that_is_taken_by_nothing_is_a_lie() {
    let inner = Arc::new(MemoryStore::new());
    let store = Arc::new(Faulty::new(inner.clone()));
    let log = open(&(store.clone() as Arc<dyn Store>), NEVER).await;
    assert_eq!(log.append(entry(1, 1)).await.unwrap(), Some(0));
    // Whatever is put finds something there, and whoever reads it finds nothing.
    store.on_call(move |call, _| {
        match call {
            Call::BlobPut(name, ..) => {
                let condition = PutCondition::Always;
                now(inner.blob_put(name, Bytes::from_static(b"x"), condition)).unwrap();
            }
            Call::BlobGet(name) => now(inner.blob_delete(&[name])).unwrap(),
            _ => {}
        }
        None
    });
    let told = log.append(entry(1, 2)).await;
    assert!(matches!(told, Err(StoreError::Misbehaved(_))), "{told:?}");
    let told = log.publish(0, "result".into()).await;
    assert!(matches!(told, Err(StoreError::Misbehaved(_))), "{told:?}");
}

/// Whoever holds the store can put what it likes; nobody takes in more than twice what may be kept.
#[tokio::test(start_paused = true)]
async fn a_log_that_others_flood_is_left() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let open = || BlobLog::open_beside_others(store.clone(), clock.clone(), 20_000, INTERVAL);
    let log = open().await.unwrap();
    let mut events = log.follow(0).await.unwrap();
    for place in 0..60 {
        let flood = LogEntry { session: 1, turn: place + 1, bytes: vec![0; 1000].into() };
        let (name, flood) = (name(ENTRIES, place), form::encode(&flood));
        store.blob_put(&name, flood, PutCondition::Always).await.unwrap();
    }
    let mut told = 0;
    let error = loop {
        match events.recv().await.unwrap() {
            Ok(_) => told += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
    assert!((15..32).contains(&told), "{told}");
    assert!(log.kept_bytes() <= 40_000);
    assert!(matches!(open().await.err(), Some(StoreError::Refused(_))));
}
