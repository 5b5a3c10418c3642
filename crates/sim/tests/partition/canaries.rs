//! Every known leak is found by the check that is meant for it; the honest engine in the same scene
//! passes them all.

use fogbank_audit::{Given, Options, Verdict, audit};
use fogbank_oram::partition::canary::Leak as Pyramid;
use fogbank_sim::scene::partition::canary::{self, Leak};
use fogbank_sim::scene::partition::{Load, PartitionScene};
use fogbank_sim::scene::{Death, Fate};

/// Rules that are broken, and statistics that failed.
fn found(scene: &PartitionScene, death: Option<Death>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("0"), folder.path().join("1")];
    let lives: Vec<_> = match death {
        None => vec![(&paths[0], None)],
        Some(_) => vec![(&paths[0], death), (&paths[1], None)],
    };
    let played = scene.record_lives(&lives).unwrap();
    let traces = paths[..lives.len()].to_vec();
    let given = Given { label: "a".into(), traces, history: None };
    let report = audit(&[given], &Options::default(), |_| {}).unwrap();
    let breaches = report.breaches.iter().map(|broken| broken.breach.rule.to_owned());
    let failed = report.findings.iter().filter(|finding| finding.verdict == Verdict::Failed);
    let mut found: Vec<String> = breaches.chain(failed.map(|f| f.check.clone())).collect();
    if scene.leak.is_none() && played.iter().any(|played| played.wrong > 0) {
        found.push("answers".into());
    }
    found
}

#[test]
fn each_is_caught_by_the_check_that_is_meant_for_it() {
    let mut missed = Vec::new();
    let pyramids =
        canary::ALL.into_iter().map(|leak| (Leak::Pyramid(leak), canary::caught_by(leak)));
    let shells = canary::SHELL.map(|(leak, check)| (Leak::Shell(leak), check));
    for (leak, check) in pyramids.chain(shells) {
        let scene = canary::scene(leak, 1);
        let death = (leak == Leak::Pyramid(Pyramid::ReplayFreshDummies))
            .then_some(Death { call: 600, how: Fate::Done });
        let leaky = found(&scene, death);
        if !leaky.iter().any(|found| found == check) {
            missed.push(format!("{leak:?}: {check} is not in {leaky:?}"));
        }
        let honest = found(&PartitionScene { leak: None, ..scene }, death);
        if !honest.is_empty() {
            missed.push(format!("{leak:?}: honest, and {honest:?}"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn names_are_distinct() {
    let names: std::collections::BTreeSet<_> = canary::ALL.map(canary::name).into();
    assert_eq!(names.len(), canary::ALL.len());
}

/// No load shows anything: replies withheld and reordered, one block or all of them.
#[test]
fn no_load_leaks() {
    for load in [Load::OneHotBlock, Load::Scan] {
        assert_eq!(found(&PartitionScene::new(load, 2), None), [""; 0], "{load:?}");
    }
}
