//! Each of these changes to honest lives is a leak or loses data; each is found by the name of its rule.

use fogbank_audit::Observation;
use fogbank_audit::oracle::{Halt, Oracle};
use fogbank_sim::scene::{Cast, Death, Fate, Scene, Workload, record_lives};
use fogbank_store::trace::{Event, PublicConfig, Request, TraceReader};

/// The events of a life.
type Life = Vec<Event>;
/// What is changed, the rule that it breaks, and how.
type Change = (&'static str, &'static str, fn(&mut [Life]));

/// Two lives: one that dies at its call number `dies`, and one that goes on.
fn lives(dies: u64) -> (PublicConfig, Vec<Life>) {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene { cast: Cast::Journalled, epochs: 8, ..Scene::new(Workload::Uniform, 9) };
    let death = Some(Death { call: dies, how: Fate::Done });
    let lives = [(folder.path().join("0"), death), (folder.path().join("1"), None)];
    record_lives(&scene, &lives).unwrap();
    let mut config = None;
    let events = lives.iter().map(|(path, _)| {
        let reader = TraceReader::open(path).unwrap();
        config = Some(PublicConfig::decode(reader.config()).unwrap());
        reader.map(Result::unwrap).collect()
    });
    let events = events.collect();
    (config.unwrap(), events)
}

/// The rule that they break.
fn broken(config: &PublicConfig, lives: &[Life]) -> &'static str {
    let mut oracle = Oracle::new(config).unwrap();
    let mut nobody = |_: &Observation<'_>| {};
    for (number, life) in lives.iter().enumerate() {
        if number > 0 {
            oracle.next_trace();
        }
        for event in life {
            match oracle.event(event, &mut nobody) {
                Ok(()) => {}
                Err(Halt::Breach(breach)) => return breach.rule,
                Err(Halt::Unpredictable { .. }) => return "unpredictable",
                Err(Halt::Unfollowing { .. }) => return "unfollowing",
            }
        }
    }
    "none"
}

fn request(event: &Event) -> Option<&Request> {
    match event {
        Event::Sent(sent) => Some(&sent.request),
        _ => None,
    }
}

/// The first request from `from` on that `is` one.
fn find(life: &[Event], from: usize, is: impl Fn(&Request) -> bool) -> usize {
    (from..life.len()).find(|at| request(&life[*at]).is_some_and(&is)).unwrap()
}

/// Takes the `count` requests from the one at `from` on out of a life, and their ends.
fn cut(life: &mut Life, from: usize, count: usize) {
    let sent = |event: &Event| match event {
        Event::Sent(sent) => Some(sent.id),
        _ => None,
    };
    let gone: Vec<u64> = life[from..].iter().filter_map(sent).take(count).collect();
    life.retain(|event| match event {
        Event::Sent(sent) => !gone.contains(&sent.id),
        Event::Done(done) => !gone.contains(&done.id),
        _ => true,
    });
}

fn is_put(request: &Request, kind: &str) -> bool {
    matches!(request, Request::BlobPut { name, .. } if name.starts_with(kind))
}

fn is_read(request: &Request) -> bool {
    matches!(request, Request::ReadCells { .. })
}

/// The journal record of a batch that reads something, in the middle of a life.
fn record_before_reads(life: &[Event]) -> usize {
    let read = find(life, life.len() / 2, is_read);
    (0..read).rev().find(|at| request(&life[*at]).is_some_and(|r| is_put(r, "journal/"))).unwrap()
}

fn lengthen(life: &mut Life, at: usize) {
    let Event::Sent(sent) = &mut life[at] else { panic!("no request") };
    let Request::BlobPut { bytes, .. } = &mut sent.request else { panic!("no put") };
    *bytes += 1;
}

fn expect(dies: u64, changes: &[Change]) {
    let (config, honest) = lives(dies);
    assert_eq!(broken(&config, &honest), "none");
    for (change, rule, apply) in changes {
        let mut spoiled = honest.clone();
        apply(&mut spoiled);
        assert_ne!(spoiled, honest, "{change}");
        assert_eq!(broken(&config, &spoiled), *rule, "{change}");
    }
}

/// A call at which a proxy dies that has read something in an epoch and has a batch of it to come.
fn within_an_epoch() -> u64 {
    let is = |dies: &u64| {
        let (_, lives) = lives(*dies);
        let life = &lives[1];
        let at = |is: &dyn Fn(&Request) -> bool| {
            life.iter().position(|event| request(event).is_some_and(is)).unwrap()
        };
        let (read, record) = (at(&is_read), find(life, at(&is_read), |r| is_put(r, "journal/")));
        let seen = lives[0].iter().any(|event| request(event) == request(&life[read]));
        seen && record < at(&|r| matches!(r, Request::WriteChunks { .. }))
    };
    (60..90).find(is).unwrap()
}

#[test]
fn journals_and_commits() {
    expect(
        within_an_epoch(),
        &[
            ("a batch is not recorded", "journal-before-read", |lives| {
                let at = record_before_reads(&lives[0]);
                cut(&mut lives[0], at, 2);
            }),
            ("a record is not yet durable", "journal-before-read", |lives| {
                let at = record_before_reads(&lives[0]);
                let barrier = find(&lives[0], at, |r| *r == Request::Barrier);
                cut(&mut lives[0], barrier, 1);
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
                cut(&mut lives[0], at, 2);
            }),
            ("a delta is not yet durable", "commit-order", |lives| {
                let at = find(&lives[0], 0, |r| is_put(r, "delta/"));
                let barrier = find(&lives[0], at, |r| *r == Request::Barrier);
                cut(&mut lives[0], barrier, 1);
            }),
            ("images are not yet written", "commit-order", |lives| {
                let at = find(&lives[0], 0, |r| matches!(r, Request::WriteChunks { .. }));
                cut(&mut lives[0], at, 2);
            }),
            ("old versions are deleted before the commit", "commit-order", |lives| {
                let delete = |r: &Request| matches!(r, Request::DeleteChunks { .. });
                let deleted = find(&lives[0], 0, delete);
                let is_delta = |r: &Request| is_put(r, "delta/");
                let put =
                    (0..deleted).rev().find(|at| request(&lives[0][*at]).is_some_and(is_delta));
                cut(&mut lives[0], put.unwrap(), 4);
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
    let record = find(&lives[1], 0, |r| *r == Request::Barrier);
    assert!(record < at, "it opens first");
    let before = lives[0].iter().any(|event| request(event) == request(&lives[1][at]));
    assert!(before, "the first life has read it");
    at
}

#[test]
fn recoveries() {
    expect(
        within_an_epoch(),
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

fn cut_between(life: &mut Life, from: usize, to: usize) {
    let sent = life[from..to].iter().filter(|event| request(event).is_some()).count();
    cut(life, from, sent);
}
