//! What the server sees of clients that build in pieces, and when they are answered, after which
//! they may ask again: it follows from when they asked.

use std::sync::Arc;
use std::time::Duration;

use fogbank_durable::shared::{MemorySeen, Site};
use fogbank_env::{Clock, Mutex, Nanos, Purpose, Randomness, SystemClock};
use fogbank_oram::{Access, Address, ImmediateEngine};
use fogbank_store::{BlobLog, Call, Delay, DepartureGrid, Faulty, Link, Log, Store};
use tokio::task::JoinSet;

use crate::world::{BLOCKS, Leak, SITE, World, master, open};

/// What is asked for, and when.
#[derive(Debug, Clone, Copy)]
struct Asks {
    /// Whether one block is written again and again, or all are read in turn.
    one_block: bool,
    /// From one query of a client to the next, in milliseconds.
    every: u64,
}

const CLIENTS: u64 = 2;
const QUERIES: u64 = 300;
/// After so many the last client leaves, in the middle of what it builds.
const LEAVES_AFTER: u64 = 200;

/// A call without what is sealed, and without which slots are touched.
fn shape(call: &Call<'_>) -> String {
    match call {
        Call::ReadCells(reads) => format!("{} cells", reads.iter().count()),
        Call::WriteChunks(writes) => {
            let of = |write: &fogbank_store::ChunkWrite| (write.chunk, write.data.len());
            format!("{:?}", writes.iter().map(of).collect::<Vec<_>>())
        }
        Call::BlobPut(name, data, _) => format!("{name} {}", data.len()),
        other => format!("{other:?}"),
    }
}

/// All calls of the clients, which may leak something, and answers, with the session and the time
/// of each.
async fn seen(asks: Asks, leak: Option<Leak>) -> Vec<(Nanos, u64, String)> {
    let world = World::new(20); // in pieces
    drop(world.join().await.unwrap()); // the site is made
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let log = BlobLog::open(world.store.clone(), clock.clone(), 1 << 24).await.unwrap();
    let (log, calls): (Arc<dyn Log>, Arc<Mutex<Vec<_>>>) = (Arc::new(log), Arc::default());
    let mut engines = Vec::new();
    for client in 0..CLIENTS {
        let random = Randomness::repeatable(client);
        let link = Link { round_trip: Duration::from_millis(3), ..Link::instant() };
        let faults = random.stream(Purpose::Faults);
        let far = Faulty::new(Delay::new(world.store.clone(), clock.clone(), link, faults));
        let (of_calls, ticks) = (calls.clone(), clock.clone());
        far.on_call(move |call, _| {
            of_calls.lock().push((ticks.now(), client, shape(call)));
            None
        });
        let store: Arc<dyn Store> = Arc::new(far);
        let mut salts = random.stream(Purpose::Incarnation);
        let site = Site::join(store, (&master(), SITE), &mut salts).await.unwrap();
        let grid = DepartureGrid::new(clock.clone(), Duration::from_millis(1));
        let seen = Arc::new(MemorySeen::default());
        engines.push(open(site, (log.clone(), seen), grid, leak).await.unwrap());
    }
    let begins = clock.now();
    let mut tickets = JoinSet::new();
    for round in 0..QUERIES {
        if round == LEAVES_AFTER {
            drop(engines.pop());
        }
        clock.sleep_until(begins + (1 + round) * asks.every * 1_000_000).await;
        for (client, engine) in (0..).zip(&engines) {
            let (block, access) = match asks.one_block {
                true => (3, Access::Write { offset: 0, bytes: vec![round as u8].into() }),
                // Far from what the other asks for.
                false => ((round + 20 * client) as u32 % BLOCKS, Access::Read),
            };
            let ticket = engine.submit(Address(block), access);
            let (calls, clock) = (calls.clone(), clock.clone());
            tickets.spawn(async move {
                let answer = if ticket.await.is_ok() { "an answer" } else { "none" };
                calls.lock().push((clock.now(), client, answer.into()));
            });
        }
    }
    // Who has gone is not answered.
    tickets.join_all().await;
    let mut calls = std::mem::take(&mut *calls.lock());
    calls.retain(|(at, ..)| *at >= begins);
    calls.iter_mut().for_each(|(at, ..)| *at -= begins);
    calls.sort();
    calls
}

#[tokio::test(start_paused = true)]
async fn calls_and_their_times_follow_from_when_clients_ask() {
    let reads = seen(Asks { one_block: false, every: 20 }, None).await;
    let writes = seen(Asks { one_block: true, every: 20 }, None).await;
    let of = |what: &str| reads.iter().filter(|(_, _, call)| call.contains(what)).count();
    // Tables were built, in pieces that deal and pieces that fill.
    assert!(of("piece/03/") > 4 && of("manifest/03/") > 0, "{} calls", reads.len());
    assert!(of("an answer") as u64 > QUERIES + LEAVES_AFTER / 2); // some were under way
    let differs = reads.iter().zip(&writes).find(|(one, other)| one != other);
    assert_eq!(differs, None, "{} and {} calls", reads.len(), writes.len());
    assert_eq!(reads.len(), writes.len());
    // What is held against each other is not the same in any case.
    assert_ne!(seen(Asks { one_block: true, every: 21 }, None).await, writes);
}

/// What a build shows of what it holds is told apart: when requests leave, what is asked for again,
/// and who goes on with what. So is an answer that comes the sooner for what was asked.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn builds_and_answers_that_leak_are_told_apart() {
    for leak in [Leak::HeirByKind, Leak::LaneByContent, Leak::FillsAskAnew, Leak::ReadAnswersFirst]
    {
        let reads = seen(Asks { one_block: false, every: 20 }, Some(leak)).await;
        let writes = seen(Asks { one_block: true, every: 20 }, Some(leak)).await;
        let differs = reads.iter().zip(&writes).find(|(one, other)| one != other);
        println!("{leak:?}: {differs:?}");
        assert!(differs.is_some(), "{leak:?} is not seen");
    }
}
