//! Stores of awkward sizes: of a block or two, of one more than a power of two, of blocks of few
//! bytes.

use std::sync::Arc;

use fogbank_oram::{Error, ImmediateShape};
use fogbank_store::{Fault, Faulty, Store};

use crate::KINDS;
use crate::engines::World;
use crate::history::{History, Workload, read_all};

async fn life(world: &World, history: &mut History, store: Arc<dyn Store>, seed: u64) {
    let lived = async {
        let engine = world.open(store).await?;
        let found = read_all(&*engine).await?;
        history.check(found).unwrap_or_else(|what| panic!("{:?} {seed}: {what}", world.shape));
        let mut work = Workload::on(world.shape, seed);
        history.run_ahead(&*engine, &mut work, (60, 1 + seed as usize % 9)).await?;
        engine.close().await
    };
    let lived = lived.await;
    let words = || format!("{:?} {:?} {seed}: {lived:?}", world.kind, world.shape);
    assert!(matches!(lived, Ok(()) | Err(Error::Absent(_))), "{}", words());
}

#[tokio::test(start_paused = true)]
async fn every_size_is_a_disk_that_outlives_its_process() {
    for kind in KINDS {
        for capacity in [1, 2, 3, 5, 7, 17, 100] {
            for value_bytes in [5, 33, 600] {
                let shape = ImmediateShape { capacity, value_bytes };
                let (world, mut history) = (World::of(kind, shape), History::on(shape));
                for seed in 0..4 {
                    let dies = 20 + seed * 45 + u64::from(capacity);
                    let store = Faulty::dying(world.cloud.clone(), dies, Fault::After);
                    life(&world, &mut history, Arc::new(store), seed).await;
                }
                life(&world, &mut history, world.cloud.clone(), 5).await;
                life(&world, &mut history, world.cloud.clone(), 6).await;
                assert!(history.acknowledged >= 120, "{kind:?} {shape:?}");
            }
        }
    }
}
