//! The batched engines, held to one contract: each beside a plain map, at awkward sizes, with its
//! process dying at any call to the cloud, recoveries too. An epoch counts whole or not at all.

#![allow(clippy::unwrap_used)] // helpers of tests, too

mod engines;
mod history;

use std::sync::Arc;

use fogbank_oram::{BatchShape, Error};
use fogbank_store::{Fault, Faulty, Store};

use engines::{KINDS, Kind, World};
use history::{History, Map, read_all};

/// Blocks, bytes of each, read batch, write batch.
const SHAPES: [(u32, usize, usize, usize); 5] =
    [(1, 1, 1, 1), (2, 5, 1, 2), (3, 33, 2, 1), (7, 16, 3, 4), (100, 20, 8, 5)];
/// Epochs of a life that may be cut short: more than from one full checkpoint to the next.
const EPOCHS: usize = 5;
const FAULTS: [Fault; 3] = [Fault::Before, Fault::After, Fault::Partly(2)];

fn all() -> impl Iterator<Item = (Kind, BatchShape)> {
    let shapes = SHAPES.map(|(capacity, value_bytes, read_batch, write_batch)| BatchShape {
        capacity,
        value_bytes,
        read_batch,
        write_batch,
    });
    KINDS.into_iter().flat_map(move |kind| shapes.map(|shape| (kind, shape)))
}

/// What a life came to.
#[derive(Debug, Default)]
struct Told {
    /// Whether it ended by itself.
    lived: bool,
    /// Batches that it read again.
    repeated: usize,
}

/// A life that looks at what the ones before have left, and goes on.
async fn life(world: &World, history: &mut History, store: Arc<dyn Store>) -> Told {
    let mut told = Told::default();
    let lived = async {
        let mut open = world.open(store).await?;
        told.repeated = open.repeated;
        let found = read_all(&mut open).await?;
        let words = (world.kind, world.shape);
        history.check(found).unwrap_or_else(|what| panic!("{words:?}: {what}"));
        history.run(&mut open, EPOCHS).await?;
        open.close().await
    };
    let lived = lived.await;
    let words = (world.kind, world.shape);
    assert!(matches!(lived, Ok(()) | Err(Error::Absent(_))), "{words:?}: {lived:?}");
    told.lived = lived.is_ok();
    told
}

fn dying(world: &World, (dies, fault): (u64, Fault)) -> Arc<dyn Store> {
    Arc::new(Faulty::dying(world.cloud.clone(), dies, fault))
}

#[tokio::test(start_paused = true)]
async fn every_death_keeps_the_epochs_that_counted() {
    for (kind, shape) in all() {
        let (mut repeated, mut lives) = (0, 0);
        for dies in 1.. {
            let (world, mut history) = (World::new(kind, shape), History::new(shape, dies));
            let fault = FAULTS[dies as usize % FAULTS.len()];
            let first = life(&world, &mut history, dying(&world, (dies, fault))).await;
            let second = life(&world, &mut history, world.cloud.clone()).await;
            assert!(second.lived && history.committed >= EPOCHS, "{kind:?} {shape:?} {dies}");
            (repeated, lives) = (repeated + second.repeated, lives + 1);
            if first.lived {
                break;
            }
        }
        assert!(lives > 40 && repeated > lives / 2, "{kind:?} {shape:?}: {lives}, {repeated}");
    }
}

/// Lives one after the other, each cut somewhere, mostly short: also recoveries are.
#[tokio::test(start_paused = true)]
async fn many_lives_in_a_row() {
    for (kind, shape) in all() {
        for seed in 0..4 {
            let (world, mut history) = (World::new(kind, shape), History::new(shape, seed));
            for _ in 0..10 {
                let dies = 5 + u64::from(history.below(90));
                let fault = FAULTS[history.below(3) as usize];
                life(&world, &mut history, dying(&world, (dies, fault))).await;
            }
            assert!(life(&world, &mut history, world.cloud.clone()).await.lived);
        }
    }
}

/// A store that is closed is gone on with, again and again, and nothing is read again.
#[tokio::test(start_paused = true)]
async fn a_closed_store_is_opened_as_it_was() {
    for (kind, shape) in all() {
        let (world, mut history) = (World::new(kind, shape), History::new(shape, 1));
        for _ in 0..4 {
            let told = life(&world, &mut history, world.cloud.clone()).await;
            assert!(told.lived && told.repeated == 0, "{kind:?} {shape:?}: {told:?}");
        }
    }
}

/// The canary: an engine that has lost an epoch, and one that holds half of another, are seen.
#[tokio::test(start_paused = true)]
async fn an_epoch_that_is_lost_or_torn_is_seen() {
    let (kind, shape) = all().last().unwrap();
    let (world, mut history) = (World::new(kind, shape), History::new(shape, 1));
    let mut open = world.open(world.cloud.clone()).await.unwrap();
    history.run(&mut open, EPOCHS).await.unwrap();
    let whole = read_all(&mut open).await.unwrap();
    assert!(whole.len() > 3);
    let mut torn = whole.clone();
    torn.pop_last();
    for found in [Map::new(), torn] {
        assert!(history.check(found).is_err());
    }
    assert_eq!(history.check(whole), Ok(()));
}
