//! Lives of a store: every record of every life is the one that the oracle predicts, however they
//! end.

use std::time::Duration;

use fogbank_audit::oracle::replay;
use fogbank_sim::scene::partition::{Load, PartitionScene};
use fogbank_store::{Lie, LieRule, Operation};

use crate::volumes::{die, lives};

fn scene(number: u64) -> PartitionScene {
    let load = Load::ALL[number as usize % Load::ALL.len()];
    let mut scene = PartitionScene { accesses: 40, ..PartitionScene::new(load, number) };
    scene.settings.engine.checkpoint_every = 60;
    scene
}

#[test]
fn openings_of_one_store() {
    for load in [Load::Mixed, Load::Scan] {
        let scene = PartitionScene { accesses: 200, ..PartitionScene::new(load, 1) };
        let (summary, played) = lives(&scene, &[None; 3]);
        assert_eq!((summary.openings, summary.closings, summary.crashes), (3, 3, 0));
        assert!(played.iter().all(|played| played.wrong == 0 && played.answered == 1_000));
    }
}

#[test]
fn deaths_at_every_call() {
    assert!(die(1..90, on_some_grid) > 40);
}

#[test]
#[ignore = "takes minutes: for changes of the engine, the vault or the oracle"]
fn deaths_by_the_thousand() {
    die(90..2_000, on_some_grid);
}

/// Some keep to a grid, and the levels of some lie in segments. By other numbers than the fates, or
/// each of these would have its own.
fn on_some_grid(number: u64) -> PartitionScene {
    let mut scene = scene(number);
    if number % 7 < 2 {
        scene.settings.engine.shell.quantum = Duration::from_millis(3 + 4 * (number % 7));
    }
    if number % 5 < 2 {
        scene.settings.engine.layout.segment_cells = 3;
    }
    scene
}

/// A forged reply is the last thing after which anything leaves.
#[test]
fn silence_after_a_lie() {
    for (operation, nth) in (20..400).step_by(40).map(|nth| (Operation::ReadCells, nth)) {
        let lie = Some(LieRule { operation, nth, lie: Lie::FlipBit(5), always: false });
        let scene = PartitionScene { lie, accesses: 300, ..scene(3) };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let played = scene.record(&path).unwrap();
        let summary = replay(&[&path], &mut []).unwrap();
        assert!(summary.lies > 0 && played.stopped.is_some(), "{nth} {summary:?}");
    }
}
