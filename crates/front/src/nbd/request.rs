//! Requests: what a client asks of the disk, byte by byte, and what may be asked at all.

use super::reply::{Form, Refusal};
use super::span::Span;
use bytes::Buf;

/// Before every request.
const MAGIC: u32 = 0x2560_9513;
/// Bytes of a request before its payload.
pub const BYTES: usize = 28;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

const FLAG_FUA: u16 = 1;
const FLAG_NO_HOLE: u16 = 1 << 1;
const FLAG_DF: u16 = 1 << 2;

/// What stands before a request's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    flags: u16,
    kind: u16,
    /// The client's name for it, which the reply repeats.
    pub cookie: u64,
    span: Span,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Read this.
    Read(Span),
    /// Write this; the bytes follow.
    Write(Span),
    /// Make this zeros: to write zeros and to trim come to the same.
    Zero(Span),
    /// Answer what came before.
    Flush,
    /// Answer what came before, then close.
    Disconnect,
    /// Nothing, for this reason.
    Refuse(Refusal),
}

/// What a client may ask, as it was told in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Bytes of the disk.
    pub size: u64,
    /// Bytes of a read or write.
    pub payload_bytes_max: u32,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Whether anything may be trimmed.
    pub trim: bool,
    /// Whether replies are structured.
    pub structured: bool,
}

impl Request {
    /// From its bytes; `None` if this is no request.
    pub fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let mut bytes = &bytes[..];
        if bytes.get_u32() != MAGIC {
            return None;
        }
        Some(Self {
            flags: bytes.get_u16(),
            kind: bytes.get_u16(),
            cookie: bytes.get_u64(),
            span: Span { offset: bytes.get_u64(), length: bytes.get_u32() },
        })
    }

    /// Bytes that follow, whether they are wanted or not.
    pub fn payload(&self) -> Option<Span> {
        (self.kind == WRITE).then_some(self.span)
    }

    /// The form of its reply. If replies are structured, those to reads are.
    pub fn form(&self, rules: &Rules) -> Form {
        if rules.structured && self.kind == READ {
            Form::Structured { offset: self.span.offset }
        } else {
            Form::Simple
        }
    }

    /// What is to be done.
    pub fn command(&self, rules: &Rules) -> Command {
        let (command, flags) = match self.kind {
            READ => (Command::Read(self.span), if rules.structured { FLAG_DF } else { 0 }),
            WRITE => (Command::Write(self.span), 0),
            WRITE_ZEROES => (Command::Zero(self.span), FLAG_NO_HOLE),
            TRIM if rules.trim => (Command::Zero(self.span), 0),
            FLUSH => (Command::Flush, 0),
            DISCONNECT => return Command::Disconnect,
            _ => return Command::Refuse(Refusal::Invalid),
        };
        if self.flags & !(flags | FLAG_FUA) != 0 {
            return Command::Refuse(Refusal::Invalid);
        }
        self.refusal(rules).map_or(command, Command::Refuse)
    }

    fn refusal(&self, rules: &Rules) -> Option<Refusal> {
        let writes = matches!(self.kind, WRITE | WRITE_ZEROES | TRIM);
        let has_payload = matches!(self.kind, READ | WRITE);
        let beyond = if matches!(self.kind, WRITE | WRITE_ZEROES) {
            Refusal::NoSpace
        } else {
            Refusal::Invalid
        };
        match () {
            () if self.kind == FLUSH => None,
            () if writes && rules.read_only => Some(Refusal::NotPermitted),
            () if has_payload && self.span.length > rules.payload_bytes_max => {
                Some(Refusal::Invalid)
            }
            () if !self.span.is_within(rules.size) => Some(beyond),
            () => None,
        }
    }
}

/// See [`super::fuzz_decode`].
pub fn fuzz_decode(bytes: &[u8]) {
    let (pieces, _) = bytes.as_chunks::<BYTES>();
    for request in pieces.iter().filter_map(Request::decode) {
        for choice in 0..8 {
            let [read_only, trim, structured] = [1, 2, 4].map(|bit| choice & bit != 0);
            let rules =
                Rules { size: 1 << 40, payload_bytes_max: 1 << 25, read_only, trim, structured };
            let (span, writes) = match request.command(&rules) {
                Command::Read(span) => (span, false),
                Command::Write(span) | Command::Zero(span) => (span, true),
                _ => continue,
            };
            assert!(span.offset + u64::from(span.length) <= rules.size);
            assert!(!(writes && read_only));
            let blocks = span.pieces(4096, 32).flat_map(|piece| piece.parts(4096));
            let bytes: u64 = blocks.take(10_000).map(|part| part.bytes.len() as u64).sum();
            assert!(bytes == u64::from(span.length) || span.length > 1 << 25);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;

    const RULES: Rules = Rules {
        size: 1000,
        payload_bytes_max: 500,
        read_only: false,
        trim: false,
        structured: false,
    };

    fn request(kind: u16, flags: u16, offset: u64, length: u32) -> Request {
        let mut bytes = Vec::new();
        bytes.put_u32(MAGIC);
        bytes.put_u16(flags);
        bytes.put_u16(kind);
        bytes.put_u64(7);
        bytes.put_u64(offset);
        bytes.put_u32(length);
        Request::decode(&bytes.try_into().expect("28 bytes")).expect("a request")
    }

    #[test]
    fn a_request_is_known_by_its_magic() {
        assert_eq!(request(READ, 0, 1, 2).cookie, 7);
        assert_eq!(Request::decode(&[0; BYTES]), None);
    }

    #[test]
    fn what_lies_beyond_the_end_is_refused_as_the_protocol_says() {
        let span = Span { offset: 990, length: 10 };
        assert_eq!(request(READ, 0, 990, 10).command(&RULES), Command::Read(span));
        let rules = Rules { trim: true, ..RULES };
        let refused = |kind, offset, length| match request(kind, 0, offset, length).command(&rules)
        {
            Command::Refuse(refusal) => refusal,
            other => panic!("{other:?}"),
        };
        for (offset, length) in [(990, 11), (1001, 0), (u64::MAX, 1), (u64::MAX, 400)] {
            assert_eq!(refused(READ, offset, length), Refusal::Invalid);
            assert_eq!(refused(TRIM, offset, length), Refusal::Invalid);
            assert_eq!(refused(WRITE, offset, length), Refusal::NoSpace);
            assert_eq!(refused(WRITE_ZEROES, offset, length), Refusal::NoSpace);
        }
        assert_eq!(refused(READ, 0, 501), Refusal::Invalid);
        assert_eq!(refused(WRITE, 0, 501), Refusal::Invalid);
        let whole = Span { offset: 0, length: 1000 };
        assert_eq!(request(WRITE_ZEROES, 0, 0, 1000).command(&rules), Command::Zero(whole));
    }

    #[test]
    fn only_what_was_offered_may_be_asked() {
        let refused = Command::Refuse(Refusal::Invalid);
        let span = Span { offset: 0, length: 1 };
        let ask = |kind, flags, rules| request(kind, flags, 0, 1).command(rules);
        assert_eq!(ask(TRIM, 0, &RULES), refused);
        assert_eq!(ask(TRIM, 0, &Rules { trim: true, ..RULES }), Command::Zero(span));
        assert_eq!(ask(READ, FLAG_DF, &RULES), refused);
        let structured = Rules { structured: true, ..RULES };
        assert_eq!(ask(READ, FLAG_DF, &structured), Command::Read(span));
        assert_eq!(ask(WRITE_ZEROES, FLAG_NO_HOLE | FLAG_FUA, &RULES), Command::Zero(span));
        let fast_zero = 1 << 4;
        assert_eq!(ask(WRITE_ZEROES, fast_zero, &RULES), refused);
        assert_eq!(ask(WRITE, FLAG_NO_HOLE, &RULES), refused);
        for unknown in [5, 7, 8, 4711] {
            assert_eq!(ask(unknown, 0, &RULES), refused);
        }
        for kind in [READ, WRITE, FLUSH] {
            assert!(!matches!(ask(kind, FLAG_FUA, &RULES), Command::Refuse(_)));
        }
    }

    #[test]
    fn nothing_is_written_to_a_disk_that_is_only_read() {
        let rules = Rules { read_only: true, trim: true, ..RULES };
        for kind in [WRITE, WRITE_ZEROES, TRIM] {
            let command = request(kind, 0, 0, 1).command(&rules);
            assert_eq!(command, Command::Refuse(Refusal::NotPermitted));
        }
        assert_eq!(request(FLUSH, 0, 0, 0).command(&rules), Command::Flush);
    }
}
