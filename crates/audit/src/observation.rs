//! What one pass over a trace hands to the checks: the trace as the oracle understood it.

use fogbank_env::Nanos;

/// Something the oracle recognised in the trace. Everything free in it, and nothing else, goes to
/// the statistics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Observation<'a> {
    /// A message of a batch left for the store. `batch` counts from 0 within the epoch; the write
    /// batch has the number R, images and barrier R + 1, the delta or checkpoint and the commit
    /// record R + 2, the deletions after it R + 3.
    Departed {
        /// When it was sent.
        at: Nanos,
        /// The latest public cause before it: the end of the request it waited for, or its point.
        cause: Nanos,
        /// How many whole quanta the cause lies after the point at which the message was due; 0
        /// where nothing says when it was.
        missed: u64,
        /// The epoch, from 0.
        epoch: u64,
        /// Which message of the epoch.
        batch: u32,
    },
    /// A uniform index was drawn: the leaf of a path, or what an engine without a tree has instead,
    /// such as a partition. Where buckets on a path were not stored the trace shows a part of the
    /// leaf only; `leaf` is then completed at random among the leaves that fit, so that it is
    /// uniform exactly if the leaves read were.
    Path {
        /// The epoch, from 0.
        epoch: u64,
        /// The running number of the read batch.
        batch: u64,
        /// The running number of the access, write slots included.
        access: u64,
        /// The leaf.
        leaf: u32,
        /// Whether the trace shows all of it.
        whole: bool,
        /// Whether the trace shows any of it.
        shown: bool,
        /// A stretch of paths whose order is not known: those that show nothing are observed after
        /// all others of their stretch, wherever they came.
        stretch: u64,
    },
    /// A rank was drawn among unread cells: one cell of a path read, or of a level. Of a set that
    /// is drawn at once the cells come in a random order, so that each is uniform among those left
    /// exactly if the set is.
    PathCell {
        /// The bucket or partition, as the array numbers it.
        chunk: u32,
        /// Its level.
        level: u8,
        /// Its version.
        version: u64,
        /// How many cells of this version had been read before.
        nth: u16,
        /// The cell.
        cell: u16,
        /// How many cells of this version were unread.
        unread: u16,
        /// The rank of the cell among them, from 0.
        rank: u16,
    },
    /// The read of Z cells that retires a bucket version.
    Retired {
        /// The bucket.
        chunk: u32,
        /// Its level.
        level: u8,
        /// Its version.
        version: u64,
        /// How many cells of this version were unread.
        unread: u16,
        /// The ranks of the Z cells among them, rising.
        ranks: &'a [u16],
    },
    /// An eviction fell due.
    Evicted {
        /// The leaf of its path.
        leaf: u32,
        /// The running number of the access it followed.
        access: u64,
    },
    /// A bucket image was written.
    Image {
        /// The bucket.
        chunk: u32,
        /// Its version.
        version: u64,
        /// The fingerprint of every cell.
        fingerprints: &'a [u64],
    },
    /// A blob was written.
    Blob {
        /// The first part of its name, up to the first slash.
        kind: &'a str,
        /// Its length.
        bytes: u64,
        /// Its fingerprint.
        fingerprint: u64,
    },
}

/// A check that looks at observations in their order.
pub trait Observer {
    /// Takes in one observation.
    fn observe(&mut self, observation: &Observation<'_>);
}

impl<F: FnMut(&Observation<'_>)> Observer for F {
    fn observe(&mut self, observation: &Observation<'_>) {
        self(observation);
    }
}
