//! Every known leak is found by the check that is meant for it; the honest engine in the same scene
//! passes them all.

use fogbank_sim::scene::tao::canary::{self, DATA};
use fogbank_sim::scene::tao::{Load, TaoScene};

use crate::volumes;

/// What was found: rules that are broken, statistics that failed, and answers that were wrong.
fn found(scene: &TaoScene) -> Vec<String> {
    let (mut found, played) = volumes::found(scene, None);
    let is_wrong = played[0].wrong > 0 || played[0].stopped.is_some();
    found.extend(is_wrong.then(|| DATA.into()));
    found
}

#[test]
fn each_is_caught_by_the_check_that_is_meant_for_it() {
    let mut missed = Vec::new();
    for leak in canary::ALL {
        let scene = canary::scene(leak, 1);
        let (name, check) = (canary::name(leak), canary::caught_by(leak));
        let leaky = found(&scene);
        if !leaky.iter().any(|found| found == check) {
            missed.push(format!("{name}: {check} is not in {leaky:?}"));
        }
        let honest = found(&TaoScene { leak: None, ..scene });
        assert_eq!(honest, [""; 0], "{name}");
    }
    assert_eq!(missed, [""; 0]);
}

#[test]
fn names_are_distinct() {
    let names: std::collections::BTreeSet<_> = canary::ALL.map(canary::name).into();
    assert_eq!(names.len(), canary::ALL.len());
}

/// No load shows anything: replies withheld and reordered, one block or all of them.
#[test]
fn no_load_leaks() {
    for load in Load::ALL {
        assert_eq!(found(&TaoScene::new(load, 2)), [""; 0], "{load:?}");
    }
}
