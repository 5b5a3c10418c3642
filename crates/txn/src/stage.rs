//! Changes of the directory that are to count later, all at once.
//!
//! 1. A change is *staged*, epoch by epoch: a record that is put, whose blocks are written then,
//!    one that gets another attribute over the value that it has, or one that is removed. Nobody
//!    sees it.
//! 2. An epoch *marks* the stage: from then on all of it counts. [`crate::directory::Directory`]
//!    shows what is staged over what it has, so that this takes no time, however much there is.
//! 3. What counts is *absorbed*: record by record it goes into the directory, some in every epoch.
//!
//! Instead of 2 the stage may be dropped. Invariants: a record that is to be removed is in the
//! directory, and one that is to have another attribute is there as it was when that was staged;
//! whoever changes it first takes that off the stage. The sums say at any time by how much counts
//! would change if all that is staged counted.

use std::collections::BTreeMap;

use fogbank_oram::Address;
use hashbrown::HashMap;

use crate::directory::{Blocks, Entry, Further};
use crate::key::{Key, KeyRange};
use crate::merge::Ordered;
use crate::record::Stat;

/// What becomes of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Staged {
    /// It is put, in blocks of its own.
    Put(Entry),
    /// It has another attribute, and the blocks that it has.
    Attribute(Entry),
    /// It goes.
    Removal,
}

impl Staged {
    /// The record that will be there.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        match self {
            Staged::Put(entry) | Staged::Attribute(entry) => Some(entry),
            Staged::Removal => None,
        }
    }
}

/// What a staged attribute takes of a checkpoint.
pub(crate) const ATTRIBUTE_BYTES: usize = 8;

/// See the module.
#[derive(Default, Clone)]
pub(crate) struct Stage {
    changes: BTreeMap<Key, Staged>,
    further: Further,
    counted: bool,
    /// Records that are put, and the bytes of their keys and of staged attributes.
    beside: (usize, usize),
    /// What would be more or fewer: records, bytes of keys, members of groups.
    records: i64,
    key_bytes: i64,
    groups: HashMap<Key, i64>,
}

impl Stage {
    /// Whether what is staged counts.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted
    }

    /// Whether nothing is staged.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// How many changes are staged.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// All of it counts from now on.
    pub(crate) fn count(&mut self) {
        self.counted = !self.is_empty();
    }

    /// What is staged of a record.
    pub(crate) fn get(&self, key: &Key) -> Option<&Staged> {
        self.changes.get(key)
    }

    /// The first record of which something is staged.
    pub(crate) fn first(&self) -> Option<&Key> {
        self.changes.keys().next()
    }

    /// What is staged, in key order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.changes.keys()
    }

    /// What is staged of a range.
    pub(crate) fn range(&self, range: &KeyRange, reverse: bool) -> Ordered<'_, &Staged> {
        let changes = self.changes.range::<Key, _>(range.bounds());
        if reverse { Box::new(changes.rev()) } else { Box::new(changes) }
    }

    /// The blocks of a record that is staged.
    pub(crate) fn blocks(&self, entry: &Entry) -> Option<Blocks> {
        self.further.blocks(entry)
    }

    /// Records that are put and do not count yet, and the bytes of their keys and of attributes
    /// that do not: they are beside those of the directory.
    pub(crate) fn beside(&self) -> (usize, usize) {
        if self.counted { (0, 0) } else { self.beside }
    }

    /// By how many records and bytes of keys there are more, as it counts.
    pub(crate) fn more(&self) -> (i64, i64) {
        if self.counted { (self.records, self.key_bytes) } else { (0, 0) }
    }

    /// By how many members a group has more, as it counts.
    pub(crate) fn more_in(&self, group: &Key) -> i64 {
        if self.counted { self.groups.get(group).copied().unwrap_or_default() } else { 0 }
    }

    /// Stages a put of a record that is in the directory or not; the blocks staged for it before.
    pub(crate) fn put(
        &mut self,
        key: &Key,
        stat: Stat,
        blocks: &[Address],
        is_there: bool,
    ) -> Blocks {
        let before = self.unset(key, is_there);
        let entry = self.further.enter(stat, blocks);
        self.set(key, Staged::Put(entry), is_there);
        before.and_then(|(_, blocks)| blocks).unwrap_or_default()
    }

    /// Stages another change of a record that is in the directory; the blocks staged for it before.
    pub(crate) fn change(&mut self, key: &Key, staged: Staged) -> Blocks {
        let before = self.unset(key, true);
        self.set(key, staged, true);
        before.and_then(|(_, blocks)| blocks).unwrap_or_default()
    }

    fn set(&mut self, key: &Key, staged: Staged, is_there: bool) {
        let (records, bytes) = beside(key, &staged);
        self.beside = (self.beside.0 + records, self.beside.1 + bytes);
        self.shift(key, i64::from(staged.entry().is_some()) - i64::from(is_there));
        self.changes.insert(key.clone(), staged);
    }

    /// Takes what is staged of a record away; its blocks if it was put.
    pub(crate) fn unset(&mut self, key: &Key, is_there: bool) -> Option<(Staged, Option<Blocks>)> {
        let staged = self.changes.remove(key)?;
        self.shift(key, i64::from(is_there) - i64::from(staged.entry().is_some()));
        let (records, bytes) = beside(key, &staged);
        self.beside = (self.beside.0 - records, self.beside.1 - bytes);
        let blocks = match &staged {
            Staged::Put(entry) => Some(self.further.leave(entry)),
            _ => None,
        };
        Some((staged, blocks))
    }

    /// The directory has one record more, or one less, `by` itself.
    pub(crate) fn notice(&mut self, key: &Key, by: i64) {
        if self.changes.contains_key(key) {
            self.shift(key, -by);
        }
    }

    /// All blocks that it holds.
    pub(crate) fn all_blocks(&self) -> impl Iterator<Item = Address> + '_ {
        let put = self.changes.values().filter_map(|staged| match staged {
            Staged::Put(entry) => Some(entry),
            _ => None,
        });
        put.flat_map(|entry| self.further.blocks(entry).unwrap_or_else(|| entry.only_block()))
    }

    fn shift(&mut self, key: &Key, by: i64) {
        if by == 0 {
            return;
        }
        self.records += by;
        self.key_bytes += by * key.encoded_len() as i64;
        let group = key.group_key();
        let members = self.groups.entry_ref(&group).or_default();
        *members += by;
        if *members == 0 {
            self.groups.remove(&group);
        }
    }
}

/// What a change takes beside the directory: records, and bytes.
fn beside(key: &Key, staged: &Staged) -> (usize, usize) {
    match staged {
        Staged::Put(_) => (1, key.encoded_len()),
        Staged::Attribute(_) => (0, ATTRIBUTE_BYTES),
        Staged::Removal => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use fogbank_env::{Purpose, Randomness};
    use fogbank_oram::BatchShape;
    use rand_core::Rng;

    use super::*;
    use crate::checkpoint::{Pieces, restore};
    use crate::delta::{Delta, apply};
    use crate::directory::Directory;

    type Map = BTreeMap<Key, (Stat, Vec<Address>)>;
    type Plan = BTreeMap<Key, Planned>;

    #[derive(PartialEq)]
    enum Planned {
        Put(Stat, Vec<Address>),
        Attribute(u64),
        Removal,
    }

    const SHAPE: BatchShape =
        BatchShape { capacity: 1 << 16, value_bytes: 8, read_batch: 4, write_batch: 400 };

    fn key(n: u32) -> Key {
        Key::new(&[b'a' + (n % 3) as u8], &[(n / 3) as u8])
    }

    fn seen(directory: &Directory) -> Map {
        let blocks = |entry: &Entry| directory.blocks(entry).to_vec();
        directory.iter().map(|(k, e)| (k.clone(), (e.stat(), blocks(e)))).collect()
    }

    fn check(directory: &Directory, model: &Map) {
        assert_eq!(&seen(directory), model);
        let mut backwards: Vec<Key> =
            directory.range(&KeyRange::all(), true).map(|(key, _)| key.clone()).collect();
        backwards.reverse();
        assert_eq!(backwards, model.keys().cloned().collect::<Vec<_>>());
        assert_eq!(directory.len(), model.len());
        assert_eq!(directory.key_bytes(), model.keys().map(Key::encoded_len).sum::<usize>());
        for n in 0..60 {
            let found = directory.get(&key(n)).map(Entry::stat);
            assert_eq!(found, model.get(&key(n)).map(|(stat, _)| *stat));
        }
        for group in [b"a", b"b", b"c"] {
            let members = model.keys().filter(|key| &*key.group() == group).count();
            assert_eq!(directory.count(&Key::new(group, b"")), members as u64);
        }
    }

    /// What a checkpoint holds goes on like what was saved.
    fn saved(directory: &Directory) -> Directory {
        let mut pieces = Pieces::new(&SHAPE, 64);
        let sections: Vec<_> = std::iter::from_fn(|| pieces.next(directory)).collect();
        restore(&sections, &SHAPE).unwrap()
    }

    /// Against a map and a plan of what is to change in it, with deltas that are applied to a copy,
    /// which is saved and restored now and then.
    #[test]
    fn what_is_staged_counts_at_once_or_never_in_any_order() {
        for seed in 0..60 {
            run(seed);
        }
    }

    fn run(seed: u64) {
        let mut random = Randomness::repeatable(seed).stream(Purpose::Allocation);
        let mut below = |n: u32| random.next_u32() % n;
        let (mut live, mut copy) = (Directory::default(), Directory::default());
        let (mut model, mut plan) = (Map::new(), Plan::new());
        let mut address = 0;
        for _epoch in 0..60 {
            let mut delta = Delta::default();
            let mut record = |below: &mut dyn FnMut(u32) -> u32| {
                let len = below(20);
                let blocks: Vec<_> = (0..len.div_ceil(8)).map(|n| Address(address + n)).collect();
                address += len.div_ceil(8);
                (Stat { len, attr: below(9).into() }, blocks)
            };
            if below(10) == 0 && !live.stage().is_counted() {
                plan.clear();
                live.drop_staged();
                delta = Delta::dropping();
            } else if !live.stage().is_counted() {
                for _ in 0..below(12) {
                    let key = key(below(60));
                    match below(6) {
                        0 if plan.remove(&key).is_some() => {
                            assert!(live.unstage(&key));
                            delta.unstaged(&key);
                        }
                        1 | 2 if model.contains_key(&key) => {
                            assert!(live.stage_removal(&key));
                            delta.staged_removal(&key);
                            plan.insert(key, Planned::Removal);
                        }
                        3 | 4 if model.contains_key(&key) => {
                            let attr = below(9).into();
                            assert!(live.stage_attribute(&key, attr));
                            delta.staged_attribute(&key, attr);
                            plan.insert(key, Planned::Attribute(attr));
                        }
                        _ => {
                            let (stat, blocks) = record(&mut below);
                            live.stage_put(&key, stat, &blocks);
                            delta.staged_put(&key, stat, &blocks);
                            plan.insert(key, Planned::Put(stat, blocks));
                        }
                    }
                }
                assert_eq!(live.stage().len(), plan.len());
                let puts = plan.values().filter(|planned| matches!(planned, Planned::Put(..)));
                let puts = puts.count();
                assert_eq!(live.stage().beside().0, puts);
                if below(4) == 0 {
                    live.count_staged();
                    delta.mark();
                    for (key, change) in std::mem::take(&mut plan) {
                        match change {
                            Planned::Put(stat, blocks) => _ = model.insert(key, (stat, blocks)),
                            Planned::Attribute(to) => model.get_mut(&key).unwrap().0.attr = to,
                            Planned::Removal => _ = model.remove(&key),
                        }
                    }
                }
            }
            for _ in 0..below(8) {
                let key = key(below(60));
                if let Some(Planned::Attribute(_)) = plan.get(&key) {
                    plan.remove(&key);
                }
                if below(2) == 0 {
                    let (stat, blocks) = record(&mut below);
                    live.put(&key, stat, &blocks);
                    delta.put(&key, stat, &blocks);
                    model.insert(key, (stat, blocks));
                } else if model.remove(&key).is_some() {
                    assert!(live.remove(&key));
                    delta.removed(&key);
                    if plan.get(&key) == Some(&Planned::Removal) {
                        plan.remove(&key);
                    }
                }
            }
            check(&live, &model);
            live.absorb_some(below(6) as usize);
            check(&live, &model);
            apply(&mut copy, &[delta.into_section(&SHAPE)], &SHAPE).unwrap();
            check(&copy, &model);
            assert!(live.stage().is_counted() || live.stage().len() == plan.len());
            if below(6) == 0 {
                copy = saved(if below(2) == 0 { &live } else { &copy });
                check(&copy, &model);
            }
        }
    }
}
