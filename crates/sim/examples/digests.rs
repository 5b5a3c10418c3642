//! A digest of the trace of every scene: a change that is to leave the traffic as it is leaves all
//! of these lines as they are. What the head of a trace says is not part of it.
//!
//! `cargo run -p fogbank-sim --features canaries --example digests > before`, and the same after.

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fogbank_oram::immediate::{LinkRate, Rate};
use fogbank_oram::tao::TaoSettings;
use fogbank_sim::scene::partition::{self, PartitionScene};
use fogbank_sim::scene::tao::{Load, TaoScene, canary};
use fogbank_sim::scene::{
    Canary, Cast, Death, Fate, Scene, SceneError, Shape, Workload, record, record_lives,
};
use fogbank_store::trace::TraceReader;

type Outcome = Result<(), Box<dyn Error>>;

const SEED: u64 = 7;
/// At which calls lives end.
const DEATHS: [u64; 4] = [40, 90, 170, 260];

fn main() -> Outcome {
    let folder = tempfile::tempdir()?;
    of_ring(folder.path())?;
    of_tao(folder.path())?;
    of_partition(folder.path())
}

fn of_ring(folder: &Path) -> Outcome {
    let small = Shape::small;
    let shapes = [
        ("small", small()),
        ("xor", Shape { xor: true, ..small() }),
        ("prefetch", Shape { prefetch: true, ..small() }),
        ("top", Shape { cache_bytes: 4 << 10, read_batches: 3, ..small() }),
    ];
    for workload in Workload::ALL {
        for (shape_name, shape) in &shapes {
            for cast in [Cast::Engine, Cast::Proxy, Cast::Journalled] {
                let name = format!("ring {} {shape_name} {cast:?}", workload.name());
                let scene =
                    Scene { cast, shape: shape.clone(), epochs: 40, ..Scene::new(workload, SEED) };
                one(&name, folder, |path| record(&scene, path))?;
            }
        }
        let scene = Scene { cast: Cast::Journalled, epochs: 20, ..Scene::new(workload, SEED) };
        let name = format!("ring {} lives", workload.name());
        lives(&name, folder, |lives| record_lives(&scene, lives))?;
        for (what, shape) in ways_to_stop() {
            let scene = Scene { shape, ..scene.clone() };
            lives(&format!("{name} {what}"), folder, |lives| record_lives(&scene, lives))?;
        }
    }
    for leak in Canary::ALL {
        one(&format!("ring leak {}", leak.name()), folder, |path| record(&leak.scene(SEED), path))?;
    }
    Ok(())
}

/// Shapes whose stops and replays differ: batches under way at once, XORed cells, epochs that
/// pause, and checkpoints of many pieces.
fn ways_to_stop() -> [(&'static str, Shape); 4] {
    let small = Shape::small;
    [
        ("in-flight", Shape { in_flight: 2, read_batches: 3, ..small() }),
        ("xor", Shape { xor: true, ..small() }),
        ("pauses", Shape { pauses: true, ..small() }),
        ("pieces", Shape { piece_bytes: 300, windows: (600, 2), ..small() }),
    ]
}

/// What makes messages of `tao` leave at points: a grid alone, with a fixed rate, and at the link's
/// pace.
fn on_a_grid(usual: &TaoSettings) -> [(&'static str, TaoSettings); 4] {
    let ms = Duration::from_millis;
    let rate = Some(Rate { interval: 12_000_000, accesses: 6 });
    let pace = LinkRate { up_bytes_per_s: Some(200_000), down_bytes_per_s: Some(300_000) };
    [
        ("grid", usual.clone().with_shell(|shell| shell.quantum = ms(3))),
        (
            "grid rate",
            usual.clone().with_shell(|shell| {
                shell.quantum = ms(2);
                shell.rate = rate;
            }),
        ),
        (
            "grid pace",
            usual.clone().with_shell(|shell| {
                shell.quantum = ms(2);
                shell.pace = pace;
            }),
        ),
        (
            "grid full",
            usual.clone().with_shell(|shell| {
                shell.quantum = ms(3);
                shell.under_way_max = 8;
            }),
        ),
    ]
}

fn of_tao(folder: &Path) -> Outcome {
    for load in Load::ALL {
        let scene = TaoScene { accesses: 200, ..TaoScene::new(load, SEED) };
        one(&format!("tao {load:?}"), folder, |path| scene.record(path))?;
        lives(&format!("tao {load:?} lives"), folder, |lives| scene.record_lives(lives))?;
        let rate = Some(Rate { interval: 10_000_000, accesses: 6 });
        let settings = scene.settings.clone().with_shell(|shell| shell.rate = rate);
        let at_a_rate = TaoScene { settings, ..scene.clone() };
        one(&format!("tao {load:?} rate"), folder, |path| at_a_rate.record(path))?;
        let name = format!("tao {load:?} rate lives");
        lives(&name, folder, |lives| at_a_rate.record_lives(lives))?;
        for (what, settings) in on_a_grid(&scene.settings) {
            let scene = TaoScene { settings, ..scene.clone() };
            one(&format!("tao {load:?} {what}"), folder, |path| scene.record(path))?;
            let name = format!("tao {load:?} {what} lives");
            lives(&name, folder, |lives| scene.record_lives(lives))?;
        }
    }
    for leak in canary::ALL {
        let scene = canary::scene(leak, SEED);
        let honest = TaoScene { leak: None, ..scene.clone() };
        for (what, scene) in [("leak", scene), ("honest", honest)] {
            let name = format!("tao {what} {}", canary::name(leak));
            one(&name, folder, |path| scene.record(path))?;
        }
    }
    Ok(())
}

fn of_partition(folder: &Path) -> Outcome {
    let rate = Some(Rate { interval: 12_000_000, accesses: 6 });
    for load in Load::ALL {
        for (what, quantum_ms, rate, up_bytes_per_s) in [
            ("", 0, None, None),
            (" rate", 0, rate, None),
            (" grid", 3, None, None),
            (" grid rate", 2, rate, None),
            (" grid pace", 2, None, Some(200_000)),
        ] {
            let mut scene = PartitionScene { accesses: 60, ..PartitionScene::new(load, SEED) };
            let shell = &mut scene.settings.engine.shell;
            (shell.quantum, shell.rate) = (Duration::from_millis(quantum_ms), rate);
            shell.pace.up_bytes_per_s = up_bytes_per_s;
            let name = format!("partition {load:?}{what}");
            one(&name, folder, |path| scene.record(path))?;
            lives(&format!("{name} lives"), folder, |lives| scene.record_lives(lives))?;
        }
    }
    let pyramids = partition::canary::ALL.map(partition::canary::Leak::Pyramid);
    let shells = partition::canary::SHELL.map(|(leak, _)| partition::canary::Leak::Shell(leak));
    for leak in pyramids.into_iter().chain(shells) {
        let scene = partition::canary::scene(leak, SEED);
        let honest = PartitionScene { leak: None, ..scene.clone() };
        for (what, scene) in [("leak", scene), ("honest", honest)] {
            one(&format!("partition {what} {leak:?}"), folder, |path| scene.record(path))?;
        }
    }
    Ok(())
}

fn one<T>(name: &str, folder: &Path, play: impl FnOnce(&Path) -> Result<T, SceneError>) -> Outcome {
    let path = folder.join("trace");
    play(&path)?;
    tell(name, &path)
}

/// Lives of one store that end at different calls in different ways, and one that ends as it
/// should.
fn lives<T>(
    name: &str,
    folder: &Path,
    play: impl FnOnce(&[(PathBuf, Option<Death>)]) -> Result<T, SceneError>,
) -> Outcome {
    let ends = DEATHS.into_iter().zip(Fate::ALL).map(|(call, how)| Some(Death { call, how }));
    let paths = (0..).map(|life| folder.join(format!("life-{life}")));
    let lives: Vec<_> = paths.zip(ends.chain([None])).collect();
    play(&lives)?;
    lives.iter().enumerate().try_for_each(|(life, (path, _))| tell(&format!("{name} {life}"), path))
}

/// Prints the line and takes the trace away.
fn tell(name: &str, path: &Path) -> Outcome {
    let (mut hasher, mut events) = (DefaultHasher::new(), 0_u64);
    for event in TraceReader::open(path)? {
        hasher.write(format!("{:?}", event?).as_bytes());
        events += 1;
    }
    println!("{name}: {events} events, {:016x}", hasher.finish());
    Ok(std::fs::remove_file(path)?)
}
