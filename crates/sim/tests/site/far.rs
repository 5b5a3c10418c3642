//! A site in memory with clients at the ends of links of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fogbank_durable::shared::{Coming, MemorySeen, Site, SiteParameters};
use fogbank_env::{Clock, Nanos, Purpose, Randomness, SystemClock};
use fogbank_oram::hierarchy::{HierarchyEngine, arrays_of};
use fogbank_oram::{Access, Address, ImmediateEngine, Result};
use fogbank_store::{BlobLog, Call, Delay, DepartureGrid, Faulty, Link, Log, MemoryStore, Store};
use rand_core::Rng;

use crate::world::{Leak, SITE, master, open};

/// See the module.
pub struct Far {
    pub clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
    pub log: Arc<dyn Log>,
    /// What clients leak.
    pub leak: Option<Leak>,
    /// Hears of their calls.
    pub hears: Option<Hears>,
    clients: u64,
    cell_bytes: u64,
}

pub type Hears = Arc<dyn Fn(&Call<'_>) + Send + Sync>;

/// A client and its link.
pub struct Client {
    pub engine: Arc<HierarchyEngine>,
    /// Cells that it has written.
    pub written: Arc<AtomicU64>,
}

impl Far {
    pub async fn new(parameters: SiteParameters) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut salts = Randomness::repeatable(1).stream(Purpose::Incarnation);
        Site::create(&store, (&master(), SITE), parameters, &mut salts).await.unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let log = BlobLog::open(store.clone(), clock.clone(), 1 << 40).await.unwrap();
        let cell_bytes = arrays_of(&parameters).unwrap().1 as u64;
        let (log, leak, hears) = (Arc::new(log), None, None);
        Self { clock, store, log, leak, hears, clients: 0, cell_bytes }
    }

    pub async fn join(&mut self, link: Link) -> Client {
        self.join_as(link, Coming::Work).await
    }

    /// One that comes for `coming`.
    pub async fn join_as(&mut self, link: Link, coming: Coming) -> Client {
        self.try_join_as(link, coming).await.unwrap()
    }

    /// The same, unless the site does not take it.
    pub async fn try_join_as(&mut self, link: Link, coming: Coming) -> Result<Client> {
        self.clients += 1;
        let random = Randomness::repeatable(self.clients);
        let faults = random.stream(Purpose::Faults);
        let way = Arc::new(Delay::new(self.store.clone(), self.clock.clone(), link, faults));
        let log = Arc::new(way.far_log(self.log.clone()));
        let mut salts = random.stream(Purpose::Incarnation);
        let (written, cell_bytes) = (Arc::new(AtomicU64::new(0)), self.cell_bytes);
        let (counted, counts, hears) = (Faulty::new(way), written.clone(), self.hears.clone());
        counted.on_call(move |call, _| {
            hears.iter().for_each(|hears| hears(call));
            if let Call::WriteChunks(writes) = call {
                let bytes: usize = writes.iter().map(|write| write.data.len()).sum();
                counts.fetch_add(bytes as u64 / cell_bytes, Ordering::Relaxed);
            }
            None
        });
        let keys = (&master(), SITE);
        let site = Site::join_as(Arc::new(counted), keys, coming, &mut salts).await.unwrap();
        let grid = DepartureGrid::new(self.clock.clone(), Duration::from_millis(1));
        let engine = open(site, (log, Arc::new(MemorySeen::default())), grid, self.leak);
        Ok(Client { engine: Arc::new(engine.await?), written })
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
