//! Keys and ranges of keys, in an order-preserving encoding.
//!
//! A key is a *group* (a hash, a sorted set, a table, an index) and a *member* within it. Both are
//! arbitrary bytes. They are kept as one byte string whose plain order is the order of the pair:
//!
//! ```text
//! group with 0x00 -> 01 01 and 0x01 -> 01 02,  then 00,  then the member as it is
//! ```
//!
//! The encoded group holds no zero byte, so the first zero byte ends it whatever the member holds.
//! Short keys live inside the value itself: a directory of a million of them makes no allocation
//! per key and compares without following a pointer.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

/// Bytes of an encoded key that fit without an allocation.
const INLINE_BYTES: usize = 22;
/// Ends the group in an encoded key.
const TERMINATOR: u8 = 0;
/// Starts a two-byte sequence in an encoded group.
const ESCAPE: u8 = 1;

type Buffer = SmallVec<[u8; 64]>;

/// The name of a record: a group and a member, ordered by group and then by member.
#[derive(Clone)]
pub struct Key(Form);

#[derive(Clone)]
enum Form {
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Shared(Arc<[u8]>),
}

impl Key {
    /// The key of `member` in `group`.
    pub fn new(group: &[u8], member: &[u8]) -> Self {
        let mut encoded = Buffer::new();
        encode_group(group, &mut encoded);
        encoded.push(TERMINATOR);
        encoded.extend_from_slice(member);
        Self::from_encoded(&encoded)
    }

    /// The group, as it was given to [`Key::new`].
    pub fn group(&self) -> Cow<'_, [u8]> {
        decode_group(self.encoded_group())
    }

    /// The member, as it was given to [`Key::new`].
    pub fn member(&self) -> &[u8] {
        let bytes = self.encoded();
        bytes.get(group_len(bytes) + 1..).unwrap_or_default()
    }

    /// Bytes of the encoding: what the key costs of the key budget.
    pub fn encoded_len(&self) -> usize {
        self.encoded().len()
    }

    /// The encoding; its order is the order of keys.
    pub(crate) fn encoded(&self) -> &[u8] {
        match &self.0 {
            Form::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Form::Shared(bytes) => bytes,
        }
    }

    /// The encoded group, without its terminator.
    pub(crate) fn encoded_group(&self) -> &[u8] {
        let bytes = self.encoded();
        &bytes[..group_len(bytes)]
    }

    /// The first key of the group this key is in; it also names the group.
    pub(crate) fn group_key(&self) -> Key {
        let bytes = self.encoded();
        Self::from_encoded(&bytes[..(group_len(bytes) + 1).min(bytes.len())])
    }

    /// A key from its encoding.
    pub(crate) fn from_encoded(encoded: &[u8]) -> Self {
        if encoded.len() > INLINE_BYTES {
            return Self(Form::Shared(encoded.into()));
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..encoded.len()].copy_from_slice(encoded);
        Self(Form::Inline { len: encoded.len() as u8, bytes })
    }

    /// Heap bytes this key holds, for the account of the proxy's memory.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Inline { .. } => 0,
            Form::Shared(bytes) => bytes.len() + 16,
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.encoded() == other.encoded()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.encoded().cmp(other.encoded())
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.encoded().hash(state);
    }
}

/// Keys are user data: `Debug` says how long one is and nothing else, so that no log holds one.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.encoded().len())
    }
}

/// A stretch of the key order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange {
    /// The first key inside.
    start: Key,
    /// The first key outside; `None` when the range has no upper end.
    end: Option<Key>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self { start: Key::from_encoded(&[]), end: None }
    }

    /// Exactly one key.
    pub fn key(key: &Key) -> Self {
        let mut after = Buffer::from_slice(key.encoded());
        after.push(0);
        Self { start: key.clone(), end: Some(Key::from_encoded(&after)) }
    }

    /// Every member of one group.
    pub fn group(group: &[u8]) -> Self {
        Self::members(group, Bound::Unbounded, Bound::Unbounded)
    }

    /// The members of one group between two bounds.
    pub fn members(group: &[u8], from: Bound<&[u8]>, to: Bound<&[u8]>) -> Self {
        let start = match from {
            Bound::Unbounded => Key::new(group, &[]),
            Bound::Included(member) => Key::new(group, member),
            Bound::Excluded(member) => successor(group, member),
        };
        let end = match to {
            Bound::Unbounded => after_group(group),
            Bound::Included(member) => successor(group, member),
            Bound::Excluded(member) => Key::new(group, member),
        };
        Self { start, end: Some(end) }
    }

    /// The members of one group that start with `prefix`.
    pub fn members_with_prefix(group: &[u8], prefix: &[u8]) -> Self {
        let start = Key::new(group, prefix);
        let end = match next_prefix(prefix) {
            Some(next) => Key::new(group, &next),
            None => after_group(group),
        };
        Self { start, end: Some(end) }
    }

    /// Every member of every group whose name starts with `prefix`.
    pub fn groups_with_prefix(prefix: &[u8]) -> Self {
        let mut encoded = Buffer::new();
        encode_group(prefix, &mut encoded);
        let end = next_prefix(&encoded).map(|next| Key::from_encoded(&next));
        Self { start: Key::from_encoded(&encoded), end }
    }

    /// Every key from this one on.
    pub(crate) fn from(key: &Key) -> Self {
        Self { start: key.clone(), end: None }
    }

    /// From `from` (inside) to `to` (outside), whatever their groups.
    pub fn between(from: &Key, to: &Key) -> Self {
        Self { start: from.clone(), end: Some(to.clone()) }
    }

    /// The first key inside.
    pub(crate) fn start(&self) -> &Key {
        &self.start
    }

    /// The part of this range after `key`: how a scan goes on from where it stopped.
    pub fn after(&self, key: &Key) -> Self {
        let next = Self::key(key).end.unwrap_or_else(|| key.clone());
        Self { start: next.max(self.start.clone()), end: self.end.clone() }
    }

    /// The part of this range before `key`: how a scan in reverse goes on.
    pub fn before(&self, key: &Key) -> Self {
        let end = match &self.end {
            Some(end) => end.min(key).clone(),
            None => key.clone(),
        };
        Self { start: self.start.clone(), end: Some(end) }
    }

    /// The part that a scan has seen which stopped at `last`; all of it if it did not stop.
    pub(crate) fn up_to(&self, last: Option<&Key>, reverse: bool) -> Self {
        match last {
            None => self.clone(),
            Some(last) if reverse => Self { start: last.clone(), end: self.end.clone() },
            Some(last) => Self { start: self.start.clone(), end: Self::key(last).end },
        }
    }

    /// Whether `key` lies inside.
    pub fn contains(&self, key: &Key) -> bool {
        *key >= self.start && self.end.as_ref().is_none_or(|end| key < end)
    }

    /// Whether no key can lie inside.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// The bounds, for ordered maps. Never inverted.
    pub(crate) fn bounds(&self) -> (Bound<&Key>, Bound<&Key>) {
        let end = match &self.end {
            Some(end) => Bound::Excluded(end.max(&self.start)),
            None => Bound::Unbounded,
        };
        (Bound::Included(&self.start), end)
    }

    /// The key that names the group, if the whole range lies in one.
    pub(crate) fn single_group(&self) -> Option<Key> {
        let start = self.start.encoded();
        let len = group_len(start);
        let end = self.end.as_ref()?.encoded();
        let inside = len < start.len() && {
            let ceiling_of_group = end.len() == len + 1 && end[len] == TERMINATOR + 1;
            end.len() > len && end[..len] == start[..len] && (end[len] == 0 || ceiling_of_group)
        };
        inside.then(|| self.start.group_key())
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyRange({:?}..{:?})", self.start, self.end)
    }
}

fn encode_group(group: &[u8], out: &mut Buffer) {
    for &byte in group {
        if byte <= ESCAPE {
            out.push(ESCAPE);
            out.push(byte + 1);
        } else {
            out.push(byte);
        }
    }
}

fn decode_group(encoded: &[u8]) -> Cow<'_, [u8]> {
    if !encoded.contains(&ESCAPE) {
        return Cow::Borrowed(encoded);
    }
    let mut group = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.iter();
    while let Some(&byte) = bytes.next() {
        let plain =
            if byte == ESCAPE { bytes.next().map_or(0, |b| b.saturating_sub(1)) } else { byte };
        group.push(plain);
    }
    Cow::Owned(group)
}

fn group_len(encoded: &[u8]) -> usize {
    encoded.iter().position(|&b| b == TERMINATOR).unwrap_or(encoded.len())
}

/// The first key after every member of `group`.
fn after_group(group: &[u8]) -> Key {
    let mut encoded = Buffer::new();
    encode_group(group, &mut encoded);
    encoded.push(TERMINATOR + 1);
    Key::from_encoded(&encoded)
}

/// The first key after `member` in `group`.
fn successor(group: &[u8], member: &[u8]) -> Key {
    let mut encoded = Buffer::from_slice(Key::new(group, member).encoded());
    encoded.push(0);
    Key::from_encoded(&encoded)
}

/// The first byte string after everything that starts with `prefix`; `None` if there is none.
fn next_prefix(prefix: &[u8]) -> Option<Buffer> {
    let keep = prefix.iter().rposition(|&b| b < u8::MAX)?;
    let mut next = Buffer::from_slice(&prefix[..=keep]);
    next[keep] += 1;
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [&[u8]; 12] = [
        b"",
        b"\0",
        b"\0\0",
        b"\0\x01",
        b"\x01",
        b"\x01\x01",
        b"\x02",
        b"a",
        b"a\0",
        b"ab",
        b"\xff",
        b"\xff\xff",
    ];

    fn all() -> Vec<(&'static [u8], &'static [u8])> {
        PARTS.iter().flat_map(|g| PARTS.iter().map(move |m| (*g, *m))).collect()
    }

    #[test]
    fn the_encoding_keeps_order_and_parts() {
        for a in all() {
            let key = Key::new(a.0, a.1);
            assert_eq!((&*key.group(), key.member()), a);
            for b in all() {
                assert_eq!(key.cmp(&Key::new(b.0, b.1)), a.cmp(&b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn ranges_hold_what_they_say() {
        for g in PARTS {
            for m in PARTS {
                let whole = KeyRange::group(g);
                let prefix = KeyRange::members_with_prefix(g, m);
                let groups = KeyRange::groups_with_prefix(m);
                let after = KeyRange::members(g, Bound::Excluded(m), Bound::Unbounded);
                let upto = KeyRange::members(g, Bound::Unbounded, Bound::Included(m));
                let group_name = Some(Key::new(g, b""));
                assert_eq!(whole.single_group(), group_name);
                assert_eq!(prefix.single_group(), group_name);
                assert_eq!(after.single_group(), group_name);
                for x in all() {
                    let key = Key::new(x.0, x.1);
                    assert_eq!(whole.contains(&key), x.0 == g);
                    assert_eq!(prefix.contains(&key), x.0 == g && x.1.starts_with(m));
                    assert_eq!(groups.contains(&key), x.0.starts_with(m));
                    assert_eq!(after.contains(&key), x.0 == g && x.1 > m);
                    assert_eq!(upto.contains(&key), x.0 == g && x.1 <= m);
                    assert_eq!(KeyRange::key(&key).contains(&Key::new(g, m)), x == (g, m));
                }
            }
        }
        assert_eq!(KeyRange::all().single_group(), None);
        assert_eq!(KeyRange::groups_with_prefix(b"a").single_group(), None);
    }

    #[test]
    fn keys_stay_small() {
        assert_eq!(std::mem::size_of::<Key>(), 24);
        assert!(!format!("{:?}", Key::new(b"secret", b"name")).contains("secret"));
    }
}
