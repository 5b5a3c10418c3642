//! What is said between a proxy and a server: frames, one request and one reply at a time.
//!
//! ```text
//! frame     4 length (of the rest, at most 512) | 1 kind | body
//! hello     1 | 8 magic "fogpeer1" | 32 token
//! read      2 | 32 name | 16 promise
//! write     3 | 32 name | 24 stamp | value (at most 256 bytes)
//! welcome   1
//! held      2 | 16 promised | 24 stamp | value
//! refused   4 | why, in words
//! ```
//! A promise is a ballot (8 round, 8 nonce), a stamp a ballot and 8 number. A frame that is none of
//! these ends the connection. No more memory is used than for one longest frame.

use std::io::{self, ErrorKind};

use bytes::{Buf, BufMut, Bytes};
use fogbank_held::{Ballot, Held, Stamp};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::Token;

/// Under which a store's register is held.
pub type Name = [u8; 32];

/// Bytes of a frame after its length, at most.
pub const FRAME_BYTES_MAX: usize = 512;
/// Bytes of a value, at most.
pub const VALUE_BYTES_MAX: usize = 256;
const MAGIC: &[u8; 8] = b"fogpeer1";
const WHY_BYTES_MAX: usize = 300;

/// What a proxy asks.
#[derive(Debug)]
pub enum Request {
    /// Who it is.
    Hello(Token),
    /// What is held, after a promise.
    Read(Name, Ballot),
    /// To hold this.
    Write(Name, Stamp, Bytes),
}

/// What a server answers.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// The token is right.
    Welcome,
    /// What is held now.
    Held(Held),
    /// Nothing was done.
    Refused(String),
}

impl Request {
    /// As a frame.
    pub fn frame(&self) -> Vec<u8> {
        let mut w = Vec::new();
        match self {
            Self::Hello(token) => {
                w.put_u8(1);
                w.put_slice(MAGIC);
                w.put_slice(token.bytes());
            }
            Self::Read(name, promise) => {
                w.put_u8(2);
                w.put_slice(name);
                put_ballot(&mut w, *promise);
            }
            Self::Write(name, at, value) => {
                w.put_u8(3);
                w.put_slice(name);
                put_stamp(&mut w, *at);
                w.put_slice(value);
            }
        }
        framed(&w)
    }

    /// From what stands in a frame; `None` if it is no request.
    pub fn decode(frame: &[u8]) -> Option<Self> {
        let (kind, body) = frame.split_first()?;
        let mut r = body;
        let request = match kind {
            1 => {
                let magic: [u8; 8] = read_array(&mut r)?;
                let token = read_array(&mut r).filter(|_| magic == *MAGIC)?;
                Self::Hello(Token::from_bytes(token))
            }
            2 => Self::Read(read_array(&mut r)?, read_ballot(&mut r)?),
            3 => {
                let (name, at) = (read_array(&mut r)?, read_stamp(&mut r)?);
                Self::Write(name, at, rest(&mut r)?)
            }
            _ => return None,
        };
        r.is_empty().then_some(request)
    }
}

impl Reply {
    /// As a frame.
    pub fn frame(&self) -> Vec<u8> {
        let mut w = Vec::new();
        match self {
            Self::Welcome => w.put_u8(1),
            Self::Held(held) => {
                w.put_u8(2);
                write_held(&mut w, held);
            }
            Self::Refused(why) => {
                let words = why.as_bytes();
                w.put_u8(4);
                w.put_slice(&words[..words.len().min(WHY_BYTES_MAX)]);
            }
        }
        framed(&w)
    }

    /// From what stands in a frame; `None` if it is no reply.
    pub fn decode(frame: &[u8]) -> Option<Self> {
        let (kind, body) = frame.split_first()?;
        match kind {
            1 => body.is_empty().then_some(Self::Welcome),
            2 => read_held(body).map(Self::Held),
            4 => {
                // It is shown on terminals, and a server is nobody to trust with those.
                let words = String::from_utf8_lossy(&body[..body.len().min(WHY_BYTES_MAX)]);
                Some(Self::Refused(words.chars().filter(|c| !c.is_control()).collect()))
            }
            _ => None,
        }
    }
}

/// What is held, as it stands in replies and on the server's disk.
pub fn write_held(w: &mut Vec<u8>, held: &Held) {
    put_ballot(w, held.promised);
    put_stamp(w, held.stamp);
    w.put_slice(&held.value);
}

/// The inverse of [`write_held`].
pub fn read_held(bytes: &[u8]) -> Option<Held> {
    let mut r = bytes;
    let (promised, stamp) = (read_ballot(&mut r)?, read_stamp(&mut r)?);
    Some(Held { promised, stamp, value: rest(&mut r)? })
}

fn put_ballot(w: &mut Vec<u8>, ballot: Ballot) {
    w.put_u64_le(ballot.round);
    w.put_u64_le(ballot.nonce);
}

fn put_stamp(w: &mut Vec<u8>, stamp: Stamp) {
    put_ballot(w, stamp.ballot);
    w.put_u64_le(stamp.number);
}

fn read_array<const N: usize>(r: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = r.split_first_chunk()?;
    *r = rest;
    Some(*array)
}

fn read_ballot(r: &mut &[u8]) -> Option<Ballot> {
    Some(Ballot { round: r.try_get_u64_le().ok()?, nonce: r.try_get_u64_le().ok()? })
}

fn read_stamp(r: &mut &[u8]) -> Option<Stamp> {
    Some(Stamp { ballot: read_ballot(r)?, number: r.try_get_u64_le().ok()? })
}

fn rest(r: &mut &[u8]) -> Option<Bytes> {
    let bytes = std::mem::take(r);
    (bytes.len() <= VALUE_BYTES_MAX).then(|| Bytes::copy_from_slice(bytes))
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

/// Reads the length of the next frame.
///
/// # Errors
/// [`ErrorKind::InvalidData`] if it is too long, others as the network says.
pub async fn read_length(from: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
    let length = from.read_u32_le().await? as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, "a frame is too long"));
    }
    Ok(length)
}

/// Reads what comes after the length.
///
/// # Errors
/// As the network says.
pub async fn read_body(from: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; length];
    from.read_exact(&mut body).await?;
    Ok(body)
}

/// Sends a frame.
///
/// # Errors
/// As the network says.
pub async fn send(to: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    to.write_all(frame).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use fogbank_env::{Purpose, Randomness};
    use rand_core::Rng;

    use super::*;

    fn held() -> Held {
        let ballot = Ballot { round: 3, nonce: 4 };
        let stamp = Stamp { ballot, number: 5 };
        Held { promised: Ballot { round: 6, nonce: 7 }, stamp, value: vec![8; 120].into() }
    }

    #[test]
    fn frames_come_back_whole_and_not_in_part() {
        let Held { promised, stamp, value } = held();
        let requests = [
            Request::Hello(Token::from_bytes([1; 32])),
            Request::Read([2; 32], promised),
            Request::Write([2; 32], stamp, value),
        ];
        for request in requests {
            let frame = request.frame();
            let back = Request::decode(&frame[4..]).unwrap();
            assert_eq!(back.frame(), frame);
            assert!(frame.len() <= 4 + FRAME_BYTES_MAX);
            // A value may have any length, so only what comes before it can be cut.
            let fixed = frame.len().min(4 + 1 + 32 + 24);
            assert!((4..fixed).all(|cut| Request::decode(&frame[4..cut]).is_none()));
        }
        for reply in [Reply::Welcome, Reply::Held(held()), Reply::Refused("no".into())] {
            assert_eq!(Reply::decode(&reply.frame()[4..]), Some(reply));
        }
    }

    /// Whatever arrives is no frame, or the very frame that means what was understood.
    #[test]
    fn a_frame_has_one_meaning() {
        let mut stream = Randomness::repeatable(1).stream(Purpose::Faults);
        let (mut requests, mut replies) = (0, 0);
        for _ in 0..20_000 {
            let mut frame = vec![0; stream.next_u32() as usize % (FRAME_BYTES_MAX + 1)];
            stream.fill_bytes(&mut frame);
            if let Some(kind) = frame.first_mut() {
                *kind %= 6;
            }
            if let Some(request) = Request::decode(&frame) {
                requests += 1;
                assert_eq!(request.frame()[4..], frame);
            }
            if let Some(reply) = Reply::decode(&frame) {
                replies += 1;
                assert!(matches!(reply, Reply::Refused(_)) || reply.frame()[4..] == frame);
            }
        }
        assert!(requests > 500 && replies > 500, "{requests} {replies}: too few to say anything");
    }

    #[test]
    fn what_is_no_frame_is_none() {
        let long = Request::Write([0; 32], Stamp::default(), vec![0; VALUE_BYTES_MAX + 1].into());
        assert!(Request::decode(&long.frame()[4..]).is_none());
        let shown = Reply::decode(&[4, 0x1b, b'[', b'2', b'J', 0xff]);
        assert_eq!(shown, Some(Reply::Refused("[2J\u{fffd}".into())));
    }
}
