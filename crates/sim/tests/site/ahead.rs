//! How far builds have come, held against the log: none is more than a fiftieth of it, or one
//! request, ahead of its places. So what an epoch moves at most is about what it moves on average.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fogbank_durable::shared::SiteParameters;
use fogbank_env::Mutex;
use fogbank_oram::hierarchy::{Schedule, Table, level_of, schedule_of};
use fogbank_store::{Call, ChunkName, Link, LogEvent};
use tokio::task::JoinSet;

use crate::far::{Far, Hears, ask};
use crate::world::Leak;

const CLIENTS: u64 = 3;
const EPOCH: u32 = 32;
/// So many that levels 0 to 4 are there.
const BLOCKS: u32 = EPOCH << 4;
/// Chunks and requests have so many cells, and so have all tables in whole numbers of them.
const REQUEST: u64 = 32;
/// Of epochs: all levels have been built more than once.
const EPOCHS: u64 = 64;

const SITE: SiteParameters = SiteParameters {
    blocks: BLOCKS,
    block_bytes: (256 << 10) / REQUEST as u32,
    epoch: EPOCH,
    growth: 2,
    draw: 8,
    piece: 128,
    kept_epochs: 16,
    public_ms: 1_000,
    quantum_us: 1_000,
    has_image: false,
};

/// Cells that builds have moved, as the server sees it.
struct Meter {
    schedule: Schedule,
    /// Of the log at the server.
    length: AtomicU64,
    moved: Mutex<Moved>,
}

/// By table: the length of the log when something was moved, and how much.
type Moved = BTreeMap<Table, Vec<(u64, u64)>>;

impl Meter {
    /// A client calls.
    fn enter(&self, call: &Call<'_>) {
        match call {
            Call::WriteChunks(writes) => {
                writes.iter().for_each(|write| self.moves(&write.chunk, true));
            }
            Call::ReadChunks(names) => names.iter().for_each(|name| self.moves(name, false)),
            _ => {}
        }
    }

    /// A chunk is moved: of what a table is made of, or of itself.
    fn moves(&self, name: &ChunkName, is_written: bool) {
        let (of, length) = (level_of(name.array), self.length.load(Ordering::Relaxed));
        let is_source = !is_written && name.array.0 == u16::from(of);
        let level = if is_source { self.schedule.bottom().min(of + 1) } else { of };
        let begins = |index| self.schedule.build_starts(Table { level, index });
        let has_begun = |index: &i64| self.schedule.first_of(begins(*index)) < length;
        let index = (0..).take_while(has_begun).last().unwrap_or(0);
        self.moved.lock().entry(Table { level, index }).or_default().push((length, REQUEST));
    }
}

/// From which place to which a build goes on.
fn places(schedule: &Schedule, table: Table) -> Range<u64> {
    let (epoch, start) = (u64::from(EPOCH), schedule.first_of(schedule.build_starts(table)));
    let needed = schedule.first_of(schedule.installed(table));
    match table.level {
        0 => start + epoch / 8..start + epoch / 2,
        _ => start..needed - (epoch / 2).max((needed - start) / 16),
    }
}

/// How far a build of so many cells was ahead, at most.
fn ahead(schedule: &Schedule, table: Table, moved: &[(u64, u64)]) -> (u64, u64) {
    let (places, total) = (places(schedule, table), moved.iter().map(|(_, cells)| cells).sum());
    let mut sum: u64 = 0;
    let of = |(length, cells): &(u64, u64)| {
        sum += cells;
        // The place that is being logged counts.
        let come = (length + 1).clamp(places.start, places.end) - places.start;
        sum.saturating_sub(total * come / (places.end - places.start))
    };
    (moved.iter().map(of).max().unwrap_or(0), total)
}

/// What was moved while clients asked, who may leak something.
async fn metered(leak: Option<Leak>) -> (Schedule, Moved) {
    let mut server = Far::new(SITE).await;
    let schedule = schedule_of(&SITE).unwrap();
    let (length, moved) = Default::default();
    let meter = Arc::new(Meter { schedule, length, moved });
    let mut events = server.log.follow(0).await.unwrap();
    let hears = meter.clone();
    tokio::spawn(async move {
        while let Some(Ok(event)) = events.recv().await {
            if let LogEvent::Entry(place, _) = event {
                hears.length.store(place + 1, Ordering::Relaxed);
            }
        }
    });
    let enters = meter.clone();
    let hears: Hears = Arc::new(move |call| enters.enter(call));
    (server.leak, server.hears) = (leak, Some(hears));
    let mut works = JoinSet::new();
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let link = Link { round_trip: Duration::from_millis(10), ..Link::instant() };
        let queries = EPOCHS * u64::from(EPOCH) / CLIENTS;
        clients.push(server.join(link).await);
        let engine = clients[client as usize].engine.clone();
        works.spawn(ask(engine, server.clock.clone(), (client, queries)));
    }
    works.join_all().await;
    let mut moved = std::mem::take(&mut *meter.moved.lock());
    // The last build of each level goes on.
    let goes_on = |table: &Table| Table { index: table.index + 1, ..*table };
    let all: BTreeSet<Table> = moved.keys().copied().collect();
    moved.retain(|table, _| all.contains(&goes_on(table)));
    (schedule, moved)
}

/// Builds that were further ahead than they may be.
fn breaches((schedule, moved): &(Schedule, Moved)) -> Vec<String> {
    let (mut breaches, mut most) = (Vec::new(), 0);
    for (table, moved) in moved {
        let (ahead, total) = ahead(schedule, *table, moved);
        most = most.max(ahead);
        if ahead > REQUEST.max(total / 50) {
            breaches.push(format!("{table:?}: {ahead} of {total} cells"));
        }
    }
    println!("{} builds, {most} cells ahead at most", moved.len());
    breaches
}

#[tokio::test(start_paused = true)]
async fn no_build_is_ahead_of_the_log() {
    let all = metered(None).await;
    assert_eq!(breaches(&all), [""; 0]);
    let (schedule, moved) = all;
    let builds = |level| moved.keys().filter(|table| table.level == level).count();
    assert!((0..=schedule.bottom()).all(|level| builds(level) > 1), "{:?}", moved.keys());
    // A period of the bottom, which is built in half of that, beside all levels above. Built at
    // once it would be what some epochs move together.
    let mut epochs: BTreeMap<u64, u64> = BTreeMap::new();
    for (length, cells) in moved.values().flatten() {
        *epochs.entry(schedule.epoch_of(*length)).or_default() += cells;
    }
    let steady: Vec<u64> = epochs.range(24..40).map(|(_, cells)| *cells).collect();
    let mean = steady.iter().sum::<u64>() / steady.len() as u64;
    println!("{mean} cells an epoch on average: {steady:?}");
    assert!(steady.iter().all(|cells| *cells < 3 * mean), "{mean} cells, {steady:?}");
}

/// A client that does a piece as soon as it has begun is seen to be ahead.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn a_client_that_leaks_its_pieces_at_once_is_ahead() {
    let breaches = breaches(&metered(Some(Leak::PieceAtOnce)).await);
    assert!(!breaches.is_empty());
    println!("{breaches:?}");
}
