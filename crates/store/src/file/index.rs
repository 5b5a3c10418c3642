//! Which frame holds which chunk version: 16 bytes a chunk version, and little around them.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;

use crate::PlaceHasher;

/// Which frame holds which chunk version.
#[derive(Debug, Default)]
pub(super) struct Index(HashTable<Place>);

/// A chunk version and its frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) version: u64,
    pub(super) chunk: u32,
    pub(super) frame: u32,
}

impl Index {
    pub(super) fn find(&self, chunk: u32, version: u64) -> Option<u32> {
        let same = |place: &Place| place.chunk == chunk && place.version == version;
        self.0.find(hash(chunk, version), same).map(|place| place.frame)
    }

    pub(super) fn insert(&mut self, place: Place) {
        let key = hash(place.chunk, place.version);
        self.0.insert_unique(key, place, |p| hash(p.chunk, p.version));
    }

    pub(super) fn remove(&mut self, chunk: u32, version: u64) {
        let same = |place: &Place| place.chunk == chunk && place.version == version;
        if let Ok(entry) = self.0.find_entry(hash(chunk, version), same) {
            entry.remove();
        }
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.iter()
    }
}

pub(super) fn hash(chunk: u32, version: u64) -> u64 {
    let mut hasher = PlaceHasher::default();
    (chunk, version).hash(&mut hasher);
    hasher.finish()
}
