//! Lives of a store: every record of every life is the one that the oracle predicts, however they
//! end.

use std::time::Duration;

use fogbank_audit::oracle::replay;
use fogbank_oram::immediate::LinkRate;
use fogbank_oram::tao::TaoSettings;
use fogbank_sim::scene::tao::{Load, TaoScene};
use fogbank_sim::scene::{Death, Fate};
use fogbank_store::{Lie, LieRule, Link, Operation};

use crate::volumes::{die, lives};

fn scene(number: u64) -> TaoScene {
    let load = Load::ALL[number as usize % Load::ALL.len()];
    TaoScene { accesses: 40, ..TaoScene::new(load, number) }
}

#[test]
fn openings_of_one_store() {
    for load in [Load::Mixed, Load::Scan] {
        let (summary, played) = lives(&TaoScene::new(load, 1), &[None; 3]);
        assert_eq!((summary.openings, summary.closings, summary.crashes), (3, 3, 0));
        assert!(played.iter().all(|played| played.wrong == 0 && played.answered == 3_000));
    }
}

#[test]
fn deaths_at_every_call() {
    assert!(die(1..120, in_some_way) > 60);
}

#[test]
#[ignore = "takes minutes: for changes of the engine, the vault or the oracle"]
fn deaths_by_the_thousand() {
    die(120..3_000, in_some_way);
}

/// Some write back at other times, keep to a grid or to a pace. By another number than the fates,
/// or each of these would have its own.
fn in_some_way(number: u64) -> TaoScene {
    let ms = Duration::from_millis;
    let base = scene(number);
    let usual = base.settings.clone();
    let settings = match number % 7 {
        0 => TaoSettings { write_back_every: 2, ..usual },
        1 => TaoSettings { write_back_every: 9, ..usual }
            .with_shell(|shell| shell.window_bytes = 1 << 16),
        2 => usual.with_shell(|shell| shell.quantum = ms(7)),
        3 => usual.with_shell(|shell| {
            shell.quantum = ms(4);
            shell.pace =
                LinkRate { up_bytes_per_s: Some(200_000), down_bytes_per_s: Some(400_000) };
        }),
        4 => usual.with_shell(|shell| shell.quantum = ms(3)),
        _ => usual,
    };
    TaoScene { settings, ..base }
}

/// A forged reply is the last thing after which anything leaves.
#[test]
fn silence_after_a_lie() {
    for (operation, nth) in (20..1_400).step_by(60).map(|nth| (Operation::ReadChunks, nth)) {
        let lie = Some(LieRule { operation, nth, lie: Lie::FlipBit(5), always: false });
        // A commit takes long, so that some lies come while departures wait for a checkpoint.
        let link = Link { write: Duration::from_millis(30), ..scene(3).link };
        let scene = TaoScene { lie, link, accesses: 300, ..scene(3) };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let played = scene.record(&path).unwrap();
        let summary = replay(&[&path], &mut []).unwrap();
        assert!(summary.lies > 0 && played.stopped.is_some(), "{summary:?}");
    }
}

/// The cloud is gone for a moment: a put whose outcome nobody knows is looked for.
#[test]
fn what_is_lost_on_the_way_back() {
    for call in [1, 2, 8, 9, 40, 41, 42, 43] {
        for how in [Fate::Lost, Fate::Failed] {
            lives(&scene(call), &[Some(Death { call, how }), None]);
        }
    }
}
