//! The log over memory, a folder, and stores that fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fogbank_env::SystemClock;

use super::*;
use crate::log_conformance::{self, entry};
use crate::{Fault, Faulty, FileStore, LogEvent, MemoryStore};

async fn open(store: &Arc<dyn Store>) -> BlobLog {
    try_open(store).await.unwrap()
}

async fn try_open(store: &Arc<dyn Store>) -> Result<BlobLog> {
    BlobLog::open(store.clone(), Arc::new(SystemClock::new()), LOG_KEPT_BYTES).await
}

#[tokio::test(start_paused = true)]
async fn conforms_in_memory() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    log_conformance::run(async || open(&store).await).await;
    log_conformance::a_turn_that_never_comes(&open(&store).await).await;
}

#[tokio::test(start_paused = true)]
async fn conforms_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let reopen = async || {
        let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.path()).unwrap());
        open(&store).await
    };
    log_conformance::run(reopen).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_loses_nothing_acknowledged() {
    Life { beside_others: false }.ends_at_every_call().await;
}

/// A process and its client.
pub(super) struct Life {
    pub beside_others: bool,
}

/// The places that were acknowledged to the client, by session and turn.
type Done = BTreeMap<(u32, u64), u64>;

impl Life {
    /// It ends at any call, before it or after: what was acknowledged stands, a result as well, and
    /// the same again has the same place. Nothing of what was forgotten stays.
    pub(super) async fn ends_at_every_call(&self) {
        for last in 1.. {
            let mut ended = false;
            for fault in [Fault::Before, Fault::After, Fault::Partly(1)] {
                let bare: Arc<dyn Store> = Arc::new(MemoryStore::new());
                let dying: Arc<dyn Store> = Arc::new(Faulty::dying(bare.clone(), last, fault));
                let mut done = Done::new();
                ended |= self.goes_on(&dying, &mut done).await.is_err();
                let before = done.clone();
                self.goes_on(&bare, &mut done).await.unwrap();
                for (turn, place) in &before {
                    assert_eq!(done[turn], *place, "end {last} {fault:?}: turn {turn:?}");
                }
                self.open(&bare).await.unwrap().forget(8).await.unwrap();
                let log = self.open(&bare).await.unwrap();
                for prefix in [ENTRIES, RESULTS] {
                    let left = bare.blob_list(prefix).await.unwrap();
                    assert!(left.iter().all(|found| *found >= name(prefix, 8)), "{left:?}");
                }
                let mut events = log.follow(8).await.unwrap();
                for place in 8..12 {
                    let event = events.recv().await.unwrap().unwrap();
                    assert!(matches!(event, LogEvent::Entry(at, _) if at == place), "{event:?}");
                    let event = events.recv().await.unwrap().unwrap();
                    let result = format!("result {place}");
                    assert_eq!(event, LogEvent::Result(place, result.into()));
                }
            }
            if !ended {
                assert!(last > 25, "there were calls to end at: {last}");
                return;
            }
        }
    }

    async fn open(&self, store: &Arc<dyn Store>) -> Result<BlobLog> {
        let (store, clock) = (store.clone(), Arc::new(SystemClock::new()));
        match self.beside_others {
            true => BlobLog::open_beside_others(store, clock, LOG_KEPT_BYTES, 50_000_000).await,
            false => BlobLog::open(store, clock, LOG_KEPT_BYTES).await,
        }
    }

    /// A client that goes on until its store is gone; again, it does the same again.
    async fn goes_on(&self, store: &Arc<dyn Store>, done: &mut Done) -> Result<()> {
        let log = self.open(store).await?;
        for turn in 1..=6 {
            for session in [1, 2] {
                if let Some(place) = log.append(entry(session, turn)).await? {
                    let before = done.insert((session, turn), place);
                    assert!(before.is_none_or(|before| before == place));
                    log.publish(place, format!("result {place}").into()).await?;
                    log.publish(place, "another".into()).await?;
                }
            }
            log.forget(turn.saturating_sub(3) * 2).await?;
        }
        Ok(())
    }
}

/// The answer of a put is lost while the process goes on: it finds its own entry.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_puts_nothing_twice() {
    let faulty = Arc::new(Faulty::new(MemoryStore::new()));
    let store: Arc<dyn Store> = faulty.clone();
    let log = open(&store).await;
    let lose = |fault| faulty.add(crate::FaultRule::nth(None, 1, fault));
    for (turn, fault) in [(1, Fault::After), (2, Fault::Before), (3, Fault::After)] {
        lose(fault);
        assert!(matches!(log.append(entry(1, turn)).await, Err(StoreError::Absent(_))));
        if turn == 3 {
            assert_eq!(log.append(entry(2, 1)).await.unwrap(), Some(3), "another comes between");
        }
        assert_eq!(log.append(entry(1, turn)).await.unwrap(), Some(turn - 1));
    }
    lose(Fault::After);
    assert!(log.publish(1, "one".into()).await.is_err());
    log.publish(1, "another".into()).await.unwrap();
    lose(Fault::After);
    assert!(log.forget(1).await.is_err());
    log.forget(1).await.unwrap();
    lose(Fault::After);
    assert!(log.forget(2).await.is_err());
    log.forget(3).await.unwrap();
    assert_eq!(store.blob_list("").await.unwrap(), [name(ENTRIES, 3), FORGOTTEN.into()]);
    assert_eq!(log.append(entry(1, 3)).await.unwrap(), None);
}

/// Listeners do not outlive the log, and one that what it wants was forgotten for is told so.
#[tokio::test(start_paused = true)]
async fn a_listener_is_told_why_nothing_comes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let log = open(&store).await;
    let mut behind = log.listen(0).unwrap();
    for turn in 1..=4 {
        log.append(entry(1, turn)).await.unwrap();
    }
    behind.next().await.unwrap();
    let mut result = log.listen(0).unwrap();
    for _ in 0..4 {
        result.next().await.unwrap();
    }
    let mut fine = log.listen(2).unwrap();
    log.publish(0, "zero".into()).await.unwrap();
    log.forget(2).await.unwrap();
    assert!(matches!(behind.next().await, Err(StoreError::Absent(_))), "an entry is missed");
    assert!(matches!(result.next().await, Err(StoreError::Absent(_))), "a result is missed");
    let mut fresh = log.listen(2).unwrap();
    assert!(matches!(fresh.next().await, Ok(LogEvent::Entry(2, _))));
    let mut events = log.follow(4).await.unwrap();
    drop(log);
    assert!(matches!(events.recv().await, Some(Err(StoreError::Absent(_)))));
    assert!(fine.next().await.is_err());
    assert!(events.recv().await.is_none());
}

/// Who has heard more than there is knows that the log has gone back.
#[tokio::test(start_paused = true)]
async fn what_goes_back_is_told() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let log = open(&store).await;
    log.append(entry(1, 1)).await.unwrap();
    assert!(log.listen(1).is_ok());
    assert!(matches!(log.listen(2), Err(StoreError::Misbehaved(_))));
}

/// A log that is full refuses, and has room again when something is forgotten.
#[tokio::test(start_paused = true)]
async fn a_log_that_is_full_says_so() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let log = BlobLog::open(store, Arc::new(SystemClock::new()), 3000).await.unwrap();
    let large = |turn| LogEntry { session: 1, turn, bytes: vec![0; 1000].into() };
    log.append(large(1)).await.unwrap();
    log.append(large(2)).await.unwrap();
    assert!(matches!(log.append(large(3)).await, Err(StoreError::Refused(_))));
    assert!(matches!(log.publish(0, vec![0; 1000].into()).await, Err(StoreError::Refused(_))));
    let kept = log.kept_bytes();
    log.forget(1).await.unwrap();
    assert!(log.kept_bytes() + 1000 < kept);
    assert_eq!(log.append(large(3)).await.unwrap(), Some(2));
}

/// Whoever may write blobs of the store can break the log, but nothing else.
#[tokio::test(start_paused = true)]
async fn blobs_that_are_no_logs_are_refused() {
    let blob = |session, turn| form::encode(&entry(session, turn));
    let wrong: [(&str, String, Bytes); 6] = [
        ("a gap of places", name(ENTRIES, 3), blob(9, 1)),
        ("a gap of turns", name(ENTRIES, 2), blob(1, 4)),
        ("a turn again", name(ENTRIES, 2), blob(1, 1)),
        ("no entry", name(ENTRIES, 2), "short".into()),
        ("a result too large", name(RESULTS, 1), vec![0; LOG_BYTES_MAX + 1].into()),
        ("no word of what was forgotten", FORGOTTEN.into(), "?".into()),
    ];
    for (what, name, bytes) in wrong {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let log = open(&store).await;
        log.append(entry(1, 1)).await.unwrap();
        log.append(entry(1, 2)).await.unwrap();
        store.blob_put(&name, bytes, PutCondition::Always).await.unwrap();
        let error = try_open(&store).await.err();
        assert!(matches!(error, Some(StoreError::Misbehaved(_))), "{what}: {error:?}");
        let _refused = (log.append(entry(1, 3)).await, log.publish(1, "x".into()).await);
        let _refused = log.forget(2).await;
        store.blob_delete(&[&name]).await.unwrap();
    }
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for name in ["log/", "log/1", "result/x", &name(RESULTS, 7)] {
        store.blob_put(name, "foreign".into(), PutCondition::Always).await.unwrap();
    }
    assert_eq!(open(&store).await.append(entry(1, 1)).await.unwrap(), Some(0));
}

/// The suite finds each of these mistakes.
#[test]
fn a_log_that_errs_does_not_conform() {
    for mistake in [
        Mistake::None,
        Mistake::DoublesGetPlaces,
        Mistake::TurnsAsTheyCome,
        Mistake::LastResultStays,
        Mistake::ResultsAreLost,
        Mistake::EntriesSkipped,
        Mistake::NothingIsForgotten,
        Mistake::TurnsAreForgotten,
        Mistake::AnySize,
    ] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
        let check = log_conformance::run(async || Erring { log: open(&store).await, mistake });
        let found = catch_unwind(AssertUnwindSafe(|| runtime.block_on(check))).is_err();
        assert_eq!(found, mistake != Mistake::None, "{mistake:?}");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    DoublesGetPlaces,
    TurnsAsTheyCome,
    LastResultStays,
    ResultsAreLost,
    EntriesSkipped,
    NothingIsForgotten,
    TurnsAreForgotten,
    AnySize,
}

struct Erring {
    log: BlobLog,
    mistake: Mistake,
}

#[async_trait]
impl Log for Erring {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        let standing = self.log.0.kept.lock().standing(entry.session, entry.turn);
        let errs = match self.mistake {
            Mistake::DoublesGetPlaces => matches!(standing, Standing::There(Some(_))),
            Mistake::TurnsAsTheyCome => standing == Standing::Early,
            Mistake::TurnsAreForgotten => standing == Standing::There(None),
            Mistake::AnySize => entry.bytes.len() > LOG_BYTES_MAX,
            _ => false,
        };
        if !errs {
            return self.log.append(entry).await;
        }
        // Under a session that nobody has.
        let end = self.log.0.kept.lock().end();
        let entry = LogEntry { session: 1000 + end as u32, turn: 1, bytes: "x".into() };
        self.log.append(entry).await
    }

    async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        if self.mistake == Mistake::LastResultStays {
            self.log.0.store.blob_delete(&[&name(RESULTS, place)]).await?;
            self.log.0.kept.lock().forget_result(place);
        }
        self.log.publish(place, result).await
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        let mut events = self.log.follow(from).await?;
        let mistake = self.mistake;
        let (told, heard) = tokio::sync::mpsc::channel(crate::LOG_EVENTS_AHEAD);
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                let lost = match event {
                    Ok(LogEvent::Result(..)) => mistake == Mistake::ResultsAreLost,
                    Ok(LogEvent::Entry(at, _)) => mistake == Mistake::EntriesSkipped && at % 7 == 6,
                    Err(_) => false,
                };
                if !lost && told.send(event).await.is_err() {
                    return;
                }
            }
        });
        Ok(heard)
    }

    async fn forget(&self, before: u64) -> Result<()> {
        match self.mistake {
            Mistake::NothingIsForgotten => Ok(()),
            _ => self.log.forget(before).await,
        }
    }
}
