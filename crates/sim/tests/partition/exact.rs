//! Every record is the one that the oracle predicts, whatever clients ask for and in whatever order
//! the cloud replies. Equality: one message a millisecond later would be a breach.

use std::time::Duration;

use fogbank_oram::immediate::Rate;
use fogbank_sim::scene::partition::{Load, PartitionScene, Schedule, Settings, small};
use fogbank_store::Link;

use crate::volumes::predicted;

#[test]
fn every_load() {
    for load in Load::ALL {
        let summary = predicted(&PartitionScene::new(load, 1));
        assert_eq!((summary.openings, summary.closings, summary.crashes), (1, 1, 0));
        assert!(summary.accesses >= 390);
        assert!(summary.epochs > 3 && summary.read_batches > 60, "{summary:?}");
    }
}

#[test]
fn every_shape() {
    let of = |blocks| Settings { engine: small(blocks), budgets: None };
    let within = |budgets| Settings { budgets: Some(budgets), ..of(5_000) };
    let mut all_kept = of(5_000);
    all_kept.engine.layout.kept_levels = all_kept.engine.layout.levels - 1;
    let mut none_kept = of(5_000);
    none_kept.engine.layout.kept_levels = 0;
    let [short, long] = [3, 40].map(|cells| {
        let mut settings = of(5_000);
        settings.engine.layout.segment_cells = cells;
        settings
    });
    let mut few = of(5_000);
    few.engine.shell.under_way_max = 3;
    let [one, two, many] = [1, 2, 64].map(|records| {
        let mut settings = of(5_000);
        settings.engine.shell.records_at_once = records;
        settings
    });
    // As many bytes under way as one message has, and more messages than bytes.
    let [narrow, wide] = [(3, 1), (9, 5_000)].map(|(windows, bytes)| {
        let mut settings = of(5_000);
        (settings.engine.shell.windows, settings.engine.shell.bytes_at_once) = (windows, bytes);
        settings
    });
    let budgets = [within((12, 1 << 20)), within((2_500, 60))];
    let shapes = [of(20_000), all_kept, none_kept, short, long, narrow, wide, few, one, two, many];
    for settings in budgets.into_iter().chain(shapes) {
        for seed in 2..4 {
            let scene = PartitionScene::new(Load::Mixed, seed);
            predicted(&PartitionScene { accesses: 80, settings: settings.clone(), ..scene });
        }
    }
}

#[test]
fn every_link() {
    let ms = Duration::from_millis;
    let scene = |seed| PartitionScene { accesses: 80, ..PartitionScene::new(Load::Mixed, seed) };
    for (round_trip, jitter, every, most) in
        [(2, 0, 0, 0), (1, 1, 2, 5), (8, 100, 0, 0), (8, 0, 4, 300), (60, 30, 3, 100)]
    {
        let link = Link { round_trip: ms(round_trip), jitter: ms(jitter), ..Link::instant() };
        let schedule = Schedule { every, most: ms(most) };
        for seed in 4..8 {
            predicted(&PartitionScene { link, schedule, ..scene(seed) });
        }
    }
}

/// Where messages leave on a grid, every moment is known as well.
#[test]
fn a_grid() {
    let ms = Duration::from_millis;
    let scene = |seed| PartitionScene { accesses: 80, ..PartitionScene::new(Load::Mixed, seed) };
    for (quantum_ms, round_trip, jitter, every, most) in
        [(2, 8, 8, 8, 40), (7, 8, 8, 8, 40), (7, 1, 60, 2, 90), (25, 8, 0, 4, 100)]
    {
        let link = Link { round_trip: ms(round_trip), jitter: ms(jitter), ..Link::instant() };
        let schedule = Schedule { every, most: ms(most) };
        for seed in 10..12 {
            let mut settings = scene(seed).settings;
            settings.engine.shell.quantum = ms(quantum_ms);
            let summary = predicted(&PartitionScene { settings, link, schedule, ..scene(seed) });
            assert_eq!((summary.accesses, summary.closings), (400, 1));
        }
    }
}

/// At a fixed rate records leave at the points of the grid, with as many accesses whatever was
/// asked.
#[test]
fn a_fixed_rate() {
    let scene = PartitionScene { accesses: 80, ..PartitionScene::new(Load::Uniform, 8) };
    for (quantum_ms, interval_ms, accesses) in [(0, 20, 8), (0, 7, 3), (5, 20, 8), (7, 7, 3)] {
        let mut settings = scene.settings.clone();
        settings.engine.shell.rate = Some(Rate { interval: interval_ms * 1_000_000, accesses });
        settings.engine.shell.quantum = Duration::from_millis(quantum_ms);
        predicted(&PartitionScene { settings, ..scene.clone() });
    }
}

/// Also with more messages under way than the link has room for, or fewer.
#[test]
fn a_grid_with_much_under_way() {
    let ms = Duration::from_millis;
    let links = [(2, 8, 8, 8, 40), (7, 1, 60, 2, 90), (25, 8, 0, 4, 100)];
    let shapes = [(3, 2_000), (9, 5_000), (9, 20_000)];
    for (number, link) in (10..).zip(links.iter().cycle().take(36)) {
        let (quantum_ms, round_trip, jitter, every, most) = *link;
        let mut scene = PartitionScene { accesses: 80, ..PartitionScene::new(Load::Mixed, number) };
        let shell = &mut scene.settings.engine.shell;
        shell.quantum = ms(quantum_ms);
        (shell.windows, shell.bytes_at_once) = shapes[number as usize / 3 % shapes.len()];
        scene.link = Link { round_trip: ms(round_trip), jitter: ms(jitter), ..Link::instant() };
        scene.schedule = Schedule { every, most: ms(most) };
        predicted(&scene);
    }
}
