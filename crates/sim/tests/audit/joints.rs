//! Where one trace of a store ends and the next begins: one opening a process, no trace missing, no
//! state that is older.

use std::path::PathBuf;

use fogbank_audit::{AuditError, Given, Options, audit};
use fogbank_sim::scene::{Cast, Scene, Workload, record_lives};
use fogbank_store::trace::{Blame, Done, Event, Outcome, Request};

use crate::change::{Life, broken, expect, find, is_put, lives, request, within_an_epoch};

fn looks(request: &Request) -> bool {
    matches!(request, Request::BlobGet { name } if name == "commit")
}

/// Copies a call and its end from one place of a life to another.
fn again(life: &mut Life, from: usize, to: usize) {
    let (mut call, free) = (life[from..from + 2].to_vec(), 1 << 40);
    let at = life[to - 1].at();
    for event in &mut call {
        match event {
            Event::Sent(sent) => (sent.id, sent.at) = (free, at),
            Event::Done(done) => (done.id, done.at) = (free, at),
            _ => panic!("a call"),
        }
    }
    life.splice(to..to, call);
}

#[test]
fn openings() {
    expect(
        &[within_an_epoch()],
        &[
            ("the commit record is read twice", "blob-order", |lives| {
                let at = find(&lives[1], 0, looks);
                again(&mut lives[1], at, at + 2);
            }),
            ("it is read within a run", "blob-order", |lives| {
                let at = find(&lives[1], 0, looks);
                let put = find(&lives[1], lives[1].len() / 2, |r| is_put(r, "journal/"));
                again(&mut lives[1], at, put);
            }),
            ("it is read after the store was closed", "blob-order", |lives| {
                let (at, end) = (find(&lives[1], 0, looks), lives[1].len());
                again(&mut lives[1], at, end);
            }),
            ("it is read between two points", "on-grid", |lives| {
                let at = find(&lives[1], 0, looks);
                let Event::Sent(sent) = &mut lives[1][at] else { panic!("a get") };
                sent.at += 1;
            }),
            ("it is read in spite of a failure", "silence-after-a-failure", |lives| {
                let at = find(&lives[1], 0, looks);
                let read = find(&lives[1], at, |r| matches!(r, Request::ReadCells { .. }));
                let Event::Done(Done { outcome, .. }) = &mut lives[1][read + 1] else { panic!() };
                *outcome = Outcome::Failed(Blame::Misbehaved);
                again(&mut lives[1], at, read + 2);
                let Event::Sent(sent) = &mut lives[1][read + 2] else { panic!("a get") };
                sent.at += 10_000_000; // the reply has been handed over
            }),
        ],
    );
}

#[test]
fn traces_that_do_not_join() {
    let (config, whole) = lives(&[within_an_epoch(), 50]);
    assert_eq!(broken(&config, &whole), "none");
    let [first, second, third] = &whole[..] else { panic!("three lives") };
    let rule = |lives: &[&Life]| {
        let lives: Vec<Life> = lives.iter().map(|life| (*life).clone()).collect();
        broken(&config, &lives)
    };
    assert_eq!(rule(&[first, third]), "unfollowing");
    assert_eq!(rule(&[first, third, second]), "unfollowing");
    assert_eq!(rule(&[second, third]), "unpredictable");
    // A trace whose end is missing.
    for part in [2, 3] {
        let cut = first[..first.len() * (part - 1) / part].to_vec();
        let end = cut.iter().rposition(|event| matches!(event, Event::Done(_))).unwrap();
        assert_eq!(rule(&[&cut[..=end].to_vec(), second, third]), "unfollowing");
    }
    // The same life twice: what it was shown is older than what is there.
    assert_eq!(rule(&[first, second, second]), "silence-after-a-lie");
}

/// A process that took over and died before it claimed the store leaves a journal record, no more.
#[test]
fn a_takeover_whose_trace_is_missing() {
    let first = within_an_epoch();
    let is_takeover = |life: &Life| {
        let puts = |kind| life.iter().any(|e| request(e).is_some_and(|r| is_put(r, kind)));
        puts("journal/") && !puts("commit")
    };
    let played = (3..40).map(|dies| lives(&[first, dies]));
    let (config, mut lives) = played.into_iter().find(|(_, l)| is_takeover(&l[1])).unwrap();
    assert_eq!(broken(&config, &lives), "none");
    lives.remove(1);
    assert_eq!(broken(&config, &lives), "unfollowing");
}

#[test]
fn an_audit_names_the_trace_that_does_not_follow() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..3).map(|life| folder.path().join(format!("{life}"))).collect();
    let cast = Cast::Journalled;
    let scene = Scene { cast, epochs: 8, ..Scene::new(Workload::Uniform, 9) };
    let lives: Vec<_> = paths.iter().map(|path| (path, None)).collect();
    record_lives(&scene, &lives).unwrap();
    let audited = |traces: &[usize]| {
        let traces = traces.iter().map(|trace| paths[*trace].clone()).collect();
        let given = Given { label: "a".into(), traces, history: None };
        audit(&[given], &Options::default(), |_| {})
    };
    assert!(audited(&[0, 1, 2]).unwrap().breaches.is_empty());
    let Err(AuditError::Unfollowing { path, before, .. }) = audited(&[0, 2]) else {
        panic!("one is missing")
    };
    assert_eq!((path, before), (paths[2].clone(), paths[0].clone()));
}

/// A forged commit record, and a proxy that goes on with the state that it knew.
#[test]
fn a_forgery_that_is_believed_is_no_gap() {
    let (config, mut lives) = lives(&[within_an_epoch()]);
    let at = find(&lives[1], 0, looks);
    let Event::Done(Done { outcome, .. }) = &mut lives[1][at + 1] else { panic!("its end") };
    let Outcome::Blob(Some(seen)) = outcome else { panic!("a commit record") };
    seen.fingerprints[0] ^= 1;
    assert_eq!(broken(&config, &lives), "silence-after-a-lie");
    let Event::Done(Done { outcome, .. }) = &mut lives[1][at + 1] else { panic!("its end") };
    *outcome = Outcome::Blob(None);
    assert_eq!(broken(&config, &lives), "silence-after-a-lie");
    // Met with silence.
    lives[1].truncate(at + 2);
    assert_eq!(broken(&config, &lives), "none");
}
