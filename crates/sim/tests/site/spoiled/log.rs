//! Traces in which the log is spoilt.

use fogbank_store::trace::{Event, LogCall, Request, Sent};

use super::{Spoil, again, find, of, request};

pub const SPOILT: &[(&str, Spoil)] = &[
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
    ("places-without-gap", |events| {
        let at = events.iter().rposition(|event| matches!(event, Event::Heard(_))).unwrap();
        let Event::Heard(heard) = &mut events[at] else { panic!() };
        heard.place = 1 << 31; // room for all before it would be 68 GB
    }),
    ("follow-from", |events| {
        // Whoever has followed anew asks for what it has been told: for one result of it, perhaps.
        let follows = |event: &Event| match event {
            Event::Sent(Sent {
                connection,
                request: Request::Log(LogCall::Follow { from }),
                ..
            }) => Some((*connection, *from)),
            _ => None,
        };
        let anew = (0..events.len()).rev().find(|at| {
            let of = |event| follows(event).filter(|(_, from)| *from > 0);
            let before = events[..*at].iter().filter_map(follows);
            of(&events[*at]).is_some_and(|(who, _)| before.into_iter().any(|of| of.0 == who))
        });
        let at = anew.unwrap();
        again(events, at, |request| {
            let Request::Log(LogCall::Follow { from }) = request else { panic!() };
            *from -= 1;
        });
    }),
    ("follow-asked", |events| {
        let at = events.iter().rposition(|event| matches!(event, Event::Heard(_))).unwrap();
        let Event::Heard(heard) = &mut events[at] else { panic!() };
        heard.id += 1 << 40;
    }),
    ("publish-heard", |events| {
        let at = find(events, |r| matches!(r, Request::Log(LogCall::Publish { .. })));
        let Request::Log(LogCall::Publish { place, .. }) = of(events, at) else { panic!() };
        *place += 1_000;
    }),
];
