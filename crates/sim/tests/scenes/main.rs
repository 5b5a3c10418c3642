//! Scenes are what they claim to be: repeatable, of one length whatever runs, and really loaded.

#![allow(clippy::unwrap_used)] // helpers of tests, too

use std::collections::BTreeMap;
use std::path::Path;

use fogbank_audit::oracle::ring::RingConfig;
use fogbank_sim::scene::{Cast, Intensity, Played, Scene, Shape, Workload, record, record_lives};
use fogbank_store::Operation;
use fogbank_store::trace::{Event, PublicConfig, Request, Sent, TraceReader};

/// Plays a scene; what came of it, and its events.
fn play(scene: &Scene) -> (Played, Vec<Event>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let played = record(scene, &path).unwrap();
    let events: Vec<Event> = read(&path);
    assert_eq!(events.len() as u64, played.events);
    (played, events)
}

fn read(path: &Path) -> Vec<Event> {
    let reader = TraceReader::open(path).unwrap();
    PublicConfig::decode(reader.config()).unwrap();
    reader.collect::<Result<_, _>>().unwrap()
}

/// Lengths of the blobs written, by what their names begin with.
fn puts(events: &[Event]) -> BTreeMap<&str, Vec<u64>> {
    let mut puts: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for event in events {
        if let Event::Sent(Sent { request: Request::BlobPut { name, bytes, .. }, .. }) = event {
            puts.entry(name.split('/').next().unwrap()).or_default().push(*bytes);
        }
    }
    puts
}

/// When what was sent.
fn departures(events: &[Event]) -> Vec<(u64, Operation)> {
    let sent = events.iter().filter_map(|event| match event {
        Event::Sent(sent) => Some((sent.at, sent.request.operation()?)),
        _ => None,
    });
    sent.collect()
}

#[test]
fn every_workload_departs_as_an_idle_proxy_does() {
    let (played, idle) = play(&Scene::new(Workload::Idle, 1));
    assert_eq!(played.secret, Default::default());
    let idle = departures(&idle);
    assert!(idle.iter().all(|(at, _)| at % 10_000_000 == 0));
    for workload in Workload::ALL {
        for intensity in [Intensity::Light, Intensity::Saturated] {
            let (played, events) = play(&Scene { intensity, ..Scene::new(workload, 2) });
            assert_eq!(played.stopped, None, "{workload:?}");
            // Reads and deletions begin when the first buckets are there: a few leaves decide.
            let late = |at: &(u64, Operation)| at.0 > 1_000_000_000;
            let idle: Vec<_> = idle.iter().copied().filter(late).collect();
            let busy: Vec<_> = departures(&events).into_iter().filter(late).collect();
            assert!(busy == idle, "{workload:?}");
        }
    }
}

#[test]
fn a_storm_aborts_and_saturation_fills_batches() {
    let storm = play(&Scene::new(Workload::AbortStorm, 3)).0.secret;
    assert!(storm.aborts > 1_000, "{storm:?}");
    let uniform = play(&Scene::new(Workload::Uniform, 3)).0.secret;
    assert!(uniform.reads > 900, "of 1600 slots: {uniform:?}");
    assert!(uniform.writes > 500, "of 800 slots: {uniform:?}");
    let absent = play(&Scene::new(Workload::AllAbsent, 3)).0.secret;
    assert_eq!(absent.reads, 0, "{absent:?}");
}

#[test]
fn one_seed_is_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |name: &str, seed| {
        let path = folder.path().join(name);
        record(&Scene { epochs: 30, ..Scene::new(Workload::AbortStorm, seed) }, &path).unwrap();
        std::fs::read(path).unwrap()
    };
    assert!(bytes("a", 5) == bytes("b", 5));
    assert!(bytes("c", 5) != bytes("d", 6));
}

#[test]
fn the_engine_alone_keeps_the_same_beat() {
    for workload in Workload::ALL {
        let scene = Scene::of_engine(workload, 4, Shape::stressed(), 200);
        let (played, events) = play(&scene);
        assert_eq!(played.stopped, None, "{workload:?}");
        let points: Vec<u64> = departures(&events).iter().map(|(at, _)| *at).collect();
        assert!(points.iter().all(|at| at % 10_000_000 == 0));
        assert!(points.last().unwrap() > &(395 * 60_000_000), "{workload:?}");
    }
}

#[test]
fn every_shape_plays() {
    let small = Shape::small;
    for shape in [
        Shape { xor: true, ..small() },
        Shape { prefetch: true, ..small() },
        Shape { cache_bytes: 4 << 10, ..small() },
        Shape { xor: true, prefetch: true, cache_bytes: 4 << 10, read_batches: 3, ..small() },
    ] {
        let told: RingConfig = shape.public(None).unwrap().tail().unwrap();
        assert_eq!(told.cached_levels > 0, shape.cache_bytes > 0);
        let of = |workload| Scene { shape: shape.clone(), epochs: 40, ..Scene::new(workload, 6) };
        let (played, busy) = play(&of(Workload::Uniform));
        let (_, idle) = play(&of(Workload::Idle));
        assert_eq!(played.stopped, None, "{shape:?}");
        let (busy, idle) = (departures(&busy), departures(&idle));
        let xors = busy.iter().filter(|(_, operation)| *operation == Operation::ReadXor).count();
        assert_eq!(xors > 0, shape.xor);
        assert_eq!(busy[busy.len() / 2..], idle[idle.len() - busy.len().div_ceil(2)..]);
    }
}

#[test]
fn a_vault_writes_what_the_head_of_the_trace_says() {
    let scene = Scene { cast: Cast::Journalled, epochs: 20, ..Scene::new(Workload::Zipf, 5) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    assert_eq!(record(&scene, &path).unwrap().stopped, None);
    let reader = TraceReader::open(&path).unwrap();
    let told: RingConfig = PublicConfig::decode(reader.config()).unwrap().tail().unwrap();
    let (told, events) = (told.vault.unwrap(), read(&path));
    assert_eq!((told.pieces, told.journal.delta_pieces), (1, 1));
    let journal = &told.journal;
    let expected = [
        ("checkpoint", told.last_piece_bytes),
        ("commit", told.commit_bytes),
        ("delta", journal.delta_last_piece_bytes),
        ("journal", journal.record_bytes),
    ];
    let puts = puts(&events);
    assert_eq!(puts.keys().copied().collect::<Vec<_>>(), expected.map(|(kind, _)| kind));
    for (kind, bytes) in expected {
        assert!(puts[kind].iter().all(|put| *put == bytes), "{kind}: {:?}", puts[kind]);
    }
    // One more than epochs: created; and the close is counted as one.
    let (commits, containers) =
        (puts["commit"].len(), puts["checkpoint"].len() + puts["delta"].len());
    assert_eq!((commits, puts["journal"].len()), (containers + 1, 3 * (containers - 1)));
}

#[test]
fn a_store_is_opened_again_with_what_it_held() {
    let folder = tempfile::tempdir().unwrap();
    let lives = ["first", "second", "third"].map(|name| (folder.path().join(name), None));
    let scene = Scene { cast: Cast::Journalled, epochs: 20, ..Scene::new(Workload::Uniform, 7) };
    let played = record_lives(&scene, &lives).unwrap();
    assert!(played.iter().all(|played| played.stopped.is_none()));
    let commits = lives.map(|(path, _)| puts(&read(&path))["commit"].clone());
    let first = commits[0][0];
    for (commits, salts) in commits.into_iter().zip([0, 16, 32]) {
        assert_eq!(commits, vec![first + salts; commits.len()], "a salt an opening");
    }
}
