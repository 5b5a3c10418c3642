//! Each of these changes to honest lives is a leak or loses data; each is found by the name of its
//! rule.

use fogbank_store::trace::{Event, Request};

use crate::change::{
    Life, cut, cut_between, expect, find, is_put, is_read, lengthen, request, within_an_epoch,
};

/// The journal record of a batch that reads something, in the middle of a life.
fn record_before_reads(life: &[Event]) -> usize {
    let read = find(life, life.len() / 2, is_read);
    (0..read).rev().find(|at| request(&life[*at]).is_some_and(|r| is_put(r, "journal/"))).unwrap()
}

#[test]
fn journals_and_commits() {
    expect(
        &[within_an_epoch()],
        &[
            ("a batch is not recorded", "journal-before-read", |lives| {
                let at = record_before_reads(&lives[0]);
                cut(&mut lives[0], at, 1);
            }),
            ("a record is longer", "journal-size", |lives| {
                let at = record_before_reads(&lives[0]);
                lengthen(&mut lives[0], at);
            }),
            ("a delta is longer", "delta-size", |lives| {
                let at = find(&lives[0], lives[0].len() / 2, |r| is_put(r, "delta/"));
                lengthen(&mut lives[0], at);
            }),
            ("a full checkpoint is longer", "blob-size", |lives| {
                let at = find(&lives[1], 0, |r| is_put(r, "checkpoint/"));
                lengthen(&mut lives[1], at);
            }),
            ("no delta is put", "commit-order", |lives| {
                let at = find(&lives[0], 0, |r| is_put(r, "delta/"));
                cut(&mut lives[0], at, 1);
            }),
            ("images are not yet written", "commit-order", |lives| {
                let at = find(&lives[0], 0, |r| matches!(r, Request::WriteChunks { .. }));
                cut(&mut lives[0], at, 3); // two messages of them, and the barrier
            }),
            ("old versions are deleted before the commit", "commit-order", |lives| {
                let delete = |r: &Request| matches!(r, Request::DeleteChunks { .. });
                let deleted = find(&lives[0], 0, delete);
                let is_delta = |r: &Request| is_put(r, "delta/");
                let put =
                    (0..deleted).rev().find(|at| request(&lives[0][*at]).is_some_and(is_delta));
                cut(&mut lives[0], put.unwrap(), 2);
            }),
            ("chunks are deleted twice", "waits-for-all", |lives| {
                let delete = |r: &Request| matches!(r, Request::DeleteChunks { .. });
                let at = find(&lives[0], 0, delete);
                let mut again = lives[0][at].clone();
                let Event::Sent(sent) = &mut again else { panic!("a deletion") };
                sent.id = 1 << 40;
                lives[0].insert(at + 1, again);
            }),
            ("a deletion leaves before the other", "on-grid", |lives| {
                let delete = |r: &Request| matches!(r, Request::BlobDelete { .. });
                let at = find(&lives[0], 0, delete);
                let Event::Sent(sent) = &mut lives[0][at] else { panic!("a deletion") };
                sent.at += 1;
            }),
            ("the journal is kept", "commit-order", |lives| {
                let delete = |r: &Request| matches!(r, Request::BlobDelete { .. });
                let at = find(&lives[0], 0, delete);
                cut(&mut lives[0], at, 1);
            }),
        ],
    );
}

/// The first read of the second life, which comes again.
fn again(lives: &[Life]) -> usize {
    let at = find(&lives[1], 0, is_read);
    let record = find(&lives[1], 0, |r| is_put(r, "journal/"));
    assert!(record < at, "it opens first");
    let before = lives[0].iter().any(|event| request(event) == request(&lives[1][at]));
    assert!(before, "the first life has read it");
    at
}

#[test]
fn recoveries() {
    expect(
        &[within_an_epoch()],
        &[
            ("another cell is read again", "replay-exact", |lives| {
                let at = again(lives);
                let Event::Sent(sent) = &mut lives[1][at] else { panic!("a read") };
                let Request::ReadCells { reads } = &mut sent.request else { panic!("a read") };
                let cells = &mut reads[0].cells;
                let last = cells.pop().unwrap();
                cells.push(last + 1);
            }),
            ("less is read again", "replay-exact", |lives| {
                let at = again(lives);
                let Event::Sent(sent) = &mut lives[1][at] else { panic!("a read") };
                let Request::ReadCells { reads } = &mut sent.request else { panic!("a read") };
                reads.pop();
            }),
            ("a batch is not read again", "replay-exact", |lives| {
                let at = again(lives);
                cut(&mut lives[1], at, 1);
            }),
            ("nothing is read again", "replay-exact", |lives| {
                let at = again(lives);
                let record = find(&lives[1], at, |r| is_put(r, "journal/"));
                cut_between(&mut lives[1], at, record);
            }),
            ("the epoch is left open", "epoch-completed-after-crash", |lives| {
                let at = again(lives);
                let record = find(&lives[1], at, |r| is_put(r, "journal/"));
                let sweep = find(&lives[1], at, |r| matches!(r, Request::ListChunks { .. }));
                cut_between(&mut lives[1], record, sweep);
            }),
            ("the epoch is committed too early", "epoch-completed-after-crash", |lives| {
                let at = again(lives);
                let record = find(&lives[1], at, |r| is_put(r, "journal/"));
                let images = find(&lives[1], at, |r| matches!(r, Request::WriteChunks { .. }));
                cut_between(&mut lives[1], record, images);
            }),
        ],
    );
}
