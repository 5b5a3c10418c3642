//! The bytes of a dump: read once, in pieces, and all of them summed.
//!
//! A length that the file claims is never memory before the file has had so many bytes.

use std::io::{self, Read};

use crc_fast::{CrcAlgorithm, Digest};

use super::fault::{Fault, Found};

/// Bytes read at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 8;
/// Dumps of earlier versions have none.
const FIRST_VERSION_WITH_CHECKSUM: u32 = 5;

/// How a dump ends.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// As it has to.
    Whole,
    /// With the checksum of something else.
    Damaged,
    /// And something follows, from this byte on: commands of Redis, or not.
    Followed { at: u64, by_commands: bool },
}

/// The bytes of a file.
pub struct Bytes<R> {
    file: R,
    buffer: Vec<u8>,
    /// How much of the buffer was taken, and how much of that is in the sum.
    taken: usize,
    summed: usize,
    sum: Digest,
    /// Bytes that were taken and are no longer in the buffer.
    before: u64,
}

impl<R: Read> Bytes<R> {
    pub fn new(file: R) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            taken: 0,
            summed: 0,
            sum: Digest::new(CrcAlgorithm::Crc64Redis),
            before: 0,
        }
    }

    /// Whether `words` come next.
    pub fn begins_with(&mut self, words: &[u8]) -> Found<bool> {
        Ok(self.ahead(words.len())?.starts_with(words))
    }

    /// The next byte.
    pub fn byte(&mut self) -> Found<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// The next few bytes.
    pub fn array<const N: usize>(&mut self) -> Found<[u8; N]> {
        let array = *self.ahead(N)?.first_chunk().ok_or(Fault::CutOff)?;
        self.taken += N;
        Ok(array)
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: u64) -> Found<Vec<u8>> {
        let mut bytes = Vec::new();
        self.pass(count, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Passes over `count` bytes.
    pub fn skip(&mut self, count: u64) -> Found<()> {
        self.pass(count, |_| {})
    }

    fn pass(&mut self, mut count: u64, mut see: impl FnMut(&[u8])) -> Found<()> {
        while count > 0 {
            let there = self.ahead(1)?;
            let piece = there.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            if piece == 0 {
                return Err(Fault::CutOff);
            }
            see(&there[..piece]);
            self.taken += piece;
            count -= piece as u64;
        }
        Ok(())
    }

    /// How the file ends, of which all was taken up to the mark of the end.
    pub fn end(&mut self, version: u32) -> Found<End> {
        self.sum_up();
        let sum = self.sum.finalize();
        if version >= FIRST_VERSION_WITH_CHECKSUM {
            let kept = u64::from_le_bytes(self.array::<CHECKSUM_BYTES>()?);
            // Redis writes zero where it was told to reckon none.
            if ![0, sum].contains(&kept) {
                return Ok(End::Damaged);
            }
        }
        let at = self.before + self.taken as u64;
        Ok(match self.ahead(1)?.first() {
            None => End::Whole,
            Some(first) => End::Followed { at, by_commands: *first == b'*' },
        })
    }

    fn sum_up(&mut self) {
        self.sum.update(&self.buffer[self.summed..self.taken]);
        self.summed = self.taken;
    }

    /// What is not taken yet: at least `count` bytes, or all that there are.
    fn ahead(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.buffer.len() - self.taken < count {
            self.sum_up();
            self.buffer.drain(..self.taken);
            self.before += self.taken as u64;
            (self.taken, self.summed) = (0, 0);
            while self.buffer.len() < count {
                let there = self.buffer.len();
                self.buffer.resize(there + BUFFER_BYTES, 0);
                let read = self.file.read(&mut self.buffer[there..]);
                self.buffer.truncate(there + read.as_ref().map_or(0, |read| *read));
                match read {
                    Ok(0) => break,
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(&self.buffer[self.taken..])
    }
}
