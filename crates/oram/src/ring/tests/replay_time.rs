//! Not a check: how long replaying 2^18 accesses takes with a million blocks.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Clock, Randomness, SystemClock};
use fogbank_store::MemoryStore;

use super::{below, keys, saved};
use crate::geometry::BucketShape;
use crate::ring::{RingEngine, RingSettings};
use crate::{Address, BatchEngine, BatchShape, RecoverableEngine};

const CAPACITY: u32 = 1 << 20;

/// Run by name with `--release -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "a measurement"]
async fn replay_time() {
    let shape =
        BatchShape { capacity: CAPACITY, value_bytes: 8, read_batch: 500, write_batch: 500 };
    let bucket = Some(BucketShape::OBLADI);
    let settings = RingSettings { bucket, log_epochs: true, ..RingSettings::new(shape, 8) };
    let (store, randomness) = (Arc::new(MemoryStore::new()), Randomness::repeatable(1));
    let create = RingEngine::create(store.clone(), keys(1), settings.clone(), &randomness);
    let mut engine = create.await.unwrap();
    let (mut random, clock) = (super::workload(3), SystemClock::new());
    let value = || Some(Bytes::from(vec![1; 8]));
    for first in (0..CAPACITY).step_by(500) {
        let writes = (first..CAPACITY.min(first + 500)).map(|a| (Address(a), value()));
        engine.write_batch(writes.collect()).await.unwrap();
        engine.commit().await.unwrap();
    }
    let (full, mut deltas) = (saved(&mut engine), Vec::new());
    let mut accesses = 0;
    while accesses < 1 << 18 {
        for _ in 0..8 {
            engine.read_batch(&distinct(&mut random)).await.unwrap();
        }
        let writes = distinct(&mut random).into_iter().map(|address| (address, value()));
        engine.write_batch(writes.collect()).await.unwrap();
        deltas.push(engine.commit().await.unwrap());
        accesses += 4500;
    }
    for _ in 0..5 {
        let start = clock.now();
        let restore =
            RingEngine::restore(store.clone(), keys(2), settings.clone(), &randomness, &full);
        let (mut again, restored) = (restore.unwrap(), clock.now());
        deltas.iter().for_each(|delta| again.replay_epoch(delta).unwrap());
        let replayed = clock.now();
        let ms = |nanos| nanos / 1_000_000;
        println!(
            "restore {} ms; replay of {accesses} accesses in {} epochs {} ms",
            ms(restored - start),
            deltas.len(),
            ms(replayed - restored),
        );
        assert!(saved(&mut again)[1..] == saved(&mut engine)[1..]);
    }
}

fn distinct(random: &mut fogbank_env::Stream) -> Vec<Address> {
    let mut addresses: Vec<_> = (0..500).map(|_| Address(below(random, CAPACITY))).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}
