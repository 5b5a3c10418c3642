//! Chunk versions as the cloud has them: which are there, and what was written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fogbank_store::ChunkName;

use crate::oracle::fault::{Step, fault};

/// Versions are (opening, time stamp).
pub(in crate::oracle) const TICK_BITS: u32 = 40;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::oracle) struct Stored {
    /// Versions that are there or may be, and whether that is certain.
    there: BTreeMap<ChunkName, bool>,
    /// The fingerprints of what was written.
    prints: HashMap<ChunkName, Vec<u64>>,
}

impl Stored {
    /// A chunk of so many cells is being written.
    pub fn write(&mut self, name: ChunkName, cells: usize, prints: &[u64]) {
        let known = prints.len() == cells;
        self.prints.insert(name, if known { prints.to_vec() } else { vec![0; cells] });
        self.there.insert(name, false);
    }

    /// It was.
    pub fn written(&mut self, name: ChunkName) {
        self.there.insert(name, true);
    }

    /// The fingerprints of its cells, 0 where they are not known.
    pub fn prints(&self, name: &ChunkName) -> Option<&[u64]> {
        self.prints.get(name).map(Vec::as_slice)
    }

    /// Versions are being deleted.
    pub fn delete(&mut self, names: &[ChunkName]) {
        for name in names {
            self.there.entry(*name).and_modify(|certain| *certain = false);
        }
    }

    /// They were.
    pub fn deleted(&mut self, names: &[ChunkName]) {
        for name in names {
            self.there.remove(name);
            self.prints.remove(name);
        }
    }

    /// Whether a list may have so many versions.
    pub fn is_possible(&self, listed: u64) -> bool {
        let certain = self.there.values().filter(|certain| **certain).count() as u64;
        (certain..=self.there.len() as u64).contains(&listed)
    }

    /// Holds the deletion of `count` versions by `opening` against what may be left over.
    pub fn check_sweep(
        &self,
        names: &[ChunkName],
        (count, opening): (u64, u32),
        is_current: impl Fn(&ChunkName) -> bool,
    ) -> Step {
        let useless = |name: &ChunkName| {
            !is_current(name) && (name.version >> TICK_BITS) < u64::from(opening)
        };
        let due = || format!("a deletion of {count} versions that nothing refers to, in order");
        let is = |name: &&ChunkName| self.there.contains_key(*name) && useless(name);
        if let Some(name) = names.iter().find(|name| !is(name)) {
            return fault("superseded-deleted", due(), format!("delete {name:x?}"));
        }
        let named: BTreeSet<&ChunkName> = names.iter().collect();
        let missing = self
            .there
            .iter()
            .find(|(name, certain)| **certain && useless(name) && !named.contains(name));
        match missing {
            Some((name, _)) => {
                let version = (name.chunk, name.version);
                fault("superseded-deleted", due(), format!("{version:x?} is not deleted"))
            }
            None if names.len() as u64 != count || !names.is_sorted_by(|a, b| a < b) => {
                fault("superseded-deleted", due(), format!("{} versions", names.len()))
            }
            None => Ok(()),
        }
    }

    /// Only what was there for certain is there after a clean list.
    pub fn settle(&mut self) {
        self.there.retain(|_, certain| *certain);
    }
}
