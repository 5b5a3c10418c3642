//! What an opening sweeps, changed: too much, too little, or for a cloud that lies.

use std::sync::OnceLock;

use fogbank_store::trace::{Done, Event, Outcome, PublicConfig, Request, TraceClock};

use crate::change::{Life, cut, expect, find, is_put, judged, lives, request, within_an_epoch};

fn is_get(request: &Request, kind: &str) -> bool {
    matches!(request, Request::BlobGet { name } if name.starts_with(kind))
}

fn is_list(request: &Request, kind: &str) -> bool {
    matches!(request, Request::BlobList { prefix } if prefix.starts_with(kind))
}

/// The looks of the last life's sweep.
fn looks(lives: &[Life]) -> std::ops::Range<usize> {
    let life = lives.last().unwrap();
    let list = find(life, 0, |r| is_list(r, "journal/"));
    list + 2..find(life, list, |r| is_list(r, "checkpoint/"))
}

/// The names that it deletes.
fn deleted(lives: &mut [Life]) -> &mut Vec<String> {
    let from = looks(lives).end;
    let life = lives.last_mut().unwrap();
    let at = find(life, from, |r| matches!(r, Request::BlobDelete { .. }));
    let Event::Sent(sent) = &mut life[at] else { panic!("a deletion") };
    let Request::BlobDelete { names } = &mut sent.request else { panic!("a deletion") };
    names
}

fn named(life: &Life, at: usize) -> &str {
    match request(&life[at]) {
        Some(Request::BlobGet { name }) => name,
        other => panic!("{other:?}"),
    }
}

fn outcome(life: &mut Life, sent: usize) -> &mut Outcome {
    let Event::Done(Done { outcome, .. }) = &mut life[sent + 1] else {
        panic!("the end of a call")
    };
    outcome
}

/// One life dies within an epoch, the next before it has deleted the journal of that epoch: the
/// third finds a takeover record among those of batches.
fn stops() -> &'static [u64; 2] {
    static STOPS: OnceLock<[u64; 2]> = OnceLock::new();
    STOPS.get_or_init(|| {
        let first = within_an_epoch();
        let is = |second: &u64| {
            let (_, mut lives) = lives(&[first, *second]);
            let looked = looks(&lives).len() / 2;
            let records = deleted(&mut lives).iter().filter(|name| name.starts_with("journal/"));
            looked > 2 && records.count() + 1 == looked
        };
        [first, (10..120).find(is).unwrap()]
    })
}

/// The name of the takeover record that the sweep looks at.
fn takeover(lives: &mut [Life]) -> String {
    let gone = deleted(lives).clone();
    let (looks, life) = (looks(lives), lives.last().unwrap());
    let mut names = looks.step_by(2).map(|at| named(life, at));
    names.find(|name| !gone.iter().any(|gone| gone == name)).unwrap().into()
}

#[test]
fn sweeps() {
    expect(
        stops(),
        &[
            ("a takeover record is deleted", "blob-order", |lives| {
                let takeover = takeover(lives);
                let names = deleted(lives);
                names.push(takeover);
                names.sort_unstable_by_key(|name| (!name.starts_with("journal/"), name.clone()));
            }),
            ("the record of a batch is kept", "blob-order", |lives| {
                deleted(lives).remove(0);
            }),
            ("the deletion is out of order", "blob-order", |lives| deleted(lives).swap(0, 1)),
            ("something else is deleted", "blob-order", |lives| {
                deleted(lives).push("delta/00000002-0000000000000001/000000".into());
            }),
            ("nothing is deleted", "blob-order", |lives| {
                let from = looks(lives).end;
                let life = lives.last_mut().unwrap();
                let at = find(life, from, |r| matches!(r, Request::BlobDelete { .. }));
                cut(life, at, 1);
            }),
            ("a record is not looked at", "blob-order", |lives| {
                let looks = looks(lives);
                cut(lives.last_mut().unwrap(), looks.start, 1);
            }),
            ("no record is looked at", "blob-order", |lives| {
                let looks = looks(lives);
                cut(lives.last_mut().unwrap(), looks.start, looks.len() / 2);
            }),
            ("records are looked at out of order", "blob-order", |lives| {
                let (looks, life) = (looks(lives), lives.last_mut().unwrap());
                life.swap(looks.start, looks.start + 2);
            }),
            ("the journal of another epoch is listed", "blob-order", |lives| {
                let (looks, life) = (looks(lives), lives.last_mut().unwrap());
                let Event::Sent(sent) = &mut life[looks.start - 2] else { panic!("a list") };
                sent.request = Request::BlobList { prefix: "journal/0000000000000000-".into() };
            }),
            ("the whole journal is listed", "blob-order", |lives| {
                let (looks, life) = (looks(lives), lives.last_mut().unwrap());
                let Event::Sent(sent) = &mut life[looks.start - 2] else { panic!("a list") };
                sent.request = Request::BlobList { prefix: "journal/".into() };
            }),
            ("a list is left out", "blob-order", |lives| {
                let (looks, life) = (looks(lives), lives.last_mut().unwrap());
                cut(life, looks.end, 1);
            }),
            ("a commit deletes a takeover record", "commit-order", |lives| {
                let life = lives.last_mut().unwrap();
                let place = find(life, 0, |r| is_put(r, "journal/"));
                let Some(Request::BlobPut { name, .. }) = request(&life[place]) else { panic!() };
                let name = name.clone();
                let put = find(life, place, |r| matches!(r, Request::WriteChunks { .. }));
                let at = find(life, put, |r| matches!(r, Request::BlobDelete { .. }));
                let Event::Sent(sent) = &mut life[at] else { panic!("a deletion") };
                let Request::BlobDelete { names } = &mut sent.request else { panic!() };
                names.insert(0, name);
            }),
        ],
    );
}

/// What a cloud that lies makes of a sweep: lies that are found, and the rule that is broken.
fn lied(apply: fn(&mut [Life])) -> (&'static str, u32) {
    let (mut config, mut lives): (PublicConfig, _) = lives(stops());
    assert_eq!(judged(&config, &lives), ("none", 0));
    apply(&mut lives);
    // By a real clock a call may come later than predicted, as it does where one was cut out.
    config.clock = TraceClock::Real;
    judged(&config, &lives)
}

fn list_more(lives: &mut [Life], kind: &str, more: i64) {
    let life = lives.last_mut().unwrap();
    let at = find(life, 0, |r| is_list(r, kind));
    let Outcome::BlobsListed(names) = outcome(life, at) else { panic!("a list") };
    *names = names.checked_add_signed(more).unwrap();
}

#[test]
fn a_cloud_that_lies_to_a_sweep_chooses_what_is_deleted_but_nothing_that_counts() {
    let fewer = |lives: &mut [Life]| list_more(lives, "checkpoint/", -1);
    assert_eq!(lied(fewer), ("none", 1));
    let another = |lives: &mut [Life]| {
        let at = looks(lives).start;
        let Outcome::Blob(Some(seen)) = outcome(lives.last_mut().unwrap(), at) else { panic!() };
        seen.fingerprints[0] ^= 1;
    };
    assert_eq!(lied(another), ("none", 1));
    assert_eq!(
        lied(|lives| {
            list_more(lives, "checkpoint/", -1);
            let life = lives.last().unwrap();
            let full = find(life, 0, |r| is_get(r, "checkpoint/"));
            let full = named(life, full).to_owned();
            deleted(lives).push(full);
        }),
        ("blob-order", 1)
    );
    // Fewer records than there are: the last was not listed, looked at or deleted.
    let hidden = |lives: &mut [Life]| {
        list_more(lives, "journal/", -1);
        let looks = looks(lives);
        let hidden = named(lives.last().unwrap(), looks.end - 2).to_owned();
        deleted(lives).retain(|name| *name != hidden);
        cut(lives.last_mut().unwrap(), looks.end - 2, 1);
    };
    assert_eq!(lied(hidden), ("none", 1));
    // More records than there can be: then they were not all looked at.
    assert_eq!(lied(|lives| list_more(lives, "journal/", 1)), ("blob-order", 1));
}
