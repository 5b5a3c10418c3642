//! The simulator writes whole traces of `partition` from what is public: the configuration, when
//! clients asked, and how long calls took. The auditor finds nothing in them, and the classifier
//! cannot tell them from those of the engine under a load that it knows nothing of.

mod life;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use fogbank_audit::Verdict;
use fogbank_audit::distinguish::{Advantage, Options, Pair, Run, distinguish};
use fogbank_audit::oracle::partition::PartitionConfig;
use fogbank_audit::oracle::replay;
use fogbank_audit::oracle::simulator::Simulator;
use fogbank_env::{Purpose, Randomness};
use fogbank_oram::partition::canary::Leak as Pyramid;
use fogbank_sim::scene::partition::canary::Leak;
use fogbank_sim::scene::partition::{Load, PartitionScene};
use fogbank_sim::scene::volume::Cloud;
use fogbank_sim::scene::{Death, Fate};
use fogbank_store::trace::{Client, Event, Request, TraceReader};

use self::life::Life;
use crate::volumes::found_in;

/// Where the randomness of its clouds begins.
const OTHER: u64 = 1 << 20;

/// When clients asked in a life, by its trace.
fn arrivals(path: &Path) -> VecDeque<Client> {
    let events = TraceReader::open(path).unwrap().map(Result::unwrap);
    let asked = |event| match event {
        Event::ClientRequest(client) => Some(client),
        _ => None,
    };
    events.filter_map(asked).collect()
}

/// Plays the scene, and lets the simulator write the traces of lives in which clients ask as then;
/// it dies a little earlier. Its cloud is as slow as the engine's, by other chances.
fn simulate(scene: &PartitionScene, lives: &[(PathBuf, Option<Death>)], seed: u64) {
    let later = |death: Death| Death { call: death.call + 40, ..death };
    let of_engine = |(path, death): &(PathBuf, Option<Death>)| {
        (path.with_extension("engine"), death.map(later))
    };
    let of_engine: Vec<_> = lives.iter().map(of_engine).collect();
    scene.record_lives(&of_engine).unwrap();
    let mut asked = of_engine.iter().map(|(path, _)| arrivals(path));
    let config = scene.public().unwrap();
    let cell_bytes = config.tail::<PartitionConfig>().unwrap().cell_bytes as usize;
    let mut simulator = Simulator::new(&config, seed).unwrap();
    let other = PartitionScene { seed: scene.seed + OTHER, ..scene.clone() };
    let program = async |life: usize, cloud: Cloud| {
        if life > 0 {
            simulator.next_life();
        }
        let random = Randomness::repeatable(seed).split(life as u64).stream(Purpose::Padding);
        let life = Life::new(&mut simulator, cloud, (cell_bytes, random));
        life.live(asked.next().unwrap()).await;
    };
    other.record_program(lives, program).unwrap();
}

/// Lives that end so; their traces stay as long as the folder.
fn simulated(
    scene: &PartitionScene,
    deaths: &[Option<Death>],
) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = (0..deaths.len()).map(|life| folder.path().join(format!("{life}")));
    let lives: Vec<_> = paths.zip(deaths.iter().copied()).collect();
    simulate(scene, &lives, 77);
    (folder, lives.into_iter().map(|(path, _)| path).collect())
}

#[test]
fn the_auditor_finds_nothing() {
    let scene = PartitionScene { accesses: 1_000, ..PartitionScene::new(Load::OneHotBlock, 1) };
    let (_folder, traces) = simulated(&scene, &[None]);
    let summary = replay(&traces, &mut []).unwrap();
    assert_eq!((summary.openings, summary.closings, summary.accesses), (1, 1, 5_000));
    assert!(summary.epochs > 30 && summary.images > 1_000, "{summary:?}");
    assert_eq!(found_in(traces), [""; 0]);
}

/// It dies twice, each time in the middle of jobs, and reads again what its journals name. Levels
/// of some lie in several chunks.
#[test]
fn the_specification_follows_it_over_deaths() {
    let mut scene = PartitionScene::new(Load::Uniform, 2);
    for (number, how) in (0..12).zip([Fate::Done, Fate::Undone].into_iter().cycle()) {
        if number % 4 > 1 {
            scene.settings.engine.layout.segment_cells = 3;
        }
        let dies = |call| Some(Death { call, how });
        let deaths = [dies(120 + 37 * number), dies(50 + 9 * number), None];
        let (_folder, traces) = simulated(&scene, &deaths);
        let summary =
            replay(&traces, &mut []).unwrap_or_else(|error| panic!("{deaths:?}: {error}"));
        assert_eq!((summary.openings, summary.crashes), (3, 2), "{deaths:?}");
    }
}

/// The events of a trace. What leaves in one moment stands in an order that says only what it is:
/// the specification leaves that open, and the simulator has another than the engine.
fn in_order(path: &Path) -> Vec<Event> {
    let mut events: Vec<Event> = TraceReader::open(path).unwrap().map(Result::unwrap).collect();
    events.sort_by_key(|event| {
        let Event::Sent(sent) = event else { return (event.at(), 0, None) };
        let (kind, first) = match &sent.request {
            Request::ReadCells { .. } => (1, None),
            Request::WriteChunks { writes } => (2, Some(writes[0].0)),
            Request::Barrier => (3, None),
            Request::BlobPut { name, .. } if name.starts_with("journal/") => (4, None),
            Request::BlobPut { .. } => (5, None),
            _ => (6, None),
        };
        (sent.at, kind, first)
    });
    events
}

/// What a classifier says of runs of two kinds, played in turn.
fn told(options: &Options, runs: u64, mut record: impl FnMut(u64, &Path)) -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let runs: Vec<Run> = (0..runs)
        .map(|run| {
            let path = folder.path().join(format!("{run}"));
            record(run, &path);
            let label = if run % 2 == 0 { "engine" } else { "simulator" };
            Run::read(label, None, in_order(&path).into_iter().map(Ok::<_, ()>), options).unwrap()
        })
        .collect();
    let compared = distinguish(&runs, options);
    // Runs of one kind have to have been enough to compare.
    assert!(compared.controls.iter().all(|one| one.verdict == Verdict::Passed), "{compared:?}");
    compared.pairs.into_iter().next().unwrap()
}

/// Runs in turn: the engine's under a load, and those of the simulator when clients asked as then.
fn engine_or_simulator(
    (load, leak): (Load, Option<Pyramid>),
    (runs, accesses): (u64, u64),
    options: &Options,
) -> Pair {
    told(options, runs, |run, path| {
        let (usual, leak) = (PartitionScene::new(load, 50 + run), leak.map(Leak::Pyramid));
        let scene = PartitionScene { arrivals: run / 2, accesses, leak, ..usual };
        match run % 2 {
            0 => drop(scene.record(path).unwrap()),
            _ => simulate(&PartitionScene { leak: None, ..scene }, &[(path.into(), None)], run),
        }
    })
}

/// Sure to 99.9 %: 8 runs of 2,000 accesses.
fn small() -> Options {
    let (scales, confidence) = (vec![1, 10], 0.999);
    Options { scales, train_rows: 4_000, trees: 10, confidence, ..Options::default() }
}

#[test]
fn nobody_tells_it_from_the_engine() {
    for load in [Load::OneHotBlock, Load::Scan, Load::AllWrites] {
        let pair = engine_or_simulator((load, None), (8, 400), &small());
        assert!(pair.scales.len() == 2 && !pair.scales.iter().any(Advantage::tells), "{pair:?}");
    }
}

#[test]
#[ignore = "takes minutes: for changes of the engine or the specification"]
fn nobody_tells_it_from_the_engine_in_a_hundred_thousand_accesses() {
    for load in [Load::OneHotBlock, Load::Scan, Load::AllWrites] {
        let pair = engine_or_simulator((load, None), (12, 4_000), &Options::default());
        println!("{load:?}: {:?}", pair.scales);
        assert!(pair.scales.len() == 3 && !pair.scales.iter().any(Advantage::tells), "{pair:?}");
    }
}

/// The partition of a block shows twice; live cells come first; dummies are the first unread ones.
#[test]
fn leaks_are_told_from_it() {
    for leak in [Pyramid::OwnPartitionTwice, Pyramid::CellsInOrder, Pyramid::FrontDummies] {
        let pair = engine_or_simulator((Load::OneHotBlock, Some(leak)), (8, 400), &small());
        assert!(pair.scales.iter().any(Advantage::tells), "{leak:?}: {pair:?}");
    }
}
