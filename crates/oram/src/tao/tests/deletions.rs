//! Versions that a checkpoint refers to stay until the next one, in whatever order write-backs
//! land.

use std::time::Duration;

use super::data::run;
use super::scheduler::Scheduler;
use super::*;
use crate::immediate::sequencer::{Number, Sequencer};
use crate::tao::processor::Processor;
use crate::tao::writeback::Written;

/// A write-back that comes to its end after the next one, which is beyond the cut.
#[test]
fn a_version_is_superseded_by_the_write_back_that_is_newer() {
    let settings = TaoSettings { write_back_every: 1, ..settings(8) };
    let mut state = Processor::new(&settings, &Randomness::repeatable(1), 1).unwrap();
    let mut answers = Sequencer::default();
    let mut flush = || {
        let (path, _) = state.read_path(answers.arrive(None), 0, Access::Read);
        state.path_returned(&path, Vec::new(), &mut answers).unwrap().unwrap()
    };
    let [cut, next] = [flush(), flush()];
    for due in [&next, &cut] {
        let chunks = due.images.iter().map(|(chunk, _)| *chunk).collect();
        let written = Written { tick: due.tick, flushed: due.flushed, chunks };
        state.acknowledge(&written, 2);
    }
    // The root at least is in both; a checkpoint of the cut refers to it as the first wrote it.
    assert_eq!(state.take_superseded(cut.tick, Number::MAX), []);
    let later = state.take_superseded(next.tick, Number::MAX);
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
