//! A server that goes back, or shows clients two histories.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_durable::shared::{Compared, SeenRegister, Site};
use fogbank_env::{Clock, Mutex, Purpose, Randomness, SystemClock};
use fogbank_oram::hierarchy::HierarchyEngine;
use fogbank_oram::{Access, Address, Error, ImmediateEngine};
use fogbank_store::{
    ArrayId, BlobLog, ChunkWrite, DepartureGrid, Log, LogEntry, LogEvents, MemoryStore,
    PutCondition, Store, StoreError,
};
use tokio::sync::mpsc;

use crate::world::{BLOCKS, SITE, World, master};

/// Everything that the server holds, as it is now.
pub async fn copy(of: &MemoryStore) -> Arc<dyn Store> {
    let copy = Arc::new(MemoryStore::new());
    for name in of.blob_list("").await.unwrap() {
        let (blob, _) = of.blob_get(&name).await.unwrap().unwrap();
        copy.blob_put(&name, blob, PutCondition::Always).await.unwrap();
    }
    for (array, shape) in of.arrays() {
        copy.create_array(array, shape).await.unwrap();
        let names = of.list_chunks(array).await.unwrap();
        let chunks = of.read_chunks(&names).await.unwrap();
        let writes = names.into_iter().zip(chunks);
        let writes = writes.map(|(chunk, data)| ChunkWrite { chunk, data: data.unwrap() });
        copy.write_chunks(writes.collect()).await.unwrap();
    }
    copy
}

pub async fn writes(engine: &dyn ImmediateEngine, rounds: u32) -> Result<(), Error> {
    for round in 0..rounds {
        let access = Access::Write { offset: 0, bytes: vec![round as u8].into() };
        engine.submit(Address(round % BLOCKS), access).await?;
    }
    Ok(())
}

/// Whether it is told as the server's lie, and as which.
pub fn is_lie(error: &Error, which: &str) -> bool {
    matches!(error, Error::CloudLied(what) if what.to_string().contains(which))
}

/// A client of the server whose store this is.
pub async fn join(
    store: Arc<dyn Store>,
    seen: Arc<dyn fogbank_durable::shared::SeenRegister>,
    seed: u64,
) -> Result<Arc<HierarchyEngine>, Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut salts = Randomness::repeatable(seed).stream(Purpose::Incarnation);
    let site = Site::join(store.clone(), (&master(), SITE), &mut salts).await?;
    let log = BlobLog::open(store, clock.clone(), 1 << 24).await;
    // What a server in this process finds of its own is the server's word.
    let log = Arc::new(log.map_err(fogbank_durable::Error::from)?);
    let grid = DepartureGrid::new(clock, std::time::Duration::ZERO);
    Ok(Arc::new(HierarchyEngine::open(site, log, seen, grid).await?))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_back_is_noticed() {
    let world = World::new(9);
    drop(world.join().await.unwrap()); // the site is made
    // However far the client comes after the copy: an entry, epochs, or beyond what the log keeps.
    for (number, further) in [1, 7, 40, 200].into_iter().enumerate() {
        let seen = world.register();
        let engine = join(world.store.clone(), seen.clone(), 100 + number as u64).await.unwrap();
        writes(&*engine, 30).await.unwrap();
        let old = copy(&world.store).await;
        writes(&*engine, further).await.unwrap();
        engine.close().await.unwrap();
        // The newest state is fine, the old one is not.
        let engine = join(world.store.clone(), seen.clone(), 200 + number as u64).await.unwrap();
        writes(&*engine, 1).await.unwrap();
        drop(engine);
        let back = join(old, seen, 300 + number as u64).await;
        let error = back.err().unwrap_or_else(|| panic!("{further} entries back"));
        assert!(is_lie(&error, "rolled back"), "{further}: {error}");
    }
}

/// Superblocks are shown as they are, and the log before them as it was: it lacks what they tell
/// of, or has none of it.
#[tokio::test(start_paused = true)]
async fn a_log_that_goes_back_is_noticed() {
    let world = World::new(9);
    drop(world.join().await.unwrap());
    let told = ["a superblock is shown, and not the log before it", "it has gone back from 256"];
    for (number, (further, told)) in [20, 200].into_iter().zip(told).enumerate() {
        let seen = world.register();
        let engine = join(world.store.clone(), seen.clone(), 400 + number as u64).await.unwrap();
        writes(&*engine, 30).await.unwrap();
        let old = copy(&world.store).await;
        writes(&*engine, further).await.unwrap();
        engine.close().await.unwrap();
        let back = copy(&world.store).await;
        for kind in ["log/", "result/"] {
            for name in back.blob_list(kind).await.unwrap() {
                back.blob_delete(&[&name]).await.unwrap();
            }
            for name in old.blob_list(kind).await.unwrap() {
                let (blob, _) = old.blob_get(&name).await.unwrap().unwrap();
                back.blob_put(&name, blob, PutCondition::Always).await.unwrap();
            }
        }
        for (whose, seen) in [("one that has seen it", seen), ("a new one", world.register())] {
            let error = join(back.clone(), seen, 500 + number as u64).await.err();
            let error = error.unwrap_or_else(|| panic!("{further} entries back, {whose}"));
            assert!(is_lie(&error, told), "{further}, {whose}: {error}");
        }
    }
}

/// Two clients, each in a world of its own from some moment on: whoever is shown the other's
/// notices.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_moved_to_another_world_notices() {
    for further in [1, 20, 60] {
        let world = World::new(10);
        drop(world.join().await.unwrap());
        let seen = [world.register(), world.register()];
        let engine = join(world.store.clone(), seen[0].clone(), 1).await.unwrap();
        writes(&*engine, 30).await.unwrap();
        engine.close().await.unwrap();
        let other = copy(&world.store).await;
        for (store, (seen, seed)) in
            [(world.store.clone() as Arc<dyn Store>, (&seen[0], 2)), (other.clone(), (&seen[1], 3))]
        {
            let engine = join(store, seen.clone(), seed).await.unwrap();
            writes(&*engine, further).await.unwrap();
            engine.close().await.unwrap();
        }
        // The other world goes on, so that it is the longer one.
        let engine = join(other.clone(), seen[1].clone(), 4).await.unwrap();
        writes(&*engine, 3).await.unwrap();
        engine.close().await.unwrap();
        let error = join(other, seen[0].clone(), 5).await.err();
        let error = error.unwrap_or_else(|| panic!("moved after {further}"));
        assert!(is_lie(&error, "another history than this client has seen"), "{further}: {error}");
    }
}

/// Two clients whom a server shows two worlds from some moment on, and who never meet: their codes
/// tell it, once both have come two epochs further; what they told before was right.
#[tokio::test(start_paused = true)]
async fn codes_tell_two_worlds_apart() {
    let code = async |store: Arc<dyn Store>, seen: &Arc<dyn SeenRegister>, at| {
        let site = Arc::new(Site::look(store, (&master(), SITE)).await.unwrap());
        let seen = seen.read().await.unwrap().unwrap();
        Compared::of(&site, &seen, at).await
    };
    for parts_after in [20, 30, 41] {
        let world = World::new(16);
        drop(world.join().await.unwrap());
        let seen = [world.register(), world.register()];
        for (number, seen) in (1..).zip(&seen) {
            let engine = join(world.store.clone(), seen.clone(), number).await.unwrap();
            writes(&*engine, parts_after).await.unwrap();
            engine.close().await.unwrap();
        }
        let other = copy(&world.store).await;
        let stores = [world.store.clone() as Arc<dyn Store>, other];
        let first = code(stores[0].clone(), &seen[0], None).await.unwrap();
        for further in [0, 24] {
            for (number, (store, seen)) in (3 + further..).zip(stores.iter().zip(&seen)) {
                let engine = join(store.clone(), seen.clone(), number.into()).await.unwrap();
                writes(&*engine, further).await.unwrap();
                engine.close().await.unwrap();
            }
            let one = code(stores[0].clone(), &seen[0], Some(first.epoch)).await.unwrap();
            let two = code(stores[1].clone(), &seen[1], Some(first.epoch)).await.unwrap();
            assert!(one == first && two == first, "{one:?} {two:?}");
        }
        let one = code(stores[0].clone(), &seen[0], None).await.unwrap();
        let two = code(stores[1].clone(), &seen[1], Some(one.epoch)).await.unwrap();
        assert!(one.epoch > first.epoch && one.code != two.code, "{one:?} {two:?}");
        // Whoever is shown the other's world meanwhile says so, whatever the code.
        let shown = code(stores[1].clone(), &seen[0], None).await;
        assert!(matches!(shown, Err(fogbank_durable::Error::CloudLied(_))), "{shown:?}");
    }
}

/// Whatever object of the site is replaced by another of its kind, or bent: it is never used.
#[tokio::test(start_paused = true)]
async fn what_is_bent_or_moved_is_noticed() {
    let world = World::new(11);
    drop(world.join().await.unwrap());
    let seen = world.register();
    let engine = join(world.store.clone(), seen.clone(), 1).await.unwrap();
    writes(&*engine, 100).await.unwrap();
    engine.close().await.unwrap();
    let newest = |prefix: &'static str| {
        let store = world.store.clone();
        async move { store.blob_list(prefix).await.unwrap() }
    };
    let mut noticed = 0;
    for prefix in ["session/", "superblock/", "marks/", "index/", "manifest/", "log/0", "result/"] {
        let names = newest(prefix).await;
        let (last, before) = (&names[names.len() - 1], &names[names.len() - 2]);
        let (good, _) = world.store.blob_get(last).await.unwrap().unwrap();
        let (moved, _) = world.store.blob_get(before).await.unwrap().unwrap();
        let mut bent = good.to_vec();
        *bent.last_mut().unwrap() ^= 1;
        for (what, bad) in [("bent", bent.into()), ("moved", moved)] {
            let store = copy(&world.store).await;
            store.blob_put(last, bad, PutCondition::Always).await.unwrap();
            let outcome = async {
                let engine = join(store, seen.clone(), 2).await?;
                writes(&*engine, 40).await
            };
            // What nobody asks for any more may be bent as one likes.
            match outcome.await {
                Err(Error::CloudLied(_)) => noticed += 1,
                other => println!("{prefix} {what}: {other:?}"),
            }
        }
    }
    assert!(noticed >= 10, "{noticed}");
}

/// A client is away while the others go on for longer than the log is kept: it comes back, unless
/// they went on from before its last queries.
#[tokio::test(start_paused = true)]
async fn who_was_away_for_long_is_told_nothing_wrong() {
    for (ahead, is_forked) in [(1, false), (5, true), (9, true), (17, true)] {
        let world = World::new(12);
        drop(world.join().await.unwrap());
        let seen = world.register();
        let engine = join(world.store.clone(), seen.clone(), 1).await.unwrap();
        writes(&*engine, 50).await.unwrap();
        let old = copy(&world.store).await;
        writes(&*engine, ahead).await.unwrap();
        engine.close().await.unwrap();
        let goes_on = if is_forked { old } else { world.store.clone() };
        let other = join(goes_on.clone(), world.register(), 2).await.unwrap();
        writes(&*other, 8 * 30).await.unwrap();
        other.close().await.unwrap();
        let back = join(goes_on, seen, 3).await.map(|_| ());
        match is_forked {
            // Less than an epoch of its last queries is beyond what can be told.
            true if ahead > 8 => assert!(matches!(back, Err(Error::CloudLied(_))), "{back:?}"),
            true => {}
            false => back.unwrap(),
        }
    }
}

/// A client sleeps while the others go on for longer than the log is kept: it stops, and accuses
/// nobody.
#[tokio::test(start_paused = true)]
async fn who_slept_for_long_accuses_nobody() {
    let world = World::new(13);
    drop(world.join().await.unwrap());
    let store: Arc<dyn Store> = world.store.clone();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut salts = Randomness::repeatable(1).stream(Purpose::Incarnation);
    let site = Site::join(store.clone(), (&master(), SITE), &mut salts).await.unwrap();
    let log: Arc<dyn Log> =
        Arc::new(BlobLog::open(store.clone(), clock.clone(), 1 << 24).await.unwrap());
    let grid = DepartureGrid::new(clock.clone(), std::time::Duration::ZERO);
    let sleepy = Arc::new(Sleepy { log: log.clone(), sleeps: Arc::default() });
    let engine = HierarchyEngine::open(site, sleepy.clone(), world.register(), grid.clone());
    let engine = engine.await.unwrap();
    writes(&engine, 20).await.unwrap();
    *sleepy.sleeps.lock() = true;
    let mut salts = Randomness::repeatable(2).stream(Purpose::Incarnation);
    let site = Site::join(store, (&master(), SITE), &mut salts).await.unwrap();
    let other = HierarchyEngine::open(site, log, world.register(), grid).await.unwrap();
    writes(&other, 8 * 30).await.unwrap();
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(600), engine.stopped());
    let stopped = stopped.await.expect("it stops");
    assert!(matches!(stopped, Error::Refused(_) | Error::Absent(_)), "{stopped}");
    // Whoever comes later goes on.
    other.close().await.unwrap();
}

/// A log that tells nothing while somebody sleeps.
struct Sleepy {
    log: Arc<dyn Log>,
    sleeps: Arc<Mutex<bool>>,
}

#[async_trait]
impl Log for Sleepy {
    async fn append(&self, entry: LogEntry) -> fogbank_store::Result<Option<u64>> {
        self.log.append(entry).await
    }

    async fn publish(&self, place: u64, result: Bytes) -> fogbank_store::Result<()> {
        self.log.publish(place, result).await
    }

    async fn follow(&self, from: u64) -> fogbank_store::Result<LogEvents> {
        if *self.sleeps.lock() {
            return Err(StoreError::Absent("asleep".into()));
        }
        let mut events = self.log.follow(from).await?;
        let (sender, receiver) = mpsc::channel(1);
        let sleeps = self.sleeps.clone();
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                let sleeps = *sleeps.lock();
                let event = if sleeps { Err(StoreError::Absent("asleep".into())) } else { event };
                if sender.send(event).await.is_err() || sleeps {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    async fn forget(&self, before: u64) -> fogbank_store::Result<()> {
        self.log.forget(before).await
    }
}

/// Two clients are there, and the server stops and begins again without the last entries of one of
/// them: the other is told of its own next one where it has heard of those. It stops, and does not
/// wait for ever.
#[tokio::test(start_paused = true)]
async fn a_log_that_loses_entries_beneath_clients_is_noticed() {
    for lost in [1, 2, 5] {
        for has_results in [false, true] {
            let world = World::new(15);
            drop(world.join().await.unwrap());
            let turning = Turning::new(&world.store).await;
            let client = |seed| {
                let (world, log) = (&world, turning.clone());
                async move {
                    let mut salts = Randomness::repeatable(seed).stream(Purpose::Incarnation);
                    let store: Arc<dyn Store> = world.store.clone();
                    let site = Site::join(store, (&master(), SITE), &mut salts).await.unwrap();
                    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
                    let grid = DepartureGrid::new(clock, std::time::Duration::ZERO);
                    HierarchyEngine::open(site, log, world.register(), grid).await.unwrap()
                }
            };
            let (one, other) = (client(1).await, client(2).await);
            writes(&one, 10).await.unwrap();
            writes(&other, 10).await.unwrap();
            let back = copy(&world.store).await;
            let kinds = if has_results { &["log/"][..] } else { &["log/", "result/"] };
            for kind in kinds {
                let names = back.blob_list(kind).await.unwrap();
                for name in &names[names.len() - lost..] {
                    back.blob_delete(&[name]).await.unwrap();
                }
            }
            drop(other);
            turning.turns(back).await;
            let asked = tokio::time::timeout(std::time::Duration::from_secs(600), writes(&one, 9));
            let error = asked.await.expect("nobody waits for ever").unwrap_err();
            let told = "another entry where this client's was put";
            assert!(is_lie(&error, told), "{lost} {has_results}: {error}");
        }
    }
}

/// The log of a server that can begin again with another state.
struct Turning(Mutex<Arc<dyn Log>>, tokio::sync::watch::Sender<()>);

impl Turning {
    async fn new(store: &Arc<MemoryStore>) -> Arc<Self> {
        let log = Self::over(store.clone()).await;
        Arc::new(Self(Mutex::new(log), tokio::sync::watch::Sender::new(())))
    }

    async fn over(store: Arc<dyn Store>) -> Arc<dyn Log> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Arc::new(BlobLog::open(store, clock, 1 << 24).await.unwrap())
    }

    /// It begins again over this: streams end.
    async fn turns(&self, store: Arc<dyn Store>) {
        *self.0.lock() = Self::over(store).await;
        self.1.send_replace(());
    }

    fn now(&self) -> Arc<dyn Log> {
        self.0.lock().clone()
    }
}

#[async_trait]
impl Log for Turning {
    async fn append(&self, entry: LogEntry) -> fogbank_store::Result<Option<u64>> {
        self.now().append(entry).await
    }

    async fn publish(&self, place: u64, result: Bytes) -> fogbank_store::Result<()> {
        self.now().publish(place, result).await
    }

    async fn follow(&self, from: u64) -> fogbank_store::Result<LogEvents> {
        let mut turned = self.1.subscribe();
        let mut events = self.now().follow(from).await?;
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    event = events.recv() => event,
                    _ = turned.changed() => Some(Err(StoreError::Absent("it stops".into()))),
                };
                let Some(event) = event else { return };
                let is_over = event.is_err();
                if sender.send(event).await.is_err() || is_over {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    async fn forget(&self, before: u64) -> fogbank_store::Result<()> {
        self.now().forget(before).await
    }
}

#[tokio::test(start_paused = true)]
async fn cells_that_are_withheld_are_noticed() {
    for level in 0..3 {
        let world = World::new(14);
        drop(world.join().await.unwrap());
        let engine = join(world.store.clone(), world.register(), 1).await.unwrap();
        writes(&*engine, 70).await.unwrap();
        let array = ArrayId(level);
        let chunks = world.store.list_chunks(array).await.unwrap();
        world.store.delete_chunks(&chunks).await.unwrap();
        let error = writes(&*engine, 60).await.unwrap_err();
        assert!(is_lie(&error, "cells are withheld"), "{level}: {error}");
    }
}
