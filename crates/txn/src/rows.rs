//! The rows of an epoch: every record somebody has touched in it.
//!
//! Rows are numbered in the order of first touch; nothing iterates a hash table, so a seed repeats
//! to the last bit. Rows with writes are also indexed in key order: a scan merges them with the
//! directory. Groups with writes keep how far their newest count is from the committed one, and
//! whose writes in them may still abort, so `count` goes through neither records nor writes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::directory::{Directory, Entry};
use crate::key::{Key, KeyRange};
use crate::merge::{Merge, Ordered};
use crate::row::{Base, Load, Row};
use crate::version::{Change, Ts, Version};

/// Number of a row within its epoch.
pub(crate) type RowId = u32;

/// How the writes of an epoch bear on the count of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupCount {
    /// Newest count less committed count.
    pub newest: i64,
    /// Who has written in the group and may still abort, and how many versions.
    unsettled: BTreeMap<Ts, u32>,
}

/// What a change to a row does to the versions that may still be taken back.
enum Unsettled {
    /// Nothing.
    Same,
    /// One more, of this writer.
    Wrote(Ts),
    /// One less of each of these.
    Gone(SmallVec<[Ts; 1]>),
}

impl GroupCount {
    /// Who has written in the group and may still abort.
    pub(crate) fn unsettled_writers(&self) -> impl Iterator<Item = Ts> {
        self.unsettled.keys().copied()
    }

    fn note(&mut self, unsettled: Unsettled) {
        match unsettled {
            Unsettled::Same => {}
            Unsettled::Wrote(ts) => *self.unsettled.entry(ts).or_default() += 1,
            Unsettled::Gone(writers) => writers.into_iter().for_each(|ts| {
                let versions = self.unsettled.get_mut(&ts).map_or(0, |versions| {
                    *versions = versions.saturating_sub(1);
                    *versions
                });
                if versions == 0 {
                    self.unsettled.remove(&ts);
                }
            }),
        }
    }
}

/// Every record touched in an epoch.
#[derive(Default)]
pub(crate) struct Rows {
    by_key: HashMap<Key, RowId>,
    all: Vec<Row>,
    /// Numbers of rows that were forgotten.
    vacant: Vec<RowId>,
    written: BTreeMap<Key, RowId>,
    /// Values of committed records that an earlier epoch has read.
    carried: HashMap<Key, Bytes>,
    /// Rows that have had a version that is not staged.
    changed: BTreeSet<RowId>,
    groups: HashMap<Key, GroupCount>,
}

impl Rows {
    /// The row of `key`, made on first touch.
    pub(crate) fn touch(&mut self, directory: &Directory, key: &Key) -> RowId {
        if let Some(&id) = self.by_key.get(key) {
            return id;
        }
        let base = directory.get(key).map(|entry| base_of(directory, entry));
        let mut row = Row::new(key.clone(), base);
        if let Some(value) = self.carried.get(key).filter(|_| row.load == Load::Cold) {
            row.load = Load::Here(value.clone());
        }
        let id = match self.vacant.pop() {
            Some(id) => {
                self.all[id as usize] = row;
                id
            }
            None => {
                self.all.push(row);
                (self.all.len() - 1) as RowId
            }
        };
        self.by_key.insert(key.clone(), id);
        id
    }

    /// The values that the next epoch begins with, as they are once this one is committed, whose
    /// directory is given: those of the rows that were `read`, and if it `keeps` them those that
    /// this one began with.
    pub(crate) fn carry_on(
        &self,
        directory: &Directory,
        read: impl Iterator<Item = RowId>,
        keeps: bool,
    ) -> HashMap<Key, Bytes> {
        let begun_with = self.carried.iter().filter(|_| keeps);
        let begun_with = begun_with.map(|(key, value)| (key, Some(value)));
        let read = read.map(|id| (&self.get(id).key, None));
        let is_there = |key: &Key| directory.get(key).is_some();
        let now = |(key, value): (&Key, Option<&Bytes>)| {
            let row = self.by_key.get(key).map(|&id| self.get(id));
            let value = match row {
                Some(row) if row.last_settled().is_some() => {
                    row.settled_value().into_record().ok().flatten().map(|record| record.value)
                }
                Some(Row { load: Load::Here(value), .. }) => Some(value.clone()),
                Some(_) => None,
                None => value.cloned(),
            };
            Some((key.clone(), value.filter(|_| is_there(key))?))
        };
        begun_with.chain(read).filter_map(now).collect()
    }

    /// What the epoch begins with.
    pub(crate) fn begin_with(&mut self, carried: HashMap<Key, Bytes>) {
        self.carried = carried;
    }

    /// Forgets a row whose state the directory has and that no transaction can ask for any more.
    /// Epochs forget all of theirs together; only what has no epochs needs this.
    pub(crate) fn forget(&mut self, id: RowId) {
        let row = std::mem::replace(&mut self.all[id as usize], Row::new(Key::new(&[], &[]), None));
        self.by_key.remove(&row.key);
        self.changed.remove(&id);
        if row.indexed {
            self.written.remove(&row.key);
            let members = i64::from(row.stat_at(row.newest()).is_some());
            let members = members - i64::from(row.stat_at(0).is_some());
            if let Some(group) = self.groups.get_mut(&row.key.group_key()) {
                group.newest -= members;
            }
        }
        self.vacant.push(id);
    }

    /// How many rows there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// One row. Identifiers come from [`Rows::touch`] in the same epoch.
    pub(crate) fn get(&self, id: RowId) -> &Row {
        &self.all[id as usize]
    }

    /// One row.
    pub(crate) fn get_mut(&mut self, id: RowId) -> &mut Row {
        &mut self.all[id as usize]
    }

    /// Rows that may have versions that are not staged, in the order of first touch.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &Row> {
        self.changed.iter().map(|&id| self.get(id))
    }

    /// Makes scans look at this row.
    pub(crate) fn index(&mut self, id: RowId) {
        let row = &mut self.all[id as usize];
        if !row.indexed {
            row.indexed = true;
            self.written.insert(row.key.clone(), id);
        }
    }

    /// The keys of a range, in key order or against it: with what is committed, and the row if one
    /// may have been written in this epoch.
    pub(crate) fn merged<'a>(
        &'a self,
        directory: &'a Directory,
        range: &KeyRange,
        reverse: bool,
    ) -> Merge<'a, &'a Entry, &'a RowId> {
        let written = self.written.range::<Key, _>(range.bounds());
        let written: Ordered<'a, &'a RowId> =
            if reverse { Box::new(written.rev()) } else { Box::new(written) };
        Merge::new(directory.range(range, reverse), written, reverse)
    }

    /// Rows in a range that may have writes, in key order.
    pub(crate) fn written_in(&self, range: &KeyRange) -> impl Iterator<Item = RowId> {
        self.written.range::<Key, _>(range.bounds()).map(|(_, id)| *id)
    }

    /// How writes bear on the count of the group that `group` names, if there are any.
    pub(crate) fn group(&self, group: &Key) -> Option<&GroupCount> {
        self.groups.get(group)
    }

    /// Inserts the write of a transaction that may still abort.
    pub(crate) fn insert(&mut self, id: RowId, ts: Ts, change: Change) {
        let fresh = self.get(id).own(ts).is_none();
        self.alter(id, |row| {
            row.insert(ts, change);
            if fresh { Unsettled::Wrote(ts) } else { Unsettled::Same }
        });
    }

    /// Appends the write of a program at the newest timestamp.
    pub(crate) fn append(&mut self, id: RowId, version: Version, newest_active: Option<Ts>) {
        let (ts, settled) = (version.ts, version.settled);
        self.alter(id, |row| {
            row.append(version, newest_active);
            if settled { Unsettled::Same } else { Unsettled::Wrote(ts) }
        });
    }

    /// Takes the write of `ts` back.
    pub(crate) fn remove(&mut self, id: RowId, ts: Ts) {
        self.alter(id, |row| {
            row.remove(ts);
            Unsettled::Gone(SmallVec::from_buf([ts]))
        });
    }

    /// Takes back every write whose writer `has_fallen`.
    pub(crate) fn withdraw(&mut self, id: RowId, has_fallen: impl Fn(Ts) -> bool) {
        self.alter(id, |row| {
            let gone = row.writers().filter(|&ts| has_fallen(ts)).collect();
            row.withdraw(has_fallen);
            Unsettled::Gone(gone)
        });
    }

    /// The write of `ts` stands.
    pub(crate) fn settle(&mut self, id: RowId, ts: Ts) {
        self.alter(id, |row| {
            row.settle(ts);
            Unsettled::Gone(SmallVec::from_buf([ts]))
        });
    }

    /// Changes a row and keeps the count of its group.
    fn alter(&mut self, id: RowId, change: impl FnOnce(&mut Row) -> Unsettled) {
        self.index(id);
        let row = &mut self.all[id as usize];
        let before = row.stat_at(row.newest()).is_some();
        let unsettled = change(row);
        // What is staged is not written again.
        if !row.changed && row.is_to_be_written() {
            row.changed = true;
            self.changed.insert(id);
        }
        let members = i64::from(row.stat_at(row.newest()).is_some()) - i64::from(before);
        if members != 0 || !matches!(unsettled, Unsettled::Same) {
            let group = self.groups.entry(row.key.group_key()).or_default();
            group.newest += members;
            group.note(unsettled);
        }
    }
}

fn base_of(directory: &Directory, entry: &Entry) -> Base {
    Base { stat: entry.stat(), blocks: directory.blocks(entry) }
}
