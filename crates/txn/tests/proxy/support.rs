//! A map for an engine, which checks the contract of its calls and writes them down, and a proxy
//! over it in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Metrics, Mutex, Nanos, Randomness, SystemClock};
use fogbank_oram::{Address, BatchEngine, BatchShape, Error, Result, Section, Sections};
use fogbank_txn::{Components, Key, Proxy, Settings, View};

/// One call of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Read(Vec<u32>),
    Write(Vec<(u32, bool)>),
    Commit,
}

impl Call {
    pub fn kind(&self) -> char {
        match self {
            Call::Read(_) => 'r',
            Call::Write(_) => 'w',
            Call::Commit => 'c',
        }
    }
}

/// What the engine has been asked so far, and how it is to behave.
#[derive(Default)]
pub struct Record {
    pub calls: Vec<(Nanos, Call)>,
    pub delays: BTreeMap<usize, Duration>,
    pub fail_at: Option<usize>,
    pub panic_at: Option<usize>,
}

pub type Shared = Arc<Mutex<Record>>;

pub struct MapEngine {
    shape: BatchShape,
    read_batches: usize,
    reads_in_epoch: usize,
    written: bool,
    blocks: BTreeMap<u32, Bytes>,
    record: Shared,
    clock: Arc<dyn Clock>,
}

impl MapEngine {
    async fn note(&self, call: Call) -> Result<()> {
        let (delay, fail, panic) = {
            let mut record = self.record.lock();
            let index = record.calls.len();
            record.calls.push((self.clock.now(), call));
            let delay = record.delays.get(&index).copied();
            (delay, record.fail_at == Some(index), record.panic_at == Some(index))
        };
        assert!(!panic, "an engine with a fault");
        if let Some(delay) = delay {
            self.clock.sleep_until(self.clock.now() + delay.as_nanos() as Nanos).await;
        }
        if fail { Err(lied()) } else { Ok(()) }
    }
}

/// How this engine fails.
pub fn lied() -> Error {
    Error::CloudLied(fogbank_oram::Unverified::Reply("a test".into()))
}

fn check(holds: bool, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Caller(format!("contract broken: {what}"))) }
}

#[async_trait]
impl BatchEngine for MapEngine {
    fn shape(&self) -> BatchShape {
        self.shape
    }

    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>> {
        let distinct: BTreeSet<u32> = addresses.iter().map(|a| a.0).collect();
        check(distinct.len() == addresses.len(), "distinct addresses in a read batch")?;
        check(addresses.len() <= self.shape.read_batch, "size of a read batch")?;
        check(distinct.iter().all(|&a| a < self.shape.capacity), "addresses below the capacity")?;
        check(self.reads_in_epoch < self.read_batches, "R reads an epoch")?;
        check(!self.written, "reads before the write")?;
        self.reads_in_epoch += 1;
        self.note(Call::Read(addresses.iter().map(|a| a.0).collect())).await?;
        Ok(addresses.iter().map(|a| self.blocks.get(&a.0).cloned()).collect())
    }

    async fn write_batch(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()> {
        let distinct: BTreeSet<u32> = writes.iter().map(|(a, _)| a.0).collect();
        check(distinct.len() == writes.len(), "distinct addresses in a write batch")?;
        check(writes.len() <= self.shape.write_batch, "size of a write batch")?;
        check(distinct.iter().all(|&a| a < self.shape.capacity), "addresses below the capacity")?;
        check(self.reads_in_epoch == self.read_batches, "R reads before the write")?;
        check(!self.written, "one write an epoch")?;
        let whole =
            |v: &Option<Bytes>| v.as_ref().is_none_or(|v| v.len() == self.shape.value_bytes);
        check(writes.iter().all(|(_, v)| whole(v)), "values of the block size")?;
        self.written = true;
        self.note(Call::Write(writes.iter().map(|(a, v)| (a.0, v.is_some())).collect())).await?;
        for (address, value) in writes {
            match value {
                Some(value) => drop(self.blocks.insert(address.0, value)),
                None => drop(self.blocks.remove(&address.0)),
            }
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<Vec<Section>> {
        check(self.written, "a write before the commit")?;
        self.written = false;
        self.reads_in_epoch = 0;
        self.note(Call::Commit).await?;
        Ok(Vec::new())
    }

    fn save(&mut self) -> Result<Sections<'_>> {
        Ok(Box::new(std::iter::empty()))
    }
}

/// A clock by which work that clients ask for takes time.
struct Working {
    inner: SystemClock,
    unit_ns: Nanos,
}

impl Clock for Working {
    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn wall_ms(&self) -> u64 {
        self.inner.wall_ms()
    }

    fn sleep_until(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.inner.sleep_until(deadline)
    }

    fn work(&self, units: u64) -> Nanos {
        units * self.unit_ns
    }
}

/// The shape of a test proxy.
#[derive(Debug, Clone)]
pub struct Setup {
    pub seed: u64,
    /// What a unit of clients' work takes.
    pub unit_ns: Nanos,
    pub capacity: u32,
    pub value_bytes: usize,
    pub read_batch: usize,
    pub write_batch: usize,
    pub settings: Settings,
}

impl Default for Setup {
    fn default() -> Self {
        let settings = Settings {
            read_batches: 3,
            interval: Duration::from_millis(10),
            slack: Duration::from_millis(1),
            ..Settings::default()
        };
        Self {
            seed: 1,
            unit_ns: 0,
            capacity: 256,
            value_bytes: 16,
            read_batch: 8,
            write_batch: 16,
            settings,
        }
    }
}

/// A running proxy and what its engine sees.
pub struct World {
    pub proxy: Proxy,
    pub record: Shared,
    pub clock: Arc<dyn Clock>,
    pub metrics: Metrics,
    pub setup: Setup,
}

impl Setup {
    pub async fn start(self) -> World {
        let inner = SystemClock::starting_at(1_000_000);
        let clock: Arc<dyn Clock> = Arc::new(Working { inner, unit_ns: self.unit_ns });
        let record = Shared::default();
        let engine = MapEngine {
            shape: BatchShape {
                capacity: self.capacity,
                value_bytes: self.value_bytes,
                read_batch: self.read_batch,
                write_batch: self.write_batch,
            },
            read_batches: self.settings.read_batches,
            reads_in_epoch: 0,
            written: false,
            blocks: BTreeMap::new(),
            record: record.clone(),
            clock: clock.clone(),
        };
        self.start_over(Box::new(engine), record, clock, None).await.unwrap()
    }

    pub async fn start_over(
        self,
        engine: Box<dyn BatchEngine>,
        record: Shared,
        clock: Arc<dyn Clock>,
        restored: Option<&[Section]>,
    ) -> fogbank_txn::Result<World> {
        let metrics = Metrics::default();
        let components = Components {
            clock: clock.clone(),
            random: Randomness::repeatable(self.seed),
            metrics: metrics.clone(),
            clients: None,
        };
        let proxy = Proxy::start(self.settings.clone(), engine, components, restored).await?;
        Ok(World { proxy, record, clock, metrics, setup: self })
    }
}

impl World {
    /// Sleeps in virtual time.
    pub async fn sleep_ms(&self, ms: u64) {
        self.clock.sleep_until(self.clock.now() + ms * 1_000_000).await;
    }

    /// Waits until the next epoch has opened.
    pub async fn next_epoch(&self) {
        let epoch = self.proxy.epoch();
        while self.proxy.epoch() == epoch {
            self.sleep_ms(1).await;
        }
    }

    pub fn count(&self, kind: char) -> usize {
        self.record.lock().calls.iter().filter(|(_, c)| c.kind() == kind).count()
    }

    /// Calls and times, without what was in them.
    pub fn shape(&self) -> Vec<(Nanos, char)> {
        self.record.lock().calls.iter().map(|(at, c)| (*at, c.kind())).collect()
    }

    /// Addresses read so far, by batch.
    pub fn reads(&self) -> Vec<Vec<u32>> {
        let record = self.record.lock();
        let reads = record.calls.iter().filter_map(|(_, call)| match call {
            Call::Read(addresses) => Some(addresses.clone()),
            _ => None,
        });
        reads.collect()
    }

    /// Puts records in transactions of their own and waits.
    pub async fn fill(&self, keys: &[Key], value: &'static [u8]) {
        let session = self.proxy.session();
        let answers: Vec<_> = keys
            .iter()
            .cloned()
            .map(|k| {
                session.submit(move |v: &mut View<'_>| v.put(&k, Bytes::from_static(value), 0))
            })
            .collect();
        for answer in answers {
            answer.await.unwrap();
        }
    }

    pub async fn get(&self, key: &Key) -> Option<Bytes> {
        let key = key.clone();
        let session = self.proxy.session();
        let read = session.submit(move |v: &mut View<'_>| v.get(&key)).await.unwrap();
        read.map(|record| record.value)
    }
}

/// A key by number.
pub fn key(n: u32) -> Key {
    Key::new(b"g", &n.to_be_bytes())
}

pub fn keys(n: u32) -> Vec<Key> {
    (0..n).map(key).collect()
}

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Adds one to a decimal number, as `INCR` does.
pub fn increment(key: Key) -> impl fogbank_txn::Program<Reply = u64> {
    move |view: &mut View<'_>| {
        let old = view.get(&key)?;
        let number = old.map_or(0, |r| std::str::from_utf8(&r.value).unwrap().parse().unwrap());
        view.put(&key, bytes(&(number + 1_u64).to_string()), 0)?;
        Ok(number + 1)
    }
}
