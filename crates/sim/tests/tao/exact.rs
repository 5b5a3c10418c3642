//! Every record is the one that the oracle predicts, whatever clients ask for and in whatever order
//! the cloud replies. Equality: one message a millisecond later would be a breach.

use std::time::Duration;

use fogbank_oram::immediate::{LinkRate, Rate};
use fogbank_oram::tao::TaoSettings;
use fogbank_sim::scene::tao::{Load, Schedule, TaoScene};
use fogbank_store::Link;

use crate::volumes::predicted;

#[test]
fn every_load() {
    for load in Load::ALL {
        let summary = predicted(&TaoScene::new(load, 1));
        assert_eq!((summary.openings, summary.closings, summary.crashes), (1, 1, 0));
        assert_eq!(summary.accesses, 3_000);
        assert!(summary.epochs > 5 && summary.read_batches > 60, "{summary:?}");
    }
}

#[test]
fn every_shape() {
    let settings = TaoScene::new(Load::Mixed, 1).settings;
    let of = || settings.clone();
    for settings in [
        TaoSettings { cache_bytes: 700, ..of() },
        TaoSettings { write_back_every: 1, ..of() },
        TaoSettings { write_back_every: 40, ..of() }.with_shell(|shell| shell.window_bytes = 100),
        of().with_shell(|shell| shell.under_way_max = 7),
        of().with_shell(|shell| shell.under_way_max = 1),
        of().with_shell(|shell| {
            shell.under_way_max = 8;
            shell.windows = 1;
        }),
        of().with_shell(|shell| shell.windows = 6),
        TaoSettings { bucket_blocks: 5, ..of() }.with_shell(|shell| shell.window_bytes = 1 << 20),
    ] {
        for seed in 2..4 {
            predicted(&TaoScene { settings: settings.clone(), ..TaoScene::new(Load::Mixed, seed) });
        }
    }
}

#[test]
fn every_link() {
    let ms = Duration::from_millis;
    let scene = |seed| TaoScene { accesses: 200, ..TaoScene::new(Load::Mixed, seed) };
    for (round_trip, jitter, every, most) in
        [(2, 0, 0, 0), (1, 1, 2, 5), (8, 100, 0, 0), (8, 0, 4, 300), (60, 30, 3, 100)]
    {
        let link = Link { round_trip: ms(round_trip), jitter: ms(jitter), ..Link::instant() };
        let schedule = Schedule { every, most: ms(most) };
        for seed in 4..8 {
            predicted(&TaoScene { link, schedule, ..scene(seed) });
        }
    }
}

/// At a fixed rate records leave at the points of the grid, with as many accesses whatever was
/// asked.
#[test]
fn a_fixed_rate() {
    let scene = TaoScene { accesses: 200, ..TaoScene::new(Load::Uniform, 8) };
    for (interval_ms, accesses, under_way_max) in [(20, 8, 64), (7, 3, 64), (10, 6, 20), (5, 1, 3)]
    {
        let rate = Some(Rate { interval: interval_ms * 1_000_000, accesses });
        let settings = scene.settings.clone().with_shell(|shell| {
            shell.rate = rate;
            shell.under_way_max = under_way_max;
        });
        let summary = predicted(&TaoScene { settings, ..scene.clone() });
        assert_eq!(summary.accesses, summary.read_batches * accesses as u64);
    }
}

/// Where messages leave on a grid, every moment is known as well: what comes is taken between two
/// points.
#[test]
fn a_grid() {
    let ms = Duration::from_millis;
    let scene = |seed| TaoScene { accesses: 250, ..TaoScene::new(Load::Mixed, seed) };
    for (quantum_ms, round_trip, jitter, every, most) in [
        (2, 8, 8, 8, 40),
        (7, 8, 8, 8, 40),
        (7, 1, 60, 2, 90),
        (25, 8, 0, 4, 100),
        (8, 31, 3, 0, 0),
    ] {
        let link = Link { round_trip: ms(round_trip), jitter: ms(jitter), ..Link::instant() };
        let schedule = Schedule { every, most: ms(most) };
        for seed in 10..13 {
            let settings = scene(seed).settings.with_shell(|shell| shell.quantum = ms(quantum_ms));
            let summary = predicted(&TaoScene { settings, link, schedule, ..scene(seed) });
            assert_eq!((summary.accesses, summary.closings), (1250, 1));
        }
    }
}

/// At a pace every message has its turn, as fast as the link carries those before it.
#[test]
fn a_pace() {
    let ms = Duration::from_millis;
    let scene = |seed| TaoScene { accesses: 150, ..TaoScene::new(Load::Mixed, seed) };
    for (quantum_ms, up, down, rate) in [
        (2, Some(200_000), Some(500_000), None),
        (2, Some(150_000), None, None),
        (3, None, Some(100_000), None),
        (7, Some(400_000), Some(400_000), None),
        (25, Some(90_000), Some(200_000), None),
        (5, Some(200_000), Some(300_000), Some(Rate { interval: 20_000_000, accesses: 4 })),
    ] {
        for (seed, round_trip) in [(20, 8), (21, 14), (22, 14)] {
            let pace = LinkRate { up_bytes_per_s: up, down_bytes_per_s: down };
            let quantum = ms(quantum_ms);
            let settings = scene(seed).settings.with_shell(|shell| {
                shell.quantum = quantum;
                shell.pace = pace;
                shell.rate = rate;
            });
            let link = Link { round_trip: ms(round_trip), ..scene(seed).link };
            let summary = predicted(&TaoScene { settings, link, ..scene(seed) });
            assert_eq!(summary.closings, 1);
        }
    }
}

/// A message of a write-back that takes longer than a round trip: nobody can tell in time if it was
/// the last.
#[test]
fn a_pace_too_slow_to_be_followed_is_no_breach() {
    let pace = LinkRate { up_bytes_per_s: Some(10_000), down_bytes_per_s: None };
    let scene = TaoScene { accesses: 60, ..TaoScene::new(Load::Mixed, 23) };
    let quantum = Duration::from_millis(2);
    let settings = scene.settings.clone().with_shell(|shell| {
        shell.quantum = quantum;
        shell.pace = pace;
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    TaoScene { settings, ..scene }.record(&path).unwrap();
    let told = fogbank_audit::oracle::replay(&[&path], &mut []).unwrap_err().to_string();
    assert!(told.contains("at this pace"), "{told}");
}

#[test]
fn a_fixed_rate_on_a_grid() {
    let ms = Duration::from_millis;
    let scene = TaoScene { accesses: 200, ..TaoScene::new(Load::Uniform, 9) };
    for (quantum_ms, interval_ms, accesses, under_way_max) in
        [(5, 20, 8, 64), (7, 7, 3, 64), (5, 10, 6, 20), (5, 5, 1, 3)]
    {
        let rate = Some(Rate { interval: interval_ms * 1_000_000, accesses });
        let quantum = ms(quantum_ms);
        let settings = scene.settings.clone().with_shell(|shell| {
            shell.rate = rate;
            shell.quantum = quantum;
            shell.under_way_max = under_way_max;
        });
        let summary = predicted(&TaoScene { settings, ..scene.clone() });
        assert_eq!(summary.accesses, summary.read_batches * accesses as u64);
    }
}
