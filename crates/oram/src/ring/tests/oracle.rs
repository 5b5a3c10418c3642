//! The public state machine: knows the configuration and the leaves read, and predicts every
//! message but the slot numbers. Written apart from the engine on purpose.

use std::collections::{BTreeMap, BTreeSet};

use fogbank_store::{ArrayId, ChunkName};

use super::cloud::Seen;
use crate::geometry::Geometry;

/// What remains free in the trace, for the statistics.
#[derive(Default)]
pub struct Free {
    /// For path reads: (unread slots of the version, rank of the one chosen).
    pub path_ranks: Vec<(usize, usize)>,
    /// For Z-reads: whether each unread slot, by rank, was chosen.
    pub evict_ranks: Vec<(usize, Vec<usize>)>,
}

pub struct Oracle {
    geometry: Geometry,
    buffered_epoch: bool,
    opening: u64,
    tick: u64,
    evictions: u64,
    round: u16,
    versions: BTreeMap<u32, u64>,
    reads: BTreeMap<u32, u16>,
    images: BTreeSet<u32>,
    superseded: Vec<ChunkName>,
    expected: Vec<(ChunkName, usize)>,
    used: BTreeMap<(u32, u64), BTreeSet<u16>>,
    /// Write slots whose evictions the next read batch fetches ahead.
    pub prefetched: usize,
    pub free: Free,
}

impl Oracle {
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            buffered_epoch: true,
            opening: 1,
            tick: 0,
            evictions: 0,
            round: 0,
            versions: BTreeMap::new(),
            reads: BTreeMap::new(),
            images: BTreeSet::new(),
            superseded: Vec::new(),
            expected: Vec::new(),
            used: BTreeMap::new(),
            prefetched: 0,
            free: Free::default(),
        }
    }

    /// Predicts a read batch of these leaves and compares it with what was seen.
    pub fn read_batch(&mut self, leaves: &[u32], seen: &[Seen]) {
        for leaf in leaves {
            let mut full = Vec::new();
            for level in self.levels() {
                full.extend(self.read_on_path(level, *leaf));
            }
            self.count();
            for (level, leaf) in full.into_iter().rev() {
                if !self.images.contains(&self.chunk(level, leaf)) {
                    self.rewrite(level, leaf);
                }
            }
        }
        self.prefetch();
        self.compare_reads(seen);
    }

    /// The buckets that the evictions of the coming write slots will rewrite.
    fn prefetch(&mut self) {
        let slots = std::mem::take(&mut self.prefetched);
        let due = (usize::from(self.round) + slots) / usize::from(self.geometry.bucket.evict_every);
        for eviction in self.evictions..self.evictions + due as u64 {
            let leaf = self.eviction_leaf(eviction);
            for level in self.levels() {
                if self.versions.contains_key(&self.chunk(level, leaf)) {
                    self.rewrite(level, leaf);
                }
            }
        }
    }

    /// Predicts a write batch of `slots`.
    pub fn write_batch(&mut self, slots: usize, seen: &[Seen]) {
        (0..slots).for_each(|_| self.count());
        self.compare_reads(seen);
    }

    /// Predicts a commit.
    pub fn commit(&mut self, seen: &[Seen]) {
        let mut seen = seen.iter();
        assert!(self.buffered_epoch);
        if !self.images.is_empty() {
            self.tick += 1;
            let version = (self.opening << 40) | self.tick;
            let Some(Seen::Write(writes)) = seen.next() else { panic!("images come first") };
            let names: Vec<ChunkName> = writes.iter().map(|(name, _)| *name).collect();
            let images = std::mem::take(&mut self.images);
            let expected: Vec<_> = images.iter().map(|chunk| self.name(*chunk, version)).collect();
            assert_eq!(names, expected);
            for chunk in images {
                self.versions.insert(chunk, version);
                self.reads.insert(chunk, 0);
            }
        }
        assert_eq!(seen.next(), Some(&Seen::Barrier));
        let superseded = std::mem::take(&mut self.superseded);
        if !superseded.is_empty() {
            assert_eq!(seen.next(), Some(&Seen::Delete(superseded)));
        }
        assert_eq!(seen.next(), None);
    }

    fn levels(&self) -> std::ops::RangeInclusive<u8> {
        self.geometry.cached_levels..=self.geometry.leaf_level()
    }

    fn chunk(&self, level: u8, leaf: u32) -> u32 {
        let above = (1 << level) - (1 << self.geometry.cached_levels);
        above + (leaf >> (self.geometry.leaf_level() - level))
    }

    fn name(&self, chunk: u32, version: u64) -> ChunkName {
        ChunkName { array: ArrayId(0), chunk, version }
    }

    fn read_on_path(&mut self, level: u8, leaf: u32) -> Option<(u8, u32)> {
        let chunk = self.chunk(level, leaf);
        let version = *self.versions.get(&chunk)?;
        if self.images.contains(&chunk) {
            return None;
        }
        self.expected.push((self.name(chunk, version), 1));
        let reads = self.reads.get_mut(&chunk).unwrap();
        *reads += 1;
        assert!(*reads <= self.geometry.bucket.dummies, "a version serves S reads");
        (*reads == self.geometry.bucket.dummies).then_some((level, leaf))
    }

    fn count(&mut self) {
        self.round += 1;
        if self.round < self.geometry.bucket.evict_every {
            return;
        }
        self.round = 0;
        let leaf = self.eviction_leaf(self.evictions);
        self.evictions += 1;
        for level in self.levels() {
            self.rewrite(level, leaf);
        }
    }

    fn eviction_leaf(&self, eviction: u64) -> u32 {
        let bits = usize::from(self.geometry.leaf_level());
        (0..bits).map(|bit| ((eviction >> bit) as u32 & 1) << (bits - 1 - bit)).sum()
    }

    fn rewrite(&mut self, level: u8, leaf: u32) {
        let chunk = self.chunk(level, leaf);
        if !self.images.insert(chunk) {
            return;
        }
        if let Some(version) = self.versions.get(&chunk) {
            let name = self.name(chunk, *version);
            self.expected.push((name, self.geometry.bucket.reals.into()));
            self.superseded.push(name);
        }
    }

    /// What was read is what was expected, each slot of a version at most once.
    fn compare_reads(&mut self, seen: &[Seen]) {
        let reads = match seen {
            [] => &[][..],
            [Seen::Read(reads)] => reads,
            _ => panic!("a batch is one message"),
        };
        let expected = std::mem::take(&mut self.expected);
        let sizes: Vec<_> = reads.iter().map(|(name, cells)| (*name, cells.len())).collect();
        assert_eq!(sizes, expected);
        for (name, cells) in reads {
            self.note_slots(name, cells);
        }
    }

    fn note_slots(&mut self, name: &ChunkName, cells: &[u16]) {
        let used = self.used.entry((name.chunk, name.version)).or_default();
        let unread: Vec<u16> =
            (0..self.geometry.bucket.slots()).filter(|slot| !used.contains(slot)).collect();
        let ranks = cells.iter().map(|slot| unread.binary_search(slot).expect("read only once"));
        let ranks: Vec<usize> = ranks.collect();
        used.extend(cells);
        match ranks[..] {
            [rank] if self.geometry.bucket.reals > 1 => {
                self.free.path_ranks.push((unread.len(), rank));
            }
            _ => self.free.evict_ranks.push((unread.len(), ranks)),
        }
    }
}
