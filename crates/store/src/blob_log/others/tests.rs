//! Several processes at one log.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};

use super::super::form::name;
use super::*;
use crate::blob_log::tests::Life;
use crate::blob_log::{BlobLog, LOG_KEPT_BYTES};
use crate::log_conformance::{self, entry};
use crate::{Delay, Link, Log, LogEntry, LogEvent, LogEvents, MemoryStore, PutCondition, Store};

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

/// A process that has not looked for long finds places free that were forgotten. It does not take
/// them, and nobody believes what it put there meanwhile.
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
    assert_eq!(behind.append(entry(2, 1)).await.unwrap(), Some(10));
    assert_eq!(store.blob_list(ENTRIES).await.unwrap().len(), 3 + 1, "what it put is gone");
    let refused = behind.listen(7).map(drop);
    assert!(matches!(refused, Err(StoreError::Refused(_))));

    // It stopped before that was gone.
    let stray = form::encode(&entry(3, 1));
    store.blob_put(&name(ENTRIES, 0), stray, PutCondition::IfAbsent).await.unwrap();
    assert_eq!(also.append(entry(4, 1)).await.unwrap(), Some(11));
    let told = listening.next().await;
    assert!(matches!(told, Err(StoreError::Absent(_))), "what it wants was forgotten: {told:?}");
    let fresh = open(&store, INTERVAL).await;
    assert_eq!(store.blob_list(ENTRIES).await.unwrap().len(), 4 + 1, "a start puts it away");
    assert_eq!(fresh.append(entry(3, 1)).await.unwrap(), Some(12), "it counted for nobody");
    assert_eq!(fresh.append(entry(2, 1)).await.unwrap(), Some(10));
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
