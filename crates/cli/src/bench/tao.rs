//! `fogbank bench tao`: clients that each wait for their answer, at the distances of TaoStore's paper.
//!
//! 1. Load: without a link between, every block is written once, then as many accesses as a quarter of
//!    the blocks, so that the tree is in its steady state and every bucket is stored.
//! 2. Measure: across the link, each client draws a block, reads or writes it, holds what comes back
//!    against what it has to be, and goes on. Journal and checkpoints are included. The first
//!    seconds are left out, until the clients no longer move together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use fogbank::args::{BenchTaoArgs, TaoProfile};
use fogbank::link::LinkArgs;
use fogbank::{Error, Result, open_store};
use fogbank_durable::{MemoryRegister, Opening, Recovered};
use fogbank_env::{Clock, Purpose, Randomness, Stream, SystemClock};
use fogbank_oram::tao::{Parts, TaoEngine, TaoSettings};
use fogbank_oram::{Access, Address, ImmediateEngine, ImmediateShape};
use fogbank_seal::MasterKey;
use fogbank_store::{Delay, Link, Points, Store};
use hdrhistogram::Histogram;
use rand_core::Rng;
use serde_json::json;
use tokio::task::{JoinError, JoinSet};

use super::counted::{Counted, Traffic};

/// Accesses under way while loading.
const LOAD_UNDER_WAY: usize = 256;
const BLOCK_HEAD_BYTES: usize = 16;

/// What the clients share.
struct Field {
    engine: TaoEngine,
    clock: Arc<dyn Clock>,
    /// By block: how often it was written. Held while an access is submitted, so that the order of
    /// these counts is the order of arrival.
    written: Mutex<Vec<u64>>,
    value_bytes: usize,
}

/// What one access came to.
#[derive(Debug, Clone, Copy)]
struct Sample {
    ended: u64,
    took: u64,
}

/// Runs the benchmark and prints its figures.
///
/// # Errors
/// [`Error::CheckFailed`] if a value read is not the one written.
pub async fn run(args: BenchTaoArgs) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let random = Randomness::repeatable(args.seed);
    let (link, settings) = setting(&args)?;
    let (bare, faults) = (open_store("memory:", &clock).await?, random.split(1));
    let faults = faults.stream(Purpose::Faults);
    let far = Arc::new(Delay::new(bare, clock.clone(), Link::instant(), faults));
    let store = Arc::new(Counted::new(far.clone() as Arc<dyn Store>));
    let opening = Opening {
        store: store.clone(),
        register: Arc::new(MemoryRegister::default()),
        master: &MasterKey::from_bytes(&mut [7; 32]),
        random: &random,
        settings: settings.vault(),
        accept_rollback_risk: false,
    };
    let vault = opening.create(b"bench".to_vec()).await?;
    let parts = Parts {
        store: store.clone(),
        vault,
        recovered: Recovered::default(),
        random: &random,
        points: Points::new(clock.clone(), settings.quantum),
        progress: &|_, _| {},
    };
    let ImmediateShape { capacity, value_bytes } = settings.shape;
    let engine = TaoEngine::open(settings.clone(), parts).await?;
    let written = Mutex::new(vec![0; capacity as usize]);
    let field = Arc::new(Field { engine, clock: clock.clone(), written, value_bytes });
    eprintln!("loading {capacity} blocks");
    let started = clock.now();
    field.load(&mut random.stream(Purpose::Workload)).await?;
    let load_s = (clock.now() - started) as f64 / 1e9;
    let loaded = f64::from(capacity) * 1.25;
    eprintln!("{:.0} accesses/s while loading; measuring for {} s", loaded / load_s, args.seconds);
    far.set_link(link);
    let (samples, wall_s, traffic) = measure(&field, &args, &random, &store).await?;
    report(&args, &settings, &field.engine, (&samples, wall_s, traffic));
    Ok(())
}

/// The link and the engine's settings: those of the profile, but for what flags say.
fn setting(args: &BenchTaoArgs) -> Result<(Link, TaoSettings)> {
    let of_profile = |rtt_ms, mb_s| LinkArgs {
        up_mb_s: Some(mb_s),
        down_mb_s: Some(mb_s),
        ..LinkArgs::of_round_trip(rtt_ms)
    };
    let link = match args.profile {
        _ if !args.link.is_instant() => args.link,
        TaoProfile::TaoWan => of_profile(12.0, 11.0),
        TaoProfile::TaoDc => of_profile(0.5, 125.25),
        TaoProfile::TaoSim => LinkArgs::of_round_trip(50.0),
        TaoProfile::None => args.link,
    };
    let value_bytes = args.block.as_u64() as usize;
    let blocks = (args.size.as_u64() / args.block.as_u64().max(1)).try_into();
    let capacity = blocks.map_err(|_| Error::Usage("--size: too many blocks".into()))?;
    let shape = ImmediateShape { capacity, value_bytes };
    let settings = TaoSettings {
        cache_bytes: args.cache.as_u64(),
        write_back_every: args.write_back_every,
        windows: args.windows,
        ..TaoSettings::new(shape)
    };
    Ok((link.link()?, settings))
}

impl Field {
    async fn load(self: &Arc<Self>, stream: &mut Stream) -> Result<()> {
        let capacity = self.engine.shape().capacity;
        let random = (0..capacity / 4).map(|_| stream.next_u32() % capacity);
        let mut tasks = JoinSet::new();
        for block in (0..capacity).chain(random) {
            while tasks.len() >= LOAD_UNDER_WAY {
                done(tasks.join_next().await)?;
            }
            let field = self.clone();
            tasks.spawn(async move { field.access(block, true).await.map(drop) });
        }
        while !tasks.is_empty() {
            done(tasks.join_next().await)?;
        }
        Ok(())
    }

    /// One access, checked.
    async fn access(&self, block: u32, writes: bool) -> Result<Sample> {
        let started = self.clock.now();
        let (ticket, count) = {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let count = &mut written[block as usize];
            *count += u64::from(writes);
            let access = match writes {
                true => Access::Write { offset: 0, bytes: self.value(block, *count).into() },
                false => Access::Read,
            };
            (self.engine.submit(Address(block), access), *count)
        };
        let answer = ticket.await?;
        let expected =
            if count == 0 { vec![0; self.value_bytes] } else { self.value(block, count) };
        if answer != expected {
            return Err(Error::CheckFailed(format!("block {block} holds something else")));
        }
        let ended = self.clock.now();
        Ok(Sample { ended, took: ended - started })
    }

    fn value(&self, block: u32, count: u64) -> Vec<u8> {
        let mut value = vec![block as u8; self.value_bytes.max(BLOCK_HEAD_BYTES)];
        value[..8].copy_from_slice(&u64::from(block).to_le_bytes());
        value[8..BLOCK_HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
        value.truncate(self.value_bytes);
        value
    }
}

fn done(ended: Option<std::result::Result<Result<()>, JoinError>>) -> Result<()> {
    ended.map_or(Ok(()), |ended| ended.map_err(|e| Error::Bug(e.to_string()))?)
}

/// Lets the clients run; returns what they measured between the end of the warm-up and the end, the
/// seconds between, and what passed to the store in them.
async fn measure(
    field: &Arc<Field>,
    args: &BenchTaoArgs,
    random: &Randomness,
    store: &Counted<Arc<dyn Store>>,
) -> Result<(Latencies, f64, Traffic)> {
    let ends = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for client in 0..args.clients {
        let (field, ends) = (field.clone(), ends.clone());
        let mut stream = random.split(2 + client as u64).stream(Purpose::Workload);
        clients.spawn(async move {
            let capacity = field.engine.shape().capacity;
            let mut samples = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let (block, writes) =
                    (stream.next_u32() % capacity, stream.next_u32().is_multiple_of(2));
                samples.push(field.access(block, writes).await?);
            }
            Ok::<_, Error>(samples)
        });
    }
    let nanos = |seconds: f64| (seconds * 1e9) as u64;
    let from = field.clock.now() + nanos(args.seconds / 5.0);
    field.clock.sleep_until(from).await;
    let before = store.traffic();
    let to = from + nanos(args.seconds);
    field.clock.sleep_until(to).await;
    let traffic = store.traffic().since(before);
    ends.store(true, Ordering::Relaxed);
    let mut latencies = Latencies::new();
    while let Some(ended) = clients.join_next().await {
        let samples = ended.map_err(|e| Error::Bug(e.to_string()))??;
        let within = samples.into_iter().filter(|sample| (from..to).contains(&sample.ended));
        within.for_each(|sample| latencies.note(sample.took));
    }
    Ok((latencies, args.seconds, traffic))
}

/// How long accesses took.
struct Latencies(Histogram<u64>);

/// The longest that is told apart: an hour.
const LATENCY_NANOS_MAX: u64 = 3_600_000_000_000;

impl Latencies {
    fn new() -> Self {
        let histogram = Histogram::new_with_max(LATENCY_NANOS_MAX, 3);
        Self(histogram.expect("three figures within an hour are possible"))
    }

    fn note(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    fn ms(nanos: f64) -> f64 {
        nanos / 1e6
    }
}

fn report(
    args: &BenchTaoArgs,
    settings: &TaoSettings,
    engine: &TaoEngine,
    (latencies, wall_s, traffic): (&Latencies, f64, Traffic),
) {
    let ops = latencies.0.len().max(1) as f64;
    let p99 = latencies.0.value_at_quantile(0.99) as f64;
    let (stats, geometry) = (engine.stats(), engine.geometry());
    let path_bytes = usize::from(geometry.stored_levels()) * geometry.chunk_bytes();
    let figures = json!({
        "profile": args.profile.to_possible_value().map(|name| name.get_name().to_owned()),
        "clients": args.clients,
        "cache": args.cache.as_u64(),
        "write_back_every": settings.write_back_every,
        "ops_per_s": ops / wall_s,
        "latency_ms_mean": Latencies::ms(latencies.0.mean()),
        "latency_ms_p99": Latencies::ms(p99),
        "up_bytes_per_op": traffic.written as f64 / ops,
        "down_bytes_per_op": traffic.read as f64 / ops,
        "path_bytes": path_bytes,
        "stash_max": stats.secret.stash_max,
        "subtree_max": stats.subtree_max,
        "checkpoints": stats.checkpoints,
    });
    println!("accesses/s        {:>12.2}", ops / wall_s);
    println!(
        "latency           {:>12.2} ms mean, {:.2} ms for 99 of 100",
        Latencies::ms(latencies.0.mean()),
        Latencies::ms(p99)
    );
    println!(
        "bytes/access      {:>12.0} down, {:.0} up (a path is {path_bytes})",
        traffic.read as f64 / ops,
        traffic.written as f64 / ops
    );
    if args.json {
        println!("{figures}");
    }
}
