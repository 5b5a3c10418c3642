//! A dump, one entry after the other: none is passed over unseen.
//!
//! Marks say what comes next. What stands before a key (when it expires, how often it was used)
//! belongs to the next key, whatever other marks stand between.

use std::io::Read;

use super::bytes::{Bytes, End};
use super::fault::{Fault, Found};
use super::parts::{self, Part};
use super::values::Kind;

/// What comes in a dump.
pub enum Entry {
    /// A key. Its value is what comes next of [`Entries::bytes`].
    Key(Key),
    /// What belongs to no key or is not part of it, in words; it was passed over.
    Beside(&'static str),
    /// The end.
    End(End),
}

/// A key, before its value.
pub struct Key {
    pub name: Vec<u8>,
    pub kind: Kind,
    pub database: u64,
    /// When it expires, in milliseconds of Unix time.
    pub deadline_ms: Option<u64>,
}

/// The entries of a file.
pub struct Entries<R> {
    /// What is not read yet.
    pub bytes: Bytes<R>,
    version: u32,
    database: u64,
    deadline_ms: Option<u64>,
}

/// The last version that is known.
const VERSION_MAX: u32 = 13;

impl<R: Read> Entries<R> {
    /// Those of the dump that `bytes` are.
    pub fn begin(mut bytes: Bytes<R>) -> Found<Self> {
        if !bytes.begins_with(b"REDIS")? {
            return Err(Fault::Unknown("it does not begin with REDIS".into()));
        }
        bytes.skip(5)?;
        let digits: [u8; 4] = bytes.array()?;
        let digit = |sum: u32, digit: &u8| Some(sum * 10 + char::from(*digit).to_digit(10)?);
        let version = digits.iter().try_fold(0, digit);
        match version.filter(|version| (1..=VERSION_MAX).contains(version)) {
            Some(version) => Ok(Self { bytes, version, database: 0, deadline_ms: None }),
            None => Err(Fault::Unknown(format!(
                "its version is \"{}\", and 1 to {VERSION_MAX} are known",
                digits.escape_ascii()
            ))),
        }
    }

    /// The next one. The value of the last key has to be read before.
    pub fn next(&mut self) -> Found<Entry> {
        loop {
            match self.bytes.byte()? {
                243 => return self.beside(parts::ABOUT_KEY, "what modules keep about keys"),
                // Which keys a slot of a cluster has.
                244 => self.bytes.skip_parts(&[Part::Lengths(3)])?,
                245 => return self.beside(&[Part::String], "functions"),
                247 => {
                    let what = "data of modules that belong to no key";
                    return self.beside(parts::BESIDE_KEYS, what);
                }
                // When, and how often, a key was used.
                248 => self.bytes.skip_parts(&[Part::Lengths(1)])?,
                249 => self.bytes.skip(1)?,
                // What the server was, and scripts that it had in memory.
                250 => self.bytes.skip_parts(&[Part::String, Part::String])?,
                // How many keys follow, and how many of them expire.
                251 => self.bytes.skip_parts(&[Part::Lengths(2)])?,
                252 => self.deadline_ms = since_1970(i64::from_le_bytes(self.bytes.array()?)),
                253 => {
                    let at_s = i32::from_le_bytes(self.bytes.array()?);
                    self.deadline_ms = since_1970(i64::from(at_s) * 1000);
                }
                254 => self.database = self.bytes.length()?,
                255 if self.deadline_ms.is_some() => {
                    return Err(Fault::damaged("a time of expiry is that of no key"));
                }
                255 => return Ok(Entry::End(self.bytes.end(self.version)?)),
                code => {
                    let kind = Kind::of(code).ok_or_else(|| {
                        Fault::Unknown(format!("something in it is of an unknown kind ({code})"))
                    })?;
                    let (database, deadline_ms) = (self.database, self.deadline_ms.take());
                    let name = self.bytes.string()?;
                    return Ok(Entry::Key(Key { name, kind, database, deadline_ms }));
                }
            }
        }
    }

    fn beside(&mut self, parts: &[Part], what: &'static str) -> Found<Entry> {
        self.bytes.skip_parts(parts)?;
        Ok(Entry::Beside(what))
    }
}

/// A time before 1970 has passed, too.
fn since_1970(at_ms: i64) -> Option<u64> {
    Some(at_ms.max(0).cast_unsigned())
}
