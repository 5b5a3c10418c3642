//! Lives of a store: every record of every life is the one that the oracle predicts, however
//! the lives end; and what is spoiled in it is found by the name of its rule.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use fogbank_audit::Observation;
use fogbank_audit::oracle::{Summary, replay};
use fogbank_sim::scene::{Cast, Death, Fate, Scene, Shape, Workload, record_lives};
use fogbank_store::Link;

fn journalled(workload: Workload, seed: u64) -> Scene {
    Scene { cast: Cast::Journalled, epochs: 6, ..Scene::new(workload, seed) }
}

/// What the oracle makes of the traces of lives that end so; it has to follow all of them.
fn predicted(scene: &Scene, deaths: &[Option<Death>]) -> Summary {
    let folder = tempfile::tempdir().unwrap();
    let paths = (0..deaths.len()).map(|life| folder.path().join(format!("{life}")));
    let lives: Vec<(PathBuf, _)> = paths.zip(deaths.iter().copied()).collect();
    let played = record_lives(scene, &lives).unwrap();
    let paths: Vec<&PathBuf> = lives.iter().map(|(path, _)| path).collect();
    let words = || format!("{:?} {:?} {deaths:?} {played:?}", scene.workload, scene.shape);
    let mut leaves = 0;
    let mut count = |seen: &Observation<'_>| {
        leaves += u64::from(matches!(seen, Observation::Path { .. }));
    };
    let summary = replay(&paths, &mut [&mut count]);
    let summary = summary.unwrap_or_else(|error| panic!("{error}\n{}", words()));
    // What is read again is no new leaf; what completes the epoch is.
    let (batches, batch) = (scene.shape.read_batches as u64, &scene.shape.batch);
    assert_eq!(leaves, summary.epochs * batches * batch.read_batch as u64, "{}", words());
    assert_eq!(summary.accesses, leaves + summary.epochs * batch.write_batch as u64, "{}", words());
    let events: u64 = played.iter().map(|played| played.events).sum();
    // The ends of what a dead proxy had sent, two messages at most, come to the trace last.
    let late = summary.events - events;
    assert!(late <= 2 * deaths.iter().flatten().count() as u64, "{late}: {}", words());
    assert_eq!(summary.latest_ns, 0, "{}", words());
    let last = played.last().unwrap();
    assert_eq!(last.stopped, None, "{}", words());
    summary
}

#[test]
fn every_workload_and_shape() {
    let idle = predicted(&journalled(Workload::Idle, 1), &[None, None]);
    assert_eq!((idle.openings, idle.closings, idle.crashes), (2, 2, 0));
    for workload in Workload::ALL {
        let busy = predicted(&journalled(workload, 2), &[None, None]);
        let public = |summary: Summary| (summary.epochs, summary.accesses, summary.evictions);
        assert_eq!(public(busy), public(idle), "{workload:?}");
    }
    let small = Shape::small;
    for shape in [
        Shape { xor: true, ..small() },
        Shape { prefetch: true, ..small() },
        Shape { piece_bytes: 250, ..small() },
        Shape { cache_bytes: 4 << 10, ..small() },
        Shape { xor: true, prefetch: true, read_batches: 3, ..small() },
        Shape::stressed(),
    ] {
        predicted(&Scene { shape, ..journalled(Workload::Zipf, 3) }, &[None, None]);
    }
}

#[test]
fn deaths_at_every_call() {
    assert!(die(1..100) > 60);
}

#[test]
#[ignore = "takes minutes: for changes of the vault, the recovery or the oracle"]
fn deaths_by_the_thousand() {
    die(100..4_000);
}

/// Plays four lives for every number, two of which die somewhere; how many did.
fn die(numbers: Range<u64>) -> u32 {
    let dies = |call, how| Some(Death { call, how });
    let mut recovered = 0;
    for number in numbers {
        let nth = |part: u64| Fate::ALL[(number / part) as usize % Fate::ALL.len()];
        let (xor, prefetch) = (number % 3 == 0, number % 7 == 0);
        let in_flight = 1 + number as usize % 5 % 3;
        let (read_batches, windows) = match number % 4 {
            0 => (4, (120, 2)),
            1 => (4, (4_000, 3)),
            _ => (2, Shape::small().windows),
        };
        let piece_bytes = [1 << 20, 700, 300][number as usize % 3];
        let small = Shape { read_batches, in_flight, windows, piece_bytes, ..Shape::small() };
        let shape = Shape { xor, prefetch, ..small };
        let workload = Workload::ALL[number as usize % Workload::ALL.len()];
        let far = Duration::from_millis(150);
        let link = match number % 8 {
            0 | 1 | 4 | 5 => Link { round_trip: far, ..Link::instant() },
            _ => Scene::new(workload, number).link,
        };
        let scene = Scene { epochs: 2, shape, link, ..journalled(workload, number) };
        let first = dies(1 + number * 3 % 100, nth(1));
        let deaths = [None, first, dies(1 + number * 7 % 41, nth(5)), None];
        let summary = predicted(&scene, &deaths);
        recovered += u32::from(summary.crashes > 0);
    }
    recovered
}
