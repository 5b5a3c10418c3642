//! Every known leak is found by the check that is meant for it; the honest engine in the same scene
//! passes them all.

use fogbank_oram::partition::canary::Leak as Pyramid;
use fogbank_sim::scene::partition::canary::{self, Leak};
use fogbank_sim::scene::partition::{Load, PartitionScene};
use fogbank_sim::scene::{Death, Fate};

use crate::volumes;

/// Rules that are broken, and statistics that failed; of an honest engine also answers that were
/// wrong.
fn found(scene: &PartitionScene, death: Option<Death>) -> Vec<String> {
    let (mut found, played) = volumes::found(scene, death);
    let is_wrong = scene.leak.is_none() && played.iter().any(|played| played.wrong > 0);
    found.extend(is_wrong.then(|| "answers".into()));
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
