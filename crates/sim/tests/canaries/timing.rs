//! What shows in the times of messages, and in that there are any.

use std::collections::BTreeSet;

use fogbank_sim::scene::{Canary, LIE};
use fogbank_store::trace::{Event, Request};

use crate::leaky_and_honest;
use crate::view::View;

const MS: u64 = 1_000_000;

/// Requests sent while a read was under way.
fn overlaps(view: &View) -> usize {
    let (mut reading, mut overlaps) = (BTreeSet::new(), 0);
    for event in &view.events {
        match event {
            Event::Sent(sent) => {
                overlaps += usize::from(!reading.is_empty());
                if matches!(sent.request, Request::ReadCells { .. }) {
                    reading.insert(sent.id);
                }
            }
            Event::Done(done) => drop(reading.remove(&done.id)),
            _ => {}
        }
    }
    overlaps
}

#[test]
fn an_early_reply_lets_messages_overlap() {
    let (leaky, honest) = leaky_and_honest(Canary::ReplyEarly, 1);
    assert!(overlaps(&leaky) >= 3, "{}", overlaps(&leaky));
    assert_eq!(overlaps(&honest), 0);
    assert_eq!((leaky.played.stopped, honest.played.stopped), (None, None));
}

/// Reads that leave at another time than ten milliseconds after a point of the grid.
fn reads_off_grid(view: &View) -> usize {
    view.batches().iter().filter(|batch| batch.at % (60 * MS) != 10 * MS).count()
}

#[test]
fn a_catch_up_sends_between_the_points() {
    let (leaky, honest) = leaky_and_honest(Canary::CatchUp, 1);
    assert!(reads_off_grid(&leaky) > 0);
    assert_eq!(reads_off_grid(&honest), 0);
    let gap = |view: &View| {
        let at: Vec<u64> = view.batches().iter().map(|batch| batch.at).collect();
        at.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    };
    assert!(gap(&honest) > 200 * MS, "the reply was late: {}", gap(&honest));
}

#[test]
fn aborts_move_the_write_batch() {
    let (leaky, honest) = leaky_and_honest(Canary::ClockMovedByAborts, 1);
    assert!(reads_off_grid(&leaky) > 20, "{}", reads_off_grid(&leaky));
    assert_eq!(reads_off_grid(&honest), 0);
    assert!(honest.played.secret.aborts > 500);
}

/// Requests sent after a lie was told.
fn sent_after_lie(view: &View) -> usize {
    let is_lie = |event: &Event| matches!(event, Event::Mark(mark) if mark.label == LIE);
    let lie = view.events.iter().position(is_lie).expect("a lie was told");
    view.events[lie..].iter().filter(|event| matches!(event, Event::Sent(_))).count()
}

#[test]
fn a_lie_that_goes_unnoticed_is_followed_by_messages() {
    for canary in [Canary::DummiesUnverified, Canary::XorUnchecked] {
        let (leaky, honest) = leaky_and_honest(canary, 1);
        assert!(sent_after_lie(&leaky) > 100, "{}", canary.name());
        assert_eq!(sent_after_lie(&honest), 0, "{}", canary.name());
        assert!(honest.played.stopped.is_some() && leaky.played.stopped.is_none());
    }
}
