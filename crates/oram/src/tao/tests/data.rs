//! What is read is what was written, whatever the order of replies.

use std::collections::VecDeque;
use std::time::Duration;

use fogbank_store::ArrayId;

use super::scheduler::Scheduler;
use super::*;
use crate::Error;

/// Submits `count` accesses with up to `under_way` at once and holds every answer against the
/// model: accesses take effect in the order of arrival.
pub async fn run(
    engine: &TaoEngine,
    model: &mut Model,
    work: &mut Workload,
    count: usize,
    under_way: usize,
) {
    let mut waiting: VecDeque<(Ticket, [u8; BLOCK_BYTES])> = VecDeque::new();
    for _ in 0..count {
        let (address, access) = work.next();
        let expected = model.apply(address, &access);
        waiting.push_back((engine.submit(address, access), expected));
        if waiting.len() >= under_way {
            let (ticket, expected) = waiting.pop_front().unwrap();
            assert_eq!(ticket.await.unwrap(), expected[..]);
        }
    }
    for (ticket, expected) in waiting {
        assert_eq!(ticket.await.unwrap(), expected[..]);
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_right_whatever_the_order_of_replies() {
    for (seed, under_way, cache_bytes) in
        [(1, 1, 0), (2, 3, 0), (3, 16, 0), (4, 60, 0), (5, 8, 2_000), (6, 40, 2_000)]
    {
        let world = World::default();
        let store = Scheduler::random(world.cloud.clone(), seed, Duration::from_millis(50));
        let settings = TaoSettings { cache_bytes, ..settings(100) };
        let engine = world.open(store.clone(), settings.clone()).await.unwrap();
        assert_eq!(engine.geometry().cached_levels > 0, cache_bytes > 0);
        let (mut model, mut work) = (Model::new(100), Workload::new(seed, 100));
        run(&engine, &mut model, &mut work, 1_500, under_way).await;
        assert!(engine.stats().checkpoints > 3, "{:?}", engine.stats());
        engine.close().await.unwrap();
        let engine = world.open(store.clone(), settings.clone()).await.unwrap();
        assert_eq!(read_all(&engine).await.unwrap(), model);
        run(&engine, &mut model, &mut work, 200, under_way).await;
        engine.close().await.unwrap();
        // Nothing is left but what counts.
        let chunks = world.cloud.list_chunks(ArrayId(1)).await.unwrap();
        let mut buckets: Vec<u32> = chunks.iter().map(|name| name.chunk).collect();
        let all = buckets.len();
        buckets.sort_unstable();
        buckets.dedup();
        assert_eq!(buckets.len(), all, "two versions of a bucket");
    }
}

#[tokio::test]
async fn sizes_that_nobody_would_choose() {
    for capacity in [1, 2, 3, 5, 17] {
        let world = World::default();
        let engine = world.open(world.cloud.clone(), settings(capacity)).await.unwrap();
        let (mut model, mut work) = (Model::new(capacity), Workload::new(9, capacity.max(3)));
        for _ in 0..300 {
            let (Address(block), access) = work.next();
            let address = Address(block % capacity);
            let expected = model.apply(address, &access);
            assert_eq!(engine.submit(address, access).await.unwrap(), expected[..]);
        }
        engine.close().await.unwrap();
        let engine = world.open(world.cloud.clone(), settings(capacity)).await.unwrap();
        assert_eq!(read_all(&engine).await.unwrap(), model);
    }
}

#[tokio::test]
async fn a_callers_mistake_changes_nothing() {
    let world = World::default();
    let engine = world.open(world.cloud.clone(), settings(10)).await.unwrap();
    let wrong = [
        (Address(10), Access::Read),
        (Address(0), write(0, b"")),
        (Address(0), write(31, b"ab")),
        (Address(0), write(u32::MAX, b"a")),
    ];
    for (address, access) in wrong {
        let refused = engine.submit(address, access).await;
        assert!(matches!(refused, Err(Error::Caller(_))), "{refused:?}");
    }
    assert_eq!(read_all(&engine).await.unwrap(), Model::new(10));
    engine.close().await.unwrap();
}

/// Somebody may still hold the engine when it is closed: a connection that is just being ended.
#[tokio::test]
async fn what_comes_after_the_close_is_refused() {
    let world = World::default();
    let engine = Arc::new(world.open(world.cloud.clone(), settings(10)).await.unwrap());
    let held = engine.clone();
    held.submit(Address(1), write(0, b"kept")).await.unwrap();
    engine.close().await.unwrap();
    assert!(matches!(held.submit(Address(1), Access::Read).await, Err(Error::Caller(_))));
    assert!(matches!(held.close().await, Err(Error::Caller(_))));
    let engine = world.open(world.cloud.clone(), settings(10)).await.unwrap();
    assert_eq!(&read_all(&engine).await.unwrap().0[1][..4], b"kept");
}
