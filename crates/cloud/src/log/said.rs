//! What is said of a log: requests and events as bytes (docs/format.md draws them).
//!
//! A request is as one of the store: an operation, the length of what follows, and that. It has one
//! meaning: a byte left over or missing makes it none.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use fogbank_store::{LOG_BYTES_MAX, LogEntry, LogEvent};

use crate::frames::Frames;

/// Where calls are made.
pub const PATH: &str = "/fogbank.cloud.v1.Log/Call";
/// Bytes of a request's body, at most.
pub const BODY_BYTES_MAX: u64 = 4 + 8 + LOG_BYTES_MAX as u64;
/// Bytes of an event before those that its length counts: what it is, the length, the place.
pub const EVENT_HEAD_BYTES: usize = 1 + 4 + 8;
/// The first message of an answer to one who listens.
pub const LISTENING: &[u8] = &[1];

const APPEND: u8 = 0;
const PUBLISH: u8 = 1;
const FORGET: u8 = 2;
const FOLLOW: u8 = 3;
const ENTRY: u8 = 1;
const RESULT: u8 = 2;

/// A call of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// See `fogbank_store::Log`; so the others.
    Append(LogEntry),
    /// A place and its result.
    Publish(u64, Bytes),
    /// The first place that is still wanted.
    Forget(u64),
    /// The first place of which to tell.
    Follow(u64),
}

impl Request {
    /// As pieces.
    pub fn encode(self) -> Vec<Bytes> {
        let (mut head, bytes) = (BytesMut::with_capacity(24), BytesMut::new());
        let begin = |code: u8, head: &mut BytesMut, length: usize| {
            head.put_u8(code);
            head.put_u64_le(length as u64);
        };
        let mut data = bytes.freeze();
        match self {
            Self::Append(entry) => {
                begin(APPEND, &mut head, 12 + entry.bytes.len());
                head.put_u32_le(entry.session);
                head.put_u64_le(entry.turn);
                data = entry.bytes;
            }
            Self::Publish(place, bytes) => {
                begin(PUBLISH, &mut head, 8 + bytes.len());
                head.put_u64_le(place);
                data = bytes;
            }
            Self::Forget(before) => {
                begin(FORGET, &mut head, 8);
                head.put_u64_le(before);
            }
            Self::Follow(from) => {
                begin(FOLLOW, &mut head, 8);
                head.put_u64_le(from);
            }
        }
        [head.freeze(), data].into_iter().filter(|piece| !piece.is_empty()).collect()
    }

    /// From an operation and a body; `None` if it is no request.
    pub fn decode(code: u8, mut body: Bytes) -> Option<Self> {
        match code {
            APPEND => {
                let (session, turn) = (body.try_get_u32_le().ok()?, body.try_get_u64_le().ok()?);
                Some(Self::Append(LogEntry { session, turn, bytes: body }))
            }
            PUBLISH => Some(Self::Publish(body.try_get_u64_le().ok()?, body)),
            FORGET | FOLLOW => {
                let place = body.try_get_u64_le().ok()?;
                let request =
                    if code == FORGET { Self::Forget(place) } else { Self::Follow(place) };
                body.is_empty().then_some(request)
            }
            _ => None,
        }
    }
}

/// An event as a frame.
pub fn put_event(frames: &mut Vec<u8>, event: &LogEvent) {
    let (what, place, bytes) = match event {
        LogEvent::Entry(place, bytes) => (ENTRY, place, bytes),
        LogEvent::Result(place, bytes) => (RESULT, place, bytes),
    };
    frames.put_u8(what);
    frames.put_u32(bytes.len() as u32); // at most `LOG_BYTES_MAX`
    frames.put_u64_le(*place);
    frames.put_slice(bytes);
}

/// Events as they come, from a place on, each held against those before.
#[derive(Debug)]
pub struct Coming {
    frames: Frames,
    from: u64,
    next: u64,
}

/// What came is not the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoEvent;

impl Coming {
    /// Of places from `from` on.
    pub fn new(from: u64) -> Self {
        let frames = Frames::new(EVENT_HEAD_BYTES, EVENT_HEAD_BYTES + LOG_BYTES_MAX);
        Self { frames, from, next: from }
    }

    /// More has come.
    pub fn push(&mut self, piece: Bytes) {
        self.frames.push(piece);
    }

    /// The next event, if it is whole.
    ///
    /// # Errors
    /// [`NoEvent`] if it cannot come now, or never.
    pub fn next(&mut self) -> Result<Option<LogEvent>, NoEvent> {
        let Some(frame) = self.frames.next().map_err(|_| NoEvent)? else { return Ok(None) };
        let event = event(frame).ok_or(NoEvent)?;
        match &event {
            LogEvent::Entry(at, _) if *at == self.next => {
                self.next = self.next.checked_add(1).ok_or(NoEvent)?;
            }
            LogEvent::Result(at, _) if (self.from..self.next).contains(at) => {}
            _ => return Err(NoEvent),
        }
        Ok(Some(event))
    }
}

fn event(mut frame: Bytes) -> Option<LogEvent> {
    let (what, _length) = (frame.try_get_u8().ok()?, frame.try_get_u32().ok()?);
    let place = frame.try_get_u64_le().ok()?;
    match what {
        ENTRY => Some(LogEvent::Entry(place, frame)),
        RESULT => Some(LogEvent::Result(place, frame)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::HEAD_BYTES;

    #[test]
    fn requests_come_back_whole_and_not_in_part() {
        let entry = LogEntry { session: 1 << 31, turn: 1 << 60, bytes: "what".into() };
        for request in [
            Request::Append(entry.clone()),
            Request::Append(LogEntry { bytes: Bytes::new(), ..entry }),
            Request::Publish(7, "result".into()),
            Request::Forget(u64::MAX),
            Request::Follow(1 << 40),
        ] {
            let said = Bytes::from(request.clone().encode().concat());
            let (code, length) = crate::wire::head(&said[..]).unwrap();
            let body = said.slice(HEAD_BYTES..);
            assert_eq!(length, body.len() as u64);
            assert_eq!(Request::decode(code, body.clone()), Some(request.clone()));
            let fixed = if code == APPEND { 12 } else { 8 };
            for cut in 0..fixed {
                assert_eq!(Request::decode(code, body.slice(..cut)), None, "{request:?}");
            }
            let longer = Bytes::from([&body[..], &[0]].concat());
            let other = Request::decode(code, longer);
            assert_ne!(other, Some(request));
            assert_eq!(other.is_none(), code >= FORGET);
        }
        assert_eq!(Request::decode(4, vec![0; 8].into()), None);
    }

    #[test]
    fn events_come_back_as_frames() {
        let first = 1 << 50;
        let events = [
            LogEvent::Entry(first, "entry".into()),
            LogEvent::Result(first, Bytes::new()),
            LogEvent::Entry(first + 1, vec![7; LOG_BYTES_MAX].into()),
        ];
        assert_eq!(come(first, &row(&events)).unwrap(), events);
    }

    #[test]
    fn events_that_cannot_be_are_none() {
        let entry = |at| LogEvent::Entry(at, "entry".into());
        let result = |at| LogEvent::Result(at, "result".into());
        let lies: [&[LogEvent]; 6] = [
            &[entry(8)],
            &[entry(6)],
            &[entry(7), entry(7)],
            &[entry(7), entry(9)],
            &[result(7)],
            &[entry(7), result(6)],
        ];
        for lie in lies {
            assert_eq!(come(7, &row(lie)), Err(NoEvent), "{lie:?}");
        }
        let mut longer = row(&[LogEvent::Entry(7, vec![0; LOG_BYTES_MAX + 1].into())]);
        assert_eq!(come(7, &longer), Err(NoEvent), "too long");
        longer.truncate(EVENT_HEAD_BYTES);
        assert_eq!(come(7, &longer), Err(NoEvent), "before it is there");
        assert_eq!(come(7, &[3; 100]), Err(NoEvent));
        assert_eq!(come(7, &[3, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]), Err(NoEvent));
        assert_eq!(come(u64::MAX, &row(&[entry(u64::MAX)])), Err(NoEvent));
    }

    fn row(events: &[LogEvent]) -> Vec<u8> {
        let mut row = Vec::new();
        events.iter().for_each(|event| put_event(&mut row, event));
        row
    }

    fn come(from: u64, row: &[u8]) -> Result<Vec<LogEvent>, NoEvent> {
        let (mut coming, mut come) = (Coming::new(from), Vec::new());
        for piece in row.chunks(1000) {
            coming.push(Bytes::copy_from_slice(piece));
            while let Some(event) = coming.next()? {
                come.push(event);
            }
        }
        Ok(come)
    }
}
