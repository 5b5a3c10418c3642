//! What makes the epochs of a driven engine durable, as a proxy does it: the journal, a delta with
//! the directory's part at its public length, full checkpoints when they are due.

use std::sync::Arc;

use fogbank_durable::{Opening, Register, Section, VaultSettings};
use fogbank_env::Randomness;
use fogbank_oram::ring::RingEngine;
use fogbank_oram::{BatchEngine, RecoverableEngine};
use fogbank_seal::MasterKey;
use fogbank_store::Store;
use fogbank_txn::{FIRST_SECTION_TAG, SharedVault, checkpoint_lengths, delta_length};

use fogbank::config::StoreConfig;
use fogbank::{Error, Result};

/// A tag that no section of the engine has.
const DIRECTORY_DELTA: u16 = 0xC000;

/// A vault beside an engine that has no directory.
pub struct Durable {
    keeping: SharedVault,
    config: StoreConfig,
}

impl Durable {
    /// A new store, and the engine in it that journals there.
    ///
    /// # Errors
    /// Those of the vault and of the engine.
    pub async fn create(
        store: Arc<dyn Store>,
        register: Arc<dyn Register>,
        config: &StoreConfig,
        random: &Randomness,
    ) -> Result<(Self, RingEngine)> {
        let vault = config.vault_settings()?;
        Self::with_vault(store, register, (config, vault), random).await
    }

    /// The same with other settings of the vault than those that follow from the shape.
    ///
    /// # Errors
    /// Those of the vault and of the engine.
    pub async fn with_vault(
        store: Arc<dyn Store>,
        register: Arc<dyn Register>,
        (config, settings): (&StoreConfig, VaultSettings),
        random: &Randomness,
    ) -> Result<(Self, RingEngine)> {
        let opening = Opening {
            store: store.clone(),
            register,
            master: &MasterKey::from_bytes(&mut [7; 32]),
            random,
            settings,
            accept_rollback_risk: false,
        };
        let vault = opening.create(config.encode()).await?;
        let engine = RingEngine::create(store, vault.keys(), config.ring_settings(), random).await;
        let (mut engine, keeping) = (engine?, SharedVault::new(vault));
        engine.set_journal(Box::new(keeping.clone()));
        Ok((Self { keeping, config: config.clone() }, engine))
    }

    /// Commits the epoch that ended with `delta`.
    ///
    /// # Errors
    /// Those of the vault.
    pub async fn commit(&self, engine: &mut RingEngine, mut delta: Vec<Section>) -> Result<()> {
        let shape = engine.shape();
        let empty = |tag, padded_len| Section { tag, padded_len, data: vec![0; 8.min(padded_len)] };
        delta.push(empty(DIRECTORY_DELTA, delta_length(&shape)));
        let full = match self.keeping.full_is_due().await? {
            true => {
                let lengths = checkpoint_lengths(&shape, self.config.key_budget).into_iter();
                let pieces = lengths.zip(FIRST_SECTION_TAG..).map(|(l, tag)| Ok(empty(tag, l)));
                Some(Box::new(engine.save()?.chain(pieces)) as fogbank_oram::Sections<'_>)
            }
            false => None,
        };
        self.keeping.commit(&delta, full).await?;
        tokio::try_join!(biased; engine.collect(), self.keeping.collect())
            .map(drop)
            .map_err(Error::from)
    }
}
