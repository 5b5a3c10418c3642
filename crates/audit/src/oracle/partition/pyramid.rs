//! One partition: its counters, its levels with the cells that were read, and the job that is
//! rewriting it.

use fogbank_env::Nanos;

use super::layout::Layout;
use crate::oracle::fault::{Step, fault};

/// A level in one generation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Level {
    pub version: u64,
    /// A bit for each cell that was read.
    read: Vec<u64>,
    pub unread: u16,
    /// Cells that accesses have read before it was due.
    pub asked: u16,
    /// Once it is due: what its quota lacks.
    pub left: Option<u16>,
}

impl Level {
    pub fn new(version: u64, cells: u16) -> Self {
        let read = vec![0; usize::from(cells).div_ceil(64)];
        Self { version, read, unread: cells, asked: 0, left: None }
    }

    /// A cell is read: how many were unread, and which of them it is.
    pub fn take(&mut self, cell: u16) -> Step<(u16, u16)> {
        let (word, bit) = (usize::from(cell / 64), cell % 64);
        match self.read.get(word) {
            Some(read) if read >> bit & 1 == 0 => {}
            _ => return fault("cell-once", "a cell that was not read", format!("cell {cell}")),
        }
        let before: u32 = self.read[..word].iter().map(|word| word.count_ones()).sum();
        let before = before + (self.read[word] & ((1 << bit) - 1)).count_ones();
        self.read[word] |= 1 << bit;
        self.unread -= 1;
        Ok((self.unread + 1, cell - before as u16))
    }
}

/// When something came, and its message: that of a record, and which of it. On a grid what comes at one
/// point is taken in the order in which it left.
pub(super) type Came = (Nanos, u64, usize);

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    Reading,
    Come,
    /// It may write.
    Writing,
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    pub until: u64,
    pub version: u64,
    /// What it reads: of every source so many cells.
    pub sources: Vec<(u8, u16)>,
    pub destinations: Vec<u8>,
    pub cost: u64,
    /// Accesses that were cut before it and whose cells had not come.
    pub early: Vec<u64>,
    pub step: Phase,
    /// Its message.
    pub order: (u64, usize),
    /// The last of what it has waited for.
    pub came: Came,
    /// Messages that it has not sent, those under way, and all that it has sent.
    pub windows: Vec<Vec<u8>>,
    pub under_way: usize,
    pub sent: usize,
    /// Which it was of those that have begun to write.
    pub nth: u64,
}

impl Job {
    pub fn has_come(&self) -> bool {
        self.step != Phase::Reading
    }

    /// Whether it has begun to write.
    pub fn has_begun(&self) -> bool {
        self.sent > 0
    }

    pub fn reads(&self) -> u64 {
        self.sources.iter().map(|(_, cells)| u64::from(*cells)).sum()
    }
}

/// A partition.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pyramid {
    pub done: u64,
    pub given: u64,
    pub sure: u64,
    /// By level.
    pub levels: Vec<Option<Level>>,
    pub job: Option<Job>,
    pub is_ready: bool,
}

impl Pyramid {
    /// One of a new store.
    pub fn new(layout: &Layout, done: u64, version: u64) -> Self {
        let mut levels = vec![None; layout.levels.into()];
        for level in layout.filled(done) {
            levels[usize::from(level)] = Some(Level::new(version, layout.cells(level)));
        }
        Self { done, given: done, sure: done, levels, job: None, is_ready: false }
    }

    /// The filled levels of which an access reads a cell now.
    pub fn shows(&self, layout: &Layout) -> Vec<u8> {
        let shows = |level: &u8| {
            let Some(held) = &self.levels[usize::from(*level)] else { return false };
            !layout.is_due(*level, self.given, self.done)
                || held.left.unwrap_or(layout.quota(*level)) > 0
        };
        layout.filled(self.done).filter(shows).collect()
    }

    /// An access reads a cell of `level`, by the table.
    pub fn read(&mut self, layout: &Layout, level: u8, cell: u16) -> Step<(u16, u16)> {
        let is_due = layout.is_due(level, self.given, self.done);
        let Some(held) = &mut self.levels[usize::from(level)] else {
            return fault("cell-per-level", "a filled level", format!("level {level}"));
        };
        match is_due {
            true => {
                let left = held.left.unwrap_or(layout.quota(level));
                held.left = Some(left.saturating_sub(1));
            }
            false if held.asked < layout.dummies(level) => held.asked += 1,
            false => {
                let due = format!("at most {} before it is due", layout.dummies(level));
                return fault("cell-per-level", due, "one more");
            }
        }
        held.take(cell)
    }

    /// Orders that stay within the proxy are carried out at once; how many.
    pub fn settle(&mut self, layout: &Layout) -> u64 {
        if self.job.is_some() || layout.needs_job(self.sure, self.done) {
            return 0;
        }
        let settled = self.sure - self.done;
        self.done = self.sure;
        settled
    }
}
