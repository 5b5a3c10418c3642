//! Messages as bytes in a row: each begins with a byte for its role and four for its length, the
//! highest first, which counts all but a head of fixed size.
//!
//! Small ones share a message of gRPC, large ones are cut. No more is kept than one message can
//! need.

use bytes::{Buf, Bytes, BytesMut};

use crate::wire::MESSAGE_BYTES_MAX;

/// Puts messages together again.
#[derive(Debug)]
pub struct Frames {
    /// What came last, while nothing before it is left: no copy is made of what comes whole.
    last: Bytes,
    /// Else all that has come.
    come: BytesMut,
    /// Bytes that the length does not count.
    head: usize,
    /// Bytes of a message, at most.
    max: usize,
}

/// What came is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl Frames {
    /// Of messages of so many bytes at most, of which the length does not count the first `head`.
    pub fn new(head: usize, max: usize) -> Self {
        Self { last: Bytes::new(), come: BytesMut::new(), head, max }
    }

    /// More has come.
    pub fn push(&mut self, piece: Bytes) {
        if self.come.is_empty() && self.last.is_empty() {
            self.last = piece;
        } else {
            self.come.extend_from_slice(&std::mem::take(&mut self.last));
            self.come.extend_from_slice(&piece);
        }
    }

    /// The next message, if it is whole.
    ///
    /// # Errors
    /// [`TooLong`] if it says that it is longer than any.
    pub fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        let come: &[u8] = if self.last.is_empty() { &self.come } else { &self.last };
        let Some(length) = come.get(1..5).and_then(|bytes| bytes.first_chunk()) else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize + self.head;
        if length > self.max {
            return Err(TooLong);
        }
        Ok((come.len() >= length).then(|| match self.last.is_empty() {
            true => self.come.split_to(length).freeze(),
            false => self.last.split_to(length),
        }))
    }
}

/// The messages of gRPC that carry these bytes.
pub fn pieces(message: Vec<u8>) -> impl Iterator<Item = Bytes> {
    let mut left = Bytes::from(message);
    std::iter::from_fn(move || {
        (left.has_remaining()).then(|| left.split_to(left.len().min(MESSAGE_BYTES_MAX)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD_BYTES: usize = 6;

    fn message(length: usize) -> Vec<u8> {
        let mut message = vec![7; HEAD_BYTES + length];
        message[1..5].copy_from_slice(&(length as u32).to_be_bytes());
        message
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let all: Vec<Vec<u8>> = [0, 1, 9, 300, 40_000].map(message).into();
        let row = all.concat();
        for cut in [1, 3, 6, 7, 1000, row.len()] {
            let mut frames = Frames::new(HEAD_BYTES, 50_000);
            let mut come = Vec::new();
            for piece in row.chunks(cut) {
                frames.push(Bytes::copy_from_slice(piece));
                while let Some(message) = frames.next().unwrap() {
                    come.push(message.to_vec());
                }
            }
            assert_eq!(come, all, "{cut}");
        }
        let mut frames = Frames::new(HEAD_BYTES, 1000);
        frames.push(Bytes::copy_from_slice(&message(995)[..6]));
        assert_eq!(frames.next(), Err(TooLong));
        let whole: Vec<u8> = pieces(message(600_000)).flatten().collect();
        assert_eq!(whole, message(600_000));
    }
}
