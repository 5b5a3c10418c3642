//! What the tests beside this find if a client leaks: no check counts until it was seen to fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::orders::{WHOLE, case, explore};
use super::random::{HASTY, USUAL, run};
use super::*;
use crate::hierarchy::canary::Leak;

/// What a run was stopped by.
fn stopped(by: impl FnOnce()) -> String {
    let ended = catch_unwind(AssertUnwindSafe(by)).err();
    let text = ended.and_then(|ended| {
        ended
            .downcast_ref::<String>()
            .cloned()
            .or(ended.downcast_ref::<&str>().map(|t| (*t).into()))
    });
    text.unwrap_or_default()
}

#[test]
fn a_long_run_finds_each_leak() {
    for (leak, found) in [
        (Leak::WindowOneEpoch, " of Some("),
        (Leak::FakeLeft, " of Some("),
        (Leak::TakeoverFreshFakes, " of Some("),
        (Leak::NoCarry, "place"),
        (Leak::NoneIsSeen, "misses a value"),
        (Leak::AnswersAtOnce, "place"),
    ] {
        let text = stopped(|| _ = run(USUAL, 1, 60, false, Canary::new(leak)));
        assert!(text.contains(found), "{leak:?}: {text:?}");
    }
}

#[test]
fn two_worlds_that_show_different_things_are_told_apart() {
    type World = (Leak, u32, u32, fn() -> Canary);
    let worlds: [World; 3] = [
        (Leak::DuplicateSkips, 2, WHOLE, || Canary::new(Leak::DuplicateSkips)),
        (Leak::StopsAtHit, 2, WHOLE, || Canary::new(Leak::StopsAtHit)),
        (Leak::BucketNotPadded, 1, 1, || Canary::new(Leak::BucketNotPadded)),
    ];
    for (leak, epoch, piece, leaking) in worlds {
        let text = stopped(|| _ = explore(case((epoch, 2, piece), [1, 1], 0, 0, leaking)));
        assert!(text.contains("what the server sees depends"), "{leak:?}: {text:?}");
    }
}

#[test]
fn a_superblock_too_early_takes_a_table_that_is_needed() {
    let early = || Canary::new(Leak::ClosesEarly);
    let text = stopped(|| _ = explore(case((1, 2, WHOLE), [1, 2], 0, 0, early)));
    assert!(text.contains("a table is gone"), "{text:?}");
}

#[test]
fn a_late_entry_that_has_an_effect_is_seen() {
    let leak = Canary::new(Leak::VoidHasEffect);
    let text = stopped(|| _ = run(HASTY, 1, 60, false, leak));
    assert!(text.contains("Table {"), "{text:?}");
}
