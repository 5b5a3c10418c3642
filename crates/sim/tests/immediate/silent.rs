//! One of two clouds is there and says nothing: frozen, or behind a link that swallows everything.
//! Or both are there, and do not reach each other. Or one of the trusted disk and the first cloud's
//! store does not keep what is of checkpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_env::{Clock, SystemClock, by};
use fogbank_oram::Error;
use fogbank_store::{Call, Fault, Faulty, MemoryStore, Store};
#[cfg(feature = "canaries")]
use {fogbank_mix::server::UNREACHED, fogbank_oram::multicloud::canary::Leak};

use super::clouds::TwoClouds;
use super::engines::{Kind, World};
use super::history::{History, Workload, read_all};
use super::look;

const SECOND: u64 = 1_000_000_000;

/// What does not work.
#[derive(Debug, Clone, Copy)]
enum Fails {
    /// A cloud, and whether it opens sessions all the same.
    Cloud(usize, bool),
    /// The link from the clouds that are named to the other, and whether they learn it.
    Link([bool; 2], bool),
}

const CLOUDS: [Fails; 4] =
    [Fails::Cloud(0, true), Fails::Cloud(1, true), Fails::Cloud(0, false), Fails::Cloud(1, false)];

const LINKS: [Fails; 6] = [
    Fails::Link([true, false], true),
    Fails::Link([false, true], true),
    Fails::Link([true, true], true),
    Fails::Link([true, false], false),
    Fails::Link([false, true], false),
    Fails::Link([true, true], false),
];

impl Fails {
    fn all() -> impl Iterator<Item = Self> {
        CLOUDS.into_iter().chain(LINKS)
    }

    fn begins(self, clouds: &Arc<TwoClouds>) {
        match self {
            Self::Cloud(cloud, opens) => clouds.is_silent(Some((cloud, opens))),
            Self::Link(from, is_told) => clouds.is_cut(Some((from, is_told))),
        }
    }

    fn ends(clouds: &Arc<TwoClouds>) {
        clouds.is_silent(None);
        clouds.is_cut(None);
    }
}

/// It works again within the time: what was under way is answered, and nothing was sent twice with
/// other contents.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_goes_on_when_it_works_again() {
    for (fails, seconds) in Fails::all().flat_map(|fails| [(fails, 2), (fails, 45)]) {
        let (world, mut history, mut work) =
            (World::new(Kind::Multicloud), History::new(), Workload::new(seconds));
        let engine = world.open(world.cloud.clone()).await.unwrap();
        history.run(&*engine, &mut work, 40).await.unwrap();
        fails.begins(&world.clouds);
        let works_again = async {
            let clock = SystemClock::new();
            clock.sleep_until(clock.now() + seconds * SECOND).await;
            Fails::ends(&world.clouds);
        };
        let (ran, ()) = tokio::join!(history.run(&*engine, &mut work, 40), works_again);
        ran.unwrap_or_else(|error| panic!("{fails:?} for {seconds} s: {error}"));
        history.check(read_all(&*engine).await.unwrap()).unwrap();
        engine.close().await.unwrap();
        assert_eq!(world.clouds.repeats(), [], "{fails:?} for {seconds} s");
    }
}

/// What goes from one cloud to the other takes long, and comes: nobody ends it.
#[tokio::test(start_paused = true)]
async fn a_long_transfer_between_clouds_comes_to_its_end() {
    for seconds in [15, 45] {
        let (world, mut history, mut work) =
            (World::new(Kind::Multicloud), History::new(), Workload::new(9));
        let engine = world.open(world.cloud.clone()).await.unwrap();
        history.run(&*engine, &mut work, 40).await.unwrap();
        world.clouds.takes(seconds * SECOND);
        history.run(&*engine, &mut work, 12).await.unwrap();
        world.clouds.takes(0);
        history.check(read_all(&*engine).await.unwrap()).unwrap();
        engine.close().await.unwrap();
        assert_eq!(world.clouds.repeats(), []);
    }
}

/// What whoever waits is told within so many seconds of something that fails for ever.
async fn told(world: &World, fails: Fails, seconds: u64) -> (Option<Error>, History) {
    let (mut history, mut work) = (History::new(), Workload::new(7));
    let engine = world.open(world.cloud.clone()).await.unwrap();
    history.run(&*engine, &mut work, 40).await.unwrap();
    fails.begins(&world.clouds);
    let clock = SystemClock::new();
    let run = history.run(&*engine, &mut work, 40);
    let told = by(&clock, clock.now() + seconds * SECOND, run).await;
    (told.map(|ran| ran.expect_err("it cannot go on")), history)
}

/// It does not work again: whoever waits is told what is absent. Later everything is there.
#[tokio::test(start_paused = true)]
async fn what_stays_away_is_told_by_name() {
    for fails in Fails::all() {
        let world = World::new(Kind::Multicloud);
        let (told, mut history) = told(&world, fails, 200).await;
        let is_named = match &told {
            Some(Error::Absent(why)) => match fails {
                Fails::Cloud(0, false) => why.contains("first cloud"),
                Fails::Cloud(_, false) => why.contains("second cloud"),
                // One that takes part in nothing is told by either name.
                Fails::Cloud(_, true) => true,
                Fails::Link(..) => why.contains("link between the two clouds"),
            },
            _ => false,
        };
        assert!(is_named, "{fails:?}: {told:?}");
        Fails::ends(&world.clouds);
        let engine = world.open(world.cloud.clone()).await.unwrap();
        history.check(read_all(&*engine).await.unwrap()).unwrap();
        engine.close().await.unwrap();
        assert_eq!(world.clouds.repeats(), [], "{fails:?}");
    }
}

/// A deletion, a piece of a checkpoint or a commit record that never comes to its end: the journal
/// does not grow without end, and whoever waits is told of whom it is. The first cloud has to do
/// with the commit record alone.
#[tokio::test(start_paused = true)]
async fn what_keeps_no_checkpoints_is_told_by_name() {
    type Hangs = fn(&Call<'_>) -> bool;
    let hangs: [(Hangs, &str); 3] = [
        (|call| matches!(call, Call::BlobDelete(_)), "not deleted"),
        (
            |call| matches!(call, Call::BlobPut(name, ..) if name.starts_with("checkpoint")),
            "its end",
        ),
        (|call| matches!(call, Call::BlobPut(name, ..) if name.starts_with("commit")), "keep"),
    ];
    for (of_cloud, (hangs, word)) in [false, false, true].into_iter().zip(hangs) {
        let (mut history, mut work) = (History::new(), Workload::new(3));
        let mut world = World::new(Kind::Multicloud);
        let trusted: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let disk = Arc::new(Faulty::new(trusted.clone()));
        world.journal = Some(disk.clone());
        let store = Arc::new(Faulty::new(world.cloud.clone()));
        let engine = world.open(store.clone()).await.unwrap();
        store.on_call(move |call, _| hangs(call).then_some(Fault::Hang));
        disk.on_call(move |call, _| hangs(call).then_some(Fault::Hang));
        let clock = SystemClock::new();
        let begun = clock.now();
        let told = history.run(&*engine, &mut work, 20 * world.checkpoint_every as usize).await;
        // A cloud has no more time for it than for what is waited for otherwise.
        let seconds = (clock.now() - begun) / SECOND;
        assert!(seconds >= 60 && (seconds < 120 || !of_cloud), "{word}: {seconds} s");
        let is_told = match &told {
            Err(Error::Absent(why)) => {
                of_cloud && why.contains("the first cloud") && why.contains(word)
            }
            Err(Error::Register(why)) => {
                !of_cloud && why.contains("the trusted disk") && why.contains(word)
            }
            _ => false,
        };
        assert!(is_told, "{word}: {told:?}");
        drop(engine);
        world.journal = Some(trusted);
        let engine = world.open(world.cloud.clone()).await.unwrap();
        history.check(read_all(&*engine).await.unwrap()).unwrap();
        engine.close().await.unwrap();
    }
}

/// A trusted disk that is full, or does not let its user write, is told as such and as nobody else,
/// whatever it was that it did not keep. Nothing is lost.
#[tokio::test(start_paused = true)]
async fn a_trusted_disk_that_keeps_nothing_is_told_as_such() {
    type Fails = fn(&Call<'_>) -> bool;
    let fails: [(&str, Fails); 3] = [
        ("a record", |call| matches!(call, Call::BlobPut(name, ..) if name.starts_with("journal"))),
        (
            "a checkpoint",
            |call| matches!(call, Call::BlobPut(name, ..) if name.starts_with("checkpoint")),
        ),
        ("a deletion", |call| matches!(call, Call::BlobDelete(_))),
    ];
    let ways =
        [Fault::Before, Fault::Refused].map(|fault| [(fault, false), (fault, true)]).concat();
    for ((fault, closes), (what, fails)) in ways.iter().flat_map(|way| fails.map(|of| (*way, of))) {
        let (mut history, mut work) = (History::new(), Workload::new(9));
        let mut world = World::new(Kind::Multicloud);
        let disk = Arc::new(Faulty::new(MemoryStore::new()));
        world.journal = Some(disk.clone());
        let engine = world.open(world.cloud.clone()).await.unwrap();
        let every = world.checkpoint_every as usize;
        history.run(&*engine, &mut work, if closes { every / 2 } else { 40 }).await.unwrap();
        disk.on_call(move |call, _| fails(call).then_some(fault));
        let told = match closes {
            true if what == "a record" => continue, // closing writes none
            true => engine.close().await,
            false => history.run(&*engine, &mut work, 20 * every).await,
        };
        let is_told =
            matches!(&told, Err(Error::Register(why)) if why.contains("the trusted disk"));
        assert!(is_told, "{what}, {fault:?}, {closes}: {told:?}");
        drop(engine);
        disk.heal();
        look(&world, &mut history).await;
    }
}

/// Of a vault that keeps all but its commit record on the trusted disk the first cloud's store sees
/// that record, and nothing else, whatever happens.
#[tokio::test(start_paused = true)]
async fn the_first_cloud_is_shown_commit_records_alone() {
    let (mut history, mut work) = (History::new(), Workload::new(5));
    let mut world = World::new(Kind::Multicloud);
    world.set_trusted(&(Vec::new(), None)).await;
    let (store, others) = (Arc::new(Faulty::new(world.cloud.clone())), Arc::new(AtomicU64::new(0)));
    let seen = others.clone();
    store.on_call(move |call, _| {
        let is_commit = match call {
            Call::BlobGet(name) | Call::BlobPut(name, ..) => *name == "commit",
            _ => false,
        };
        seen.fetch_add(u64::from(!is_commit), Ordering::Relaxed);
        None
    });
    for closes in [false, true, false] {
        let engine = world.open(store.clone()).await.unwrap();
        history.run(&*engine, &mut work, 5 * world.checkpoint_every as usize).await.unwrap();
        if closes {
            engine.close().await.unwrap();
        }
    }
    assert_eq!(others.load(Ordering::Relaxed), 0);
    assert_eq!(world.cloud.blob_list("").await.unwrap(), ["commit"]);
    let (kept, _) = world.trusted().await;
    assert!(kept.iter().any(|(name, _)| name.starts_with("checkpoint/")), "there were checkpoints");
    look(&world, &mut history).await;
}

/// Nothing that deletes or keeps nothing holds up volumes that are to be closed either, before the
/// last checkpoint or at it; and whoever does is told alone.
#[tokio::test(start_paused = true)]
async fn what_deletes_nothing_keeps_no_volume_from_closing() {
    let ways = |hangs| [false, true].map(|has_cut| (hangs, has_cut));
    for (hangs, has_cut) in ["delete", "checkpoint", "commit"].into_iter().flat_map(ways) {
        let (mut history, mut work) = (History::new(), Workload::new(4));
        let world = World::new(Kind::Multicloud);
        let store = Arc::new(Faulty::new(world.cloud.clone()));
        let engine = world.open(store.clone()).await.unwrap();
        store.on_call(move |call, _| {
            let hangs = match call {
                Call::BlobDelete(_) => hangs == "delete",
                Call::BlobPut(name, ..) => name.starts_with(hangs),
                _ => false,
            };
            hangs.then_some(Fault::Hang)
        });
        // As far as the cut, and not so far that accesses wait for its checkpoint; or less.
        let every = world.checkpoint_every as usize;
        let accesses = if has_cut { every + 2 } else { every / 2 };
        history.run(&*engine, &mut work, accesses).await.unwrap();
        let clock = SystemClock::new();
        let begun = clock.now();
        let told = by(&clock, begun + 1_000 * SECOND, engine.close()).await;
        let is_told = match &told {
            Some(Err(Error::Register(why))) => hangs != "commit" && why.contains("trusted disk"),
            Some(Err(Error::Absent(why))) => {
                hangs == "commit"
                    && why.contains("the first cloud")
                    && clock.now() < begun + 120 * SECOND
            }
            _ => false,
        };
        assert!(is_told, "{hangs}, {has_cut}: {told:?}");
        look(&world, &mut history).await;
    }
}

/// A cloud that cannot keep what it has to, since its disk is full or a quota is used up, is told
/// by name with its reason, also where the other cloud learns it first. Nothing is lost.
#[tokio::test(start_paused = true)]
async fn a_cloud_that_keeps_nothing_is_told_by_name_and_with_its_reason() {
    type Fails = fn(&Call<'_>) -> bool;
    let fails: [Fails; 2] =
        [|call| matches!(call, Call::WriteChunks(_)), |call| matches!(call, Call::BlobPut(..))];
    for (cloud, name) in [(0, "the first cloud"), (1, "the second cloud")] {
        for (fault, fails) in [Fault::Before, Fault::Refused]
            .into_iter()
            .flat_map(|fault| fails.map(|of| (fault, of)))
        {
            let mut world = World::new(Kind::Multicloud);
            let stores = [0, 1].map(|_| Arc::new(Faulty::new(MemoryStore::new())));
            world.clouds =
                Arc::new(TwoClouds::over(stores.clone().map(|store| store as Arc<dyn Store>)));
            let (mut history, mut work) = (History::new(), Workload::new(8));
            let engine = world.open(world.cloud.clone()).await.unwrap();
            history.run(&*engine, &mut work, 40).await.unwrap();
            stores[cloud].on_call(move |call, _| fails(call).then_some(fault));
            let clock = SystemClock::new();
            let until_told = async {
                loop {
                    history.run(&*engine, &mut work, 40).await?;
                    clock.sleep_until(clock.now() + SECOND).await;
                }
            };
            let told: Option<Result<(), Error>> =
                by(&clock, clock.now() + 200 * SECOND, until_told).await;
            let is_named = match (&told, fault) {
                (Some(Err(Error::Refused(why))), Fault::Refused) => {
                    why.contains(name) && why.contains("a quota is used up")
                }
                (Some(Err(Error::Absent(why))), Fault::Before) => {
                    why.contains(name) && why.contains("a fault was injected")
                }
                _ => false,
            };
            assert!(is_named, "{name}, {fault:?}: {told:?}");
            drop(engine);
            stores[cloud].heal();
            look(&world, &mut history).await;
            assert_eq!(world.clouds.repeats(), []);
        }
    }
}

/// Without a time-out nobody is told anything, but for two cases. A cloud that is silent is missed
/// by the other one, too: then the link is told. A cloud that learns that its link is cut says so,
/// and that can be all that is waited for.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn without_a_time_out_nothing_is_told() {
    let untold = async |leak, fails| {
        let mut world = World::new(Kind::Multicloud);
        world.leak = Some(leak);
        match (told(&world, fails, 1_000).await.0, fails) {
            (None, _) => 1,
            (Some(Error::Absent(why)), Fails::Cloud(..)) if why.contains("link between") => 0,
            (Some(Error::Absent(why)), Fails::Link(_, true)) if why.contains(UNREACHED) => 0,
            (Some(error), _) => panic!("{leak:?}, {fails:?}: {error}"),
        }
    };
    let mut clouds = 0;
    for fails in &CLOUDS[..2] {
        clouds += untold(Leak::CloudForEver, *fails).await;
    }
    assert!(clouds > 0);
    for fails in LINKS {
        untold(Leak::LinkForEver, fails).await;
    }
}
