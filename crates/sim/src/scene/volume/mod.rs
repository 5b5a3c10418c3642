//! Scenes of engines that serve accesses as they come: an engine in its store, in virtual time from
//! one seed, with several clients, a trace of all that its cloud saw, and a scheduler who holds and
//! reorders messages.
//!
//! 1. Clients submit at times that the seed says and nothing else, also while others wait; the
//!    trace has when they ask and when they are answered.
//! 2. Every answer is held against a model to which accesses are applied in the order in which they
//!    were submitted.
//! 3. When all have been answered the store is closed, at a time that the scene says if it does.

mod file_system;
mod load;
mod scheduler;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fogbank_durable::VaultSettings;
use fogbank_env::{Clock, Mutex, Nanos, Purpose, Randomness, Stream, SystemClock};
use fogbank_oram::immediate::{Parts, ShellSettings};
use fogbank_oram::{Access, Address, ImmediateEngine, ImmediateShape};
use fogbank_store::trace::{PublicConfig, TraceOptions, TraceWriter};
use fogbank_store::{Delay, DepartureGrid, GridStore, LieRule, Link, Recorded, Store};
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub use self::file_system::BLOCKS as FILE_SYSTEM_BLOCKS;
pub use self::load::Load;
pub use self::scheduler::Schedule;

use self::scheduler::Scheduling;
use super::death::{Death, Dying};
use super::liar::Liar;
use super::vault::TestStore;
use super::{SceneError, run};

/// What stands in the commit record for the user's configuration.
const CONFIG: &[u8] = b"tao";
/// Where the numbers of openings begin among the parts of a scene's randomness, after clients.
const OPENINGS: u64 = 1 << 32;

/// The settings of an engine, by which a scene knows it.
#[async_trait]
pub trait Played: Clone + Debug + Send + Sync + 'static {
    /// The engine.
    type Engine: ImmediateEngine + 'static;
    /// What it can leak.
    type Leak: Copy + Debug + Send + Sync + 'static;

    /// What every engine of the kind is told.
    fn shell(&self) -> &ShellSettings;

    /// What the vault is opened with.
    fn vault(&self) -> VaultSettings;

    /// What the auditor is told, of a store whose configuration has so many bytes.
    ///
    /// # Errors
    /// Those of the engine's settings.
    fn public(&self, config_bytes: usize) -> Result<PublicConfig, SceneError>;

    /// Opens a store; a leak that is to be there from the first call on is. What no message shows
    /// and a trace is to say goes to `trace`.
    async fn open(
        self,
        parts: Parts<'_>,
        trace: &TraceWriter,
        leak: Option<Self::Leak>,
    ) -> fogbank_oram::Result<Self::Engine>;

    /// From now on the engine leaks.
    fn begin(leak: Self::Leak, engine: &Self::Engine);
}

/// What is put together, and what runs over it.
#[derive(Debug, Clone)]
pub struct VolumeScene<S: Played> {
    /// What clients ask for.
    pub load: Load,
    /// How many clients.
    pub clients: u32,
    /// Accesses of each.
    pub accesses: u64,
    /// From one access of a client to the next, on average.
    pub gap: Duration,
    /// The store is closed when everything was answered, but not before that time.
    pub serves_until: Duration,
    /// Where all randomness comes from, but for that of the times at which accesses arrive.
    pub seed: u64,
    /// Where that comes from: scenes that are compared have the same.
    pub arrivals: u64,
    /// The engine's.
    pub settings: S,
    /// The way to the store.
    pub link: Link,
    /// What the adversary holds.
    pub schedule: Schedule,
    /// A reply that is forged. The trace marks the moment with `lie` and how many that makes.
    pub lie: Option<LieRule>,
    /// Where the proxy stops midway.
    pub death: Option<Death>,
    /// What is leaked on purpose; nothing if `None`.
    pub leak: Option<S::Leak>,
}

/// What a scene came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumePlayed {
    /// Events in the trace.
    pub events: u64,
    /// Accesses that were answered.
    pub answered: u64,
    /// Answers that were not what was written.
    pub wrong: u64,
    /// Why the engine refused to go on, if it did.
    pub stopped: Option<String>,
    /// What every client has seen, for a check from outside.
    pub seen: Vec<Observed>,
}

/// What a client has seen of an access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Which block.
    pub address: Address,
    /// Whether it wrote.
    pub wrote: bool,
    /// When it asked, and when it was answered.
    pub times: (Nanos, Nanos),
    /// The block that it was shown.
    pub block: Vec<u8>,
}

impl<S: Played> VolumeScene<S> {
    /// What the auditor is told.
    ///
    /// # Errors
    /// Those of the engine's settings.
    pub fn public(&self) -> Result<PublicConfig, SceneError> {
        self.settings.public(CONFIG.len())
    }

    /// Plays it and writes its trace to `path`, where there must be no file.
    ///
    /// # Errors
    /// [`SceneError`] if it cannot be set up. An engine that stops midway is no error.
    pub fn record(&self, path: impl AsRef<Path>) -> Result<VolumePlayed, SceneError> {
        self.record_on(&TestStore::default(), &State::new(self), (0, path.as_ref()))
    }

    /// Plays it once for every path and death, each time opening the store as the time before has
    /// left it, with a trace of each. After a death answers are not held against the model.
    ///
    /// # Errors
    /// As [`VolumeScene::record`].
    pub fn record_lives<P: AsRef<Path>>(
        &self,
        lives: &[(P, Option<Death>)],
    ) -> Result<Vec<VolumePlayed>, SceneError> {
        let (test_store, state) = (TestStore::default(), State::new(self));
        let lives = (0..).zip(lives);
        let played = lives.map(|(opening, (path, death))| {
            let scene = Self { death: *death, ..self.clone() };
            scene.record_on(&test_store, &state, (opening, path.as_ref()))
        });
        played.collect()
    }

    fn record_on(
        &self,
        test_store: &TestStore,
        state: &Arc<State>,
        (opening, path): (u64, &Path),
    ) -> Result<VolumePlayed, SceneError> {
        let (events, stopped) = run(async {
            let stage = Stage::set(self, test_store, (opening, path))?;
            let stopped = tokio::select! {
                lived = self.live(&stage, state) => lived.err().map(|error| error.to_string()),
                () = stage.dead.notified() => Some("dead".into()),
            };
            Ok::<_, SceneError>((stage.trace.finish()?.events, stopped))
        })??;
        state.known.fetch_and(stopped.is_none(), Ordering::Relaxed);
        let (answered, wrong) = (&state.answered, &state.wrong);
        let [answered, wrong] = [answered, wrong].map(|count| count.swap(0, Ordering::Relaxed));
        let seen = std::mem::take(&mut *state.seen.lock());
        Ok(VolumePlayed { events, answered, wrong, stopped, seen })
    }

    /// Plays it with other clients than its own: `clients` has the engine to itself, and what its
    /// cloud saw until the store is closed is written to `path`, where there must be no file.
    ///
    /// # Errors
    /// [`SceneError`] if it cannot be set up, or the engine stops midway.
    pub fn record_clients<F: Future<Output = ()>>(
        &self,
        path: impl AsRef<Path>,
        clients: impl FnOnce(Arc<S::Engine>, Arc<dyn Clock>) -> F,
    ) -> Result<(), SceneError> {
        let test_store = TestStore::default();
        run(async {
            let stage = Stage::set(self, &test_store, (0, path.as_ref()))?;
            let engine = Arc::new(self.open(&stage).await?);
            clients(engine.clone(), stage.clock.clone()).await;
            engine.close().await?;
            stage.trace.finish()?;
            Ok(())
        })?
    }

    /// Lets another program than the engine have the cloud, once for every path and death, each
    /// time as the time before has left it. It is told which time it is.
    ///
    /// # Errors
    /// [`SceneError`] if it cannot be set up.
    pub fn record_program<P: AsRef<Path>>(
        &self,
        lives: &[(P, Option<Death>)],
        mut program: impl AsyncFnMut(usize, Cloud),
    ) -> Result<(), SceneError> {
        let test_store = TestStore::default();
        for (life, (path, death)) in lives.iter().enumerate() {
            let scene = Self { death: *death, ..self.clone() };
            run(async {
                let stage = Stage::set(&scene, &test_store, (life as u64, path.as_ref()))?;
                let Stage { store, clock, trace, .. } = &stage;
                let (store, clock) = (store.clone(), clock.clone());
                let cloud = Cloud { store, clock, trace: trace.clone() };
                tokio::select! {
                    () = program(life, cloud) => {}
                    () = stage.dead.notified() => {}
                }
                stage.trace.finish()?;
                Ok::<_, SceneError>(())
            })??;
        }
        Ok(())
    }

    async fn open(&self, stage: &Stage<'_>) -> Result<S::Engine, SceneError> {
        let first = Randomness::repeatable(self.seed);
        let (store, random) = (stage.store.clone(), &stage.random);
        let config = (self.settings.vault(), CONFIG.to_vec());
        let grid = DepartureGrid::new(stage.clock.clone(), self.settings.shell().quantum);
        let paced: Arc<dyn Store> = Arc::new(GridStore::new(store.clone(), grid.clone()));
        let (vault, recovered) = stage.test_store.open(paced, config, (&first, random)).await?;
        let parts = Parts { store, vault, recovered, random, grid, progress: &|_, _| {} };
        Ok(self.settings.clone().open(parts, &stage.trace, self.leak).await?)
    }

    async fn live(&self, stage: &Stage<'_>, state: &Arc<State>) -> Result<(), SceneError> {
        let random = &stage.random;
        let engine = Arc::new(self.open(stage).await?);
        let mut clients = JoinSet::new();
        if let Some(leak) = self.leak {
            let (engine, clock) = (engine.clone(), stage.clock.clone());
            clients.spawn(async move {
                clock.sleep_until(LEAKS_FROM).await;
                S::begin(leak, &engine);
            });
        }
        let arrivals = Randomness::repeatable(self.arrivals);
        for number in 0..self.clients {
            let stream = random.split(CLIENTS + u64::from(number)).stream(Purpose::Workload);
            let client = Client {
                number,
                engine: engine.clone(),
                clock: stage.clock.clone(),
                trace: stage.trace.clone(),
                state: state.clone(),
                times: arrivals.split(u64::from(number)).stream(Purpose::Workload),
                stream,
            };
            clients.spawn(client.run(self.clone()));
        }
        while clients.join_next().await.is_some() {}
        stage.clock.sleep_until(self.serves_until.as_nanos() as Nanos).await;
        match Arc::into_inner(engine) {
            Some(engine) => Ok(engine.close().await?),
            None => Err(fogbank_oram::Error::Bug("a client is left".into()).into()),
        }
    }
}

/// What a program has to itself that is no engine: a cloud and time, and the trace of what passes,
/// to which it adds marks and messages of clients.
pub struct Cloud {
    /// The cloud.
    pub store: Arc<dyn Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// The trace.
    pub trace: TraceWriter,
}

/// Where the streams of clients begin among the parts of a scene's randomness.
const CLIENTS: u64 = 1 << 20;

/// A leak begins when every path shows something.
const LEAKS_FROM: Nanos = 600_000_000;

/// What a scene stands on.
struct Stage<'a> {
    clock: Arc<dyn Clock>,
    random: Randomness,
    store: Arc<dyn Store>,
    dead: Arc<Notify>,
    trace: TraceWriter,
    test_store: &'a TestStore,
}

impl<'a> Stage<'a> {
    fn set(
        scene: &VolumeScene<impl Played>,
        test_store: &'a TestStore,
        (opening, path): (u64, &Path),
    ) -> Result<Self, SceneError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let first = Randomness::repeatable(scene.seed);
        let random = if opening == 0 { first } else { first.split(OPENINGS + opening) };
        let config = scene.public()?.encode();
        let trace = TraceWriter::create(path, &config, clock.clone(), TraceOptions::default())?;
        let faults = |part| random.split(FAULTS + part).stream(Purpose::Faults);
        let far = Delay::new(test_store.store.clone(), clock.clone(), scene.link, faults(0));
        let held = Scheduling::new(far, clock.clone(), scene.schedule, faults(1));
        let dead = Arc::new(Notify::new());
        let held = Dying::sent(held, scene.death, dead.clone());
        let store: Arc<dyn Store> = match scene.lie {
            None => Arc::new(Recorded::new(held, trace.clone())),
            rule => Arc::new(Recorded::new(Liar::new(held, trace.clone(), rule), trace.clone())),
        };
        let store: Arc<dyn Store> = Arc::new(Dying::unsent(store, scene.death, dead.clone()));
        Ok(Self { clock, random, store, dead, trace, test_store })
    }
}

/// Where the streams of link and scheduler begin.
const FAULTS: u64 = 1 << 21;

/// What all clients share: the blocks as they should be.
struct State {
    model: Mutex<Vec<Vec<u8>>>,
    /// Whether that is known: after a death what was not answered may have happened or not.
    known: AtomicBool,
    answered: AtomicU64,
    wrong: AtomicU64,
    seen: Mutex<Vec<Observed>>,
}

impl State {
    fn new(scene: &VolumeScene<impl Played>) -> Arc<Self> {
        let ImmediateShape { capacity, value_bytes } = scene.settings.shell().shape;
        Arc::new(Self {
            model: Mutex::new(vec![vec![0; value_bytes]; capacity as usize]),
            known: AtomicBool::new(true),
            answered: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            seen: Mutex::default(),
        })
    }

    /// An access is submitted; what it has to show, if that is known.
    fn submit(&self, address: Address, access: &Access) -> Option<Vec<u8>> {
        let block = &mut self.model.lock()[address.0 as usize];
        if let Access::Write { offset, bytes } = access {
            block[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        self.known.load(Ordering::Relaxed).then(|| block.clone())
    }
}

struct Client<E> {
    number: u32,
    engine: Arc<E>,
    clock: Arc<dyn Clock>,
    trace: TraceWriter,
    state: Arc<State>,
    times: Stream,
    stream: Stream,
}

impl<E: ImmediateEngine> Client<E> {
    async fn run(mut self, scene: VolumeScene<impl Played>) {
        let (shape, mean) = (scene.settings.shell().shape, scene.gap.as_nanos() as Nanos);
        let mut answers = JoinSet::new();
        for number in 0..scene.accesses {
            let gap = scene.load.gap(number, &mut self.times, mean);
            self.clock.sleep_until(self.clock.now() + gap).await;
            let (address, access) = scene.load.next(number, shape, &mut self.stream);
            let expected = self.state.submit(address, &access);
            if self.trace.client_request(self.number, number, REQUEST_BYTES).is_err() {
                return;
            }
            let (asked, wrote) = (self.clock.now(), access != Access::Read);
            let ticket = self.engine.submit(address, access);
            let (clock, trace, state) =
                (self.clock.clone(), self.trace.clone(), self.state.clone());
            let client = self.number;
            answers.spawn(async move {
                let Ok(answer) = ticket.await else { return };
                let _ended = trace.client_reply(client, number, REQUEST_BYTES);
                let wrong = expected.is_some_and(|expected| answer != expected);
                state.answered.fetch_add(1, Ordering::Relaxed);
                state.wrong.fetch_add(u64::from(wrong), Ordering::Relaxed);
                let (times, block) = ((asked, clock.now()), answer.to_vec());
                state.seen.lock().push(Observed { address, wrote, times, block });
            });
        }
        while answers.join_next().await.is_some() {}
    }
}

/// Requests and answers have one length.
const REQUEST_BYTES: u64 = 64;
