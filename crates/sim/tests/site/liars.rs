//! A server that lies to one client while it works: it shows it another log, or answers with other
//! cells than it has. The client says what it found, soon, and sends nothing after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_durable::shared::Site;
use fogbank_env::{Clock, Mutex, Purpose, Randomness, SystemClock};
use fogbank_oram::Error;
use fogbank_oram::hierarchy::HierarchyEngine;
use fogbank_store::{
    BlobLog, Call, Cell, DepartureGrid, LOG_EVENTS_AHEAD, Log, LogEntry, LogEvent, LogEvents,
    Operation, Reply, Store, StoreError, store_by_calls,
};
use tokio::sync::mpsc;

use crate::lies::writes;
use crate::world::{Leak, SITE, World, master, open};

/// What is done to the log that one client is shown, from a place on; or to the cells that it
/// reads, from a read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// The entry is left out.
    Hides,
    /// It is left out, and those behind it move up.
    ClosesUp,
    /// It stands twice, and those behind it move down.
    Doubles,
    /// It and the next stand in each other's place.
    Swaps,
    /// The one before it stands in its place, too.
    Repeats,
    /// It is said to be forgotten, and all before it.
    Forgotten,
    /// Its result is that of the place before.
    OldResult,
    /// Cells are answered in another order.
    SwapsCells,
    /// Cells are those of the read before.
    OldCells,
    /// A bit of a cell is another.
    BendsCell,
}

/// A server that lies to whoever comes by it, and counts what is asked of it.
struct Liar {
    log: Arc<dyn Log>,
    lie: Lie,
    /// The place, or the read, from which on it lies.
    at: u64,
    /// Entries that were told since, and reads of cells that came since.
    told: AtomicU64,
    touched: AtomicU64,
    has_lied: AtomicU64,
    reads: AtomicU64,
    /// Calls of all kinds.
    calls: AtomicU64,
    cells: Mutex<Vec<Cell>>,
}

impl Liar {
    fn new(log: Arc<dyn Log>, lie: Lie, at: u64) -> Arc<Self> {
        let (told, touched, has_lied, reads, calls, cells) = Default::default();
        Arc::new(Self { log, lie, at, told, touched, has_lied, reads, calls, cells })
    }

    fn lies(&self) {
        self.has_lied.store(1, Ordering::Relaxed);
    }

    fn has_lied(&self) -> bool {
        self.has_lied.load(Ordering::Relaxed) > 0
    }

    /// The place that the victim is told for one of the log.
    fn shown(&self, place: u64) -> u64 {
        match self.lie {
            Lie::ClosesUp if place > self.at => place - 1,
            Lie::Doubles if place > self.at => place + 1,
            _ => place,
        }
    }

    /// What the victim is told for an event.
    fn bent(&self, event: LogEvent, before: &mut [Bytes; 2]) -> Vec<LogEvent> {
        let (place, is_entry, bytes) = match &event {
            LogEvent::Entry(place, bytes) => (*place, true, bytes.clone()),
            LogEvent::Result(place, bytes) => (*place, false, bytes.clone()),
        };
        let told = |place, bytes| match is_entry {
            true => LogEvent::Entry(place, bytes),
            false => LogEvent::Result(place, bytes),
        };
        let last = std::mem::replace(&mut before[usize::from(is_entry)], bytes.clone());
        match self.lie {
            Lie::Hides | Lie::ClosesUp if place == self.at => {
                self.lies();
                Vec::new()
            }
            Lie::Doubles if place == self.at && is_entry => {
                self.lies();
                vec![told(place, bytes.clone()), told(place + 1, bytes)]
            }
            Lie::Swaps if place == self.at && is_entry => Vec::new(), // comes with the next
            Lie::Swaps if place == self.at + 1 && is_entry => {
                self.lies();
                vec![told(place - 1, bytes), told(place, last)]
            }
            Lie::Repeats if place == self.at && is_entry => {
                self.lies();
                vec![told(place, last)]
            }
            Lie::OldResult if place == self.at && !is_entry => {
                self.lies();
                vec![told(place, last)]
            }
            _ => vec![told(self.shown(place), bytes)],
        }
    }
}

/// The log, as the victim is shown it.
struct BentLog(Arc<Liar>);

#[async_trait]
impl Log for BentLog {
    async fn append(&self, entry: LogEntry) -> fogbank_store::Result<Option<u64>> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        Ok(self.0.log.append(entry).await?.map(|place| self.0.shown(place)))
    }

    async fn publish(&self, place: u64, result: Bytes) -> fogbank_store::Result<()> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let place = match self.0.lie {
            Lie::ClosesUp if place >= self.0.at => place + 1,
            Lie::Doubles if place > self.0.at => place - 1,
            _ => place,
        };
        self.0.log.publish(place, result).await
    }

    async fn follow(&self, from: u64) -> fogbank_store::Result<LogEvents> {
        let mut events = self.0.log.follow(from).await?;
        let (sender, receiver) = mpsc::channel(LOG_EVENTS_AHEAD);
        let liar = self.0.clone();
        tokio::spawn(async move {
            let mut before = <[Bytes; 2]>::default();
            while let Some(event) = events.recv().await {
                let told = match event {
                    Ok(LogEvent::Entry(place, _))
                        if liar.lie == Lie::Forgotten && place >= liar.at =>
                    {
                        liar.lies();
                        let why = "places below 1000 of the log were forgotten".into();
                        vec![Err(StoreError::Refused(why))]
                    }
                    Ok(event) => liar.bent(event, &mut before).into_iter().map(Ok).collect(),
                    Err(error) => vec![Err(error)],
                };
                for event in told {
                    let is_entry = matches!(event, Ok(LogEvent::Entry(..)));
                    liar.told.fetch_add((liar.has_lied() && is_entry).into(), Ordering::Relaxed);
                    if sender.send(event).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(receiver)
    }

    async fn forget(&self, before: u64) -> fogbank_store::Result<()> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        self.0.log.forget(before).await
    }
}

/// The store, likewise.
struct BentStore<S> {
    inner: S,
    liar: Arc<Liar>,
}

impl<S: Store> BentStore<S> {
    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        let liar = &self.liar;
        liar.calls.fetch_add(1, Ordering::Relaxed);
        let touches = call.operation() == Operation::ReadCells;
        let reply = call.perform(&self.inner).await?;
        let Reply::Cells(mut cells) = reply else { return Ok(reply) };
        if !touches {
            return Ok(Reply::Cells(cells));
        }
        liar.touched.fetch_add(liar.has_lied().into(), Ordering::Relaxed);
        let last = std::mem::replace(&mut *liar.cells.lock(), cells.clone());
        if liar.reads.fetch_add(1, Ordering::Relaxed) >= liar.at {
            match liar.lie {
                Lie::SwapsCells if cells.len() > 1 => cells.swap(0, 1),
                Lie::OldCells if last.len() == cells.len() => cells = last,
                Lie::BendsCell if !cells.is_empty() => {
                    let Cell::Bytes(cell) = &cells[0] else { return Ok(Reply::Cells(cells)) };
                    let mut bent = cell.to_vec();
                    bent[7] ^= 1;
                    cells[0] = Cell::Bytes(bent.into());
                }
                _ => return Ok(Reply::Cells(cells)),
            }
            liar.lies();
        }
        Ok(Reply::Cells(cells))
    }
}

store_by_calls!(BentStore);

async fn join(
    (store, log): (Arc<dyn Store>, Arc<dyn Log>),
    world: &World,
    leak: Option<Leak>,
) -> Arc<HierarchyEngine> {
    let seed = world.number();
    let (store, log) = world.recorder(seed, (store, log));
    let mut salts = Randomness::repeatable(seed).stream(Purpose::Incarnation);
    let site = Site::join(store, (&master(), SITE), &mut salts).await.unwrap();
    let grid = DepartureGrid::new(Arc::new(SystemClock::new()), std::time::Duration::ZERO);
    Arc::new(open(site, (log, world.register()), grid, leak).await.unwrap())
}

/// Two clients write, and one of them, which may leak, is lied to. What it says, what the other
/// says, and how many entries the first was told and touches it made from the lie until it said so.
async fn told(
    world: &World,
    (lie, at): (Lie, u64),
    leak: Option<Leak>,
) -> ([Option<String>; 2], [u64; 2]) {
    drop(world.join().await.unwrap());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store: Arc<dyn Store> = world.store.clone();
    let log = BlobLog::open(store.clone(), clock.clone(), 1 << 24).await.unwrap();
    let log: Arc<dyn Log> = Arc::new(log);
    let liar = Liar::new(log.clone(), lie, at);
    let bent = Arc::new(BentStore { inner: store.clone(), liar: liar.clone() });
    let other = join((store, log), world, None).await;
    let victim = join((bent, Arc::new(BentLog(liar.clone()))), world, leak).await;
    let writing = tokio::spawn(async move { writes(&*other, 100).await });
    let told = writes(&*victim, 100).await;
    let counts = [&liar.told, &liar.touched].map(|count| count.load(Ordering::Relaxed));
    if told.is_err() {
        // It sends nothing more, though it is asked to.
        let calls = liar.calls.load(Ordering::Relaxed);
        writes(&*victim, 1).await.unwrap_err();
        clock.sleep_until(clock.now() + 120_000_000_000).await;
        assert_eq!(liar.calls.load(Ordering::Relaxed), calls, "{lie:?} at {at}: it goes on");
    }
    let said = [told, writing.await.unwrap()].map(|told| match told {
        Ok(()) => None,
        Err(Error::CloudLied(what)) => Some(what.to_string()),
        Err(error) => {
            assert!(leak.is_some(), "{lie:?} at {at}: {error}");
            Some(error.to_string())
        }
    });
    (said, counts)
}

const TWICE: &str = "an entry is hidden or stands twice";
const ELSEWHERE: &str = "the log tells of another entry where this client's was put";
const FORGED: &str = "an object is forged, or stands under another's name";
const CELL: &str = "a cell is forged, or of another place";

/// Entries that it may be told from the lie until it stops, and touches that it may make: each of
/// two clients has one query under way.
const TOLD_MAX: u64 = 3;
const TOUCHED_MAX: u64 = 1;

#[tokio::test(start_paused = true)]
async fn who_is_lied_to_says_what_it_found_soon_and_falls_silent() {
    for (lie, words) in [
        (Lie::Hides, &["the log has a gap"][..]),
        (Lie::ClosesUp, &[TWICE, ELSEWHERE]),
        (Lie::Doubles, &[TWICE]),
        (Lie::Swaps, &[ELSEWHERE, "a result came before its entry"]),
        (Lie::Repeats, &[TWICE, ELSEWHERE]),
        (Lie::Forgotten, &["the log is said to be forgotten, and no superblock is so far"]),
        (Lie::OldResult, &[FORGED]),
        (Lie::SwapsCells, &[CELL]),
        (Lie::OldCells, &[CELL]),
        (Lie::BendsCell, &[CELL]),
    ] {
        for at in 30..50 {
            let ([said, other], [entries, touches]) = told(&World::new(17), (lie, at), None).await;
            let case = format!("{lie:?} at {at}: {said:?}, {other:?}, {entries}, {touches}");
            match said {
                Some(said) => {
                    assert!(words.contains(&&*said), "{case}");
                    assert!(entries <= TOLD_MAX && touches <= TOUCHED_MAX, "{case}");
                }
                // What hid its last entry from the victim has two worlds from there on: the other
                // hears what was sealed in the second, and stops; the victim goes on alone.
                None if lie == Lie::ClosesUp => {
                    assert_eq!(other.as_deref(), Some(FORGED), "{case}")
                }
                // A result that the victim has itself is not looked at.
                None => assert!(lie == Lie::OldResult && other.is_none(), "{case}"),
            }
        }
    }
}

/// Whoever takes what it is told for the log, though an entry was hidden from it or stands twice,
/// touches on in a history of its own. Other checks stop it late or never; the auditor says so.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn who_accepts_a_hidden_entry_is_found_out() {
    for lie in [Lie::ClosesUp, Lie::Doubles, Lie::Repeats] {
        let mut most = 0;
        for at in 30..50 {
            let world = World::recorded(17);
            let (said, [_, touches]) = told(&world, (lie, at), Some(Leak::HiddenAccepted)).await;
            most = most.max(touches);
            crate::audited::rest().await;
            let (config, events) = crate::spoiled::shown(&world);
            let broken = crate::spoiled::broken(&config, &events);
            assert_eq!(broken.as_deref(), Some("one-log"), "{lie:?} at {at}: {said:?}");
        }
        assert!(most > TOUCHED_MAX, "{lie:?}: {most} touches");
    }
}
