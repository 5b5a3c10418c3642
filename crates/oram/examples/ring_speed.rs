//! How fast the ring engine runs against a store in memory, beside the bound of the machine: the
//! AEAD of the cells an epoch moves and one copy of each, on the same cores.
//!
//! `cargo run --release -p fogbank-oram --example ring_speed -- [epochs] [cache MiB] [xor]`

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_oram::ring::{RingEngine, RingSettings};
use fogbank_oram::{Address, BatchEngine, BatchShape};
use fogbank_seal::{KeyRing, MasterKey, Place, Salt, StoreId, TAG_BYTES};
use fogbank_store::MemoryStore;
use rand_core::Rng;
use rayon::prelude::*;

const CAPACITY: u32 = 100_000;
const VALUE_BYTES: usize = 1024;
const BATCHES: usize = 8;
const BATCH: usize = 500;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: u64| {
        arguments.get(at).and_then(|a| a.parse().ok()).unwrap_or(otherwise)
    };
    let shape = BatchShape {
        capacity: CAPACITY,
        value_bytes: VALUE_BYTES,
        read_batch: BATCH,
        write_batch: BATCH,
    };
    let settings = RingSettings {
        cache_bytes: number(1, 0) << 20,
        xor: arguments.iter().any(|a| a == "xor"),
        ..RingSettings::new(shape, BATCHES)
    };
    let keys =
        KeyRing::derive(&MasterKey::from_bytes(&mut [1; 32]), StoreId([2; 16]), &[Salt([3; 16])]);
    let keys = Arc::new(keys.ok_or("no opening")?);
    let store = Arc::new(MemoryStore::new());
    let randomness = Randomness::repeatable(1);
    let mut engine = RingEngine::create(store, keys.clone(), settings, &randomness).await?;
    println!("{:?}", engine.geometry());
    let clock = SystemClock::new();
    load(&mut engine, &clock).await?;
    let mut workload = randomness.stream(Purpose::Workload);
    for _ in 0..80 {
        epoch(&mut engine, &mut workload).await?;
    }
    let (before, epochs) = (engine.stats(), number(0, 40));
    let mut buffers = (vec![1; 200 << 20], vec![0; 200 << 20]);
    let (mut walls, mut bounds) = (Vec::new(), Vec::new());
    for _ in 0..epochs {
        let start = clock.now();
        let moved = engine.stats();
        epoch(&mut engine, &mut workload).await?;
        walls.push((clock.now() - start) as f64 / 1e6);
        let now = engine.stats();
        let opened = now.cells_read - moved.cells_read;
        bounds.push(bound_ms(
            &keys,
            opened,
            now.cells_written - moved.cells_written,
            &clock,
            &mut buffers,
        ));
    }
    let after = engine.stats();
    let opened = (after.cells_read - before.cells_read) / epochs;
    let sealed = (after.cells_written - before.cells_written) / epochs;
    let accesses = (after.accesses - before.accesses) as f64;
    let cells = (after.cells_received - before.cells_received + after.cells_written
        - before.cells_written) as f64;
    // Both are taken in turn, so that what else the machine does falls on both alike.
    walls.sort_unstable_by(f64::total_cmp);
    bounds.sort_unstable_by(f64::total_cmp);
    let (wall_ms, bound_ms) = (walls[walls.len() / 2], bounds[bounds.len() / 2]);
    println!("opened {opened}, sealed {sealed} an epoch; {:.2} cells an access", cells / accesses);
    println!("wall {wall_ms:.1} ms an epoch (best {:.1})", walls[0]);
    println!("bound {bound_ms:.1} ms (best {:.1})", bounds[0]);
    println!("ratio {:.2} (of the best {:.2})", bound_ms / wall_ms, bounds[0] / walls[0]);
    println!("{:.0} accesses/s", 4500.0 / wall_ms * 1e3);
    Ok(())
}

async fn load(engine: &mut RingEngine, clock: &SystemClock) -> Outcome<()> {
    let start = clock.now();
    let value = Bytes::from(vec![5; VALUE_BYTES]);
    for first in (0..CAPACITY).step_by(BATCH) {
        let writes = (first..first + BATCH as u32).map(|a| (Address(a), Some(value.clone())));
        engine.write_batch(writes.collect()).await?;
        if (first / BATCH as u32) % 8 == 7 {
            engine.commit().await?;
        }
    }
    engine.commit().await?;
    println!("loaded in {} ms", (clock.now() - start) / 1_000_000);
    Ok(())
}

async fn epoch(engine: &mut RingEngine, workload: &mut impl Rng) -> Outcome<()> {
    for _ in 0..BATCHES {
        engine.read_batch(&distinct(workload)).await?;
    }
    let value = Bytes::from(vec![6; VALUE_BYTES]);
    let writes = distinct(workload).into_iter().map(|a| (a, Some(value.clone())));
    engine.write_batch(writes.collect()).await?;
    engine.commit().await?;
    Ok(())
}

fn distinct(workload: &mut impl Rng) -> Vec<Address> {
    let mut addresses: Vec<_> =
        (0..BATCH).map(|_| Address(workload.next_u32() % CAPACITY)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Milliseconds for the AEAD of so many cells and one copy of each, on all cores.
fn bound_ms(
    keys: &KeyRing,
    opened: u64,
    sealed: u64,
    clock: &SystemClock,
    buffers: &mut (Vec<u8>, Vec<u8>),
) -> f64 {
    let plaintext_bytes = 8 + VALUE_BYTES;
    let cell_bytes = plaintext_bytes + TAG_BYTES;
    let (_, keys) = keys.current();
    let place = |n: u64| Place { array: 9, chunk: 0, cell: 0, tick: n };
    let (from, to) = (&buffers.0[..], &mut buffers.1[..]);
    let from = &from[..(opened + sealed) as usize * cell_bytes];
    let to = &mut to[..from.len()];
    let start = clock.now();
    let runs: Vec<u64> = (0..(opened + sealed) / 64).collect();
    runs.par_iter().for_each(|run| {
        let mut cell = vec![0; cell_bytes];
        let mut plaintext = vec![0; plaintext_bytes];
        let share = 64 * sealed / (opened + sealed);
        for n in 0..64 {
            if n <= share {
                keys.cells().seal(place(*run), &mut cell);
            } else {
                let _ = keys.cells().open(place(*run), &cell, &mut plaintext);
            }
        }
    });
    to.par_chunks_mut(1 << 16).zip(from.par_chunks(1 << 16)).for_each(|(to, from)| {
        to.copy_from_slice(from);
    });
    (clock.now() - start) as f64 / 1e6
}
