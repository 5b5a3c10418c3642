//! `fogbank bench engine`: epochs of distinct uniform real keys through the engine alone.
//!
//! 1. Load: every address is written once, in write batches.
//! 2. Warm-up: epochs until the tree is in its steady state (every path evicted at least once).
//! 3. Measure: for the given seconds, R read batches of distinct real addresses and one write batch
//!    an epoch, across the link that the flags describe; every value read is compared with what was
//!    last written. With `--durable` the epochs are journalled and committed as a proxy does it.

use std::sync::Arc;
use std::time::Duration;

use fogbank_durable::MemoryRegister;
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_oram::ring::{EpochTiming, RingEngine, RingSettings};
use fogbank_process::{say, say_error};
use fogbank_seal::{KeyRing, MasterKey, Salt, StoreId};
use fogbank_store::trace::{PublicConfig, TraceClock};
use fogbank_store::{Delay, Link, Store};
use serde_json::json;

use super::counted::{Counted, Traffic};
use super::driver::{Driver, LOAD_BATCH, Measured, default_shape};
use super::durable::Durable;
use super::raw;
use crate::args::{BenchEngineArgs, Engine};
use fogbank::config::StoreConfig;
use fogbank::plan::bound;
use fogbank::recording::Recording;
use fogbank::side_check::check_apart;
use fogbank::{Error, Result, across_a_link, open_store};

/// Runs the benchmark and prints its figures.
///
/// # Errors
/// [`Error::CheckFailed`] if a value read is not the one written.
pub async fn run(mut args: BenchEngineArgs) -> Result<()> {
    let Engine::Ring = args.engine;
    check_apart("--record", args.record.as_deref(), &args.store)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    default_shape(&mut args.shape);
    let bare = open_store(&args.store, &clock).await?;
    let config = {
        let link = across_a_link(&args.store);
        StoreConfig::derive_at(&args.shape, bare.xor().is_some(), link)?
    };
    let randomness = Randomness::repeatable(args.seed);
    let mut settings = config.ring_settings();
    settings.epoch_buffer = !args.no_epoch_buffer;
    // The engine alone: nothing is kept for a recovery.
    (settings.log_epochs, settings.keep_superseded) = (false, false);
    // The load needs write batches even where the epochs measured have none.
    settings.shape.write_batch = config.write_batch.max(LOAD_BATCH);
    let head = head(&args, &config, &settings)?;
    let link = args.link.link()?;
    let far = Arc::new(Delay::new(
        bare,
        clock.clone(),
        Link::instant(),
        randomness.split(1).stream(Purpose::Faults),
    ));
    let (store, recording) = Recording::start(args.record.as_deref(), far.clone(), &head, &clock)?;
    let counted = Arc::new(Counted::new(store));
    let witness = Arc::new(raw::Witness::new(counted.clone() as Arc<dyn Store>));
    let store: Arc<dyn Store> = witness.clone();
    let mut driver = if args.durable {
        let register = Arc::new(MemoryRegister::default());
        let (durable, engine) = Durable::create(store, register, &config, &randomness).await?;
        Driver::new(engine, Some(durable), &config, (&clock, &randomness))
    } else {
        let engine = RingEngine::create(store, keys()?, settings, &randomness).await?;
        Driver::new(engine, None, &config, (&clock, &randomness))
    };
    say_error!("loading {} records", config.capacity);
    driver.load().await?;
    driver.warm_up().await?;
    say_error!("measuring for {} s", args.seconds);
    far.set_link(link);
    driver.pace(Duration::from_millis(config.interval_ms));
    let before = counted.traffic();
    let mut measured = driver.measure(args.seconds).await?;
    let traffic = counted.traffic().since(before);
    let is_bare = args.link.is_instant() && !args.durable;
    if is_bare && !args.store.starts_with("memory:") && !config.xor {
        measured.raw_s = Some(driver.raw_seconds_per_epoch(&witness).await?);
    }
    if let Some(recording) = recording {
        recording.finish()?;
    }
    report(&args, &config, &clock, (&measured, traffic));
    Ok(())
}

/// What the head of a trace says.
fn head(
    args: &BenchEngineArgs,
    config: &StoreConfig,
    settings: &RingSettings,
) -> Result<PublicConfig> {
    if args.durable {
        return config.public(TraceClock::Real, false, config.encode().len());
    }
    let (interval, slack, quantum) = Default::default();
    let pace = EpochTiming { interval, slack, quantum, in_flight: config.in_flight, pauses: false };
    Ok(settings.public(TraceClock::Real, pace, None)?)
}

/// The keys of a store that nobody keeps.
pub fn keys() -> Result<Arc<KeyRing>> {
    let ring =
        KeyRing::derive(&MasterKey::from_bytes(&mut [7; 32]), StoreId([1; 16]), &[Salt([2; 16])]);
    ring.map(Arc::new).ok_or_else(|| Error::Bug("no opening".into()))
}

fn report(
    args: &BenchEngineArgs,
    config: &StoreConfig,
    clock: &Arc<dyn Clock>,
    (m, traffic): (&Measured, Traffic),
) {
    let cell_bytes = fogbank_oram::geometry::cell_bytes(config.value_size);
    let moved = bound::Moved {
        opened: (m.stats.cells_received / m.epochs) as usize,
        sealed: (m.stats.cells_written / m.epochs) as usize,
        cell_bytes,
    };
    let bound_s = bound::seconds(clock, moved, 7);
    let epoch_s = m.wall_s / m.epochs as f64;
    let bytes = (traffic.read + traffic.written) as f64;
    let figures = json!({
        "accesses_per_s": m.stats.accesses as f64 / m.wall_s,
        "cells_per_access": m.stats.cells_per_access(),
        "cell_bytes_per_access": m.stats.cell_bytes_per_access(),
        // Journal and checkpoints too, if there are any.
        "bytes_per_access": bytes / m.stats.accesses.max(1) as f64,
        "read_mb_s": traffic.read as f64 / m.wall_s / 1e6,
        "written_mb_s": traffic.written as f64 / m.wall_s / 1e6,
        "calls_per_epoch": traffic.calls as f64 / m.epochs as f64,
        "bound_ratio": bound_s / epoch_s,
        "dummy_share": m.stats.dummy_share(),
        "stash_max": m.stats.secret.stash_max,
        "epochs": m.epochs,
        "epoch_ms": epoch_s * 1e3,
        "bound_ms": bound_s * 1e3,
        "raw_epoch_ms": m.raw_s.map(|s| s * 1e3),
        "raw_ratio": m.raw_s.map(|s| s / epoch_s),
    });
    say!("accesses/s        {:>12.0}", m.stats.accesses as f64 / m.wall_s);
    say!("cells/access      {:>12.2}", m.stats.cells_per_access());
    say!("bytes/access      {:>12.0}", bytes / m.stats.accesses.max(1) as f64);
    say!(
        "read, written     {:>12.1} MB/s, {:.1} MB/s",
        traffic.read as f64 / m.wall_s / 1e6,
        traffic.written as f64 / m.wall_s / 1e6
    );
    say!("epoch             {:>12.2} ms", epoch_s * 1e3);
    say!("bound             {:>12.2} ms (AEAD of the same cells and one copy)", bound_s * 1e3);
    say!("bound ratio       {:>12.3}", bound_s / epoch_s);
    if let Some(raw_s) = m.raw_s {
        say!("same calls, bare  {:>12.2} ms an epoch", raw_s * 1e3);
        say!("ratio to that     {:>12.3}", raw_s / epoch_s);
    }
    if args.json {
        say!("{figures}");
    }
}
