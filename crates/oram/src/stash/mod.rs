//! The stash, and the cached top of the tree: one structure.
//!
//! Blocks that are in no stored bucket are kept in 2^t bins by the top t bits of their leaf, where
//! t is the number of cached levels. An eviction along a path can only place blocks of the bin of
//! that path, and every block of that bin may go at least to level t of it; with t = 0 there is one
//! bin, the ordinary stash. How many blocks there can be is argued in `geometry`.
//!
//! The size is a secret: it goes into no message, no delay and no public figure.

mod queue;
mod saved;

pub use queue::Queue;
pub use saved::{SavedStash, load_stash, save_stash, stash_lengths, unload_stash};

use crate::slab::Handle;

/// A block in the stash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StashedBlock {
    /// The block's id.
    pub block: u32,
    /// The leaf it is mapped to.
    pub leaf: u32,
    /// Where its payload is or will be.
    pub payload: Handle,
}

/// The stash in bins.
#[derive(Debug, Clone)]
pub struct Stash {
    bins: Vec<Vec<StashedBlock>>,
    leaf_shift: u32,
    len: usize,
    len_max: usize,
}

impl Stash {
    /// An empty stash for leaves of `leaf_level` bits and `cached_levels` (t) cached levels.
    pub fn new(leaf_level: u8, cached_levels: u8) -> Self {
        Self {
            bins: vec![Vec::new(); 1 << cached_levels],
            leaf_shift: u32::from(leaf_level - cached_levels),
            len: 0,
            len_max: 0,
        }
    }

    /// How many blocks it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The most blocks it held at any [`Stash::note_size`].
    pub fn len_max(&self) -> usize {
        self.len_max
    }

    /// Counts the present size for [`Stash::len_max`]. Called where the bound is stated: before an
    /// eviction and at the end of a batch, not while buckets pass through.
    pub fn note_size(&mut self) {
        self.len_max = self.len_max.max(self.len);
    }

    /// Adds a block and returns its index within its bin.
    pub fn push(&mut self, held: StashedBlock) -> u32 {
        let bin = self.bin(held.leaf);
        self.bins[bin].push(held);
        self.len += 1;
        self.bins[bin].len() as u32 - 1
    }

    /// Takes out the block at `index` of the bin of `leaf`; also returns the block that now has
    /// that index, if any.
    pub fn remove(&mut self, leaf: u32, index: u32) -> (StashedBlock, Option<u32>) {
        let bin = self.bin(leaf);
        let bin = &mut self.bins[bin];
        let held = bin.swap_remove(index as usize);
        self.len -= 1;
        (held, bin.get(index as usize).map(|moved| moved.block))
    }

    /// Moves all blocks of the bin of `leaf` to `into`, which must be empty.
    pub fn drain_bin(&mut self, leaf: u32, into: &mut Vec<StashedBlock>) {
        let bin = self.bin(leaf);
        self.len -= self.bins[bin].len();
        into.append(&mut self.bins[bin]);
    }

    /// The blocks of the bin of `leaf`, in the order of their indices.
    pub fn bin_of(&self, leaf: u32) -> &[StashedBlock] {
        &self.bins[self.bin(leaf)]
    }

    /// All blocks.
    pub fn iter(&self) -> impl Iterator<Item = &StashedBlock> {
        self.bins.iter().flatten()
    }

    fn bin(&self, leaf: u32) -> usize {
        (leaf >> self.leaf_shift) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(block: u32, leaf: u32) -> StashedBlock {
        StashedBlock { block, leaf, payload: Handle(block) }
    }

    #[test]
    fn bins_follow_the_top_bits() {
        let mut stash = Stash::new(4, 2);
        for leaf in 0..16 {
            assert_eq!(stash.push(held(leaf, leaf)), leaf % 4);
        }
        assert_eq!(stash.remove(5, 0), (held(4, 4), Some(7)));
        assert_eq!(stash.remove(5, 2), (held(6, 6), None));
        assert_eq!((stash.len(), stash.bin_of(6).len()), (14, 2));
        let mut bin = Vec::new();
        stash.drain_bin(15, &mut bin);
        assert_eq!((stash.len(), bin.len(), stash.bin_of(12).len()), (10, 4, 0));
        stash.note_size();
        assert_eq!(stash.len_max(), 10);
    }

    #[test]
    fn without_a_cache_there_is_one_bin() {
        let mut stash = Stash::new(0, 0);
        stash.push(held(0, 0));
        let mut stash = Stash::new(10, 0);
        assert_eq!(stash.push(held(1, 0)), 0);
        assert_eq!(stash.push(held(2, 1023)), 1);
        assert_eq!(stash.bin_of(512)[1], held(2, 1023));
    }
}
