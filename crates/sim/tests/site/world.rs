//! A site in memory: its server, and the ways of clients to it.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_durable::shared::{Coming, MemorySeen, SeenRegister, Site, SiteParameters};
use fogbank_env::{Clock, Mutex, Purpose, Randomness, SystemClock};
use fogbank_oram::Error;
use fogbank_oram::hierarchy::{
    HierarchyEngine, Take, arrays_of, finish_with, public_config, schedule_of,
};
use fogbank_seal::{MasterKey, StoreId};
use fogbank_store::trace::{TraceClock, TraceOptions, TraceWriter};
use fogbank_store::{
    ArrayId, BlobLog, Delay, DepartureGrid, Fault, Faulty, Link, Log, MemoryStore, Recorded,
    RecordedLog, Retry, RetrySchedule, Store,
};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::ledger::{Ledger, Noted, NotedLog, Page};
use crate::life::{Life, Lived, LivedLog};
use crate::slow::SlowLog;
use crate::touches::Touches;
use crate::ways::{RoughWay, Ways};

pub const BLOCKS: u32 = 40;
pub const VALUE_BYTES: usize = 32;

/// Of a way, at most.
const LATE: Duration = Duration::from_millis(40);

pub struct World {
    seed: u64,
    pub store: Arc<MemoryStore>,
    log: OnceCell<Arc<dyn Log>>,
    joined: Mutex<Cell<u64>>,
    /// Whether the site is made of what another held: of block n, bytes n + 1.
    has_image: bool,
    /// The versions of its chunks.
    pub image: Mutex<Vec<u64>>,
    /// What clients have sealed.
    pub ledger: Arc<Ledger>,
    /// What they have touched.
    pub touches: Arc<Touches>,
    /// What has become of their messages.
    pub ways: Arc<Ways>,
    /// Whether those to the store are lost, too, and overtake each other on the way there.
    is_rough: bool,
    /// What they leak.
    pub leak: Option<Leak>,
    /// Where a trace of each is written, if they are recorded.
    pub traces: Option<TempDir>,
}

/// What a client can leak on purpose.
#[cfg(feature = "canaries")]
pub use fogbank_oram::hierarchy::canary::Leak;

/// Nothing, without the feature.
#[cfg(not(feature = "canaries"))]
#[derive(Debug, Clone, Copy)]
pub enum Leak {}

/// Joins as a client that leaks this, if anything.
pub async fn open(
    site: Site,
    (log, seen): (Arc<dyn Log>, Arc<dyn SeenRegister>),
    grid: DepartureGrid,
    leak: Option<Leak>,
) -> Result<HierarchyEngine, Error> {
    match leak {
        #[cfg(feature = "canaries")]
        Some(leak) => HierarchyEngine::open_leaking(site, (log, seen), grid, leak).await,
        #[cfg(not(feature = "canaries"))]
        Some(none) => match none {},
        None => HierarchyEngine::open(site, log, seen, grid).await,
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Of those that leak it is asked what they break.
        if !std::thread::panicking() && self.leak.is_none() {
            let twice = self.ledger.count().err().unwrap_or_default();
            assert!(twice.is_empty(), "nonces that were used twice: {twice:?}");
            let breaches = self.touches.count().err().unwrap_or_default();
            assert!(breaches.is_empty(), "{breaches:?}");
        }
    }
}

pub fn master() -> MasterKey {
    MasterKey::from_bytes(&mut [7; 32])
}

pub const SITE: StoreId = StoreId([1; 16]);

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            store: Arc::default(),
            log: OnceCell::new(),
            joined: Mutex::default(),
            has_image: false,
            image: Mutex::default(),
            ledger: Arc::default(),
            touches: Arc::default(),
            ways: Arc::default(),
            is_rough: false,
            leak: None,
            traces: None,
        }
    }

    /// One with rough ways to its store.
    pub fn rough(seed: u64) -> Self {
        let mut world = Self::new(seed);
        world.is_rough = true;
        world
    }

    /// One all of whose clients are recorded.
    pub fn recorded(seed: u64) -> Self {
        let mut world = Self::new(seed);
        world.traces = Some(tempfile::tempdir().unwrap());
        world
    }

    /// The trace of one client, by its number.
    pub fn trace_of(&self, number: u64) -> PathBuf {
        self.traces.as_ref().unwrap().path().join(format!("{number}"))
    }

    /// The traces of all clients that have joined.
    pub fn all_traces(&self) -> Vec<PathBuf> {
        (1..=self.joined.lock().get()).map(|number| self.trace_of(number)).collect()
    }

    /// The number of a client that joins.
    pub fn number(&self) -> u64 {
        let joined = self.joined.lock();
        joined.set(joined.get() + 1);
        joined.get()
    }

    /// What a client sends, recorded if all are.
    pub fn recorder(
        &self,
        number: u64,
        (store, log): (Arc<dyn Store>, Arc<dyn Log>),
    ) -> (Arc<dyn Store>, Arc<dyn Log>) {
        if self.traces.is_none() {
            return (store, log);
        }
        let (parameters, clock) = (self.parameters(), Arc::new(SystemClock::new()));
        let head = public_config(&parameters, TraceClock::Virtual).unwrap().encode();
        let options = TraceOptions::default();
        let writer = TraceWriter::create(self.trace_of(number), &head, clock, options).unwrap();
        let (arrays, cell_bytes) = arrays_of(&parameters).unwrap();
        arrays.into_iter().for_each(|array| writer.knows_array(0, array, cell_bytes));
        (Arc::new(Recorded::new(store, writer.clone())), Arc::new(RecordedLog::new(log, writer)))
    }

    /// One that starts with block n full of n + 1; block 0 was not told of.
    pub fn of_another(seed: u64) -> Self {
        let mut world = Self::new(seed);
        world.has_image = true;
        world
    }

    /// Whether all but the smallest tables are built in many pieces.
    pub fn builds_in_pieces(&self) -> bool {
        self.seed.is_multiple_of(2)
    }

    /// A place for what one client has seen.
    pub fn register(&self) -> Arc<dyn SeenRegister> {
        Arc::new(MemorySeen::default())
    }

    /// A client that has seen nothing.
    pub async fn join(&self) -> Result<Arc<HierarchyEngine>, Error> {
        self.join_as(self.register()).await
    }

    /// A client that has seen what is there.
    pub async fn join_as(
        &self,
        seen: Arc<dyn SeenRegister>,
    ) -> Result<Arc<HierarchyEngine>, Error> {
        self.join_over(seen, LATE / 4).await
    }

    /// The same whose round trips take so long.
    pub async fn join_over(
        &self,
        seen: Arc<dyn SeenRegister>,
        round_trip: Duration,
    ) -> Result<Arc<HierarchyEngine>, Error> {
        self.enter(seen, round_trip, (None, None)).await
    }

    /// A client that has seen what is there, and stops when its life does.
    pub async fn join_for(
        &self,
        seen: Arc<dyn SeenRegister>,
        life: &Arc<Life>,
    ) -> Result<Arc<HierarchyEngine>, Error> {
        self.enter(seen, LATE / 4, (None, Some(life))).await
    }

    /// One that builds, until it dies at a call to the store, if it lives so long.
    pub async fn join_to_build(&self, dies_at: u64) -> Result<Arc<HierarchyEngine>, Error> {
        self.enter(self.register(), LATE / 4, (Some(dies_at), None)).await
    }

    async fn enter(
        &self,
        seen: Arc<dyn SeenRegister>,
        round_trip: Duration,
        (builds, life): (Option<u64>, Option<&Arc<Life>>),
    ) -> Result<Arc<HierarchyEngine>, Error> {
        let number = self.number();
        let random = Randomness::repeatable(self.seed * 1_000 + number);
        let log = self.log.get_or_init(|| self.begin()).await.clone();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let link = Link { round_trip, jitter: LATE, ..Link::instant() };
        let store: Arc<dyn Store> = Arc::new(Delay::new(
            self.store.clone(),
            clock.clone(),
            link,
            random.stream(Purpose::Faults),
        ));
        let (late, ways) = (LATE.as_nanos() as u64, self.ways.clone());
        let dice = |number| random.split(number).stream(Purpose::Faults);
        let log: Arc<dyn Log> = Arc::new(SlowLog::new(log, ways.clone(), dice(1), late));
        let store: Arc<dyn Store> = match self.is_rough {
            true => {
                let rough = RoughWay::new(store, ways, dice(2), LATE);
                Arc::new(Retry::new(rough, clock.clone(), RetrySchedule::default()))
            }
            false => store,
        };
        let (store, log): (Arc<dyn Store>, Arc<dyn Log>) = match life.cloned() {
            Some(life) => {
                let log = Arc::new(LivedLog { log, life: life.clone() });
                (Arc::new(Lived { inner: store, life }), log)
            }
            None => (store, log),
        };
        let store: Arc<dyn Store> = match builds {
            Some(dies_at) => Arc::new(Faulty::dying(store, dies_at, Fault::After)),
            None => store,
        };
        let (store, log) = self.recorder(number, (store, log));
        let page = Page::of(&self.ledger);
        let (inner, touches) = (store, self.touches.clone());
        let store: Arc<dyn Store> = Arc::new(Noted { inner, page: page.clone(), touches });
        let log = Arc::new(NotedLog { log, page });
        let mut salts = random.stream(Purpose::Incarnation);
        let coming = if builds.is_some() { Coming::Build } else { Coming::Work };
        let site = Site::join_as(store, (&master(), SITE), coming, &mut salts).await?;
        let quantum = Duration::from_millis([0, 1, 5][self.seed as usize % 3]);
        let grid = DepartureGrid::new(clock, quantum);
        Ok(Arc::new(open(site, (log, seen), grid, self.leak).await?))
    }

    pub fn parameters(&self) -> SiteParameters {
        SiteParameters {
            blocks: BLOCKS,
            block_bytes: VALUE_BYTES as u32,
            epoch: 8,
            growth: 2,
            draw: 4,
            piece: if self.builds_in_pieces() { 16 } else { 64 },
            kept_epochs: 16,
            public_ms: 300,
            quantum_us: 0,
            has_image: self.has_image,
        }
    }

    /// The server begins, with a new site.
    async fn begin(&self) -> Arc<dyn Log> {
        let parameters = self.parameters();
        self.touches.of(&schedule_of(&parameters).unwrap());
        let store: Arc<dyn Store> = self.store.clone();
        let mut salts = Randomness::repeatable(self.seed).stream(Purpose::Incarnation);
        let site = Site::begin(&store, (&master(), SITE), parameters, &mut salts).await.unwrap();
        if self.has_image {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            let grid = DepartureGrid::new(clock, Duration::from_millis(1));
            let blocks = |take: &mut Take<'_>| {
                take(1, vec![9; VALUE_BYTES].into())?; // the last counts
                let of = |block: u32| Bytes::from(vec![block as u8 + 1; VALUE_BYTES]);
                (1..BLOCKS).try_for_each(|block| take(block, of(block)))
            };
            finish_with(site, &grid, blocks, |_, _| {}).await.unwrap();
            let chunks = store.list_chunks(ArrayId(3)).await.unwrap();
            self.image.lock().extend(chunks.iter().map(|chunk| chunk.version));
        } else {
            site.finish(Vec::new()).await.unwrap();
        }
        Arc::new(BlobLog::open(store, Arc::new(SystemClock::new()), 1 << 24).await.unwrap())
    }

    /// Tables of the bottom have been there, so all levels were.
    pub fn has_built(&self) {
        let blobs = futures_now(self.store.blob_list("index/03/"));
        assert!(!blobs.unwrap().is_empty());
    }
}

fn futures_now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("a store in memory answers at once"),
    }
}
