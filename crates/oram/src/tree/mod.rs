//! Complete binary trees whose leaves are what blocks are mapped to.
//!
//! The root is level 0 and the leaves are level L; the bucket on the path to leaf `l` at level `i`
//! has index `l >> (L - i)` within its level.

mod bucket;
mod path;

/// A complete binary tree of 2^L leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    leaf_level: u8,
}

impl Tree {
    /// A tree whose leaves are at `leaf_level` (L), at most 31.
    pub const fn new(leaf_level: u8) -> Self {
        Self { leaf_level }
    }

    /// L.
    pub const fn leaf_level(&self) -> u8 {
        self.leaf_level
    }

    /// L + 1.
    pub const fn levels(&self) -> u8 {
        self.leaf_level + 1
    }

    /// 2^L.
    pub const fn leaves(&self) -> u32 {
        1 << self.leaf_level
    }

    /// 2^(L+1) - 1.
    pub const fn buckets(&self) -> u64 {
        (1 << (self.leaf_level + 1)) - 1
    }
}
