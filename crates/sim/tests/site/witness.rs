//! A server that shows two histories, to clients that never meet and share a witness.

use std::sync::Arc;

use fogbank_durable::shared::{SeenRegister, Site, Superblock, Witnessed};
use fogbank_durable::{MemoryRegister, Register};
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_oram::hierarchy::HierarchyEngine;
use fogbank_oram::{Access, Address, Error, ImmediateEngine};
use fogbank_store::{BlobLog, DepartureGrid, Log, Store};

use crate::lies::{copy, is_lie, writes};
use crate::world::{BLOCKS, SITE, World, master};

/// What a server holds, and its log.
#[derive(Clone)]
struct Server(Arc<dyn Store>, Arc<dyn Log>);

impl Server {
    async fn over(store: Arc<dyn Store>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let log = BlobLog::open(store.clone(), clock, 1 << 24).await.unwrap();
        Self(store, Arc::new(log))
    }

    /// A client that has this witness, if any.
    async fn join(
        &self,
        (seen, witness): (Arc<dyn SeenRegister>, Option<Arc<MemoryRegister>>),
        seed: u64,
    ) -> Result<Arc<HierarchyEngine>, Error> {
        let Self(store, log) = self;
        let seen = match witness {
            Some(register) => {
                let looks = Site::look(store.clone(), (&master(), SITE)).await?;
                Arc::new(Witnessed::of(seen, register, (Arc::new(looks), SITE)).await?)
            }
            None => seen,
        };
        let mut salts = Randomness::repeatable(seed).stream(Purpose::Incarnation);
        let site = Site::join(store.clone(), (&master(), SITE), &mut salts).await?;
        let grid = DepartureGrid::new(Arc::new(SystemClock::new()), std::time::Duration::ZERO);
        Ok(Arc::new(HierarchyEngine::open(site, log.clone(), seen, grid).await?))
    }
}

/// Writes until it is refused: how many were answered, and why.
async fn writes_until_refused(engine: &HierarchyEngine, most: u32) -> (u32, Option<Error>) {
    for round in 0..most {
        let access = Access::Write { offset: 0, bytes: vec![round as u8].into() };
        if let Err(error) = engine.submit(Address(round % BLOCKS), access).await {
            return (round, Some(error));
        }
    }
    (most, None)
}

const FORKED: &str = "its witness has seen another history";
/// Two epochs.
const MOST: u32 = 16;

#[tokio::test(start_paused = true)]
async fn of_two_histories_one_goes_on_for_less_than_two_epochs() {
    for parts_after in 20..36 {
        for has_witness in [true, false] {
            let world = World::new(18);
            drop(world.join().await.unwrap());
            let register = Arc::new(MemoryRegister::default());
            let witness = has_witness.then(|| register.clone());
            let server = Server::over(world.store.clone()).await;
            let seen = [world.register(), world.register()];
            for (seed, seen) in (1..).zip(&seen) {
                let client = server.join((seen.clone(), witness.clone()), seed).await.unwrap();
                writes(&*client, parts_after / 2).await.unwrap();
                client.close().await.unwrap();
            }
            // 1. One history goes on.
            let other = Server::over(copy(&world.store).await).await;
            let one = server.join((seen[0].clone(), witness.clone()), 3).await.unwrap();
            writes(&*one, 40).await.unwrap();
            // 2. The other, too, for a client that is there already or that comes.
            let joined = other.join((seen[1].clone(), witness), 4).await;
            let case = format!("parted after {parts_after}, witness: {has_witness}");
            match (has_witness, joined) {
                (true, Err(error)) => assert!(is_lie(&error, FORKED), "{case}: {error}"),
                (true, Ok(_)) => panic!("{case}: it comes"),
                (false, joined) => {
                    let (count, error) = writes_until_refused(&joined.unwrap(), 60).await;
                    assert!(count == 60 && error.is_none(), "{case}: {error:?}");
                }
            }
        }
    }
}

/// Both are there when the server parts them, and ask by turns.
#[tokio::test(start_paused = true)]
async fn who_is_parted_from_another_while_both_work_stops_within_two_epochs() {
    for parts_after in 20..36 {
        let world = World::new(19);
        drop(world.join().await.unwrap());
        let register = Arc::new(MemoryRegister::default());
        let server = Server::over(world.store.clone()).await;
        let first = server.join((world.register(), Some(register.clone())), 1).await.unwrap();
        writes(&*first, parts_after).await.unwrap();
        first.close().await.unwrap();
        let other = Server::over(copy(&world.store).await).await;
        // Each finds the witness where it was when they were one.
        let one = server.join((world.register(), Some(register.clone())), 2).await.unwrap();
        let two = other.join((world.register(), Some(register.clone())), 3).await.unwrap();
        let mut told = [(0, None), (0, None)];
        while told.iter().all(|(_, error)| error.is_none()) {
            for (engine, (count, error)) in [&one, &two].into_iter().zip(&mut told) {
                let (answered, refused) = writes_until_refused(engine, 1).await;
                *count += answered;
                *error = refused;
            }
            assert!(told[0].0 <= MOST && told[1].0 <= MOST, "{parts_after}: {told:?}");
        }
        // One of the two is told; whose superblock was first goes on.
        let errors: Vec<_> = told.iter().filter_map(|(_, error)| error.as_ref()).collect();
        assert!(errors.iter().all(|error| is_lie(error, FORKED)), "{parts_after}: {told:?}");
        let goes_on = if told[0].1.is_none() { &one } else { &two };
        let is_other = errors.len() == 1;
        assert!(is_other, "{parts_after}: {told:?}");
        writes(&**goes_on, 20).await.unwrap();
    }
}

/// A server that goes back, before a client that has seen nothing of what it hides.
#[tokio::test(start_paused = true)]
async fn who_comes_anew_is_not_shown_an_old_state() {
    let world = World::new(20);
    drop(world.join().await.unwrap());
    let register = Arc::new(MemoryRegister::default());
    let server = Server::over(world.store.clone()).await;
    let one = server.join((world.register(), Some(register.clone())), 1).await.unwrap();
    writes(&*one, 20).await.unwrap();
    let old = Server::over(copy(&world.store).await).await;
    writes(&*one, 20).await.unwrap();
    let comes = async |witness, seed| old.join((world.register(), witness), seed).await;
    let refused = comes(Some(register), 2).await.err().expect("an old state is served");
    assert!(is_lie(&refused, FORKED), "{refused}");
    writes(&*comes(None, 3).await.unwrap(), 1).await.unwrap(); // without, nobody knows
}

/// Clients at once whose server does not lie are held up by nothing, and the witness has seen the
/// newest superblock that any of them needed.
#[tokio::test(start_paused = true)]
async fn who_is_not_lied_to_goes_on() {
    let world = World::new(21);
    drop(world.join().await.unwrap());
    let register = Arc::new(MemoryRegister::default());
    let server = Server::over(world.store.clone()).await;
    let mut works = tokio::task::JoinSet::new();
    for seed in 1..6 {
        let client = server.join((world.register(), Some(register.clone())), seed).await.unwrap();
        works.spawn(async move {
            writes(&*client, 60).await.unwrap();
            client.close().await.unwrap();
        });
    }
    while let Some(done) = works.join_next().await {
        done.unwrap();
    }
    let held = register.read().await.unwrap().unwrap();
    let looks = Arc::new(Site::look(server.0.clone(), (&master(), SITE)).await.unwrap());
    let newest = Superblock::newest(&looks, 1, None).await.unwrap();
    let (newest, _) = &newest[0];
    assert!(held.store == SITE && newest.number - held.sequence <= 1, "{held:?} {}", newest.number);
}
