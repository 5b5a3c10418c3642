//! Whatever many clients do at once, what they saw is strictly serializable.
//!
//! `FOGBANK_SIM_SCALE` multiplies the number of runs, `FOGBANK_SIM_SEED` shifts their seeds.

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, Randomness, SystemClock};
use fogbank_oram::ring::{RingEngine, RingSettings};
use fogbank_oram::{BatchEngine, BatchShape};
use fogbank_seal::{KeyRing, MasterKey, Salt, StoreId};
use fogbank_sim::driver::{Cheat, run};
use fogbank_sim::history::{Class, History, Op, Outcome, Promise, Report, Seen};
use fogbank_sim::memory::{Calls, Lie, MemoryEngine};
use fogbank_sim::workload::Knobs;
use fogbank_store::MemoryStore;
use fogbank_txn::{Error, Settings};

const SHAPE: BatchShape =
    BatchShape { capacity: 20_000, value_bytes: 64, read_batch: 80, write_batch: 160 };

/// What clients observed in one run, and how the proxy used the engine.
struct Found {
    history: History,
    report: Report,
    calls: Calls,
}

/// What is run.
struct Setting {
    shape: BatchShape,
    settings: Settings,
    knobs: Knobs,
}

fn setting() -> Setting {
    let settings = Settings {
        read_batches: 4,
        interval: Duration::from_millis(5),
        slack: Duration::from_micros(200),
        ..Settings::default()
    };
    Setting { shape: SHAPE, settings, knobs: Knobs::default() }
}

/// One run in virtual time over an engine; an error if the proxy noticed by itself that something
/// was wrong.
fn try_run<E: BatchEngine + 'static>(
    setting: &Setting,
    cheat: Cheat,
    seed: u64,
    engine: impl AsyncFnOnce(Arc<dyn Clock>) -> E,
) -> Result<History, Error> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::starting_at(1_700_000_000_000));
        let engine = engine(clock.clone()).await;
        let (settings, knobs) = (setting.settings.clone(), setting.knobs);
        let ran = run(Box::new(engine), settings, clock, knobs, cheat, seed).await?;
        Ok(ran.history)
    })
}

/// The same over an engine in memory.
fn try_simulate(setting: &Setting, cheat: Cheat, lie: Lie, seed: u64) -> Result<Found, Error> {
    let mut calls = Arc::default();
    let history = try_run(setting, cheat, seed, async |clock| {
        let engine = MemoryEngine::new(setting.shape, clock, 300_000, lie);
        calls = engine.calls();
        engine
    })?;
    let report = history.check(Promise::Strict);
    let calls: Calls = calls.lock().clone();
    Ok(Found { history, report, calls })
}

fn simulate(setting: &Setting, cheat: Cheat, seed: u64) -> Found {
    try_simulate(setting, cheat, Lie::Honest, seed).expect("the proxy runs")
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// Runs a setting over many seeds until `transactions` were run; nothing may be found.
#[track_caller]
fn survive(name: &str, transactions: usize, setting: &Setting) {
    let transactions = transactions * number("FOGBANK_SIM_SCALE", 1) as usize;
    let (mut total, mut committed) = (0, 0);
    let mut seed = number("FOGBANK_SIM_SEED", 1) * 1_000;
    while total < transactions {
        seed += 1;
        let found = simulate(setting, Cheat::Honest, seed);
        assert!(found.report.is_clean(), "{name}, seed {seed}: {}", found.report);
        let batches = setting.settings.read_batches as u32;
        assert!(found.calls.are_regular(batches), "{name}, seed {seed}: {:?}", found.calls);
        total += found.report.transactions;
        committed += found.report.committed;
    }
    println!("{name}: {total} transactions, {committed} committed");
    assert!(committed * 3 > total, "{name}: only {committed} of {total} committed");
}

#[test]
fn a_mixed_load_is_serializable() {
    let knobs = Knobs { transactions: 500, ..Knobs::default() };
    survive("mixed", 60_000, &Setting { knobs, ..setting() });
}

#[test]
fn a_hot_spot_is_serializable() {
    let knobs = Knobs { ranges: 1, members: 3, generation: 300, appends: 60, ..Knobs::default() };
    survive("hot", 25_000, &Setting { knobs, ..setting() });
}

#[test]
fn scans_and_deletes_are_serializable() {
    let knobs = Knobs { scans: 40, deletes: 12, generation: 400, ..Knobs::default() };
    survive("phantoms", 30_000, &Setting { knobs, ..setting() });
}

#[test]
fn interactive_transactions_are_serializable() {
    let knobs = Knobs { interactive: 95, clients: 40, ..Knobs::default() };
    survive("interactive", 20_000, &Setting { knobs, ..setting() });
}

#[test]
fn full_batches_are_serializable() {
    let shape = BatchShape { read_batch: 12, write_batch: 14, ..SHAPE };
    let knobs = Knobs { ops: 4, transactions: 100, ..Knobs::default() };
    survive("tight", 10_000, &Setting { shape, knobs, ..setting() });
}

#[test]
fn back_to_back_epochs_are_serializable() {
    let settings = Settings { interval: Duration::ZERO, ..setting().settings };
    let knobs = Knobs { vanish: 60, ..Knobs::default() };
    survive("back to back", 10_000, &Setting { settings, knobs, ..setting() });
}

/// Later batches are frozen before the values of earlier ones have come.
#[test]
fn batches_in_flight_are_serializable() {
    for in_flight in [2, 4] {
        let settings = Settings { in_flight, read_batches: 8, ..setting().settings };
        let knobs = Knobs { interactive: 50, ..Knobs::default() };
        survive("in flight", 8_000, &Setting { settings, knobs, ..setting() });
    }
}

/// The whole of it: transactions over the ring engine over a cloud in memory.
#[test]
fn transactions_over_the_ring_engine_are_serializable() {
    let shape = BatchShape { capacity: 3_000, read_batch: 40, write_batch: 80, ..SHAPE };
    let knobs = Knobs { transactions: 50, clients: 20, generation: 300, ..Knobs::default() };
    for seed in 1..=2 * number("FOGBANK_SIM_SCALE", 1) {
        let settings = Settings { in_flight: seed as usize % 3, ..setting().settings };
        let setting = Setting { shape, settings, knobs };
        let history = try_run(&setting, Cheat::Honest, seed, async |_| {
            let ring = RingSettings::new(shape, setting.settings.read_batches);
            let master = MasterKey::from_bytes(&mut [7; 32]);
            let keys = KeyRing::derive(&master, StoreId([1; 16]), &[Salt([seed as u8; 16])]);
            let (keys, cloud) = (keys.expect("keys"), MemoryStore::default());
            let random = Randomness::repeatable(seed).split(u64::MAX);
            let made = RingEngine::create(Arc::new(cloud), Arc::new(keys), ring, &random).await;
            made.expect("the engine is made")
        });
        history.expect("the proxy runs").check(Promise::Strict).assert_clean();
    }
}

/// Virtual time and one seed: the same run to the last bit.
fn repeats(knobs: Knobs) {
    let setting = Setting { knobs: Knobs { transactions: 60, ..knobs }, ..setting() };
    let [a, b] = [(); 2].map(|()| simulate(&setting, Cheat::Honest, 7).history);
    let differ = a.transactions.iter().zip(&b.transactions).position(|(a, b)| a != b);
    assert_eq!(differ, None, "the first transaction that differs");
    assert_eq!(a, b);
    assert_ne!(a, simulate(&setting, Cheat::Honest, 8).history);
}

#[test]
fn a_seed_repeats_its_programs() {
    repeats(Knobs { interactive: 0, ..Knobs::default() });
}

#[test]
fn a_seed_repeats_its_interactive_transactions() {
    repeats(Knobs { interactive: 100, ..Knobs::default() });
}

#[test]
fn clients_without_isolation_are_found_out() {
    let found = simulate(&setting(), Cheat::Split, 1).report.found;
    assert!(found.contains_key(&Class::GSingle) || found.contains_key(&Class::G2Item), "{found:?}");
}

/// One reply among thousands comes from a cache that missed the last write.
#[test]
fn one_stale_read_is_found_out() {
    let knobs = Knobs { transactions: 60, ..Knobs::default() };
    let honest = simulate(&Setting { knobs, ..setting() }, Cheat::Honest, 1).history;
    let late = (honest.transactions.len() / 2..honest.transactions.len()).step_by(7);
    let mut planted = 0;
    for at in late {
        let mut history = honest.clone();
        if make_stale(&mut history, at) {
            planted += 1;
            assert!(
                !history.check(Promise::Strict).is_clean(),
                "T{at}'s stale read went unnoticed"
            );
        }
    }
    assert!(planted > 3, "only {planted} reads were there to falsify");
}

/// Takes the last value off a read of a committed transaction, if it was written well before.
fn make_stale(history: &mut History, at: usize) -> bool {
    let written = |value: u64| {
        let wrote = |op: &Op| matches!(op, Op::Append { value: v, .. } if *v == value);
        let writer = history.transactions.iter().find(|t| t.ops.iter().any(wrote));
        writer.filter(|t| t.outcome == Outcome::Committed).map(|t| t.ended)
    };
    let reader = &history.transactions[at];
    let lists = reader.ops.iter().enumerate().filter_map(|(n, op)| match op {
        Op::Read { seen: Seen::List(list), .. } => list.last().map(|last| (n, *last)),
        _ => None,
    });
    let mut old = lists.filter(|(_, last)| written(*last).is_some_and(|t| t < reader.started));
    let Some((n, _)) = old.next().filter(|_| reader.outcome == Outcome::Committed) else {
        return false;
    };
    if let Op::Read { seen, .. } = &mut history.transactions[at].ops[n] {
        match seen {
            Seen::List(list) if list.len() > 1 => drop(list.pop()),
            _ => *seen = Seen::NotYet,
        }
    }
    true
}

#[test]
fn an_engine_that_forgets_is_found_out() {
    for lie in [Lie::StaleRead(500), Lie::LostWrite(500)] {
        // A write that nobody reads again before it is written anew is lost unnoticed, so not any
        // seed will do.
        let noticed = |seed| match try_simulate(&setting(), Cheat::Honest, lie, seed) {
            Ok(found) => !found.report.is_clean(),
            Err(_) => true,
        };
        assert!((1..=4).any(noticed), "{lie:?} went unnoticed");
    }
}
