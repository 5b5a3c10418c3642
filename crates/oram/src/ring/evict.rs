//! EvictPath: rewrites the buckets of one path, deepest first, from everything the stash holds.
//!
//! Paths follow each other in reverse lexicographic order, one every A accesses, whatever the
//! accesses were. Of every stored bucket of the path exactly Z unread slots are read and the whole
//! bucket is rewritten; of a bucket that is an image already, nothing is read.
//!
//! # No displacement
//!
//! At every bucket the blocks that were pulled out of the buckets of the path come before those
//! that waited in the stash. Then every pulled block finds a place again, so that only an access
//! brings a block into the stash: what a checkpoint delta rests on. Suppose one were left. It may
//! go to every level from t to some m, so all of these were filled up with pulled blocks. Let t..=k
//! be the longest run of levels filled so. Every pulled block that may go below k found a place
//! below k, for there was room at k + 1. So the Z (k - t + 1) blocks in the run and the one left
//! may not go below k and were pulled from the run, which held at most Z (k - t + 1). The same
//! argument started at any level in place of t says that no fewer pulled blocks lie at or below a
//! level than before.
//!
//! How many blocks a bucket gets does not depend on which of those that may go there go first, and
//! neither does the bound on the stash, which counts blocks.

use fogbank_store::ChunkName;

use super::bucket::{BucketBlock, NO_IMAGE, mark};
use super::plan::{Fetch, Planner};
use crate::position::Location;
use crate::slab::Handle;
use crate::stash::{Queue, StashedBlock};

impl Planner {
    /// Pulls the blocks of the next path into the stash, then places what it can.
    pub(super) fn evict_path(&mut self) {
        self.stash.note_size();
        let leaf = self.geometry.tree.eviction_leaf(self.evictions);
        self.evictions += 1;
        self.tally.evictions += 1;
        let waiting = self.stash.bin_of(leaf).len(); // what is pulled comes behind
        for level in self.geometry.cached_levels..self.geometry.tree.levels() {
            self.tally.evict_cells += self.pull(level, leaf);
        }
        self.place_on_path(leaf, waiting);
    }

    /// Fetches ahead what the evictions due in the next `accesses` will rewrite: those buckets
    /// become images now, as if reshuffled. Which they are follows from the number of evictions so
    /// far.
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

    /// ReadBucket: moves the blocks of a bucket to the stash and leaves an empty image in its
    /// place. Returns how many cells that reads.
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
            let index = stash.push(StashedBlock { block: kept.block, leaf, payload: kept.payload });
            positions.set_location(kept.block, Location::Stash { index });
        });
    }

    /// Plans the read of exactly Z unread slots by rising slot; what is neither dummy nor stale
    /// goes to the stash.
    fn pull_stored(&mut self, name: ChunkName) {
        let mut unread = std::mem::take(&mut self.scratch.unread);
        self.buckets.unread(name.chunk, &mut unread);
        self.canary.arrange(&mut unread);
        let mut payloads = std::mem::take(&mut self.scratch.payloads);
        payloads.clear();
        payloads.extend(unread.iter().map(|(_, block)| self.pull_block(*block)));
        if !self.replaying {
            let window = self.plan.window(self.window_cells);
            self.canary.push(&mut window.message, name, &unread);
            let fetches = unread.iter().zip(&payloads);
            window
                .fetches
                .extend(fetches.map(|((slot, b), payload)| Fetch::of(&name, *slot, *b, *payload)));
        }
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
        self.hold(StashedBlock { block, leaf, payload });
        payload
    }

    /// WriteBucket for every bucket of a path: fills the images from the leaf up, each with up to Z
    /// blocks that may go there, pulled ones before the first `waiting` of the bin, and of either
    /// those that may go deepest first.
    fn place_on_path(&mut self, leaf: u32, waiting: usize) {
        let mut bin = std::mem::take(&mut self.scratch.bin);
        let mut queues = std::mem::take(&mut self.scratch.queues);
        bin.clear();
        self.stash.drain_bin(leaf, &mut bin);
        #[cfg(test)]
        let waiting = if self.all_alike { bin.len() } else { waiting };
        let (waiting, pulled) = bin.split_at(waiting);
        queues[0].fill(self.geometry.tree, leaf, pulled);
        queues[1].fill(self.geometry.tree, leaf, waiting);
        for n in 0..self.geometry.stored_levels() {
            let level = self.level_to_fill(n);
            let image = self.buckets.head(self.geometry.chunk(level, leaf)).image;
            queues.iter_mut().for_each(|queue| self.place_from(queue, image, level));
        }
        self.displaced += queues[0].rest().len() as u64;
        for held in queues.iter().flat_map(Queue::rest) {
            let index = self.stash.push(*held);
            self.positions.set_location(held.block, Location::Stash { index });
        }
        (self.scratch.bin, self.scratch.queues) = (bin, queues);
    }

    /// Places what may go to the bucket at `level`, while it has room.
    fn place_from(&mut self, queue: &mut Queue, image: u32, level: u8) {
        while let Some(StashedBlock { block, payload, .. }) = queue.head(level) {
            let Some(index) = self.images.push(image, BucketBlock { block, payload }) else {
                break;
            };
            self.positions.set_location(block, Location::Bucket { level, index });
            queue.advance();
        }
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
