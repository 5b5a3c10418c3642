//! What clients leave at the server that are killed or closed: it is bounded, and nothing goes that
//! is needed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fogbank_durable::shared::{MemorySeen, Site};
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_oram::hierarchy::HierarchyEngine;
use fogbank_oram::{Access, Address, Error, ImmediateEngine};
use fogbank_store::{
    BlobLog, Call, Delay, DepartureGrid, Fault, Faulty, Link, Log, MemoryStore, Operation, Reply,
    Store, StoreError, store_by_calls,
};
use tokio::sync::watch;

use crate::world::{BLOCKS, SITE, World, master};

/// Chunks at the server.
async fn chunks(store: &MemoryStore) -> usize {
    let mut count = 0;
    for (array, _) in store.arrays() {
        count += store.list_chunks(array).await.unwrap().len();
    }
    count
}

/// Chunks at the server that no claim is for: no sweep takes them. A claim has the version of its
/// first chunk, and the others have the next ones.
async fn unclaimed(store: &MemoryStore) -> usize {
    let mut claims = BTreeSet::new();
    for name in store.blob_list("claim/").await.unwrap() {
        let (_, version) = name.rsplit_once('/').unwrap();
        claims.insert(u64::from_str_radix(version, 16).unwrap());
    }
    let mut count = 0;
    for (array, _) in store.arrays() {
        let chunks = store.list_chunks(array).await.unwrap();
        let is_claimed =
            |version: u64| claims.range(version.saturating_sub(200)..=version).count() > 0;
        count += chunks.iter().filter(|chunk| !is_claimed(chunk.version)).count();
    }
    count
}

/// A server with its log, and what its clients have written by block.
struct Server {
    world: World,
    log: Arc<dyn Log>,
    written: Vec<u8>,
    /// Blocks of which nobody knows whether their last write was done.
    unknown: BTreeSet<u32>,
    /// The clients so far.
    clients: u64,
}

impl Server {
    async fn new() -> Self {
        let world = World::new(30); // in pieces
        drop(world.join().await.unwrap()); // the site is made
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let log = Arc::new(BlobLog::open(world.store.clone(), clock, 1 << 24).await.unwrap());
        let (written, unknown) = (vec![0; BLOCKS as usize], BTreeSet::new());
        Self { world, log, written, unknown, clients: 0 }
    }

    /// A client that is killed at a call to the store, if it lives so long.
    async fn join(&mut self, dies_at: u64) -> Result<HierarchyEngine, Error> {
        self.join_by_way_of(|far| Arc::new(Faulty::dying(far, dies_at, Fault::After))).await
    }

    async fn join_by_way_of(
        &mut self,
        way: impl FnOnce(Delay<Arc<MemoryStore>>) -> Arc<dyn Store>,
    ) -> Result<HierarchyEngine, Error> {
        self.clients += 1;
        let random = Randomness::repeatable(self.clients);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let link = Link { round_trip: Duration::from_millis(3), ..Link::instant() };
        let faults = random.stream(Purpose::Faults);
        let far = way(Delay::new(self.world.store.clone(), clock.clone(), link, faults));
        let mut salts = random.stream(Purpose::Incarnation);
        let site = Site::join(far, (&master(), SITE), &mut salts).await?;
        let grid = DepartureGrid::new(clock, Duration::from_millis(1));
        HierarchyEngine::open(site, self.log.clone(), Arc::new(MemorySeen::default()), grid).await
    }

    /// Writes one block after the other, and reads what was written before.
    async fn work(&mut self, engine: &HierarchyEngine, queries: u32) -> Result<(), Error> {
        for query in 0..queries {
            let block = (query * 7 + 3) % BLOCKS;
            self.read(engine, block).await?;
            let next = self.written[block as usize] + 1;
            let access = Access::Write { offset: 0, bytes: vec![next].into() };
            self.unknown.insert(block);
            engine.submit(Address(block), access).await?;
            self.unknown.remove(&block);
            self.written[block as usize] = next;
        }
        Ok(())
    }

    async fn read(&mut self, engine: &HierarchyEngine, block: u32) -> Result<(), Error> {
        let read = engine.submit(Address(block), Access::Read).await?[0];
        let written = &mut self.written[block as usize];
        let is_next = self.unknown.remove(&block) && read == *written + 1;
        assert!(read == *written || is_next, "block {block}: {read} after {written}");
        *written = read;
        Ok(())
    }

    async fn chunks(&self) -> usize {
        chunks(&self.world.store).await
    }
}

/// The most chunks that are there while one client lives and nobody dies.
async fn most() -> usize {
    let mut server = Server::new().await;
    let engine = server.join(u64::MAX).await.unwrap();
    let mut most = 0;
    for _ in 0..150 {
        server.work(&engine, 2).await.unwrap();
        most = most.max(server.chunks().await);
    }
    engine.close().await.unwrap();
    most
}

/// Five clients are killed, one after the other, each at the same call of its life, whichever it
/// is; another one goes on. What they had written goes, and nothing else.
#[tokio::test(start_paused = true)]
async fn what_those_leave_who_are_killed_goes() {
    let most = most().await;
    let (mut left, mut stays) = (0, 0);
    for dies_at in (8..400).step_by(3) {
        let mut server = Server::new().await;
        let first = server.join(u64::MAX).await.unwrap();
        server.work(&first, 30).await.unwrap();
        drop(first);
        for _ in 0..5 {
            if let Ok(engine) = server.join(dies_at).await {
                let _dies = server.work(&engine, 100).await;
            }
        }
        left = left.max(server.chunks().await);
        let last = server.join(u64::MAX).await.unwrap();
        for block in 0..BLOCKS {
            server.read(&last, block).await.unwrap();
        }
        server.work(&last, 130).await.unwrap();
        last.close().await.unwrap();
        let found = server.chunks().await;
        stays = stays.max(found);
        assert!(found <= most, "killed at call {dies_at}: {found} chunks, {most} at most before");
    }
    // Something was left, and has gone.
    assert!(stays < left, "{stays} chunks, and {left} after five kills");
}

/// Clients come and close again, each within the pieces of the one before.
#[tokio::test(start_paused = true)]
async fn who_closes_leaves_nothing_of_a_piece() {
    let most = most().await;
    let mut server = Server::new().await;
    for queries in (0..80).map(|round| 1 + round % 7) {
        let engine = server.join(u64::MAX).await.unwrap();
        server.work(&engine, queries).await.unwrap();
        engine.close().await.unwrap();
        let found = server.chunks().await;
        assert!(found <= most, "{found} chunks, {most} at most in one life");
    }
}

/// A way on which the write of chunks of this number, from 0, sleeps until it is woken.
struct Sleeper<S> {
    inner: S,
    number: u64,
    writes: AtomicU64,
    wakes: watch::Receiver<bool>,
}

impl<S: Store> Sleeper<S> {
    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        if call.operation() == Operation::WriteChunks
            && self.writes.fetch_add(1, Ordering::Relaxed) == self.number
        {
            let mut wakes = self.wakes.clone();
            let _woken = wakes.wait_for(|wakes| *wakes).await;
        }
        call.perform(&self.inner).await
    }
}

store_by_calls!(Sleeper);

/// A client sleeps within a piece, and lives: others build the table and the next ones of its level
/// meanwhile, and remove what nobody needs. What it writes when it wakes goes, too.
#[tokio::test(start_paused = true)]
async fn what_is_written_by_who_slept_goes() {
    for number in (0..48).step_by(3) {
        let mut server = Server::new().await;
        let (wakes, sleeps) = watch::channel(false);
        let sleeper = server
            .join_by_way_of(move |inner| {
                Arc::new(Sleeper { inner, number, writes: AtomicU64::new(0), wakes: sleeps })
            })
            .await
            .unwrap();
        let other = server.join(u64::MAX).await.unwrap();
        for _ in 0..13 {
            server.work(&other, 15).await.unwrap();
            // It lives, and its log goes on.
            server.work(&sleeper, 1).await.unwrap();
        }
        wakes.send_replace(true);
        server.work(&other, 60).await.unwrap();
        sleeper.close().await.unwrap();
        other.close().await.unwrap();
        let found = unclaimed(&server.world.store).await;
        assert_eq!(found, 0, "slept at write {number}: chunks that no sweep takes");
    }
}
