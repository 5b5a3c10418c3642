//! The real engine over a recorded store, and the oracle over its trace.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_audit::oracle::{Halt, Oracle, Summary};
use fogbank_audit::{Observation, Observer};
use fogbank_env::{Clock, Purpose, Randomness, Stream, SystemClock};
use fogbank_oram::geometry::BucketShape;
use fogbank_oram::ring::{EpochTiming, RingEngine, RingSettings};
use fogbank_oram::{Address, BatchEngine, BatchShape};
use fogbank_seal::{KeyRing, MasterKey, Salt, StoreId};
use fogbank_store::trace::{
    Event, PublicConfig, TraceClock, TraceOptions, TraceReader, TraceWriter,
};
use fogbank_store::{MemoryStore, OrderedGridStore, Recorded, Store};
use rand_core::Rng;

#[derive(Debug, Clone, Copy)]
pub enum Workload {
    Idle,
    OneHotAddress,
    Uniform,
    Scan,
    AllMiss,
    AllWrite,
}

pub const ALL: [Workload; 6] = [
    Workload::Idle,
    Workload::OneHotAddress,
    Workload::Uniform,
    Workload::Scan,
    Workload::AllMiss,
    Workload::AllWrite,
];

/// Small buckets, so that evictions and reshuffles are frequent.
pub fn settings(capacity: u32, (reals, dummies, evict_every): (u16, u16, u16)) -> RingSettings {
    let shape = BatchShape { capacity, value_bytes: 24, read_batch: 8, write_batch: 5 };
    let bucket = Some(BucketShape::new(reals, dummies, evict_every));
    RingSettings { bucket, ..RingSettings::new(shape, 2) }
}

/// Interval, slack and quantum, in milliseconds.
type Beat = (u64, u64, u64);

/// The public configuration of an engine alone.
fn public(
    settings: &RingSettings,
    clock: TraceClock,
    (interval, slack, quantum): Beat,
) -> PublicConfig {
    let ms = Duration::from_millis;
    let (interval, slack, quantum) = (ms(interval), ms(slack), ms(quantum));
    let pace = EpochTiming { interval, slack, quantum, in_flight: 1, pauses: false };
    settings.public(clock, pace, None).unwrap()
}

fn keys() -> Arc<KeyRing> {
    let master = MasterKey::from_bytes(&mut [7; 32]);
    Arc::new(KeyRing::derive(&master, StoreId([3; 16]), &[Salt([1; 16])]).unwrap())
}

/// The configuration and the events of a trace.
pub type Trace = (PublicConfig, Vec<Event>);

/// The trace of epochs of `workload`.
pub async fn recorded(settings: &RingSettings, workload: Workload, epochs: u32) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    record(settings, workload, epochs, &path).await;
    events(&path)
}

/// Runs epochs of `workload` and leaves the trace at `path`.
pub async fn record(settings: &RingSettings, workload: Workload, epochs: u32, path: &Path) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::starting_at(0));
    let config = public(settings, TraceClock::Real, (0, 0, 0)).encode();
    let trace = TraceWriter::create(path, &config, clock.clone(), TraceOptions::default()).unwrap();
    let store: Arc<dyn Store> = Arc::new(Recorded::new(MemoryStore::new(), trace.clone()));
    run(store, settings, workload, epochs).await;
    trace.finish().unwrap();
}

async fn run(store: Arc<dyn Store>, settings: &RingSettings, workload: Workload, epochs: u32) {
    let random = Randomness::repeatable(11);
    let mut engine = RingEngine::create(store, keys(), settings.clone(), &random).await.unwrap();
    let mut asked = Randomness::repeatable(5).stream(Purpose::Workload);
    for epoch in 0..epochs {
        for batch in 0..settings.read_batches as u32 {
            let at = epoch * settings.read_batches as u32 + batch;
            engine.read_batch(&reads_of(workload, settings, at, &mut asked)).await.unwrap();
        }
        engine.write_batch(writes_of(workload, settings, epoch, &mut asked)).await.unwrap();
        engine.commit().await.unwrap();
        if epoch % 3 == 2 {
            engine.collect().await.unwrap();
        }
    }
}

/// A trace of epochs by a beat of 50, 2 and 10 milliseconds in virtual time, over a link that takes
/// its time.
pub async fn recorded_on_beat(
    settings: &RingSettings,
    link: fogbank_store::Link,
    epochs: u32,
) -> Trace {
    let (folder, beat) = (tempfile::tempdir().unwrap(), (50, 2, 10));
    let path = &folder.path().join("trace");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::starting_at(0));
    let config = public(settings, TraceClock::Virtual, beat).encode();
    let trace = TraceWriter::create(path, &config, clock.clone(), TraceOptions::default()).unwrap();
    let random = Randomness::repeatable(12);
    let jitter = random.stream(Purpose::Faults);
    let far = fogbank_store::Delay::new(MemoryStore::new(), clock.clone(), link, jitter);
    let recorded = Recorded::new(far, trace.clone());
    let quantum = std::time::Duration::from_millis(beat.2);
    let store: Arc<dyn Store> = Arc::new(OrderedGridStore::new(recorded, clock.clone(), quantum));
    let engine = RingEngine::create(store, keys(), settings.clone(), &random).await.unwrap();
    let proxy_settings = fogbank_txn::Settings {
        read_batches: settings.read_batches,
        interval: std::time::Duration::from_millis(beat.0),
        slack: std::time::Duration::from_millis(beat.1),
        ..fogbank_txn::Settings::default()
    };
    let components = fogbank_txn::Components {
        clock: clock.clone(),
        random,
        metrics: Default::default(),
        clients: None,
    };
    let proxy = fogbank_txn::Proxy::start(proxy_settings, Box::new(engine), components, None);
    let proxy = proxy.await.unwrap();
    let points = (settings.read_batches as u64 + 1) * u64::from(epochs);
    clock.sleep_until(clock.now() + points * beat.0 * 1_000_000).await;
    proxy.close().await.unwrap();
    trace.finish().unwrap();
    events(path)
}

fn below(stream: &mut Stream, bound: u32) -> u32 {
    stream.next_u32() % bound
}

fn reads_of(
    workload: Workload,
    settings: &RingSettings,
    at: u32,
    random: &mut Stream,
) -> Vec<Address> {
    let (capacity, size) = (settings.shape.capacity, settings.shape.read_batch as u32);
    let mut addresses: Vec<Address> = match workload {
        Workload::Idle | Workload::AllWrite => Vec::new(),
        Workload::OneHotAddress => vec![Address(1)],
        Workload::Uniform => (0..size).map(|_| Address(below(random, capacity))).collect(),
        Workload::Scan => (0..size).map(|i| Address((at * size + i) % capacity)).collect(),
        Workload::AllMiss => (0..size).map(|i| Address(capacity - 1 - i)).collect(),
    };
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn writes_of(
    workload: Workload,
    settings: &RingSettings,
    epoch: u32,
    random: &mut Stream,
) -> Vec<(Address, Option<Bytes>)> {
    let (capacity, size) = (settings.shape.capacity, settings.shape.write_batch as u32);
    let value = || Some(Bytes::from(vec![epoch as u8; settings.shape.value_bytes]));
    match workload {
        Workload::Idle => Vec::new(),
        Workload::OneHotAddress => vec![(Address(1), value())],
        Workload::Uniform => vec![(Address(below(random, capacity)), value())],
        Workload::AllMiss => vec![(Address(below(random, capacity - size - 3)), value())],
        Workload::Scan | Workload::AllWrite => {
            (0..size).map(|i| (Address((epoch * size + i) % capacity), value())).collect()
        }
    }
}

fn events(path: &Path) -> Trace {
    let reader = TraceReader::open(path).unwrap();
    let config = PublicConfig::decode(reader.config()).unwrap();
    (config, reader.map(Result::unwrap).collect())
}

/// Takes all events in.
pub fn replay(
    config: &PublicConfig,
    events: &[Event],
    out: &mut dyn Observer,
) -> Result<Summary, Halt> {
    let mut oracle = Oracle::new(config).unwrap();
    for event in events {
        oracle.event(event, out)?;
    }
    Ok(oracle.summary())
}

/// An observer that needs nothing.
pub fn nobody() -> impl FnMut(&Observation<'_>) {
    |_| {}
}
