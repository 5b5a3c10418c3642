//! What a dump consists of, so far as one has to know it to pass over it: up to version 13 of the
//! format, which is that of Redis 8.6.

use std::io::Read;

use super::bytes::Bytes;
use super::fault::{Fault, Found};

/// A piece of a dump.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// Of so many bytes.
    Bytes(u64),
    /// So many lengths, or numbers written as such.
    Lengths(usize),
    /// A string.
    String,
    /// A number as text, its length before it in a byte, or one of three bytes that are no length.
    Text,
    /// A length, and so many times these.
    Each(&'static [Part]),
    /// What a module wrote: numbers and strings, what each is before it, and a mark of the end.
    OfModule,
}

use Part::{Each, Lengths, OfModule, String, Text};

impl<R: Read> Bytes<R> {
    /// Passes over `parts`. Nothing of that is kept.
    pub fn skip_parts(&mut self, parts: &[Part]) -> Found<()> {
        parts.iter().try_for_each(|part| self.skip_part(*part))
    }

    fn skip_part(&mut self, part: Part) -> Found<()> {
        match part {
            Part::Bytes(count) => self.skip(count),
            Lengths(count) => (0..count).try_for_each(|_| self.length().map(drop)),
            String => self.skip_string(),
            Text => match self.byte()? {
                253.. => Ok(()),
                length => self.skip(length.into()),
            },
            Each(parts) => {
                let count = self.length()?;
                (0..count).try_for_each(|_| self.skip_parts(parts))
            }
            OfModule => loop {
                match self.length()? {
                    0 => return Ok(()),
                    1 | 2 => self.skip_part(Lengths(1))?,
                    3 => self.skip(4)?,
                    4 => self.skip(8)?,
                    5 => self.skip_string()?,
                    _ => return Err(Fault::damaged("what a module wrote is of no known kind")),
                }
            },
        }
    }
}

/// One string in which all is packed.
pub const PACKED: &[Part] = &[String];
/// Of a list, or a set.
pub const STRINGS: &[Part] = &[Each(&[String])];
/// Of a hash: fields and values.
pub const FIELDS: &[Part] = &[Each(&[String, String])];
/// Of a sorted set: members and scores.
pub const SCORED: &[Part] = &[Each(&[String, Part::Bytes(8)])];
/// The same in Redis before 4.0.
pub const SCORED_IN_TEXT: &[Part] = &[Each(&[String, Text])];
/// Of a list: how each string is to be understood, and that.
pub const NODES: &[Part] = &[Each(&[Lengths(1), String])];
/// Of a hash, before its release: when a field expires, the field and its value.
pub const EXPIRING: &[Part] = &[Each(&[Lengths(1), String, String])];
/// The same, and before it when the first one expires.
pub const EXPIRING_FROM: &[Part] = &[Part::Bytes(8), Each(&[Lengths(1), String, String])];
/// The same, all fields packed.
pub const EXPIRING_PACKED: &[Part] = &[Part::Bytes(8), String];
/// A module's name, and what it wrote.
pub const MODULE: &[Part] = &[Lengths(1), OfModule];
/// The same beside keys, and when that is to be read.
pub const BESIDE_KEYS: &[Part] = &[Lengths(3), OfModule];
/// Of each module that keeps something about a key: which, and that.
pub const ABOUT_KEY: &[Part] = &[Each(&[Part::Bytes(4), OfModule])];

/// Entries of a stream, from which one on and packed.
const ENTRIES: Part = Each(&[String, String]);
/// What was delivered and not acknowledged: which entry and when; how often.
const PENDING: Part = Each(&[Part::Bytes(16 + 8), Lengths(1)]);
/// Which of that a consumer has.
const HELD: Part = Each(&[Part::Bytes(16)]);
/// Consumers: name, when it was seen.
const CONSUMERS: Part = Each(&[String, Part::Bytes(8), HELD]);
/// The same, and when it was active.
const CONSUMERS_3: Part = Each(&[String, Part::Bytes(8 + 8), HELD]);
/// Groups: name, last entry and how many were read.
const GROUPS_3: Part = Each(&[String, Lengths(2 + 1), PENDING, CONSUMERS_3]);
/// Of a stream: entries, how many, the last one; groups.
pub const STREAM: &[Part] =
    &[ENTRIES, Lengths(1 + 2), Each(&[String, Lengths(2), PENDING, CONSUMERS])];
/// The same in Redis 7.0, with the first entry, the last one that was removed, and how many there
/// were ever.
pub const STREAM_2: &[Part] =
    &[ENTRIES, Lengths(8), Each(&[String, Lengths(2 + 1), PENDING, CONSUMERS])];
/// The same since Redis 7.2.
pub const STREAM_3: &[Part] = &[ENTRIES, Lengths(8), GROUPS_3];
/// The same since Redis 8.6, with what producers sent under which names.
pub const STREAM_4: &[Part] = &[
    ENTRIES,
    Lengths(8),
    GROUPS_3,
    Lengths(2),
    Each(&[String, Each(&[String, Lengths(2)])]),
    Lengths(2),
];
