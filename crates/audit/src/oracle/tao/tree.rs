//! The buckets as the cloud knows them: which versions were written, and which the proxy names.
//!
//! A path names its stored buckets from the top down, each in the newest version that was
//! acknowledged when it left, as far as they were ever written: the lowest of those, and of the
//! others those that are not with the proxy (`subtree`). What is written are whole paths, so above
//! a written bucket all are; a path that ends before the lowest level shows a part of its leaf
//! only.

use fogbank_env::{Nanos, Purpose, Randomness, Stream};
use fogbank_store::{ArrayId, ChunkName};

use super::subtree::{Presence, Subtree};
use crate::oracle::fault::{Step, fault};
use crate::oracle::immediate::stored::Stored;
use crate::oracle::shape::{Shape, below};

/// A version of a bucket.
pub(super) type Version = (u32, u64);

/// What a path has shown of its leaf: its lowest bucket, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::oracle) struct Shown(pub Option<u32>);

/// All buckets of a store.
#[derive(Clone)]
pub(super) struct Tree {
    pub shape: Shape,
    /// What the proxy has of them.
    pub subtree: Subtree,
    array: u16,
    cells: usize,
    /// By bucket: the version that the proxy names; 0 if it was never written.
    versions: Vec<u64>,
    /// What of them is there.
    pub stored: Stored,
    /// Buckets at the top of what is stored that were never written.
    open: u32,
    random: Stream,
}

impl Tree {
    pub fn new(shape: Shape, array: u16, is_ordered: bool) -> Self {
        Self {
            shape,
            subtree: Subtree::new(shape, is_ordered),
            array,
            cells: usize::from(shape.slots()),
            versions: vec![0; shape.buckets() as usize],
            stored: Stored::default(),
            open: 1 << shape.cached_levels,
            random: Randomness::repeatable(0).stream(Purpose::Padding),
        }
    }

    /// Another seed for what completes leaves.
    pub fn seed(&mut self, seed: u64) {
        self.random = Randomness::repeatable(seed).stream(Purpose::Padding);
    }

    /// The version that the proxy names.
    pub fn version(&self, chunk: u32) -> u64 {
        self.versions[chunk as usize]
    }

    /// The version that the proxy names becomes another one.
    pub fn set_version(&mut self, chunk: u32, version: u64) {
        let before = std::mem::replace(&mut self.versions[chunk as usize], version);
        if self.shape.level(chunk) == self.shape.cached_levels {
            self.open = self.open + u32::from(version == 0) - u32::from(before == 0);
        }
    }

    /// All of them, for a checkpoint.
    pub fn versions(&self) -> &[u64] {
        &self.versions
    }

    /// Holds what a path asks for at `at` against what is here, and against the versions that the
    /// proxy names.
    pub fn path(&self, names: &[ChunkName], at: Nanos) -> Step<Shown> {
        let Some(lowest) = names.last() else {
            return match self.open {
                0 => fault("path-consistent", "a path", "a read of nothing"),
                _ => Ok(Shown(None)),
            };
        };
        let mut left = names.iter().rev().peekable();
        let known = lowest.chunk < self.shape.buckets();
        let path = std::iter::successors(known.then_some(lowest.chunk), |c| self.shape.parent(*c));
        for chunk in path {
            let version = self.version(chunk);
            let due = || format!("bucket {chunk} version {version:#x}");
            let Some(name) = left.next_if(|name| name.chunk == chunk) else {
                if self.subtree.presence(chunk, at) == Presence::Gone {
                    return fault("fresh-subtree", due(), "it is not asked for");
                }
                continue;
            };
            if version == 0 {
                return fault("stored-only", "a bucket that was written", format!("{name:x?}"));
            }
            if (name.array.0, name.version) != (self.array, version) {
                return fault("current-version", due(), format!("{name:x?}"));
            }
            if chunk != lowest.chunk && self.subtree.presence(chunk, at) == Presence::Here {
                let due = format!("nothing of bucket {chunk}, which is here");
                return fault("fresh-subtree", due, "it is asked for");
            }
        }
        if let Some(name) = left.next() {
            let due = format!("what is above bucket {}", lowest.chunk);
            return fault("path-consistent", due, format!("{name:x?}"));
        }
        if !self.may_end(lowest.chunk) {
            let seen = format!("it ends at bucket {}", lowest.chunk);
            return fault("path-consistent", "the path goes on", seen);
        }
        Ok(Shown(Some(lowest.chunk)))
    }

    /// A path that has shown so much is asked for.
    pub fn ask(&mut self, shown: Shown) {
        let unwritten = shown.0.map_or(vec![], |lowest| match self.is_whole(shown) {
            true => vec![],
            false => self.unwritten(lowest),
        });
        self.subtree.ask(shown, &unwritten);
    }

    fn may_end(&self, lowest: u32) -> bool {
        self.shape.level(lowest) == self.shape.leaf_level || !self.unwritten(lowest).is_empty()
    }

    fn unwritten(&self, chunk: u32) -> Vec<u32> {
        let left = self.shape.left(chunk);
        [left, left + 1].into_iter().filter(|chunk| self.version(*chunk) == 0).collect()
    }

    /// Whether all of its leaf was shown.
    pub fn is_whole(&self, shown: Shown) -> bool {
        shown.0.is_some_and(|lowest| self.shape.level(lowest) == self.shape.leaf_level)
    }

    /// The leaf of a path that has shown so much, drawn among those that fit: uniform exactly if
    /// the leaves that are read are.
    pub fn complete(&mut self, shown: Shown) -> u32 {
        let from = match shown.0 {
            Some(lowest) if self.is_whole(shown) => return self.shape.leaf(lowest),
            Some(lowest) => self.unwritten(lowest),
            None => (0..self.shape.first()).filter(|chunk| self.version(*chunk) == 0).collect(),
        };
        let pick = below(&mut self.random, from.len() as u32) as usize;
        from.get(pick).map_or(0, |chunk| self.shape.draw_below(*chunk, &mut self.random))
    }

    /// Whether a path that has shown so much may be that to `leaf`.
    pub fn fits(&self, shown: Shown, leaf: u32) -> bool {
        shown.0.is_none_or(|lowest| self.shape.chunk(self.shape.level(lowest), leaf) == lowest)
    }

    /// The fingerprints of buckets, 0 where they are not known.
    pub fn prints(&self, names: &[ChunkName]) -> Vec<u64> {
        let of = |name: &ChunkName| {
            self.stored.prints(name).map_or_else(|| vec![0; self.cells], <[u64]>::to_vec)
        };
        names.iter().flat_map(of).collect()
    }

    /// The name of a version of a bucket.
    pub fn name(&self, (chunk, version): Version) -> ChunkName {
        ChunkName { array: ArrayId(self.array), chunk, version }
    }

    /// A bucket is being written.
    pub fn write(&mut self, version: Version, prints: &[u64]) {
        self.stored.write(self.name(version), self.cells, prints);
    }

    /// It was.
    pub fn written(&mut self, version: Version) {
        self.stored.written(self.name(version));
    }

    /// How many buckets were ever written.
    pub fn current(&self) -> u64 {
        self.versions.iter().filter(|version| **version != 0).count() as u64
    }

    /// Whether the proxy names this version.
    pub fn is_current(&self, name: &ChunkName) -> bool {
        name.array.0 == self.array && self.versions.get(name.chunk as usize) == Some(&name.version)
    }
}
