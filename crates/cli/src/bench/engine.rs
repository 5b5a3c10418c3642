//! `fogbank bench engine`: epochs of distinct uniform real keys through the engine alone.
//!
//! 1. Load: every address is written once, in write batches.
//! 2. Warm-up: epochs until the tree is in its steady state (every path evicted at least once).
//! 3. Measure: for the given seconds, R read batches of distinct real addresses and one write batch
//!    an epoch; every value read is compared with what was last written.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::{MemoryRegister, Vault};
use fogbank_env::{Clock, Purpose, Randomness, Stream, SystemClock};
use fogbank_oram::ring::{RingEngine, Stats};
use fogbank_oram::{Address, BatchEngine};
use fogbank_seal::MasterKey;
use fogbank_store::Store;
use rand_core::Rng;
use serde_json::json;

use super::{bound, raw};
use fogbank::apart::check_apart;
use fogbank::args::{BenchEngineArgs, Engine};
use fogbank::config::StoreConfig;
use fogbank::recording::Recording;
use fogbank::{Error, Result, open_store};

/// Epochs whose calls are made again on the bare disk.
const RAW_EPOCHS: u32 = 20;

/// Writes of a batch of the load.
const LOAD_BATCH: usize = 500;

/// Runs the benchmark and prints its figures.
///
/// # Errors
/// [`Error::CheckFailed`] if a value read is not the one written.
pub async fn run(mut args: BenchEngineArgs) -> Result<()> {
    let Engine::Ring = args.engine;
    check_apart("--record", args.record.as_deref(), &args.store)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    default_shape(&mut args);
    let bare = open_store(&args.store, &clock).await?;
    let config = StoreConfig::derive(&args.shape, bare.xor().is_some())?;
    let (store, recording) = Recording::start(args.record.as_deref(), bare, &config, &clock)?;
    let witness = Arc::new(raw::Witness::new(store));
    let store: Arc<dyn Store> = witness.clone();
    let randomness = Randomness::repeatable(args.seed);
    let register = Arc::new(MemoryRegister::default());
    let master = MasterKey::from_bytes(&mut [7; 32]);
    let vault =
        Vault::create(store.clone(), register, &master, config.encode(), &randomness).await?;
    let mut settings = config.ring_settings();
    settings.epoch_buffer = !args.no_epoch_buffer;
    // The load needs write batches even where the epochs measured have none.
    settings.shape.write_batch = config.write_batch.max(LOAD_BATCH);
    let engine = RingEngine::create(store, vault.keys(), settings, &randomness).await?;
    let mut driver = Driver::new(engine, &config, &randomness);
    eprintln!("loading {} records", config.capacity);
    driver.load().await?;
    driver.warm_up().await?;
    eprintln!("measuring for {} s", args.seconds);
    let mut measured = driver.measure(&clock, args.seconds).await?;
    if !args.store.starts_with("memory:") && !config.xor {
        measured.raw_s = Some(driver.raw_seconds_per_epoch(&witness, &clock).await?);
    }
    if let Some(recording) = recording {
        recording.finish()?;
    }
    report(&args, &config, &clock, &measured);
    Ok(())
}

fn default_shape(args: &mut BenchEngineArgs) {
    let shape = &mut args.shape;
    shape.capacity.get_or_insert(100_000);
    shape.value_size.get_or_insert(bytesize::ByteSize::kib(1));
    shape.read_batches.get_or_insert(8);
    shape.batch.get_or_insert(500);
    shape.write_batch.get_or_insert(500);
    shape.interval_ms.get_or_insert(0);
    shape.cache.get_or_insert(bytesize::ByteSize::b(0));
}

/// What was measured.
struct Measured {
    epochs: u64,
    wall_s: f64,
    stats: Stats,
    /// Seconds an epoch's calls take on the same disk without the engine.
    raw_s: Option<f64>,
}

/// Drives the engine and knows what it must return.
struct Driver {
    engine: RingEngine,
    read_batches: usize,
    writes: usize,
    generation: Vec<u32>, // how often each address was written
    keys: Vec<u32>,       // all addresses; a random prefix is this epoch's
    stream: Stream,
}

impl Driver {
    fn new(engine: RingEngine, config: &StoreConfig, randomness: &Randomness) -> Self {
        Self {
            engine,
            read_batches: config.read_batches,
            writes: config.write_batch,
            generation: vec![0; config.capacity as usize],
            keys: (0..config.capacity).collect(),
            stream: randomness.stream(Purpose::Workload),
        }
    }

    /// Writes every address once.
    async fn load(&mut self) -> Result<()> {
        let batch = self.engine.shape().write_batch;
        for first in (0..self.generation.len()).step_by(batch) {
            let last = (first + batch).min(self.generation.len());
            let writes = (first as u32..last as u32).map(|key| self.next_value(key)).collect();
            self.engine.write_batch(writes).await?;
            self.engine.commit().await?;
        }
        Ok(())
    }

    /// Epochs until every bucket of the tree has been rewritten twice.
    async fn warm_up(&mut self) -> Result<()> {
        let leaves = 1_u64 << self.engine.geometry().leaf_level();
        let start = self.engine.stats().evictions;
        while self.engine.stats().evictions - start < leaves {
            self.epoch().await?;
        }
        Ok(())
    }

    async fn measure(&mut self, clock: &Arc<dyn Clock>, seconds: f64) -> Result<Measured> {
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

    /// Lets some epochs be watched and makes their calls again without the engine.
    async fn raw_seconds_per_epoch(
        &mut self,
        witness: &raw::Witness<Arc<dyn Store>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<f64> {
        witness.watch();
        for _ in 0..RAW_EPOCHS {
            self.epoch().await?;
        }
        raw::seconds_per_epoch(witness, clock, self.engine.geometry().array_shape()).await
    }

    async fn epoch(&mut self) -> Result<()> {
        let shape = self.engine.shape();
        let reads = self.read_batches * shape.read_batch;
        self.shuffle_prefix(reads.max(self.writes));
        for batch in 0..self.read_batches {
            let keys = self.keys.iter().skip(batch * shape.read_batch).take(shape.read_batch);
            let addresses: Vec<Address> = keys.map(|key| Address(*key)).collect();
            let values = self.engine.read_batch(&addresses).await?;
            self.check(&addresses, &values)?;
        }
        if self.writes > 0 {
            let keys: Vec<u32> = self.keys.iter().copied().take(self.writes).collect();
            let writes = keys.into_iter().map(|key| self.next_value(key)).collect();
            self.engine.write_batch(writes).await?;
        }
        self.engine.commit().await?;
        Ok(())
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

fn report(args: &BenchEngineArgs, config: &StoreConfig, clock: &Arc<dyn Clock>, m: &Measured) {
    let cell_bytes = fogbank_oram::geometry::cell_bytes(config.value_size);
    let moved = bound::Moved {
        opened: (m.stats.cells_received / m.epochs) as usize,
        sealed: (m.stats.cells_written / m.epochs) as usize,
        cell_bytes,
    };
    let bound_s = bound::seconds(clock, moved, 7);
    let epoch_s = m.wall_s / m.epochs as f64;
    let figures = json!({
        "accesses_per_s": m.stats.accesses as f64 / m.wall_s,
        "cells_per_access": m.stats.cells_per_access(),
        "cell_bytes_per_access": m.stats.cell_bytes_per_access(),
        // There is no journal yet, and a checkpoint only at the close: cells are all that moves.
        "bytes_per_access": m.stats.cell_bytes_per_access(),
        "bound_ratio": bound_s / epoch_s,
        "dummy_share": m.stats.dummy_share(),
        "stash_max": m.stats.secret.stash_max,
        "epochs": m.epochs,
        "epoch_ms": epoch_s * 1e3,
        "bound_ms": bound_s * 1e3,
        "raw_epoch_ms": m.raw_s.map(|s| s * 1e3),
        "raw_ratio": m.raw_s.map(|s| s / epoch_s),
    });
    println!("accesses/s        {:>12.0}", m.stats.accesses as f64 / m.wall_s);
    println!("cells/access      {:>12.2}", m.stats.cells_per_access());
    println!("epoch             {:>12.2} ms", epoch_s * 1e3);
    println!("bound             {:>12.2} ms (AEAD of the same cells and one copy)", bound_s * 1e3);
    println!("bound ratio       {:>12.3}", bound_s / epoch_s);
    if let Some(raw_s) = m.raw_s {
        println!("same calls, bare  {:>12.2} ms an epoch", raw_s * 1e3);
        println!("ratio to that     {:>12.3}", raw_s / epoch_s);
    }
    if args.json {
        println!("{figures}");
    }
}
