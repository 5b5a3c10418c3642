//! What a `tao` engine has done since it was opened.

use super::subtree::Subtree;
use crate::stash::Stash;

/// Figures since the engine was opened. The cloud can count all of them but those in `secret`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Paths flushed: accesses, padding included.
    pub paths: u64,
    /// Write-backs begun.
    pub write_backs: u64,
    /// Buckets in them.
    pub buckets_written: u64,
    /// Checkpoints committed.
    pub checkpoints: u64,
    /// The most buckets that were in the subtree at once.
    pub subtree_max: usize,
    /// What the cloud must not learn.
    pub secret: SecretStats,
}

/// Figures that must not leave the trusted side.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SecretStats {
    /// The most blocks that were in stash and cached top after a flush.
    pub stash_max: usize,
}

impl Stats {
    pub(super) fn note(&mut self, stash: &Stash, subtree: &Subtree) {
        self.paths += 1;
        self.subtree_max = self.subtree_max.max(subtree.len());
        self.secret.stash_max = stash.len_max();
    }
}
