//! What a transaction would ask of a store with nothing in memory: for whoever chooses the shape of
//! epochs by the transactions that they are to hold. **Secret**: it follows from the data and what
//! is done with them.
//!
//! 1. A *round* brings all records that are asked for together. What is built on one comes in a
//!    later one, and each takes a read batch.
//! 2. What the transaction has read or written before is asked for no more; a record that is not
//!    there needs no round, for the directory says so.
//! 3. What others of the epoch have brought into memory counts as if it were not there: a shape has
//!    to hold transactions also when they come alone.

use std::collections::{BTreeMap, BTreeSet};

/// What a transaction that has ended well came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Distinct records fetched, by round. As many rounds as read batches that have to follow one
    /// another.
    pub rounds: Vec<u32>,
    /// Distinct records written or deleted.
    pub written: u32,
    /// Bytes of every value that it read or wrote.
    pub value_bytes: Vec<u32>,
}

impl Footprint {
    /// Distinct records fetched, in all rounds.
    pub fn read(&self) -> u32 {
        self.rounds.iter().sum()
    }

    /// Whether it asked for nothing: counts, keys, what is not there.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.written == 0
    }
}

/// Is told of footprints. Its owner holds a lock meanwhile, so it has to be quick.
pub trait Observer: Send + Sync {
    /// A transaction has ended well. One that is run again after that is told of again.
    fn ended(&self, footprint: &Footprint);
}

/// A transaction under way, on records that `K` tells apart.
#[derive(Debug, Clone)]
pub struct Trail<K> {
    known: BTreeSet<K>,
    /// Asked for and not fetched yet, with the bytes of their values.
    asked: BTreeMap<K, u32>,
    written: BTreeMap<K, Option<u32>>,
    footprint: Footprint,
}

impl<K> Default for Trail<K> {
    fn default() -> Self {
        Self {
            known: BTreeSet::new(),
            asked: BTreeMap::new(),
            written: BTreeMap::new(),
            footprint: Footprint::default(),
        }
    }
}

impl<K: Ord> Trail<K> {
    /// Whether a record need not be fetched.
    pub fn knows(&self, key: &K) -> bool {
        self.known.contains(key) || self.written.contains_key(key)
    }

    /// A record that is there, with so many bytes, is asked for; nothing happens if it is known.
    pub fn ask(&mut self, key: K, bytes: u32) {
        if !self.knows(&key) {
            self.asked.insert(key, bytes);
        }
    }

    /// A round brings all that was asked for. Whether that was anything.
    pub fn fetch(&mut self) -> bool {
        if self.asked.is_empty() {
            return false;
        }
        self.footprint.rounds.push(self.asked.len() as u32);
        for (key, bytes) in std::mem::take(&mut self.asked) {
            self.footprint.value_bytes.push(bytes);
            self.known.insert(key);
        }
        true
    }

    /// A record is written with a value of so many bytes, or deleted.
    pub fn write(&mut self, key: K, bytes: Option<u32>) {
        self.written.insert(key, bytes);
    }

    /// It has ended well.
    pub fn end(mut self) -> Footprint {
        self.footprint.written = self.written.len() as u32;
        self.footprint.value_bytes.extend(self.written.values().flatten());
        self.footprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_together_is_one_round_and_what_is_known_is_none() {
        let mut trail = Trail::default();
        assert!(!trail.fetch(), "nothing was asked for");
        trail.ask("a", 10);
        trail.ask("b", 20);
        assert!(trail.fetch());
        trail.ask("a", 10);
        trail.write("c", Some(30));
        trail.ask("c", 30);
        assert!(!trail.fetch(), "read and written before");
        trail.ask("d", 40);
        assert!(trail.fetch());
        trail.write("a", None);
        let footprint = trail.end();
        assert_eq!(footprint.rounds, [2, 1]);
        assert_eq!((footprint.read(), footprint.written), (3, 2));
        assert_eq!(footprint.value_bytes, [10, 20, 40, 30]);
        assert!(!footprint.is_empty() && Footprint::default().is_empty());
    }
}
