//! Creating, opening and closing a store without a journal, and what a cloud, a stop or a second proxy can do to it.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::{Error, MemoryRegister, Register, RegisterValue, Result, Section, Vault};
use fogbank_env::Randomness;
use fogbank_seal::MasterKey;
use fogbank_store::{Call, MemoryStore, PutCondition, Reply, Store, StoreError, store_by_calls};

fn master() -> MasterKey {
    MasterKey::from_bytes(&mut [7; 32])
}

fn sections(filled: u8) -> Vec<Section> {
    let large = vec![filled; 1_500_000];
    vec![
        Section { tag: 3, padded_len: 64, data: vec![filled; usize::from(filled)] },
        Section { tag: 9, padded_len: 2_500_000, data: large },
        Section { tag: 10, padded_len: 0, data: Vec::new() },
    ]
}

/// Both sides of one store, which outlive the proxies.
struct World {
    cloud: Arc<MemoryStore>,
    register: Arc<MemoryRegister>,
    openings: std::cell::Cell<u64>,
}

impl World {
    fn new() -> Self {
        let openings = std::cell::Cell::new(0);
        Self { cloud: Arc::new(MemoryStore::new()), register: Default::default(), openings }
    }

    fn random(&self) -> Randomness {
        self.openings.set(self.openings.get() + 1);
        Randomness::repeatable(self.openings.get())
    }

    async fn create(&self) -> Result<Vault> {
        let (store, register) = (self.cloud.clone(), self.register.clone());
        Vault::create(store, register, &master(), b"config".to_vec(), &self.random()).await
    }

    async fn open(&self) -> Result<(Vault, Vec<Section>)> {
        Vault::open(self.cloud.clone(), self.register.clone(), &master(), &self.random()).await
    }

    /// A store that was created and closed with `sections(filled)`.
    async fn closed(filled: u8) -> Self {
        let world = Self::new();
        world.create().await.unwrap().close(Section::each(sections(filled))).await.unwrap();
        world
    }

    async fn blobs(&self) -> Vec<(String, Bytes)> {
        let mut blobs = Vec::new();
        for name in self.cloud.blob_list("").await.unwrap() {
            let (data, _) = self.cloud.blob_get(&name).await.unwrap().unwrap();
            blobs.push((name, data));
        }
        blobs
    }

    async fn put(&self, name: &str, data: impl Into<Bytes>) {
        self.cloud.blob_put(name, data.into(), PutCondition::Always).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_closed_is_there_when_opened_again() {
    let world = World::closed(1).await;
    for round in 2..5 {
        let (vault, restored) = world.open().await.unwrap();
        assert_eq!(restored, sections(round - 1));
        assert_eq!((vault.openings(), vault.config()), (u32::from(round), &b"config"[..]));
        assert_eq!(vault.keys().salts().count(), usize::from(round));
        vault.close(Section::each(sections(round))).await.unwrap();
    }
}

#[tokio::test]
async fn every_checkpoint_has_one_size_and_only_the_last_is_kept() {
    let world = World::closed(1).await;
    let sizes = |blobs: &[(String, Bytes)]| {
        blobs.iter().filter(|b| b.0 != "commit").map(|b| b.1.len()).collect::<Vec<_>>()
    };
    let before = sizes(&world.blobs().await);
    let (vault, _) = world.open().await.unwrap();
    vault.close(Section::each(sections(60))).await.unwrap();
    assert_eq!(sizes(&world.blobs().await), before);
}

#[tokio::test]
async fn a_store_that_was_not_closed_is_refused_and_left_alone() {
    let world = World::closed(1).await;
    let (mut vault, _) = world.open().await.unwrap();
    vault.run().await.unwrap();
    let before = world.blobs().await;
    assert!(matches!(world.open().await, Err(Error::NotClosed)));
    assert_eq!(world.blobs().await, before);
}

#[tokio::test]
async fn each_side_that_is_missing_is_named() {
    let world = World::new();
    assert!(matches!(world.open().await, Err(Error::NoStore)));
    let world = World::closed(1).await;
    assert!(matches!(world.create().await, Err(Error::CloudEmpty | Error::Exists)));
    let emptied = World { cloud: Arc::new(MemoryStore::new()), ..World::closed(1).await };
    assert!(matches!(emptied.open().await, Err(Error::CloudEmpty)));
    assert!(matches!(emptied.create().await, Err(Error::CloudEmpty)));
    let forgotten = World { register: Default::default(), ..World::closed(1).await };
    assert!(matches!(forgotten.open().await, Err(Error::RegisterLost(_))));
    assert!(matches!(forgotten.create().await, Err(Error::Exists)));
}

#[tokio::test]
async fn another_key_opens_nothing_and_changes_nothing() {
    let world = World::closed(1).await;
    let before = world.blobs().await;
    let other = MasterKey::from_bytes(&mut [8; 32]);
    let (store, register) = (world.cloud.clone(), world.register.clone());
    let opened = Vault::open(store, register, &other, &world.random()).await;
    assert!(matches!(opened, Err(Error::CloudLied(_))));
    assert_eq!(world.blobs().await, before);
}

#[tokio::test]
async fn an_older_state_of_the_cloud_is_refused() {
    let world = World::closed(1).await;
    let old = world.blobs().await;
    let (vault, _) = world.open().await.unwrap();
    vault.close(Section::each(sections(2))).await.unwrap();
    let new = world.blobs().await;
    for (name, data) in &old {
        world.put(name, data.clone()).await;
    }
    assert!(matches!(world.open().await, Err(Error::CloudLied(_))));
    // The canary: with the newest state back, the same store opens.
    for (name, data) in &new {
        world.put(name, data.clone()).await;
    }
    assert_eq!(world.open().await.unwrap().1, sections(2));
}

#[tokio::test]
async fn every_changed_byte_of_the_commit_record_is_noticed_before_anything_is_changed() {
    let world = World::closed(1).await;
    let (record, _) = world.cloud.blob_get("commit").await.unwrap().unwrap();
    for at in 0..record.len() {
        let mut forged = record.to_vec();
        forged[at] ^= 1 << (at % 8);
        world.put("commit", forged.clone()).await;
        let opened = world.open().await;
        assert!(matches!(opened, Err(Error::CloudLied(_) | Error::Format { .. })), "byte {at}");
        assert_eq!(world.cloud.blob_get("commit").await.unwrap().unwrap().0, forged);
    }
    for length in 0..record.len() {
        world.put("commit", record.slice(..length)).await;
        assert!(world.open().await.is_err(), "cut to {length}");
    }
    world.put("commit", record).await;
    world.open().await.unwrap();
}

#[tokio::test]
async fn a_changed_swapped_or_missing_piece_of_the_checkpoint_is_noticed() {
    type Spoil = fn(&mut Vec<(String, Bytes)>);
    let spoil: [Spoil; 4] = [
        |pieces| {
            let mut forged = pieces[1].1.to_vec();
            forged[77] ^= 1;
            pieces[1].1 = forged.into();
        },
        |pieces| {
            let first = pieces[0].1.clone();
            pieces[0].1 = std::mem::replace(&mut pieces[1].1, first);
        },
        |pieces| pieces[0].1 = pieces[0].1.slice(1..),
        |pieces| pieces[2].1 = Bytes::new(),
    ];
    for (case, spoil) in spoil.into_iter().enumerate() {
        let world = World::closed(1).await;
        let mut pieces = world.blobs().await;
        pieces.retain(|(name, _)| name != "commit");
        spoil(&mut pieces);
        for (name, data) in pieces {
            world.put(&name, data).await;
        }
        assert!(matches!(world.open().await, Err(Error::CloudLied(_))), "case {case}");
    }
    let world = World::closed(1).await;
    let names = world.cloud.blob_list("checkpoint/").await.unwrap();
    world.cloud.blob_delete(&[&names[2]]).await.unwrap();
    assert!(matches!(world.open().await, Err(Error::CloudLied(_))));
}

#[tokio::test]
async fn a_proxy_that_was_overtaken_cannot_close() {
    let world = World::closed(1).await;
    let (vault, _) = world.open().await.unwrap();
    world.put("commit", &b"somebody else's"[..]).await;
    let before = world.register.read().await.unwrap();
    assert!(matches!(vault.close(Section::each(sections(2))).await, Err(Error::Fenced)));
    assert_eq!(world.register.read().await.unwrap(), before);
}

/// Two proxies (a copied trusted side) that both read the closed record before either puts one.
#[tokio::test]
async fn of_two_proxies_that_open_at_once_one_is_fenced() {
    let world = World::closed(1).await;
    let together = Arc::new(tokio::sync::Barrier::new(2));
    let known = world.register.read().await.unwrap().unwrap();
    let open = |seed| {
        let store = Arc::new(Together { inner: world.cloud.clone(), both: together.clone() });
        let register = Arc::new(MemoryRegister::default());
        async move {
            register.write(None, known).await.unwrap();
            Vault::open(store, register, &master(), &Randomness::repeatable(seed)).await
        }
    };
    let (first, second) = tokio::join!(open(100), open(200));
    let fenced = |r: &Result<(Vault, Vec<Section>)>| matches!(r, Err(Error::Fenced));
    assert!(fenced(&first) != fenced(&second));
    assert!(first.is_ok() != second.is_ok());
}

/// Lets nobody go on from reading the commit record before two have read it.
struct Together<S> {
    inner: S,
    both: Arc<tokio::sync::Barrier>,
}

impl<S: Store> Together<S> {
    async fn call(&self, call: Call<'_>) -> std::result::Result<Reply, StoreError> {
        let meet = matches!(call, Call::BlobPut("commit", ..));
        if meet {
            self.both.wait().await;
        }
        call.perform(&self.inner).await
    }
}

store_by_calls!(Together);

/// A register that can be made to fail, as a power cut between two steps would.
#[derive(Default)]
struct Failing {
    inner: MemoryRegister,
    broken: std::sync::atomic::AtomicBool,
}

#[async_trait::async_trait]
impl Register for Failing {
    async fn read(&self) -> Result<Option<RegisterValue>> {
        self.inner.read().await
    }

    async fn write(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        if self.broken.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::Register { place: self.place(), reason: "power cut".into() });
        }
        self.inner.write(from, to).await
    }

    fn place(&self) -> String {
        "test".into()
    }
}

/// The commit record of a close reached the cloud, the register was not bumped: the record is the
/// successor of the one the register knows, so the store opens with everything in it.
#[tokio::test]
async fn a_stop_between_the_record_and_the_register_of_a_close_loses_nothing() {
    let (cloud, register) = (Arc::new(MemoryStore::new()), Arc::new(Failing::default()));
    let random = Randomness::repeatable(1);
    let vault =
        Vault::create(cloud.clone(), register.clone(), &master(), Vec::new(), &random).await;
    let vault = vault.unwrap();
    register.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(vault.close(Section::each(sections(5))).await, Err(Error::Register { .. })));
    register.broken.store(false, std::sync::atomic::Ordering::Relaxed);
    let random = Randomness::repeatable(2);
    let (_, restored) = Vault::open(cloud, register, &master(), &random).await.unwrap();
    assert_eq!(restored, sections(5));
}

#[tokio::test]
async fn a_section_above_its_public_length_is_our_fault_and_closes_nothing() {
    let world = World::new();
    let vault = world.create().await.unwrap();
    let long = vec![Section { tag: 1, padded_len: 3, data: vec![0; 4] }];
    assert!(matches!(vault.close(Section::each(long)).await, Err(Error::Bug(_))));
    assert_eq!(world.open().await.unwrap().1, []);
}

/// A claim reads and writes no array, so whoever claimed and died is no obstacle.
#[tokio::test]
async fn a_store_that_was_only_claimed_opens_again_and_fences_the_claimer() {
    let world = World::closed(1).await;
    let (mut first, _) = world.open().await.unwrap();
    let (mut second, restored) = world.open().await.unwrap();
    assert_eq!(restored, sections(1));
    assert!(matches!(first.run().await, Err(Error::Fenced)));
    second.run().await.unwrap();
    assert!(matches!(first.close(Section::each(sections(9))).await, Err(Error::Fenced)));
    second.close(Section::each(sections(2))).await.unwrap();
    assert_eq!(world.open().await.unwrap().1, sections(2));
}

/// The same seed twice would draw the salt of the opening before: a key would meet its nonces again.
#[tokio::test]
async fn no_opening_has_the_salt_of_another() {
    let world = World::new();
    let random = Randomness::repeatable(1);
    let (store, register) = (world.cloud.clone(), world.register.clone());
    let vault = Vault::create(store, register, &master(), Vec::new(), &random).await.unwrap();
    vault.close(Section::each(Vec::new())).await.unwrap();
    for _ in 0..3 {
        let (store, register) = (world.cloud.clone(), world.register.clone());
        let (vault, _) = Vault::open(store, register, &master(), &random).await.unwrap();
        let mut salts: Vec<[u8; 16]> = vault.keys().salts().map(|salt| salt.0).collect();
        salts.sort_unstable();
        assert!(salts.windows(2).all(|pair| pair[0] != pair[1]));
        vault.close(Section::each(Vec::new())).await.unwrap();
    }
}
