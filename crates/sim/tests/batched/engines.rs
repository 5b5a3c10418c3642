//! The batched engines in their stores: each way of `ring` that reads or writes otherwise.

use std::cell::Cell;
use std::sync::Arc;

use fogbank_durable::{MemoryRegister, Opening, Piecing, Recovered, Vault, VaultSettings};
use fogbank_env::Randomness;
use fogbank_oram::ring::{RingEngine, RingSettings, record_bytes};
use fogbank_oram::{BatchShape, Error, RecoverableEngine, batch};
use fogbank_seal::MasterKey;
use fogbank_store::{MemoryStore, Store};
use fogbank_txn::SharedVault;

/// Read batches of an epoch.
pub const READ_BATCHES: usize = 2;

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ring,
    /// The top of the tree stays in the proxy.
    RingWithTop,
    /// What the write batch needs is read with the last read batch.
    RingAhead,
    /// The cloud XORs the cells of a path.
    RingXor,
}

/// Every batched engine.
pub const KINDS: [Kind; 4] = [Kind::Ring, Kind::RingWithTop, Kind::RingAhead, Kind::RingXor];

/// Both sides of one store, which outlive the engines.
pub struct World {
    pub kind: Kind,
    pub shape: BatchShape,
    pub cloud: Arc<MemoryStore>,
    register: Arc<MemoryRegister>,
    openings: Cell<u64>,
}

/// An engine in a store that is open.
pub struct Open {
    pub engine: Box<dyn RecoverableEngine>,
    vault: SharedVault,
    /// Batches that were read again.
    pub repeated: usize,
}

impl World {
    pub fn new(kind: Kind, shape: BatchShape) -> Self {
        let (cloud, register) = (Arc::default(), Arc::default());
        Self { kind, shape, cloud, register, openings: Cell::new(0) }
    }

    /// Opens what is there, or creates it, and completes the epoch that was open with dummies.
    pub async fn open(&self, store: Arc<dyn Store>) -> Result<Open, Error> {
        self.openings.set(self.openings.get() + 1);
        let random = Randomness::repeatable(self.openings.get());
        let (vault, recovered) = self.vault(&store, &random).await?;
        let (keys, vault) = (vault.keys(), SharedVault::new(vault));
        let mut engine = self.engine(store, keys, &random, &recovered).await?;
        let open_epoch = batch::recover(&mut *engine, &recovered, &|_, _| {}).await?;
        engine.set_journal(Box::new(vault.clone()));
        let mut open = Open { engine, vault, repeated: recovered.journal.len() };
        if let Some(epoch) = open_epoch {
            if !epoch.written {
                for _ in epoch.reads..READ_BATCHES {
                    open.engine.read_batch(&[]).await?;
                }
                open.engine.write_batch(Vec::new()).await?;
            }
            open.commit().await?;
        }
        open.engine.sweep().await?;
        Ok(open)
    }

    async fn engine(
        &self,
        store: Arc<dyn Store>,
        keys: Arc<fogbank_seal::KeyRing>,
        random: &Randomness,
        recovered: &Recovered,
    ) -> Result<Box<dyn RecoverableEngine>, Error> {
        let usual = RingSettings::new(self.shape, READ_BATCHES);
        let settings = RingSettings {
            log_epochs: true,
            keep_superseded: true,
            cache_bytes: if self.kind == Kind::RingWithTop { 1 << 10 } else { 0 },
            prefetch: self.kind == Kind::RingAhead,
            xor: self.kind == Kind::RingXor,
            ..usual
        };
        Ok(Box::new(RingEngine::open(store, keys, settings, random, &recovered.full).await?))
    }

    async fn vault(
        &self,
        store: &Arc<dyn Store>,
        random: &Randomness,
    ) -> Result<(Vault, Recovered), Error> {
        let exists = Vault::claimed_config(&**store).await?.is_some();
        let opening = Opening {
            store: store.clone(),
            register: self.register.clone(),
            master: &MasterKey::from_bytes(&mut [7; 32]),
            random,
            settings: VaultSettings {
                record_bytes: record_bytes(self.shape.read_batch),
                record_parts_max: 1,
                records_at_once: 1,
                full_every: 3,
                pieces: Piecing::usual(1),
                journal_is_near: false,
            },
            accept_rollback_risk: false,
        };
        Ok(match exists {
            true => opening.recover().await?,
            false => (opening.create(b"config".to_vec()).await?, Recovered::default()),
        })
    }
}

impl Open {
    /// Ends the epoch. It counts when this has returned.
    pub async fn commit(&mut self) -> Result<(), Error> {
        let delta = self.engine.commit().await?;
        let full = match self.vault.full_is_due().await? {
            true => Some(self.engine.save()?),
            false => None,
        };
        self.vault.commit(&delta, full).await?;
        self.engine.collect().await?;
        self.vault.collect().await
    }

    pub async fn close(mut self) -> Result<(), Error> {
        Ok(self.vault.close(self.engine.save()?).await?)
    }
}
