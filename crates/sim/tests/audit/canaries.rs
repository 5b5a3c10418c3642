//! Every known leak is found by the check that is meant for it; the honest engine in the same scene
//! passes them all.

use fogbank_audit::report::Report;
use fogbank_audit::{Options, Verdict};
use fogbank_sim::scene::{Canary, Scene};

use crate::audited;

/// What was found: rules that are broken, and statistics that failed.
fn found(report: &Report) -> Vec<&str> {
    let breaches = report.breaches.iter().map(|broken| broken.breach.rule);
    let failed = report.findings.iter().filter(|finding| finding.verdict == Verdict::Failed);
    breaches.chain(failed.map(|finding| finding.check.as_str())).collect()
}

/// Audits `scene`, twice with another seed if it takes two runs to see its leak.
fn audit(scene: &Scene, runs: u64) -> Report {
    let run = |number| ("a", Scene { seed: scene.seed + number, ..scene.clone() });
    audited(&(0..runs).map(run).collect::<Vec<_>>(), &Options::default())
}

#[test]
fn each_is_caught_by_the_check_that_is_meant_for_it() {
    let alone = |canary: &Canary| canary.caught_by() != "two-histories";
    for canary in Canary::ALL.into_iter().filter(alone) {
        let scene = canary.scene(1);
        let runs = if canary == Canary::ConstantSeed { 2 } else { 1 };
        let leaky = audit(&scene, runs);
        let (name, check) = (canary.name(), canary.caught_by());
        assert!(found(&leaky).contains(&check), "{name}: {check} is not in {:?}", found(&leaky));
        let honest = audit(&Scene { canary: None, ..scene }, runs);
        assert_eq!(found(&honest), [""; 0], "{name}: {:?}", honest.findings);
    }
}
