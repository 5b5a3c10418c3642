//! Requests: from the bytes of a connection to commands with arguments.
//!
//! The library decodes. What it does not do is done here, before it is called: it has no limits,
//! recurses as deep as the input nests, and starts again from the front when a request is not
//! complete. So a scan goes along the headers once, remembers how far it came, refuses in Redis's
//! words what is malformed or beyond a limit, and hands the library only complete, flat, bounded
//! requests. Inline commands (typed by hand) are split here too; the library knows none.
//!
//! Invariants: nothing is allocated by a count or length that the input merely claims; a byte is
//! scanned a bounded number of times; after an error the decoder is not used again.

use super::limits::{Limits, UNAUTHENTICATED_ARGUMENTS_MAX, UNAUTHENTICATED_BYTES_MAX};
use super::number::parse_integer;
use bytes::{Buf, Bytes, BytesMut};
use redis_protocol::resp2::{decode::decode_range, types::RangeFrame};

/// Malformed input: its text goes to the client as `-ERR Protocol error: ...`, then the
/// connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Protocol error: {0}")]
pub struct ProtocolError(String);

fn malformed<T>(text: impl Into<String>) -> Result<T, ProtocolError> {
    Err(ProtocolError(text.into()))
}

/// One command as sent: its name and arguments, views into one shared buffer.
#[derive(Debug, Clone)]
pub struct Request {
    frame: Bytes,
    arguments: Vec<RangeFrame>,
}

impl Request {
    /// Number of arguments, the name included; at least one.
    #[allow(clippy::len_without_is_empty)] // never empty: a request has a name
    pub fn len(&self) -> usize {
        self.arguments.len()
    }

    /// Bytes of the whole request.
    pub fn bytes(&self) -> usize {
        self.frame.len()
    }

    /// Argument `index`, 0 being the name; empty if there is none.
    pub fn get(&self, index: usize) -> &[u8] {
        self.frame.get(self.range(index)).unwrap_or_default()
    }

    /// Argument `index` as a shared view.
    pub fn bytes_of(&self, index: usize) -> Bytes {
        self.frame.slice(self.range(index))
    }

    /// Argument `index` as Redis repeats it in an error, where it prints C strings: up to a zero
    /// byte, and `bytes_max` of it at most.
    pub fn shown(&self, index: usize, bytes_max: usize) -> &[u8] {
        let text = self.get(index).split(|byte| *byte == 0).next().unwrap_or_default();
        &text[..text.len().min(bytes_max)]
    }

    /// Whether argument `index` is `word`, whatever its case.
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// The arguments from `first` on.
    pub fn from(&self, first: usize) -> impl Iterator<Item = &[u8]> + Clone {
        (first..self.len()).map(|index| self.get(index))
    }

    fn range(&self, index: usize) -> std::ops::Range<usize> {
        match self.arguments.get(index) {
            Some(RangeFrame::BulkString((start, end))) => *start..*end,
            _ => 0..0,
        }
    }

    fn from_words(words: &[Vec<u8>]) -> Self {
        let mut end = 0;
        let arguments = words
            .iter()
            .map(|word| {
                let start = end;
                end += word.len();
                RangeFrame::BulkString((start, end))
            })
            .collect();
        Self { frame: Bytes::from(words.concat()), arguments }
    }
}

/// How far the scan of the request at the front of the buffer has come.
#[derive(Debug, Clone, Copy)]
struct Progress {
    /// Bytes found well-formed.
    scanned: usize,
    /// Arguments still to come.
    remaining: usize,
}

/// Takes requests off the front of a connection's input.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    progress: Option<Progress>,
    /// Bytes of the current line, from its start, that hold no line end.
    searched: usize,
}

impl Decoder {
    /// A decoder for a fresh connection.
    pub fn new(limits: Limits) -> Self {
        Self { limits, progress: None, searched: 0 }
    }

    /// The next complete request, or `None` until more input has arrived.
    pub fn next(
        &mut self,
        input: &mut BytesMut,
        authenticated: bool,
    ) -> Result<Option<Request>, ProtocolError> {
        loop {
            if self.progress.is_none() {
                match input.first() {
                    None => return Ok(None),
                    Some(b'*') => {}
                    Some(_) => match self.inline(input)? {
                        Inline::Incomplete => return Ok(None),
                        Inline::Empty => continue,
                        Inline::Request(request) => return Ok(Some(request)),
                    },
                }
            }
            match self.scan(input, authenticated)? {
                Scan::Incomplete => return Ok(None),
                Scan::Empty => continue,
                Scan::Complete(len) => return decode(input.split_to(len).freeze()).map(Some),
            }
        }
    }

    fn scan(&mut self, input: &mut BytesMut, authenticated: bool) -> Result<Scan, ProtocolError> {
        let mut progress = match self.progress {
            Some(progress) => progress,
            None => match self.count(input, authenticated)? {
                Count::Incomplete => return Ok(Scan::Incomplete),
                Count::None(len) => {
                    input.advance(len);
                    return Ok(Scan::Empty);
                }
                Count::Some(progress) => progress,
            },
        };
        while progress.remaining > 0 {
            match self.argument(input, progress.scanned, authenticated)? {
                Some(end) if end > self.limits.request_bytes_max => {
                    return malformed("too big request");
                }
                Some(end) if end <= input.len() => {
                    progress = Progress { scanned: end, remaining: progress.remaining - 1 };
                }
                Some(_) | None => {
                    self.progress = Some(progress);
                    return Ok(Scan::Incomplete);
                }
            }
        }
        self.progress = None;
        Ok(Scan::Complete(progress.scanned))
    }

    /// The header `*<count>`.
    fn count(&mut self, input: &[u8], authenticated: bool) -> Result<Count, ProtocolError> {
        let Some((text, len)) = self.line(input, 0, "too big mbulk count string")? else {
            return Ok(Count::Incomplete);
        };
        let limit = i64::try_from(self.limits.arguments_max).unwrap_or(i64::MAX);
        let count = match parse_integer(&text[1..]) {
            Some(count) if count <= limit => count,
            _ => return malformed("invalid multibulk length"),
        };
        if count > UNAUTHENTICATED_ARGUMENTS_MAX as i64 && !authenticated {
            return malformed("unauthenticated multibulk length");
        }
        if count <= 0 {
            return Ok(Count::None(len));
        }
        Ok(Count::Some(Progress { scanned: len, remaining: count as usize }))
    }

    /// Where the argument that starts at `at` ends, once its header `$<length>` is there.
    fn argument(
        &mut self,
        input: &[u8],
        at: usize,
        authenticated: bool,
    ) -> Result<Option<usize>, ProtocolError> {
        let Some((text, next)) = self.line(input, at, "too big bulk count string")? else {
            return Ok(None);
        };
        if text.first() != Some(&b'$') {
            let found = char::from(text.first().copied().unwrap_or(b'\r'));
            return malformed(format!("expected '$', got '{found}'"));
        }
        let limit = i64::try_from(self.limits.argument_bytes_max).unwrap_or(i64::MAX);
        let len = match parse_integer(&text[1..]) {
            Some(len) if (0..=limit).contains(&len) => len as usize,
            _ => return malformed("invalid bulk length"),
        };
        if len > UNAUTHENTICATED_BYTES_MAX && !authenticated {
            return malformed("unauthenticated bulk length");
        }
        Ok(Some(next + len + 2))
    }

    /// The line that starts at `at`, without its end, and where the next one starts.
    fn line<'a>(
        &mut self,
        input: &'a [u8],
        at: usize,
        too_long: &str,
    ) -> Result<Option<(&'a [u8], usize)>, ProtocolError> {
        let rest = &input[at.min(input.len())..];
        match self.find(rest, b'\r') {
            None if rest.len() > self.limits.inline_bytes_max => malformed(too_long),
            None => Ok(None),
            Some(end) => match rest.get(end + 1) {
                None => Ok(None),
                Some(b'\n') => Ok(Some((&rest[..end], at + end + 2))),
                // Redis skips whatever follows the carriage return; nobody means that.
                Some(_) => malformed("expected a line end"),
            },
        }
    }

    /// Where `end` is in the line, within the limit; what was searched once is not again.
    fn find(&mut self, line: &[u8], end: u8) -> Option<usize> {
        let limit = line.len().min(self.limits.inline_bytes_max + 1);
        let from = self.searched.min(limit);
        match line[from..limit].iter().position(|b| *b == end) {
            Some(at) => {
                self.searched = 0;
                Some(from + at)
            }
            None => {
                self.searched = limit;
                None
            }
        }
    }

    fn inline(&mut self, input: &mut BytesMut) -> Result<Inline, ProtocolError> {
        let limit = self.limits.inline_bytes_max;
        let Some(end) = self.find(input, b'\n') else {
            return if input.len() > limit {
                malformed("too big inline request")
            } else {
                Ok(Inline::Incomplete)
            };
        };
        let line = input.split_to(end + 1);
        let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
        match split_words(line) {
            None => malformed("unbalanced quotes in request"),
            Some(words) if words.is_empty() => Ok(Inline::Empty),
            Some(words) => Ok(Inline::Request(Request::from_words(&words))),
        }
    }
}

enum Scan {
    Incomplete,
    Empty,
    Complete(usize),
}

enum Count {
    Incomplete,
    /// No command, in so many bytes: skipped.
    None(usize),
    Some(Progress),
}

enum Inline {
    Incomplete,
    Empty,
    Request(Request),
}

fn decode(frame: Bytes) -> Result<Request, ProtocolError> {
    match decode_range(&frame) {
        Ok(Some((RangeFrame::Array(arguments), len))) if len == frame.len() => {
            Ok(Request { frame, arguments })
        }
        _ => malformed("invalid request"),
    }
}

/// The words of an inline command: blanks separate, quotes join, `\x41` and `\n` in double ones.
/// `None` if a quote does not end or a word follows it immediately.
fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    // Redis works on a C string here: a zero byte ends the line.
    let mut rest = line.split(|b| *b == 0).next().unwrap_or_default();
    let mut words = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let (word, after) = take_word(rest)?;
        words.push(word);
        rest = after;
    }
}

fn take_word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Some((word, rest)),
            [b'"', tail @ ..] => return take_quoted(word, tail, true),
            [b'\'', tail @ ..] => return take_quoted(word, tail, false),
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

fn take_quoted(mut word: Vec<u8>, mut rest: &[u8], double: bool) -> Option<(Vec<u8>, &[u8])> {
    let quote = if double { b'"' } else { b'\'' };
    loop {
        rest = match rest {
            [] => return None,
            [b'\\', b'x', high, low, tail @ ..]
                if double && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(*high) * 16 + digit(*low));
                tail
            }
            [b'\\', escaped, tail @ ..] if double => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                tail
            }
            [b'\\', b'\'', tail @ ..] if !double => {
                word.push(b'\'');
                tail
            }
            [byte, tail @ ..] if *byte == quote => {
                let ends = tail.first().is_none_or(|b| b.is_ascii_whitespace() || *b == 11);
                return ends.then_some((word, tail));
            }
            [byte, tail @ ..] => {
                word.push(*byte);
                tail
            }
        };
    }
}

/// Feeds `data` to the request parser in pieces and whole, and checks that both see the same.
/// The entry point for fuzzing; panics are findings.
pub fn fuzz_parse(data: &[u8]) {
    let limits = Limits { arguments_max: 1024, argument_bytes_max: 1 << 20, ..Limits::default() };
    let whole = parse_in_pieces(data, data.len().max(1), &limits);
    let pieces = parse_in_pieces(data, 1 + data.len() / 7, &limits);
    assert_eq!(whole, pieces, "requests depend on how the input was cut");
}

type Parsed = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fn parse_in_pieces(data: &[u8], piece: usize, limits: &Limits) -> Parsed {
    let mut decoder = Decoder::new(limits.clone());
    let mut input = BytesMut::new();
    let mut requests = Vec::new();
    for chunk in data.chunks(piece) {
        input.extend_from_slice(chunk);
        loop {
            match decoder.next(&mut input, true) {
                Ok(None) => break,
                Ok(Some(request)) => requests.push(request.from(0).map(<[u8]>::to_vec).collect()),
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(data: &[u8]) -> (Vec<String>, Option<String>) {
        let whole = parse_in_pieces(data, data.len().max(1), &Limits::default());
        assert_eq!(whole, parse_in_pieces(data, 1, &Limits::default()), "cut into single bytes");
        let text = |words: Vec<Vec<u8>>| {
            words.iter().map(|w| w.escape_ascii().to_string()).collect::<Vec<_>>().join("|")
        };
        (whole.0.into_iter().map(text).collect(), whole.1.map(|e| e.to_string()))
    }

    fn error(data: &[u8]) -> String {
        parse(data).1.expect("an error")
    }

    #[test]
    fn arrays_and_inline_commands() {
        let (requests, error) = parse(
            b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n\r\nPING\r\n*0\r\n*-1\r\nset k \"a\\x41\\n\" 'b\\'c'\n*1\r\n$0\r\n\r\n",
        );
        assert_eq!(requests, ["GET|k", "PING", "set|k|aA\\n|b\\'c", ""]);
        assert_eq!(error, None);
    }

    #[test]
    fn malformed_input_is_named_as_redis_names_it() {
        for (data, text) in [
            (&b"*x\r\n"[..], "invalid multibulk length"),
            (b"*99999999999\r\n", "invalid multibulk length"),
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*1\r\n:1\r\n", "expected '$', got ':'"),
            (b"*1\r\n*1\r\n*1\r\n", "expected '$', got '*'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$x\r\n", "invalid bulk length"),
            (b"*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "invalid bulk length"),
            (b"get \"k\r\n", "unbalanced quotes in request"),
            (b"get \"k\"x\r\n", "unbalanced quotes in request"),
        ] {
            assert_eq!(error(data), format!("Protocol error: {text}"), "{data:?}");
        }
    }

    #[test]
    fn headers_and_lines_have_a_length_limit() {
        let long = vec![b'1'; 70_000];
        assert!(error(&[b"*", &long[..]].concat()).contains("too big mbulk count string"));
        assert!(error(&[b"*1\r\n$", &long[..]].concat()).contains("too big bulk count string"));
        assert!(error(&long).contains("too big inline request"));
    }

    #[test]
    fn a_claimed_size_allocates_nothing() {
        let mut decoder = Decoder::new(Limits::default());
        let mut input = BytesMut::from(&b"*1048576\r\n$536870912\r\nabc"[..]);
        assert!(decoder.next(&mut input, true).expect("well-formed so far").is_none());
        assert!(input.capacity() < 1024);
    }

    #[test]
    fn without_the_password_requests_are_small() {
        let next = |data: &[u8]| {
            Decoder::new(Limits::default())
                .next(&mut BytesMut::from(data), false)
                .expect_err("too much")
                .to_string()
        };
        assert_eq!(next(b"*11\r\n"), "Protocol error: unauthenticated multibulk length");
        assert_eq!(next(b"*1\r\n$16385\r\n"), "Protocol error: unauthenticated bulk length");
    }

    #[test]
    fn the_size_of_a_whole_request_is_limited() {
        let limits = Limits { request_bytes_max: 64, ..Limits::default() };
        let data = b"*2\r\n$40\r\n0123456789012345678901234567890123456789\r\n$40\r\n";
        let (_, error) = parse_in_pieces(data, 1, &limits);
        assert_eq!(error.expect("an error").to_string(), "Protocol error: too big request");
    }
}
