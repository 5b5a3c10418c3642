//! Lives of a store: every record of every life is the one that the oracle predicts, however they end.

use std::ops::Range;
use std::time::Duration;

use fogbank_audit::oracle::replay;
use fogbank_sim::scene::partition::{Load, PartitionScene};
use fogbank_sim::scene::{Death, Fate};
use fogbank_store::{Lie, LieRule, Operation};

use crate::volumes::lives;

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
    assert!(die(1..90) > 40);
}

#[test]
#[ignore = "takes minutes: for changes of the engine, the vault or the oracle"]
fn deaths_by_the_thousand() {
    die(90..2_000);
}

/// Plays four lives for every number, two of which die somewhere; how many did.
fn die(numbers: Range<u64>) -> u32 {
    let dies = |call, how| Some(Death { call, how });
    let mut recovered = 0;
    for number in numbers {
        let nth = |part: u64| Fate::ALL[(number / part) as usize % Fate::ALL.len()];
        let mut scene = scene(number);
        if number % 7 < 2 {
            scene.settings.engine.shell.quantum = Duration::from_millis(3 + 4 * (number % 7));
        }
        let deaths =
            [None, dies(1 + number * 3 % 300, nth(1)), dies(1 + number * 7 % 90, nth(5)), None];
        recovered += u32::from(lives(&scene, &deaths).0.crashes > 0);
    }
    recovered
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
