//! The key directory: what is committed, by key, in the memory of the proxy.
//!
//! An entry is sixteen bytes: attribute, length and the first block; the further blocks of a long
//! value stand in a table beside it, keyed by the first. A million entries with keys of up to 22
//! bytes take about 60 MB, most of it the unused third of the tree's nodes.
//!
//! A stage ([`crate::stage`]) stands beside the entries: once it counts, it is read over them.
//!
//! Groups are counted for `count` in O(1). Only groups of two members or more have a counter: a
//! group of one (a plain string of a front end) costs nothing, and whether it has one or none the
//! tree itself says.
//!
//! Invariants: `blocks(len)` addresses an entry, distinct over all entries; the sum of encoded keys
//! stays within `capacity * key_budget_bytes` and the number of keys within the capacity, so the
//! checkpoint has a public bound. What the cloud sees: nothing.

use std::collections::BTreeMap;

use fogbank_oram::Address;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::key::{Key, KeyRange};
use crate::merge::{Merge, Ordered};
use crate::record::Stat;
use crate::stage::{Stage, Staged};

/// The blocks of one value, in order.
pub(crate) type Blocks = SmallVec<[Address; 2]>;

/// Says that an entry holds no block.
const NO_BLOCK: u32 = u32::MAX;

/// A committed record without its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    attr: u64,
    len: u32,
    first: u32,
}

impl Entry {
    /// Length and attribute.
    pub(crate) fn stat(&self) -> Stat {
        Stat { len: self.len, attr: self.attr }
    }

    /// The first block, if there is one.
    pub(crate) fn only_block(&self) -> Blocks {
        Blocks::from_iter((self.first != NO_BLOCK).then_some(Address(self.first)))
    }
}

/// Second and further blocks of values, by the first.
#[derive(Default, Clone)]
pub(crate) struct Further(HashMap<u32, Box<[u32]>>);

impl Further {
    /// The entry of a record in these blocks, which are kept.
    pub(crate) fn enter(&mut self, stat: Stat, blocks: &[Address]) -> Entry {
        let first = blocks.first().map_or(NO_BLOCK, |a| a.0);
        if blocks.len() > 1 {
            self.0.insert(first, blocks[1..].iter().map(|a| a.0).collect());
        }
        Entry { attr: stat.attr, len: stat.len, first }
    }

    /// The blocks of an entry; `None` if there may be further ones that are not kept here.
    pub(crate) fn blocks(&self, entry: &Entry) -> Option<Blocks> {
        if entry.first == NO_BLOCK {
            return Some(Blocks::new());
        }
        let further = self.0.get(&entry.first)?;
        Some(std::iter::once(&entry.first).chain(&**further).map(|&a| Address(a)).collect())
    }

    /// The blocks of an entry that goes.
    pub(crate) fn leave(&mut self, entry: &Entry) -> Blocks {
        let blocks = self.blocks(entry).unwrap_or_else(|| entry.only_block());
        self.0.remove(&entry.first);
        blocks
    }
}

/// The ordered map of all committed records.
#[derive(Default, Clone)]
pub(crate) struct Directory {
    entries: BTreeMap<Key, Entry>,
    further: Further,
    /// Members of every group that has more than one.
    crowds: HashMap<Key, u64>,
    key_bytes: usize,
    stage: Stage,
    /// Blocks that no record holds any more since what is staged has taken its place.
    orphans: Vec<Address>,
}

impl Directory {
    /// The entry of `key`.
    pub(crate) fn get(&self, key: &Key) -> Option<&Entry> {
        match self.stage.get(key).filter(|_| self.stage.is_counted()) {
            Some(staged) => staged.entry(),
            None => self.entries.get(key),
        }
    }

    /// The blocks of an entry of this directory.
    pub(crate) fn blocks(&self, entry: &Entry) -> Blocks {
        let kept = self.further.blocks(entry).or_else(|| self.stage.blocks(entry));
        kept.unwrap_or_else(|| entry.only_block())
    }

    /// Puts or replaces a record.
    pub(crate) fn put(&mut self, key: &Key, stat: Stat, blocks: &[Address]) {
        self.absorb(key);
        self.leave_stage(key, false);
        self.put_entry(key, stat, blocks);
    }

    fn put_entry(&mut self, key: &Key, stat: Stat, blocks: &[Address]) {
        match self.entries.get_mut(key) {
            Some(old) => {
                self.further.leave(old);
                *old = self.further.enter(stat, blocks);
            }
            None => {
                self.stage.notice(key, 1);
                self.count_in(key);
                self.key_bytes += key.encoded_len();
                let entry = self.further.enter(stat, blocks);
                self.entries.insert(key.clone(), entry);
            }
        }
    }

    /// Removes a record; whether it was there.
    pub(crate) fn remove(&mut self, key: &Key) -> bool {
        self.absorb(key);
        self.leave_stage(key, true);
        self.remove_entry(key)
    }

    /// Takes off the stage what is no change of a record any more that is put or removed.
    fn leave_stage(&mut self, key: &Key, is_removed: bool) {
        let is_void = match self.stage.get(key) {
            Some(Staged::Attribute(_)) => true,
            Some(Staged::Removal) => is_removed,
            _ => false,
        };
        if is_void {
            self.stage.unset(key, true);
        }
    }

    fn remove_entry(&mut self, key: &Key) -> bool {
        let Some(entry) = self.entries.remove(key) else { return false };
        self.stage.notice(key, -1);
        self.further.leave(&entry);
        self.key_bytes -= key.encoded_len();
        self.count_out(key);
        true
    }

    /// Removes the first records of a range until they and their blocks are `most`, or all; how
    /// many, and the blocks that they held.
    pub(crate) fn remove_some(&mut self, range: &KeyRange, most: usize) -> (usize, Vec<Address>) {
        let (mut keys, mut blocks) = (Vec::new(), Vec::new());
        for (key, entry) in self.range(range, false) {
            if keys.len() + blocks.len() >= most {
                break;
            }
            keys.push(key.clone());
            blocks.extend(self.blocks(entry));
        }
        keys.iter().for_each(|key| _ = self.remove(key));
        (keys.len(), blocks)
    }

    /// Removes the first `count` records from `key` on; whether there were so many.
    pub(crate) fn remove_from(&mut self, key: &Key, count: usize) -> bool {
        let keys: Vec<Key> = self.from(key).take(count).map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| _ = self.remove(key));
        keys.len() == count
    }

    /// The entries of a range, in key order or against it.
    pub(crate) fn range(&self, range: &KeyRange, reverse: bool) -> Ordered<'_, &Entry> {
        let entries = self.entries.range::<Key, _>(range.bounds());
        let entries: Ordered<'_, &Entry> =
            if reverse { Box::new(entries.rev()) } else { Box::new(entries) };
        if !self.stage.is_counted() {
            return entries;
        }
        let both = Merge::new(entries, self.stage.range(range, reverse), reverse);
        Box::new(
            both.filter_map(|(key, entry, staged)| {
                Some((key, staged.map_or(entry, Staged::entry)?))
            }),
        )
    }

    /// Every entry with its blocks, in key order.
    pub(crate) fn iter(&self) -> Ordered<'_, &Entry> {
        self.range(&KeyRange::all(), false)
    }

    /// Every entry from `key` on, in key order.
    pub(crate) fn from(&self, key: &Key) -> Ordered<'_, &Entry> {
        self.range(&KeyRange::from(key), false)
    }

    /// All that there is from `key` on, in key order: the entry of a record, and what is staged of
    /// it unless that is what counts.
    pub(crate) fn stored(
        &self,
        key: &Key,
    ) -> impl Iterator<Item = (&Key, Option<&Entry>, Option<&Staged>)> {
        let from = KeyRange::from(key);
        let staged: Ordered<'_, &Staged> = match self.stage.is_counted() {
            true => Box::new(std::iter::empty()),
            false => self.stage.range(&from, false),
        };
        Merge::new(self.range(&from, false), staged, false)
    }

    /// Members of the group that `group` (its first key) names.
    pub(crate) fn count(&self, group: &Key) -> u64 {
        let entries = self.crowds.get(group).copied();
        let entries = entries.unwrap_or_else(|| u64::from(self.any_in(group)));
        entries.saturating_add_signed(self.stage.more_in(group))
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.entries.len().saturating_add_signed(self.stage.more().0 as isize)
    }

    /// Bytes of all keys, encoded.
    pub(crate) fn key_bytes(&self) -> usize {
        self.key_bytes.saturating_add_signed(self.stage.more().1 as isize)
    }

    /// What is staged.
    pub(crate) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Stages a record.
    pub(crate) fn stage_put(&mut self, key: &Key, stat: Stat, blocks: &[Address]) {
        let is_there = self.entries.contains_key(key);
        let old = self.stage.put(key, stat, blocks, is_there);
        self.orphans.extend(old);
    }

    /// Stages the removal of a record; whether it is there.
    pub(crate) fn stage_removal(&mut self, key: &Key) -> bool {
        let is_there = self.entries.contains_key(key);
        if is_there {
            let old = self.stage.change(key, Staged::Removal);
            self.orphans.extend(old);
        }
        is_there
    }

    /// Stages another attribute of a record; whether it is there.
    pub(crate) fn stage_attribute(&mut self, key: &Key, attr: u64) -> bool {
        let Some(&entry) = self.entries.get(key) else { return false };
        let old = self.stage.change(key, Staged::Attribute(Entry { attr, ..entry }));
        self.orphans.extend(old);
        true
    }

    /// Takes a change off the stage; whether it was there.
    pub(crate) fn unstage(&mut self, key: &Key) -> bool {
        let is_there = self.entries.contains_key(key);
        let Some((_, blocks)) = self.stage.unset(key, is_there) else { return false };
        self.orphans.extend(blocks.into_iter().flatten());
        true
    }

    /// All that is staged counts from now on.
    pub(crate) fn count_staged(&mut self) {
        self.stage.count();
    }

    /// Takes off the stage what does not count.
    pub(crate) fn drop_staged(&mut self) -> Stage {
        if self.stage.is_counted() { Stage::default() } else { std::mem::take(&mut self.stage) }
    }

    /// Makes entries of up to `most` records of the stage, if it counts; of how many.
    pub(crate) fn absorb_some(&mut self, most: usize) -> usize {
        for done in 0..most {
            let Some(key) = self.stage.first().filter(|_| self.stage.is_counted()).cloned() else {
                return done;
            };
            self.absorb(&key);
        }
        most
    }

    /// Blocks that no record holds any more since this was last asked.
    pub(crate) fn take_orphans(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.orphans)
    }

    /// Makes an entry of what is staged of a record, if that counts.
    fn absorb(&mut self, key: &Key) {
        if !self.stage.is_counted() {
            return;
        }
        let old = self.entries.get(key).map(|entry| self.blocks(entry));
        let Some((staged, blocks)) = self.stage.unset(key, old.is_some()) else { return };
        match staged {
            Staged::Put(entry) => {
                self.orphans.extend(old.into_iter().flatten());
                self.put_entry(key, entry.stat(), &blocks.unwrap_or_default());
            }
            Staged::Attribute(Entry { attr, .. }) => {
                self.entries.entry(key.clone()).and_modify(|entry| entry.attr = attr);
            }
            Staged::Removal => {
                self.orphans.extend(old.into_iter().flatten());
                self.remove_entry(key);
            }
        }
        if self.stage.is_empty() {
            self.stage = Stage::default();
        }
    }

    fn any_in(&self, group: &Key) -> bool {
        let next = self.entries.range(group..).next();
        next.is_some_and(|(key, _)| key.encoded_group() == group.encoded_group())
    }

    /// Before an insertion.
    fn count_in(&mut self, key: &Key) {
        let group = key.group_key();
        if let Some(count) = self.crowds.get_mut(&group) {
            *count += 1;
        } else if self.any_in(&group) {
            self.crowds.insert(group, 2);
        }
    }

    /// After a removal.
    fn count_out(&mut self, key: &Key) {
        let group = key.group_key();
        if let Some(count) = self.crowds.get_mut(&group) {
            *count -= 1;
            if *count < 2 {
                self.crowds.remove(&group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(len: u32) -> Stat {
        Stat { len, attr: u64::from(len) * 7 }
    }

    #[test]
    fn entries_keep_their_blocks_and_groups_their_counts() {
        let mut directory = Directory::default();
        let key = |m: u8| Key::new(b"g", &[m]);
        let group = Key::new(b"g", b"");
        let mut model = std::collections::BTreeSet::new();
        for step in 0..2_000_u32 {
            let m = (step * 7919 % 31) as u8;
            if step * 31 % 7 < 4 {
                let blocks: Vec<_> = (0..step % 4).map(|i| Address(step * 4 + i)).collect();
                directory.put(&key(m), stat(step), &blocks);
                let entry = *directory.get(&key(m)).unwrap();
                assert_eq!(entry.stat(), stat(step));
                assert_eq!(directory.blocks(&entry).to_vec(), blocks);
                model.insert(m);
            } else {
                assert_eq!(directory.remove(&key(m)), model.remove(&m));
            }
            assert_eq!(directory.count(&group), model.len() as u64);
            assert_eq!(directory.len(), model.len());
            assert_eq!(directory.key_bytes(), model.len() * 3);
            let further = directory.iter().filter(|(_, e)| directory.blocks(e).len() > 1).count();
            assert_eq!(directory.further.0.len(), further);
        }
    }

    /// Run alone, in release: `cargo test --release -p fogbank-txn -- --ignored --nocapture`.
    #[test]
    #[ignore = "measures the memory of the whole process"]
    fn measured_bytes_a_key() {
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
        };
        let before = resident();
        let mut directory = Directory::default();
        for n in 0..1_000_000_u64 {
            let name =
                format!("user{:016}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 10_u64.pow(16));
            directory.put(&Key::new(b"", name.as_bytes()), stat(1), &[Address(n as u32)]);
        }
        println!("{:.1} bytes a key", (resident() - before) / 1e6);
    }

    #[test]
    fn a_million_keys_stay_within_the_memory_bound() {
        assert_eq!(std::mem::size_of::<Entry>(), 16);
        // A node of eleven entries: keys, entries, parent link and two short counts; random
        // insertion fills nodes to about 69 in 100.
        let node = 11 * (24 + 16) + 12;
        let bytes_per_entry = node as f64 / (11.0 * 0.69) * 1.1;
        assert!(bytes_per_entry < 80.0, "{bytes_per_entry}");
        assert_eq!(Key::new(b"s", b"user1234567890123456").heap_bytes(), 0);
    }
}
