//! A new store that is filled before it serves anybody: what a restore and a load do.
//!
//! 1. A marker on the trusted side says that what is there is not whole yet.
//! 2. The store is created; blocks are written in epochs of [`LOAD_BATCH`] slots, as many epochs as a
//!    full store needs, whatever there is.
//! 3. Engine and directory become the first checkpoint, the store is closed, the marker goes.
//!
//! What the cloud sees: a store that is created and filled by a number of epochs that follows from its
//! capacity. A store that was not filled to the end is not opened later.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::{Opening, Section, Vault};
use fogbank_env::Purpose;
use fogbank_oram::ring::RingEngine;
use fogbank_oram::{Address, BatchEngine};
use fogbank_store::{Paced, Store};

use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::open::{Ground, OpenOptions};
use crate::registers::RegisterPlace;

/// Write slots of an epoch while a store is filled.
const LOAD_BATCH: usize = 500;
/// The file on the trusted side that says that a store was not filled to the end.
pub(crate) const MARKER: &str = "restoring";

/// How many of how many: what a long command tells while it runs.
pub type Progress<'a> = dyn FnMut(u32, u32) + Send + 'a;

/// A store that is being filled.
pub(crate) struct Fill<'a, 'p> {
    ground: Ground,
    vault: Vault,
    engine: RingEngine,
    waiting: Vec<(Address, Option<Bytes>)>,
    done: u32,
    epochs: u32,
    progress: &'a mut Progress<'p>,
}

impl<'a, 'p> Fill<'a, 'p> {
    /// Makes a store of this configuration where there is none.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is one.
    pub async fn begin(
        options: OpenOptions,
        config: &StoreConfig,
        progress: &'a mut Progress<'p>,
    ) -> Result<Self> {
        let ground = options.ground_for_filling().await?;
        let quantum = config.departure_quantum();
        let paced = Paced::new(ground.store.clone(), ground.clock.clone(), quantum);
        let store: Arc<dyn Store> = Arc::new(paced);
        let randomness = options.randomness()?;
        let mut stream = randomness.stream(Purpose::MasterKey);
        let master = fogbank_seal::load_or_create(&ground.trusted.join("key"), &mut stream, true)
            .map_err(|e| Error::CannotUse(e.to_string()))?;
        let kept = RegisterPlace::of(options.place())?;
        let register = kept.register(&master, &randomness, &ground.clock)?;
        kept.note(&*register, true).await?;
        let opening = Opening {
            store: store.clone(),
            register,
            master: &master,
            random: &randomness,
            settings: config.vault_settings()?,
            accept_rollback_risk: false,
        };
        let vault = opening.create(config.encode()).await?;
        let mut settings = config.ring_settings();
        settings.shape.write_batch = LOAD_BATCH;
        (settings.log_epochs, settings.keep_superseded) = (false, false);
        let engine = RingEngine::create(store, vault.keys(), settings, &randomness).await?;
        let epochs = config.capacity.div_ceil(LOAD_BATCH as u32);
        Ok(Self { ground, vault, engine, waiting: Vec::new(), done: 0, epochs, progress })
    }

    /// Takes in blocks, each address once.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn write(
        &mut self,
        blocks: impl IntoIterator<Item = (Address, Bytes)>,
    ) -> Result<()> {
        for (address, value) in blocks {
            self.waiting.push((address, Some(value)));
            if self.waiting.len() == LOAD_BATCH {
                self.epoch().await?;
            }
        }
        Ok(())
    }

    /// The epochs that are left, whether there is anything to write or not; then the checkpoint, with
    /// the `directory`.
    ///
    /// # Errors
    /// Those of the engine and of the vault.
    pub async fn finish(mut self, directory: impl Iterator<Item = Section> + Send) -> Result<()> {
        while self.done < self.epochs || !self.waiting.is_empty() {
            self.epoch().await?;
        }
        let full = self.engine.save()?.chain(directory.map(Ok));
        self.vault.close(Box::new(full)).await?;
        self.ground.is_whole()
    }

    async fn epoch(&mut self) -> Result<()> {
        self.engine.write_batch(std::mem::take(&mut self.waiting)).await?;
        self.engine.commit().await?;
        self.done += 1;
        (self.progress)(self.done, self.epochs);
        Ok(())
    }
}
