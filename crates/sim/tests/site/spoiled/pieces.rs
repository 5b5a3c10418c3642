//! Traces in which pieces of builds are spoilt.

use fogbank_store::ArrayId;
use fogbank_store::trace::{Event, LogCall, Request};

use super::{Spoil, again, claimed_by_another, find, of, put, request, sessions};

pub const SPOILT: &[(&str, Spoil)] = &[
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
    ("piece-writes", |events| {
        // A claim of another client for the same piece, whose versions are the higher ones.
        let lowest = sessions(events).into_values().min().unwrap();
        let at = find(events, |r| match r {
            Request::WriteChunks { writes } => writes[0].0.version >> 40 == lowest,
            _ => false,
        });
        let Some(Request::WriteChunks { writes }) = request(&events[at]) else { panic!() };
        let (ours, theirs) = claimed_by_another(events, at, writes[0].0.version);
        let Request::WriteChunks { writes } = of(events, at + 1) else { panic!() };
        writes.iter_mut().for_each(|(name, _)| name.version = name.version - ours + theirs);
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
    ("claim-of-piece", |events| {
        // The last piece of a table only says what the others have written.
        let at = find(events, put("claim/03"));
        let Request::BlobPut { name, .. } = of(events, at).clone() else { panic!() };
        let [table, version] = [&name[..26], &name[35..]];
        let last = events.iter().filter_map(|event| match request(event) {
            Some(Request::BlobPut { name, .. }) if name.starts_with(table) => {
                Some(u32::from_str_radix(&name[26..34], 16).unwrap())
            }
            _ => None,
        });
        let last = last.max().unwrap() + 1;
        let Request::BlobPut { name, .. } = of(events, at) else { panic!() };
        *name = format!("{table}{last:08x}/{version}");
    }),
    ("piece-needs", |events| {
        // Nobody asks what the pieces of others have dealt.
        events.retain(|event| {
            !matches!(request(event), Some(Request::BlobGet { name }) if name.starts_with("piece"))
        });
    }),
    ("read-of-piece", |events| {
        let at = find(events, |r| matches!(r, Request::ReadChunks { .. }));
        again(events, at, |request| *request = Request::ReadChunks { chunks: Vec::new() });
    }),
    ("chunks-in-order", |events| {
        let at = find(events, |r| matches!(r, Request::ReadChunks { chunks } if chunks.len() > 1));
        let Request::ReadChunks { chunks } = of(events, at) else { panic!() };
        chunks.swap(0, 1);
    }),
    ("array-of-level", |events| {
        let at = find(events, |r| matches!(r, Request::CreateArray { .. }));
        let Request::CreateArray { array, .. } = of(events, at) else { panic!() };
        *array = ArrayId(40);
    }),
];
