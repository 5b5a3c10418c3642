//! Traces in which touches are spoilt.

use fogbank_store::trace::{ChunkCells, Event, Request, Sent};

use super::{Events, Spoil, again, claimed_by_another, find, of, request, sessions};

pub const SPOILT: &[(&str, Spoil)] = &[
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
    ("touch-of-table", |events| {
        let at = find(events, |r| matches!(r, Request::ReadCells { .. }));
        let dealt = events[..at].iter().rev().find_map(|event| match request(event) {
            Some(Request::WriteChunks { writes }) if writes[0].0.array.0 >= 64 => Some(writes[0].0),
            _ => None,
        });
        let Request::ReadCells { reads } = of(events, at) else { panic!() };
        reads[0].chunk = dealt.unwrap();
    }),
    ("slot-of-table", |events| {
        let at = find(events, |r| matches!(r, Request::ReadCells { .. }));
        let Request::ReadCells { reads } = of(events, at) else { panic!() };
        reads[0].cells = vec![1_000];
    }),
    ("one-version", |events| {
        // Another client has written the newest table, too, and a touch reads that.
        let lowest = sessions(events).into_values().min().unwrap();
        let touches = events.iter().enumerate().filter_map(|(at, event)| match request(event) {
            Some(Request::ReadCells { reads }) => Some((at, reads.first()?.chunk)),
            _ => None,
        });
        let touches: Vec<_> = touches.collect();
        let again = touches[touches.len() / 2..]
            .windows(2)
            .find(|pair| pair[0].1 == pair[1].1 && pair[0].1.version >> 40 == lowest);
        let [_, (at, chunk)] = again.unwrap() else { panic!() };
        let (ours, theirs) = claimed_by_another(events, *at, chunk.version);
        let Request::ReadCells { reads } = of(events, *at + 1) else { panic!() };
        reads[0].chunk.version = chunk.version - ours + theirs;
    }),
];

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
