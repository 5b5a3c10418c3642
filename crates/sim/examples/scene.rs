//! Writes the trace of a scene, for a look at it or for a long run:
//!
//! `cargo run -p fogbank-sim --features canaries --example scene -- WHAT SEED FILE [EPOCHS]`
//!
//! WHAT is a workload (`one-hot-key`: the whole proxy, saturated; `engine:one-hot-key`: the engine
//! alone, in epochs of two read batches and a write batch of 8) or the name of a canary.

use std::process::ExitCode;

use fogbank_sim::scene::{Canary, Scene, Shape, Workload, record};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(scene), Some(path)) = (scene(&arguments), arguments.get(2)) else {
        eprintln!("usage: scene WHAT SEED FILE [EPOCHS]; WHAT is one of");
        Workload::ALL.iter().for_each(|w| eprintln!("  {0}, engine:{0}", w.name()));
        Canary::ALL.iter().for_each(|canary| eprintln!("  {}", canary.name()));
        return ExitCode::from(64);
    };
    match record(&scene, path) {
        Ok(played) => {
            println!("{played:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn scene(arguments: &[String]) -> Option<Scene> {
    let (what, seed) = (arguments.first()?, arguments.get(1)?.parse().ok()?);
    let epochs = arguments.get(3).map(|epochs| epochs.parse()).transpose().ok()?;
    let workload = |name: &str| Workload::ALL.into_iter().find(|w| w.name() == name);
    let mut scene = match what.strip_prefix("engine:") {
        Some(name) => Scene::of_engine(workload(name)?, seed, Shape::small(), 1_000),
        None => match workload(what) {
            Some(workload) => Scene::new(workload, seed),
            None => Canary::ALL.into_iter().find(|canary| canary.name() == what)?.scene(seed),
        },
    };
    scene.epochs = epochs.unwrap_or(scene.epochs);
    Some(scene)
}
