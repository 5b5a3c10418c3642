//! A classifier over traces of loads that arrive at the same times.

use std::time::Duration;

use crate::volumes::{predicted, told as told_of};
use fogbank_oram::ImmediateShape;
use fogbank_oram::immediate::Rate;
use fogbank_oram::tao::TaoSettings;
use fogbank_oram::tao::canary::Leak as Tree;
use fogbank_sim::scene::tao::canary::Leak;
use fogbank_sim::scene::tao::{FILE_SYSTEM_BLOCKS, Load, Schedule, TaoScene};

/// What it says of two loads.
fn told(first: Load, second: Load, change: impl Fn(TaoScene) -> TaoScene) -> (bool, String) {
    told_of((first, second), |load, run| {
        change(TaoScene { arrivals: run / 2, ..TaoScene::new(load, 50 + run) })
    })
}

#[test]
fn loads_that_arrive_alike_look_alike() {
    for (first, second) in [
        (Load::OneHotBlock, Load::Uniform),
        (Load::AllReads, Load::AllWrites),
        (Load::Scan, Load::Mixed),
    ] {
        let (apart, failed) = told(first, second, |scene| scene);
        assert_eq!((apart, failed.as_str()), (false, ""), "{first:?} {second:?}");
    }
}

/// At a fixed rate arrivals need not be alike.
#[test]
fn at_a_fixed_rate_arrivals_do_not_show() {
    let rate = Some(Rate { interval: 10_000_000, accesses: 6 });
    let (apart, failed) = told(Load::OneHotBlock, Load::Scan, |scene| TaoScene {
        settings: scene.settings.clone().with_shell(|shell| shell.rate = rate),
        arrivals: scene.seed,
        ..scene
    });
    assert_eq!((apart, failed.as_str()), (false, ""));
}

/// Two file systems: as long served, one large file copied to it or many small ones made on it.
fn file_systems(scene: TaoScene, rate: Option<Rate>) -> TaoScene {
    let shape = ImmediateShape { capacity: FILE_SYSTEM_BLOCKS, value_bytes: 16 };
    let quantum = Duration::from_millis(2);
    let settings = TaoSettings::new(shape).with_shell(|shell| {
        shell.rate = rate;
        shell.quantum = quantum;
        shell.under_way_max = 256;
    });
    let (clients, accesses, gap) = (1, scene.load.accesses(), Duration::from_millis(2));
    let (serves_until, schedule) =
        (Duration::from_secs(20), Schedule { every: 0, ..scene.schedule });
    TaoScene { settings, clients, accesses, gap, serves_until, schedule, ..scene }
}

#[test]
fn file_systems_at_a_fixed_rate_look_alike() {
    let rate = Some(Rate { interval: 10_000_000, accesses: 4 });
    let (first, second) = (Load::OneLargeFile, Load::ManySmallFiles);
    let (apart, failed) = told(first, second, |scene| file_systems(scene, rate));
    assert_eq!((apart, failed.as_str()), (false, ""));
    // Nor by counting; without the rate anybody could.
    let paths = |load, rate| predicted(&file_systems(TaoScene::new(load, 7), rate)).accesses;
    assert_eq!(paths(first, rate), paths(second, rate));
    assert_ne!(paths(first, None), paths(second, None));
}

#[test]
fn it_tells_loads_apart_that_do_not_look_alike() {
    for leak in [Tree::OwnPathTwice, Tree::DecoyNotWritten] {
        let leaking = |scene| TaoScene { leak: Some(Leak::Tree(leak)), ..scene };
        assert!(told(Load::OneHotBlock, Load::Uniform, leaking).0, "{leak:?}");
    }
}
