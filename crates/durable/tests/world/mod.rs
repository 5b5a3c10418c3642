//! Both sides of one store, a proxy that lives on it, and what it was promised.

#![allow(dead_code)] // each test uses its part

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fogbank_durable::{
    MemoryRegister, Opening, Piecing, Recovered, Register, Result, Section, Vault, VaultSettings,
};
use fogbank_env::{Mutex, Randomness};
use fogbank_seal::MasterKey;
use fogbank_store::{Call, Fault, Faulty, MemoryStore, Store};

/// Most containers have several.
pub const PIECES: Piecing = Piecing { bytes: 40, at_once: 3 };
pub const SETTINGS: VaultSettings = VaultSettings {
    record_bytes: 24,
    record_parts_max: 1,
    records_at_once: 1,
    full_every: 2,
    pieces: PIECES,
    journal_is_near: false,
};
pub const CONFIG: &[u8] = b"config";
const DELTA: u16 = 1;
const FULL: u16 = 2;

/// Of blobs in the order of their names: what each is, pieces of one container counted as one.
pub fn kinds(names: &[String]) -> Vec<&str> {
    let container = |name: &&String| name.rsplit_once('/').map_or("", |(of, _)| of).to_owned();
    let mut firsts: Vec<&String> = names.iter().collect();
    firsts.dedup_by_key(|name| container(&&**name));
    firsts.into_iter().map(|name| name.split('/').next().unwrap()).collect()
}

pub fn master() -> MasterKey {
    MasterKey::from_bytes(&mut [7; 32])
}

/// Both sides of one store, which outlive the proxies.
#[derive(Clone)]
pub struct World {
    pub cloud: Arc<MemoryStore>,
    pub register: Arc<MemoryRegister>,
    pub openings: Arc<Mutex<u64>>,
    /// Whether its proxies cut, and so have records of up to three parts.
    pub cuts: bool,
    /// How many of their journal records may be under way at once.
    pub at_once: u32,
    /// Whether containers have one piece.
    pub whole: bool,
    /// Whether nothing of the journal is kept in memory at opening.
    pub near: bool,
    /// Lengths of all blobs put, by kind.
    pub lengths: Arc<Mutex<BTreeMap<String, BTreeSet<usize>>>>,
}

impl Default for World {
    fn default() -> Self {
        let (cloud, register, lengths) = Default::default();
        let openings = Arc::default();
        let (cuts, at_once, whole, near) = (false, 1, false, false);
        Self { cloud, register, openings, cuts, at_once, whole, near, lengths }
    }
}

impl World {
    /// The cloud as a proxy sees it that dies at its call number `dies` by `fault`.
    pub fn dying(&self, dies: u64, fault: Fault) -> Arc<Faulty<Arc<MemoryStore>>> {
        let faulty = Faulty::new(self.cloud.clone());
        let lengths = self.lengths.clone();
        faulty.on_call(move |call, number| {
            if let Call::BlobPut(name, data, _) = call {
                let kind = name.split('/').next().unwrap().to_owned();
                lengths.lock().entry(kind).or_default().insert(data.len());
            }
            fault.ends_a_life(dies, number)
        });
        Arc::new(faulty)
    }

    /// The cloud as it is.
    pub fn healthy(&self) -> Arc<Faulty<Arc<MemoryStore>>> {
        self.dying(u64::MAX, Fault::Down)
    }

    fn random(&self) -> Randomness {
        let mut openings = self.openings.lock();
        *openings += 1;
        Randomness::repeatable(*openings)
    }

    /// Opens the store, making it if there is none.
    pub async fn open(&self, store: Arc<dyn Store>) -> Result<(Vault, Recovered)> {
        self.open_with(store, self.register.clone()).await
    }

    pub async fn open_with(
        &self,
        store: Arc<dyn Store>,
        register: Arc<dyn Register>,
    ) -> Result<(Vault, Recovered)> {
        let exists = Vault::claimed_config(&*store).await?.is_some();
        let random = self.random();
        let opening = Opening {
            store,
            register,
            master: &master(),
            random: &random,
            settings: VaultSettings {
                record_parts_max: if self.cuts { 3 } else { 1 },
                records_at_once: self.at_once,
                pieces: if self.whole { Piecing::usual(1) } else { PIECES },
                journal_is_near: self.near,
                ..SETTINGS
            },
            accept_rollback_risk: false,
        };
        if !exists {
            return Ok((opening.create(CONFIG.to_vec()).await?, Recovered::default()));
        }
        let (vault, mut recovered) = opening.recover().await?;
        if self.near {
            assert_eq!(recovered.journal, Vec::<Vec<u8>>::new());
            let mut journal = vault.journalled();
            while let Some(record) = journal.next().await? {
                recovered.journal.push(record);
            }
        }
        assert_eq!(recovered.journal.len() as u64, recovered.records);
        Ok((vault, recovered))
    }

    pub async fn names(&self) -> Vec<String> {
        self.cloud.blob_list("").await.unwrap()
    }
}

/// What a client of the store may expect: epochs by number, journal records by their bytes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Promised {
    pub epochs: Vec<u64>,
    pub journal: Vec<Vec<u8>>,
    /// Under way: an epoch that may have been committed, or a record that may have been written.
    pub epoch_under_way: Option<u64>,
    pub record_under_way: Option<Vec<u8>>,
}

pub fn delta(epoch: u64) -> Vec<Section> {
    vec![Section { tag: DELTA, padded_len: 40, data: epoch.to_le_bytes().to_vec() }]
}

pub fn full(epochs: &[u64]) -> Vec<Section> {
    let data = epochs.iter().flat_map(|epoch| epoch.to_le_bytes()).collect();
    vec![Section { tag: FULL, padded_len: 400, data }]
}

/// The epochs that a recovered store holds, in order.
pub fn epochs_of(recovered: &Recovered) -> Vec<u64> {
    let sections = recovered.full.iter().chain(recovered.deltas.iter().flatten());
    let numbers = sections.flat_map(|section| section.data.chunks_exact(8));
    numbers.map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

impl Promised {
    /// Holds what was recovered against what was promised; afterwards nothing is under way.
    pub fn check(&mut self, recovered: &Recovered) {
        let epochs = epochs_of(recovered);
        let mut later = self.epochs.clone();
        later.extend(self.epoch_under_way);
        if epochs == later && self.epoch_under_way.is_some() {
            assert_eq!(recovered.journal, Vec::<Vec<u8>>::new(), "the epoch began anew");
        } else {
            assert_eq!(epochs, self.epochs);
            let mut longer = self.journal.clone();
            longer.extend(self.record_under_way.clone());
            let complete = recovered.journal == self.journal || recovered.journal == longer;
            assert!(complete, "{:?} of {self:?}", recovered.journal);
        }
        let journal = recovered.journal.clone();
        *self = Self { epochs, journal, ..Self::default() };
    }

    pub async fn append(&mut self, vault: &mut Vault, record: Vec<u8>) -> Result<()> {
        self.record_under_way = Some(record.clone());
        vault.append(&record).await?;
        self.journal.extend(self.record_under_way.take());
        Ok(())
    }

    pub async fn commit(&mut self, vault: &mut Vault, epoch: u64) -> Result<()> {
        self.epoch_under_way = Some(epoch);
        let mut later = self.epochs.clone();
        later.push(epoch);
        let full = vault.full_is_due().then(|| full(&later));
        vault.commit_epoch(&delta(epoch), full.map(Section::each)).await?;
        *self = Self { epochs: later, ..Self::default() };
        Ok(())
    }

    /// Opens the store and holds what it has against what was promised.
    pub async fn open(&mut self, world: &World, store: Arc<dyn Store>) -> Result<Vault> {
        let (vault, recovered) = world.open(store).await?;
        self.check(&recovered);
        Ok(vault)
    }

    /// A proxy's whole life: opens, runs `epochs` epochs of two or three batches, closes.
    pub async fn live(&mut self, world: &World, store: Arc<dyn Store>, epochs: u64) -> Result<()> {
        self.live_with(world, store, world.register.clone(), epochs).await
    }

    /// The same, with another way to the register.
    pub async fn live_with(
        &mut self,
        world: &World,
        store: Arc<dyn Store>,
        register: Arc<dyn Register>,
        epochs: u64,
    ) -> Result<()> {
        let (mut vault, recovered) = world.open_with(store, register).await?;
        self.check(&recovered);
        let first = 1 + self.epochs.last().copied().unwrap_or(0);
        for epoch in first..first + epochs {
            for batch in 0..2 + epoch % 2 {
                let record = format!("{epoch} {batch} {}", vault.openings());
                self.append(&mut vault, record.into()).await?;
            }
            self.commit(&mut vault, epoch).await?;
            vault.collect().await?;
        }
        self.epoch_under_way = Some(0);
        let mut later = self.epochs.clone();
        later.push(0);
        vault.close(Section::each(full(&later))).await?;
        *self = Self { epochs: later, ..Self::default() };
        Ok(())
    }
}
