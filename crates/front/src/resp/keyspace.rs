//! Redis's keys as one program sees them: types, existence, expiry, and how a key goes away.
//!
//! Everything here runs inside a program on the newest state, so what a command decides on (does
//! the key exist, of what type, has it expired) holds at the instant its writes take effect.
//! Expiry is logical: a key whose deadline has passed is absent to every command, at once. A
//! writer that meets what it left behind clears it; otherwise the janitor does.

use super::layout::{
    Group, Kind, Role, collection_group, collection_suffix, dead_generations, generation,
    generation_key, order_member, shared_group, split_order,
};
use super::refusal::{Advisor, refusal};
use super::reply::Reply;
use super::scan::Cursors;
use bytes::Bytes;
use fogbank_txn::{Error, Key, KeyRange, Pause, Stat, View};
use std::sync::Arc;

/// A collection of at most this many records is deleted record by record; a larger one is retired
/// as a whole and left to the janitor, unless there is no room for the note of that.
const DELETED_AT_ONCE_MAX: usize = 16;

/// Bytes of the longest value of Redis, in whose words a longer one is refused.
const REDIS_VALUE_BYTES_MAX: usize = 512 << 20;

/// The attribute of a string that has a deadline; zero for one that has none.
pub const HAS_DEADLINE: u64 = 1;

/// Why a command stops before its reply.
#[derive(Debug)]
pub enum Halt {
    /// The program is to be run again, or can not be done.
    Pause(Pause),
    /// The command's answer is this error; nothing was changed.
    Reply(Reply),
}

impl From<Pause> for Halt {
    fn from(pause: Pause) -> Self {
        Halt::Pause(pause)
    }
}

/// What a command gives.
pub type Outcome<T = Reply> = Result<T, Halt>;

/// Ends a command with the generic error `text`.
pub fn fail<T>(text: impl AsRef<[u8]>) -> Outcome<T> {
    Err(Halt::Reply(Reply::error(text)))
}

fn wrong_type<T>() -> Outcome<T> {
    let text = "Operation against a key holding the wrong kind of value";
    Err(Halt::Reply(Reply::error_with_code("WRONGTYPE", text)))
}

/// What every program of one server shares.
#[derive(Debug)]
pub struct Bounds {
    /// Bytes of the longest value that the store holds.
    pub value_bytes_max: usize,
    /// Positions of scans under way.
    pub cursors: Cursors,
    /// Who knows how a store is made that holds more.
    pub advisor: Option<Arc<dyn Advisor>>,
}

impl Bounds {
    /// Who knows how a store is made that holds more.
    pub fn advisor(&self) -> Option<&dyn Advisor> {
        self.advisor.as_deref()
    }
}

/// A name's state: what is there, and whether it still counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Located {
    /// The type of what is there, expired or not.
    present: Option<Kind>,
    /// The string's length.
    string: Option<Stat>,
    /// When it expires.
    pub deadline_ms: Option<u64>,
    /// Whether the deadline has passed.
    pub expired: bool,
    /// Which life of the name as a collection this is.
    pub incarnation: u32,
}

impl Located {
    /// The type, if the key exists.
    pub fn kind(&self) -> Option<Kind> {
        self.present.filter(|_| !self.expired)
    }

    /// Whether what is there, expired or not, is a string.
    pub fn is_string(&self) -> bool {
        self.present == Some(Kind::String)
    }

    /// Length of the string; zero if there is none.
    pub fn string_len(&self) -> usize {
        self.string.filter(|_| !self.expired).map_or(0, |stat| stat.len as usize)
    }
}

/// The groups of one collection.
#[derive(Debug, Clone)]
pub struct Collection {
    /// Its fields or members.
    pub members: Group,
    /// A sorted set's order; empty for a hash.
    order: Group,
}

impl Collection {
    /// The key of one field or member.
    pub fn key(&self, member: &[u8]) -> Key {
        Key::new(&self.members, member)
    }

    /// The members of a sorted set in order of score.
    pub fn order(&self) -> &[u8] {
        &self.order
    }
}

/// The keys of the current generation, at one instant.
pub struct Keyspace<'a, 'v> {
    /// The transaction's view.
    pub view: &'a mut View<'v>,
    /// What all programs share.
    pub bounds: &'a Bounds,
    /// The generation; `FLUSHDB` within this program changes it.
    pub generation: u32,
    /// Unix milliseconds, the same for the whole program.
    pub now_ms: u64,
}

impl<'a, 'v> Keyspace<'a, 'v> {
    /// The keyspace under `view`.
    pub fn open(view: &'a mut View<'v>, bounds: &'a Bounds) -> Outcome<Self> {
        let generation = view.stat(&generation_key())?.map_or(0, |stat| stat.attr as u32);
        let now_ms = view.now_ms();
        Ok(Self { view, bounds, generation, now_ms })
    }

    /// The key of a string.
    pub fn string_key(&self, name: &[u8]) -> Key {
        self.shared_key(Role::Strings, name)
    }

    fn shared_key(&self, role: Role, name: &[u8]) -> Key {
        Key::new(&shared_group(self.generation, role), name)
    }

    /// The group of `name` as `role` in its incarnation.
    pub fn group(&self, role: Role, name: &[u8], incarnation: u32) -> Group {
        collection_group(self.generation, role, name, incarnation)
    }

    /// What `name` is. `likely` is looked for first: a name has one type.
    pub fn locate(&mut self, name: &[u8], likely: Kind) -> Outcome<Located> {
        let mut located = Located::default();
        if likely == Kind::String {
            self.locate_string(name, &mut located)?;
        }
        if located.present.is_none() {
            self.locate_collection(name, likely, &mut located)?;
        }
        if located.present.is_none() && likely != Kind::String {
            self.locate_string(name, &mut located)?;
        }
        // A string's own attribute says whether there is a deadline to look up.
        if located.string.map_or(located.present.is_some(), |stat| stat.attr == HAS_DEADLINE) {
            let deadline = self.view.stat(&self.shared_key(Role::Deadlines, name))?;
            located.deadline_ms = deadline.map(|stat| stat.attr);
            located.expired = located.deadline_ms.is_some_and(|at| at < self.now_ms);
        }
        Ok(located)
    }

    fn locate_string(&mut self, name: &[u8], located: &mut Located) -> Outcome<()> {
        located.string = self.view.stat(&self.string_key(name))?;
        located.present = located.string.map(|_| Kind::String);
        Ok(())
    }

    fn locate_collection(&mut self, name: &[u8], likely: Kind, l: &mut Located) -> Outcome<()> {
        l.incarnation = self.incarnation(name)?;
        let (hash, set) = ((Role::Fields, Kind::Hash), (Role::Members, Kind::SortedSet));
        for (role, kind) in if likely == Kind::SortedSet { [set, hash] } else { [hash, set] } {
            if self.view.count(&self.group(role, name, l.incarnation))? > 0 {
                l.present = Some(kind);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Which life of the name as a collection this is.
    pub fn incarnation(&mut self, name: &[u8]) -> Outcome<u32> {
        let key = self.shared_key(Role::Incarnations, name);
        Ok(self.view.stat(&key)?.map_or(0, |stat| stat.attr as u32))
    }

    /// The type of `name`, if it exists.
    pub fn kind(&mut self, name: &[u8]) -> Outcome<Option<Kind>> {
        Ok(self.locate(name, Kind::String)?.kind())
    }

    /// `name` for a command that reads whatever is there.
    pub fn read_any(&mut self, name: &[u8]) -> Outcome<Located> {
        self.locate(name, Kind::String)
    }

    /// `name` for a command that reads a `kind`: whether it exists, and an error if it is
    /// something else.
    pub fn read(&mut self, name: &[u8], kind: Kind) -> Outcome<Located> {
        let located = self.locate(name, kind)?;
        match located.kind() {
            Some(other) if other != kind => wrong_type(),
            _ => Ok(located),
        }
    }

    /// As [`Keyspace::read`], for a command that writes: what an expired key left is cleared.
    pub fn write(&mut self, name: &[u8], kind: Kind) -> Outcome<Located> {
        let located = self.read(name, kind)?;
        self.settle(name, located, kind)
    }

    /// `name` for a command that replaces or removes whatever is there.
    pub fn settled(&mut self, name: &[u8]) -> Outcome<Located> {
        let located = self.locate(name, Kind::String)?;
        self.settle(name, located, Kind::String)
    }

    fn settle(&mut self, name: &[u8], located: Located, likely: Kind) -> Outcome<Located> {
        if !located.expired {
            return Ok(located);
        }
        self.remove(name, &located)?;
        self.locate(name, likely)
    }

    /// The value of a string that exists.
    pub fn value(&mut self, name: &[u8]) -> Outcome<Bytes> {
        let record = self.view.get(&self.string_key(name))?;
        Ok(record.map(|record| record.value).unwrap_or_default())
    }

    /// Writes a string over nothing or over a string; its deadline stays.
    pub fn put_string(&mut self, name: &[u8], located: &Located, value: Bytes) -> Outcome<()> {
        self.check_len(value.len())?;
        let attr = located.string.map_or(0, |stat| stat.attr);
        Ok(self.view.put(&self.string_key(name), value, attr)?)
    }

    /// Refuses a value that is longer than the store holds.
    pub fn check_len(&self, len: usize) -> Outcome<()> {
        if len > REDIS_VALUE_BYTES_MAX {
            return fail("string exceeds maximum allowed size (proto-max-bulk-len)");
        }
        let limit = self.bounds.value_bytes_max;
        if len > limit {
            let error = Error::ValueTooLong { bytes: len, limit };
            return Err(Halt::Reply(refusal(&error, self.bounds.advisor())));
        }
        Ok(())
    }

    /// Replaces whatever `name` is by a string without a deadline.
    pub fn replace_with_string(&mut self, name: &[u8], located: &Located, v: Bytes) -> Outcome<()> {
        self.check_len(v.len())?;
        if matches!(located.present, Some(Kind::Hash | Kind::SortedSet)) {
            self.remove(name, located)?;
        } else {
            self.delete_deadline(name, located)?;
        }
        Ok(self.view.put(&self.string_key(name), v, 0)?)
    }

    /// Sets when a key that exists expires.
    pub fn set_deadline(&mut self, name: &[u8], at_ms: u64) -> Outcome<()> {
        let string = self.string_key(name);
        if self.view.stat(&string)?.is_some_and(|stat| stat.attr != HAS_DEADLINE) {
            self.view.set_attr(&string, HAS_DEADLINE)?;
        }
        // That it will go makes room, so a full store takes it.
        let key = self.shared_key(Role::Deadlines, name);
        Ok(self.view.put_making_room(&key, at_ms)?)
    }

    /// Makes a key stay; whether it had a deadline.
    pub fn clear_deadline(&mut self, name: &[u8], located: &Located) -> Outcome<bool> {
        if located.is_string() && located.deadline_ms.is_some() {
            self.view.set_attr(&self.string_key(name), 0)?;
        }
        self.delete_deadline(name, located)
    }

    fn delete_deadline(&mut self, name: &[u8], located: &Located) -> Outcome<bool> {
        if located.deadline_ms.is_none() {
            return Ok(false);
        }
        Ok(self.view.delete(&self.shared_key(Role::Deadlines, name))?)
    }

    /// Removes whatever is there, expired or not.
    pub fn remove(&mut self, name: &[u8], located: &Located) -> Outcome<()> {
        match located.present {
            None => return Ok(()),
            Some(Kind::String) => {
                self.view.delete(&self.string_key(name))?;
            }
            Some(kind) => self.remove_collection(name, kind, located.incarnation)?,
        }
        self.delete_deadline(name, located)?;
        Ok(())
    }

    fn remove_collection(&mut self, name: &[u8], kind: Kind, incarnation: u32) -> Outcome<()> {
        let roles: &[Role] =
            if kind == Kind::Hash { &[Role::Fields] } else { &[Role::Members, Role::Order] };
        let group = self.group(roles[0], name, incarnation);
        if self.view.count(&group)? as usize * roles.len() > DELETED_AT_ONCE_MAX {
            return self.retire(name, roles, incarnation);
        }
        for role in roles {
            self.delete_all(&KeyRange::group(&self.group(*role, name, incarnation)))?;
        }
        Ok(())
    }

    /// Starts the next incarnation of `name`; the records of this one go in the epochs after this.
    /// Those who find the store full meanwhile wait. The note is for the janitor, after a stop.
    fn retire(&mut self, name: &[u8], roles: &[Role], incarnation: u32) -> Outcome<()> {
        let Some(next) = incarnation.checked_add(1) else {
            return fail("this key has been deleted too often");
        };
        let note = |role: &Role| {
            let mut member = Group::from_slice(&[*role as u8]);
            member.extend_from_slice(&collection_suffix(name, incarnation));
            self.shared_key(Role::Retired, &member)
        };
        let incarnations = self.shared_key(Role::Incarnations, name);
        let mut keys: Vec<Key> = roles.iter().map(note).collect();
        keys.push(incarnations.clone());
        let ranges = roles.iter().map(|role| self.group(*role, name, incarnation));
        let ranges: Vec<KeyRange> = ranges.map(|group| KeyRange::group(&group)).collect();
        if !self.view.may_make_room(&keys) {
            return ranges.iter().try_for_each(|range| self.delete_all(range));
        }
        for (key, range) in keys.iter().zip(&ranges) {
            self.view.put_making_room(key, 0)?;
            self.view.forget(range)?;
        }
        Ok(self.view.put_making_room(&incarnations, u64::from(next))?)
    }

    /// Deletes the records of a range one by one: that takes no room, and as many epochs as it
    /// needs.
    fn delete_all(&mut self, range: &KeyRange) -> Outcome<()> {
        for (key, _) in self.view.scan(range, usize::MAX, false)? {
            self.view.delete(&key)?;
        }
        Ok(())
    }

    /// Starts the next generation: every key is gone.
    pub fn flush(&mut self) -> Outcome<()> {
        let Some(next) = self.generation.checked_add(1) else {
            return fail("the store has been flushed too often");
        };
        if !self.view.may_make_room(&[generation_key()]) {
            return self.delete_all(&generation(self.generation, next));
        }
        self.view.put_making_room(&generation_key(), u64::from(next))?;
        self.generation = next;
        // Those who find the store full meanwhile wait.
        Ok(self.view.forget(&dead_generations(next))?)
    }

    /// The hash or sorted set that `name` is, or would be.
    pub fn collection(&self, name: &[u8], kind: Kind, located: &Located) -> Collection {
        let group = |role| self.group(role, name, located.incarnation);
        match kind {
            Kind::SortedSet => {
                Collection { members: group(Role::Members), order: group(Role::Order) }
            }
            _ => Collection { members: group(Role::Fields), order: Group::new() },
        }
    }

    /// Called after members were deleted: a collection without any does not exist, and so has no
    /// deadline.
    pub fn after_deletion(&mut self, name: &[u8], c: &Collection, l: &Located) -> Outcome<()> {
        if l.deadline_ms.is_some() && self.view.count(&c.members)? == 0 {
            self.delete_deadline(name, l)?;
        }
        Ok(())
    }

    /// A member's score.
    pub fn score(&mut self, set: &Collection, member: &[u8]) -> Outcome<Option<f64>> {
        Ok(self.view.stat(&set.key(member))?.map(|stat| f64::from_bits(stat.attr)))
    }

    /// Gives a member a score in place of the one it had.
    pub fn put_score(
        &mut self,
        set: &Collection,
        member: &[u8],
        old: Option<f64>,
        new: f64,
    ) -> Outcome<()> {
        let new = new + 0.0; // minus zero sorts, and prints, as zero
        if let Some(old) = old {
            self.view.delete(&Key::new(&set.order, &order_member(old, member)))?;
        }
        self.view.put(&Key::new(&set.order, &order_member(new, member)), Bytes::new(), 0)?;
        Ok(self.view.put(&set.key(member), Bytes::new(), new.to_bits())?)
    }

    /// Takes a member out.
    pub fn delete_score(&mut self, set: &Collection, member: &[u8], score: f64) -> Outcome<()> {
        self.view.delete(&Key::new(&set.order, &order_member(score, member)))?;
        self.view.delete(&set.key(member))?;
        Ok(())
    }

    /// Up to `limit` members of a sorted set within `range` of its order.
    pub fn ordered(&mut self, range: &KeyRange, limit: usize, reverse: bool) -> Outcome<Scores> {
        let keys = self.view.scan(range, limit, reverse)?;
        let member = |(key, _): &(Key, Stat)| {
            split_order(key.member()).map(|(score, m)| (Bytes::copy_from_slice(m), score))
        };
        Ok(keys.iter().filter_map(member).collect())
    }
}

/// Members with their scores, in order.
pub type Scores = Vec<(Bytes, f64)>;
