//! A site in memory that is full and whose tables are being built, and clients that come and go.

use std::sync::Arc;
use std::time::Duration;

use fogbank::{Error, Result, open_store};
use fogbank_durable::shared::{MemorySeen, Site, SiteParameters};
use fogbank_env::{Clock, Nanos, Purpose, Randomness, SystemClock};
use fogbank_oram::ImmediateEngine;
use fogbank_oram::hierarchy::{HierarchyEngine, Schedule, Table, schedule_of};
use fogbank_seal::{MasterKey, StoreId};
use fogbank_store::{BlobLog, Delay, DepartureGrid, Link, Log, Store};
use fogbank_terminal::bar;
use rand_core::Rng;

use super::counted_log::{CountedLog, LogTraffic};
use super::phases::{Phases, Timed, Times};
use super::strain::{Strain, Straining};
use crate::bench::counted::{Counted, Traffic};
use crate::bench::volume::clients::{Answers, Field, Running, Span, Written};

type Far = Arc<Delay<Arc<dyn Store>>>;

/// Queries under way while loading: an engine takes so many.
const LOAD_UNDER_WAY: usize = 64;
/// Nanoseconds from one look at the log to the next.
const LOOK: Nanos = 50_000_000;
const SITE: StoreId = StoreId([1; 16]);

/// See the module.
pub struct Warm {
    store: Arc<dyn Store>,
    log: Arc<dyn Log>,
    clock: Arc<dyn Clock>,
    schedule: Schedule,
    written: Arc<Written>,
    passed: Arc<LogTraffic>,
    random: Randomness,
    /// Parts of `random` that were taken.
    taken: u64,
}

/// What one point came to.
pub struct Measured {
    /// When clients were answered.
    pub answers: Answers,
    /// What passed to the store, of all clients.
    pub traffic: Traffic,
    /// Bytes to the log and from it.
    pub log: [u64; 2],
    /// What queries waited for.
    pub times: Times,
    /// Places that the log has grown by.
    pub places: u64,
    /// How much of the building of one table of the largest level fell into it.
    pub built: f64,
    /// What the machine that measured had to do meanwhile.
    pub strain: Strain,
}

/// How far a point has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Nanoseconds since it began.
    pub nanos: Nanos,
    /// The share of the places that it is to take.
    pub places: f64,
    /// Bytes written for tables of the largest level.
    pub written: u64,
}

/// A client of the site.
struct Client {
    far: Far,
    store: Arc<Counted<Arc<Timed<Far>>>>,
    timed: Arc<Timed<Far>>,
    phases: Arc<Phases>,
    field: Arc<Field<HierarchyEngine>>,
}

impl Warm {
    /// Makes a site, writes all of its blocks, and goes on until all levels are full.
    pub async fn new(parameters: SiteParameters, seed: u64) -> Result<Self> {
        let mut warm = Self::empty(parameters, seed).await?;
        warm.fill_to(warm.installed(0)).await?;
        Ok(warm)
    }

    /// Makes a site that nobody has used.
    pub async fn empty(parameters: SiteParameters, seed: u64) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let random = Randomness::repeatable(seed);
        let store = open_store("memory:", &clock).await?;
        let mut salts = random.split(0).stream(Purpose::Incarnation);
        Site::create(&store, (&master(), SITE), parameters, &mut salts).await?;
        let log = BlobLog::open(store.clone(), clock.clone(), u64::MAX / 4).await;
        let log = Arc::new(log.map_err(fogbank_durable::Error::from)?);
        let schedule = schedule_of(&parameters)?;
        let (written, passed) = Default::default();
        let taken = 0;
        Ok(Self { store, log, clock, schedule, written, passed, random, taken })
    }

    /// Lets so many clients run from where the site stands, and gives what they were answered in
    /// each of so many spans of time, one behind the other, with the places of the log at the end
    /// of each.
    ///
    /// # Errors
    /// As [`Warm::measure`].
    pub async fn grow(
        &mut self,
        clients: usize,
        (link, quantum_us): (Link, u64),
        (seconds, count): (f64, usize),
    ) -> Result<Vec<(Answers, u64)>> {
        let joined = self.join_all(clients, quantum_us).await?;
        joined.iter().for_each(|client| client.far.set_link(link));
        let fields: Vec<_> = joined.iter().map(|client| client.field.clone()).collect();
        let mut running = Running::of(&fields, self.clock.clone(), &self.random());
        let (bar, mut from) = (bar("measuring"), self.clock.now());
        let (mut spans, mut places) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let to = from + (seconds * 1e9) as Nanos;
            running.go_on(to, &bar).await?;
            spans.push(Span { from, to });
            places.push(self.passed.length());
            from = to;
        }
        bar.finish_and_clear();
        let answers = running.end_in(&spans).await?;
        leave(joined).await?;
        Ok(answers.into_iter().zip(places).collect())
    }

    /// Measures so many clients, each across such a link, while a table of the largest level is
    /// built.
    ///
    /// # Errors
    /// [`Error::CheckFailed`] if a value read is not the one written.
    pub async fn measure(
        &mut self,
        clients: usize,
        (link, quantum_us): (Link, u64),
        seconds: Option<f64>,
    ) -> Result<Measured> {
        self.measure_watched((clients, seconds), (link, quantum_us), |_| {}).await
    }

    /// The same, and tells from time to time how far it has come.
    ///
    /// # Errors
    /// As [`Warm::measure`].
    pub async fn measure_watched(
        &mut self,
        (clients, seconds): (usize, Option<f64>),
        (link, quantum_us): (Link, u64),
        mut tell: impl FnMut(Progress),
    ) -> Result<Measured> {
        let before = self.schedule.first_of(self.warm_up_epochs());
        let table = (1..).find(|index| self.starts(*index) >= self.passed.length() + before);
        let table = table.ok_or_else(|| Error::Bug("no table is built any more".into()))?;
        let (first, ends) = (self.starts(table), self.installed(table));
        self.fill_to(first - before).await?;
        let joined = self.join_all(clients, quantum_us).await?;
        let fields: Vec<_> = joined.iter().map(|client| client.field.clone()).collect();
        let mut running = Running::of(&fields, self.clock.clone(), &self.random());
        let (clock, bar) = (self.clock.clone(), bar("measuring"));
        let (passed, places) = (self.passed.clone(), ends - first);
        let left_to = |place: u64| {
            let length = passed.length();
            bar.set_length(places);
            bar.set_position(length.saturating_sub(first));
            if length < place { LOOK } else { 0 }
        };
        // Across their links from the start: without, builds fall behind the log, as far as queries
        // go before them, and what is measured is how they catch up.
        joined.iter().for_each(|client| client.far.set_link(link));
        running.go_on_while(|| left_to(first)).await?;
        let (from, length) = (clock.now(), passed.length());
        let (traffic, log, times) = (traffic(&joined), passed.bytes(), times(&joined));
        let straining = Straining::begin(clock.clone())?;
        match seconds {
            Some(seconds) => running.go_on(from + (seconds * 1e9) as Nanos, &bar).await?,
            None => {
                let written = || joined.iter().map(|client| client.timed.written()).sum::<u64>();
                let before = written();
                let mut left = || {
                    tell(Progress {
                        nanos: clock.now() - from,
                        places: passed.length().saturating_sub(length) as f64 / places as f64,
                        written: written() - before,
                    });
                    left_to(ends)
                };
                running.go_on_while(&mut left).await?;
            }
        }
        bar.finish_and_clear();
        let (span, grown) = (Span { from, to: clock.now() }, passed.length() - length);
        let [up, down] = passed.bytes();
        let measured = Measured {
            traffic: self::traffic(&joined).since(traffic),
            log: [up - log[0], down - log[1]],
            times: self::times(&joined).since(times),
            places: grown,
            built: grown as f64 / places as f64,
            strain: straining.end(),
            answers: running.end(span).await?,
        };
        leave(joined).await?;
        Ok(measured)
    }

    /// Epochs before that, as long as the table of the last level but one is built: then whatever
    /// is built was begun by those who are measured, as at a site that goes on.
    fn warm_up_epochs(&self) -> u64 {
        let below = u32::from(self.schedule.bottom()).saturating_sub(2);
        u64::from(self.schedule.growth).pow(below) + 1
    }

    /// The place at which this table of the largest level starts to be built.
    fn starts(&self, index: i64) -> u64 {
        let table = Table { level: self.schedule.bottom(), index };
        self.schedule.first_of(self.schedule.build_starts(table))
    }

    /// The first place that touches it.
    fn installed(&self, index: i64) -> u64 {
        let table = Table { level: self.schedule.bottom(), index };
        self.schedule.first_of(self.schedule.installed(table))
    }

    /// Has one client write blocks until the log has come to a place: each once, then any.
    async fn fill_to(&mut self, place: u64) -> Result<()> {
        let (blocks, length) = (self.schedule.blocks, self.passed.length());
        let client = self.join(0, (0, 1)).await?;
        let mut stream = self.random().stream(Purpose::Workload);
        let queries = (length..place).map(|place| match place < u64::from(blocks) {
            true => place as u32,
            false => stream.next_u32() % blocks,
        });
        let (bar, of) = (bar("loading"), place.saturating_sub(length) as u32);
        client.field.fill(queries, of, LOAD_UNDER_WAY, &bar).await?;
        bar.finish_and_clear();
        Ok(client.field.engine.close().await?)
    }

    async fn join_all(&mut self, clients: usize, quantum_us: u64) -> Result<Vec<Client>> {
        let mut joined = Vec::new();
        for number in 0..clients {
            joined.push(self.join(quantum_us, (number as u32, clients as u32)).await?);
        }
        Ok(joined)
    }

    async fn join(&mut self, quantum_us: u64, share: (u32, u32)) -> Result<Client> {
        let (random, clock) = (self.random(), self.clock.clone());
        let faults = random.stream(Purpose::Faults);
        let far = Delay::new(self.store.clone(), clock.clone(), Link::instant(), faults);
        let far = Arc::new(far);
        let phases = Arc::new(Phases::new(clock.clone()));
        let level = self.schedule.bottom();
        let timed = Arc::new(Timed::new(far.clone(), phases.clone(), level));
        let store = Arc::new(Counted::new(timed.clone()));
        let mut salts = random.stream(Purpose::Incarnation);
        let site = Site::join(store.clone(), (&master(), SITE), &mut salts).await?;
        let log = far.far_log(self.log.clone());
        let log = CountedLog::new(log, self.passed.clone(), phases.clone());
        // A clock of its own, as a machine has: at one moment all would want the same cores.
        let own = Arc::new(SystemClock::new());
        let grid = DepartureGrid::new(own, Duration::from_micros(quantum_us));
        let seen = Arc::new(MemorySeen::default());
        let engine = HierarchyEngine::open(site, Arc::new(log), seen, grid).await?;
        let field = Field::of_many(engine, clock, self.written.clone(), share);
        Ok(Client { far, store, timed, phases, field })
    }

    /// The next part of the seed's randomness.
    fn random(&mut self) -> Randomness {
        self.taken += 1;
        self.random.split(self.taken)
    }
}

async fn leave(clients: Vec<Client>) -> Result<()> {
    for client in clients {
        client.far.set_link(Link::instant());
        client.field.engine.close().await?;
    }
    Ok(())
}

fn traffic(clients: &[Client]) -> Traffic {
    let mut sum = Traffic::default();
    clients.iter().for_each(|client| sum += client.store.traffic());
    sum
}

fn times(clients: &[Client]) -> Times {
    clients.iter().map(|client| client.phases.times()).fold(Times::default(), Times::and)
}

fn master() -> MasterKey {
    MasterKey::from_bytes(&mut [7; 32])
}
