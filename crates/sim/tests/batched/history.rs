//! What was asked of a batched engine, and what it may come to.

use std::collections::BTreeMap;

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_oram::{Address, BatchShape, Error};
use rand_core::Rng;

use crate::engines::{Open, READ_BATCHES};

/// A plain map: addresses that hold something.
pub type Map = BTreeMap<Address, Bytes>;

/// What an engine should hold.
pub struct History {
    shape: BatchShape,
    random: Stream,
    /// As the last epoch that counts has left it.
    counts: Map,
    /// As the epoch will leave it that is being committed.
    committing: Option<Map>,
    /// Epochs that counted.
    pub committed: usize,
}

impl History {
    pub fn new(shape: BatchShape, seed: u64) -> Self {
        let random = Randomness::repeatable(seed).stream(Purpose::Workload);
        Self { shape, random, counts: Map::new(), committing: None, committed: 0 }
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        self.random.next_u32() % bound
    }

    /// So many epochs of random reads and writes, unless the engine dies.
    pub async fn run(&mut self, open: &mut Open, epochs: usize) -> Result<(), Error> {
        for _ in 0..epochs {
            for _ in 0..READ_BATCHES {
                let asked = self.distinct(self.shape.read_batch);
                let found = open.engine.read_batch(&asked).await?;
                let expected: Vec<_> =
                    asked.iter().map(|at| self.counts.get(at).cloned()).collect();
                assert_eq!(found, expected, "another answer than a plain map's");
            }
            let mut after = self.counts.clone();
            let mut writes = Vec::new();
            for address in self.distinct(self.shape.write_batch) {
                let value = (self.below(4) > 0).then(|| self.value());
                match &value {
                    Some(value) => after.insert(address, value.clone()),
                    None => after.remove(&address),
                };
                writes.push((address, value));
            }
            open.engine.write_batch(writes).await?;
            self.committing = Some(after.clone());
            open.commit().await?;
            (self.counts, self.committing) = (after, None);
            self.committed += 1;
        }
        Ok(())
    }

    /// What is there has to be what the last epoch left that counts, or that which was being
    /// committed.
    pub fn check(&mut self, found: Map) -> Result<(), String> {
        let committing = self.committing.take();
        if found != self.counts && Some(&found) != committing.as_ref() {
            let (is, was) = (found.len(), self.counts.len());
            return Err(format!("{is} addresses hold something, {was} did, or others"));
        }
        self.counts = found;
        Ok(())
    }

    fn value(&mut self) -> Bytes {
        (0..self.shape.value_bytes).map(|_| self.random.next_u32() as u8).collect()
    }

    /// Up to `most` distinct addresses, sometimes none.
    fn distinct(&mut self, most: usize) -> Vec<Address> {
        let mut addresses = Vec::new();
        for _ in 0..self.below(most as u32 + 1) {
            let address = Address(self.below(self.shape.capacity));
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }
}

/// Every address, in as many epochs as that takes.
pub async fn read_all(open: &mut Open) -> Result<Map, Error> {
    let shape = open.engine.shape();
    let all: Vec<Address> = (0..shape.capacity).map(Address).collect();
    let mut found = Map::new();
    for epoch in all.chunks(shape.read_batch * READ_BATCHES) {
        for asked in epoch.chunks(shape.read_batch) {
            let values = open.engine.read_batch(asked).await?;
            let held = asked.iter().zip(values);
            found.extend(held.filter_map(|(at, value)| Some((*at, value?))));
        }
        open.engine.write_batch(Vec::new()).await?;
        open.commit().await?;
    }
    Ok(found)
}
