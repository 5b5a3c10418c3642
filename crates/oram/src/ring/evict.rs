//! EvictPath: rewrites the buckets of one path, deepest first, from everything the stash holds.
//!
//! Paths follow each other in reverse lexicographic order, one every A accesses, whatever the
//! accesses were. Of every stored bucket of the path exactly Z unread slots are read and the whole
//! bucket is rewritten; of a bucket that is an image already, nothing is read.

use fogbank_store::ChunkName;

use super::bucket::{Kept, NO_IMAGE, mark};
use super::plan::{Fetch, Planner};
use crate::position::Location;
use crate::slab::Handle;
use crate::stash::Held;

impl Planner {
    /// Pulls the blocks of the next path into the stash, then places what it can.
    pub(super) fn evict_path(&mut self) {
        self.stash.note_size();
        let leaf = self.geometry.tree.eviction_leaf(self.evictions);
        self.evictions += 1;
        self.tally.evictions += 1;
        for level in self.geometry.cached_levels..self.geometry.tree.levels() {
            self.tally.evict_cells += self.pull(level, leaf);
        }
        self.place_on_path(leaf);
    }

    /// Fetches ahead what the evictions due in the next `accesses` will rewrite: those buckets become
    /// images now, as if reshuffled. Which they are follows from the number of evictions so far.
    pub(super) fn prefetch_evictions(&mut self, accesses: usize) {
        let due = (self.round as usize + accesses) / usize::from(self.geometry.bucket.evict_every);
        for eviction in self.evictions..self.evictions + due as u64 {
            let leaf = self.geometry.tree.eviction_leaf(eviction);
            for level in self.geometry.cached_levels..self.geometry.tree.levels() {
                let head = self.buckets.head(self.geometry.chunk(level, leaf));
                if head.image == NO_IMAGE && head.version != 0 {
                    self.tally.evict_cells += self.rewrite_bucket(level, leaf);
                }
            }
        }
    }

    /// ReadBucket: moves the blocks of a bucket to the stash and leaves an empty image in its place.
    /// Returns how many cells that reads.
    pub(super) fn pull(&mut self, level: u8, leaf: u32) -> u64 {
        let chunk = self.geometry.chunk(level, leaf);
        let head = *self.buckets.head(chunk);
        self.tally.logical_cells += u64::from(self.geometry.bucket.slots());
        if head.image != NO_IMAGE || head.version != 0 {
            self.tally.logical_cells += u64::from(self.geometry.bucket.reals);
        }
        if head.image != NO_IMAGE {
            self.pull_image(head.image);
            return 0;
        }
        self.buckets.head_mut(chunk).image = self.images.open(chunk);
        self.tally.images += 1;
        if head.version == 0 {
            return 0;
        }
        self.pull_stored(ChunkName { array: self.array, chunk, version: head.version });
        u64::from(self.geometry.bucket.reals)
    }

    fn pull_image(&mut self, image: u32) {
        let (positions, stash) = (&mut self.positions, &mut self.stash);
        self.images.drain(image, |kept| {
            let Some(leaf) = positions.leaf(kept.block) else { return };
            let index = stash.push(Held { block: kept.block, leaf, payload: kept.payload });
            positions.set_location(kept.block, Location::Stash { index });
        });
    }

    /// Plans the read of exactly Z unread slots by rising slot; what is neither dummy nor stale goes
    /// to the stash.
    fn pull_stored(&mut self, name: ChunkName) {
        let mut unread = std::mem::take(&mut self.scratch.unread);
        self.buckets.unread(name.chunk, &mut unread);
        self.canary.arrange(&mut unread);
        let mut payloads = std::mem::take(&mut self.scratch.payloads);
        payloads.clear();
        payloads.extend(unread.iter().map(|(_, block)| self.pull_block(*block)));
        let window = self.plan.window(self.window_cells);
        self.canary.push(&mut window.message, name, &unread);
        let fetches = unread.iter().zip(&payloads);
        window
            .fetches
            .extend(fetches.map(|((slot, b), payload)| Fetch::of(&name, *slot, *b, *payload)));
        self.scratch.payloads = payloads;
        self.scratch.unread = unread;
        self.superseded.push(name);
    }

    fn pull_block(&mut self, block: u32) -> Handle {
        if block == mark::DUMMY || block == mark::STALE {
            return Handle::NONE;
        }
        let Some(leaf) = self.positions.leaf(block) else { return Handle::NONE };
        let payload = self.handles.claim();
        self.hold(Held { block, leaf, payload });
        payload
    }

    /// WriteBucket for every bucket of a path: fills the images from the leaf up, each with up to Z
    /// blocks that may go there, those that may go deepest first.
    fn place_on_path(&mut self, leaf: u32) {
        let (waiting, able) = self.take_bin_by_depth(leaf);
        let mut next = 0;
        for n in 0..self.geometry.stored_levels() {
            let level = self.level_to_fill(n);
            let image = self.buckets.head(self.geometry.chunk(level, leaf)).image;
            while next < able[usize::from(level)] {
                let Held { block, payload, .. } = waiting[next];
                let Some(index) = self.images.push(image, Kept { block, payload }) else { break };
                self.positions.set_location(block, Location::Bucket { level, index });
                next += 1;
            }
        }
        for held in &waiting[next..] {
            let index = self.stash.push(*held);
            self.positions.set_location(held.block, Location::Stash { index });
        }
        self.scratch.sorted = waiting;
    }

    /// Takes the bin of a path out of the stash, those first that may go deepest; and for every
    /// level how many of them may go there or deeper.
    fn take_bin_by_depth(&mut self, leaf: u32) -> (Vec<Held>, Able) {
        let tree = self.geometry.tree;
        let mut bin = std::mem::take(&mut self.scratch.bin);
        bin.clear();
        self.stash.drain_bin(leaf, &mut bin);
        let depth = |held: &Held| usize::from(tree.meeting_level(leaf, held.leaf));
        let mut able: Able = [0; LEVELS_MAX + 1];
        bin.iter().for_each(|held| able[depth(held)] += 1);
        for level in (0..LEVELS_MAX).rev() {
            able[level] += able[level + 1];
        }
        let mut at = able;
        let mut sorted = std::mem::take(&mut self.scratch.sorted);
        sorted.clear();
        sorted.extend_from_slice(&bin); // for its length; every element is overwritten
        for held in &bin {
            let deeper = &mut at[depth(held) + 1];
            sorted[*deeper] = *held;
            *deeper += 1;
        }
        self.scratch.bin = bin;
        (sorted, able)
    }

    /// Which level is filled n-th: the leaf first.
    fn level_to_fill(&self, n: u8) -> u8 {
        #[cfg(test)]
        if self.shallow_first {
            return self.geometry.cached_levels + n;
        }
        self.geometry.leaf_level() - n
    }
}

/// Levels a tree can have.
const LEVELS_MAX: usize = 32;

/// By level: how many blocks may go there or deeper.
type Able = [usize; LEVELS_MAX + 1];
