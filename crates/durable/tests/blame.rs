//! Who is told to be to blame. That another proxy has the store is said only where the register
//! says so, or something that only who has the key can have made since; whatever a cloud can forge,
//! show again or take away proves nothing.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_durable::{Error, Opening, Register, RegisterValue, Result, Suspicion, Vault};
use fogbank_env::Randomness;
use fogbank_store::{
    Call, Fault, Faulty, PutCondition, PutOutcome, Reply, Store, StoreError, store_by_calls,
};
use world::{CONFIG, Promised, SETTINGS, World, delta, master};

async fn get(world: &World, name: &str) -> Bytes {
    world.cloud.blob_get(name).await.unwrap().unwrap().0
}

async fn put(world: &World, name: &str, data: Bytes) {
    world.cloud.blob_put(name, data, PutCondition::Always).await.unwrap();
}

/// A store of some openings, and a proxy that lives on it; with every commit record and journal
/// record that there ever was.
async fn living() -> (World, Vault, Vec<Bytes>) {
    let (world, mut promised) = (World::default(), Promised::default());
    let mut ever = Vec::new();
    for _ in 0..3 {
        promised.live(&world, world.healthy(), 2).await.unwrap();
        for name in world.names().await {
            ever.push(get(&world, &name).await);
        }
    }
    let mut vault = promised.open(&world, world.healthy()).await.unwrap();
    for name in world.names().await {
        ever.push(get(&world, &name).await);
    }
    promised.append(&mut vault, b"before".to_vec()).await.unwrap();
    for name in world.names().await {
        ever.push(get(&world, &name).await);
    }
    (world, vault, ever)
}

/// Where the next record goes.
async fn next_place(world: &World) -> String {
    let last = world.cloud.blob_list("journal/").await.unwrap().pop().unwrap();
    let (epoch, place) = last.rsplit_once('-').unwrap();
    format!("{epoch}-{:06x}", u32::from_str_radix(place, 16).unwrap() + 1)
}

#[tokio::test]
async fn a_commit_record_that_is_gone_old_or_forged_is_no_other_proxy() {
    let count = living().await.2.len();
    for lie in 0..=count {
        let (world, mut vault, ever) = living().await;
        match ever.get(lie) {
            None => world.cloud.blob_delete(&["commit"]).await.unwrap(),
            Some(old) if *old == get(&world, "commit").await => continue,
            Some(old) => put(&world, "commit", old.clone()).await,
        }
        let ended = vault.commit_epoch(&delta(9), None).await;
        let lied = Error::CloudLied(Suspicion::CommitReplaced).to_string();
        assert_eq!(ended.unwrap_err().to_string(), lied, "{lie} of {count}");
    }
}

#[tokio::test]
async fn a_place_of_the_journal_that_something_old_or_forged_stands_in_is_no_other_proxy() {
    let count = living().await.2.len();
    assert!(count > 20);
    for lie in 0..=count {
        let (world, mut vault, ever) = living().await;
        let there = ever.get(lie).cloned().unwrap_or(Bytes::from_static(b"forged"));
        let place = next_place(&world).await;
        put(&world, &place, there).await;
        let ended = vault.append(b"next").await.unwrap_err();
        let lied = Error::CloudLied(Suspicion::Place).to_string();
        assert_eq!(ended.to_string(), lied, "{lie} of {count}");
    }
}

/// It says that the condition does not hold, and shows what was there before or nothing at all.
#[tokio::test]
async fn a_cloud_that_refuses_every_put_of_an_opening_is_no_other_proxy() {
    for prefix in ["journal/", "commit"] {
        let (world, mut promised) = (World::default(), Promised::default());
        promised.live(&world, world.healthy(), 2).await.unwrap();
        let store = Refusing { inner: world.cloud.clone(), prefix };
        let refused = world.open(Arc::new(store)).await.err().unwrap();
        let lied = Error::CloudLied(Suspicion::Unchanged).to_string();
        assert_eq!(refused.to_string(), lied, "{prefix}");
        promised.live(&world, world.healthy(), 1).await.unwrap();
    }
}

/// Says of every put of such blobs that its condition does not hold.
struct Refusing<S> {
    inner: S,
    prefix: &'static str,
}

impl<S: Store> Refusing<S> {
    async fn call(&self, call: Call<'_>) -> std::result::Result<Reply, StoreError> {
        match call {
            Call::BlobPut(name, ..) if name.starts_with(self.prefix) => {
                Ok(Reply::Put(PutOutcome::ConditionFailed))
            }
            call => call.perform(&self.inner).await,
        }
    }
}

store_by_calls!(Refusing);

/// The answer to the put is lost, and what it was to replace is gone: that is no absence.
#[tokio::test]
async fn a_commit_record_that_is_gone_when_it_is_asked_for_again_is_no_absence() {
    let (world, _, _) = living().await;
    let store = Arc::new(Faulty::new(world.cloud.clone()));
    let (mut vault, _) = world.open(store.clone()).await.unwrap();
    store.on_call(|call, _| matches!(call, Call::BlobPut("commit", ..)).then_some(Fault::Before));
    world.cloud.blob_delete(&["commit"]).await.unwrap();
    let ended = vault.commit_epoch(&delta(9), None).await.unwrap_err();
    assert!(matches!(ended, Error::CloudLied(Suspicion::CommitReplaced)), "{ended}");
}

/// A register that is written and does not say so.
struct Stuck(Arc<dyn Register>, AtomicBool);

#[async_trait]
impl Register for Stuck {
    async fn read(&self) -> Result<Option<RegisterValue>> {
        self.0.read().await
    }

    async fn write(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        self.0.write(from, to).await?;
        if self.1.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    fn place(&self) -> String {
        self.0.place()
    }
}

/// A record is given up midway when another batch has brought a lie. What its bump has left in the
/// register is this proxy's own.
#[tokio::test]
async fn a_bump_that_was_given_up_is_no_other_proxy() {
    let (world, _, _) = living().await;
    let register = Arc::new(Stuck(world.register.clone(), AtomicBool::new(false)));
    let (mut vault, _) = world.open_with(world.healthy(), register.clone()).await.unwrap();
    register.1.store(true, Ordering::Relaxed);
    tokio::select! { biased;
        done = vault.append(b"given up") => panic!("{done:?}"),
        () = std::future::ready(()) => {}
    }
    assert!(!vault.is_overtaken().await);
    world.open(world.healthy()).await.unwrap();
    assert!(vault.is_overtaken().await, "the canary");
}

/// Another format is another version's only if the register knows the record.
#[tokio::test]
async fn another_format_that_nothing_vouches_for_is_a_lie() {
    let (world, _, _) = living().await;
    let mut newer = get(&world, "commit").await.to_vec();
    newer[8] ^= 8;
    put(&world, "commit", newer.clone().into()).await;
    let refused = world.open_anyhow().await;
    assert!(matches!(refused, Error::CloudLied(Suspicion::Format(12))), "{refused}");
    let by_key = Vault::config_by_key(&*world.cloud, &*world.register, &master()).await;
    assert!(matches!(by_key, Err(Error::CloudLied(Suspicion::Format(12)))), "{by_key:?}");
    let (held, commit) = (world.register.read().await.unwrap(), fogbank_seal::digest(&[&newer]));
    let held = held.unwrap();
    world.register.write(Some(held), RegisterValue { commit, ..held }).await.unwrap();
    assert!(matches!(world.open_anyhow().await, Error::Format { found: 12, known: 4 }));
    let by_key = Vault::config_by_key(&*world.cloud, &*world.register, &master()).await;
    assert!(matches!(by_key, Err(Error::Format { found: 12, known: 4 })), "{by_key:?}");
    world.cloud.blob_delete(&["commit"]).await.unwrap();
    let by_key = Vault::config_by_key(&*world.cloud, &*world.register, &master()).await;
    assert!(matches!(by_key, Err(Error::CloudEmpty)), "{by_key:?}");
    let found = fogbank_durable::inspect(&*world.cloud, Some((&*world.register, &master()))).await;
    assert!(matches!(found, Err(Error::CloudEmpty)), "{found:?}");
}

impl World {
    /// Why a store that is there cannot be taken over.
    async fn open_anyhow(&self) -> Error {
        let random = Randomness::repeatable(77);
        let opening = Opening {
            store: self.cloud.clone(),
            register: self.register.clone(),
            master: &master(),
            random: &random,
            settings: SETTINGS,
            accept_rollback_risk: false,
        };
        opening.recover_claimed(CONFIG).await.err().unwrap()
    }
}
