//! Planted leaks are found, by the check that is meant for them.

use fogbank_audit::statistics::{Levels, runs_independent};

use super::synthetic::{Leak, Synthetic};
use super::{audit, failures, lenient, named};

/// The checks that failed on a run with this leak.
fn caught(leak: Leak, accesses: u64) -> Vec<String> {
    let run = Synthetic::new(7, leak);
    failures(&audit(&run, accesses).0).into_iter().map(String::from).collect()
}

#[track_caller]
fn by_name(leak: Leak, accesses: u64, checks: &[&str]) {
    assert_eq!(caught(leak, accesses), checks, "{leak:?}");
}

#[test]
fn leaves_that_repeat_or_lean_are_caught() {
    let leaves = |leak| {
        let run = Synthetic::leaves_only(3, leak);
        let (findings, _) = audit(&run, 1_200_000);
        failures(&findings).into_iter().map(String::from).collect::<Vec<_>>()
    };
    // The batch before ends from one to fifteen reads ago, so lags and batches overlap.
    let repeats = leaves(Leak::RepeatsLeaf { share: 0.01, lag: 5 });
    assert!(repeats.contains(&"leaves-lagged".into()), "{repeats:?}");
    let leans = leaves(Leak::LeansToEvicted { shift: 0.005 });
    assert_eq!(leans, ["leaves-against-last-evicted"]);
    let leans = leaves(Leak::LeansToHalf { shift: 0.005 });
    assert!(leans.contains(&"leaves-uniform".into()), "{leans:?}");
    let repeats = leaves(Leak::RepeatsInBatch { share: 0.01 });
    assert!(repeats.contains(&"leaves-repeat-in-batch".into()), "{repeats:?}");
    let repeats = leaves(Leak::RepeatsAcross { share: 0.01, batches: 40 });
    assert_eq!(repeats, ["leaves-repeat-across-batches"]);
}

#[test]
fn a_generator_of_sixteen_bits_is_caught() {
    let run = Synthetic::leaves_only(3, Leak::WeakLeaves);
    let (findings, _) = audit(&run, 10_000);
    assert!(failures(&findings).contains(&"leaves-lagged"), "{findings:?}");
}

#[test]
fn slots_that_say_something_are_caught_by_name() {
    by_name(Leak::FrontCell { share: 0.05 }, 40_000, &["slot-ranks", "slots-across-versions"]);
    by_name(Leak::FrontRetired { share: 0.1 }, 40_000, &["retired-ranks"]);
    by_name(Leak::ReusedPermutation { share: 0.05 }, 40_000, &["slots-across-versions"]);
    let caught = caught(Leak::NoPermutation { share: 0.05 }, 40_000);
    assert!(caught.contains(&"slots-across-versions".into()), "{caught:?}");
}

#[test]
fn copies_and_sizes_are_caught_by_name() {
    by_name(Leak::CopiedCells { copies: 2 }, 4_000, &["ciphertexts-fresh"]);
    by_name(Leak::CopiedCells { copies: 1 }, 4_000, &["ciphertexts-fresh"]);
    by_name(Leak::LongBlob, 4_000, &["one-size-per-kind"]);
}

#[test]
fn departures_that_move_under_load_are_caught() {
    let run = Synthetic::leaves_only(3, Leak::LateUnderLoad { share: 0.1 });
    let (findings, busy) = audit(&run, 400_000);
    assert!(failures(&findings).contains(&"departures"), "{findings:?}");
    assert!(failures(&findings).contains(&"gaps"), "{findings:?}");
    let digest = |seed, share| {
        audit(&Synthetic::leaves_only(seed, Leak::LateUnderLoad { share }), 400_000).1
    };
    let (busy, idle) = (busy.labelled("busy"), digest(4, 0.0).labelled("idle"));
    let between = |runs: &[_]| {
        let mut findings = runs_independent(runs, &lenient());
        findings.retain(|finding| finding.check == "departures-between-runs");
        findings
    };
    let (busy_too, idle_too) = (digest(5, 0.1).labelled("busy"), digest(6, 0.0).labelled("idle"));
    let alone = between(&[busy.clone(), idle.clone()]);
    assert_eq!(failures(&alone), [""; 0]);
    assert!(alone[0].words.contains("no second run"), "{alone:?}");
    let two = between(&[busy.clone(), idle.clone(), busy_too, idle_too.clone()]);
    assert_eq!(failures(&two).len(), 4, "every pair of two labels: {two:?}");
    let odd = digest(5, 0.0).labelled("busy");
    let unlike = between(&[busy, idle, odd, idle_too]);
    assert_eq!(failures(&unlike), [""; 0]);
    assert!(unlike.iter().all(|finding| finding.words.contains("free core")), "{unlike:?}");
}

/// Runs of half a minute, of a machine that is shared: points that one label misses more often
/// than the machine does are its own, and what the machine misses is nobody's.
#[test]
fn points_that_one_label_misses_are_told_from_those_of_the_machine() {
    let run = |seed, share, label| {
        let run = Synthetic::leaves_only(seed, Leak::MissesPoints { share });
        audit(&run, 9_000).1.labelled(label)
    };
    let between = |shares: [f64; 4]| {
        let [a, b, c, d] = shares;
        let runs = [run(1, a, "idle"), run(2, b, "busy"), run(3, c, "idle"), run(4, d, "busy")];
        let mut findings = runs_independent(&runs, &Levels::for_traces(4));
        findings.retain(|finding| finding.check == "departures-between-labels");
        findings
    };
    for leaks in [[0.0, 0.3, 0.0, 0.25], [0.05, 0.5, 0.07, 0.5], [0.0, 0.2, 0.0, 0.2]] {
        let findings = between(leaks);
        assert_eq!(failures(&findings), ["departures-between-labels"], "{findings:?}");
        assert!(findings[0].words.contains("missed their point"), "{findings:?}");
    }
    for machine in [[0.0, 0.0, 0.0, 0.0], [0.2, 0.2, 0.2, 0.2], [0.0, 0.02, 0.01, 0.0]] {
        assert_eq!(failures(&between(machine)), [""; 0]);
    }
    // One that misses more in some runs of a label than in others tells nothing of labels.
    assert_eq!(failures(&between([0.0, 0.3, 0.25, 0.3])), [""; 0]);
}

#[test]
fn one_seed_for_two_runs_is_caught() {
    let digest = |seed| audit(&Synthetic::new(seed, Leak::Nothing), 4_000).1;
    let findings = runs_independent(&[digest(1), digest(2), digest(1)], &Levels::default());
    let all = ["leaves", "slots", "ciphertexts"].map(|what| format!("runs-independent-{what}"));
    assert_eq!(failures(&findings), all);
    assert!(named(&findings, &all[0]).words.contains("seed 1 and seed 1"));
}
