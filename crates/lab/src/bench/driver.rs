//! Epochs of distinct uniform real keys through an engine, every value read compared with what was
//! last written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_env::{Clock, Nanos, Purpose, Randomness, Stream};
use fogbank_oram::ring::{RingEngine, Stats};
use fogbank_oram::{Address, BatchEngine};
use fogbank_store::Store;
use rand_core::Rng;

use super::durable::Durable;
use super::raw;
use crate::args::ShapeArgs;
use fogbank::config::StoreConfig;
use fogbank::{Error, Result};

/// Epochs whose calls are made again on the bare disk.
const RAW_EPOCHS: u32 = 20;

/// Writes of a batch of the load.
pub const LOAD_BATCH: usize = 500;

/// The shape of the paper's epochs where nothing else is asked for.
pub fn default_shape(shape: &mut ShapeArgs) {
    *shape = std::mem::take(shape).spelled_out();
    shape.capacity.get_or_insert(100_000);
    shape.value_size.get_or_insert(bytesize::ByteSize::kib(1));
    shape.read_batches.get_or_insert(8);
    shape.batch.get_or_insert(500);
    shape.write_batch.get_or_insert(500);
    shape.interval_ms.get_or_insert(0);
    shape.cache.get_or_insert(bytesize::ByteSize::b(0));
}

/// What was measured.
pub struct Measured {
    /// Epochs run.
    pub epochs: u64,
    /// Seconds they took.
    pub wall_s: f64,
    /// What they did.
    pub stats: Stats,
    /// Seconds an epoch's calls take on the same disk without the engine.
    pub raw_s: Option<f64>,
}

/// Drives the engine and knows what it must return.
pub struct Driver {
    engine: RingEngine,
    durable: Option<Durable>,
    clock: Arc<dyn Clock>,
    /// Batches begin at multiples of this; at once if it is 0.
    interval: Nanos,
    read_batches: usize,
    in_flight: usize,
    writes: usize,
    generation: Vec<u32>, // how often each address was written
    keys: Vec<u32>,       // all addresses; a random prefix is this epoch's
    stream: Stream,
}

impl Driver {
    /// A driver of `engine`, whose store is empty; with `durable`, every epoch is committed there.
    pub fn new(
        engine: RingEngine,
        durable: Option<Durable>,
        config: &StoreConfig,
        (clock, randomness): (&Arc<dyn Clock>, &Randomness),
    ) -> Self {
        Self {
            engine,
            durable,
            clock: clock.clone(),
            interval: 0,
            read_batches: config.read_batches,
            in_flight: config.in_flight,
            writes: config.write_batch,
            generation: vec![0; config.capacity as usize],
            keys: (0..config.capacity).collect(),
            stream: randomness.stream(Purpose::Workload),
        }
    }

    /// From now on batches begin at points of a grid of this `interval`.
    pub fn pace(&mut self, interval: Duration) {
        self.interval = interval.as_nanos() as Nanos;
    }

    async fn wait_for_point(&self) {
        if self.interval > 0 {
            let point = self.clock.now().next_multiple_of(self.interval);
            self.clock.arrive_at(point).await;
        }
    }

    /// Writes every address once.
    pub async fn load(&mut self) -> Result<()> {
        let batch = self.engine.shape().write_batch;
        for first in (0..self.generation.len()).step_by(batch) {
            let last = (first + batch).min(self.generation.len());
            let writes = (first as u32..last as u32).map(|key| self.next_value(key)).collect();
            self.engine.write_batch(writes).await?;
            self.commit().await?;
        }
        Ok(())
    }

    /// Epochs until every bucket of the tree has been rewritten twice.
    pub async fn warm_up(&mut self) -> Result<()> {
        let leaves = 1_u64 << self.engine.geometry().leaf_level();
        let start = self.engine.stats().evictions;
        while self.engine.stats().evictions - start < leaves {
            self.epoch().await?;
        }
        Ok(())
    }

    /// Epochs for so many seconds.
    pub async fn measure(&mut self, seconds: f64) -> Result<Measured> {
        let clock = self.clock.clone();
        let before = self.engine.stats();
        let (started, mut epochs) = (clock.now(), 0);
        loop {
            self.epoch().await?;
            epochs += 1;
            let wall_s = (clock.now() - started) as f64 / 1e9;
            if wall_s >= seconds {
                let stats = since(&before, &self.engine.stats());
                return Ok(Measured { epochs, wall_s, stats, raw_s: None });
            }
        }
    }

    /// So many epochs.
    pub async fn measure_epochs(&mut self, epochs: u64) -> Result<Measured> {
        let before = self.engine.stats();
        let started = self.clock.now();
        for _ in 0..epochs {
            self.epoch().await?;
        }
        let wall_s = (self.clock.now() - started) as f64 / 1e9;
        let stats = since(&before, &self.engine.stats());
        Ok(Measured { epochs, wall_s, stats, raw_s: None })
    }

    /// Lets some epochs be watched and makes their calls again without the engine.
    pub async fn raw_seconds_per_epoch(
        &mut self,
        witness: &raw::Witness<Arc<dyn Store>>,
    ) -> Result<f64> {
        witness.watch();
        for _ in 0..RAW_EPOCHS {
            self.epoch().await?;
        }
        raw::seconds_per_epoch(witness, &self.clock, self.engine.geometry().array_shape()).await
    }

    async fn epoch(&mut self) -> Result<()> {
        let shape = self.engine.shape();
        let reads = self.read_batches * shape.read_batch;
        self.shuffle_prefix(reads.max(self.writes));
        let mut under_way = VecDeque::new();
        for batch in 0..self.read_batches {
            while under_way.len() >= self.in_flight {
                self.finish_read(&mut under_way).await?;
            }
            let keys = self.keys.iter().skip(batch * shape.read_batch).take(shape.read_batch);
            let addresses: Vec<Address> = keys.map(|key| Address(*key)).collect();
            self.wait_for_point().await;
            if self.in_flight == 1 {
                let values = self.engine.read_batch(&addresses).await?;
                self.check(&addresses, &values)?;
                continue;
            }
            self.engine.start_read(&addresses).await?;
            under_way.push_back(addresses);
        }
        while !under_way.is_empty() {
            self.finish_read(&mut under_way).await?;
        }
        if self.writes > 0 {
            let keys: Vec<u32> = self.keys.iter().copied().take(self.writes).collect();
            let writes = keys.into_iter().map(|key| self.next_value(key)).collect();
            self.wait_for_point().await;
            self.engine.write_batch(writes).await?;
        }
        self.commit().await
    }

    async fn finish_read(&mut self, under_way: &mut VecDeque<Vec<Address>>) -> Result<()> {
        let values = self.engine.finish_read().await?;
        self.check(&under_way.pop_front().unwrap_or_default(), &values)
    }

    async fn commit(&mut self) -> Result<()> {
        let delta = self.engine.commit().await?;
        match &self.durable {
            Some(durable) => durable.commit(&mut self.engine, delta).await,
            None => Ok(()),
        }
    }

    /// Puts distinct uniform addresses at the front of `keys`.
    fn shuffle_prefix(&mut self, count: usize) {
        for i in 0..count.min(self.keys.len()) {
            let left = (self.keys.len() - i) as u64;
            let pick = ((u128::from(self.stream.next_u64()) * u128::from(left)) >> 64) as usize;
            self.keys.swap(i, i + pick);
        }
    }

    fn next_value(&mut self, key: u32) -> (Address, Option<Bytes>) {
        let generation = &mut self.generation[key as usize];
        *generation += 1;
        let value = value(key, *generation, self.engine.shape().value_bytes);
        (Address(key), Some(value))
    }

    fn check(&self, addresses: &[Address], values: &[Option<Bytes>]) -> Result<()> {
        for (address, found) in addresses.iter().zip(values) {
            let generation = self.generation[address.0 as usize];
            let right = match found {
                None => generation == 0,
                Some(found) => holds(found, address.0, generation),
            };
            if !right {
                let reason =
                    format!("address {} returned something else than was written", address.0);
                return Err(Error::CheckFailed(reason));
            }
        }
        Ok(())
    }
}

fn pattern(key: u32, generation: u32) -> [u8; 8] {
    let mixed = (u64::from(key) << 32 | u64::from(generation)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed.to_le_bytes()
}

fn value(key: u32, generation: u32, length: usize) -> Bytes {
    let pattern = pattern(key, generation);
    pattern.iter().copied().cycle().take(length).collect::<Vec<u8>>().into()
}

fn holds(found: &[u8], key: u32, generation: u32) -> bool {
    let pattern = pattern(key, generation);
    found.chunks(8).all(|chunk| chunk == &pattern[..chunk.len()])
}

fn since(before: &Stats, after: &Stats) -> Stats {
    let mut stats = *after;
    stats.accesses -= before.accesses;
    stats.cells_received -= before.cells_received;
    stats.cells_written -= before.cells_written;
    stats.bytes_received -= before.bytes_received;
    stats.bytes_written -= before.bytes_written;
    stats.secret.real_accesses -= before.secret.real_accesses;
    stats
}
