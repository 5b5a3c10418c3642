//! Every rule of the auditor's specification of a site can fail: an honest run in which one message
//! is another, stands elsewhere or twice breaks it by its name.

mod log;
mod objects;
mod pieces;
mod touches;
mod whose;

use std::collections::BTreeMap;

use fogbank_audit::oracle::hierarchy::{RULES, Together};
use fogbank_audit::oracle::{Halt, Oracle};
use fogbank_audit::statistics::{Battery, Levels};
use fogbank_audit::{Observation, Observer, Verdict};
use fogbank_store::ChunkName;
use fogbank_store::trace::{Event, LogCall, PublicConfig, Request, Sent, TraceReader};

use crate::audited::{rest, worked};
use crate::world::World;

type Events = Vec<Event>;

/// What all clients of an honest world have shown, as one.
pub fn shown(world: &World) -> (PublicConfig, Events) {
    let traces = world.all_traces();
    let head = TraceReader::open(&traces[0]).unwrap();
    let config = PublicConfig::decode(head.config()).unwrap();
    let readers = traces.iter().map(|trace| TraceReader::open(trace).unwrap());
    (config, Together::new(readers).map(Result::unwrap).collect())
}

/// The rule that they break, if they do.
pub fn broken(config: &PublicConfig, events: &[Event]) -> Option<String> {
    let mut oracle = Oracle::new(config).unwrap();
    let mut nobody = |_: &Observation<'_>| {};
    let told = events.iter().try_for_each(|event| oracle.event(event, &mut nobody));
    match told.and_then(|()| oracle.end_trace(&mut nobody)) {
        Ok(()) => None,
        Err(Halt::Breach(breach)) => Some(breach.rule.to_owned()),
        Err(other) => Some(other.to_string()),
    }
}

fn request(event: &Event) -> Option<&Request> {
    if let Event::Sent(sent) = event { Some(&sent.request) } else { None }
}

/// Where the last one of these is in the first two thirds, so that all is under way.
fn find(events: &Events, is: impl Fn(&Request) -> bool) -> usize {
    let upto = 2 * events.len() / 3;
    events[..upto].iter().rposition(|event| request(event).is_some_and(&is)).unwrap()
}

fn put(kind: &'static str) -> impl Fn(&Request) -> bool {
    move |request| matches!(request, Request::BlobPut { name, .. } if name.starts_with(kind))
}

fn of(events: &mut Events, at: usize) -> &mut Request {
    let Event::Sent(Sent { request, .. }) = &mut events[at] else { panic!("no request") };
    request
}

/// The same request once more, changed.
fn again(events: &mut Events, at: usize, change: impl FnOnce(&mut Request)) {
    let mut event = events[at].clone();
    let Event::Sent(sent) = &mut event else { panic!("no request") };
    sent.id += 1 << 40;
    change(&mut sent.request);
    events.insert(at + 1, event);
}

/// The request comes so many events of its client before.
fn earlier(events: &mut Events, at: usize, by: usize) {
    let event = events.remove(at);
    events.insert(at.saturating_sub(by), event);
}

/// The session of each client.
fn sessions(events: &Events) -> BTreeMap<u32, u64> {
    let logged = events.iter().filter_map(|event| match event {
        Event::Sent(Sent {
            connection,
            request: Request::Log(LogCall::Append { session, .. }),
            ..
        }) => Some((*connection, u64::from(*session))),
        _ => None,
    });
    logged.collect()
}

/// Another client claims, before an event, the piece for which a version was written. The first
/// version of either.
fn claimed_by_another(events: &mut Events, at: usize, version: u64) -> (u64, u64) {
    let claims = events[..at].iter().filter_map(|event| match event {
        Event::Sent(sent) if put("claim")(&sent.request) => {
            let Request::BlobPut { name, .. } = &sent.request else { panic!() };
            let (piece, ours) = name.rsplit_once('/').unwrap();
            Some((u64::from_str_radix(ours, 16).unwrap(), piece.to_owned(), sent.clone()))
        }
        _ => None,
    });
    let claim = claims.filter(|(ours, ..)| *ours <= version).max_by_key(|(ours, ..)| *ours);
    let (ours, piece, mut claim) = claim.unwrap();
    let others = sessions(events).into_iter().filter(|(_, session)| *session > ours >> 40);
    let (other, session) = others.min_by_key(|(_, session)| *session).unwrap();
    let theirs = (session << 40) + (1 << 39);
    (claim.id, claim.connection) = (claim.id + (1 << 41), other);
    let Request::BlobPut { name, .. } = &mut claim.request else { panic!() };
    *name = format!("{piece}/{theirs:016x}");
    events.insert(at, Event::Sent(claim));
    (ours, theirs)
}

type Spoil = fn(&mut Events);

/// By what of a trace they bend.
const SPOILT: [&[(&str, Spoil)]; 4] =
    [log::SPOILT, touches::SPOILT, pieces::SPOILT, objects::SPOILT];

/// Rules that have a test of their own.
const ELSEWHERE: &[&str] = &["whose"];

#[tokio::test(start_paused = true)]
async fn every_rule_of_the_specification_can_fail() {
    let world = World::recorded(90);
    worked(&world, 2, 200).await;
    worked(&world, 1, 10).await; // it joins later
    rest().await;
    let (config, events) = shown(&world);
    assert_eq!(broken(&config, &events), None);
    let mut wrong = Vec::new();
    for (rule, spoil) in SPOILT.into_iter().flatten() {
        let mut spoilt = events.clone();
        spoil(&mut spoilt);
        let found = broken(&config, &spoilt);
        println!("{rule}: {found:?}");
        if found.as_deref() != Some(rule) {
            wrong.push(format!("{rule}: {found:?}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn no_rule_is_without_a_trace_that_breaks_it() {
    let spoilt = SPOILT.into_iter().flatten().map(|(rule, _)| rule);
    let shown: Vec<&str> = spoilt.chain(ELSEWHERE).copied().collect();
    let never: Vec<_> = RULES.iter().filter(|rule| !shown.contains(rule)).collect();
    assert_eq!(never, [&""; 0]);
}

/// What a rule leaves free is held by statistics: cells of every chunk that are touched in their
/// order break none, and are no draw.
#[tokio::test(start_paused = true)]
async fn slots_that_are_touched_in_order_do_not_look_drawn() {
    let world = World::recorded(91);
    worked(&world, 2, 300).await;
    rest().await;
    let (config, mut events) = shown(&world);
    assert_eq!(failed(&config, &events), [""; 0]);
    touch_in_order(&mut events);
    assert_eq!(broken(&config, &events), None);
    let failed = failed(&config, &events);
    assert!(failed.contains(&"slot-ranks".to_owned()), "{failed:?}");
}

/// Cells of every chunk are touched in their order.
pub fn touch_in_order(events: &mut [Event]) {
    let mut cells: BTreeMap<ChunkName, Vec<u16>> = BTreeMap::new();
    for event in events {
        let Event::Sent(Sent { request: Request::ReadCells { reads }, .. }) = event else {
            continue;
        };
        for read in reads {
            let touched = cells.entry(read.chunk).or_default();
            let known = touched.iter().position(|cell| *cell == read.cells[0]);
            let at = known.unwrap_or(touched.len());
            if known.is_none() {
                touched.push(read.cells[0]);
            }
            read.cells = vec![at as u16];
        }
    }
}

/// The checks of statistics that fail.
fn failed(config: &PublicConfig, events: &[Event]) -> Vec<String> {
    let mut oracle = Oracle::new(config).unwrap();
    let mut battery = Battery::new(config, "site").unwrap();
    let mut observe = |seen: &Observation<'_>| Observer::observe(&mut battery, seen);
    events.iter().for_each(|event| oracle.event(event, &mut observe).unwrap());
    let (findings, _) = battery.finish(&Levels::for_traces(1));
    let failed = findings.into_iter().filter(|finding| finding.verdict == Verdict::Failed);
    failed.map(|finding| finding.check).collect()
}
