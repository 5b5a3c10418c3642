//! The key directory: what is committed, by key, in the memory of the proxy.
//!
//! An entry is sixteen bytes: attribute, length and the first block; the further blocks of a long
//! value stand in a table beside it, keyed by the first. A million entries with keys of up to 22
//! bytes take about 60 MB, most of it the unused third of the tree's nodes.
//!
//! Groups are counted for `count` in O(1). Only groups of two members or more have a counter: a
//! group of one (a plain string of a front end) costs nothing, and whether it has one or none the
//! tree itself says.
//!
//! Invariants: `blocks(len)` addresses an entry, distinct over all entries; the sum of encoded keys
//! stays within `capacity * key_budget_bytes` and the number of keys within the capacity, so the
//! checkpoint has a public bound. What the cloud sees: nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;

use fogbank_oram::Address;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::key::{Key, KeyRange};
use crate::record::Stat;

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
}

/// The ordered map of all committed records.
#[derive(Default, Clone)]
pub(crate) struct Directory {
    entries: BTreeMap<Key, Entry>,
    /// Second and further blocks, by first block.
    further: HashMap<u32, Box<[u32]>>,
    /// Members of every group that has more than one.
    crowds: HashMap<Key, u64>,
    key_bytes: usize,
}

impl Directory {
    /// The entry of `key`.
    pub(crate) fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The blocks of an entry of this directory.
    pub(crate) fn blocks(&self, entry: &Entry) -> Blocks {
        if entry.first == NO_BLOCK {
            return Blocks::new();
        }
        let further = self.further.get(&entry.first).map(|b| &**b).unwrap_or_default();
        std::iter::once(&entry.first).chain(further).map(|&a| Address(a)).collect()
    }

    /// Puts or replaces a record.
    pub(crate) fn put(&mut self, key: &Key, stat: Stat, blocks: &[Address]) {
        let first = blocks.first().map_or(NO_BLOCK, |a| a.0);
        let entry = Entry { attr: stat.attr, len: stat.len, first };
        match self.entries.get_mut(key) {
            Some(old) => {
                if old.first != NO_BLOCK {
                    self.further.remove(&old.first);
                }
                *old = entry;
            }
            None => {
                self.count_in(key);
                self.key_bytes += key.encoded_len();
                self.entries.insert(key.clone(), entry);
            }
        }
        if blocks.len() > 1 {
            self.further.insert(first, blocks[1..].iter().map(|a| a.0).collect());
        }
    }

    /// Removes a record; whether it was there.
    pub(crate) fn remove(&mut self, key: &Key) -> bool {
        let Some(entry) = self.entries.remove(key) else { return false };
        self.further.remove(&entry.first);
        self.key_bytes -= key.encoded_len();
        self.count_out(key);
        true
    }

    /// Removes the first records of a range until they and their blocks are `most`, or all; how many,
    /// and the blocks that they held.
    pub(crate) fn remove_some(&mut self, range: &KeyRange, most: usize) -> (usize, Vec<Address>) {
        let (mut keys, mut blocks) = (Vec::new(), Vec::new());
        for (key, entry) in self.range(range) {
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

    /// The entries of a range, in key order from either end.
    pub(crate) fn range(&self, range: &KeyRange) -> Range<'_, Key, Entry> {
        self.entries.range::<Key, _>(range.bounds())
    }

    /// Every entry with its blocks, in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// Every entry from `key` on, in key order.
    pub(crate) fn from(&self, key: &Key) -> Range<'_, Key, Entry> {
        self.entries.range::<Key, _>(key..)
    }

    /// Members of the group that `group` (its first key) names.
    pub(crate) fn count(&self, group: &Key) -> u64 {
        self.crowds.get(group).copied().unwrap_or_else(|| u64::from(self.any_in(group)))
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all keys, encoded.
    pub(crate) fn key_bytes(&self) -> usize {
        self.key_bytes
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
            assert_eq!(directory.further.len(), further);
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
