//! A site in memory with clients at the ends of links of their own.

use std::sync::Arc;
use std::time::Duration;

use fogbank_durable::shared::{MemorySeen, Site, SiteParameters};
use fogbank_env::{Clock, Nanos, Purpose, Randomness, SystemClock};
use fogbank_oram::hierarchy::HierarchyEngine;
use fogbank_oram::{Access, Address, ImmediateEngine};
use fogbank_store::{BlobLog, Delay, DepartureGrid, Link, Log, MemoryStore, Store};
use rand_core::Rng;

use crate::world::{SITE, master};

/// See the module.
pub struct Far {
    pub clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
    log: Arc<dyn Log>,
    clients: u64,
}

/// A client and its link.
pub struct Client {
    pub engine: Arc<HierarchyEngine>,
    pub way: Arc<Delay<Arc<dyn Store>>>,
}

impl Far {
    pub async fn new(parameters: SiteParameters) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut salts = Randomness::repeatable(1).stream(Purpose::Incarnation);
        Site::create(&store, (&master(), SITE), parameters, &mut salts).await.unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let log = BlobLog::open(store.clone(), clock.clone(), 1 << 40).await.unwrap();
        Self { clock, store, log: Arc::new(log), clients: 0 }
    }

    pub async fn join(&mut self, link: Link) -> Client {
        self.clients += 1;
        let random = Randomness::repeatable(self.clients);
        let faults = random.stream(Purpose::Faults);
        let way = Arc::new(Delay::new(self.store.clone(), self.clock.clone(), link, faults));
        let log = Arc::new(way.far_log(self.log.clone()));
        let mut salts = random.stream(Purpose::Incarnation);
        let site = Site::join(way.clone(), (&master(), SITE), &mut salts).await.unwrap();
        let grid = DepartureGrid::new(self.clock.clone(), Duration::from_millis(1));
        let engine = HierarchyEngine::open(site, log, Arc::new(MemorySeen::default()), grid);
        Client { engine: Arc::new(engine.await.unwrap()), way }
    }
}

/// Asks one query after the other, and says how long each took.
pub async fn ask(
    engine: Arc<HierarchyEngine>,
    clock: Arc<dyn Clock>,
    (seed, queries): (u64, u64),
) -> Vec<Nanos> {
    let mut dice = Randomness::repeatable(seed).stream(Purpose::Workload);
    let (mut took, blocks) = (Vec::new(), engine.shape().capacity);
    for _ in 0..queries {
        let (block, writes) = (dice.next_u32() % blocks, dice.next_u32().is_multiple_of(2));
        let access = match writes {
            true => Access::Write { offset: 0, bytes: vec![1].into() },
            false => Access::Read,
        };
        let begun = clock.now();
        engine.submit(Address(block), access).await.unwrap();
        took.push(clock.now() - begun);
    }
    took
}
