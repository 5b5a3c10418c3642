//! A site that is read from one end to the other: what comes is what it holds at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fogbank_env::Mutex;
use fogbank_oram::hierarchy::HierarchyEngine;
use fogbank_oram::{Access, Address, Error, ImmediateEngine, Result, Scanned};
use fogbank_store::{ArrayId, Call, ChunkWrite, Faulty, Store};
use tokio::task::JoinSet;

use crate::lies::{copy, join, writes};
use crate::world::{BLOCKS, VALUE_BYTES, World};

/// What comes, by block, and how often something did.
#[derive(Default)]
pub struct Came {
    pub blocks: BTreeMap<u32, Vec<u8>>,
    pub count: usize,
    progress: (u32, u32),
}

impl Scanned for Came {
    fn block(&mut self, address: Address, value: &[u8]) -> Result<()> {
        self.blocks.insert(address.0, value.to_vec());
        self.count += 1;
        Ok(())
    }

    fn progress(&mut self, done: u32, of: u32) {
        assert!(done >= self.progress.0 && done <= of, "{done} of {of}");
        self.progress = (done, of);
    }
}

impl Came {
    /// All that a site holds now.
    pub async fn of(engine: &HierarchyEngine) -> Result<Self> {
        let mut came = Self::default();
        engine.scan(&mut came).await?;
        Ok(came)
    }

    pub fn first_byte(&self, block: u32) -> u8 {
        self.blocks.get(&block).map_or(0, |value| value[0])
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_read_whole_is_what_was_written() {
    for seed in [20, 21] {
        let world = World::new(seed);
        let (engine, mut written) = (world.join().await.unwrap(), [0; BLOCKS as usize]);
        for round in 0..230_u32 {
            let block = round * 7 % 33; // some are never written
            let value = 1 + (round % 250) as u8;
            let access = Access::Write { offset: 0, bytes: vec![value; VALUE_BYTES].into() };
            engine.submit(Address(block), access).await.unwrap();
            written[block as usize] = value;
            if round % 9 != 0 {
                continue;
            }
            // By who has followed, and by who has just joined.
            let other = world.join().await.unwrap();
            for reader in [&engine, &other] {
                let came = Came::of(reader).await.unwrap();
                assert_eq!(came.count, came.blocks.len(), "nothing comes twice where nobody works");
                for (block, value) in (0..).zip(written) {
                    assert_eq!(came.first_byte(block), value, "block {block} after {round}");
                }
            }
            other.close().await.unwrap();
        }
    }
}

/// One writes one block after the other, while another reads all. What comes is the state between
/// two writes, though tables come and go meanwhile.
#[tokio::test(start_paused = true)]
async fn what_is_read_while_others_work_was_there_at_one_moment() {
    let mut came_again = 0;
    for seed in 22..30 {
        let world = World::new(seed);
        let one = world.join().await.unwrap();
        // So far away that small tables go while they are read.
        let two = world.join_over(world.register(), Duration::from_millis(500)).await.unwrap();
        writes(&*one, 60).await.unwrap();
        let mut works = JoinSet::new();
        let writer = one.clone();
        works.spawn(async move {
            for round in 0..400_u32 {
                let bytes = vec![100 + (round / BLOCKS) as u8].into();
                let access = Access::Write { offset: 0, bytes };
                writer.submit(Address(round % BLOCKS), access).await?;
            }
            Ok::<(), Error>(())
        });
        while works.try_join_next().is_none() {
            let came = Came::of(&two).await.unwrap();
            came_again += usize::from(came.count > came.blocks.len());
            // In the order of blocks the values fall once, by one, or not at all.
            let values: Vec<u8> = (0..BLOCKS).map(|block| came.first_byte(block)).collect();
            let falls: Vec<_> = values.windows(2).filter(|pair| pair[0] != pair[1]).collect();
            if values[0] > 100 {
                let is_one_moment = falls.len() <= 1 && falls.iter().all(|f| f[0] == f[1] + 1);
                assert!(is_one_moment, "seed {seed}: {values:?}");
            }
        }
        two.close().await.unwrap();
    }
    println!("{came_again} readings in which a table went meanwhile");
    assert!(came_again > 0, "no table has gone while it was read");
}

/// Whatever cell of a table is bent that counts: it is noticed, though no query touches it.
#[tokio::test(start_paused = true)]
async fn a_bent_cell_that_nobody_asks_for_is_noticed() {
    let world = World::new(31);
    drop(world.join().await.unwrap());
    let engine = join(world.store.clone(), world.register(), 1).await.unwrap();
    writes(&*engine, 100).await.unwrap();
    engine.close().await.unwrap();
    // What whoever reads all asks for.
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let (far, names) = (Faulty::new(copy(&world.store).await), asked.clone());
    far.on_call(move |call, _| {
        if let Call::ReadChunks(chunks) = call {
            names.lock().extend(chunks.iter().copied());
        }
        None
    });
    let reader = join(Arc::new(far), world.register(), 2).await.unwrap();
    Came::of(&reader).await.unwrap();
    let (asked, mut noticed) = (asked.lock().clone(), BTreeSet::new());
    for array in (0..4).map(ArrayId) {
        for name in world.store.list_chunks(array).await.unwrap() {
            let bent = copy(&world.store).await;
            let chunk = bent.read_chunks(&[name]).await.unwrap().remove(0).unwrap();
            let mut data = chunk.to_vec();
            data[0] ^= 1;
            bent.delete_chunks(&[name]).await.unwrap();
            bent.write_chunks(vec![ChunkWrite { chunk: name, data: data.into() }]).await.unwrap();
            let scanned = async {
                let engine = join(bent, world.register(), 2).await?;
                Came::of(&engine).await.map(drop)
            };
            match scanned.await {
                Ok(()) => {} // of a table that is superseded
                Err(error) => {
                    assert!(matches!(error, Error::CloudLied(_)), "{error}");
                    noticed.insert(name);
                }
            }
        }
    }
    println!("{} bent chunks were noticed", noticed.len());
    assert_eq!(noticed, asked);
    let levels: BTreeSet<ArrayId> = noticed.iter().map(|name| name.array).collect();
    assert!(noticed.len() > 4 && levels.len() > 2, "{noticed:?}");
}
