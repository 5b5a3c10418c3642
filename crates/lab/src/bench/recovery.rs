//! `fogbank bench recovery`: what durability costs, and how long a recovery takes.
//!
//! 1. Two engines of one shape, each over a store in memory at the far end of its own link: one
//!    alone, one with journal, epoch commits, checkpoints and a register.
//! 2. They take turns: throughput of either is the median of its rounds, the ratio that of the
//!    medians.
//! 3. A whole proxy with as many keys as the store has room for is cut off in the middle of an
//!    epoch as far from its last full checkpoint as it gets, and opened again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use fogbank_durable::{FileRegister, MemoryRegister, Register, RegisterValue};
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_oram::ring::RingEngine;
use fogbank_process::{say, say_error};
use fogbank_store::{Call, Delay, Fault, Faulty, Link, MemoryStore, Store};
use fogbank_txn::{Ticker, View};
use serde_json::json;

use super::driver::{Driver, default_shape};
use super::durable::Durable;
use super::engine::keys;
use super::spread::Spread;
use crate::args::{BenchRecoveryArgs, BenchRegister, ShapeArgs};
use fogbank::config::StoreConfig;
use fogbank::link::LinkArgs;
use fogbank::{Error, Key, OpenOptions, Opened, Place, Result};

/// The round trip if no link is asked for, in milliseconds: to a server in the next rack.
const ROUND_TRIP_MS: f64 = 0.3;
/// Bumps that are timed.
const BUMPS: u32 = 50;
/// Batches that the epoch journals before it is cut off.
const CUT_BATCH: u32 = 4;
/// Programs that fill the store submit so many records at once.
const FILL: u32 = 50;

/// Runs the benchmark and prints its figures.
///
/// # Errors
/// [`Error::CheckFailed`] if a value read is not the one written, before or after the recovery.
pub async fn run(mut args: BenchRecoveryArgs) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    default_shape(&mut args.shape);
    if args.link.is_instant() {
        args.link = LinkArgs::of_round_trip(ROUND_TRIP_MS);
    }
    let config = StoreConfig::derive(&args.shape, false)?;
    let folder = Folder::make(&args)?;
    let bump_s = seconds_a_bump(&clock, &*register(&args, &folder.0.join("timed"))?).await?;
    let ratio = throughput(&args, &config, &clock, &folder.0).await?;
    let cut = Cut { shape: &args.shape, config: &config, clock: &clock };
    let recovery = cut.recover_in(&folder.0, Link::instant()).await?;
    let figures = json!({
        "capacity": config.capacity,
        "rtt_ms": args.link.rtt_ms,
        "interval_ms": config.interval_ms,
        "register": format!("{:?}", args.register).to_lowercase(),
        "bump_ms": bump_s * 1e3,
        "full_every_epochs": config.vault_settings()?.full_every,
        "accesses_per_s_alone": ratio.alone,
        "accesses_per_s_durable": ratio.durable,
        "durability_ratio": ratio.durable / ratio.alone,
        "recovery_s": recovery.seconds,
        "recovered_keys": recovery.keys,
        "recovered_epochs": recovery.epochs,
        "recovered_batches": recovery.batches,
    });
    say!("bump of the register  {:>12.3} ms", bump_s * 1e3);
    say!("accesses/s alone      {:>12.0}", ratio.alone);
    say!("accesses/s durable    {:>12.0}", ratio.durable);
    say!("durability ratio      {:>12.3}", ratio.durable / ratio.alone);
    say!(
        "recovery              {:>12.3} s ({} keys, {} epochs, {} batches)",
        recovery.seconds,
        recovery.keys,
        recovery.epochs,
        recovery.batches
    );
    if args.json {
        say!("{figures}");
    }
    Ok(())
}

/// A folder for registers, removed in the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn make(args: &BenchRecoveryArgs) -> Result<Self> {
        let name = format!("fogbank-bench-{}", std::process::id());
        let path = args.folder.clone().unwrap_or_else(std::env::temp_dir).join(name);
        std::fs::create_dir_all(&path)
            .map_err(|e| Error::CannotUse(format!("{}: {e}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // in nobody's way if it stays
    }
}

fn register(args: &BenchRecoveryArgs, path: &Path) -> Result<Arc<dyn Register>> {
    Ok(match args.register {
        BenchRegister::Memory => Arc::new(MemoryRegister::default()),
        BenchRegister::File => Arc::new(FileRegister::new(path)),
    })
}

async fn seconds_a_bump(clock: &Arc<dyn Clock>, register: &dyn Register) -> Result<f64> {
    let value = |sequence| RegisterValue {
        store: fogbank_seal::StoreId([1; 16]),
        opening: 1,
        sequence,
        commit: [0; 32],
        epoch: 0,
        place: 0,
        journal: [0; 32],
    };
    let mut known = None;
    let started = clock.now();
    for bump in 0..BUMPS {
        let next = value(bump.into());
        register.write(known, next).await?;
        known = Some(next);
    }
    Ok((clock.now() - started) as f64 / 1e9 / f64::from(BUMPS))
}

/// Accesses a second.
struct Ratio {
    alone: f64,
    durable: f64,
}

async fn throughput(
    args: &BenchRecoveryArgs,
    config: &StoreConfig,
    clock: &Arc<dyn Clock>,
    folder: &Path,
) -> Result<Ratio> {
    let randomness = Randomness::repeatable(args.seed);
    let far = |part| {
        let stream = randomness.split(part).stream(Purpose::Faults);
        Arc::new(Delay::new(MemoryStore::new(), clock.clone(), Link::instant(), stream))
    };
    let (near, other) = (far(1), far(2));
    let mut settings = config.ring_settings();
    (settings.log_epochs, settings.keep_superseded) = (false, false);
    let engine = RingEngine::create(near.clone(), keys()?, settings, &randomness).await?;
    let mut alone = Driver::new(engine, None, config, (clock, &randomness));
    let register = register(args, &folder.join("register"))?;
    let (durable, engine) = Durable::create(other.clone(), register, config, &randomness).await?;
    let mut durable = Driver::new(engine, Some(durable), config, (clock, &randomness));
    say_error!("loading {} records twice", config.capacity);
    for driver in [&mut alone, &mut durable] {
        driver.load().await?;
        driver.warm_up().await?;
    }
    let link = args.link.link()?;
    for store in [&near, &other] {
        store.set_link(link);
    }
    for driver in [&mut alone, &mut durable] {
        driver.pace(Duration::from_millis(config.interval_ms));
    }
    say_error!("measuring in {} rounds of {} s each", args.rounds, args.seconds);
    let (mut of_alone, mut of_durable) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        for (driver, figures) in [(&mut alone, &mut of_alone), (&mut durable, &mut of_durable)] {
            let measured = driver.measure(args.seconds).await?;
            figures.push(measured.stats.accesses as f64 / measured.wall_s);
        }
    }
    let [alone, durable] = [of_alone, of_durable].map(|rates| Spread::of(rates).median);
    Ok(Ratio { alone, durable })
}

/// What a recovery came to.
pub struct Recovered {
    /// What it took.
    pub seconds: f64,
    /// Keys that were stored.
    pub keys: u32,
    /// Epochs replayed since the last full checkpoint.
    pub epochs: usize,
    /// Batches of the open epoch that were repeated.
    pub batches: usize,
}

/// A proxy that is filled, cut off and opened again.
pub struct Cut<'a> {
    /// What it is made of.
    pub shape: &'a ShapeArgs,
    /// The same, derived.
    pub config: &'a StoreConfig,
    /// The time.
    pub clock: &'a Arc<dyn Clock>,
}

impl Cut<'_> {
    /// A recovery across `link`, the trusted side in a folder that goes with it.
    ///
    /// # Errors
    /// [`Error::CheckFailed`] if a value is not the one written.
    pub async fn recover(&self, link: Link) -> Result<Recovered> {
        let folder = tempfile::tempdir()
            .map_err(|e| Error::CannotUse(format!("no folder for a run: {e}")))?;
        self.recover_in(folder.path(), link).await
    }

    async fn recover_in(&self, folder: &Path, link: Link) -> Result<Recovered> {
        let Self { shape, config, clock } = *self;
        let keys = config.capacity;
        // Stores hold back a little room for what makes room.
        let shape = ShapeArgs {
            interval_ms: Some(0),
            capacity: Some(Ticker::capacity_for(keys)),
            ..shape.clone()
        };
        let config = StoreConfig::derive(&shape, false)?;
        let cloud = Arc::new(MemoryStore::new());
        let breaks = Arc::new(Faulty::new(cloud.clone()));
        let (armed, appended) = (Arc::new(AtomicBool::new(false)), AtomicU32::new(0));
        let is_armed = armed.clone();
        breaks.on_call(move |call, _| {
            if !is_armed.load(Ordering::Relaxed) {
                return None;
            }
            let appends = matches!(call, Call::BlobPut(name, ..) if name.starts_with("journal/"));
            let appended = appended.fetch_add(appends.into(), Ordering::Relaxed);
            (appended >= CUT_BATCH).then_some(Fault::Before)
        });
        let place = Place::local(folder.join("proxy"));
        let open = |store: Arc<dyn Store>| {
            let options = OpenOptions::new(place.clone()).shape(shape.clone());
            options.clock(clock.clone()).on(store)
        };
        let opened = open(breaks).open().await?;
        say_error!("filling a proxy with {keys} keys");
        fill(&opened, keys, config.write_batch as u32).await?;
        // The last epoch before a full checkpoint.
        let every = config.vault_settings()?.full_every;
        while opened.proxy().epoch() % every != every - 1 {
            tokio::task::yield_now().await;
        }
        armed.store(true, Ordering::Relaxed);
        opened.proxy().stopped().await;
        drop(opened);
        let stream = Randomness::repeatable(0).stream(Purpose::Faults);
        let far = Arc::new(Delay::new(cloud, clock.clone(), link, stream));
        let started = clock.now();
        let opened = open(far.clone()).open().await?;
        let seconds = (clock.now() - started) as f64 / 1e9;
        far.set_link(Link::instant());
        let was = opened.recovered();
        check(&opened, keys).await?;
        opened.close().await?;
        Ok(Recovered { seconds, keys, epochs: was.epochs_replayed, batches: was.batches_repeated })
    }
}

fn key(number: u32) -> Key {
    Key::new(b"", format!("user{number:016}").as_bytes())
}

async fn fill(opened: &Opened, keys: u32, at_once: u32) -> Result<()> {
    let session = opened.proxy().session();
    let mut first = 0;
    while first < keys {
        let mut answers = Vec::new();
        let last = keys.min(first + at_once);
        let of_a_program = FILL.min(at_once).max(1);
        for from in (first..last).step_by(of_a_program as usize) {
            let to = last.min(from + of_a_program);
            answers.push(session.submit(move |view: &mut View<'_>| {
                for number in from..to {
                    view.put(&key(number), number.to_le_bytes().to_vec().into(), 0)?;
                }
                Ok(())
            }));
        }
        for answer in answers {
            answer.await?;
        }
        first = last;
    }
    Ok(())
}

async fn check(opened: &Opened, keys: u32) -> Result<()> {
    for number in [0, keys / 2, keys - 1] {
        let record = opened.proxy().transact(|txn| async move { txn.get(&key(number)).await });
        if record.await?.is_none_or(|record| record.value[..] != number.to_le_bytes()) {
            return Err(Error::CheckFailed(format!("key {number} is not what was written")));
        }
    }
    Ok(())
}
