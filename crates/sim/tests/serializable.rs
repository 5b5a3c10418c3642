//! Whatever many clients do at once, what they saw is strictly serializable.
//!
//! `FOGBANK_SIM_SCALE` multiplies the number of runs, `FOGBANK_SIM_SEED` shifts their seeds.

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, SystemClock};
use fogbank_oram::{BatchEngine, BatchShape};
use fogbank_sim::driver::{Cheat, run};
use fogbank_sim::history::{Class, Promise, Report};
use fogbank_sim::memory::{Calls, Lie, MemoryEngine};
use fogbank_sim::workload::Knobs;
use fogbank_txn::Settings;

const SHAPE: BatchShape =
    BatchShape { capacity: 20_000, value_bytes: 64, read_batch: 80, write_batch: 160 };

/// What one run found, and how the proxy used the engine.
struct Found {
    report: Report,
    calls: Calls,
}

fn settings() -> Settings {
    Settings {
        read_batches: 4,
        interval: Duration::from_millis(5),
        slack: Duration::from_micros(200),
        ..Settings::default()
    }
}

/// One run in virtual time.
fn simulate(
    shape: BatchShape,
    settings: Settings,
    knobs: Knobs,
    cheat: Cheat,
    lie: Lie,
    seed: u64,
) -> Found {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::starting_at(1_700_000_000_000));
        let engine = MemoryEngine::new(shape, clock.clone(), 300_000, lie);
        let calls = engine.calls();
        let engine: Box<dyn BatchEngine> = Box::new(engine);
        let ran = run(engine, settings, clock, knobs, cheat, seed).await.expect("the proxy runs");
        let report = ran.history.check(Promise::Strict);
        let calls = calls.lock().expect("nobody panicked").clone();
        Found { report, calls }
    })
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// Runs knobs over many seeds until `transactions` were run; nothing may be found.
#[track_caller]
fn survive(name: &str, transactions: usize, shape: BatchShape, settings: Settings, knobs: Knobs) {
    let transactions = transactions * number("FOGBANK_SIM_SCALE", 1) as usize;
    let (mut total, mut committed) = (0, 0);
    let mut seed = number("FOGBANK_SIM_SEED", 1) * 1_000;
    while total < transactions {
        seed += 1;
        let found = simulate(shape, settings.clone(), knobs, Cheat::Honest, Lie::Honest, seed);
        assert!(found.report.is_clean(), "{name}, seed {seed}: {}", found.report);
        let batches = settings.read_batches as u32;
        assert!(found.calls.are_regular(batches), "{name}, seed {seed}: {:?}", found.calls);
        total += found.report.transactions;
        committed += found.report.committed;
    }
    println!("{name}: {total} transactions, {committed} committed");
    assert!(committed * 3 > total, "{name}: only {committed} of {total} committed");
}

#[test]
fn a_mixed_load_is_serializable() {
    survive("mixed", 60_000, SHAPE, settings(), Knobs { transactions: 500, ..Knobs::default() });
}

#[test]
fn a_hot_spot_is_serializable() {
    let knobs = Knobs { ranges: 1, members: 3, generation: 300, appends: 60, ..Knobs::default() };
    survive("hot", 25_000, SHAPE, settings(), knobs);
}

#[test]
fn scans_and_deletes_are_serializable() {
    let knobs = Knobs { scans: 40, deletes: 12, generation: 400, ..Knobs::default() };
    survive("phantoms", 30_000, SHAPE, settings(), knobs);
}

#[test]
fn full_batches_are_serializable() {
    let shape = BatchShape { read_batch: 12, write_batch: 14, ..SHAPE };
    let knobs = Knobs { ops: 4, transactions: 100, ..Knobs::default() };
    survive("tight", 10_000, shape, settings(), knobs);
}

#[test]
fn back_to_back_epochs_are_serializable() {
    let settings = Settings { interval: Duration::ZERO, ..settings() };
    survive("back to back", 10_000, SHAPE, settings, Knobs { vanish: 60, ..Knobs::default() });
}

#[test]
fn clients_without_isolation_are_found_out() {
    let knobs = Knobs { transactions: 60, ..Knobs::default() };
    let found = simulate(SHAPE, settings(), knobs, Cheat::Split, Lie::Honest, 1);
    let all = &found.report.found;
    assert!(all.contains_key(&Class::GSingle) || all.contains_key(&Class::G2Item), "{:?}", all);
}

#[test]
#[ignore = "the stand-in for the proxy does not read from the engine"]
fn an_engine_that_forgets_is_found_out() {
    for lie in [Lie::StaleRead(500), Lie::LostWrite(500)] {
        let found = simulate(SHAPE, settings(), Knobs::default(), Cheat::Honest, lie, 1);
        assert!(!found.report.is_clean(), "{lie:?} went unnoticed");
    }
}
