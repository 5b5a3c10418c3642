//! One partition as far as the trace has shown it: its levels, and which of their cells were read.

use fogbank_env::Stream;
use fogbank_store::ChunkName;

use super::CellSeen;
use super::layout::{Layout, name, orders};
use crate::oracle::fault::{Step, fault};
use crate::oracle::shape::below;

/// A level in one generation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Level {
    pub version: u64,
    /// A bit for each cell that was read.
    read: Vec<u64>,
    unread: u16,
    /// Once it is due: what its quota lacks, and what was read of it.
    left: Option<u16>,
    of_quota: Vec<u16>,
}

impl Level {
    pub fn new(version: u64, cells: u16) -> Self {
        let read = vec![0; usize::from(cells).div_ceil(64)];
        Self { version, read, unread: cells, left: None, of_quota: Vec::new() }
    }

    /// Reads a uniform one of the unread cells.
    pub fn draw(&mut self, random: &mut Stream) -> u16 {
        let rank = below(random, self.unread.into()) as usize;
        let cells = 0..self.read.len() as u16 * 64;
        let is_unread = |cell: &u16| self.read[usize::from(cell / 64)] >> (cell % 64) & 1 == 0;
        let cell = cells.filter(is_unread).nth(rank).unwrap_or(0);
        let _taken = self.take(cell);
        cell
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
        if self.left.is_some() {
            self.of_quota.push(cell);
        }
        Ok((self.unread + 1, cell - before as u16))
    }
}

/// The job that rewrites a partition.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Planned {
    pub until: u64,
    sources: Vec<u8>,
    destinations: Vec<u8>,
}

impl Planned {
    /// Whether it reads this level.
    pub fn reads(&self, of: &ChunkName) -> bool {
        self.sources.iter().any(|level| u16::from(*level) + 1 == of.array.0)
    }

    /// Whether it makes this generation.
    pub fn makes(&self, of: &ChunkName) -> bool {
        let is_written = self.destinations.iter().any(|level| u16::from(*level) + 1 == of.array.0);
        is_written && orders(of) == self.until
    }
}

/// A partition.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pyramid {
    /// Orders carried out, but for those that touch no stored level; and given.
    done: u64,
    pub given: u64,
    /// By level.
    pub levels: Vec<Option<Level>>,
    pub job: Option<Planned>,
}

impl Pyramid {
    /// One of a new store.
    pub fn new(layout: &Layout, done: u64, version: u64) -> Self {
        let mut levels = vec![None; layout.levels.into()];
        for level in layout.filled(done) {
            levels[usize::from(level)] = Some(Level::new(version, layout.cells(level)));
        }
        Self { done, given: done, levels, job: None }
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

    /// An access reads a cell of `level`, by the table. Before it is due there are always dummies
    /// left: an access gives its partition an order in the same step.
    pub fn read(&mut self, layout: &Layout, level: u8, cell: u16) -> Step<(u16, u16)> {
        let is_due = layout.is_due(level, self.given, self.done);
        let Some(held) = &mut self.levels[usize::from(level)] else {
            return fault("cell-per-level", "a filled level", format!("level {level}"));
        };
        if is_due {
            let left = held.left.unwrap_or(layout.quota(level));
            held.left = Some(left.saturating_sub(1));
        }
        held.take(cell)
    }

    /// A job begins: of every source it reads what its quota lacks.
    pub fn begin_job(&mut self, layout: &Layout, until: u64) -> Vec<(u8, u16)> {
        let (sources, destinations) = layout.job(until, self.done);
        let rest = |level: &u8| {
            let held = self.levels[usize::from(*level)].as_mut()?;
            Some((*level, held.left.replace(0).unwrap_or(layout.quota(*level))))
        };
        let reads = sources.iter().filter_map(rest).collect();
        self.job = Some(Planned { until, sources, destinations });
        reads
    }

    /// What its job has written, as `version`, takes the place of what that has read.
    pub fn commit(&mut self, layout: &Layout, version: u64) {
        let Some(Planned { until, sources, destinations }) = self.job.take() else { return };
        sources.into_iter().for_each(|level| self.levels[usize::from(level)] = None);
        for level in destinations {
            let made = Level::new(version, layout.cells(level));
            self.levels[usize::from(level)] = Some(made);
        }
        self.done = until;
    }

    /// The cells of quotas that were read, by level and place: no checkpoint has what they hold.
    pub fn lacking(&self, partition: u32) -> Vec<CellSeen> {
        let mut lacking = Vec::new();
        for (level, held) in (0..).zip(&self.levels) {
            let Some(held) = held else { continue };
            let mut cells = held.of_quota.clone();
            cells.sort_unstable();
            let named = cells.into_iter().map(|cell| (name(partition, level, held.version), cell));
            lacking.extend(named);
        }
        lacking
    }
}
