//! The smallest leak that a check states is one that it sees: half as much again is found in at
//! least four of five runs, and nothing is found in most with a third of it.

use fogbank_audit::Verdict;
use fogbank_audit::statistics::runs_independent;

use super::synthetic::{Leak, Synthetic};
use super::{audit, lenient, named};

const SEEDS: u64 = 15;

/// In how many of the runs the check fails, with so many times the smallest leak planted.
fn found(check: &str, accesses: u64, cells: bool, times: f64, leak: fn(f64) -> Leak) -> u64 {
    let run = |seed, leak| Synthetic { cells, ..Synthetic::new(seed, leak) };
    let honest = audit(&run(99, Leak::Nothing), accesses).0;
    let smallest = named(&honest, check).smallest_leak.expect("a check by chance");
    assert!(smallest < 0.3, "{check}: {smallest}");
    let fails = |seed: &u64| {
        let findings = audit(&run(*seed, leak(times * smallest)), accesses).0;
        named(&findings, check).verdict == Verdict::Failed
    };
    (0..SEEDS).filter(fails).count() as u64
}

#[track_caller]
fn honest(check: &str, accesses: u64, cells: bool, leak: fn(f64) -> Leak) {
    let (above, below) =
        (found(check, accesses, cells, 1.5, leak), found(check, accesses, cells, 0.33, leak));
    assert!(above * 5 >= SEEDS * 4, "{check}: {above} of {SEEDS}");
    assert!(below * 2 <= SEEDS, "{check}: sees a third of it in {below} of {SEEDS}");
}

#[test]
fn stated_leaks_of_leaves_are_seen() {
    honest("leaves-uniform", 40_000, false, |shift| Leak::LeansToHalf { shift });
    honest("leaves-against-last-evicted", 40_000, false, |shift| Leak::LeansToEvicted { shift });
    honest("leaves-lagged", 40_000, false, |share| Leak::RepeatsLeaf { share, lag: 9 });
    honest("leaves-repeat-in-batch", 40_000, false, |share| Leak::RepeatsInBatch { share });
    honest("leaves-repeat-across-batches", 40_000, false, |share| Leak::RepeatsAcross {
        share,
        batches: 7,
    });
}

#[test]
fn stated_leaks_of_slots_are_seen() {
    honest("slot-ranks", 10_000, true, |share| Leak::FrontCell { share });
    honest("retired-ranks", 10_000, true, |share| Leak::FrontRetired { share });
    honest("slots-across-versions", 10_000, true, |share| Leak::ReusedPermutation { share });
}

#[test]
fn stated_leaks_of_departures_are_seen() {
    honest("departures", 160_000, false, |share| Leak::LateUnderLoad { share });
}

#[test]
fn stated_leaks_between_runs_are_seen() {
    let digest =
        |seed, share| audit(&Synthetic::leaves_only(seed, Leak::RepeatsRun { share }), 40_000).1;
    let whole = digest(99, 1.0);
    let leaves = |share, seed| {
        let findings = runs_independent(&[whole.clone(), digest(seed, share)], &lenient());
        named(&findings, "runs-independent-leaves").clone()
    };
    let smallest = leaves(0.0, 98).smallest_leak.expect("a check by chance");
    let found = |times: f64| {
        let fails = |&seed: &u64| leaves(times * smallest, seed).verdict == Verdict::Failed;
        (0..SEEDS).filter(fails).count() as u64
    };
    assert!(found(1.5) * 5 >= SEEDS * 4 && found(0.33) * 2 <= SEEDS);
}

#[test]
fn more_accesses_show_smaller_leaks() {
    let digests =
        |accesses| [1, 2].map(|seed| audit(&Synthetic::new(seed, Leak::Nothing), accesses).1);
    let (few, many) = (
        runs_independent(&digests(2_000), &lenient()),
        runs_independent(&digests(8_000), &lenient()),
    );
    for (few, many) in few.iter().zip(&many) {
        assert!(many.smallest_leak < few.smallest_leak, "{}", few.check);
    }
}
