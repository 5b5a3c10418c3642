//! Reading a store from one end to the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_store::{Lie, LieRule, MemoryStore, Operation, Tampering};

use super::{below, keys, settings, workload};
use crate::ring::{RingEngine, RingSettings};
use crate::{Address, BatchEngine, Error, Result, Scanned, Unverified};

const CAPACITY: u32 = 120;

#[derive(Default)]
struct Found {
    blocks: BTreeMap<u32, Vec<u8>>,
    progress: Vec<(u32, u32)>,
    goes_on: bool,
    lost: Vec<(Unverified, Option<u32>)>,
}

impl Scanned for Found {
    fn block(&mut self, address: Address, value: &[u8]) -> Result<()> {
        assert_eq!(self.blocks.insert(address.0, value.to_vec()), None, "{address:?} twice");
        Ok(())
    }

    fn progress(&mut self, done: u32, of: u32) {
        self.progress.push((done, of));
    }

    fn lost(&mut self, place: Unverified, block: Option<Address>) -> Result<()> {
        if !self.goes_on {
            return Err(Error::CloudLied(place));
        }
        self.lost.push((place, block.map(|block| block.0)));
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.goes_on
    }
}

/// An engine after some epochs of reads, writes and removals, and what it should hold.
async fn used(store: &Arc<Tampering<MemoryStore>>) -> (RingEngine, BTreeMap<u32, Vec<u8>>) {
    used_by(store, settings(CAPACITY, (4, 5, 3))).await
}

async fn used_by(
    store: &Arc<Tampering<MemoryStore>>,
    settings: RingSettings,
) -> (RingEngine, BTreeMap<u32, Vec<u8>>) {
    let random = fogbank_env::Randomness::repeatable(3);
    let engine = RingEngine::create(store.clone(), keys(1), settings, &random).await;
    let (mut engine, mut model, mut stream) = (engine.unwrap(), BTreeMap::new(), workload(4));
    for epoch in 0..60 {
        let reads: Vec<Address> =
            (0..4).map(|i| Address(below(&mut stream, 30) + 30 * i)).collect();
        engine.read_batch(&reads).await.unwrap();
        let writes = (0..5).map(|i| {
            let block = below(&mut stream, 24) + 24 * i;
            let value = (epoch % 7 != 3).then(|| vec![(block + epoch) as u8; 24]);
            match &value {
                Some(value) => model.insert(block, value.clone()),
                None => model.remove(&block),
            };
            (Address(block), value.map(Bytes::from))
        });
        let writes = writes.collect();
        engine.write_batch(writes).await.unwrap();
        engine.commit().await.unwrap();
    }
    (engine, model)
}

#[tokio::test]
async fn a_scan_finds_every_block_once_and_changes_nothing() {
    let store = Arc::new(Tampering::new(MemoryStore::new()));
    let (mut engine, model) = used(&store).await;
    for _ in 0..2 {
        let mut found = Found::default();
        engine.scan(&mut found).await.unwrap();
        assert_eq!(found.blocks, model);
        let (done, of) = *found.progress.last().unwrap();
        assert!(done == of && of > 10, "{done} of {of}");
    }
    let all: Vec<Address> = model.keys().map(|block| Address(*block)).take(8).collect();
    let values = engine.read_batch(&all).await.unwrap();
    assert!(all.iter().zip(&values).all(|(a, v)| v.as_deref() == Some(&model[&a.0][..])));
    let within = engine.scan(&mut Found::default()).await;
    assert!(matches!(within, Err(Error::Caller(_))), "an epoch is open");
}

/// Whatever cell differs, be it a dummy or one that nobody reads again.
#[tokio::test]
async fn a_scan_notices_any_cell() {
    let lies = (0..9).map(Lie::FlipBit).chain([Lie::Missing, Lie::Short, Lie::Swap]);
    for lie in lies {
        let store = Arc::new(Tampering::new(MemoryStore::new()));
        let (mut engine, _) = used(&store).await;
        let cell_bits = 8 * engine.geometry().cell_bytes();
        let lie = match lie {
            Lie::FlipBit(cell) => Lie::FlipBit(cell * cell_bits + cell_bits / 2),
            lie => lie,
        };
        store.add(LieRule { operation: Operation::ReadChunks, nth: 1, lie, always: false });
        let scanned = engine.scan(&mut Found::default()).await;
        let Err(Error::CloudLied(told)) = scanned else { panic!("{lie:?}: {scanned:?}") };
        match lie {
            Lie::FlipBit(bit) => {
                let cells = usize::from(engine.geometry().bucket.slots());
                let cell = (bit / cell_bits % cells) as u16;
                assert!(matches!(told, Unverified::Cell { cell: c, .. } if c == cell), "{told:?}");
            }
            Lie::Swap => assert!(matches!(told, Unverified::Cell { cell: 0, .. }), "{told:?}"),
            _ => assert!(matches!(told, Unverified::Chunk(_)), "{told:?}"),
        }
        assert_eq!(store.lies_told(), 1);
        assert!(engine.read_batch(&[]).await.is_err(), "and the engine has stopped");
    }
}

/// What verifies is handed over, what does not is named, and there is no third: neither a block
/// that is missing without a word nor one that is called lost and was read.
#[tokio::test]
async fn who_goes_on_gets_all_that_verifies_and_is_told_the_rest() {
    let flips = (0..9).map(Lie::FlipBit);
    let lies = flips.chain((0..10).flat_map(|_| [Lie::Missing, Lie::Short]));
    let (mut blocks, mut dummies) = (0, 0);
    for (nth, lie) in (1..).zip(lies) {
        let store = Arc::new(Tampering::new(MemoryStore::new()));
        // A chunk a message: each lie is about another one.
        let settings =
            RingSettings { window_bytes: 1, windows: 1, ..settings(CAPACITY, (4, 5, 3)) };
        let (mut engine, model) = used_by(&store, settings).await;
        let cell_bits = 8 * engine.geometry().cell_bytes();
        let lie = match lie {
            Lie::FlipBit(cell) => Lie::FlipBit(cell * cell_bits + cell_bits / 2),
            lie => lie,
        };
        store.add(LieRule { operation: Operation::ReadChunks, nth, lie, always: false });
        let mut found = Found { goes_on: true, ..Found::default() };
        engine.scan(&mut found).await.unwrap_or_else(|error| panic!("{nth}: {error}"));
        assert_eq!(store.lies_told(), 1);
        assert!(!found.lost.is_empty(), "{lie:?}");
        let lost: Vec<u32> = found.lost.iter().filter_map(|(_, block)| *block).collect();
        for block in &lost {
            assert_eq!(found.blocks.insert(*block, model[block].clone()), None, "{block} was read");
        }
        assert_eq!(found.blocks, model, "{lie:?}");
        assert!(found.lost.is_sorted_by_key(|(place, _)| match place {
            Unverified::Cell { chunk, cell } => (*chunk, *cell),
            Unverified::Chunk(chunk) => (*chunk, 0),
            other => panic!("{other:?}"),
        }));
        blocks += lost.len();
        dummies += found.lost.len() - lost.len();
        // The engine goes on, too: nothing has changed.
        engine.scan(&mut Found::default()).await.unwrap();
    }
    assert!(blocks > 9 && dummies > 3, "{blocks} {dummies}");
}
