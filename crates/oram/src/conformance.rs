//! The suite that every batched engine passes: the engine beside a plain map.
//!
//! Sizes are awkward on purpose: one address, one byte, batches of one, capacities at and just
//! above powers of two.

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use rand_core::Rng;

use crate::{Address, BatchEngine, BatchShape, Error};

/// Capacity, value bytes, read batch, write batch.
const SHAPES: [(u32, usize, usize, usize); 8] = [
    (1, 1, 1, 1),
    (2, 1, 1, 2),
    (7, 3, 2, 1),
    (8, 16, 4, 4),
    (9, 5, 8, 3),
    (65, 33, 8, 16),
    (257, 100, 16, 24),
    (1025, 8, 32, 64),
];

/// Runs the suite on engines that `make` creates, each on a store of its own.
///
/// # Panics
/// Where an engine and the map disagree.
pub async fn run<F, E>(make: impl Fn(BatchShape) -> F)
where
    F: Future<Output = E>,
    E: BatchEngine,
{
    for (capacity, value_bytes, read_batch, write_batch) in SHAPES {
        let shape = BatchShape { capacity, value_bytes, read_batch, write_batch };
        let mut pair = Pair::new(make(shape).await, u64::from(capacity));
        pair.empty_at_first().await;
        pair.random_epochs(40).await;
        pair.overwrite_in_every_epoch().await;
        pair.everything_emptied().await;
        refuses_misuse(&mut pair).await;
        pair.random_epochs(10).await;
    }
}

/// An engine and what it should hold.
struct Pair<E> {
    engine: E,
    map: BTreeMap<Address, Bytes>,
    random: Stream,
    written: u64,
}

impl<E: BatchEngine> Pair<E> {
    fn new(engine: E, seed: u64) -> Self {
        let random = Randomness::repeatable(seed).stream(Purpose::Workload);
        Self { engine, map: BTreeMap::new(), random, written: 0 }
    }

    async fn empty_at_first(&mut self) {
        for first in [0, self.engine.shape().capacity - 1] {
            self.read(&[Address(first)]).await;
        }
        self.commit().await;
    }

    async fn random_epochs(&mut self, epochs: usize) {
        for _ in 0..epochs {
            for _ in 0..self.below(4) {
                let addresses = self.distinct(self.engine.shape().read_batch);
                self.read(&addresses).await;
            }
            let addresses = self.distinct(self.engine.shape().write_batch);
            self.write(&addresses, 4).await;
            self.commit().await;
        }
        self.read_everything().await;
    }

    async fn overwrite_in_every_epoch(&mut self) {
        let hot = Address(self.engine.shape().capacity / 2);
        for _ in 0..20 {
            self.read(&[hot]).await;
            self.read(&[hot]).await;
            self.write(&[hot], u32::MAX).await;
            self.commit().await;
        }
        self.read(&[hot]).await;
    }

    async fn everything_emptied(&mut self) {
        let shape = self.engine.shape();
        let all: Vec<Address> = (0..shape.capacity).map(Address).collect();
        for addresses in all.chunks(shape.write_batch) {
            self.write(addresses, 1).await;
            self.commit().await;
        }
        self.read_everything().await;
    }

    async fn read_everything(&mut self) {
        let shape = self.engine.shape();
        let all: Vec<Address> = (0..shape.capacity).map(Address).collect();
        for addresses in all.chunks(shape.read_batch) {
            self.read(addresses).await;
        }
        self.commit().await;
    }

    async fn read(&mut self, addresses: &[Address]) {
        let values = self.engine.read_batch(addresses).await.expect("a read batch");
        let expected: Vec<_> = addresses.iter().map(|a| self.map.get(a).cloned()).collect();
        assert_eq!(values, expected, "reading {addresses:?} of {:?}", self.engine.shape());
    }

    /// Writes fresh values, but empties one address in `empty_one_in`.
    async fn write(&mut self, addresses: &[Address], empty_one_in: u32) {
        let mut writes = Vec::new();
        for address in addresses {
            let value = (self.below(empty_one_in) != 0).then(|| self.fresh_value());
            match &value {
                Some(value) => self.map.insert(*address, value.clone()),
                None => self.map.remove(address),
            };
            writes.push((*address, value));
        }
        self.engine.write_batch(writes).await.expect("a write batch");
    }

    async fn commit(&mut self) {
        self.engine.commit().await.expect("a commit");
    }

    fn fresh_value(&mut self) -> Bytes {
        self.written += 1;
        let number = self.written.to_le_bytes();
        let length = self.engine.shape().value_bytes;
        number.iter().copied().cycle().take(length).collect()
    }

    /// Up to `most` distinct addresses in random order, sometimes none.
    fn distinct(&mut self, most: usize) -> Vec<Address> {
        let capacity = self.engine.shape().capacity;
        let count = self.below(most as u32 + 1);
        let mut addresses: Vec<Address> = Vec::new();
        for _ in 0..count {
            let address = Address(self.below(capacity));
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.next_u32() % bound
    }
}

/// Wrong use is refused and changes nothing.
async fn refuses_misuse<E: BatchEngine>(pair: &mut Pair<E>) {
    let shape = pair.engine.shape();
    let engine = &mut pair.engine;
    let refused = |result| assert!(matches!(result, Err(Error::Caller(_))), "misuse was accepted");
    refused(engine.read_batch(&[Address(shape.capacity)]).await.map(drop));
    let too_many: Vec<Address> = (0..=shape.read_batch as u32).map(Address).collect();
    refused(engine.read_batch(&too_many).await.map(drop));
    let value = Bytes::from(vec![1; shape.value_bytes]);
    refused(engine.write_batch(vec![(Address(shape.capacity), None)]).await);
    let too_many = (0..=shape.write_batch as u32).map(|a| (Address(a), None)).collect();
    refused(engine.write_batch(too_many).await);
    refused(engine.write_batch(vec![(Address(0), Some(value.slice(1..)))]).await);
    if shape.read_batch > 1 {
        refused(engine.read_batch(&[Address(0), Address(0)]).await.map(drop));
    }
    if shape.write_batch > 1 {
        let twice = vec![(Address(0), Some(value.clone())), (Address(0), None)];
        refused(engine.write_batch(twice).await);
    }
}
