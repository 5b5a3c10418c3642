//! Scenes: the proxy as it ships, put together in virtual time from one seed, with a trace of all
//! that its store saw.
//!
//! 1. A store in memory stands at the far end of a link ([`Delay`](fogbank_store::Delay)), which
//!    may hold one reply back ([`Hold`]) and may lie.
//! 2. Between link and proxy everything is recorded; the engine's calls leave at points of a grid.
//! 3. Over it runs the whole proxy with clients of a [`Workload`], or the engine alone for long
//!    runs.
//! 4. After a number of epochs that is known beforehand the proxy is closed.
//!
//! Invariant: the same scene gives the same trace, to the byte. How long a scene lasts depends on
//! its shape, its link and its number of epochs, never on what clients did.

mod alone;
mod canary;
mod clients;
mod death;
mod hold;
mod leaks;
mod liar;
mod lives;
pub mod partition;
mod shape;
mod stage;
pub mod tao;
mod vault;
pub mod volume;
mod whole;
mod working;
mod workload;

use std::path::Path;
use std::time::Duration;

use fogbank_store::{LieRule, Link};

pub use canary::Canary;
pub(crate) use clients::Clients;
pub use death::{Death, Fate};
pub use hold::Hold;
pub use liar::LIE;
pub use shape::Shape;
pub use workload::{Intensity, Workload};

use self::stage::Stage;
use self::vault::TestStore;

/// What is put together, and what runs over it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// What clients ask for.
    pub workload: Workload,
    /// How much of it.
    pub intensity: Intensity,
    /// Where all randomness comes from.
    pub seed: u64,
    /// The public shape.
    pub shape: Shape,
    /// How much of the proxy takes part.
    pub cast: Cast,
    /// Epochs with clients; opening and closing add a few without.
    pub epochs: u32,
    /// The way to the store.
    pub link: Link,
    /// A reply that comes late.
    pub hold: Option<Hold>,
    /// A reply that is forged. The trace marks the moment with `lie` and how many that makes.
    pub lie: Option<LieRule>,
    /// Where the proxy stops midway.
    pub death: Option<Death>,
    /// What is leaked on purpose; nothing if `None`.
    pub canary: Option<Canary>,
}

/// How much of the proxy takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cast {
    /// The engine, called at the points of the grid by a driver that does nothing else.
    Engine,
    /// Transactions over the engine, in no vault.
    Proxy,
    /// The same in a store with a vault, as it ships: every batch is journalled, every epoch
    /// committed, and it is opened after any stop.
    Journalled,
}

impl Scene {
    /// A saturated whole proxy of a small shape for a hundred epochs, over a link of 4 ms.
    pub fn new(workload: Workload, seed: u64) -> Self {
        Self {
            workload,
            intensity: Intensity::Saturated,
            seed,
            shape: Shape::small(),
            cast: Cast::Proxy,
            epochs: 100,
            link: Link { round_trip: Duration::from_millis(4), ..Link::instant() },
            hold: None,
            lie: None,
            death: None,
            canary: None,
        }
    }

    /// The engine alone, without a link: what long runs are made of.
    pub fn of_engine(workload: Workload, seed: u64, shape: Shape, epochs: u32) -> Self {
        let link = Link::instant();
        Self { shape, cast: Cast::Engine, epochs, link, ..Self::new(workload, seed) }
    }
}

/// What a scene came to. The secret figures are for tests that the scene is what it is meant to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Events in the trace.
    pub events: u64,
    /// Whether the proxy refused to go on, and its words.
    pub stopped: Option<String>,
    /// Secret: what was asked of the engine.
    pub secret: SecretFigures,
}

/// What the cloud must not learn of a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecretFigures {
    /// Blocks read.
    pub reads: u64,
    /// Blocks written.
    pub writes: u64,
    /// Transactions aborted.
    pub aborts: u64,
}

/// Why a scene could not be played.
#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    /// The trace cannot be written.
    #[error("the trace cannot be written: {0}")]
    Trace(#[from] std::io::Error),
    /// The store refused the recorder or something before the epochs.
    #[error("the stage cannot be set: {0}")]
    Store(#[from] fogbank_store::StoreError),
    /// The engine refused the shape.
    #[error("the engine refused: {0}")]
    Engine(#[from] fogbank_oram::Error),
    /// The vault refused.
    #[error("the vault refused: {0}")]
    Vault(#[from] fogbank_durable::Error),
    /// The transaction layer refused to start.
    #[error("the proxy refused to start: {0}")]
    Proxy(#[from] fogbank_txn::Error),
}

/// Plays `scene` and writes its trace to `path`, where there must be no file.
///
/// # Errors
/// [`SceneError`] if it cannot be set up. A proxy that stops midway is no error:
/// [`Played::stopped`].
pub fn record(scene: &Scene, path: impl AsRef<Path>) -> Result<Played, SceneError> {
    record_on(scene, &TestStore::default(), (0, path.as_ref()))
}

/// Plays a [`Cast::Journalled`] scene once for every path and death, each time opening the store as
/// the time before has left it, with a trace of each.
///
/// # Errors
/// As [`record`].
pub fn record_lives<P: AsRef<Path>>(
    scene: &Scene,
    lives: &[(P, Option<Death>)],
) -> Result<Vec<Played>, SceneError> {
    let test_store = TestStore::default();
    let lives = (0..).zip(lives);
    let played = lives.map(|(opening, (path, death))| {
        let scene = Scene { death: *death, ..scene.clone() };
        record_on(&scene, &test_store, (opening, path.as_ref()))
    });
    played.collect()
}

fn record_on(
    scene: &Scene,
    test_store: &TestStore,
    opening: (u64, &Path),
) -> Result<Played, SceneError> {
    let vault = match scene.cast {
        Cast::Journalled => Some(vault::vault_sizes(&scene.shape)?),
        Cast::Engine | Cast::Proxy => None,
    };
    run(async {
        let stage = Stage::set(scene, test_store, vault, opening)?;
        let (stopped, secret) = match scene.cast {
            Cast::Engine => alone::play(scene, &stage).await?,
            Cast::Proxy => whole::play(scene, &stage).await?,
            Cast::Journalled => lives::play(scene, &stage).await?,
        };
        let events = stage.finish()?;
        Ok(Played { events, stopped, secret })
    })?
}

/// Runs something in virtual time.
fn run<T>(future: impl Future<Output = T>) -> Result<T, SceneError> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(future))
}
