//! Replies, simple and structured, byte by byte.
//!
//! With structured replies on, those to reads are: one chunk with all the bytes, or one with the
//! error. There is never a second, so every read is answered unfragmented whether it asks for that
//! or not. The rest are simple, as the protocol allows.

use bytes::{BufMut, Bytes, BytesMut};

const SIMPLE_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_MAGIC: u32 = 0x668e_33ef;
/// No chunk follows.
const DONE: u16 = 1;

const CHUNK_NONE: u16 = 0;
const CHUNK_DATA: u16 = 1;
const CHUNK_ERROR: u16 = 1 << 15 | 1;

/// Why a request was not carried out. The numbers are the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The disk is only read.
    NotPermitted = 1,
    /// The engine has stopped.
    Stopped = 5,
    /// It makes no sense, or was not offered.
    Invalid = 22,
    /// It lies beyond the end of the disk.
    NoSpace = 28,
    /// The server stops.
    ShuttingDown = 108,
}

/// In which form the reply to a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A header, and the bytes if any.
    Simple,
    /// A chunk, for a read at this offset.
    Structured {
        /// Where it began.
        offset: u64,
    },
}

/// Appends what stands before `length` bytes of the disk.
pub fn encode_success(form: Form, cookie: u64, length: u32, out: &mut BytesMut) {
    match form {
        Form::Simple => simple(0, cookie, out),
        // A chunk of data holds at least one byte.
        Form::Structured { .. } if length == 0 => chunk(CHUNK_NONE, cookie, 0, out),
        Form::Structured { offset } => {
            chunk(CHUNK_DATA, cookie, length.saturating_add(8), out);
            out.put_u64(offset);
        }
    }
}

/// Appends the reply to a request that was not carried out.
pub fn encode_refusal(form: Form, cookie: u64, refusal: Refusal, out: &mut BytesMut) {
    match form {
        Form::Simple => simple(refusal as u32, cookie, out),
        Form::Structured { .. } => {
            chunk(CHUNK_ERROR, cookie, 6, out);
            out.put_u32(refusal as u32);
            out.put_u16(0); // no words
        }
    }
}

fn simple(error: u32, cookie: u64, out: &mut BytesMut) {
    out.put_u32(SIMPLE_MAGIC);
    out.put_u32(error);
    out.put_u64(cookie);
}

fn chunk(kind: u16, cookie: u64, length: u32, out: &mut BytesMut) {
    out.put_u32(STRUCTURED_MAGIC);
    out.put_u16(DONE);
    out.put_u16(kind);
    out.put_u64(cookie);
    out.put_u32(length);
}

/// What a request came to: the bytes of a read, in pieces, and nothing of any other.
pub type Outcome = Result<Vec<Bytes>, Refusal>;

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIE: u64 = 0x0102_0304_0506_0708;

    fn success(form: Form, length: u32) -> BytesMut {
        let mut out = BytesMut::new();
        encode_success(form, COOKIE, length, &mut out);
        out
    }

    #[test]
    fn simple_replies_have_the_bytes_of_the_protocol() {
        let expected = b"\x67\x44\x66\x98\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08";
        assert_eq!(success(Form::Simple, 10), &expected[..]);
        let mut out = BytesMut::new();
        encode_refusal(Form::Simple, COOKIE, Refusal::NoSpace, &mut out);
        assert_eq!(out, &b"\x67\x44\x66\x98\0\0\0\x1c\x01\x02\x03\x04\x05\x06\x07\x08"[..]);
    }

    #[test]
    fn structured_replies_have_the_bytes_of_the_protocol() {
        let form = Form::Structured { offset: 0x99 };
        let head = |kind: &[u8], length: u8| {
            let magic = b"\x66\x8e\x33\xef\0\x01";
            [magic, kind, &COOKIE.to_be_bytes(), &[0, 0, 0, length]].concat()
        };
        let data = [&head(b"\0\x01", 18)[..], b"\0\0\0\0\0\0\0\x99"].concat();
        assert_eq!(success(form, 10), &data[..]);
        assert_eq!(success(form, 0), &head(b"\0\0", 0)[..]);
        let mut out = BytesMut::new();
        encode_refusal(form, COOKIE, Refusal::Stopped, &mut out);
        assert_eq!(out, &[&head(b"\x80\x01", 6)[..], b"\0\0\0\x05\0\0"].concat()[..]);
    }
}
