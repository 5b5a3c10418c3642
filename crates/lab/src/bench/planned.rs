//! `fogbank plan` against the engine: the bytes of real epochs, and their time across links in
//! virtual time.

use std::sync::Arc;
use std::time::Duration;

use fogbank::args::ShapeArgs;
use fogbank::config::StoreConfig;
use fogbank::link::LinkArgs;
use fogbank::plan::Plan;
use fogbank::plan::time::Machine;
use fogbank_durable::MemoryRegister;
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_store::{Delay, Link, MemoryStore, OrderedGridStore, Store};

use super::{counted::Counted, driver::Driver, durable::Durable};

/// Costs no time at all, as in virtual time.
const IDEAL: Machine = Machine::IDEAL;

fn config(edit: impl FnOnce(&mut ShapeArgs)) -> StoreConfig {
    let mut shape = ShapeArgs {
        capacity: Some(3_000),
        value_size: Some(bytesize::ByteSize::b(64)),
        read_batches: Some(4),
        batch: Some(48),
        write_batch: Some(48),
        interval_ms: Some(0),
        cache: Some(bytesize::ByteSize::b(0)),
        ..ShapeArgs::default()
    };
    edit(&mut shape);
    StoreConfig::derive(&shape, true).unwrap()
}

/// What epochs of a full store really move and take, at the far end of `link`.
struct Seen {
    bytes_per_access: f64,
    cells_per_access: f64,
    accesses_per_s: f64,
}

async fn measure(config: &StoreConfig, link: Link, seconds: f64) -> Seen {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let randomness = Randomness::repeatable(5);
    let stream = randomness.stream(Purpose::Faults);
    let far = Arc::new(Delay::new(MemoryStore::new(), clock.clone(), Link::instant(), stream));
    let counted = Arc::new(Counted::new(far.clone() as Arc<dyn Store>));
    let register = Arc::new(MemoryRegister::default());
    let quantum = config.departure_quantum();
    let paced = Arc::new(OrderedGridStore::new(counted.clone(), clock.clone(), quantum));
    let made = Durable::create(paced, register, config, &randomness).await;
    let (durable, engine) = made.unwrap();
    let mut driver = Driver::new(engine, Some(durable), config, (&clock, &randomness));
    driver.load().await.unwrap();
    driver.warm_up().await.unwrap();
    far.set_link(link);
    driver.pace(Duration::from_millis(config.interval_ms));
    let before = counted.traffic();
    let measured = driver.measure(seconds).await.unwrap();
    let moved = counted.traffic().since(before);
    let accesses = measured.stats.accesses as f64;
    Seen {
        bytes_per_access: (moved.read + moved.written) as f64 / accesses,
        cells_per_access: measured.stats.cells_per_access(),
        accesses_per_s: accesses / measured.wall_s,
    }
}

fn assert_near(what: &str, planned: f64, seen: f64, tolerance: f64) {
    let off = (planned / seen - 1.0).abs();
    assert!(off <= tolerance, "{what}: planned {planned:.2}, seen {seen:.2}");
}

#[tokio::test(start_paused = true)]
async fn bytes_and_cells_are_those_of_the_engine() {
    let small_buckets = |shape: &mut ShapeArgs| {
        (shape.bucket_reals, shape.capacity) = (Some(4), Some(500));
    };
    let cached = |shape: &mut ShapeArgs| shape.cache = Some(bytesize::ByteSize::kib(64));
    let few_writes = |shape: &mut ShapeArgs| {
        (shape.read_batches, shape.write_batch) = (Some(7), Some(5));
    };
    let combined = |shape: &mut ShapeArgs| shape.xor = Some(fogbank::args::Xor::On);
    let tiny = |shape: &mut ShapeArgs| {
        (shape.batch, shape.write_batch, shape.bucket_reals) = (Some(3), Some(2), Some(16));
    };
    for (name, config) in [
        ("plain", config(|_| ())),
        ("small buckets", config(small_buckets)),
        ("cached", config(cached)),
        ("few writes", config(few_writes)),
        ("combined", config(combined)),
        ("tiny", config(tiny)),
    ] {
        let link = LinkArgs::of_round_trip(10.0);
        let seen = measure(&config, link.link().unwrap(), 60.0).await;
        let plan = Plan::of(&config, &link, &IDEAL).unwrap();
        assert_near(name, plan.cells_per_access(&config), seen.cells_per_access, 0.03);
        assert_near(name, plan.bytes_per_access(&config), seen.bytes_per_access, 0.03);
    }
}

/// Three links and two sizes, back to back and on a grid. Round trips are of whole milliseconds,
/// which is what virtual time counts in.
#[tokio::test(start_paused = true)]
async fn throughput_is_that_of_the_engine() {
    let narrow =
        LinkArgs { rtt_ms: 10.0, up_mb_s: Some(2.0), down_mb_s: Some(4.0), ..LinkArgs::default() };
    let slow = LinkArgs { rtt_ms: 40.0, read_ms: 2.0, write_ms: 5.0, ..LinkArgs::default() };
    for link in [LinkArgs::of_round_trip(4.0), narrow, slow] {
        for capacity in [1_000, 4_000] {
            for interval in [0, 50] {
                let config = config(|shape| {
                    (shape.capacity, shape.interval_ms) = (Some(capacity), Some(interval));
                });
                let seen = measure(&config, link.link().unwrap(), 60.0).await;
                let plan = Plan::of(&config, &link, &IDEAL).unwrap();
                let planned = plan.accesses / plan.epoch.total_s;
                let what = format!("{link:?}, {capacity}, {interval}");
                assert_near(&what, planned, seen.accesses_per_s, 0.1);
            }
        }
    }
}

/// Batches in flight, and windows that do not all fit. Some batches are a window longer than
/// others, and then a whole round trip, where the plan knows the mean only.
#[tokio::test(start_paused = true)]
async fn throughput_is_that_of_messages_under_way() {
    for (in_flight, windows, rtt_ms, value_kib) in
        [(1, 1, 10.0, 4), (1, 3, 40.0, 4), (2, 6, 10.0, 1), (4, 2, 40.0, 4), (3, 6, 40.0, 1)]
    {
        for interval in [0, 30] {
            let config = config(|shape| {
                (shape.in_flight, shape.windows) = (Some(in_flight), Some(windows));
                shape.value_size = Some(bytesize::ByteSize::kib(value_kib));
                shape.interval_ms = Some(interval);
            });
            let link = LinkArgs::of_round_trip(rtt_ms);
            let seen = measure(&config, link.link().unwrap(), 60.0).await;
            let plan = Plan::of(&config, &link, &IDEAL).unwrap();
            let planned = plan.accesses / plan.epoch.total_s;
            let what = format!("{in_flight}, {windows}, {rtt_ms} ms, {interval}");
            assert_near(&what, planned, seen.accesses_per_s, 0.15);
        }
    }
}

/// The canary: the test of the bytes sees a bucket less in ten.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "a bucket less")]
async fn a_wrong_model_is_seen() {
    let config = config(|_| ());
    let link = LinkArgs::of_round_trip(10.0);
    let seen = measure(&config, link.link().unwrap(), 60.0).await;
    let mut plan = Plan::of(&config, &link, &IDEAL).unwrap();
    plan.traffic.buckets *= 0.9;
    assert_near("a bucket less", plan.bytes_per_access(&config), seen.bytes_per_access, 0.03);
}

#[test]
fn an_epoch_is_its_batches_its_commit_and_the_deletions() {
    let config = config(|_| ()); // one batch at a time
    let epoch = Plan::of(&config, &LinkArgs::of_round_trip(4.0), &IDEAL).unwrap().epoch;
    let deletions_s =
        epoch.total_s - config.read_batches as f64 * epoch.read_batch_s - epoch.commit_s;
    assert!((deletions_s - 0.004).abs() < 1e-9, "{epoch:?}");
}
