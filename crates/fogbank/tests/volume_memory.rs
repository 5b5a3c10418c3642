//! What a plan says of the memory and of the bytes in the cloud of an immediate engine, held
//! against engines that were asked for blocks.
//!
//! Each engine has a process of its own, which tells the most memory that it ever held.

use std::process::Command;
use std::sync::Arc;

use fogbank_durable::{MemoryRegister, Opening, Recovered};
use fogbank_env::{Purpose, Randomness, SystemClock};
use fogbank_oram::immediate::Parts;
use fogbank_oram::partition::{PartitionEngine, PartitionSettings};
use fogbank_oram::tao::{TaoEngine, TaoSettings};
use fogbank_oram::{Access, Address, ImmediateEngine, ImmediateShape, ProxyMemory};
use fogbank_seal::MasterKey;
use fogbank_store::{DepartureGrid, FileStore, MemoryStore, Store};
use rand_core::Rng;

/// Small blocks, so that what is known of them is most of the memory.
const MANY: ImmediateShape = ImmediateShape { capacity: 1 << 21, value_bytes: 16 };
const FEW: ImmediateShape = ImmediateShape { capacity: 1 << 10, value_bytes: 64 };
/// What a process takes anyway.
const OF_ANY_PROCESS: f64 = 16e6;
const ENGINE: &str = "FOGBANK_TEST_ENGINE";

fn tao(shape: ImmediateShape) -> TaoSettings {
    TaoSettings::new(shape)
}

fn partition(shape: ImmediateShape) -> PartitionSettings {
    PartitionSettings::new(shape, 2).expect("it does")
}

/// Opens an engine on a new store, or on the one of this register.
macro_rules! opened {
    ($engine:ty, $settings:expr, $store:expr) => {
        opened!($engine, $settings, $store, Arc::new(MemoryRegister::default()))
    };
    ($engine:ty, $settings:expr, $store:expr, $register:expr) => {{
        let (settings, store, register) = ($settings, $store, $register);
        let (master, random) = (MasterKey::from_bytes(&mut [7; 32]), Randomness::repeatable(1));
        let opening = Opening {
            store: store.clone(),
            register,
            master: &master,
            random: &random,
            settings: settings.vault(),
            accept_rollback_risk: false,
        };
        let grid = DepartureGrid::new(Arc::new(SystemClock::new()), std::time::Duration::ZERO);
        let is_new = store.blob_list("").await.expect("it does").is_empty();
        let (vault, recovered) = match is_new {
            true => {
                let vault = opening.create(b"test".to_vec()).await.expect("it does");
                (vault, Recovered::default())
            }
            false => opening.recover().await.expect("it does"),
        };
        let progress = &|_, _| {};
        let parts = Parts { store, vault, recovered, random: &random, grid, progress };
        <$engine>::open(settings, parts).await.expect("it does")
    }};
}

async fn ask(engine: &impl ImmediateEngine, accesses: u32) {
    let (shape, mut drawn) = (engine.shape(), Randomness::repeatable(2).stream(Purpose::Workload));
    for first in (0..accesses).step_by(32) {
        let asked: Vec<_> = (first..accesses.min(first + 32))
            .map(|_| {
                let bytes = vec![1; shape.value_bytes].into();
                let access = Access::Write { offset: 0, bytes };
                engine.submit(Address(drawn.next_u32() % shape.capacity), access)
            })
            .collect();
        for ticket in asked {
            ticket.await.expect("it does");
        }
    }
}

/// Bytes of a line of what the system says of this process.
fn status(line: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("it does");
    let line = text.lines().find(|said| said.starts_with(line)).expect("it does");
    line.split_whitespace().nth(1).expect("it does").parse::<f64>().expect("it does") * 1024.0
}

/// What a process of one engine does: run by the test below.
#[tokio::test]
#[ignore = "of the other test's processes"]
async fn process() {
    let folder = tempfile::tempdir().expect("it does");
    let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.path()).expect("it does"));
    let register = Arc::new(MemoryRegister::default());
    let before = status("VmRSS:");
    let said = std::env::var(ENGINE).expect("it does");
    let (engine, again) = said.split_once('-').unwrap_or((&said, ""));
    for _ in 0..if again.is_empty() { 1 } else { 2 } {
        let (store, register) = (store.clone(), register.clone());
        match engine {
            "tao" => {
                let engine = opened!(TaoEngine, tao(MANY), store, register);
                ask(&engine, 256).await;
                engine.close().await.expect("it does");
            }
            _ => {
                let engine = opened!(PartitionEngine, partition(MANY), store, register);
                ask(&engine, 4 * 1024).await;
                engine.close().await.expect("it does");
            }
        }
    }
    println!("most: {}", status("VmHWM:") - before);
}

fn most_memory(engine: &str) -> f64 {
    let mut child = Command::new(std::env::current_exe().expect("it does"));
    child.args(["--ignored", "--exact", "process", "--nocapture"]).env(ENGINE, engine);
    let output = child.output().expect("it does");
    let told = String::from_utf8(output.stdout).expect("it does");
    let most = told.lines().find_map(|line| line.split_once("most: "));
    most.unwrap_or_else(|| panic!("{engine}: {told}")).1.parse().expect("it does")
}

#[test]
fn memory_is_what_the_plan_says() {
    let plans =
        [("tao", tao(MANY).memory().expect("it does")), ("partition", partition(MANY).memory())];
    for (engine, plan) in plans {
        let ProxyMemory { state, checkpoint, opening, .. } = plan;
        // Made and served, and the same opened once more: that takes more, of small blocks.
        for (runs, reckoned) in [("", state + checkpoint), ("-again", opening)] {
            let most = most_memory(&format!("{engine}{runs}"));
            let near = most > 0.7 * reckoned && most < 1.35 * reckoned;
            assert!(near, "{engine}{runs}: {most} of {reckoned}");
            assert!(most < plan.total() + OF_ANY_PROCESS, "{engine}{runs}: {most} of {plan:?}");
        }
    }
}

/// Bytes in the cloud stay below the bound, and come near it: half of what `tao` may hold is what a
/// recovery writes anew, half of `partition`'s what a cloud that holds all jobs drives it to.
#[tokio::test]
async fn the_cloud_holds_what_the_plan_says() {
    let store = Arc::new(MemoryStore::new());
    let settings = TaoSettings { write_back_every: 8, ..tao(FEW) };
    let engine = opened!(TaoEngine, settings.clone(), store.clone());
    let bound = settings.storage_bytes_max().expect("it does") as f64;
    let of_tao = (fullest(&engine, &store).await, bound, 0.15);
    let store = Arc::new(MemoryStore::new());
    let settings = PartitionSettings { checkpoint_every: 256, ..partition(FEW) };
    let engine = opened!(PartitionEngine, settings.clone(), store.clone());
    let bound = settings.storage_bytes_max() as f64;
    let of_partition = (fullest(&engine, &store).await, bound, 0.4);
    for (engine, (most, bound, part)) in [("tao", of_tao), ("partition", of_partition)] {
        assert!(most <= bound && most > part * bound, "{engine}: {most} of {bound}");
    }
}

async fn fullest(engine: &impl ImmediateEngine, store: &MemoryStore) -> f64 {
    let mut most = 0;
    for _ in 0..256 {
        ask(engine, 32).await;
        most = most.max(store.stored_bytes());
    }
    engine.close().await.expect("it does");
    most as f64
}
