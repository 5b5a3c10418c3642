//! A batched engine that keeps its blocks in memory, holds its caller to the contract, and can be
//! broken on purpose.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Mutex, Nanos};
use fogbank_oram::{Address, BatchEngine, BatchShape, Error, Result, Section, Sections};
use hashbrown::{HashMap, HashSet};

/// How a caller has used an engine: the shape of its traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    /// Of each epoch that ended: read batches, and write batches.
    pub epochs: Vec<(u32, u32)>,
    /// The same of the epoch under way.
    pub open: (u32, u32),
}

impl Calls {
    /// Whether every epoch made `reads` read batches and one write batch.
    pub fn are_regular(&self, reads: u32) -> bool {
        self.epochs.iter().all(|epoch| *epoch == (reads, 1))
    }
}

/// A way in which the engine is broken, to prove that it would be noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// None.
    Honest,
    /// One in so many reads of a block gives what it held before it was last written.
    StaleRead(u64),
    /// One in so many writes of a block is lost.
    LostWrite(u64),
}

/// A block: what it holds, and what it held before.
#[derive(Default)]
struct Block {
    now: Option<Bytes>,
    before: Option<Bytes>,
}

/// After the time of how many calls a batch arrives that its caller does not wait for.
const ARRIVES_AFTER_CALLS: Nanos = 40;

/// The engine. Its calls take a fixed virtual time.
pub struct MemoryEngine {
    shape: BatchShape,
    clock: Arc<dyn Clock>,
    call_ns: u64,
    lie: Lie,
    /// Accesses so far that the lie could have been told at.
    chances: u64,
    blocks: HashMap<Address, Block>,
    calls: Arc<Mutex<Calls>>,
    /// Read batches under way: when they arrive, and what they bring.
    under_way: VecDeque<(Nanos, Vec<Option<Bytes>>)>,
}

impl MemoryEngine {
    /// An empty engine whose calls take `call_ns` nanoseconds.
    pub fn new(shape: BatchShape, clock: Arc<dyn Clock>, call_ns: u64, lie: Lie) -> Self {
        let (blocks, calls, under_way) = (HashMap::new(), Arc::default(), VecDeque::new());
        Self { shape, clock, call_ns, lie, chances: 0, blocks, calls, under_way }
    }

    /// What its caller did so far; stays valid when the engine is given away.
    pub fn calls(&self) -> Arc<Mutex<Calls>> {
        self.calls.clone()
    }

    async fn take_time(&self) {
        self.clock.sleep_until(self.clock.now() + self.call_ns).await;
    }

    fn count(&self, add: impl FnOnce(&mut Calls)) {
        add(&mut self.calls.lock());
    }

    /// Whether to lie this time, given how rarely to.
    fn lies(&mut self, every: u64) -> bool {
        self.chances += 1;
        self.chances.is_multiple_of(every)
    }

    fn check(&self, addresses: impl Iterator<Item = Address>, at_most: usize) -> Result<()> {
        let mut met = HashSet::new();
        for address in addresses {
            if address.0 >= self.shape.capacity {
                return Err(Error::Caller(format!("{address:?} is beyond the capacity")));
            }
            if !met.insert(address) {
                return Err(Error::Caller(format!("{address:?} twice in one batch")));
            }
        }
        match met.len() <= at_most {
            true => Ok(()),
            false => Err(Error::Caller(format!("{} addresses in a batch", met.len()))),
        }
    }

    fn read(&mut self, address: Address) -> Option<Bytes> {
        let lie = self.lie;
        let stale = matches!(lie, Lie::StaleRead(every) if self.lies(every));
        let block = self.blocks.get(&address)?;
        block.before.clone().filter(|_| stale).or_else(|| block.now.clone())
    }

    fn write(&mut self, address: Address, value: Option<Bytes>) {
        let lie = self.lie;
        if !matches!(lie, Lie::LostWrite(every) if self.lies(every)) {
            let block = self.blocks.entry(address).or_default();
            block.before = std::mem::replace(&mut block.now, value);
        }
    }
}

#[async_trait]
impl BatchEngine for MemoryEngine {
    fn shape(&self) -> BatchShape {
        self.shape
    }

    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>> {
        self.check(addresses.iter().copied(), self.shape.read_batch)?;
        self.count(|calls| calls.open.0 += 1);
        self.take_time().await;
        Ok(addresses.iter().map(|address| self.read(*address)).collect())
    }

    async fn start_read(&mut self, addresses: &[Address]) -> Result<()> {
        let values = self.read_batch(addresses).await?;
        let arrives = self.clock.now() + ARRIVES_AFTER_CALLS * self.call_ns;
        self.under_way.push_back((arrives, values));
        Ok(())
    }

    async fn finish_read(&mut self) -> Result<Vec<Option<Bytes>>> {
        let arrives = self.under_way.front().map_or(0, |(arrives, _)| *arrives);
        self.clock.sleep_until(arrives).await;
        let oldest = self.under_way.pop_front();
        oldest.map(|(_, values)| values).ok_or_else(|| Error::Caller("nothing is under way".into()))
    }

    async fn write_batch(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()> {
        self.check(writes.iter().map(|(address, _)| *address), self.shape.write_batch)?;
        let whole = |value: &Option<Bytes>| {
            value.as_ref().is_none_or(|value| value.len() == self.shape.value_bytes)
        };
        if !writes.iter().all(|(_, value)| whole(value)) {
            return Err(Error::Caller("a value of the wrong length".into()));
        }
        self.count(|calls| calls.open.1 += 1);
        self.take_time().await;
        writes.into_iter().for_each(|(address, value)| self.write(address, value));
        Ok(())
    }

    async fn commit(&mut self) -> Result<Vec<Section>> {
        self.take_time().await;
        self.count(|calls| {
            let epoch = std::mem::take(&mut calls.open);
            calls.epochs.push(epoch);
        });
        Ok(Vec::new())
    }

    fn save(&mut self) -> Result<Sections<'_>> {
        Ok(Box::new(std::iter::empty()))
    }
}
