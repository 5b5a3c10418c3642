//! Numbers for what is created: a counter for each kind and hospital, in a record of its own.

use bytes::Bytes;
use fogbank_txn::Key;

use super::rows::Kind;
use crate::database::Result;
use crate::record::{Fields, Reader};

/// A hospital, and how many there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hospital {
    pub number: u32,
    pub of: u32,
}

impl Hospital {
    /// The key of the counter of a kind.
    pub fn counter(self, kind: Kind) -> Key {
        let [a, b, c, d] = self.number.to_be_bytes();
        Key::new(b"n", &[kind as u8, a, b, c, d])
    }

    /// The id of what is number `next` at this hospital.
    pub fn id(self, next: u32) -> u32 {
        next.saturating_mul(self.of).saturating_add(self.number)
    }

    /// The id that a counter gives out, and the counter after that.
    pub fn take(self, counter: Option<Bytes>) -> Result<(u32, Bytes)> {
        let next = read(counter)?;
        Ok((self.id(next), record(next.saturating_add(1))))
    }

    /// The counter that stands for `objects` in all hospitals, numbered without gaps.
    pub fn counted(self, objects: u32) -> u32 {
        (objects + self.of - 1 - self.number) / self.of
    }
}

/// A counter: the number that comes next.
pub(super) fn record(next: u32) -> Bytes {
    Fields::new().u32(next).done()
}

pub(super) fn read(counter: Option<Bytes>) -> Result<u32> {
    Reader::must(counter, "counter")?.u32()
}
