//! Where Redis's keys live in the ordered directory.
//!
//! ```text
//! group                             member                what it is
//! "R"                               ""                    attr: the generation (absent: 0)
//! r <generation> S                  name                  a string, in the value; attr: 1 if it
//!                                                         has a deadline
//! r <generation> H name <incarn.>   field                 a hash field, in the value
//! r <generation> Z name <incarn.>   member                a sorted-set member; attr: its score
//! r <generation> z name <incarn.>   ordered score, member the same member in order of score
//! r <generation> X                  name                  attr: when the key expires, Unix ms
//! r <generation> N                  name                  attr: the incarnation (absent: 0)
//! r <generation> D                  kind name <incarn.>   a retired group, to be reclaimed
//! ```
//!
//! Invariants: a name has records of one type at a time under its current incarnation; it exists
//! exactly if it has one of S, H, Z there and its X, if any, lies in the future. Nothing is shared
//! between the members of a collection, so writers of different members do not meet. `FLUSHDB`
//! adds one to the generation and deleting a large collection adds one to its incarnation: both
//! are of constant size, and what they orphan sorts where the janitor finds it.
//!
//! The generation and the incarnation are numbers of variable length without the bytes 0 and 1,
//! which the directory would have to escape; they order as the numbers do.

use fogbank_txn::{Key, KeyRange};
use smallvec::SmallVec;

/// The name of a group.
pub type Group = SmallVec<[u8; 64]>;

/// The types of value. `none` is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One value.
    String,
    /// Fields with values.
    Hash,
    /// Members with scores.
    SortedSet,
}

impl Kind {
    /// What `TYPE` says.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::SortedSet => "zset",
        }
    }
}

/// What a group holds, as one letter of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// All strings.
    Strings = b'S',
    /// The fields of one hash.
    Fields = b'H',
    /// The members of one sorted set.
    Members = b'Z',
    /// The members of one sorted set, in order of score.
    Order = b'z',
    /// When keys expire.
    Deadlines = b'X',
    /// Incarnations of collections.
    Incarnations = b'N',
    /// Retired groups.
    Retired = b'D',
}

/// Where the generation is kept.
pub fn generation_key() -> Key {
    Key::new(b"R", b"")
}

/// The start of the name of every group of one generation.
pub fn generation_prefix(generation: u32) -> Group {
    let mut group = Group::new();
    group.push(b'r');
    let digits = digits(generation);
    group.push(2 + digits.len() as u8);
    group.extend_from_slice(&digits);
    group
}

/// The groups of all generations before this one.
pub fn dead_generations(generation: u32) -> KeyRange {
    let now = generation_prefix(generation);
    KeyRange::between(&Key::new(b"r", b""), &Key::new(&now, b""))
}

/// The groups of a generation, and of none before `next`.
pub fn generation(generation: u32, next: u32) -> KeyRange {
    let bound = |of| Key::new(&generation_prefix(of), b"");
    KeyRange::between(&bound(generation), &bound(next))
}

/// A group of which there is one a generation.
pub fn shared_group(generation: u32, role: Role) -> Group {
    let mut group = generation_prefix(generation);
    group.push(role as u8);
    group
}

/// A group of one collection.
pub fn collection_group(generation: u32, role: Role, name: &[u8], incarnation: u32) -> Group {
    let mut group = shared_group(generation, role);
    group.extend_from_slice(&collection_suffix(name, incarnation));
    group
}

/// The end of a collection's group: its name, its incarnation, and how long the latter is.
pub fn collection_suffix(name: &[u8], incarnation: u32) -> Group {
    let mut suffix = Group::from_slice(name);
    let digits = digits(incarnation);
    suffix.extend_from_slice(&digits);
    suffix.push(2 + digits.len() as u8);
    suffix
}

/// The name and incarnation that a suffix stands for.
pub fn split_suffix(suffix: &[u8]) -> Option<(&[u8], u32)> {
    let (last, rest) = suffix.split_last()?;
    let at = rest.len().checked_sub(usize::from(last.checked_sub(2)?))?;
    let (name, digits) = rest.split_at(at);
    let fold = |n: u32, d: &u8| n.checked_mul(128)?.checked_add(u32::from(d.checked_sub(128)?));
    Some((name, digits.iter().try_fold(0, fold)?))
}

/// Base-128 digits, highest first, each with its top bit set; none for zero.
fn digits(value: u32) -> SmallVec<[u8; 5]> {
    let len = (32 - value.leading_zeros()).div_ceil(7);
    (0..len).rev().map(|place| 128 | (value >> (7 * place)) as u8).collect()
}

/// The eight bytes under which a score sorts: byte order is the order of numbers.
pub fn ordered_score(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The member of an order group.
pub fn order_member(score: f64, member: &[u8]) -> Group {
    let mut out = Group::from_slice(&ordered_score(score).to_be_bytes());
    out.extend_from_slice(member);
    out
}

/// The score and member that a member of an order group stands for.
pub fn split_order(member: &[u8]) -> Option<(f64, &[u8])> {
    let (score, member) = member.split_first_chunk::<8>()?;
    let ordered = u64::from_be_bytes(*score);
    let bits = if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered };
    Some((f64::from_bits(bits), member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_sort_as_bytes() {
        let scores = [f64::NEG_INFINITY, -1e300, -1.5, -1e-300, 0.0, 1e-300, 1.0, f64::INFINITY];
        for pair in scores.windows(2) {
            assert!(order_member(pair[0], b"z") < order_member(pair[1], b"a"), "{pair:?}");
        }
        for score in scores {
            assert_eq!(split_order(&order_member(score, b"m")), Some((score, &b"m"[..])));
        }
        assert_eq!(split_order(b"short"), None);
    }

    #[test]
    fn generations_sort_as_numbers_and_need_no_escape() {
        let values = [0, 1, 127, 128, 16_383, 16_384, u32::MAX];
        for pair in values.windows(2) {
            assert!(generation_prefix(pair[0]) < generation_prefix(pair[1]));
        }
        for value in values {
            assert!(generation_prefix(value).iter().all(|b| *b > 1));
        }
    }

    #[test]
    fn suffixes_are_unambiguous() {
        let names: [&[u8]; 6] = [b"", b"a", b"a\x81", b"a\x02", b"\x81\x03", b"a\x81\x03"];
        let all: Vec<_> =
            names.iter().flat_map(|n| [0, 1, 128, u32::MAX].map(|i| (*n, i))).collect();
        for (name, incarnation) in &all {
            let suffix = collection_suffix(name, *incarnation);
            assert_eq!(split_suffix(&suffix), Some((*name, *incarnation)));
            let same = all.iter().filter(|(n, i)| collection_suffix(n, *i) == suffix).count();
            assert_eq!(same, 1);
        }
    }
}
