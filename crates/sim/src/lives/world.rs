//! Both sides of a store, which outlast its proxies, and a proxy on them as it ships.

use std::sync::Arc;

use fogbank_durable::{
    Error as VaultError, MemoryRegister, Opening, Recovered, Register, Vault, VaultSettings,
};
use fogbank_env::{Clock, Metrics, Nanos, Purpose, Randomness, SystemClock};
use fogbank_oram::ring::{RingEngine, RingSettings, record_bytes};
use fogbank_seal::{KeyRing, MasterKey};
use fogbank_store::{MemoryStore, OrderedGridStore, Store};
use fogbank_txn::{Components, Proxy, SharedVault};
use rand_core::Rng;

use crate::scene::{SceneError, Shape};

/// What outlasts a proxy: the cloud, the register, the key; and what all proxies share.
#[derive(Clone)]
pub(super) struct World {
    pub cloud: Arc<MemoryStore>,
    pub register: Arc<dyn Register>,
    pub clock: Arc<dyn Clock>,
    pub shape: Shape,
    full_every: u64,
    random: Randomness,
}

/// A proxy whose epochs run.
pub(super) struct Running {
    pub proxy: Proxy,
    vault: SharedVault,
}

impl World {
    /// A cloud with nothing in it.
    pub fn new(seed: u64, shape: Shape, full_every: u64) -> Self {
        Self {
            cloud: Arc::default(),
            register: Arc::<MemoryRegister>::default(),
            clock: Arc::new(SystemClock::starting_at(0)),
            shape,
            full_every,
            random: Randomness::repeatable(seed),
        }
    }

    /// The same with another trusted side.
    pub fn with_register(&self, register: Arc<dyn Register>) -> Self {
        Self { register, ..self.clone() }
    }

    /// The randomness of the opening of this number.
    pub fn random(&self, opening: u64) -> Randomness {
        self.random.split(1 + opening)
    }

    /// Sleeps for so many epochs.
    pub async fn sleep(&self, epochs: f64) {
        let epoch = self.shape.interval.as_nanos() as f64 * (self.shape.read_batches + 1) as f64;
        self.clock.sleep_until(self.clock.now() + (epochs * epoch) as Nanos).await;
    }

    /// Opens the store as seen through `store`, making it if there is none.
    pub async fn open(&self, store: Arc<dyn Store>, opening: u64) -> Result<Running, SceneError> {
        let random = self.random(opening);
        let paced = OrderedGridStore::new(store, self.clock.clone(), self.shape.quantum());
        let store: Arc<dyn Store> = Arc::new(paced);
        let (vault, recovered) = self.vault(store.clone(), &random).await?;
        let engine = self.engine(store, vault.keys(), &random, &recovered).await?;
        let (clock, metrics) = (self.clock.clone(), Metrics::default());
        let components = Components { clock, random, metrics, clients: None };
        let (vault, settings) = (SharedVault::new(vault), self.shape.proxy_settings());
        let silent = |_: usize, _: usize| ();
        let proxy = Proxy::recover(
            settings,
            Box::new(engine),
            vault.clone(),
            components,
            &recovered,
            silent,
        )
        .await?;
        Ok(Running { proxy, vault })
    }

    async fn vault(
        &self,
        store: Arc<dyn Store>,
        random: &Randomness,
    ) -> Result<(Vault, Recovered), SceneError> {
        let mut key = [0; 32];
        self.random.stream(Purpose::MasterKey).fill_bytes(&mut key);
        // It does not go through `store`: of what it is asked there nothing stands before the
        // register.
        let exists = self.cloud.blob_get("commit").await.map_err(VaultError::from)?.is_some();
        let opening = Opening {
            store,
            register: self.register.clone(),
            master: &MasterKey::from_bytes(&mut key),
            random,
            settings: VaultSettings {
                record_bytes: record_bytes(self.shape.batch.read_batch),
                record_parts_max: 1,
                records_at_once: 1,
                full_every: self.full_every,
                pieces: self.shape.pieces(),
                journal_is_near: false,
            },
            accept_rollback_risk: false,
        };
        if exists {
            return Ok(opening.recover().await?);
        }
        Ok((opening.create(b"lives".to_vec()).await?, Recovered::default()))
    }

    async fn engine(
        &self,
        store: Arc<dyn Store>,
        keys: Arc<KeyRing>,
        random: &Randomness,
        recovered: &Recovered,
    ) -> Result<RingEngine, SceneError> {
        let settings =
            RingSettings { log_epochs: true, keep_superseded: true, ..self.shape.ring_settings() };
        Ok(RingEngine::open(store, keys, settings, random, &recovered.full).await?)
    }
}

impl Running {
    /// Ends the epochs and closes the store.
    pub async fn close(self) -> Result<(), SceneError> {
        let mut closed = self.proxy.close().await?;
        let full = closed.save()?;
        Ok(self.vault.close(full).await?)
    }
}
