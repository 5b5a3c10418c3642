//! What every log owes, as one suite that every one of them runs.
//!
//! Each check takes a log that is open, with sessions of its own; some have it opened again midway.
//! A failed check panics with the promise that was broken: this module is for tests only.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::conformance::join_all;
use crate::{
    LOG_BYTES_MAX, LOG_EVENTS_AHEAD, Log, LogEntry, LogEvent, LogEvents, Result, StoreError,
};

/// Runs all checks on a log that is empty at first and then as the one before was left: `open` is
/// called when no other one of it is open.
pub async fn run<L: Log>(mut open: impl AsyncFnMut() -> L) {
    turns(&mut open).await;
    turns_that_come_early(&open().await).await;
    listeners(&open().await).await;
    a_slow_listener(&open().await).await;
    results(&mut open).await;
    sizes(&open().await).await;
    forgetting(&mut open).await;
}

/// Entries stand in the order of turns; one that comes again changes nothing, after an opening,
/// too.
async fn turns<L: Log>(open: &mut impl AsyncFnMut() -> L) {
    let log = open().await;
    let places = [append(&log, 1, 1).await, append(&log, 2, 1).await, append(&log, 1, 2).await];
    assert_eq!(places, [places[0], places[0] + 1, places[0] + 2], "places have no gap");
    assert_eq!(append(&log, 1, 1).await, places[0], "a turn that was there has its place");
    drop(log);
    let log = open().await;
    assert_eq!(append(&log, 1, 2).await, places[2], "the last turn is known after an opening");
    assert_eq!(append(&log, 2, 1).await, places[1], "all turns are known after an opening");
    let other = LogEntry { session: 2, turn: 1, bytes: "other bytes".into() };
    assert_eq!(must(log.append(other).await), Some(places[1]));
    assert_eq!(append(&log, 2, 2).await, places[2] + 1, "nothing was appended meanwhile");
    let mut events = must(log.follow(places[0]).await);
    for (place, turn) in places.into_iter().zip([(1, 1), (2, 1), (1, 2)]) {
        assert_eq!(next(&mut events).await, LogEvent::Entry(place, bytes(turn.0, turn.1)));
    }
    let none = log.append(LogEntry { session: 3, turn: 0, bytes: Bytes::new() }).await;
    caller_error(none, "a turn before the first");
}

/// An entry waits for its predecessor, and nobody else for it.
async fn turns_that_come_early<L: Log>(log: &L) {
    let entries = [(10, 3), (11, 2), (10, 2), (11, 1), (12, 1), (10, 1), (10, 2)];
    let places = join_all(entries.map(|(s, t)| append(log, s, t)).into_iter()).await;
    let place = |entry| places[entries.iter().position(|e| *e == entry).unwrap_or(0)];
    assert!(place((10, 1)) < place((10, 2)) && place((10, 2)) < place((10, 3)));
    assert!(place((11, 1)) < place((11, 2)));
    assert_eq!(places[2], places[6], "two of one turn have one place");
    let distinct: std::collections::BTreeSet<u64> = places.iter().copied().collect();
    let span = places.iter().max().zip(places.iter().min()).map(|(max, min)| max - min);
    assert_eq!((distinct.len(), span), (6, Some(5)), "each turn has one place");
}

/// A turn whose predecessor never comes is refused in the end. For logs on a clock that is paused.
pub async fn a_turn_that_never_comes<L: Log>(log: &L) {
    let early = log.append(entry(19, 2)).await;
    assert!(matches!(early, Err(StoreError::Absent(_))), "its predecessor is not there: {early:?}");
    let first = append(log, 19, 1).await;
    assert_eq!(append(log, 19, 2).await, first + 1);
}

/// Whoever listens is told all entries from his place on, in order, and what comes.
async fn listeners<L: Log>(log: &L) {
    let first = append(log, 20, 1).await;
    for turn in 2..=10 {
        append(log, 20, turn).await;
    }
    let mut all = must(log.follow(first).await);
    let mut midway = must(log.follow(first + 5).await);
    let mut later = must(log.follow(first + 10).await);
    let mut gone = must(log.follow(first).await);
    next(&mut gone).await;
    drop(gone);
    for turn in 11..=20 {
        append(log, 20, turn).await;
    }
    for (listener, from) in [(&mut all, 0), (&mut midway, 5), (&mut later, 10)] {
        for index in from..20 {
            let expected = LogEvent::Entry(first + index, bytes(20, index + 1));
            assert_eq!(next(listener).await, expected, "entries come in order, without a gap");
        }
    }
    append(log, 20, 21).await;
    for listener in [&mut all, &mut midway, &mut later] {
        assert_eq!(next(listener).await, LogEvent::Entry(first + 20, bytes(20, 21)));
    }
}

/// Who takes nothing holds up nobody, and has lost nothing once he listens again.
async fn a_slow_listener<L: Log>(log: &L) {
    let first = append(log, 30, 1).await;
    let mut slow = must(log.follow(first).await);
    let mut quick = must(log.follow(first).await);
    let many = 4 * LOG_EVENTS_AHEAD as u64;
    for index in 0..many {
        if index > 0 {
            append(log, 30, index + 1).await;
        }
        assert_eq!(next(&mut quick).await, LogEvent::Entry(first + index, bytes(30, index + 1)));
    }
    let mut told = 0;
    while told < many {
        match within(slow.recv()).await {
            Some(Ok(event)) => {
                assert_eq!(event, LogEvent::Entry(first + told, bytes(30, told + 1)));
                told += 1;
            }
            Some(Err(StoreError::Absent(_))) | None => slow = must(log.follow(first + told).await),
            Some(Err(error)) => panic!("a slow listener is told {error}"),
        }
    }
}

/// A result is told once, after its entry; the first one stays.
async fn results<L: Log>(open: &mut impl AsyncFnMut() -> L) {
    let log = open().await;
    let first = append(&log, 40, 1).await;
    let mut early = must(log.follow(first).await);
    for turn in 2..=6 {
        append(&log, 40, turn).await;
    }
    must(log.publish(first + 3, "three".into()).await);
    must(log.publish(first + 1, "one".into()).await);
    must(log.publish(first + 1, "one again".into()).await);
    let mut late = must(log.follow(first).await);
    let mut after = must(log.follow(first + 2).await);
    must(log.publish(first + 2, Bytes::new()).await);
    must(log.publish(first, "zero".into()).await);
    caller_error(log.publish(first + 6, "six".into()).await, "a result before its entry");
    let expected = [(0, "zero"), (1, "one"), (2, ""), (3, "three")];
    for (listener, from) in [(&mut early, 0), (&mut late, 0), (&mut after, 2)] {
        told(listener, first, from..6, &expected[from as usize..]).await;
    }
    append(&log, 40, 7).await;
    must(log.publish(first + 6, "six".into()).await);
    for listener in [&mut early, &mut late, &mut after] {
        assert_eq!(next(listener).await, LogEvent::Entry(first + 6, bytes(40, 7)), "all was told");
        assert_eq!(next(listener).await, LogEvent::Result(first + 6, "six".into()));
    }
    drop((log, early, late, after));
    let log = open().await;
    must(log.publish(first + 3, "three again".into()).await);
    let mut again = must(log.follow(first).await);
    let expected = [&expected[..], &[(6, "six")]].concat();
    told(&mut again, first, 0..7, &expected).await;
    must(log.publish(first + 4, "four".into()).await);
    assert_eq!(next(&mut again).await, LogEvent::Result(first + 4, "four".into()));
}

/// Entries from `first` on, numbered `entries`, and results of them come, each once.
async fn told(
    listener: &mut LogEvents,
    first: u64,
    entries: std::ops::Range<u64>,
    results: &[(u64, &'static str)],
) {
    let (mut at, mut came) = (first + entries.start, BTreeMap::new());
    for _ in 0..(entries.end - entries.start) as usize + results.len() {
        match next(listener).await {
            LogEvent::Entry(place, _) => {
                assert_eq!(place, at, "entries come in order, without a gap");
                at += 1;
            }
            LogEvent::Result(place, bytes) => {
                assert!(place < at, "a result comes after its entry");
                assert_eq!(came.insert(place - first, bytes), None, "a result is told once");
            }
        }
    }
    let expected = results.iter().map(|(at, result)| (*at, Bytes::from(*result)));
    assert_eq!(came, expected.collect(), "the first result of each place is told");
}

/// What is as large as may be comes back; what is larger is refused.
async fn sizes<L: Log>(log: &L) {
    let large = Bytes::from(vec![7; LOG_BYTES_MAX]);
    let append = |turn, bytes| log.append(LogEntry { session: 50, turn, bytes });
    let first = must(append(1, large.clone()).await).expect("it was not there");
    must(append(2, Bytes::new()).await);
    must(log.publish(first, large.clone()).await);
    let larger = Bytes::from(vec![7; LOG_BYTES_MAX + 1]);
    caller_error(append(3, larger.clone()).await, "an entry that is too large");
    caller_error(log.publish(first + 1, larger).await, "a result that is too large");
    must(append(3, "next".into()).await);
    let mut events = must(log.follow(first).await);
    assert_eq!(next(&mut events).await, LogEvent::Entry(first, large.clone()));
    assert_eq!(next(&mut events).await, LogEvent::Result(first, large));
    assert_eq!(next(&mut events).await, LogEvent::Entry(first + 1, Bytes::new()));
    assert_eq!(next(&mut events).await, LogEvent::Entry(first + 2, "next".into()));
}

/// What was forgotten is gone, but the last turns; what was not is there.
async fn forgetting<L: Log>(open: &mut impl AsyncFnMut() -> L) {
    let log = open().await;
    let first = append(&log, 60, 1).await;
    append(&log, 61, 1).await;
    for turn in 2..=5 {
        append(&log, 60, turn).await;
    }
    must(log.publish(first, "zero".into()).await);
    must(log.publish(first + 4, "four".into()).await);
    let mut listener = must(log.follow(first).await);
    told(&mut listener, first, 0..6, &[(0, "zero"), (4, "four")]).await;
    for round in 0..3 {
        must(log.forget(first + 2 + round % 2).await);
    }
    must(log.forget(first).await);
    append(&log, 60, 6).await;
    assert_eq!(next(&mut listener).await, LogEvent::Entry(first + 6, bytes(60, 6)));
    drop(listener);
    what_is_left(&log, first).await;
    drop(log);
    let log = open().await;
    what_is_left(&log, first).await;
    must(log.forget(u64::MAX).await);
    assert_eq!(must(log.append(entry(60, 6)).await), None);
    drop(log);
    let log = open().await;
    assert_eq!(must(log.append(entry(60, 6)).await), None, "the last turn stays for good");
    assert_eq!(append(&log, 60, 7).await, first + 7, "places go on");
    let mut events = must(log.follow(first + 7).await);
    assert_eq!(next(&mut events).await, LogEvent::Entry(first + 7, bytes(60, 7)));
}

async fn what_is_left<L: Log>(log: &L, first: u64) {
    for (session, turn) in [(60, 1), (61, 1), (60, 2)] {
        let again = must(log.append(entry(session, turn)).await);
        assert_eq!(again, None, "turn {turn} of {session} was forgotten");
    }
    assert_eq!(append(log, 60, 3).await, first + 3, "what was not forgotten has its place");
    let refused = log.follow(first + 2).await.map(drop);
    assert!(matches!(refused, Err(StoreError::Refused(_))), "it was forgotten: {refused:?}");
    must(log.publish(first + 1, "late".into()).await);
    let mut events = must(log.follow(first + 3).await);
    told(&mut events, first, 3..7, &[(4, "four")]).await;
}

fn bytes(session: u32, turn: u64) -> Bytes {
    format!("turn {turn} of {session}").into()
}

/// What the checks append.
pub fn entry(session: u32, turn: u64) -> LogEntry {
    LogEntry { session, turn, bytes: bytes(session, turn) }
}

async fn append<L: Log>(log: &L, session: u32, turn: u64) -> u64 {
    match log.append(entry(session, turn)).await {
        Ok(Some(place)) => place,
        other => panic!("turn {turn} of session {session} has a place: {other:?}"),
    }
}

async fn next(events: &mut LogEvents) -> LogEvent {
    match within(events.recv()).await {
        Some(Ok(event)) => event,
        other => panic!("there is more to tell: {other:?}"),
    }
}

/// A log that says nothing fails its check in the end.
async fn within<T>(coming: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(60), coming).await;
    waited.unwrap_or_else(|_| panic!("nothing is told"))
}

#[track_caller]
fn must<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("a call that must succeed failed: {error}"),
    }
}

#[track_caller]
fn caller_error<T: std::fmt::Debug>(result: Result<T>, what: &str) {
    let by_caller = matches!(result, Err(StoreError::Caller(_)));
    assert!(by_caller, "{what} is the caller's error: {result:?}");
}
