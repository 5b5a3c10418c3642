//! Versions that a checkpoint refers to stay until the next one, in whatever order write-backs land.

use std::time::Duration;

use super::data::run;
use super::scheduler::Scheduler;
use super::*;
use crate::tao::processor::Processor;

/// A write-back that comes to its end after the next one, which is beyond the cut.
#[test]
fn a_version_is_superseded_by_the_write_back_that_is_newer() {
    let settings = TaoSettings { write_back_every: 1, ..settings(8) };
    let geometry = settings.geometry().unwrap();
    let mut state = Processor::new(geometry, &settings, &Randomness::repeatable(1));
    let mut flush = || {
        let (path, _) = state.read_path(0, Access::Read, None);
        state.path_returned(&path, Vec::new()).unwrap().unwrap()
    };
    let [cut, next] = [flush(), flush()];
    for due in [&next, &cut] {
        let chunks: Vec<u32> = due.images.iter().map(|(chunk, _)| *chunk).collect();
        state.acknowledge(1, due.tick, due.flushed, &chunks);
    }
    // The root at least is in both; a checkpoint of the cut refers to it as the first wrote it.
    assert_eq!(state.take_superseded(cut.tick), []);
    let later = state.take_superseded(next.tick);
    assert!(later.iter().any(|name| name.chunk == 0), "{later:?}");
}

/// A process that dies at any time under a cloud that lets write-backs overtake each other.
#[tokio::test(start_paused = true)]
async fn what_a_checkpoint_refers_to_is_there() {
    for seed in 0..30 {
        let world = World::default();
        let store = Scheduler::random(world.cloud.clone(), seed, Duration::from_millis(50));
        let settings = TaoSettings { write_back_every: 2, ..settings(20) };
        let engine = world.open(store, settings.clone()).await.unwrap();
        let (mut model, mut work) = (Model::new(20), Workload::new(seed, 20));
        run(&engine, &mut model, &mut work, 200 + seed as usize, 16).await;
        drop(engine);
        let engine = world.open(world.cloud.clone(), settings).await.unwrap();
        assert_eq!(read_all(&engine).await.unwrap(), model);
        engine.close().await.unwrap();
    }
}
