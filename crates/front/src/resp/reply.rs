//! Replies: what a command answers, independent of the protocol version, and its bytes in either.
//!
//! Requests are decoded by a library; replies are written here. Its encoder sizes the buffer from
//! a floating-point logarithm and leaves a stray zero byte behind `99999999999999996`, takes maps
//! as hash tables (losing the order of entries), has no null array for RESP2 and prints doubles in
//! another form than Redis 7.0; see `docs/decisions/`.

use super::number::format_double;
use bytes::{BufMut, Bytes, BytesMut};

/// The version of the protocol that a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// What every connection starts with.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A status line.
    Simple(&'static str),
    /// An error line, code first (`ERR ...`, `WRONGTYPE ...`). Made by [`Reply::error`].
    Error(Bytes),
    /// A whole number.
    Integer(i64),
    /// Bytes.
    Bulk(Bytes),
    /// No value.
    Null,
    /// No array: how `EXEC` says that a watched key changed.
    NullArray,
    /// A score.
    Double(f64),
    /// Replies in order.
    Array(Vec<Reply>),
    /// Pairs; a flat array in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Distinct replies; an array in RESP2.
    Set(Vec<Reply>),
    /// Members with scores: pairs in RESP3, flat in RESP2.
    Scored(Vec<(Bytes, f64)>),
    /// Text for people.
    Verbatim(String),
}

impl Reply {
    /// `+OK`.
    pub const OK: Reply = Reply::Simple("OK");

    /// An error line of the generic kind.
    pub fn error(text: impl AsRef<[u8]>) -> Reply {
        Reply::error_with_code("ERR", text)
    }

    /// An error line that starts with `code`. It may repeat bytes that a client sent, whatever they
    /// are. Line ends would break the protocol: they become blanks, as in Redis.
    pub fn error_with_code(code: &str, text: impl AsRef<[u8]>) -> Reply {
        let mut line = [code.as_bytes(), b" ", text.as_ref()].concat();
        line.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
        Reply::Error(line.into())
    }

    /// A text as bytes.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::Bulk(Bytes::from(text.into()))
    }

    /// A constant text as bytes.
    pub fn word(text: &'static str) -> Reply {
        Reply::Bulk(Bytes::from_static(text.as_bytes()))
    }

    /// 1 or 0.
    pub fn flag(value: bool) -> Reply {
        Reply::Integer(i64::from(value))
    }

    /// A number of things.
    pub fn count(value: usize) -> Reply {
        Reply::Integer(value as i64)
    }

    /// Bytes, or no value.
    pub fn optional(value: Option<Bytes>) -> Reply {
        value.map_or(Reply::Null, Reply::Bulk)
    }

    /// Bytes that it takes here; encoded it is no longer than that by much.
    pub fn bytes(&self) -> usize {
        let of_all = |items: &[Reply]| items.iter().map(Reply::bytes).sum();
        size_of::<Reply>()
            + match self {
                Reply::Error(text) => text.len(),
                Reply::Bulk(bytes) => bytes.len(),
                Reply::Verbatim(text) => text.len(),
                Reply::Array(items) | Reply::Set(items) => of_all(items),
                Reply::Map(pairs) => pairs.iter().map(|(k, v)| k.bytes() + v.bytes()).sum(),
                Reply::Scored(members) => {
                    members.iter().map(|(m, _)| size_of::<(Bytes, f64)>() + m.len()).sum()
                }
                _ => 0,
            }
    }

    /// Appends the bytes of this reply.
    pub fn encode(&self, version: Version, out: &mut BytesMut) {
        let new = version == Version::Resp3;
        match self {
            Reply::Simple(text) => line(b'+', text.as_bytes(), out),
            Reply::Error(text) => line(b'-', text, out),
            Reply::Integer(value) => number(b':', *value, out),
            Reply::Bulk(bytes) => bulk(bytes, out),
            Reply::Null | Reply::NullArray if new => out.extend_from_slice(b"_\r\n"),
            Reply::Null => out.extend_from_slice(b"$-1\r\n"),
            Reply::NullArray => out.extend_from_slice(b"*-1\r\n"),
            Reply::Double(value) => double(*value, version, out),
            Reply::Verbatim(text) if new => {
                number(b'=', text.len() as i64 + 4, out);
                out.extend_from_slice(b"txt:");
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Reply::Verbatim(text) => bulk(text.as_bytes(), out),
            Reply::Array(items) => sequence(b'*', items, version, out),
            Reply::Set(items) => sequence(if new { b'~' } else { b'*' }, items, version, out),
            Reply::Map(pairs) => {
                let len = pairs.len() as i64;
                if new {
                    number(b'%', len, out)
                } else {
                    number(b'*', len * 2, out)
                }
                for (key, value) in pairs {
                    key.encode(version, out);
                    value.encode(version, out);
                }
            }
            Reply::Scored(members) => scored(members, version, out),
        }
    }
}

/// Appends what an array of `len` replies begins with.
pub fn encode_array_header(len: usize, out: &mut BytesMut) {
    number(b'*', len as i64, out);
}

fn sequence(kind: u8, items: &[Reply], version: Version, out: &mut BytesMut) {
    number(kind, items.len() as i64, out);
    items.iter().for_each(|item| item.encode(version, out));
}

fn scored(members: &[(Bytes, f64)], version: Version, out: &mut BytesMut) {
    let nested = version == Version::Resp3;
    let len = members.len() as i64;
    number(b'*', if nested { len } else { len * 2 }, out);
    for (member, score) in members {
        if nested {
            number(b'*', 2, out);
        }
        bulk(member, out);
        double(*score, version, out);
    }
}

fn line(kind: u8, text: &[u8], out: &mut BytesMut) {
    out.reserve(text.len() + 3);
    out.put_u8(kind);
    out.put_slice(text);
    out.put_slice(b"\r\n");
}

fn bulk(bytes: &[u8], out: &mut BytesMut) {
    number(b'$', bytes.len() as i64, out);
    out.reserve(bytes.len() + 2);
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

/// A line that is a number: a length, a count or an integer.
fn number(kind: u8, value: i64, out: &mut BytesMut) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    let mut rest = value.unsigned_abs();
    while rest > 0 || first == digits.len() {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.reserve(23);
    out.put_u8(kind);
    if value < 0 {
        out.put_u8(b'-');
    }
    out.put_slice(&digits[first..]);
    out.put_slice(b"\r\n");
}

fn double(value: f64, version: Version, out: &mut BytesMut) {
    let text = format_double(value);
    match version {
        Version::Resp2 => bulk(text.as_bytes(), out),
        Version::Resp3 => line(b',', text.as_bytes(), out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_repeats_what_is_no_text() {
        let mut out = BytesMut::new();
        Reply::error(b"no \xff\xfe\n").encode(Version::Resp2, &mut out);
        assert_eq!(&out[..], b"-ERR no \xff\xfe \r\n");
    }

    fn bytes(reply: &Reply, version: Version) -> String {
        let mut out = BytesMut::new();
        reply.encode(version, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn both_versions() {
        let scored = Reply::Scored(vec![(Bytes::from_static(b"a"), 0.5)]);
        let map = Reply::Map(vec![(Reply::word("k"), Reply::Integer(1))]);
        for (reply, resp2, resp3) in [
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (Reply::error("a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (Reply::Integer(-7), ":-7\r\n", ":-7\r\n"),
            (Reply::Integer(0), ":0\r\n", ":0\r\n"),
            (Reply::Integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (Reply::Integer(99999999999999996), ":99999999999999996\r\n", ":99999999999999996\r\n"),
            (Reply::word(""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (Reply::Null, "$-1\r\n", "_\r\n"),
            (Reply::NullArray, "*-1\r\n", "_\r\n"),
            (Reply::Double(0.1), "$19\r\n0.10000000000000001\r\n", ",0.10000000000000001\r\n"),
            (scored, "*2\r\n$1\r\na\r\n$3\r\n0.5\r\n", "*1\r\n*2\r\n$1\r\na\r\n,0.5\r\n"),
            (map, "*2\r\n$1\r\nk\r\n:1\r\n", "%1\r\n$1\r\nk\r\n:1\r\n"),
            (Reply::Verbatim("x".into()), "$1\r\nx\r\n", "=5\r\ntxt:x\r\n"),
        ] {
            assert_eq!(bytes(&reply, Version::Resp2), resp2);
            assert_eq!(bytes(&reply, Version::Resp3), resp3);
        }
    }
}
