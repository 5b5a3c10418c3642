//! A job as the cloud sees it: what it reads, what it writes, how far it is.

use std::collections::VecDeque;

use fogbank_env::Nanos;
use fogbank_store::ChunkName;

/// When something came, and its message: that of a record, and which of it. On a grid what comes at
/// one point is taken in the order in which it left.
pub(super) type Came = (Nanos, u64, usize);

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    Reading,
    Come,
    /// It may write.
    Writing,
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    pub until: u64,
    pub version: u64,
    /// What it reads: of every source so many cells. Known when its record is shown.
    pub reads: Vec<(u8, u16)>,
    pub destinations: Vec<u8>,
    /// What it takes of the budget of cells.
    pub cost: u64,
    /// Accesses that were cut before it and whose cells had not come.
    pub early: Vec<u64>,
    pub step: Phase,
    /// Its message.
    pub order: (u64, usize),
    /// The last of what it has waited for.
    pub came: Came,
    /// Messages that it has not sent, those under way, and all that it has sent.
    pub windows: VecDeque<Vec<ChunkName>>,
    pub under_way: usize,
    pub sent: usize,
    /// Which it was of those that have begun to write.
    pub nth: u64,
}

impl Job {
    pub fn new(until: u64, version: u64, destinations: Vec<u8>) -> Self {
        Self {
            until,
            version,
            reads: Vec::new(),
            destinations,
            cost: 0,
            early: Vec::new(),
            step: Phase::Reading,
            order: (0, 0),
            came: (0, 0, 0),
            windows: VecDeque::new(),
            under_way: 0,
            sent: 0,
            nth: 0,
        }
    }

    pub fn has_come(&self) -> bool {
        self.step != Phase::Reading
    }

    /// Whether it has begun to write.
    pub fn has_begun(&self) -> bool {
        self.sent > 0
    }

    pub fn cells(&self) -> u64 {
        self.reads.iter().map(|(_, cells)| u64::from(*cells)).sum()
    }
}
