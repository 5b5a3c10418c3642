//! What the user decides about a `ring` store: plain values, fixed when the store is created but
//! for the options at the end.

use super::{WINDOW_BYTES, WINDOWS};
use crate::geometry::{BucketShape, Geometry};
use crate::{BatchShape, Error, Result};

/// Settings of a [`super::RingEngine`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingSettings {
    /// The public shape of the traffic.
    pub shape: BatchShape,
    /// R: read batches an epoch. The engine serves any number; it weighs in the choice of buckets.
    pub read_batches: usize,
    /// Z, S and A; `None` lets [`BucketShape::choose`] decide.
    pub bucket: Option<BucketShape>,
    /// L; `None` derives it from capacity and A.
    pub leaf_level: Option<u8>,
    /// Memory for the cached top of the tree, in bytes.
    pub cache_bytes: u64,
    /// The number of the store's array, part of every nonce.
    pub array: u8,
    /// Keep rewritten buckets in the proxy until the epoch ends and write each once (Obladi). False
    /// writes through after every eviction and reshuffle (plain Ring ORAM, for comparison).
    pub epoch_buffer: bool,
    /// Fetch what the evictions of the write batch will need with the last of the `read_batches` of
    /// an epoch: the write batch then reads nothing and saves a round trip. The same cells.
    pub prefetch: bool,
    /// Let the cloud XOR the cells of a path read, where it offers to.
    pub xor: bool,
    /// Leave superseded chunk versions in the cloud until [`crate::BatchEngine::collect`]: for
    /// owners who must be able to go back to the last checkpoint. False deletes them with each
    /// commit.
    pub keep_superseded: bool,
    /// Keep a log of each epoch, so that [`crate::BatchEngine::commit`] returns a delta. An epoch
    /// then has at most `read_batches` read batches and one write batch. Needs `epoch_buffer`.
    pub log_epochs: bool,
    /// About how many bytes of cells one message asks for or brings.
    pub window_bytes: usize,
    /// How many such messages of a batch, or of a commit, are under way at once: at least one.
    pub windows: usize,
}

impl RingSettings {
    /// The usual settings for a shape: chosen buckets, no cache, buffered epochs.
    pub fn new(shape: BatchShape, read_batches: usize) -> Self {
        Self {
            shape,
            read_batches,
            bucket: None,
            leaf_level: None,
            cache_bytes: 0,
            array: 0,
            epoch_buffer: true,
            prefetch: false,
            xor: false,
            keep_superseded: false,
            log_epochs: false,
            window_bytes: WINDOW_BYTES,
            windows: WINDOWS,
        }
    }

    /// The checked geometry these settings lead to.
    ///
    /// # Errors
    /// [`Error::Caller`] for settings outside the limits.
    pub fn geometry(&self) -> Result<Geometry> {
        let shape = &self.shape;
        if shape.read_batch == 0 || shape.write_batch == 0 {
            return Err(Error::Caller("a batch has at least one slot".into()));
        }
        let accesses = self.read_batches * shape.read_batch + shape.write_batch;
        let bucket = self.bucket.unwrap_or_else(|| BucketShape::choose(shape, accesses));
        if bucket.is_path() {
            return Err(Error::Caller("a bucket of Ring ORAM has at least one dummy".into()));
        }
        let leaf_level = self.leaf_level.unwrap_or_else(|| bucket.leaf_level(shape.capacity));
        let (capacity, value_bytes) = (shape.capacity, shape.value_bytes);
        Geometry::with_leaf_level(capacity, value_bytes, bucket, self.cache_bytes, leaf_level)
    }
}
