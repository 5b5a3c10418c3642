//! The store that a scene leaves behind, and the vault around it.

use std::sync::Arc;

use fogbank_durable::{MemoryRegister, Opening, Pieces, Recovered, Section, Vault, VaultSettings};
use fogbank_env::{Clock, Metrics, Purpose, Randomness, SystemClock};
use fogbank_oram::ring::RingEngine;
use fogbank_seal::{KeyRing, MasterKey, Salt, StoreId};
use fogbank_store::trace::VaultConfig;
use fogbank_store::{MemoryStore, Store};
use fogbank_txn::{Components, Proxy};
use rand_core::Rng;

use super::whole::close;
use super::{SceneError, Shape};

/// What outlasts a run: the cloud, and the trusted side's register.
#[derive(Default)]
pub(super) struct Ground {
    pub store: Arc<MemoryStore>,
    register: Arc<MemoryRegister>,
}

impl Ground {
    /// Creates the vault, as seen through `store`.
    async fn create(
        &self,
        store: Arc<dyn Store>,
        shape: &Shape,
        random: &Randomness,
    ) -> Result<Vault, SceneError> {
        let config = shape.public(None)?.encode();
        let (register, master) = (self.register.clone(), master_key(random));
        Ok(Vault::create(store, register, &master, config, random).await?)
    }

    /// Opens the vault if there is one, and creates it otherwise. `first` is the randomness of the
    /// first opening, `random` that of this one.
    pub async fn open(
        &self,
        store: Arc<dyn Store>,
        shape: &Shape,
        (first, random): (&Randomness, &Randomness),
    ) -> Result<(Vault, Vec<Section>), SceneError> {
        if Vault::claimed_config(&*self.store).await?.is_none() {
            return Ok((self.create(store, shape, first).await?, Vec::new()));
        }
        Ok(Vault::open(store, self.register.clone(), &master_key(first), random).await?)
    }
}

/// From one full checkpoint to the next.
const FULL_EVERY: u64 = 4;

impl Ground {
    /// Opens the store with a journal, whatever became of it; creates it if there is none. `random`
    /// as for [`Ground::open`].
    pub async fn recover(
        &self,
        store: Arc<dyn Store>,
        shape: &Shape,
        (first, random): (&Randomness, &Randomness),
    ) -> Result<(Vault, Recovered), SceneError> {
        let master = master_key(first);
        let opening = Opening {
            store,
            register: self.register.clone(),
            master: &master,
            random,
            settings: vault_settings(shape),
            accept_rollback_risk: false,
        };
        if Vault::claimed_config(&*self.store).await?.is_some() {
            return Ok(opening.recover().await?);
        }
        let vault = opening.create(shape.public(None)?.encode()).await?;
        Ok((vault, Recovered::default()))
    }
}

/// The sizes of the objects of a store with a journal.
pub(super) fn journalled_sizes(shape: &Shape) -> Result<VaultConfig, SceneError> {
    let (settings, batch) = (shape.ring_settings(), &shape.batch);
    let of_engine = fogbank_oram::ring::checkpoint_lengths(&settings.geometry()?);
    let budget = shape.proxy_settings().key_budget_bytes;
    let of_proxy = fogbank_txn::checkpoint_lengths(batch, budget);
    let full = Pieces::of(of_engine.into_iter().chain(of_proxy));
    let of_engine = fogbank_oram::ring::delta_lengths(&settings)?;
    let of_proxy = fogbank_txn::delta_length(batch);
    let delta = Pieces::of_delta(of_engine.into_iter().chain([of_proxy]));
    let config_bytes = shape.public(None)?.encode().len();
    Ok(vault_settings(shape).public(config_bytes, full, delta))
}

fn vault_settings(shape: &Shape) -> VaultSettings {
    let record_bytes = fogbank_oram::ring::record_bytes(shape.batch.read_batch);
    VaultSettings { record_bytes, full_every: FULL_EVERY }
}

/// The master key of a scene.
fn master_key(random: &Randomness) -> MasterKey {
    let mut bytes = [0; 32];
    random.stream(Purpose::MasterKey).fill_bytes(&mut bytes);
    MasterKey::from_bytes(&mut bytes)
}

/// The keys of a store without a vault.
pub(super) fn key_ring(random: &Randomness) -> Result<KeyRing, SceneError> {
    let mut stream = random.stream(Purpose::Incarnation);
    let (store, salt) = (StoreId::draw(&mut stream), Salt::draw(&mut stream));
    let keys = KeyRing::derive(&master_key(random), store, &[salt]);
    keys.ok_or_else(|| fogbank_oram::Error::Bug("no opening".into()).into())
}

/// The sizes of the objects around the tree: those of a store of this shape that was opened and
/// closed with nothing in it. They are the same for every other.
pub(super) async fn vault_sizes(shape: &Shape) -> Result<VaultConfig, SceneError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::starting_at(0));
    let (ground, random) = (Ground::default(), Randomness::repeatable(0));
    let store: Arc<dyn Store> = ground.store.clone();
    let vault = ground.create(store.clone(), shape, &random).await?;
    let engine =
        RingEngine::create(store.clone(), vault.keys(), shape.ring_settings(), &random).await?;
    let components = Components { clock, random, metrics: Metrics::default() };
    let proxy = Proxy::start(shape.proxy_settings(), Box::new(engine), components, None).await?;
    close(proxy, Some(vault), None).await?;
    let pieces = store.blob_list("checkpoint/").await?;
    let length = async |name: &str| -> Result<u64, SceneError> {
        Ok(store.blob_get(name).await?.map_or(0, |(blob, _)| blob.len() as u64))
    };
    Ok(VaultConfig {
        commit_bytes: length("commit").await?,
        commit_bytes_an_opening: size_of::<Salt>() as u64,
        piece_bytes: length(pieces.first().map_or("", String::as_str)).await?,
        pieces: pieces.len() as u32,
        last_piece_bytes: length(pieces.last().map_or("", String::as_str)).await?,
        journal: None,
    })
}
