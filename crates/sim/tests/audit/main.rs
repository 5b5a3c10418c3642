//! The auditor over traces of the proxy as it ships: exact where the trace is predicted, silent
//! where nothing leaks, and loud by the right name where something does.
#![allow(clippy::unwrap_used)] // helpers of tests, too

mod canaries;
mod change;
#[path = "../changes/mod.rs"]
mod changes;
mod exact;
mod histories;
mod joints;
mod lives;
mod spoiled;
mod sweeps;
mod under_way;

use fogbank_audit::report::Report;
use fogbank_audit::{Given, Options, audit};
use fogbank_sim::scene::{Scene, record};

/// Plays scenes, each a run with a label, and audits their traces together.
fn audited(runs: &[(&str, Scene)], options: &Options) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let given: Vec<Given> = (0..)
        .zip(runs)
        .map(|(number, (label, scene))| {
            let path = folder.path().join(format!("{number}"));
            record(scene, &path).unwrap();
            Given { label: (*label).into(), traces: vec![path], history: None }
        })
        .collect();
    audit(&given, options, |_| {}).unwrap()
}
