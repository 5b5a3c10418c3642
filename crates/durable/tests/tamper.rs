//! A cloud that lies about blobs: flipped bytes, older versions, cut and reordered journals,
//! records of other histories; and answers that get lost.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::{
    Error, MemoryRegister, Opening, Recovered, Register, RegisterValue, Result, Section, Suspicion,
    Vault,
};
use fogbank_env::{Mutex, Randomness};
use fogbank_seal::MasterKey;
use fogbank_store::{Call, Fault, FaultRule, Faulty, MemoryStore, Operation, PutCondition, Store};
use world::{CONFIG, Promised, SETTINGS, World, master};

type Blobs = BTreeMap<String, Bytes>;

/// Both sides of a store at one moment.
#[derive(Clone)]
struct Moment {
    blobs: Blobs,
    register: Option<RegisterValue>,
}

/// What a proxy found, and the blob it asked for last.
struct Found {
    opened: Result<(Vault, Recovered)>,
    last_asked: String,
}

impl Moment {
    async fn of(world: &World) -> Self {
        let mut blobs = Blobs::new();
        for name in world.names().await {
            let (data, _) = world.cloud.blob_get(&name).await.unwrap().unwrap();
            blobs.insert(name, data);
        }
        Self { blobs, register: world.register.read().await.unwrap() }
    }

    async fn world(&self) -> World {
        let world = World::default();
        for (name, data) in &self.blobs {
            let put = world.cloud.blob_put(name, data.clone(), PutCondition::Always);
            put.await.unwrap();
        }
        if let Some(value) = self.register {
            world.register.write(None, value).await.unwrap();
        }
        *world.openings.lock() = 1_000;
        world
    }

    async fn open_as(&self, master: &MasterKey, accept_rollback_risk: bool) -> Found {
        let world = self.world().await;
        let asked = Arc::new(Mutex::new(String::new()));
        let store = Faulty::new(world.cloud.clone());
        let last = asked.clone();
        store.on_call(move |call, _| {
            *last.lock() = match call {
                Call::BlobGet(name) => (*name).to_owned(),
                other => format!("{:?}", other.operation()),
            };
            None
        });
        let random = Randomness::repeatable(5_000);
        let (store, register) = (Arc::new(store), world.register.clone());
        let settings = SETTINGS;
        let opening =
            Opening { store, register, master, random: &random, settings, accept_rollback_risk };
        let opened = opening.recover().await;
        let last_asked = asked.lock().clone();
        Found { opened, last_asked }
    }

    async fn open(&self) -> Found {
        self.open_as(&master(), false).await
    }

    fn with(&self, name: &str, data: impl Into<Bytes>) -> Self {
        let mut changed = self.clone();
        changed.blobs.insert(name.to_owned(), data.into());
        changed
    }

    /// The names of the open epoch's records.
    fn journal(&self) -> Vec<String> {
        let all = self.blobs.keys().filter(|name| name.starts_with("journal/"));
        let epoch = all.clone().next_back().unwrap().split_once('-').unwrap().0;
        all.filter(|name| name.starts_with(epoch)).cloned().collect()
    }

    /// Whether nothing that is opened depends on this blob: a takeover record of a past epoch.
    fn is_past(&self, name: &str) -> bool {
        name.starts_with("journal/") && !self.journal().iter().any(|open| open == name)
    }
}

impl Found {
    fn suspicion(&self) -> Option<Suspicion> {
        match &self.opened {
            Err(Error::CloudLied(suspicion)) => Some(*suspicion),
            _ => None,
        }
    }
}

/// Every moment of a store with a full checkpoint, a delta, two takeovers and an open epoch with
/// three records; the last is the one that a proxy died at.
async fn moments() -> (Vec<Moment>, Promised) {
    let (world, mut promised) = (World::default(), Promised::default());
    let moments = Arc::new(Mutex::new(Vec::new()));
    promised.live(&world, world.healthy(), 2).await.unwrap();
    for round in 0..2 {
        let mut vault = promised.open(&world, world.healthy()).await.unwrap();
        for epoch in [10, 11].map(|epoch| epoch + 2 * round) {
            if round == 1 && epoch == 13 {
                break;
            }
            for batch in 0..3 {
                promised.append(&mut vault, vec![epoch as u8, batch]).await.unwrap();
                let moment = Moment::of(&world).await;
                moments.lock().push(moment);
            }
            promised.commit(&mut vault, epoch).await.unwrap();
            let moment = Moment::of(&world).await;
            moments.lock().push(moment);
            vault.collect().await.unwrap();
        }
        for batch in 0..3 {
            promised.append(&mut vault, vec![99, batch]).await.unwrap();
            let moment = Moment::of(&world).await;
            moments.lock().push(moment);
        }
    }
    let moments = moments.lock().clone();
    let last = moments.last().unwrap();
    let kinds: BTreeSet<&str> =
        last.blobs.keys().map(|name| name.split('/').next().unwrap()).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["checkpoint", "commit", "delta", "journal"]);
    (moments, promised)
}

async fn last_moment() -> (Moment, Recovered) {
    let (moments, mut promised) = moments().await;
    let last = moments.last().unwrap().clone();
    let (_, recovered) = last.open().await.opened.unwrap();
    promised.check(&recovered);
    (last, recovered)
}

#[tokio::test]
async fn every_flipped_byte_is_caught_and_nothing_is_asked_afterwards() {
    let (moment, truth) = last_moment().await;
    for (name, data) in &moment.blobs {
        for at in 0..data.len() {
            let mut forged = data.to_vec();
            forged[at] ^= 1 << (at % 8);
            let found = moment.with(name, forged).open().await;
            if moment.is_past(name) {
                assert_eq!(found.opened.unwrap().1, truth, "byte {at} of {name}");
                continue;
            }
            let named = found.suspicion().is_some_and(|suspicion| {
                name == "commit" || suspicion.to_string().ends_with(&format!(": {name}"))
            });
            assert!(named, "byte {at} of {name}");
            assert_eq!(&found.last_asked, name, "byte {at}");
        }
        if moment.is_past(name) {
            continue;
        }
        for length in [0, 1, 20, data.len() - 1] {
            let found = moment.with(name, data.slice(..length)).open().await;
            assert!(found.suspicion().is_some(), "{name} cut to {length}");
        }
    }
}

#[tokio::test]
async fn every_missing_blob_is_caught() {
    let (moment, truth) = last_moment().await;
    let last = moment.journal().pop().unwrap();
    for name in moment.blobs.keys() {
        let mut cut = moment.clone();
        cut.blobs.remove(name);
        let found = cut.open().await;
        match &name[..] {
            "commit" => assert!(matches!(found.opened, Err(Error::CloudEmpty))),
            name if moment.is_past(name) => assert_eq!(found.opened.unwrap().1, truth),
            name => {
                let suspicion = found.suspicion().unwrap_or_else(|| panic!("{name} is not missed"));
                // It is said which one: whoever looks for it finds it by that name.
                assert!(suspicion.to_string().ends_with(&format!(": {name}")), "{suspicion}");
                let of_journal = matches!(suspicion, Suspicion::JournalCut(_));
                assert!(of_journal || name != last);
            }
        }
    }
    let mut cut = moment.clone();
    for name in moment.journal().iter().rev().take(2) {
        cut.blobs.remove(name);
    }
    assert!(matches!(cut.open().await.suspicion(), Some(Suspicion::JournalCut(_))));
}

#[tokio::test]
async fn every_older_version_of_every_blob_is_caught_or_without_effect() {
    let (moments, _) = moments().await;
    let (last, truth) = last_moment().await;
    let mut caught = 0;
    for older in &moments {
        for (name, data) in &older.blobs {
            if last.blobs.get(name) == Some(data) {
                continue;
            }
            let found = last.with(name, data.clone()).open().await;
            match (found.suspicion(), found.opened) {
                (Some(_), _) => caught += 1,
                (None, opened) => {
                    assert_ne!(name, "commit");
                    assert_eq!(opened.unwrap().1, truth, "{name}");
                }
            }
        }
    }
    assert!(caught >= 5, "{caught}");
}

#[tokio::test]
async fn a_store_put_back_to_any_earlier_moment_is_caught() {
    let (moments, _) = moments().await;
    let last = moments.last().unwrap();
    for (number, older) in moments[..moments.len() - 1].iter().enumerate() {
        let rolled_back = Moment { blobs: older.blobs.clone(), register: last.register };
        let suspicion = rolled_back.open().await.suspicion();
        let expected = matches!(suspicion, Some(Suspicion::RolledBack | Suspicion::JournalCut(_)));
        assert!(expected, "{number}: {suspicion:?}");
        // The canary: with the register of its time it opens.
        older.open().await.opened.unwrap();
    }
}

/// A register older than the store is refused too, unless by the one object that a stop between the
/// cloud and the register explains.
#[tokio::test]
async fn an_older_register_is_refused_unless_a_stop_explains_it() {
    let (moments, _) = moments().await;
    let last = moments.last().unwrap();
    let known: Vec<_> = moments.iter().map(|moment| moment.register).collect();
    let mut suspicions = Vec::new();
    for register in &known {
        let moment = Moment { blobs: last.blobs.clone(), register: *register };
        suspicions.push(moment.open().await.suspicion());
    }
    let behind = suspicions.len() - 7;
    assert!(suspicions[..behind].iter().all(|s| *s == Some(Suspicion::Unknown)), "{suspicions:?}");
    let (long, told) = suspicions[behind..].split_at(5);
    let is_long = |s: &Option<Suspicion>| matches!(s, Some(Suspicion::JournalLong(_)));
    assert!(long.iter().all(is_long), "{suspicions:?}");
    assert_eq!(told, [None, None]);
}

#[tokio::test]
async fn a_reordered_journal_and_records_of_other_histories_are_caught() {
    let (moment, _) = last_moment().await;
    let names = moment.journal();
    for pair in names.windows(2) {
        let [a, b] = [&moment.blobs[&pair[0]], &moment.blobs[&pair[1]]];
        let swapped = moment.with(&pair[0], b.clone()).with(&pair[1], a.clone());
        assert!(matches!(swapped.open().await.suspicion(), Some(Suspicion::Journal(_))));
    }
    // Both sides are copied and the copy goes on: what it writes is under the same master key.
    let fork = moment.world().await;
    let mut promised = Promised { record_under_way: None, ..forked(&fork).await };
    let mut vault = promised.open(&fork, fork.healthy()).await.unwrap();
    vault.append(b"of the fork").await.unwrap();
    vault.append(b"of the fork").await.unwrap();
    let fork = Moment::of(&fork).await;
    let next: Vec<String> = fork.journal().split_off(names.len());
    assert_eq!(next.len(), 3, "a takeover and two batches");
    let mut lied = moment.with(&next[0], fork.blobs[&next[0]].clone());
    lied.open().await.opened.unwrap(); // an opening that came to nothing looks the same
    lied = lied.with(&next[1], fork.blobs[&next[1]].clone());
    assert!(matches!(lied.open().await.suspicion(), Some(Suspicion::Journal(_))));
    let lied = moment.with("commit", fork.blobs["commit"].clone());
    assert!(matches!(lied.open().await.suspicion(), Some(Suspicion::JournalCut(_))));
    // Another store under the same key.
    let (other, mut promised) = (World::default(), Promised::default());
    *other.openings.lock() = 77;
    let mut vault = promised.open(&other, other.healthy()).await.unwrap();
    vault.append(b"of another store").await.unwrap();
    let other = Moment::of(&other).await;
    let record = other.blobs[&other.journal()[0]].clone();
    let lied = moment.with(&names[0], record);
    assert!(matches!(lied.open().await.suspicion(), Some(Suspicion::Journal(_))));
    let lied = moment.with("commit", other.blobs["commit"].clone());
    assert_eq!(lied.open().await.suspicion(), Some(Suspicion::OtherStore));
}

/// What a copy of the store was promised.
async fn forked(world: &World) -> Promised {
    let (_, recovered) = Moment::of(world).await.open().await.opened.unwrap();
    let (epochs, journal) = (world::epochs_of(&recovered), recovered.journal);
    Promised { epochs, journal, ..Promised::default() }
}

#[tokio::test]
async fn the_operator_is_told_what_can_be_told_apart() {
    let (moment, truth) = last_moment().await;
    let other = MasterKey::from_bytes(&mut [8; 32]);
    let found = moment.open_as(&other, false).await;
    assert_eq!(found.suspicion(), Some(Suspicion::WrongKey));
    let lost = Moment { register: None, ..moment.clone() };
    assert!(matches!(lost.open().await.opened, Err(Error::RegisterLost(_))));
    let (_, recovered) = lost.open_as(&master(), true).await.opened.unwrap();
    assert_eq!(recovered, truth);
    assert_eq!(lost.open_as(&other, true).await.suspicion(), Some(Suspicion::Commit));
    // The risk is accepted for a register that is lost, not for one that says otherwise.
    let (moments, _) = moments().await;
    let rolled_back = Moment { register: moment.register, ..moments[0].clone() };
    let found = rolled_back.open_as(&master(), true).await;
    assert_eq!(found.suspicion(), Some(Suspicion::RolledBack));
}

/// The answer to one put after the other gets lost: the life goes on as if it had come.
#[tokio::test]
async fn a_put_whose_answer_was_lost_is_found_to_be_done() {
    for nth in 1.. {
        let (world, mut promised) = (World::default(), Promised::default());
        let store = Arc::new(Faulty::new(world.cloud.clone()));
        store.add(FaultRule::nth(Some(Operation::BlobPut), nth, Fault::After));
        promised.live(&world, store.clone(), 3).await.unwrap();
        let mut vault = promised.open(&world, store.clone()).await.unwrap();
        promised.append(&mut vault, b"last".to_vec()).await.unwrap();
        promised.open(&world, world.healthy()).await.unwrap();
        if store.faults() == 0 {
            assert!(nth > 15, "{nth}");
            break;
        }
    }
}

#[tokio::test]
async fn after_a_failure_nothing_more_is_sent() {
    let (world, mut promised) = (World::default(), Promised::default());
    let store = world.healthy();
    let mut vault = promised.open(&world, store.clone()).await.unwrap();
    store.add(FaultRule::nth(Some(Operation::BlobPut), 1, Fault::Before));
    assert!(matches!(vault.append(b"a").await, Err(Error::Absent(_))));
    let calls = store.calls();
    assert!(matches!(vault.append(b"a").await, Err(Error::Stopped)));
    assert!(matches!(vault.commit_epoch(&[], None).await, Err(Error::Stopped)));
    assert!(matches!(vault.collect().await, Err(Error::Stopped)));
    assert!(matches!(vault.close(Section::each(Vec::new())).await, Err(Error::Stopped)));
    assert_eq!(store.calls(), calls);
}

#[tokio::test]
async fn what_does_not_fit_its_public_length_is_our_fault() {
    let world = World::default();
    let (mut vault, _) = world.open(world.healthy()).await.unwrap();
    let before = world.names().await;
    let long = vec![0; SETTINGS.record_bytes + 1];
    assert!(matches!(vault.append(&long).await, Err(Error::Bug(_))));
    let (mut vault, _) = world.open(world.healthy()).await.unwrap();
    let undue = vault.commit_epoch(&[], Some(Section::each(Vec::new()))).await;
    assert!(matches!(undue, Err(Error::Bug(_))));
    assert_eq!(world.names().await.len(), before.len() + 1, "a takeover record");
}

/// A stop between what create notes in the register and the store it makes: it can be made again,
/// and a store that was there already is not mistaken for it.
#[tokio::test]
async fn a_creation_that_was_interrupted_is_repeated() {
    let create = |world: &World, store: Arc<dyn Store>, seed: u64| {
        let (register, store) = (world.register.clone(), store);
        async move {
            let (settings, random) = (SETTINGS, Randomness::repeatable(seed));
            let (master, accept_rollback_risk) = (master(), false);
            let opening = Opening {
                store,
                register,
                master: &master,
                random: &random,
                settings,
                accept_rollback_risk,
            };
            opening.create(CONFIG.to_vec()).await
        }
    };
    let world = World::default();
    create(&world, world.dying(1, Fault::Before), 1).await.unwrap_err();
    create(&world, world.healthy(), 2).await.unwrap();
    let there = World { register: Arc::new(MemoryRegister::default()), ..world.clone() };
    assert!(matches!(create(&there, there.healthy(), 3).await, Err(Error::Exists)));
    assert!(matches!(there.open(there.healthy()).await, Err(Error::RegisterLost(_))));
    let gone = World { cloud: Arc::new(MemoryStore::new()), ..world };
    assert!(matches!(create(&gone, gone.healthy(), 4).await, Err(Error::CloudEmpty)));
}
