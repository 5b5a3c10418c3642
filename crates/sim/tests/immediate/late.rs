//! Many accesses at once, whose messages are late in any order, and deaths among them: what was
//! answered is kept, and no cell is read twice in a life.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, Mutex, Purpose, Randomness, SystemClock};
use fogbank_oram::{Error, ImmediateShape};
use fogbank_store::{Call, Delay, Fault, Faulty, Link, Store};

use crate::engines::{Kind, World};
use crate::history::{History, Workload, read_all};

const ACCESSES: usize = 150;
/// Accesses without an answer, at most.
const AHEAD: u32 = 60;

/// The cloud of a life that ends at its call number `dies`; a cell that is read twice ends it, too.
fn cloud(world: &World, (dies, fault): (u64, Fault), seed: u64) -> Arc<dyn Store> {
    let (faulty, seen) = (Faulty::new(world.cloud.clone()), Mutex::new(HashSet::new()));
    faulty.on_call(move |call, number| {
        if let Call::ReadCells(reads) = call {
            for read in reads.iter() {
                for cell in read.cells {
                    let name = (read.chunk, *cell);
                    assert!(seen.lock().insert(name), "{name:x?} is read twice");
                }
            }
        }
        fault.ends_a_life(dies, number)
    });
    let ms = Duration::from_millis;
    // Either most messages are late, or few, and those by many round trips.
    let (jitter, losses) = if seed.is_multiple_of(2) { (ms(40), 0) } else { (ms(2), 30_000) };
    let link = Link { round_trip: ms(4), jitter, losses_per_million: losses, ..Link::instant() };
    let random = Randomness::repeatable(seed).stream(Purpose::Faults);
    Arc::new(Delay::new(faulty, Arc::new(SystemClock::new()) as Arc<dyn Clock>, link, random))
}

/// Everything under way comes to its end.
async fn idle() {
    let clock = SystemClock::new();
    clock.sleep_until(clock.now() + 10_000_000_000).await;
}

async fn life(world: &World, history: &mut History, cloud: Arc<dyn Store>, seed: u64) {
    let lived = async {
        let engine = world.open(cloud).await?;
        let found = read_all(&*engine).await?;
        history.check(found).unwrap_or_else(|what| panic!("{:?} {seed}: {what}", world.kind));
        let mut work = Workload::new(seed);
        let ahead = 1 + work.below(AHEAD) as usize;
        history.run_ahead(&*engine, &mut work, (ACCESSES, ahead)).await?;
        if work.below(3) == 0 {
            // Everything comes to its end, a checkpoint too; then the process dies.
            idle().await;
            return Ok(());
        }
        engine.close().await
    };
    let lived = tokio::time::timeout(Duration::from_secs(3_600), lived).await;
    let lived = lived.unwrap_or_else(|_| panic!("{:?} {seed}: nothing goes on", world.kind));
    assert!(matches!(lived, Ok(()) | Err(Error::Absent(_))), "{:?} {seed}: {lived:?}", world.kind);
}

async fn lives(kind: Kind, seeds: std::ops::Range<u64>) {
    let (mut acknowledged, least) = (0, 100 * (seeds.end - seeds.start));
    for seed in seeds {
        let (world, mut history) = (World::new(kind), History::new());
        let mut random = Workload::new(seed);
        for life_of in 0..6 {
            // Some die while they open, some not at all.
            let dies = 5 + u64::from(random.below(600)) / (1 + 5 * u64::from(random.below(2)));
            let fault = [Fault::Before, Fault::After, Fault::Partly(2)][random.below(3) as usize];
            let seed = seed * 8 + life_of;
            life(&world, &mut history, cloud(&world, (dies, fault), seed), seed).await;
        }
        life(&world, &mut history, cloud(&world, (u64::MAX, Fault::Down), seed), seed).await;
        acknowledged += history.acknowledged;
    }
    assert!(acknowledged as u64 >= least, "{kind:?}: {acknowledged}");
}

#[tokio::test(start_paused = true)]
async fn replies_in_any_order_and_deaths() {
    lives(Kind::Tao, 0..10).await;
    lives(Kind::Partition, 0..40).await;
    // A job commits a block while a cut still waits for it.
    lives(Kind::Partition, 1_002..1_003).await;
    lives(Kind::Multicloud, 0..10).await;
}

/// The commit record that adopts a checkpoint is on its way for ever: accesses go on.
#[tokio::test(start_paused = true)]
async fn a_commit_record_holds_nothing_up() {
    for kind in [Kind::Tao, Kind::Partition, Kind::Multicloud] {
        let (world, mut history, mut work) = (World::new(kind), History::new(), Workload::new(1));
        world.open(world.cloud.clone()).await.unwrap().close().await.unwrap();
        let faulty = Faulty::new(world.cloud.clone());
        let hangs = Arc::new(Mutex::new(false));
        let has_left = hangs.clone();
        // The first that an opening puts is its own.
        let commits = Mutex::new(0);
        faulty.on_call(move |call, _| {
            let Call::BlobPut("commit", ..) = call else { return None };
            *commits.lock() += 1;
            *has_left.lock() = *commits.lock() > 1;
            has_left.lock().then_some(Fault::Hang)
        });
        let engine = world.open(Arc::new(faulty)).await.unwrap();
        let mut before = 0;
        while !*hangs.lock() {
            before += 1;
            assert!(before < 100, "{kind:?}: no checkpoint");
            history.run(&*engine, &mut work, 1).await.unwrap();
            idle().await;
        }
        let run = history.run(&*engine, &mut work, 8);
        let ran = tokio::time::timeout(Duration::from_secs(60), run).await;
        assert!(matches!(ran, Ok(Ok(()))), "{kind:?}: {ran:?}");
        drop(engine);
        let engine = world.open(world.cloud.clone()).await.unwrap();
        history.check(read_all(&*engine).await.unwrap()).unwrap();
    }
}

/// The process dies when nothing is under way any more, after any number of accesses, so that a
/// checkpoint counts at which a job was open; the next dies when it has opened the store.
#[tokio::test(start_paused = true)]
async fn deaths_while_nothing_goes_on() {
    for kind in [Kind::Tao, Kind::Partition] {
        for seed in 0..300 {
            // About as many as from one checkpoint to the next: the record of a commit is the last.
            let (accesses, ahead) = (11 + seed as usize % 4, seed as usize / 4 % 3);
            // Many partitions, so that few have a job at a time.
            let shape = ImmediateShape { capacity: 100, value_bytes: 16 };
            let (world, mut history) = (World::of(kind, shape), History::on(shape));
            let store = cloud(&world, (u64::MAX, Fault::Down), seed);
            let engine = world.open(store).await.unwrap();
            let mut work = Workload::on(shape, seed);
            history.run_ahead(&*engine, &mut work, (accesses, ahead)).await.unwrap();
            idle().await;
            drop(engine);
            drop(world.open(world.cloud.clone()).await.unwrap());
            let engine = world.open(world.cloud.clone()).await;
            let engine = engine.unwrap_or_else(|error| panic!("{kind:?} {seed}: {error}"));
            let found = read_all(&*engine).await.unwrap();
            history.check(found).unwrap_or_else(|what| panic!("{kind:?} {seed}: {what}"));
        }
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "minutes: for changes of an engine or of recovery"]
async fn replies_in_any_order_and_deaths_by_the_thousand() {
    lives(Kind::Partition, 40..1_040).await;
}
