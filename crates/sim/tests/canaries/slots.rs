//! What shows in the cells that are read of a bucket, and how often it is read.

use std::collections::BTreeSet;

use fogbank_sim::scene::Canary;

use crate::leaky_and_honest;
use crate::view::View;

#[test]
fn reals_first_takes_two_entries_a_bucket() {
    let split = |view: &View| {
        let whole = |retired: &[(_, Vec<u16>)]| retired.iter().all(|(_, cells)| cells.len() == 4);
        view.batches().iter().filter(|batch| !whole(&batch.retired)).count()
    };
    let (leaky, honest) = leaky_and_honest(Canary::RealsFirst, 1);
    assert!(split(&leaky) > 50, "{}", split(&leaky));
    assert_eq!(split(&honest), 0);
}

#[test]
fn a_count_off_by_one_shows_in_the_reads_of_a_version() {
    let (more, honest) = leaky_and_honest(Canary::OneReadMore, 1);
    let (less, _) = leaky_and_honest(Canary::OneReadLess, 1);
    assert_eq!((less.reads_max(), honest.reads_max(), more.reads_max()), (4, 5, 6));
}

#[test]
fn a_reused_order_reads_the_same_cells_of_every_version() {
    let first_cells = |view: &View| {
        let first = view.lives(0).iter().map(|(first, _)| *first).collect::<Vec<_>>();
        (first.len(), first.into_iter().collect::<BTreeSet<_>>().len())
    };
    let (leaky, honest) = leaky_and_honest(Canary::ReusedOrder, 1);
    let ((versions, leaky), (_, honest)) = (first_cells(&leaky), first_cells(&honest));
    assert!(versions > 60 && leaky < 6 && honest == 9, "{versions} {leaky} {honest}");
}

#[test]
fn dummies_in_order_start_with_the_lowest_slot() {
    let lowest = |view: &View| {
        let lives = view.lives(0);
        (lives.iter().filter(|(first, _)| *first < 3).count(), lives.len())
    };
    let (leaky, honest) = leaky_and_honest(Canary::DummiesInOrder, 1);
    let ((leaky, all), (honest, _)) = (lowest(&leaky), lowest(&honest));
    assert!(leaky * 10 > all * 7 && honest * 2 < all, "{leaky} {honest} {all}");
}

#[test]
fn a_forgotten_slot_is_read_again() {
    let repeats = |view: &View| {
        let mut seen = BTreeSet::new();
        let cells = view.batches().into_iter().flat_map(|batch| batch.path_cells);
        cells.filter(|cell| !seen.insert(*cell)).count()
    };
    let (leaky, honest) = leaky_and_honest(Canary::SlotForgotten, 1);
    assert!(repeats(&leaky) > 1_000, "{}", repeats(&leaky));
    assert_eq!(repeats(&honest), 0);
}
