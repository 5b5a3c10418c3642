//! A store that is closed and opened again: a checkpoint of several pieces, the keys of its
//! openings, and a trusted side that fails in the middle of a close.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_durable::{
    Error, MemoryRegister, Opening, Register, RegisterValue, Result, Section, Suspicion,
};
use fogbank_env::Randomness;
use fogbank_store::{PutCondition, Store};
use world::{CONFIG, SETTINGS, World, master};

/// Ten pieces, of which the content fills six.
fn sections(filled: u8) -> Vec<Section> {
    let large = vec![filled; 150];
    vec![
        Section { tag: 3, padded_len: 64, data: vec![filled; usize::from(filled)] },
        Section { tag: 9, padded_len: 250, data: large },
        Section { tag: 10, padded_len: 0, data: Vec::new() },
    ]
}

/// A store that was created and closed with `sections(filled)`.
async fn closed(filled: u8) -> World {
    let world = World::default();
    let (vault, _) = world.open(world.healthy()).await.unwrap();
    vault.close(Section::each(sections(filled))).await.unwrap();
    world
}

/// The pieces of the checkpoint, in their order.
async fn pieces(world: &World) -> Vec<(String, Bytes)> {
    let mut pieces = Vec::new();
    for name in world.cloud.blob_list("checkpoint/").await.unwrap() {
        let (data, _) = world.cloud.blob_get(&name).await.unwrap().unwrap();
        pieces.push((name, data));
    }
    pieces
}

#[tokio::test]
async fn what_was_closed_is_there_when_opened_again() {
    let world = closed(1).await;
    let sizes = |pieces: &[(String, Bytes)]| pieces.iter().map(|p| p.1.len()).collect::<Vec<_>>();
    let before = sizes(&pieces(&world).await);
    assert_eq!(before.len(), 10);
    for round in 2..5 {
        let (vault, recovered) = world.open(world.healthy()).await.unwrap();
        assert_eq!(recovered.full, sections(round - 1));
        assert_eq!((vault.openings(), vault.config()), (u32::from(round), CONFIG));
        assert_eq!(vault.keys().salts().count(), usize::from(round));
        vault.close(Section::each(sections(round))).await.unwrap();
        assert_eq!(sizes(&pieces(&world).await), before, "one size, and only the last is kept");
    }
}

#[tokio::test]
async fn a_changed_swapped_or_missing_piece_is_noticed() {
    type Spoil = fn(&mut Vec<(String, Bytes)>);
    let spoil: [Spoil; 5] = [
        |pieces| {
            let mut forged = pieces[1].1.to_vec();
            forged[7] ^= 1;
            pieces[1].1 = forged.into();
        },
        |pieces| {
            let first = pieces[0].1.clone();
            pieces[0].1 = std::mem::replace(&mut pieces[1].1, first);
        },
        |pieces| pieces[0].1 = pieces[0].1.slice(1..),
        |pieces| pieces[2].1 = Bytes::new(),
        |pieces| drop(pieces.pop()),
    ];
    for (case, spoil) in spoil.into_iter().enumerate() {
        let world = closed(1).await;
        let honest = pieces(&world).await;
        let mut spoiled = honest.clone();
        spoil(&mut spoiled);
        show(&world, &spoiled).await;
        let opened = world.open(world.healthy()).await;
        let noticed = matches!(opened, Err(Error::CloudLied(Suspicion::Piece(_))));
        assert!(noticed, "case {case}: {:?}", opened.err());
        // With what belongs there the same store opens.
        show(&world, &honest).await;
        assert_eq!(world.open(world.healthy()).await.unwrap().1.full, sections(1), "case {case}");
    }
}

/// Makes `pieces` all that the cloud has of the checkpoint.
async fn show(world: &World, pieces: &[(String, Bytes)]) {
    let names = world.cloud.blob_list("checkpoint/").await.unwrap();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.cloud.blob_delete(&names).await.unwrap();
    for (name, data) in pieces {
        world.cloud.blob_put(name, data.clone(), PutCondition::Always).await.unwrap();
    }
}

#[tokio::test]
async fn a_section_above_its_public_length_is_our_fault_and_closes_nothing() {
    let world = closed(1).await;
    let (vault, _) = world.open(world.healthy()).await.unwrap();
    let long = vec![Section { tag: 1, padded_len: 3, data: vec![0; 4] }];
    assert!(matches!(vault.close(Section::each(long)).await, Err(Error::Bug(_))));
    assert_eq!(world.open(world.healthy()).await.unwrap().1.full, sections(1));
}

/// A register that can be made to fail, as a power cut between two steps would.
#[derive(Default)]
struct Failing {
    inner: MemoryRegister,
    broken: AtomicBool,
}

#[async_trait]
impl Register for Failing {
    async fn read(&self) -> Result<Option<RegisterValue>> {
        self.inner.read().await
    }

    async fn write(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        if self.broken.load(Ordering::Relaxed) {
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
    let (world, register) = (World::default(), Arc::new(Failing::default()));
    let (vault, _) = world.open_with(world.healthy(), register.clone()).await.unwrap();
    register.broken.store(true, Ordering::Relaxed);
    assert!(matches!(vault.close(Section::each(sections(5))).await, Err(Error::Register { .. })));
    register.broken.store(false, Ordering::Relaxed);
    let (_, recovered) = world.open_with(world.healthy(), register).await.unwrap();
    assert_eq!(recovered.full, sections(5));
}

/// The same seed twice would draw the salt of the opening before: a key would meet its nonces
/// again.
#[tokio::test]
async fn no_opening_has_the_salt_of_another() {
    let (world, master, random) = (World::default(), master(), Randomness::repeatable(1));
    let opening = || Opening {
        store: world.cloud.clone(),
        register: world.register.clone(),
        master: &master,
        random: &random,
        settings: SETTINGS,
        accept_rollback_risk: false,
    };
    let vault = opening().create(CONFIG.to_vec()).await.unwrap();
    vault.close(Section::each(Vec::new())).await.unwrap();
    for _ in 0..3 {
        let (vault, _) = opening().recover().await.unwrap();
        let mut salts: Vec<[u8; 16]> = vault.keys().salts().map(|salt| salt.0).collect();
        salts.sort_unstable();
        assert!(salts.windows(2).all(|pair| pair[0] != pair[1]));
        vault.close(Section::each(Vec::new())).await.unwrap();
    }
}
