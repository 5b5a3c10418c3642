//! The engines that serve volumes, held to one contract: each beside a plain disk, with several
//! clients at once, and with its process dying at any call to the cloud. In virtual time.

#![allow(clippy::unwrap_used)] // helpers of tests, too

mod audited;
mod clouds;
mod engines;
mod history;
mod late;
mod lying;
mod older;
mod put_back;
mod silent;
mod sizes;
mod told;

use std::sync::Arc;

use fogbank_env::{Clock, Mutex, SystemClock};
use fogbank_oram::Error;
use fogbank_oram::immediate::plain::PlainEngine;
#[cfg(feature = "canaries")]
use fogbank_oram::multicloud::canary::Leak;
use fogbank_store::{Fault, Faulty, FileStore, Store};
use tokio::task::JoinSet;
#[cfg(feature = "canaries")]
use tokio::task::{LocalSet, spawn_local};

use clouds::TwoClouds;
use engines::{Kind, SHAPE, World};
use history::{History, Workload, apply, empty, read_all};

const KINDS: [Kind; 5] =
    [Kind::Tao, Kind::Partition, Kind::Multicloud, Kind::Ring, Kind::Hierarchy];
/// Accesses of a life that may be cut short.
const ACCESSES: usize = 96;

/// A life that ends at its call number `dies`; whether it ended by itself.
async fn life(world: &World, history: &mut History, dies: u64, fault: Fault) -> bool {
    let lived = async {
        let engine = world.open(Arc::new(Faulty::dying(world.cloud.clone(), dies, fault))).await?;
        let found = read_all(&*engine).await?;
        history.check(found).unwrap_or_else(|what| panic!("{:?} {dies}: {what}", world.kind));
        history.run(&*engine, &mut Workload::new(dies), ACCESSES).await?;
        engine.close().await
    };
    let lived = lived.await;
    assert!(matches!(lived, Ok(()) | Err(Error::Absent(_))), "{:?} {dies}: {lived:?}", world.kind);
    lived.is_ok()
}

/// A life that nothing cuts short, and looks at what the ones before have left.
async fn look(world: &World, history: &mut History) {
    let engine = world.open(world.cloud.clone()).await.unwrap();
    let found = read_all(&*engine).await.unwrap();
    history.check(found).unwrap_or_else(|what| panic!("{:?}: {what}", world.kind));
    engine.close().await.unwrap();
}

fn fault(number: u64) -> Fault {
    [Fault::Before, Fault::After, Fault::Partly(2)][number as usize % 3]
}

#[tokio::test(start_paused = true)]
async fn every_death_keeps_what_was_answered() {
    for kind in KINDS {
        let mut acknowledged = 0;
        for dies in 1.. {
            let (world, mut history) = (World::new(kind), History::new());
            let lived = life(&world, &mut history, dies, fault(dies)).await;
            look(&world, &mut history).await;
            acknowledged += history.acknowledged;
            if lived {
                assert!(dies > 60, "{kind:?}: {dies} calls are no life");
                break;
            }
        }
        assert!(acknowledged > 1_000, "{kind:?}: {acknowledged}");
    }
}

/// A client of a site dies at any call, and the next one, which goes on with its pieces of builds,
/// as far into its own life.
#[tokio::test(start_paused = true)]
async fn a_site_outlives_two_deaths_in_a_row() {
    for dies in 1.. {
        let (world, mut history) = (World::new(Kind::Hierarchy), History::new());
        let lived = life(&world, &mut history, dies, fault(dies)).await;
        life(&world, &mut history, dies, fault(dies + 1)).await;
        look(&world, &mut history).await;
        if lived {
            assert!(dies > 500, "{dies} calls are no life with builds");
            break;
        }
    }
}

/// The cloud `at` stops at any message that both send each other, and starts again over what it has
/// stored, in memory or in files. The client goes on as if nothing had been, and shows no cloud two
/// things under one name.
async fn stops_at_any_message(at: usize, in_files: bool, world: impl Fn() -> World) {
    let mut stops = 0;
    for after in (1 + 3 * at as u64..).step_by(if in_files { 37 } else { 5 }) {
        let (mut world, mut history) = (world(), History::new());
        let folder = tempfile::tempdir().unwrap();
        if in_files {
            let store = |name| FileStore::open(folder.path().join(name)).unwrap();
            let stores = ["a", "b"].map(|name| Arc::new(store(name)) as Arc<dyn Store>);
            world.clouds = Arc::new(TwoClouds::over(stores));
        }
        world.clouds.stops_after(after, at);
        let engine = world.open(world.cloud.clone()).await.unwrap();
        history.run(&*engine, &mut Workload::new(after), ACCESSES).await.unwrap();
        let found = read_all(&*engine).await.unwrap();
        history.check(found).unwrap_or_else(|what| panic!("{at} after {after}: {what}"));
        engine.close().await.unwrap();
        if !world.clouds.has_stopped() {
            break;
        }
        stops += 1;
        look(&world, &mut history).await;
        assert_eq!(world.clouds.repeats(), [], "names that stand for two things");
    }
    assert!(stops > 3, "{stops} stops of {at}");
}

#[tokio::test(start_paused = true)]
async fn either_cloud_of_two_may_stop_at_any_message() {
    for (at, in_files) in [(0, false), (1, false), (0, true), (1, true)] {
        stops_at_any_message(at, in_files, || World::new(Kind::Multicloud)).await;
    }
}

/// What is done again otherwise than it was shows when a cloud stops.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn leaks_of_a_repetition_show_when_a_cloud_stops() {
    for (leak, at) in
        [Leak::SameAttempt, Leak::RepeatedOtherwise].map(|of| [(of, 0), (of, 1)]).concat()
    {
        let world = move || {
            let mut world = World::new(Kind::Multicloud);
            world.leak = Some(leak);
            world
        };
        let all = LocalSet::new();
        let stops = async { spawn_local(stops_at_any_message(at, false, world)).await };
        let stops = all.run_until(stops).await;
        // One name for two things, or a job that waits for what its other cloud has done before.
        let seen = stops.expect_err("it was not seen").into_panic();
        println!("{leak:?} at {at}: {:?}", seen.downcast_ref::<String>());
    }
}

/// What is answered before the journal has it is lost where the client dies. Of a new volume the
/// first accesses show nobody anything, so nothing of them is durable before.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn leaks_of_an_early_answer_are_seen_by_a_death() {
    let mut lost = 0;
    for dies in 1..40 {
        let (mut world, mut history) = (World::new(Kind::Multicloud), History::new());
        world.leak = Some(Leak::AnswerEarly);
        let store = Arc::new(Faulty::dying(world.cloud.clone(), dies, Fault::Before));
        if let Ok(engine) = world.open(store).await {
            let mut work = Workload::new(dies);
            assert!(history.run(&*engine, &mut work, ACCESSES).await.is_err(), "{dies}");
        }
        world.leak = None;
        let engine = world.open(world.cloud.clone()).await.unwrap();
        lost += usize::from(history.check(read_all(&*engine).await.unwrap()).is_err());
    }
    assert!(lost > 0);
}

/// Lives one after the other, each cut somewhere, mostly short: also recoveries are.
#[tokio::test(start_paused = true)]
async fn many_lives_in_a_row() {
    for kind in KINDS {
        for seed in 0..20 {
            let (world, mut history) = (World::new(kind), History::new());
            let mut random = Workload::new(1_000 + seed);
            for _ in 0..8 {
                let dies = 5 + u64::from(random.below(120));
                // Nobody looks in between: the next life begins with what this one left.
                life(&world, &mut history, dies, fault(random.below(3).into())).await;
            }
            look(&world, &mut history).await;
        }
    }
}

/// Accesses of several clients take effect in the order in which they were submitted.
#[tokio::test(start_paused = true)]
async fn clients_at_once_see_one_disk() {
    for kind in KINDS {
        at_once(World::new(kind)).await;
    }
}

/// Where a checkpoint takes longer than what leads to the next one, accesses wait for it.
#[tokio::test(start_paused = true)]
async fn clients_wait_for_a_checkpoint_that_is_late() {
    let mut world = World::new(Kind::Multicloud);
    world.checkpoint_every = 1;
    at_once(world).await;
}

async fn at_once(world: World) {
    let kind = world.kind;
    let engine = world.open(world.cloud.clone()).await.unwrap();
    let (clock, blocks) = (Arc::new(SystemClock::new()), Arc::new(Mutex::new(empty(SHAPE))));
    let mut clients = JoinSet::new();
    for client in 0..5 {
        let (engine, clock, blocks) = (engine.clone(), clock.clone(), blocks.clone());
        clients.spawn(async move {
            let mut work = Workload::new(client);
            for _ in 0..60 {
                clock.sleep_until(clock.now() + u64::from(work.below(20_000_000))).await;
                let mut tickets = Vec::new();
                for _ in 0..1 + work.below(5) {
                    let (address, access) = work.next();
                    let expected = apply(&mut blocks.lock(), address, &access);
                    tickets.push((engine.submit(address, access), expected));
                }
                for (ticket, expected) in tickets {
                    assert_eq!(ticket.await.unwrap(), expected);
                }
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap_or_else(|what| panic!("{kind:?}: {what}"));
    }
    let all = std::mem::take(&mut *blocks.lock());
    assert_eq!(read_all(&*engine).await.unwrap(), all, "{kind:?}");
    engine.close().await.unwrap();
}

/// The canary: a disk that forgets when its process ends is seen to have lost what it had answered.
#[tokio::test(start_paused = true)]
async fn a_disk_that_forgets_is_seen() {
    let mut history = History::new();
    let plain = || PlainEngine::new(SHAPE);
    history.run(&plain(), &mut Workload::new(1), ACCESSES).await.unwrap();
    let told = history.check(read_all(&plain()).await.unwrap());
    assert_eq!(told, Err(format!("{ACCESSES} answered of {ACCESSES}")));
}
