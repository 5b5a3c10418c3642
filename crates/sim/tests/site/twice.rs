//! Two failures in a row. A client is killed at a call of its own, who comes after it at one of
//! its first, and a third goes on, while others work. And a client wakes while another takes over
//! what it had begun, whatever the other has just done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fogbank_durable::shared::SeenRegister;
use fogbank_env::{Clock, Nanos, SystemClock};
use fogbank_oram::ImmediateEngine;
use tokio::task::JoinSet;

use crate::life::Life;
use crate::world::World;
use crate::{Histories, held, read_all, work};

/// Nobody waits so long for anything, whoever has died.
const LONG: Duration = Duration::from_secs(60);
/// Between some queries of a client and its next ones.
const PAUSE: Nanos = 1_000_000_000;

/// A client that works and is killed at a call. Whether it had joined.
async fn kill(
    world: &World,
    seen: Arc<dyn SeenRegister>,
    histories: &Histories,
    (name, at): (u64, u64),
) -> bool {
    let (life, has_joined) = (Life::dying(at), AtomicBool::new(false));
    let lives = async {
        let engine = world.join_for(seen, &life).await.unwrap();
        has_joined.store(true, Ordering::Relaxed);
        work(engine, histories.clone(), (name, u64::MAX)).await.unwrap();
    };
    tokio::select! { biased; () = life.stop() => {}, () = lives => {} }
    has_joined.into_inner()
}

/// What has come of deaths.
#[derive(Debug, Default, Clone, Copy)]
struct Deaths {
    /// Of successors: before they had joined, and after.
    successors: [u32; 2],
    /// Operations that were answered.
    answered: usize,
    /// Touches that were made again.
    again: usize,
}

/// So many others work, while for each of `kills` a client is killed at its first call, the one
/// after it at its second, and the next one goes on.
async fn die_twice(
    world: World,
    (seed, others): (u64, u64),
    kills: impl Iterator<Item = [u64; 2]>,
) -> Result<Deaths, String> {
    let (world, histories) = (Arc::new(world), Histories::default());
    let is_over = Arc::new(AtomicBool::new(false));
    let mut names = seed * 10_000..;
    let mut works = JoinSet::new();
    for other in 0..others {
        let engine = world.join().await.unwrap();
        let (is_over, histories) = (is_over.clone(), histories.clone());
        let first = (seed * 10 + other) * 1_000_000_000;
        works.spawn(async move {
            let clock = SystemClock::new();
            for name in first.. {
                let works = work(engine.clone(), histories.clone(), (name, 6));
                let within = tokio::time::timeout(LONG, works).await;
                within.expect("others go on").unwrap();
                // Who joins is done before two epochs have gone by.
                clock.sleep_until(clock.now() + PAUSE).await;
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
            engine.close().await.unwrap();
        });
    }
    let mut deaths = Deaths::default();
    for [first, second] in kills {
        let seen = world.register();
        let mut name = || names.next().unwrap();
        kill(&world, seen.clone(), &histories, (name(), first)).await;
        let had_joined = kill(&world, seen.clone(), &histories, (name(), second)).await;
        deaths.successors[usize::from(had_joined)] += 1;
        let engine = world.join_as(seen).await.unwrap();
        let works = work(engine.clone(), histories.clone(), (name(), 6));
        tokio::time::timeout(LONG, works).await.expect("a third goes on").unwrap();
        engine.close().await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    while let Some(done) = works.join_next().await {
        done.unwrap();
    }
    read_all(&world, &histories).await;
    deaths.answered = held(&histories).map_err(|what| format!("seed {seed}: {what}"))?;
    let touches = world.touches.count();
    deaths.again = touches.map_err(|breaches| breaches.join("; "))?.1;
    Ok(deaths)
}

/// One world for each first call: of those after it one dies at each of the second ones.
async fn all_die_twice(firsts: impl Iterator<Item = u64>, step: usize) {
    let mut all = Deaths::default();
    for first in firsts {
        let seconds = (1 + first % step as u64..80).step_by(step);
        let kills = seconds.map(|second| [first, second]);
        let world = World::new(400 + first);
        let deaths = die_twice(world, (400 + first, 2 + first % 2), kills).await.unwrap();
        all.answered += deaths.answered;
        all.again += deaths.again;
        for (sum, of) in all.successors.iter_mut().zip(deaths.successors) {
            *sum += of;
        }
    }
    println!("{all:?}");
    let [in_joining, later] = all.successors;
    assert!(in_joining > 10 && later > 10 && all.again > 10, "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn who_comes_after_one_that_was_killed_may_be_killed_at_any_call() {
    all_die_twice((3..120).step_by(9), 16).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "minutes: for changes of a site's engine"]
async fn successors_are_killed_by_the_thousand() {
    all_die_twice(1..160, 3).await;
}

/// A client sleeps from a call on, and wakes at a call of another that works, whose calls count
/// from then on. How many touches were made again.
async fn wake(world: World, seed: u64, [sleeps, wakes]: [u64; 2]) -> Result<usize, String> {
    let histories = Histories::default();
    let waking = Life::waking();
    let sleeping = Life::sleeping(u64::MAX, waking.has_stopped());
    let mut works = JoinSet::new();
    for (name, life) in [(seed * 10, waking.clone()), (seed * 10 + 1, sleeping.clone())] {
        let engine = world.join_for(world.register(), &life).await.unwrap();
        let histories = histories.clone();
        works.spawn(async move {
            work(engine.clone(), histories, (name, 40)).await.unwrap();
            engine.close().await.unwrap();
            life.tell(); // nobody sleeps on
        });
    }
    sleeping.stops_in(sleeps);
    sleeping.stop().await;
    waking.stops_in(wakes);
    let within = tokio::time::timeout(LONG, works.join_all()).await;
    within.map_err(|_| format!("seed {seed}: somebody waits for ever"))?;
    read_all(&world, &histories).await;
    held(&histories).map_err(|what| format!("seed {seed}, {sleeps}, {wakes}: {what}"))?;
    Ok(world.touches.count().map_err(|breaches| breaches.join("; "))?.1)
}

async fn all_wake(sleeps: impl Iterator<Item = u64>, step: usize) {
    let (mut again, mut worlds) = (0, 0);
    for sleeps in sleeps {
        for wakes in (1 + sleeps % step as u64..70).step_by(step) {
            let seed = 100 * sleeps + wakes;
            again += wake(World::new(seed), seed, [sleeps, wakes]).await.unwrap();
            worlds += 1;
        }
    }
    println!("{worlds} worlds: {again} touches again");
    assert!(again > worlds / 4, "{again} touches again in {worlds} worlds");
}

#[tokio::test(start_paused = true)]
async fn who_sleeps_may_wake_at_any_call_of_who_takes_over() {
    all_wake((2..60).step_by(13), 7).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "minutes: for changes of a site's engine"]
async fn sleepers_wake_by_the_thousand() {
    all_wake((1..60).step_by(2), 1).await;
}

/// Of clients that leak both say so: one that takes over reads other cells, or answers too early.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn clients_that_leak_when_others_die_or_wake_are_seen() {
    use crate::world::Leak;
    for (leak, says) in [(Leak::TakeoverFreshFakes, "slot-once"), (Leak::AnswersAtOnce, "Twisted")]
    {
        let leaking = |seed| {
            let mut world = World::new(seed);
            world.leak = Some(leak);
            world
        };
        let kills = (1..70).step_by(14).map(|second| [20 + second, second]);
        let died = die_twice(leaking(600), (600, 2), kills).await.unwrap_err();
        assert!(died.contains(says), "{leak:?}: {died}");
        let mut woken = Vec::new();
        for seed in 600..606 {
            woken.extend(wake(leaking(seed), seed, [12, 10 + seed % 6]).await.err());
        }
        assert!(woken.iter().any(|of| of.contains(says)), "{leak:?}: {woken:?}");
    }
}
