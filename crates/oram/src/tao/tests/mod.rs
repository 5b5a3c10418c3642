//! The engine under an adversary who schedules every message, and one who stops it anywhere.

mod crashes;
mod data;
mod deletions;
mod rules;
mod scheduler;

use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::{MemoryRegister, Opening, Recovered, Vault};
use fogbank_env::{Mutex, Purpose, Randomness, Stream, SystemClock};
use fogbank_seal::MasterKey;
use fogbank_store::{DepartureGrid, Fault, Faulty, GridStore, MemoryStore, Store};
use rand_core::Rng;

use super::{Parts, TaoEngine, TaoSettings};
use crate::{Access, Address, ImmediateEngine, ImmediateShape, Result, Ticket};

pub const BLOCK_BYTES: usize = 32;

/// A small store that writes back and checkpoints often.
pub fn settings(capacity: u32) -> TaoSettings {
    let shape = ImmediateShape { capacity, value_bytes: BLOCK_BYTES };
    TaoSettings { write_back_every: 5, ..TaoSettings::new(shape) }
}

/// Both sides of one store, which outlive the engines.
#[derive(Default, Clone)]
pub struct World {
    pub cloud: Arc<MemoryStore>,
    pub register: Arc<MemoryRegister>,
    openings: Arc<Mutex<u64>>,
}

impl World {
    pub async fn open(&self, store: Arc<dyn Store>, settings: TaoSettings) -> Result<TaoEngine> {
        let random = {
            let mut openings = self.openings.lock();
            *openings += 1;
            Randomness::repeatable(*openings)
        };
        let grid = DepartureGrid::new(Arc::new(SystemClock::new()), settings.shell.quantum);
        let paced: Arc<dyn Store> = Arc::new(GridStore::new(store.clone(), grid.clone()));
        let (vault, recovered) = self.vault(&paced, &random, &settings).await?;
        let parts = Parts { store, vault, recovered, random: &random, grid, progress: &|_, _| {} };
        TaoEngine::open(settings, parts).await
    }

    /// The cloud, gone after so many calls.
    pub fn dying(&self, last: u64, fault: Fault) -> Arc<dyn Store> {
        Arc::new(Faulty::dying(self.cloud.clone(), last, fault))
    }

    async fn vault(
        &self,
        store: &Arc<dyn Store>,
        random: &Randomness,
        settings: &TaoSettings,
    ) -> Result<(Vault, Recovered)> {
        let exists = Vault::claimed_config(&**store).await?.is_some();
        let opening = Opening {
            store: store.clone(),
            register: self.register.clone(),
            master: &MasterKey::from_bytes(&mut [7; 32]),
            random,
            settings: settings.vault(),
            accept_rollback_risk: false,
        };
        Ok(match exists {
            true => opening.recover().await?,
            false => (opening.create(b"config".to_vec()).await?, Recovered::default()),
        })
    }
}

/// The blocks as they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model(pub Vec<[u8; BLOCK_BYTES]>);

impl Model {
    pub fn new(capacity: u32) -> Self {
        Self(vec![[0; BLOCK_BYTES]; capacity as usize])
    }

    /// What `access` to `address` gives.
    pub fn apply(&mut self, address: Address, access: &Access) -> [u8; BLOCK_BYTES] {
        let block = &mut self.0[address.0 as usize];
        if let Access::Write { offset, bytes } = access {
            block[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        *block
    }
}

/// Random accesses, half of them to a few hot blocks.
pub struct Workload {
    stream: Stream,
    capacity: u32,
}

impl Workload {
    pub fn new(seed: u64, capacity: u32) -> Self {
        Self { stream: Randomness::repeatable(seed).stream(Purpose::Workload), capacity }
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        self.stream.next_u32() % bound
    }

    pub fn next(&mut self) -> (Address, Access) {
        let hot = self.below(2) == 0;
        let address = Address(if hot { self.below(3) } else { self.below(self.capacity) });
        if self.below(2) == 0 {
            return (address, Access::Read);
        }
        let offset = self.below(BLOCK_BYTES as u32);
        let length = 1 + self.below(BLOCK_BYTES as u32 - offset);
        let bytes: Vec<u8> = (0..length).map(|_| self.stream.next_u32() as u8).collect();
        (address, Access::Write { offset, bytes: bytes.into() })
    }
}

/// Every block, read in turn.
pub async fn read_all(engine: &TaoEngine) -> Result<Model> {
    let capacity = engine.shape().capacity;
    let tickets: Vec<Ticket> =
        (0..capacity).map(|block| engine.submit(Address(block), Access::Read)).collect();
    let mut model = Model::new(capacity);
    for (ticket, block) in tickets.into_iter().zip(&mut model.0) {
        block.copy_from_slice(&ticket.await?);
    }
    Ok(model)
}

pub fn write(offset: u32, bytes: &'static [u8]) -> Access {
    Access::Write { offset, bytes: Bytes::from_static(bytes) }
}
