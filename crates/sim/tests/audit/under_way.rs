//! Several windows of a batch and several batches under way: whatever leaves sooner or beside more
//! than the configuration says is found by the name of its rule.

use std::time::Duration;

use fogbank_audit::oracle::replay;
use fogbank_audit::oracle::ring::RingConfig;
use fogbank_sim::scene::{Hold, Scene, Shape, record};
use fogbank_store::trace::{Blame, Event, Outcome, PublicConfig, Request};
use fogbank_store::{Lie, LieRule, Link, Operation};

use crate::change::{Life, broken, find, is_put, is_read, lives_of, request, scene};

/// Two windows and two pieces at once, two batches in flight, over a link longer than the interval.
fn honest_with(piece_bytes: usize) -> (PublicConfig, Life) {
    let windows = (160, 2);
    let shape = Shape { in_flight: 2, read_batches: 4, windows, piece_bytes, ..Shape::small() };
    let link = Link { round_trip: Duration::from_millis(150), ..Link::instant() };
    let (config, mut lives) = lives_of(&Scene { shape, link, ..scene() }, &[]);
    (config, lives.remove(0))
}

/// With one piece a delta.
fn honest() -> (PublicConfig, Life) {
    honest_with(Shape::small().piece_bytes)
}

fn is_record(request: &Request) -> bool {
    is_put(request, "journal/")
}

/// The next event from `from` on that ends the request at `sent`.
fn end_of(life: &[Event], sent: usize) -> usize {
    let Event::Sent(of) = &life[sent] else { panic!("no request") };
    let ends = |event: &Event| matches!(event, Event::Done(done) if done.id == of.id);
    (sent..life.len()).find(|at| ends(&life[*at])).unwrap()
}

/// Lets the request at `from` leave just before the event at `to`.
fn hasten(life: &mut Life, from: usize, to: usize) {
    let mut event = life.remove(from);
    let at = life[to].at();
    let Event::Sent(sent) = &mut event else { panic!("no request") };
    sent.at = at;
    life.insert(to, event);
}

/// Lets the request at `at` leave a point later.
fn delay(life: &mut Life, at: usize) {
    let Event::Sent(sent) = &mut life[at] else { panic!("no request") };
    sent.at += 10_000_000;
}

/// The rule that a change of an honest life breaks.
fn broken_by(config: &PublicConfig, honest: &Life, change: impl Fn(&mut Life)) -> &'static str {
    let mut spoiled = honest.clone();
    change(&mut spoiled);
    assert_ne!(spoiled, *honest);
    broken(config, &[spoiled])
}

/// A batch of at least three windows in the middle of a life: its record, and its windows.
fn batch_of_three(life: &Life) -> (usize, Vec<usize>) {
    let mut from = life.len() / 2;
    loop {
        let record = find(life, from, is_record);
        let durable = end_of(life, record);
        let next = find(life, durable, |r| !is_read(r));
        let windows: Vec<usize> =
            (durable..next).filter(|at| request(&life[*at]).is_some_and(is_read)).collect();
        if windows.len() >= 3 {
            return (record, windows);
        }
        from = record + 1;
    }
}

#[test]
fn what_leaves_too_soon() {
    let (config, honest) = honest();
    assert_eq!(broken(&config, std::slice::from_ref(&honest)), "none");
    let (record, windows) = batch_of_three(&honest);
    let rule = |change: &dyn Fn(&mut Life)| broken_by(&config, &honest, change);
    let durable = end_of(&honest, record);
    assert_eq!(rule(&|life| hasten(life, windows[0], durable)), "waits-for-all");
    let room = (windows[1]..windows[2]).find(|at| matches!(honest[*at], Event::Done(_))).unwrap();
    assert_eq!(rule(&|life| hasten(life, windows[2], room)), "waits-for-all");
    let next = find(&honest, record + 1, is_record);
    // A record says that all of the batch before has left.
    assert_eq!(rule(&|life| hasten(life, next, windows[0])), "full-batch");
    assert_eq!(rule(&|life| delay(life, next)), "on-grid");
}

#[test]
fn more_than_the_configuration_says() {
    let (config, honest) = honest();
    let with = |change: fn(&mut RingConfig)| {
        let mut ring: RingConfig = config.tail().unwrap();
        change(&mut ring);
        broken(&config.clone().with_tail(&ring), std::slice::from_ref(&honest))
    };
    assert_eq!(with(|ring| ring.windows = 1), "waits-for-all");
    assert_eq!(with(|ring| ring.in_flight = 1), "waits-for-all");
    // Fewer than it says: the next could have left sooner.
    assert_eq!(with(|ring| ring.windows = 3), "on-grid");
    assert_eq!(with(|ring| ring.in_flight = 3), "none"); // the record's round trip keeps it to two
}

fn is_piece(request: &Request) -> bool {
    is_put(request, "delta/") || is_put(request, "checkpoint/")
}

#[test]
fn pieces_that_leave_otherwise() {
    let (config, honest) = honest_with(250);
    let (half, first) = (honest.len() / 2, |from| find(&honest, from, is_piece));
    let first = first(find(&honest, first(half), |r| is_put(r, "commit")));
    let second = find(&honest, first + 1, is_piece);
    let third = find(&honest, second + 1, is_piece);
    // Two are under way: the third leaves when one of them has ended.
    assert!(second < end_of(&honest, first) && end_of(&honest, first) < third);
    let with = |change: &dyn Fn(&mut Life)| broken_by(&config, &honest, change);
    let room = end_of(&honest, first);
    assert_eq!(with(&|life| hasten(life, third, room)), "waits-for-all");
    // Each has a point of its own: two at once would tell that both were made in time.
    assert_eq!(with(&|life| hasten(life, second, first)), "commit-order");
    let together = |life: &mut Life| {
        let at = life[first].at();
        let Event::Sent(sent) = &mut life[second] else { panic!("no request") };
        sent.at = at;
    };
    assert_eq!(with(&together), "no-catch-up");
    assert_eq!(with(&|life| delay(life, second)), "on-grid");
    // Nobody knows what became of the first, and pieces go on as if it were there.
    let in_doubt = |life: &mut Life| {
        let Event::Done(done) = &mut life[room] else { panic!("no end") };
        done.outcome = Outcome::Failed(Blame::Absent);
    };
    assert_eq!(with(&in_doubt), "waits-for-all");
    // The commit record before the last piece is durable.
    let commit = find(&honest, third, |r| is_put(r, "commit"));
    let last = (third..commit).rfind(|at| request(&honest[*at]).is_some_and(is_piece));
    assert_eq!(with(&|life| hasten(life, commit, end_of(life, last.unwrap()))), "waits-for-all");
    // The canary of the configuration: fewer than it says could have left sooner, more may not
    // leave.
    let said = |pieces: u32| {
        let mut ring: RingConfig = config.tail().unwrap();
        ring.vault.as_mut().unwrap().pieces_at_once = pieces;
        broken(&config.clone().with_tail(&ring), std::slice::from_ref(&honest))
    };
    assert_eq!((said(1), said(2), said(3)), ("waits-for-all", "none", "on-grid"));
}

/// Epochs that rest for a second, where nothing says that they may.
#[test]
fn a_pause_is_public() {
    let shape = Shape { pauses: true, ..Shape::small() };
    let (config, lives) = lives_of(&Scene { shape, epochs: 30, ..scene() }, &[]);
    assert_eq!(broken(&config, &lives), "none");
    let ring = RingConfig { pauses: false, ..config.tail().unwrap() };
    assert_eq!(broken(&config.with_tail(&ring), &lives), "on-grid");
}

/// Whichever window is forged, nothing is sent once it has arrived: no other window of its batch,
/// no record of the next one, nothing of the batch behind it.
#[test]
fn nothing_leaves_after_a_lie() {
    let ms = Duration::from_millis;
    let far = Link { round_trip: ms(150), ..Link::instant() };
    // Records are durable at once and reads take long: several batches really overlap.
    let slow = Link { round_trip: ms(4), read: ms(200), ..Link::instant() };
    for (in_flight, at_once, link) in
        [(1, 3, far), (2, 2, far), (4, 1, far), (3, 1, slow), (4, 2, slow)]
    {
        let windows = (160, at_once);
        let shape = Shape { in_flight, read_batches: 4, windows, ..Shape::small() };
        for nth in 30..60 {
            let operation = Operation::ReadCells;
            let lie = Some(LieRule { operation, nth, lie: Lie::FlipBit(5), always: false });
            // The forged one comes last of those under way.
            let hold = Some(Hold { operation, nth, by: Duration::from_millis(230) });
            let scene = Scene { shape: shape.clone(), link, lie, hold, ..scene() };
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace");
            let played = record(&scene, &path).unwrap();
            assert!(played.stopped.is_some_and(|why| why.contains("verify")), "{nth}");
            let summary = replay(&[&path], &mut []).unwrap_or_else(|e| panic!("{nth}: {e}"));
            // The cloud says so, and the fingerprints show it.
            assert!(summary.lies >= 2, "{nth}: {}", summary.lies);
        }
    }
}
