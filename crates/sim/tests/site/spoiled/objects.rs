//! Traces in which objects are spoilt.

use fogbank_store::trace::{Condition, Event, Outcome, Request};

use super::{Spoil, again, earlier, find, of, put, request};

pub const SPOILT: &[(&str, Spoil)] = &[
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
    ("asked-once", |events| {
        // What a piece has written is asked for again and again, and told each time.
        let told = events.iter().enumerate().rev().find_map(|(at, event)| {
            let Event::Done(done) = event else { return None };
            let sent = events[..at].iter().position(|event| match event {
                Event::Sent(sent) => {
                    let is_told = matches!(done.outcome, Outcome::Blob(Some(_)));
                    let gets = |name: &String| name.starts_with("piece");
                    let is_of = matches!(&sent.request, Request::BlobGet { name } if gets(name));
                    sent.id == done.id && is_told && is_of
                }
                _ => false,
            });
            Some((sent?, at))
        });
        let (sent, done) = told.unwrap();
        for number in 1..5 {
            for at in [done, sent] {
                let mut event = events[at].clone();
                match &mut event {
                    Event::Sent(sent) => sent.id += number << 40,
                    Event::Done(done) => done.id += number << 40,
                    _ => panic!(),
                }
                events.insert(done + 1, event);
            }
        }
    }),
];
