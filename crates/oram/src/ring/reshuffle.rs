//! EarlyReshuffle: rewrites one bucket that has served S reads.
//!
//! When that happens follows from the paths read, which are public. It happens right after the
//! access that made the S-th read, so no bucket version is ever read more than S times and Z unread
//! slots are always left for the rewrite.

use super::bucket::BucketBlock;
use super::plan::Planner;
use crate::position::Location;

impl Planner {
    /// Rewrites the bucket at `level` on the path to `leaf` because it has served S reads.
    pub(super) fn reshuffle(&mut self, level: u8, leaf: u32) {
        self.tally.early_reshuffles += 1;
        self.tally.reshuffle_cells += self.rewrite_bucket(level, leaf);
    }

    /// ReadBucket and WriteBucket of one bucket. Returns how many cells that reads.
    pub(super) fn rewrite_bucket(&mut self, level: u8, leaf: u32) -> u64 {
        let read = self.pull(level, leaf);
        self.place_in(level, leaf);
        read
    }

    /// Fills the image of one bucket with blocks of the stash that may go there: those first that
    /// came last, which are the ones just pulled out of it. So they all go back (see `evict`).
    fn place_in(&mut self, level: u8, leaf: u32) {
        let tree = self.geometry.tree;
        let image = self.buckets.head(self.geometry.chunk(level, leaf)).image;
        let mut at = self.stash.bin_of(leaf).len();
        while at > 0 {
            at -= 1; // downwards: what a removal moves here has been looked at
            let held = self.stash.bin_of(leaf)[at];
            if tree.index(level, held.leaf) != tree.index(level, leaf) {
                continue;
            }
            let kept = BucketBlock { block: held.block, payload: held.payload };
            let Some(index) = self.images.push(image, kept) else { break };
            self.unhold(leaf, at as u32);
            self.positions.set_location(held.block, Location::Bucket { level, index });
        }
    }
}
