//! Replies: what a command answers, independent of the protocol version, and its bytes in either.
//!
//! The library encodes every scalar. The one-line headers of aggregates are written here, because
//! the library takes its maps as hash tables (they would lose the order of their entries and
//! need one allocation each), and so are the two texts in which Redis 7.0 differs from it: the
//! null array of RESP2 and the 17 digits of a double.

use super::number::format_double;
use bytes::{Bytes, BytesMut};
use redis_protocol::resp2::{encode as encode2, types::BorrowedFrame as Frame2};
use redis_protocol::resp3::{encode::complete as encode3, types::BorrowedFrame as Frame3};
use std::borrow::Cow;

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
    Error(Cow<'static, str>),
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
    pub fn error(text: impl AsRef<str>) -> Reply {
        Reply::error_with_code("ERR", text)
    }

    /// An error line that starts with `code`. Line ends would break the protocol: they become
    /// blanks, as in Redis.
    pub fn error_with_code(code: &str, text: impl AsRef<str>) -> Reply {
        Reply::Error(Cow::Owned(format!("{code} {}", text.as_ref()).replace(['\r', '\n'], " ")))
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

    /// Appends the bytes of this reply.
    pub fn encode(&self, version: Version, out: &mut BytesMut) {
        match version {
            Version::Resp2 => self.encode2(out),
            Version::Resp3 => self.encode3(out),
        }
    }

    fn encode2(&self, out: &mut BytesMut) {
        match self {
            Reply::Simple(text) => scalar2(Frame2::SimpleString(text.as_bytes()), out),
            Reply::Error(text) => scalar2(Frame2::Error(text), out),
            Reply::Integer(value) => scalar2(Frame2::Integer(*value), out),
            Reply::Bulk(bytes) => scalar2(Frame2::BulkString(bytes), out),
            Reply::Null => scalar2(Frame2::Null, out),
            Reply::NullArray => out.extend_from_slice(b"*-1\r\n"),
            Reply::Double(value) => double2(*value, out),
            Reply::Verbatim(text) => scalar2(Frame2::BulkString(text.as_bytes()), out),
            Reply::Array(items) | Reply::Set(items) => {
                header(b'*', items.len(), out);
                items.iter().for_each(|item| item.encode2(out));
            }
            Reply::Map(pairs) => {
                header(b'*', pairs.len() * 2, out);
                for (key, value) in pairs {
                    key.encode2(out);
                    value.encode2(out);
                }
            }
            Reply::Scored(members) => {
                header(b'*', members.len() * 2, out);
                for (member, score) in members {
                    scalar2(Frame2::BulkString(member), out);
                    double2(*score, out);
                }
            }
        }
    }

    fn encode3(&self, out: &mut BytesMut) {
        let attributes = None;
        match self {
            Reply::Simple(text) => {
                scalar3(Frame3::SimpleString { data: text.as_bytes(), attributes }, out)
            }
            Reply::Error(text) => scalar3(Frame3::SimpleError { data: text, attributes }, out),
            Reply::Integer(value) => scalar3(Frame3::Number { data: *value, attributes }, out),
            Reply::Bulk(data) => scalar3(Frame3::BlobString { data, attributes }, out),
            Reply::Null | Reply::NullArray => scalar3(Frame3::Null, out),
            Reply::Double(value) => double3(*value, out),
            Reply::Verbatim(text) => {
                let format = redis_protocol::resp3::types::VerbatimStringFormat::Text;
                scalar3(Frame3::VerbatimString { data: text.as_bytes(), format, attributes }, out);
            }
            Reply::Array(items) => sequence3(b'*', items, out),
            Reply::Set(items) => sequence3(b'~', items, out),
            Reply::Map(pairs) => {
                header(b'%', pairs.len(), out);
                for (key, value) in pairs {
                    key.encode3(out);
                    value.encode3(out);
                }
            }
            Reply::Scored(members) => {
                header(b'*', members.len(), out);
                for (data, score) in members {
                    header(b'*', 2, out);
                    scalar3(Frame3::BlobString { data, attributes: None }, out);
                    double3(*score, out);
                }
            }
        }
    }
}

fn sequence3(kind: u8, items: &[Reply], out: &mut BytesMut) {
    header(kind, items.len(), out);
    items.iter().for_each(|item| item.encode3(out));
}

fn scalar2(frame: Frame2<'_>, out: &mut BytesMut) {
    // Fails only when the buffer is too short, and the call extends it first.
    let _written = encode2::extend_encode_borrowed(out, &frame, false);
}

fn scalar3(frame: Frame3<'_>, out: &mut BytesMut) {
    let _written = encode3::extend_encode_borrowed(out, &frame, false);
}

fn header(kind: u8, count: usize, out: &mut BytesMut) {
    out.extend_from_slice(&[kind]);
    out.extend_from_slice(count.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn double2(value: f64, out: &mut BytesMut) {
    scalar2(Frame2::BulkString(format_double(value).as_bytes()), out);
}

fn double3(value: f64, out: &mut BytesMut) {
    out.extend_from_slice(b",");
    out.extend_from_slice(format_double(value).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

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
