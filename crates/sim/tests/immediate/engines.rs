//! The immediate engines in their stores: `tao` and `partition` as they are, `multicloud` beside
//! two clouds, `ring` through a ticker.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_durable::shared::{MemorySeen, Site, SiteParameters};
use fogbank_durable::{
    ALL_BUT_COMMIT, MemoryRegister, Opening, Piecing, Recovered, Register, RegisterValue, Vault,
    VaultSettings,
};
use fogbank_env::{Clock, Metrics, Purpose, Randomness, SystemClock};
use fogbank_mix::Shape;
use fogbank_oram::hierarchy::HierarchyEngine;
use fogbank_oram::immediate::Parts;
#[cfg(feature = "canaries")]
use fogbank_oram::multicloud::canary::{Canary, Leak};
use fogbank_oram::multicloud::{MulticloudEngine, MulticloudSettings, WitnessedRegister, signers};
use fogbank_oram::partition::{Layout, PartitionEngine, PartitionSettings};
use fogbank_oram::ring::{RingEngine, RingSettings, record_bytes};
use fogbank_oram::tao::{TaoEngine, TaoSettings};
use fogbank_oram::{BatchShape, Error, ImmediateEngine, ImmediateShape};
use fogbank_seal::{MasterKey, StoreId};
use fogbank_store::{
    BlobLog, BlobsApart, DepartureGrid, MemoryStore, PutCondition, PutOutcome, Store, StoreError,
};
use fogbank_txn::{BLOCK_KEY_BYTES, Components, Proxy, Settings, SharedVault, Ticker};

use super::clouds::TwoClouds;

/// Unless a test says otherwise.
pub const SHAPE: ImmediateShape = ImmediateShape { capacity: 20, value_bytes: 32 };

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tao,
    Partition,
    Multicloud,
    Ring,
    Hierarchy,
}

/// Both sides of one store, which outlive the engines.
pub struct World {
    pub kind: Kind,
    pub shape: ImmediateShape,
    pub cloud: Arc<MemoryStore>,
    register: Arc<MemoryRegister>,
    /// Where `multicloud` has journal and checkpoints, if not at the cloud: with the register.
    pub journal: Option<Arc<dyn Store>>,
    /// What `multicloud` leaks.
    #[cfg(feature = "canaries")]
    pub leak: Option<Leak>,
    /// Of `multicloud`: accesses from one checkpoint to the next.
    pub checkpoint_every: u64,
    /// Of `multicloud`: what leaves does so at multiples of this.
    pub quantum: Duration,
    /// What the client of a site has seen.
    seen: Arc<MemorySeen>,
    /// Where `multicloud` has its cells.
    pub clouds: Arc<TwoClouds>,
    openings: Cell<u64>,
}

/// What is on the trusted side: journal and checkpoints, and the register.
pub type Trusted = (Vec<(String, Bytes)>, Option<RegisterValue>);

/// A volume that is open.
pub type Volume = Arc<dyn ImmediateEngine>;

impl World {
    pub fn new(kind: Kind) -> Self {
        Self::of(kind, SHAPE)
    }

    pub fn of(kind: Kind, shape: ImmediateShape) -> Self {
        let (cloud, clouds, openings) = (Arc::default(), Arc::default(), Cell::new(0));
        let (register, seen) = Default::default();
        let (journal, checkpoint_every) = (None, 12);
        Self {
            kind,
            shape,
            cloud,
            register,
            journal,
            #[cfg(feature = "canaries")]
            leak: None,
            checkpoint_every,
            quantum: Duration::ZERO,
            seen,
            clouds,
            openings,
        }
    }

    /// A trusted side of its own: journal, checkpoints and register.
    pub async fn set_trusted(&mut self, (blobs, register): &Trusted) {
        let (journal, kept) = (MemoryStore::new(), MemoryRegister::default());
        for (name, bytes) in blobs {
            let put = journal.blob_put(name, bytes.clone(), PutCondition::IfAbsent).await;
            assert!(matches!(put, Ok(PutOutcome::Done(_))), "{name}");
        }
        if let Some(value) = register {
            kept.write(None, *value).await.unwrap();
        }
        self.journal = Some(Arc::new(journal));
        self.register = Arc::new(kept);
    }

    /// A copy of it.
    pub async fn trusted(&self) -> Trusted {
        let (journal, mut blobs) = (self.journal.as_ref().unwrap(), Vec::new());
        for name in journal.blob_list("").await.unwrap() {
            let (bytes, _) = journal.blob_get(&name).await.unwrap().unwrap();
            blobs.push((name, bytes));
        }
        (blobs, self.register.read().await.unwrap())
    }

    /// What is drawn follows from this number, at every further opening from the next.
    pub fn draws_from(&self, number: u64) {
        self.openings.set(number);
    }

    /// Opens what is there, or creates it.
    pub async fn open(&self, store: Arc<dyn Store>) -> Result<Volume, Error> {
        self.openings.set(self.openings.get() + 1);
        let random = Randomness::repeatable(self.openings.get());
        match self.kind {
            Kind::Tao => self.open_tao(store, &random).await,
            Kind::Partition => self.open_partition(store, &random).await,
            Kind::Multicloud => self.open_multicloud(store, &random).await,
            Kind::Ring => self.open_ring(store, random).await,
            Kind::Hierarchy => self.open_hierarchy(store, &random).await,
        }
    }

    async fn open_hierarchy(
        &self,
        store: Arc<dyn Store>,
        random: &Randomness,
    ) -> Result<Volume, Error> {
        let parameters = SiteParameters {
            blocks: self.shape.capacity,
            block_bytes: self.shape.value_bytes as u32,
            epoch: 8,
            growth: 2,
            draw: 4,
            piece: 8,
            kept_epochs: 4,
            public_ms: 200,
            quantum_us: 0,
            has_image: false,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let master = (&MasterKey::from_bytes(&mut [7; 32]), StoreId([1; 16]));
        let mut salts = random.stream(Purpose::Incarnation);
        if self.openings.get() == 1 || Site::is_absent(&store).await? {
            Site::create(&store, master, parameters, &mut salts).await?;
        }
        let site = Site::join(store.clone(), master, &mut salts).await?;
        let log = BlobLog::open(store, clock.clone(), 1 << 24).await.map_err(of_log)?;
        let grid = DepartureGrid::new(clock, Duration::ZERO);
        let seen = self.seen.clone();
        let engine = HierarchyEngine::open(site, Arc::new(log), seen, grid).await?;
        Ok(Arc::new(engine))
    }

    async fn open_tao(&self, store: Arc<dyn Store>, random: &Randomness) -> Result<Volume, Error> {
        let settings = TaoSettings { write_back_every: 5, ..TaoSettings::new(self.shape) };
        let (vault, recovered) = self.vault(&store, random, settings.vault()).await?;
        let grid = DepartureGrid::new(Arc::new(SystemClock::new()), settings.shell.quantum);
        let parts = Parts { store, vault, recovered, random, grid, progress: &|_, _| {} };
        Ok(Arc::new(TaoEngine::open(settings, parts).await?))
    }

    async fn open_partition(
        &self,
        store: Arc<dyn Store>,
        random: &Randomness,
    ) -> Result<Volume, Error> {
        let layout = self.small_layout()?;
        let checkpoint_every = 12;
        let settings = PartitionSettings {
            layout,
            checkpoint_every,
            ..PartitionSettings::new(self.shape, 1)?
        };
        let (vault, recovered) = self.vault(&store, random, settings.vault()).await?;
        let grid = DepartureGrid::new(Arc::new(SystemClock::new()), settings.shell.quantum);
        let parts = Parts { store, vault, recovered, random, grid, progress: &|_, _| {} };
        Ok(Arc::new(PartitionEngine::open(settings, parts).await?))
    }

    async fn open_multicloud(
        &self,
        store: Arc<dyn Store>,
        random: &Randomness,
    ) -> Result<Volume, Error> {
        let settings = self.of_two_clouds()?;
        let grid = DepartureGrid::new(Arc::new(SystemClock::new()), settings.quantum);
        let (ways, shape) = (self.clouds.ways(), settings.public()?);
        let settings = MulticloudSettings { signers: signers(&ways, shape).await?, ..settings };
        #[cfg(feature = "canaries")]
        let serves_older = self.leak == Some(Leak::ServesOlder);
        #[cfg(not(feature = "canaries"))]
        let serves_older = false;
        let register: Arc<dyn Register> = match serves_older {
            true => self.register.clone(),
            false => Arc::new(WitnessedRegister::new(
                self.register.clone(),
                ways.clone(),
                shape,
                grid.clone(),
            )),
        };
        let of_vault: Arc<dyn Store> = match &self.journal {
            None => store.clone(),
            Some(journal) => {
                Arc::new(BlobsApart::new(store.clone(), journal.clone(), ALL_BUT_COMMIT))
            }
        };
        let vault = self.vault_by(&of_vault, register, random, settings.vault()?);
        let (vault, recovered) = vault.await?;
        let parts = Parts { store, vault, recovered, random, grid, progress: &|_, _| {} };
        #[cfg(feature = "canaries")]
        if let Some(leak) = self.leak {
            let canary = Canary::new(leak);
            let engine = MulticloudEngine::open_leaking(canary, settings, parts, ways).await?;
            return Ok(Arc::new(engine));
        }
        Ok(Arc::new(MulticloudEngine::open(settings, parts, ways).await?))
    }

    /// What is public of `multicloud`.
    pub fn public(&self) -> Result<Shape, Error> {
        self.of_two_clouds()?.public()
    }

    fn of_two_clouds(&self) -> Result<MulticloudSettings, Error> {
        let usual = MulticloudSettings::new(self.shape, 1)?;
        let layout = self.small_layout()?;
        let (refresh_every, checkpoint_every) = (3, self.checkpoint_every);
        let quantum = self.quantum;
        Ok(MulticloudSettings { layout, refresh_every, checkpoint_every, quantum, ..usual })
    }

    /// Small partitions, so that jobs and their commits come often.
    fn small_layout(&self) -> Result<Layout, Error> {
        match self.shape == SHAPE {
            true => Ok(Layout {
                blocks: SHAPE.capacity,
                partitions: 2,
                levels: 4,
                top_blocks: 16,
                kept_levels: 1,
                // The two highest lie in two segments.
                segment_cells: 7,
            }),
            false => Layout::new(self.shape.capacity, 1),
        }
    }

    async fn open_ring(&self, store: Arc<dyn Store>, random: Randomness) -> Result<Volume, Error> {
        let shape = BatchShape {
            capacity: Ticker::capacity_for(self.shape.capacity),
            value_bytes: self.shape.value_bytes,
            read_batch: 4,
            write_batch: 4,
        };
        let settings =
            RingSettings { log_epochs: true, keep_superseded: true, ..RingSettings::new(shape, 1) };
        let record_bytes = record_bytes(shape.read_batch);
        let of_vault = VaultSettings {
            record_bytes,
            record_parts_max: 1,
            records_at_once: 1,
            full_every: 3,
            pieces: Piecing::usual(1),
            journal_is_near: false,
        };
        let (vault, recovered) = self.vault(&store, &random, of_vault).await?;
        let (keys, vault) = (vault.keys(), SharedVault::new(vault));
        let engine = RingEngine::open(store, keys, settings, &random, &recovered.full).await?;
        let settings = Settings {
            read_batches: 1,
            interval: Duration::from_millis(10),
            slack: Duration::from_millis(1),
            key_budget_bytes: BLOCK_KEY_BYTES,
            ..Settings::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let components = Components { clock, random, metrics: Metrics::default(), clients: None };
        let recovering = Proxy::recover(
            settings,
            Box::new(engine),
            vault.clone(),
            components,
            &recovered,
            |_, _| {},
        );
        let proxy = recovering.await.map_err(of_engine)?;
        Ok(Arc::new(Ticker::new(&proxy, self.shape.capacity)?.with_vault(vault)))
    }

    async fn vault(
        &self,
        store: &Arc<dyn Store>,
        random: &Randomness,
        settings: VaultSettings,
    ) -> Result<(Vault, Recovered), Error> {
        self.vault_by(store, self.register.clone(), random, settings).await
    }

    async fn vault_by(
        &self,
        store: &Arc<dyn Store>,
        register: Arc<dyn Register>,
        random: &Randomness,
        settings: VaultSettings,
    ) -> Result<(Vault, Recovered), Error> {
        let exists = Vault::claimed_config(&**store).await?.is_some();
        let opening = Opening {
            store: store.clone(),
            register,
            master: &MasterKey::from_bytes(&mut [7; 32]),
            random,
            settings,
            accept_rollback_risk: false,
        };
        Ok(match exists {
            true => opening.recover().await?,
            false => (opening.create(b"config".to_vec()).await?, Recovered::default()),
        })
    }
}

fn of_log(error: StoreError) -> Error {
    match error {
        StoreError::Absent(reason) => Error::Absent(reason),
        other => Error::Bug(other.to_string()),
    }
}

fn of_engine(error: fogbank_txn::Error) -> Error {
    match error {
        fogbank_txn::Error::Stopped(error) => error,
        other => Error::Bug(other.to_string()),
    }
}
