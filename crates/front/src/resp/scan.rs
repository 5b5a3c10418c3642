//! Walking over names: `SCAN`, `KEYS`, `DBSIZE`, `RANDOMKEY`, and cursors.
//!
//! The order walked is that of the directory, by type and then by name, which no insertion or
//! deletion disturbs: whatever is there during the whole walk is met exactly once. A cursor is a
//! number; the position it stands for is remembered here, not derived from it. When a position
//! has been forgotten (there are too many, or the proxy was started anew) the walk starts again:
//! elements may come twice, which Redis allows, and none is missed, which it promises.

use super::keyspace::{HAS_DEADLINE, Keyspace, Outcome};
use super::layout::{Group, Kind, Role, generation_prefix, shared_group, split_suffix};
use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_txn::{Key, KeyRange};
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::ops::Bound;

/// Positions remembered, of all clients together.
const POSITIONS_MAX: usize = 100_000;
/// Cursors stay below what clients that keep numbers as doubles can hold.
const CURSOR_BITS: u32 = 53;

type Numbers = HashMap<u64, Bytes, BuildHasherDefault<DefaultHasher>>;

/// The positions that cursors stand for.
#[derive(Debug, Default)]
pub struct Cursors(Mutex<Positions>);

#[derive(Debug, Default)]
struct Positions {
    by_number: Numbers,
    /// Oldest first.
    order: VecDeque<u64>,
}

impl Cursors {
    /// The cursor of a position: the same for the same position, so that a program that is run
    /// twice answers the same.
    pub fn number(&self, position: &[u8]) -> u64 {
        let mut positions = self.0.lock();
        let mut number = hash(position);
        loop {
            match positions.by_number.get(&number) {
                Some(known) if known == position => return number,
                Some(_) => number = (number + 1) & ((1 << CURSOR_BITS) - 1) | 1,
                None => break,
            }
        }
        positions.by_number.insert(number, Bytes::copy_from_slice(position));
        positions.order.push_back(number);
        if positions.order.len() > POSITIONS_MAX
            && let Some(oldest) = positions.order.pop_front()
        {
            positions.by_number.remove(&oldest);
        }
        number
    }

    /// The position of a cursor, if it is remembered.
    pub fn position(&self, number: u64) -> Option<Bytes> {
        let positions = self.0.lock();
        positions.by_number.get(&number).cloned()
    }
}

/// Odd, so never the zero that ends a walk.
fn hash(position: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    position.hash(&mut hasher);
    hasher.finish() >> (64 - CURSOR_BITS) | 1
}

/// A name met on a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub name: Bytes,
    /// Its type.
    pub kind: Kind,
}

/// Where a walk over names stands: the type, and the group (or, for strings, the member) that was
/// seen last, as bytes that a cursor can stand for.
type Position = Bytes;

impl Keyspace<'_, '_> {
    /// The next names after `position`, up to about `limit` of them looked at, expired ones left
    /// out; and where to go on, or `None` at the end.
    pub fn names(
        &mut self,
        position: Option<Position>,
        limit: usize,
    ) -> Outcome<(Vec<Name>, Option<Position>)> {
        let mut found = Vec::new();
        let mut looked_at = 0;
        let (mut role, mut last) = match position.as_deref() {
            Some([b'S', rest @ ..]) => (Role::Strings, Some(Group::from_slice(rest))),
            Some([b'H', rest @ ..]) => (Role::Fields, Some(Group::from_slice(rest))),
            Some([b'Z', rest @ ..]) => (Role::Members, Some(Group::from_slice(rest))),
            _ => (Role::Strings, None),
        };
        loop {
            last = match role {
                Role::Strings => self.strings_after(last, limit, &mut looked_at, &mut found)?,
                _ => self.collections_after(role, last, limit, &mut looked_at, &mut found)?,
            };
            if let Some(last) = last {
                let position = [&[role as u8][..], &last].concat();
                return Ok((found, Some(position.into())));
            }
            role = match role {
                Role::Strings => Role::Fields,
                Role::Fields => Role::Members,
                _ => return Ok((found, None)),
            };
        }
    }

    /// Strings after `last`; the last one looked at, or `None` when there are no more.
    fn strings_after(
        &mut self,
        last: Option<Group>,
        limit: usize,
        looked_at: &mut usize,
        found: &mut Vec<Name>,
    ) -> Outcome<Option<Group>> {
        let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let group = shared_group(self.generation, Role::Strings);
        let wanted = limit.saturating_sub(*looked_at).max(1);
        let keys =
            self.view.scan(&KeyRange::members(&group, from, Bound::Unbounded), wanted, false)?;
        *looked_at += keys.len();
        for (key, stat) in &keys {
            let name = key.member();
            if stat.attr != HAS_DEADLINE || !self.is_expired(name)? {
                found.push(Name { name: Bytes::copy_from_slice(name), kind: Kind::String });
            }
        }
        let full = keys.len() == wanted;
        Ok(keys.last().filter(|_| full).map(|(key, _)| Group::from_slice(key.member())))
    }

    /// The same for hashes or sorted sets, of which `last` is the suffix of the last group.
    fn collections_after(
        &mut self,
        role: Role,
        mut last: Option<Group>,
        limit: usize,
        looked_at: &mut usize,
        found: &mut Vec<Name>,
    ) -> Outcome<Option<Group>> {
        let kind = if role == Role::Fields { Kind::Hash } else { Kind::SortedSet };
        while *looked_at < limit {
            let Some(suffix) = self.next_collection(role, last.as_deref())? else {
                return Ok(None);
            };
            *looked_at += 1;
            if let Some((name, incarnation)) = split_suffix(&suffix)
                && self.incarnation(name)? == incarnation
                && !self.is_expired(name)?
            {
                found.push(Name { name: Bytes::copy_from_slice(name), kind });
            }
            last = Some(suffix);
        }
        // Nothing looked at here yet: an empty suffix stands before every group.
        Ok(Some(last.unwrap_or_default()))
    }

    /// The suffix of the first group of `role` after the one of `last`.
    fn next_collection(&mut self, role: Role, last: Option<&[u8]>) -> Outcome<Option<Group>> {
        let prefix = shared_group(self.generation, role);
        let mut from = prefix.clone();
        if let Some(last) = last.filter(|last| !last.is_empty()) {
            from.extend_from_slice(last);
            from.push(0); // the first name of a group after it
        }
        let mut end = generation_prefix(self.generation);
        end.push(role as u8 + 1);
        let range = KeyRange::between(&Key::new(&from, b""), &Key::new(&end, b""));
        let first = self.view.scan(&range, 1, false)?;
        Ok(first.first().map(|(key, _)| Group::from_slice(&key.group()[prefix.len()..])))
    }

    fn is_expired(&mut self, name: &[u8]) -> Outcome<bool> {
        let key = Key::new(&shared_group(self.generation, Role::Deadlines), name);
        let now_ms = self.now_ms;
        Ok(self.view.stat(&key)?.is_some_and(|stat| stat.attr < now_ms))
    }

    /// How many keys exist.
    pub fn size(&mut self) -> Outcome<usize> {
        let strings = self.view.count(&shared_group(self.generation, Role::Strings))? as usize;
        let deadlines = shared_group(self.generation, Role::Deadlines);
        let mut expired = 0;
        for (key, stat) in self.view.scan(&KeyRange::group(&deadlines), usize::MAX, false)? {
            if stat.attr < self.now_ms {
                let string = self.string_key(key.member());
                expired += usize::from(self.view.stat(&string)?.is_some());
            }
        }
        let (collections, _) = self.names(Some(Bytes::from_static(b"H")), usize::MAX)?;
        Ok(strings - expired.min(strings) + collections.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_one_position() {
        let cursors = Cursors::default();
        let numbers: Vec<u64> = (0..1000u32).map(|i| cursors.number(&i.to_be_bytes())).collect();
        for (i, number) in (0..1000u32).zip(&numbers) {
            assert!(*number != 0 && *number < 1 << CURSOR_BITS);
            assert_eq!(cursors.position(*number).as_deref(), Some(&i.to_be_bytes()[..]));
            assert_eq!(cursors.number(&i.to_be_bytes()), *number);
        }
        assert_eq!(cursors.position(2), None);
    }

    #[test]
    fn old_positions_are_forgotten() {
        let cursors = Cursors::default();
        let first = cursors.number(b"first");
        for i in 0..POSITIONS_MAX as u64 {
            cursors.number(&i.to_be_bytes());
        }
        assert_eq!(cursors.position(first), None);
    }
}
