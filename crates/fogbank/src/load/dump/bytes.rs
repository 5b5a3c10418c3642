//! The bytes of a dump on their way to what decodes them.
//!
//! The decoder keeps its eyes shut to three things: whether the checksum is right, what follows it,
//! and sections that belong to no key. So every byte goes through here: they are summed, what
//! follows the end is kept from the decoder and looked at, and before each of its steps the
//! sections ahead are.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use crc_fast::{CrcAlgorithm, Digest};
use rdb::constants::op_code;

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
    /// Before its time.
    CutOff,
    /// With the checksum of something else.
    Damaged,
    /// And something follows, from this byte on: commands of Redis, or not.
    Followed { at: u64, by_commands: bool },
}

/// The bytes of a file, shared with the decoder.
pub struct Bytes<R>(Rc<RefCell<Inner<R>>>);

struct Inner<R> {
    file: R,
    buffer: Vec<u8>,
    /// How much of the buffer was taken, and how much of that is in the sum.
    taken: usize,
    summed: usize,
    sum: Digest,
    /// Bytes that were taken and are no longer in the buffer.
    before: u64,
    /// More was wanted than there is.
    ran_out: bool,
}

impl<R> Clone for Bytes<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Read> Bytes<R> {
    pub fn new(file: R) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            file,
            buffer: Vec::new(),
            taken: 0,
            summed: 0,
            sum: Digest::new(CrcAlgorithm::Crc64Redis),
            before: 0,
            ran_out: false,
        })))
    }

    /// Whether more was wanted than the file has.
    pub fn ran_out(&self) -> bool {
        self.0.borrow().ran_out
    }

    /// Whether the file begins with `words`.
    pub fn begins_with(&self, words: &[u8]) -> io::Result<bool> {
        let mut inner = self.0.borrow_mut();
        let there = inner.ahead(words.len())?;
        Ok(there.starts_with(words))
    }

    /// What the next step of the decoder would pass over that belongs to no key. Nothing of the
    /// kind stands between keys in what Redis writes, where one step may pass over several.
    pub fn passed_over(&self) -> io::Result<Option<&'static str>> {
        let mut inner = self.0.borrow_mut();
        let mut at = 0;
        loop {
            let Some(code) = inner.ahead(at + 1)?.get(at).copied() else { return Ok(None) };
            at += 1;
            at += match code {
                op_code::FUNCTION2 => return Ok(Some("functions")),
                op_code::MODULE_AUX => return Ok(Some("data of modules that belong to no key")),
                op_code::KEY_META => return Ok(Some("what modules keep about keys")),
                op_code::EXPIRETIME_MS => 8,
                op_code::EXPIRETIME => 4,
                op_code::FREQ => 1,
                op_code::IDLE => match inner.ahead(at + 1)?.get(at).map_or(0, |first| first >> 6) {
                    0 => 1,
                    1 => 2,
                    _ => 5,
                },
                _ => return Ok(None),
            };
        }
    }

    /// How the file ends, of which all was taken up to the mark of the end.
    pub fn end(&self, version: u32) -> io::Result<End> {
        let mut inner = self.0.borrow_mut();
        inner.sum_up();
        let sum = inner.sum.finalize();
        if version >= FIRST_VERSION_WITH_CHECKSUM {
            match inner.ahead(CHECKSUM_BYTES)?.first_chunk() {
                None => return Ok(End::CutOff),
                // Redis writes zero where it was told to reckon none.
                Some(kept) if ![0, sum].contains(&u64::from_le_bytes(*kept)) => {
                    return Ok(End::Damaged);
                }
                Some(_) => inner.taken += CHECKSUM_BYTES,
            }
        }
        let at = inner.before + inner.taken as u64;
        Ok(match inner.ahead(1)?.first() {
            None => End::Whole,
            Some(first) => End::Followed { at, by_commands: *first == b'*' },
        })
    }
}

impl<R: Read> Read for Bytes<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut inner = self.0.borrow_mut();
        let there = inner.ahead(1)?;
        let count = there.len().min(into.len());
        into[..count].copy_from_slice(&there[..count]);
        inner.taken += count;
        inner.ran_out |= count == 0 && !into.is_empty();
        Ok(count)
    }

    /// The decoder wants all that is left after the mark of the end. That is looked at by
    /// [`Self::end`].
    fn read_to_end(&mut self, _: &mut Vec<u8>) -> io::Result<usize> {
        Ok(0)
    }
}

impl<R: Read> Inner<R> {
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
