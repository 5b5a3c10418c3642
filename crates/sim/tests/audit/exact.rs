//! Every record of a whole proxy in virtual time is the one that the oracle predicts, whatever
//! clients do and the link does. Equality: one message a millisecond later would be a breach.

use std::path::PathBuf;
use std::time::Duration;

use fogbank_audit::Observation;
use fogbank_audit::oracle::{Summary, replay};
use fogbank_sim::scene::{Cast, Hold, Intensity, Scene, Shape, Workload, record, record_lives};
use fogbank_store::{Link, Operation};

const EPOCHS: u32 = 60;

fn whole(workload: Workload, seed: u64) -> Scene {
    Scene { cast: Cast::Journalled, epochs: EPOCHS, ..Scene::new(workload, seed) }
}

/// What the oracle makes of the trace of `scene`, which it has to follow to its end.
fn predicted(scene: &Scene) -> Summary {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let played = record(scene, &path).unwrap();
    assert_eq!(played.stopped, None, "{scene:?}");
    let summary = replay(&[&path], &mut []).unwrap_or_else(|error| panic!("{scene:?}: {error}"));
    assert_eq!((summary.events, summary.latest_ns), (played.events, 0), "{scene:?}");
    summary
}

#[test]
fn every_workload_idle_and_saturated() {
    let idle = predicted(&whole(Workload::Idle, 1));
    assert_eq!((idle.openings, idle.closings, idle.crashes), (1, 1, 0));
    assert_eq!(idle.accesses, idle.epochs * 24);
    for workload in Workload::ALL {
        for intensity in [Intensity::Light, Intensity::Saturated] {
            let busy = predicted(&Scene { intensity, ..whole(workload, 2) });
            let public = |summary: Summary| (summary.epochs, summary.accesses, summary.evictions);
            assert_eq!(public(busy), public(idle), "{workload:?} {intensity:?}");
        }
    }
}

#[test]
fn every_shape() {
    let small = Shape::small;
    for shape in [
        Shape { xor: true, ..small() },
        Shape { prefetch: true, ..small() },
        Shape { pauses: true, in_flight: 2, ..small() },
        Shape { piece_bytes: 300, ..small() },
        Shape { cache_bytes: 4 << 10, ..small() },
        Shape { xor: true, prefetch: true, cache_bytes: 4 << 10, read_batches: 3, ..small() },
        Shape::stressed(),
    ] {
        for workload in [Workload::Idle, Workload::Zipf] {
            predicted(&Scene { shape: shape.clone(), ..whole(workload, 3) });
        }
    }
}

/// A link of this round trip.
fn far(round_trip_ms: u64) -> Link {
    Link { round_trip: Duration::from_millis(round_trip_ms), ..Link::instant() }
}

/// Windows of a few cells and batches behind one another, over links longer than the interval.
#[test]
fn messages_under_way_together() {
    let small = || Shape { read_batches: 4, windows: (200, 2), piece_bytes: 500, ..Shape::small() };
    for shape in [
        Shape { windows: (100, 1), ..small() },
        Shape { windows: (40, 64), ..small() },
        Shape { xor: true, windows: (120, 1), ..small() },
        Shape { xor: true, prefetch: true, windows: (120, 3), ..small() },
        Shape { in_flight: 2, ..small() },
        Shape { in_flight: 3, xor: true, ..small() },
        Shape { in_flight: 4, prefetch: true, windows: (80, 5), ..small() },
        Shape { in_flight: 4, read_batches: 7, cache_bytes: 4 << 10, ..small() },
    ] {
        for (workload, round_trip_ms) in [
            (Workload::Idle, 4),
            (Workload::Zipf, 60),
            (Workload::AbortStorm, 150),
            (Workload::Uniform, 333),
        ] {
            let link = far(round_trip_ms);
            predicted(&Scene { shape: shape.clone(), link, epochs: 20, ..whole(workload, 6) });
        }
    }
}

/// What batches in flight are for: over a link of 150 ms epochs are so much shorter.
#[test]
fn batches_in_flight_do_not_wait_for_each_other() {
    let seconds = |in_flight| {
        let shape = Shape { in_flight, read_batches: 8, ..Shape::small() };
        let scene = Scene { shape, link: far(150), epochs: 10, ..whole(Workload::Uniform, 7) };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        record(&scene, &path).unwrap();
        let mut last = 0;
        let mut departures = |seen: &Observation<'_>| {
            if let Observation::Departed { at, .. } = seen {
                last = *at;
            }
        };
        let summary = replay(&[&path], &mut [&mut departures]).unwrap();
        last as f64 / 1e9 / summary.epochs as f64
    };
    let [one, two] = [1, 2].map(seconds);
    // A journal record and a reply a batch, against a record.
    assert!(one > 8.0 * 0.3 && two < 0.8 * one, "{one} s and {two} s an epoch");
}

/// Whatever an epoch sends is held against when it was due, its commit and deletions too: what a
/// client holds up shows wherever it does.
#[test]
fn every_message_of_an_epoch_is_a_departure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    record(&whole(Workload::Uniform, 8), &path).unwrap();
    let mut seen = 0;
    let mut departures = |of: &Observation<'_>| {
        seen += u64::from(matches!(of, Observation::Departed { .. }));
    };
    let summary = replay(&[&path], &mut [&mut departures]).unwrap();
    // What is left: of two deletions that leave together the second, the opening and the closing.
    assert!(summary.requests - seen < summary.epochs * 3 / 2, "{seen} of {summary:?}");
}

#[test]
fn replies_that_come_late() {
    use Operation::{Barrier, BlobDelete, BlobPut, DeleteChunks, ReadCells, WriteChunks};
    let engine = [ReadCells, WriteChunks, DeleteChunks, Barrier];
    let late_by_ms = [(2, 35), (20, 70), (25, 200), (31, 1_000)];
    let engine = engine.into_iter().flat_map(|of| late_by_ms.map(|(nth, ms)| (of, nth, ms)));
    // The claim, the records of an epoch, its delta and its commit; the full checkpoint of the
    // fourth.
    let vault = [1, 2, 4, 5, 6, 20, 21].map(|put| (BlobPut, put, 90)).into_iter();
    let vault = vault.chain([(BlobDelete, 2, 90)]);
    for (operation, nth, ms) in engine.chain(vault) {
        let hold = Hold { operation, nth, by: Duration::from_millis(ms) };
        for workload in [Workload::Idle, Workload::Uniform] {
            predicted(&Scene { hold: Some(hold), ..whole(workload, 4) });
        }
    }
    // Any of the pieces of a delta, and of a full checkpoint.
    let shape = Shape { piece_bytes: 300, windows: (160, 3), ..Shape::small() };
    for (nth, ms) in (4..40).zip([15, 35, 90, 400].into_iter().cycle()) {
        let hold = Hold { operation: BlobPut, nth, by: Duration::from_millis(ms) };
        let scene = Scene { epochs: 12, hold: Some(hold), ..whole(Workload::Uniform, 4) };
        predicted(&Scene { shape: shape.clone(), ..scene });
    }
}

#[test]
fn openings_of_one_store() {
    for workload in [Workload::Uniform, Workload::AbortStorm] {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> =
            (0..3).map(|opening| folder.path().join(format!("{opening}"))).collect();
        let lives: Vec<_> = paths.iter().map(|path| (path, None)).collect();
        record_lives(&whole(workload, 5), &lives).unwrap();
        let summary = replay(&paths, &mut []).unwrap();
        assert_eq!((summary.openings, summary.closings, summary.crashes), (3, 3, 0));
        assert_eq!(summary.latest_ns, 0);
    }
}
