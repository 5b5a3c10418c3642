//! A volume in two clouds that is measured: the engine, and what passes on the links.

use std::any::Any;
use std::sync::Arc;

use fogbank::{Error, Result};
use fogbank_durable::{ALL_BUT_COMMIT, MemoryRegister, Opening, Recovered};
use fogbank_env::{Clock, Nanos, Purpose, Randomness, SystemClock};
use fogbank_mix::session::MixCloud;
use fogbank_oram::ImmediateEngine;
use fogbank_oram::immediate::Parts as OfEngine;
use fogbank_oram::multicloud::{
    Imagined, MulticloudEngine, MulticloudSettings, WitnessedRegister, signers,
};
use fogbank_process::say_error;
use fogbank_seal::MasterKey;
use fogbank_store::{BlobsApart, DepartureGrid, GridStore, Link, Store};
use fogbank_terminal::bar;

use super::ground::{Between, Ground};
use super::kernel::KernelLink;
use super::parts::{CountedCloud, PARTS, Parts};
use super::relay::Pipe;
use crate::bench::counted::Counted;
use crate::bench::volume::clients::{Answers, Field, Span};

/// Accesses under way while loading.
const LOAD_UNDER_WAY: usize = 512;

/// See the module. All of it ends when it is dropped.
pub struct Pair {
    field: Arc<Field<MulticloudEngine>>,
    disk: Arc<Counted<Arc<dyn Store>>>,
    counts: Arc<Parts>,
    client: [Arc<Pipe>; 2],
    between: Between,
    random: Randomness,
    clock: Arc<dyn Clock>,
    settings: MulticloudSettings,
    block_bytes: usize,
    _runs: Box<dyn Any + Send + Sync>,
}

/// How a volume is made.
#[derive(Debug, Clone)]
pub struct Made {
    /// Of the engine, but for who signs.
    pub settings: MulticloudSettings,
    /// Of everything that is drawn.
    pub seed: u64,
    /// Whether all blocks are there although nobody writes them.
    pub is_sparse: bool,
}

/// The links while clients run.
#[derive(Debug, Clone, Copy)]
pub struct Links {
    /// Of the client, to both servers together.
    pub client: Link,
    /// Bytes a second that the servers can send each other, each way.
    pub between: Option<u64>,
}

/// What clients came to, with blocks of an access by what they are for.
pub struct Measured {
    /// How long they waited.
    pub answers: Answers,
    /// Accesses.
    pub accesses: f64,
    /// Of messages of the client, by [`PARTS`].
    pub parts: [f64; PARTS.len()],
    /// Of journal and checkpoints, onto the trusted disk.
    pub disk: f64,
    /// On the wire from the client.
    pub up: f64,
    /// On the wire to it.
    pub down: f64,
    /// On the wire between the servers.
    pub between: f64,
}

/// What has passed so far.
#[derive(Clone, Copy)]
struct Passed {
    parts: [u64; PARTS.len()],
    disk: u64,
    up: u64,
    down: u64,
    between: u64,
}

impl Measured {
    /// Accesses a second.
    pub fn per_s(&self) -> f64 {
        self.accesses / self.answers.seconds
    }

    /// Milliseconds within which this share was answered.
    pub fn ms(&self, share: f64) -> f64 {
        self.answers.latencies.value_at_quantile(share) as f64 / 1e6
    }

    /// Of all messages.
    pub fn told(&self) -> f64 {
        self.parts.iter().sum()
    }

    /// What is on the wire beside messages: commit records, too.
    pub fn framing(&self) -> f64 {
        self.up + self.down - self.told()
    }
}

impl Pair {
    /// One whose blocks are all written, over links that take everything at once; one that is
    /// sparse is full as it is. The link between the servers is played if there is none of the
    /// kernel.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if servers cannot be begun; those of accesses.
    pub async fn load(made: Made, kernel: Option<Arc<KernelLink>>) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let ground = Ground::new(made.is_sparse, kernel, &clock).await?;
        Self::over(made, ground, clock).await
    }

    /// The same over clouds that are there.
    ///
    /// # Errors
    /// Those of settings that cannot be, of opening and of accesses.
    pub async fn over(made: Made, ground: Ground, clock: Arc<dyn Clock>) -> Result<Self> {
        let random = Randomness::repeatable(made.seed);
        let Ground { clouds, store, journal, client, between, pasts, runs } = ground;
        let counts = Arc::<Parts>::default();
        let clouds = clouds.map(|inner| -> Arc<dyn MixCloud> {
            Arc::new(CountedCloud { inner, parts: counts.clone() })
        });
        let settings = MulticloudSettings {
            under_way_max: made.settings.under_way_max.max(LOAD_UNDER_WAY),
            signers: signers(&clouds, made.settings.public()?).await?,
            ..made.settings
        };
        let disk = Arc::new(Counted::new(journal));
        let grid = DepartureGrid::new(clock.clone(), settings.quantum);
        let paced = Arc::new(GridStore::new(store.clone(), grid.clone()));
        let register = Arc::new(MemoryRegister::default());
        let opening = Opening {
            store: Arc::new(BlobsApart::new(paced, disk.clone(), ALL_BUT_COMMIT)),
            register: Arc::new(WitnessedRegister::new(
                register,
                clouds.clone(),
                settings.public()?,
                grid.clone(),
            )),
            master: &MasterKey::from_bytes(&mut [7; 32]),
            random: &random,
            settings: settings.vault()?,
            accept_rollback_risk: false,
        };
        let vault = opening.create(b"bench".to_vec()).await?;
        let parts = OfEngine {
            store,
            vault,
            recovered: Recovered::default(),
            random: &random,
            grid,
            progress: &|_, _| {},
        };
        let (shape, began) = (settings.shape, clock.now());
        let settings_of = settings.clone();
        let engine = match made.is_sparse {
            true => {
                let keys = Arc::new(parts.vault.keys().split());
                let imagined = Arc::new(Imagined::new(&settings, keys)?);
                pasts.iter().for_each(|past| past.is(&imagined));
                MulticloudEngine::imagined(settings, parts, clouds).await?
            }
            false => MulticloudEngine::open(settings, parts, clouds).await?,
        };
        let field = Field::new(engine, clock.clone(), Arc::default());
        if !made.is_sparse {
            say_error!("multicloud: loading {} blocks, without links", shape.capacity);
            let loading = bar("loading");
            field.load(&mut random.stream(Purpose::Workload), LOAD_UNDER_WAY, &loading).await?;
            loading.finish_and_clear();
        }
        let there = (clock.now() - began) as f64 / 1e9;
        say_error!("multicloud: {} blocks are there after {there:.1} s", shape.capacity);
        Ok(Self {
            field,
            disk,
            counts,
            client,
            between,
            random,
            clock,
            settings: settings_of,
            block_bytes: shape.value_bytes,
            _runs: runs,
        })
    }

    /// Lets so many clients run across the links; `number` draws what they ask for.
    ///
    /// # Errors
    /// Those of accesses; [`Error::TooFewData`] if nobody was answered.
    pub async fn measure(
        &self,
        (number, clients): (u64, usize),
        links: Links,
        seconds: f64,
    ) -> Result<Measured> {
        let delay = links.client.round_trip.as_nanos() as Nanos / 2;
        self.client[0].set(links.client.up_bytes_per_s, delay);
        self.client[1].set(links.client.down_bytes_per_s, delay);
        self.between.set(links.between)?;
        let (bar, span) = (bar("measuring"), Span::of(&*self.clock, seconds));
        let mut running = self.field.start(clients, &self.random.split(number));
        running.go_on(span.from, &bar).await?;
        let before = self.passed()?;
        running.go_on(span.to, &bar).await?;
        let after = self.passed()?;
        bar.finish_and_clear();
        self.client.iter().for_each(|pipe| pipe.set(None, 0));
        self.between.set(None)?;
        let answers = running.end(span).await?;
        if answers.latencies.is_empty() {
            return Err(Error::TooFewData("nobody was answered: give more --seconds".into()));
        }
        let accesses = answers.latencies.len() as f64;
        let blocks =
            |after: u64, before: u64| (after - before) as f64 / accesses / self.block_bytes as f64;
        Ok(Measured {
            accesses,
            parts: std::array::from_fn(|at| blocks(after.parts[at], before.parts[at])),
            disk: blocks(after.disk, before.disk),
            up: blocks(after.up, before.up),
            down: blocks(after.down, before.down),
            between: blocks(after.between, before.between),
            answers,
        })
    }

    /// Closes the volume.
    ///
    /// # Errors
    /// Of the last checkpoint.
    pub async fn close(self) -> Result<()> {
        Ok(self.field.engine.close().await?)
    }

    /// What the engine was made with.
    pub fn settings(&self) -> &MulticloudSettings {
        &self.settings
    }

    /// Blocks that an access moves between the clouds on average, by its settings.
    ///
    /// # Errors
    /// None.
    pub fn reckoned_between(&self) -> Result<f64> {
        let cell_bytes = self.settings.public()?.cell_bytes() as f64;
        Ok(self.settings.cells_between()? * cell_bytes / self.block_bytes as f64)
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn passed(&self) -> Result<Passed> {
        Ok(Passed {
            parts: self.counts.bytes(),
            disk: self.disk.traffic().written,
            up: self.client[0].bytes(),
            down: self.client[1].bytes(),
            between: self.between.bytes()?,
        })
    }
}
