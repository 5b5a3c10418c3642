//! A classifier over traces of loads that arrive at the same times, and what is free in a long run.

use std::time::Duration;

use fogbank_oram::immediate::Rate;
use fogbank_oram::partition::canary::Leak as Pyramid;
use fogbank_sim::scene::partition::canary::Leak;
use fogbank_sim::scene::partition::{Load, PartitionScene, Schedule};

use crate::volumes::{found, predicted, told};

fn scene(load: Load, run: u64) -> PartitionScene {
    PartitionScene { arrivals: run / 2, accesses: 400, ..PartitionScene::new(load, 50 + run) }
}

#[test]
fn loads_that_arrive_alike_look_alike() {
    for loads in [
        (Load::OneHotBlock, Load::Uniform),
        (Load::AllReads, Load::AllWrites),
        (Load::Scan, Load::Mixed),
    ] {
        assert_eq!(told(loads, scene), (false, String::new()), "{loads:?}");
    }
}

/// At a fixed rate arrivals need not be alike.
#[test]
fn at_a_fixed_rate_arrivals_do_not_show() {
    let rate = Some(Rate { interval: 10_000_000, accesses: 6 });
    let paced = |load, run| {
        let mut scene = PartitionScene { arrivals: run, ..scene(load, run) };
        scene.settings.engine.shell.rate = rate;
        scene
    };
    assert_eq!(told((Load::OneHotBlock, Load::Scan), paced), (false, String::new()));
}

#[test]
fn it_tells_loads_apart_that_do_not_look_alike() {
    let leak = Some(Leak::Pyramid(Pyramid::OwnPartitionTwice));
    let leaking = |load, run| PartitionScene { leak, ..scene(load, run) };
    assert!(told((Load::OneHotBlock, Load::Uniform), leaking).0);
}

/// Twenty thousand accesses to one block in a slow cloud: partitions, cells and ciphertexts lean
/// nowhere, also the partitions of accesses that read nothing.
#[test]
fn a_long_run_leans_nowhere() {
    let schedule = Schedule { every: 3, most: Duration::from_millis(400) };
    let usual = PartitionScene::new(Load::OneHotBlock, 3);
    let mut scene = PartitionScene { clients: 10, accesses: 2_000, schedule, ..usual };
    scene.settings.engine.checkpoint_every = 2_000;
    scene.settings.engine.shell.under_way_max = 256;
    assert_eq!(found(&scene, None).0, [""; 0]);
    let summary = predicted(&scene);
    assert!(summary.accesses == 20_000 && summary.silent_paths > 100, "{summary:?}");
}
