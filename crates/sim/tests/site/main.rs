//! Many clients of one site, over links that delay and reorder, and clients that die: what they see
//! is one disk. In virtual time.

#![allow(clippy::unwrap_used)] // helpers of tests, too

mod ahead;
mod audited;
mod builder;
mod far;
mod image;
mod leaving;
mod ledger;
mod left;
mod liars;
mod lies;
mod life;
mod many;
mod moved;
mod outrun;
mod pace;
mod slow;
mod spoiled;
mod touches;
mod twice;
mod ways;
mod whole;
mod witness;
mod world;

use std::collections::BTreeMap;

use fogbank_env::{Clock, Mutex, Nanos, Purpose, Randomness, SystemClock};
use fogbank_oram::{Access, Address, Error, ImmediateEngine};
use fogbank_sim::history::register::{Seen, check};
use rand_core::Rng;
use std::sync::Arc;
use tokio::task::JoinSet;

use world::{BLOCKS, VALUE_BYTES, World};

/// What was seen, by block. An answer that never came has no end.
type Histories = Arc<Mutex<BTreeMap<u32, Vec<Seen<Vec<u8>>>>>>;

const NEVER: Nanos = Nanos::MAX;

/// A value that nobody else writes.
fn value(client: u64, round: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    value[..8].copy_from_slice(&(client + 1).to_le_bytes());
    value[8..16].copy_from_slice(&round.to_le_bytes());
    value
}

/// Asks so often, some queries at once; whether it came to its end.
async fn work(
    engine: Arc<dyn ImmediateEngine>,
    histories: Histories,
    (client, count): (u64, u64),
) -> Result<(), Error> {
    let clock = SystemClock::new();
    let mut dice = Randomness::repeatable(client).stream(Purpose::Workload);
    let mut below = move |bound: u64| dice.next_u64() % bound;
    let mut round = 0;
    while round < count {
        clock.sleep_until(clock.now() + below(30_000_000)).await;
        let mut asked = Vec::new();
        for _ in 0..1 + below(3) {
            round += 1;
            let hot = below(2) == 0;
            let block = below(if hot { 2 } else { BLOCKS.into() }) as u32;
            let bytes = (below(2) == 0).then(|| value(client, round));
            let began = histories_now();
            let access = match &bytes {
                Some(bytes) => Access::Write { offset: 0, bytes: bytes.clone().into() },
                None => Access::Read,
            };
            // Known to be under way before anybody can have seen it.
            let at = bytes.map(|value| {
                let seen = Seen { wrote: true, value, times: (began, NEVER) };
                let mut histories = histories.lock();
                let of_block = histories.entry(block).or_default();
                of_block.push(seen);
                of_block.len() - 1
            });
            asked.push((block, began, at, engine.submit(Address(block), access)));
        }
        for (block, began, at, ticket) in asked {
            let answer = ticket.await?;
            let ended = histories_now();
            let mut histories = histories.lock();
            let of_block = histories.entry(block).or_default();
            match at {
                Some(at) => of_block[at].times.1 = ended,
                None => {
                    let (value, times) = (answer.to_vec(), (began, ended));
                    of_block.push(Seen { wrote: false, value, times });
                }
            }
        }
    }
    Ok(())
}

/// One clock for all, in whatever runtime.
fn histories_now() -> Nanos {
    thread_local!(static CLOCK: SystemClock = SystemClock::new());
    CLOCK.with(Clock::now)
}

/// Holds what was seen of every block against an order that explains it.
fn hold(histories: &Histories, words: &str) -> usize {
    held(histories).unwrap_or_else(|what| panic!("{words}: {what}"))
}

/// How many operations were answered; that of no order, if there is one.
fn held(histories: &Histories) -> Result<usize, String> {
    let initial = vec![0; VALUE_BYTES];
    let mut answered = 0;
    for (block, seen) in histories.lock().iter() {
        let is_read = |value: &Vec<u8>| seen.iter().any(|of| !of.wrote && of.value == *value);
        // A write without an answer took place or did not.
        let counts = |of: &&Seen<Vec<u8>>| of.times.1 != NEVER || is_read(&of.value);
        let counted: Vec<_> = seen.iter().filter(counts).cloned().collect();
        answered += counted.iter().filter(|of| of.times.1 != NEVER).count();
        check(&counted, &initial).map_err(|what| format!("{block}: {what:?}"))?;
    }
    Ok(answered)
}

#[tokio::test(start_paused = true)]
async fn clients_at_once_see_one_disk() {
    for (clients, seed) in [(2, 1), (3, 2), (8, 3), (2, 4), (3, 5), (5, 6)] {
        let (world, histories) = (World::new(seed), Histories::default());
        let began = histories_now();
        let mut tasks = JoinSet::new();
        for client in 0..clients {
            let engine = world.join().await.unwrap();
            // Some queries at once, so that the order in which they are appended counts.
            let ahead: Vec<_> =
                (0..BLOCKS).map(|block| engine.submit(Address(block), Access::Read)).collect();
            drop(ahead);
            tasks.spawn(async move { (engine, client) });
        }
        let mut works = JoinSet::new();
        while let Some(joined) = tasks.join_next().await {
            let (engine, client) = joined.unwrap();
            let histories = histories.clone();
            works.spawn(async move {
                work(engine.clone(), histories, (seed * 100 + client, 120)).await.unwrap();
                engine.close().await.unwrap();
            });
        }
        while let Some(done) = works.join_next().await {
            done.unwrap();
        }
        let answered = hold(&histories, &format!("{clients} clients, seed {seed}"));
        assert!(answered as u64 >= clients * 120);
        world.has_built();
        // Nobody waited for an entry that had no room to be appended: that takes ten seconds. An
        // epoch takes less than one; a little more where builds have so many pieces, each of some
        // round trips, that they take longer than an epoch's queries.
        let (took, epochs) = (histories_now() - began, clients * 160 / 8);
        let limit = epochs * if world.builds_in_pieces() { 1_300_000_000 } else { 1_000_000_000 };
        println!("{clients} clients, seed {seed}: {epochs} epochs in {took} ns");
        assert!(took < limit, "{clients} clients, seed {seed}: {took} ns");
    }
}

/// How clients live.
struct Lives {
    clients: u64,
    /// Of each, one after the other; fewer than ten.
    lives: u64,
    /// A life, at most.
    longest: Nanos,
}

/// Clients die in the middle of whatever they do, and join again; the others go on. How many
/// operations were answered; what has no order, if something has none.
async fn lives(
    world: World,
    seed: u64,
    Lives { clients, lives, longest }: Lives,
) -> Result<usize, String> {
    let (world, histories) = (Arc::new(world), Histories::default());
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let (world, histories) = (world.clone(), histories.clone());
        tasks.spawn(async move {
            let clock = SystemClock::new();
            let seen = world.register();
            let mut dice = Randomness::repeatable(seed * clients + client).stream(Purpose::Faults);
            for life in 0..lives {
                let joined = world.join_as(seen.clone());
                let dies = clock.sleep_until(clock.now() + dice.next_u64() % longest);
                let lives = async {
                    let engine = joined.await.unwrap();
                    let name = (seed * 100 + client) * 10 + life;
                    work(engine, histories.clone(), (name, 1_000)).await.unwrap();
                };
                tokio::select! { () = dies => {}, () = lives => {} }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap_or_else(|what| panic!("{seed}: {what}"));
    }
    read_all(&world, &histories).await;
    let answered = held(&histories).map_err(|what| format!("{clients}, seed {seed}: {what}"))?;
    let (slots, again) = world.touches.count().unwrap();
    println!("seed {seed}: {answered} answers, {slots} slots, {again} touches again");
    Ok(answered)
}

/// Whoever comes last finds what all have left.
async fn read_all(world: &World, histories: &Histories) {
    let engine = world.join().await.unwrap();
    for block in 0..BLOCKS {
        let began = histories_now();
        let value = engine.submit(Address(block), Access::Read).await.unwrap().to_vec();
        let seen = Seen { wrote: false, value, times: (began, histories_now()) };
        histories.lock().entry(block).or_default().push(seen);
    }
}

/// Some die and join again, and whoever has a copy of another's folder comes beside it: each start
/// is a session of its own, and none seals two things by one tick.
#[tokio::test(start_paused = true)]
async fn no_nonce_is_used_twice_by_who_has_another_s_folder() {
    let world = World::new(50);
    let seen = world.register();
    let engine = world.join_as(seen.clone()).await.unwrap();
    work(engine.clone(), Histories::default(), (1, 40)).await.unwrap();
    let copy = world.register();
    copy.save(&seen.read().await.unwrap().unwrap()).await.unwrap();
    let histories = Histories::default();
    let mut works = JoinSet::new();
    for (client, seen) in (2..).zip([copy, seen]) {
        let engine = world.join_as(seen).await.unwrap();
        works.spawn(work(engine, histories.clone(), (client, 120)));
    }
    works.spawn(work(engine, histories, (4, 120)));
    while let Some(done) = works.join_next().await {
        done.unwrap().unwrap();
    }
    let count = world.ledger.count().unwrap();
    println!("{count} seals");
    assert!(count > 3_000, "{count}");
}

/// Of clients that leak in what they touch some rule says so by its name.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn touches_that_leak_break_a_rule() {
    use world::Leak;
    for (leak, rule) in [
        (Leak::WindowOneEpoch, "slot-once"),
        (Leak::FakeLeft, "slot-once"),
        (Leak::TakeoverFreshFakes, "slot-once"),
        (Leak::DuplicateSkips, "tables-of-the-epoch"),
        (Leak::StopsAtHit, "tables-of-the-epoch"),
        (Leak::TouchBeforeAppend, "slot-once"),
        (Leak::TablePickedUp, "slot-once"),
    ] {
        let mut world = World::new(52);
        world.leak = Some(leak);
        let mut works = JoinSet::new();
        for client in 0..3 {
            let engine = world.join().await.unwrap();
            works.spawn(async move {
                let works = work(engine, Histories::default(), (client, 200));
                // The first dies, so others take its places over.
                let lives = std::time::Duration::from_secs(if client == 0 { 1 } else { 100 });
                let _whatever_comes_of_it = tokio::time::timeout(lives, works).await;
            });
        }
        while works.join_next().await.is_some() {}
        let breaches = world.touches.count().err().unwrap_or_default();
        let named = breaches.iter().any(|breach| breach.starts_with(rule));
        assert!(named, "{leak:?}: {breaches:?}");
    }
}

/// A result that is sealed by the number of its place takes a tick that something else has, too.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn a_nonce_by_place_is_in_the_ledger() {
    let mut world = World::new(51);
    world.leak = Some(world::Leak::NonceByPlace);
    let engine = world.join().await.unwrap();
    work(engine, Histories::default(), (1, 40)).await.unwrap();
    let twice = world.ledger.count().unwrap_err();
    assert!(twice.iter().any(|what| what.contains("a result")), "{twice:?}");
}

async fn three_die_and_join_again(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let world = World::new(seed);
        let touches = world.touches.clone();
        let how = Lives { clients: 3, lives: 6, longest: 3_000_000_000 };
        let answered = lives(world, seed, how).await.unwrap();
        assert!(answered > 50, "{seed}: {answered}");
        let (slots, _) = touches.count().unwrap();
        assert!(slots > 100, "{slots}"); // of thousands of lives one was seen with 192
    }
}

#[tokio::test(start_paused = true)]
async fn clients_die_and_join_again() {
    three_die_and_join_again(0..30).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "minutes: for changes of a site's engine"]
async fn clients_die_and_join_again_by_the_thousand() {
    three_die_and_join_again(30..1_030).await;
}
