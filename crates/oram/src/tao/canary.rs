//! Leaks of the tree on purpose, see [`crate::canary`]. Those of the shell stand in
//! `immediate/canary.rs`.

use crate::canary::canary;

canary! {
    leaks {
        /// A request that finds another waiting for its block reads the block's path as well.
        /// Rule: a path drawn at random.
        OwnPathTwice,
        /// A bucket is dropped when a write-back is acknowledged, whatever happened to it since or
        /// is about to come. Rule: the fresh-subtree invariant.
        DroppedEarly,
        /// A block keeps its leaf. Rule: a fresh one after every access.
        LeafKept,
        /// Decoys are not written back. Rule: every path that was read.
        DecoyNotWritten,
        /// Of the buckets that could be dropped those that hold no block stay, and are not asked
        /// for. Rule: all go that have not changed and that no path goes through.
        EmptyKept,
        /// The path of a request that finds another waiting is asked for as a whole. Rule: what is
        /// here is not asked for.
        DecoyWhole,
    }
    state {}
    asks {
        reads_twice: OwnPathTwice,
        drops_early: DroppedEarly,
        keeps_empty: EmptyKept,
        keeps_leaf: LeafKept,
        keeps_decoys: DecoyNotWritten,
        asks_for_all: DecoyWhole,
    }

    fn is_set(&self) -> bool { false } or { self.leak.is_some() }
}
