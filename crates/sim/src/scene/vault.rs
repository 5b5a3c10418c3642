//! The store that a scene leaves behind, and the vault around it.

use std::sync::Arc;

use fogbank_durable::{MemoryRegister, Opening, Recovered, Vault, VaultSettings};
use fogbank_env::{Purpose, Randomness};
use fogbank_seal::{KeyRing, MasterKey, Salt, StoreId};
use fogbank_store::trace::VaultConfig;
use fogbank_store::{MemoryStore, Store};
use rand_core::Rng;

use super::{SceneError, Shape};

/// What outlasts a run: the cloud, and the trusted side's register.
#[derive(Default)]
pub(super) struct TestStore {
    pub store: Arc<MemoryStore>,
    register: Arc<MemoryRegister>,
}

/// From one full checkpoint to the next.
const FULL_EVERY: u64 = 4;

impl TestStore {
    /// Opens the store, whatever became of it; creates it with `config` if there is none.
    /// `first` is the randomness of the first opening, `random` that of this one.
    pub async fn open(
        &self,
        store: Arc<dyn Store>,
        (settings, config): (VaultSettings, Vec<u8>),
        (first, random): (&Randomness, &Randomness),
    ) -> Result<(Vault, Recovered), SceneError> {
        let master = master_key(first);
        let opening = Opening {
            store,
            register: self.register.clone(),
            master: &master,
            random,
            settings,
            accept_rollback_risk: false,
        };
        if Vault::claimed_config(&*self.store).await?.is_some() {
            return Ok(opening.recover().await?);
        }
        let vault = opening.create(config).await?;
        Ok((vault, Recovered::default()))
    }
}

/// The sizes of the objects around the tree.
pub(super) fn vault_sizes(shape: &Shape) -> Result<VaultConfig, SceneError> {
    let (settings, batch) = (shape.ring_settings(), &shape.batch);
    let of_engine = fogbank_oram::ring::checkpoint_lengths(&settings.geometry()?);
    let budget = shape.proxy_settings().key_budget_bytes;
    let of_proxy = fogbank_txn::checkpoint_lengths(batch, budget);
    let full = shape.pieces().checkpoint(of_engine.into_iter().chain(of_proxy));
    let of_engine = fogbank_oram::ring::delta_lengths(&settings)?;
    let of_proxy = fogbank_txn::delta_length(batch);
    let delta = shape.pieces().delta(of_engine.into_iter().chain([of_proxy]));
    let config_bytes = shape.public(None)?.encode().len();
    Ok(vault_settings(shape).public(config_bytes, full, delta))
}

pub(super) fn vault_settings(shape: &Shape) -> VaultSettings {
    let record_bytes = fogbank_oram::ring::record_bytes(shape.batch.read_batch);
    let pieces = shape.pieces();
    VaultSettings {
        record_bytes,
        record_parts_max: 1,
        records_at_once: 1,
        full_every: FULL_EVERY,
        pieces,
        journal_is_near: false,
    }
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
