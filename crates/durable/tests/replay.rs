//! A journal that stays near is read twice, and is never in memory as a whole.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_durable::{
    Error, MemoryRegister, Opening, Piecing, Recovered, Suspicion, Vault, VaultSettings,
};
use fogbank_env::Randomness;
use fogbank_store::{Call, Faulty, FileStore, PutCondition, Store};
use world::{World, master};

const AT_ONCE: u32 = 4;

/// Some openings, each of which leaves records behind its takeover.
async fn world() -> World {
    let world = World { cuts: true, at_once: AT_ONCE, ..World::default() };
    for opening in 0..3 {
        let (mut vault, _) = world.open(world.healthy()).await.unwrap();
        for number in 0..10 {
            vault.append(&[opening, number]).await.unwrap();
        }
    }
    world
}

/// The same records as an opening that keeps them has, and whoever takes one has as many more read
/// ahead as may be under way at once, and no more.
#[tokio::test]
async fn records_are_read_again_as_they_are_taken() {
    let world = world().await;
    let (_, kept) = world.open(world.healthy()).await.unwrap();
    assert_eq!(kept.journal.len(), 30);
    let world = World { near: true, ..world };
    let (vault, recovered) = world.open(world.healthy()).await.unwrap();
    assert_eq!(recovered.journal, kept.journal);
    drop(vault);
    let (store, gets) = (Faulty::new(world.cloud.clone()), Arc::new(AtomicU64::new(0)));
    let (seen, counts) = (gets.clone(), Arc::new(AtomicU64::new(0)));
    let counting = counts.clone();
    store.on_call(move |call, _| {
        let is_journal = matches!(call, Call::BlobGet(name) if name.starts_with("journal/"));
        seen.fetch_add(u64::from(is_journal) * counting.load(Ordering::Relaxed), Ordering::Relaxed);
        None
    });
    let (vault, _) = world.open(Arc::new(store)).await.unwrap();
    counts.store(1, Ordering::Relaxed);
    let (mut journal, mut taken) = (vault.journalled(), 0);
    while journal.next().await.unwrap().is_some() {
        taken += 1;
        // Takeovers take room in which nothing is looked at.
        let rooms = 5 * u64::from(AT_ONCE);
        let ahead = gets.load(Ordering::Relaxed) - taken;
        assert!(ahead <= rooms + u64::from(AT_ONCE), "{ahead} ahead of {taken}");
    }
    assert_eq!(taken, 30);
}

/// What was verified once and is another then, or gone, is not replayed.
#[tokio::test]
async fn a_journal_that_changes_between_its_readings_is_refused() {
    for is_gone in [false, true] {
        let world = World { near: true, ..world().await };
        let (vault, _) = world.open(world.healthy()).await.unwrap();
        let names = world.names().await;
        let names: Vec<_> = names.iter().filter(|name| name.starts_with("journal/")).collect();
        let (at, other) = (names[3], world.cloud.blob_get(names[4]).await.unwrap().unwrap().0);
        match is_gone {
            true => world.cloud.blob_delete(&[at]).await.unwrap(),
            false => _ = world.cloud.blob_put(at, other, PutCondition::Always).await.unwrap(),
        }
        let mut journal = vault.journalled();
        let told = loop {
            match journal.next().await {
                Ok(record) => assert!(record.is_some(), "it ends as if nothing were missing"),
                Err(error) => break error,
            }
        };
        assert!(matches!(told, Error::CloudLied(Suspicion::Journal(_))), "{told}");
    }
}

const NEAR: &str = "FOGBANK_SIM_NEAR";
const RECORD_BYTES: usize = 256 << 10;
const RECORDS: usize = 256;

fn opening<'a>(
    store: &Arc<dyn Store>,
    register: &Arc<MemoryRegister>,
    random: &'a Randomness,
    master: &'a fogbank_seal::MasterKey,
) -> Opening<'a> {
    Opening {
        store: store.clone(),
        register: register.clone(),
        master,
        random,
        settings: VaultSettings {
            record_bytes: RECORD_BYTES,
            record_parts_max: 1,
            records_at_once: AT_ONCE,
            full_every: 1,
            pieces: Piecing::usual(1),
            journal_is_near: std::env::var_os(NEAR).is_some(),
        },
        accept_rollback_risk: false,
    }
}

fn most_so_far() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
}

/// What a process does that has such a journal: run by the test below.
#[tokio::test]
#[ignore = "of the other test's processes"]
async fn process() {
    let (folder, register) = (tempfile::tempdir().unwrap(), Arc::default());
    let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.path()).unwrap());
    let (random, again) = (Randomness::repeatable(1), Randomness::repeatable(2));
    let master = master();
    let of = |random| opening(&store, &register, random, &master);
    let mut vault: Vault = of(&random).create(b"test".to_vec()).await.unwrap();
    for number in 0..RECORDS {
        vault.append(&vec![number as u8; RECORD_BYTES]).await.unwrap();
    }
    drop(vault);
    let before = most_so_far();
    let (vault, recovered): (Vault, Recovered) = of(&again).recover().await.unwrap();
    let mut found = recovered.journal.len();
    let mut journal = vault.journalled();
    while recovered.journal.is_empty()
        && let Some(record) = journal.next().await.unwrap()
    {
        assert!(record.iter().all(|byte| *byte == found as u8));
        found += 1;
    }
    assert_eq!(found, RECORDS);
    println!("most: {}", most_so_far() - before);
}

/// A long journal takes a few records' memory while it is opened and replayed. One that is kept
/// takes all of it, so the figure is of records.
#[test]
fn a_replay_takes_the_memory_of_some_records() {
    let most = |near: bool| -> f64 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "process", "--nocapture"]);
        near.then(|| child.env(NEAR, "1"));
        let told = String::from_utf8(child.output().unwrap().stdout).unwrap();
        let most = told.lines().find_map(|line| line.split_once("most: "));
        most.unwrap_or_else(|| panic!("{told}")).1.parse().unwrap()
    };
    let (all, some) = ((RECORDS * RECORD_BYTES) as f64, (16 * RECORD_BYTES) as f64);
    let (kept, near) = (most(false), most(true));
    assert!(kept > 0.9 * all, "{kept} of {all}");
    assert!(near < some, "{near} of {all}");
}
