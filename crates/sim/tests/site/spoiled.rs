//! Every rule of the auditor's specification of a site can fail: an honest run in which one message
//! is another, stands elsewhere or twice breaks it by its name.

use std::collections::BTreeMap;

use fogbank_audit::oracle::hierarchy::Together;
use fogbank_audit::oracle::{Halt, Oracle};
use fogbank_audit::statistics::{Battery, Levels};
use fogbank_audit::{Observation, Observer, Verdict};
use fogbank_oram::ImmediateEngine;
use fogbank_store::ChunkName;
use fogbank_store::trace::{
    ChunkCells, Condition, Event, LogCall, PublicConfig, Request, Sent, TraceReader,
};

use crate::audited::worked;
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

/// A touch names what the one before it in its epoch does, of clients that are so to each other.
fn repeats(events: &mut Events, are: impl Fn(u32, u32) -> bool) {
    let upto = 2 * events.len() / 3;
    let touches = events[..upto].iter().enumerate().filter_map(|(at, event)| match event {
        Event::Sent(Sent { connection, request: Request::ReadCells { reads }, .. }) => {
            Some((at, *connection, reads.clone()))
        }
        _ => None,
    });
    let touches: Vec<_> = touches.collect();
    let pair = touches.windows(2).rev().find(|pair| {
        let [(_, one, before), (_, other, reads)] = pair else { return false };
        let is_of_epoch = before.len() == reads.len() && before[0].chunk == reads[0].chunk;
        is_of_epoch && before != reads && are(*one, *other)
    });
    let [(_, _, before), (at, _, _)] = pair.unwrap() else { panic!() };
    *of(events, *at) = Request::ReadCells { reads: before.clone() };
}

type Spoil = fn(&mut Events);

const SPOILT: &[(&str, Spoil)] = &[
    ("entry-bytes", |events| {
        let at = find(events, |r| matches!(r, Request::Log(LogCall::Append { .. })));
        let Request::Log(LogCall::Append { bytes, .. }) = of(events, at) else { panic!() };
        *bytes += 1;
    }),
    ("result-bytes", |events| {
        let at = find(events, |r| matches!(r, Request::Log(LogCall::Publish { .. })));
        let Request::Log(LogCall::Publish { bytes, .. }) = of(events, at) else { panic!() };
        *bytes -= 1;
    }),
    ("turn-once", |events| {
        let at = find(events, |r| matches!(r, Request::Log(LogCall::Append { .. })));
        again(events, at, |request| {
            let Request::Log(LogCall::Append { fingerprint, .. }) = request else { panic!() };
            *fingerprint ^= 1; // other bytes for the same turn
        });
    }),
    ("own-session", |events| {
        let at = find(events, |r| matches!(r, Request::Log(LogCall::Append { .. })));
        let Request::Log(LogCall::Append { session, .. }) = of(events, at) else { panic!() };
        *session += 1;
    }),
    ("one-log", |events| {
        let told = events.iter().enumerate().filter_map(|(at, event)| match event {
            Event::Heard(heard) => Some((at, (heard.place, heard.is_result))),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        let (last, of_place) = told[told.len() / 2];
        let again = told.iter().find(|(at, of)| *of == of_place && *at != last).unwrap();
        let Event::Heard(heard) = &mut events[last.max(again.0)] else { panic!() };
        heard.fingerprint ^= 1;
    }),
    ("publish-touched", |events| {
        let at = find(events, |r| matches!(r, Request::Log(LogCall::Publish { .. })));
        again(events, at, |request| {
            let Request::Log(LogCall::Publish { place, fingerprint, .. }) = request else {
                panic!()
            };
            (*place, *fingerprint) = (*place - 40, *fingerprint ^ 1);
        });
    }),
    ("follow-from", |events| {
        let at = find(events, |r| matches!(r, Request::Log(LogCall::Follow { .. })));
        let Request::Log(LogCall::Follow { from }) = of(events, at) else { panic!() };
        *from += 1_000;
    }),
    ("forget-due", |events| {
        let at = events.iter().rposition(|event| {
            matches!(request(event), Some(Request::Log(LogCall::Forget { .. })))
        });
        let at = at.unwrap();
        let Request::Log(LogCall::Forget { before }) = of(events, at) else { panic!() };
        *before += 1;
    }),
    ("touch-due", |events| {
        let at = find(events, |r| matches!(r, Request::ReadCells { .. }));
        again(events, at, |_| {});
    }),
    ("tables-of-the-epoch", |events| {
        let at = find(events, |r| matches!(r, Request::ReadCells { .. }));
        let Request::ReadCells { reads } = of(events, at) else { panic!() };
        reads.swap(0, 1);
    }),
    ("slot-once", |events| {
        // The slot of the newest table that another touch of it has named.
        let touches = events.iter().enumerate().filter_map(|(at, event)| match request(event) {
            Some(Request::ReadCells { reads }) if reads.len() > 2 => Some((at, reads.clone())),
            _ => None,
        });
        let touches: Vec<_> = touches.collect();
        let pair = touches[touches.len() / 2..].windows(2).find(|pair| {
            let [(_, one), (_, other)] = pair else { return false };
            let are_of = |one: &ChunkCells, other: &ChunkCells| one.chunk == other.chunk;
            one.len() == other.len() && are_of(&one[0], &other[0]) && one[0] != other[0]
        });
        let [(_, before), (at, _)] = pair.unwrap() else { panic!() };
        let Request::ReadCells { reads } = of(events, *at) else { panic!() };
        reads[0] = before[0].clone();
    }),
    ("touch-once", |events| {
        // The client's own touch before, in its place: equal addresses are shown.
        repeats(events, |one, other| one == other);
    }),
    ("touch-of-each", |events| repeats(events, |one, other| one != other)),
    ("put-if-absent", |events| {
        let at = find(events, put("claim"));
        let Request::BlobPut { condition, .. } = of(events, at) else { panic!() };
        *condition = Condition::Always;
    }),
    ("object-bytes", |events| {
        let at = find(events, put("index"));
        let Request::BlobPut { bytes, .. } = of(events, at) else { panic!() };
        *bytes += 4;
    }),
    ("object-known", |events| {
        let at = find(events, |r| matches!(r, Request::BlobGet { .. }));
        *of(events, at) = Request::BlobGet { name: "other".into() };
    }),
    ("call-of-site", |events| {
        let at = find(events, |r| matches!(r, Request::BlobGet { .. }));
        *of(events, at) = Request::ListChunks { array: fogbank_store::ArrayId(0) };
    }),
    ("superblock-due", |events| {
        let at = find(events, put("superblock"));
        earlier(events, at, 60);
    }),
    ("marks-due", |events| {
        let at = find(events, put("marks"));
        let Request::BlobPut { name, .. } = of(events, at) else { panic!() };
        let epoch = u64::from_str_radix(&name[6..], 16).unwrap();
        *name = format!("marks/{:016x}", epoch + 2);
    }),
    ("ticks-once", |events| {
        let at = find(events, put("claim/03"));
        again(events, at, |request| {
            let Request::BlobPut { name, .. } = request else { panic!() };
            let fields: Vec<&str> = name.split('/').collect();
            let index = u64::from_str_radix(fields[2], 16).unwrap() + 1;
            *name = format!("claim/{}/{index:016x}/{}/{}", fields[1], fields[3], fields[4]);
        });
    }),
    ("piece-once", |events| {
        let at = find(events, put("claim"));
        again(events, at, |request| {
            let Request::BlobPut { name, .. } = request else { panic!() };
            let (of, version) = name.rsplit_once('/').unwrap();
            let version = u64::from_str_radix(version, 16).unwrap();
            *name = format!("{of}/{:016x}", version + (1 << 30));
        });
    }),
    ("session-once", |events| {
        // Whoever joins second has put the session of the first.
        let puts = events.iter().enumerate().filter_map(|(at, event)| match request(event) {
            Some(Request::BlobPut { name, .. }) if name.starts_with("session") => Some(at),
            _ => None,
        });
        let [first, .., other] = puts.collect::<Vec<_>>()[..] else { panic!() };
        let Request::BlobPut { name, .. } = of(events, first).clone() else { panic!() };
        let Request::BlobPut { name: put, .. } = of(events, other) else { panic!() };
        *put = name;
    }),
    ("piece-writes", |events| {
        // A claim of another client for the same piece, whose versions are the higher ones.
        let sessions = events.iter().filter_map(|event| match request(event) {
            Some(Request::Log(LogCall::Append { session, .. })) => Some(u64::from(*session)),
            _ => None,
        });
        let lowest = sessions.min().unwrap();
        let at = find(events, |r| match r {
            Request::WriteChunks { writes } => writes[0].0.version >> 40 == lowest,
            _ => false,
        });
        let Request::WriteChunks { writes } = of(events, at).clone() else { panic!() };
        let Some(Event::Sent(sent)) = events.get(at).cloned() else { panic!() };
        let is_claim = |event: &&Event| match event {
            Event::Sent(Sent { connection, request: Request::BlobPut { name, .. }, .. }) => {
                let version = name.rsplit('/').next().unwrap();
                let is_of = name.starts_with("claim") && *connection == sent.connection;
                let version = u64::from_str_radix(version, 16).unwrap_or(u64::MAX);
                is_of && version <= writes[0].0.version
            }
            _ => false,
        };
        let Some(Event::Sent(claim)) = events[..at].iter().rev().find(is_claim).cloned() else {
            panic!()
        };
        let Request::BlobPut { name, .. } = &claim.request else { panic!() };
        let (piece, version) = name.rsplit_once('/').unwrap();
        let version = u64::from_str_radix(version, 16).unwrap();
        let session = events.iter().find_map(|event| match event {
            Event::Sent(Sent {
                connection,
                request: Request::Log(LogCall::Append { session, .. }),
                ..
            }) if *connection != sent.connection && u64::from(*session) > version >> 40 => {
                Some((*connection, u64::from(*session)))
            }
            _ => None,
        });
        let (other, session) = session.unwrap();
        let theirs = (session << 40) + (1 << 39);
        let mut put = claim.clone();
        put.connection = other;
        put.id += 1 << 41;
        let Request::BlobPut { name, .. } = &mut put.request else { panic!() };
        *name = format!("{piece}/{theirs:016x}");
        let Request::WriteChunks { writes } = of(events, at) else { panic!() };
        writes.iter_mut().for_each(|(name, _)| name.version = name.version - version + theirs);
        events.insert(at, Event::Sent(put));
    }),
    ("places-without-gap", |events| {
        let at = events.iter().rposition(|event| matches!(event, Event::Heard(_))).unwrap();
        let Event::Heard(heard) = &mut events[at] else { panic!() };
        heard.place = 1 << 31; // room for all before it would be 68 GB
    }),
    ("pace", |events| {
        let at = find(events, put("claim/03"));
        let Some(Event::Sent(sent)) = events.get(at).cloned() else { panic!() };
        let is_own =
            |event: &Event| matches!(event, Event::Sent(of) if of.connection == sent.connection);
        let early = events.iter().position(|event| {
            is_own(event) && matches!(request(event), Some(Request::ReadCells { .. }))
        });
        let event = events.remove(at);
        events.insert(early.unwrap() + 1, event);
    }),
    ("piece-reads", |events| {
        let at = find(events, |r| matches!(r, Request::ReadChunks { .. }));
        again(events, at, |_| {});
    }),
    ("piece-writes", |events| {
        let at = find(events, |r| matches!(r, Request::WriteChunks { .. }));
        again(events, at, |_| {});
    }),
    ("chunk-bytes", |events| {
        let at = find(events, |r| matches!(r, Request::WriteChunks { .. }));
        let Request::WriteChunks { writes } = of(events, at) else { panic!() };
        writes[0].1.bytes -= 1;
    }),
    ("barrier-due", |events| {
        let at = find(events, |r| *r == Request::Barrier);
        for _ in 0..4 {
            again(events, at, |_| {});
            let Event::Sent(sent) = &mut events[at + 1] else { panic!() };
            sent.id += at as u64;
        }
    }),
    ("piece-whole", |events| {
        events.retain(|event| request(event) != Some(&Request::Barrier));
    }),
    ("array-shape", |events| {
        let at = find(events, |r| matches!(r, Request::CreateArray { .. }));
        let Request::CreateArray { shape, .. } = of(events, at) else { panic!() };
        shape.chunks += 1;
    }),
    ("sweep-due", |events| {
        let at = find(events, |r| matches!(r, Request::BlobList { .. }));
        *of(events, at) = Request::BlobList { prefix: "claim/".into() };
    }),
    ("delete-due", |events| {
        let at = find(events, |r| matches!(r, Request::ReadCells { .. }));
        let Some(Request::ReadCells { reads }) = request(&events[at]).cloned() else { panic!() };
        again(events, at, |request| {
            let chunks = vec![reads.last().unwrap().chunk];
            *request = Request::DeleteChunks { chunks };
        });
    }),
    ("carry", |events| {
        // Whoever joins last reads what is no carry.
        let joins = events.iter().rposition(|event| {
            let call = request(event);
            matches!(call, Some(Request::Log(LogCall::Append { turn: 1, .. })))
        });
        let Some(Event::Sent(greets)) = joins.map(|at| events[at].clone()) else { panic!() };
        let is_own =
            |event: &Event| matches!(event, Event::Sent(of) if of.connection == greets.connection);
        let read = events.iter().position(|event| {
            is_own(event) && matches!(request(event), Some(Request::ReadChunks { .. }))
        });
        let touch = find(events, |r| matches!(r, Request::ReadCells { .. }));
        let Some(Request::ReadCells { reads }) = request(&events[touch]).cloned() else { panic!() };
        let other = reads.iter().find(|read| read.chunk.array.0 > 0).unwrap().chunk;
        *of(events, read.unwrap()) = Request::ReadChunks { chunks: vec![other] };
    }),
];

#[tokio::test(start_paused = true)]
async fn every_rule_of_the_specification_can_fail() {
    let world = World::recorded(90);
    worked(&world, 2, 200).await;
    worked(&world, 1, 10).await; // it joins later
    crate::audited::rest().await;
    let (config, events) = shown(&world);
    assert_eq!(broken(&config, &events), None);
    let mut wrong = Vec::new();
    for (rule, spoil) in SPOILT {
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

/// A client claims a piece that has just begun, at a place that it has logged itself; but somebody
/// is there that builds.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_a_piece_of_a_builder_breaks_a_rule() {
    let world = World::recorded(92); // in pieces
    let builder = world.join_to_build(u64::MAX).await.unwrap();
    worked(&world, 1, 300).await;
    builder.close().await.unwrap();
    crate::audited::rest().await;
    let (config, events) = shown(&world);
    assert_eq!(broken(&config, &events), None);
    let [builds, asks] = [0, 1];
    let session = events.iter().find_map(|event| match event {
        Event::Sent(Sent { connection, request: Request::Log(call), .. })
            if *connection == asks =>
        {
            if let LogCall::Append { session, .. } = call {
                Some(u64::from(*session))
            } else {
                None
            }
        }
        _ => None,
    });
    let session = session.unwrap();
    // How much of the log one has heard with an event.
    let heard = |who: u32, event: &Event| match event {
        Event::Heard(heard) if !heard.is_result && heard.id % 2 == u64::from(who) => {
            Some(heard.place)
        }
        _ => None,
    };
    let is_claim = |event: &Event| request(event).is_some_and(put("claim"));
    let claims = (0..2 * events.len() / 3).filter(|at| is_claim(&events[*at]));
    let mut found = BTreeMap::<_, usize>::new();
    for at in claims.step_by(4) {
        let mut event = events[at].clone();
        let Event::Sent(Sent { id, connection, request, .. }) = &mut event else { panic!() };
        let Request::BlobPut { name, .. } = request else { panic!() };
        if *connection != builds {
            continue;
        }
        let (piece, _) = name.rsplit_once('/').unwrap();
        // One that it does anyway is late, or began when the builder had been silent for an epoch.
        let does = |event: &Event| match event {
            Event::Sent(Sent { connection, request: Request::BlobPut { name, .. }, .. }) => {
                *connection == asks && name.starts_with("claim") && name.contains(piece)
            }
            _ => false,
        };
        if events.iter().any(does) {
            continue;
        }
        *name = format!("{piece}/{:016x}", (session << 40) + (1 << 39));
        (*id, *connection) = (*id + (1 << 40), asks);
        // The client claims when it has heard as much as the builder then had.
        let known = events[..at].iter().rev().find_map(|event| heard(builds, event)).unwrap();
        let knows = events.iter().position(|event| heard(asks, event) == Some(known));
        let Some(knows) = knows else { continue };
        let mut spoilt = events.clone();
        spoilt.insert(at.max(knows) + 1, event);
        *found.entry(broken(&config, &spoilt)).or_default() += 1;
    }
    println!("{found:?}");
    assert!(found[&Some("whose".to_owned())] * 2 > found.values().sum(), "{found:?}");
    assert!(found.keys().flatten().all(|rule| rule == "whose"), "{found:?}");
}

/// What a rule leaves free is held by statistics: cells of every chunk that are touched in their
/// order break none, and are no draw.
#[tokio::test(start_paused = true)]
async fn slots_that_are_touched_in_order_do_not_look_drawn() {
    let world = World::recorded(91);
    worked(&world, 2, 300).await;
    crate::audited::rest().await;
    let (config, mut events) = shown(&world);
    assert_eq!(failed(&config, &events), [""; 0]);
    let mut cells: BTreeMap<ChunkName, Vec<u16>> = BTreeMap::new();
    for event in &mut events {
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
    assert_eq!(broken(&config, &events), None);
    let failed = failed(&config, &events);
    assert!(failed.contains(&"slot-ranks".to_owned()), "{failed:?}");
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
