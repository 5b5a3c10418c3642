//! What stands behind a key: strings, hashes and sorted sets are read, all else is passed over.

use std::io::Read;

use fogbank_front::resp::Content;
use indexmap::IndexMap;

use super::bytes::Bytes;
use super::fault::{Fault, Found, quoted};
use super::packed::{Packed, Packing};
use super::parts::{self, Part};

/// What a value is, and how it is written.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// In words.
    pub is: &'static str,
    /// Its structure.
    pub parts: &'static [Part],
    /// How it is read, if it can be stored.
    pub stored: Option<Stored>,
}

/// What can be stored.
#[derive(Debug, Clone, Copy)]
pub enum Stored {
    String,
    Hash,
    PackedHash(Packing),
    /// With scores of eight bytes.
    SortedSet,
    /// With scores as text.
    SortedSetInText,
    PackedSortedSet(Packing),
}

impl Kind {
    /// What `code` says before a key, if that is known.
    pub fn of(code: u8) -> Option<Self> {
        use Packing::{ListPack, ZipList, ZipMap};
        use Stored::{PackedHash, PackedSortedSet};
        const EXPIRING: &str = "a hash with fields that expire one by one";
        let (is, parts, stored) = match code {
            0 => ("a string", parts::PACKED, Some(Stored::String)),
            1 | 14 => ("a list", parts::STRINGS, None),
            2 => ("a set", parts::STRINGS, None),
            3 => ("a sorted set", parts::SCORED_IN_TEXT, Some(Stored::SortedSetInText)),
            4 => ("a hash", parts::FIELDS, Some(Stored::Hash)),
            5 => ("a sorted set", parts::SCORED, Some(Stored::SortedSet)),
            7 => ("a module's", parts::MODULE, None),
            9 => ("a hash", parts::PACKED, Some(PackedHash(ZipMap))),
            10 => ("a list", parts::PACKED, None),
            11 | 20 => ("a set", parts::PACKED, None),
            12 => ("a sorted set", parts::PACKED, Some(PackedSortedSet(ZipList))),
            13 => ("a hash", parts::PACKED, Some(PackedHash(ZipList))),
            15 => ("a stream", parts::STREAM, None),
            16 => ("a hash", parts::PACKED, Some(PackedHash(ListPack))),
            17 => ("a sorted set", parts::PACKED, Some(PackedSortedSet(ListPack))),
            18 => ("a list", parts::NODES, None),
            19 => ("a stream", parts::STREAM_2, None),
            21 => ("a stream", parts::STREAM_3, None),
            22 => (EXPIRING, parts::EXPIRING, None),
            23 => (EXPIRING, parts::PACKED, None),
            24 => (EXPIRING, parts::EXPIRING_FROM, None),
            25 => (EXPIRING, parts::EXPIRING_PACKED, None),
            26 => ("a stream", parts::STREAM_4, None),
            _ => return None,
        };
        Some(Self { is, parts, stored })
    }
}

impl<R: Read> Bytes<R> {
    /// A value that is `stored` so.
    pub fn content(&mut self, stored: Stored) -> Found<Content> {
        Ok(match stored {
            Stored::String => Content::String(self.string()?),
            Stored::Hash => Content::Hash(self.members(Self::string)?),
            Stored::PackedHash(packing) => Content::Hash(self.packed(packing, Ok)?),
            Stored::SortedSet => {
                Content::SortedSet(ranked(self.members(|b| Ok(f64::from_le_bytes(b.array()?)))?)?)
            }
            Stored::SortedSetInText => Content::SortedSet(ranked(self.members(Self::text)?)?),
            Stored::PackedSortedSet(packing) => {
                Content::SortedSet(ranked(self.packed(packing, |text| score(&text))?)?)
            }
        })
    }

    /// Names, and what `other` reads behind each.
    fn members<T>(
        &mut self,
        mut other: impl FnMut(&mut Self) -> Found<T>,
    ) -> Found<Vec<(Vec<u8>, T)>> {
        let mut members = Members::default();
        for _ in 0..self.length()? {
            let name = self.string()?;
            members.add(name, other(self)?)?;
        }
        Ok(members.all())
    }

    /// Names, and what `other` makes of what stands behind each.
    fn packed<T>(
        &mut self,
        packing: Packing,
        other: impl Fn(Vec<u8>) -> Found<T>,
    ) -> Found<Vec<(Vec<u8>, T)>> {
        let string = self.string()?;
        let mut packed = Packed::new(packing, &string)?;
        let mut members = Members::default();
        while let Some(name) = packed.next()? {
            let Some(behind) = packed.next()? else {
                return Err(Fault::damaged(format!("{} lacks the other half", quoted(&name))));
            };
            members.add(name, other(behind)?)?;
        }
        Ok(members.all())
    }

    /// A score as Redis wrote it before 4.0.
    fn text(&mut self) -> Found<f64> {
        Ok(match self.byte()? {
            253 => f64::NAN,
            254 => f64::INFINITY,
            255 => f64::NEG_INFINITY,
            length => score(&self.take(length.into())?)?,
        })
    }
}

/// Names in their order, each of them once, and what belongs to them.
struct Members<T>(IndexMap<Vec<u8>, T>);

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self(IndexMap::new())
    }
}

impl<T> Members<T> {
    /// A name that comes twice is found at once: what is compressed well cannot become ever more.
    fn add(&mut self, name: Vec<u8>, other: T) -> Found<()> {
        if self.0.contains_key(&name) {
            return Err(Fault::damaged(format!("{} comes twice in it", quoted(&name))));
        }
        self.0.insert(name, other);
        Ok(())
    }

    fn all(self) -> Vec<(Vec<u8>, T)> {
        self.0.into_iter().collect()
    }
}

fn score(text: &[u8]) -> Found<f64> {
    let score = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    score.ok_or_else(|| Fault::damaged(format!("{} is no score", quoted(text))))
}

/// Members that all have a place in their order.
fn ranked(members: Vec<(Vec<u8>, f64)>) -> Found<Vec<(Vec<u8>, f64)>> {
    match members.iter().find(|(_, score)| score.is_nan()) {
        None => Ok(members),
        Some((member, _)) => Err(Fault::damaged(format!(
            "its member {} has a score that is no number",
            quoted(member)
        ))),
    }
}
