//! Which frame holds which chunk version: 16 bytes a chunk version, and little around them.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::PlaceHashing;

/// Which frame holds which chunk version.
#[derive(Debug)]
pub(super) struct Index {
    places: HashTable<Place>,
    pub(super) hashing: PlaceHashing,
}

/// A chunk version and its frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) version: u64,
    pub(super) chunk: u32,
    pub(super) frame: u32,
}

impl Index {
    pub(super) fn new(hashing: PlaceHashing) -> Self {
        Self { places: HashTable::new(), hashing }
    }

    pub(super) fn hash(&self, chunk: u32, version: u64) -> u64 {
        self.hashing.hash_one((chunk, version))
    }

    pub(super) fn find(&self, chunk: u32, version: u64) -> Option<u32> {
        let same = |place: &Place| place.chunk == chunk && place.version == version;
        self.places.find(self.hash(chunk, version), same).map(|place| place.frame)
    }

    pub(super) fn insert(&mut self, place: Place) {
        let hash = |p: &Place| self.hashing.hash_one((p.chunk, p.version));
        self.places.insert_unique(hash(&place), place, hash);
    }

    pub(super) fn remove(&mut self, chunk: u32, version: u64) {
        let same = |place: &Place| place.chunk == chunk && place.version == version;
        if let Ok(entry) = self.places.find_entry(self.hashing.hash_one((chunk, version)), same) {
            entry.remove();
        }
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.iter()
    }
}
