//! How what lies in a cell came there: from which upload, and under which covers.
//!
//! Nobody keeps covers; they follow from seeds and from lists of rebuilds. A cell is an input of
//! its job by the job's order, and an input is a cell of a level below (its cover came off when it
//! moved), a carried cell (it got two covers: that of its old place, and that of its way), an
//! upload, or zeros. A refresh carries nothing, so a chain has at most 2 (R - 1) covers.
//!
//! A chain is walked beside the steps, while messages travel ([`Uncovering::find`]).
//!
//! Leaks: nothing. However short a chain is, the same number of keys is ranked and of covers made:
//! those of the longest chain that there may be. A block that is asked for often has a short one.

use std::hint::black_box;
use std::sync::Arc;

use fogbank_mix::message::Sources;
use fogbank_mix::{Generation, Order, Pads, Seed, Shape};
use fogbank_seal::{SeedFor, SplitKeys, UploadPlace};
use rayon::prelude::*;

use super::lineage::Lineage;
use crate::{Error, Result};

/// A cell of a level of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The level.
    pub level: u8,
    /// The job that wrote it.
    pub generation: Generation,
    /// Which of its cells.
    pub place: u32,
}

/// Whose cells are to be uncovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The one that a read is sent.
    Read(u64),
    /// All that a refresh of a partition fetches.
    Refresh(u16, Generation),
}

/// Cells of which it is to be found out where what lies there was uploaded, and what covers it.
#[derive(Debug, Clone)]
pub struct Uncovering {
    pub(super) whose: Whose,
    pub(super) shape: Shape,
    pub(super) keys: Arc<SplitKeys>,
    pub(super) partition: u16,
    pub(super) lineage: Lineage,
    pub(super) cells: Vec<Cell>,
    /// What no client may do.
    pub(super) walks_short: bool,
    pub(super) repeats_carry_pads: bool,
}

/// What was found, a cell each.
#[derive(Debug)]
pub struct Uncovered {
    pub(super) whose: Whose,
    pub(super) found: Vec<Found>,
    /// What each took.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test counts it"))]
    pub(super) works: Vec<Work>,
}

/// How one cell came about.
#[derive(Debug)]
pub struct Found {
    /// Where what lies there was uploaded; nowhere if it is zeros.
    pub upload: Option<UploadPlace>,
    /// All covers on it together, but that of its present place.
    pub cover: Box<[u8]>,
}

/// What walking chains takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    /// Keys of orders that are ranked.
    pub keys: u64,
    /// Covers that are made.
    pub covers: u32,
}

impl Work {
    /// That of the longest chain of a volume: R tops, and every level below once.
    fn most(shape: &Shape) -> Self {
        let (top, cycle) = (shape.top(), shape.cycle());
        let below = shape.stored_levels().filter(|level| *level != top);
        let below = below.map(|level| u64::from(shape.size(level, cycle - (1 << level))));
        let refreshes = u64::from(shape.refresh_every);
        Self {
            keys: refreshes * u64::from(shape.size(top, cycle)) + below.sum::<u64>(),
            covers: 2 * (u32::from(shape.refresh_every) - 1),
        }
    }

    fn less(&mut self, spent: Self) -> Result<()> {
        let keys = self.keys.checked_sub(spent.keys);
        let left = keys.zip(self.covers.checked_sub(spent.covers));
        let too_long = || Error::Bug("a chain is longer than the longest".into());
        (self.keys, self.covers) = left.ok_or_else(too_long)?;
        Ok(())
    }
}

impl Whose {
    /// Of one cell, not of hundreds.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read(_))
    }
}

impl Uncovering {
    /// Finds it out: the same work for every cell.
    ///
    /// # Errors
    /// [`Error::Bug`] if a rebuild of the top is not known any more.
    pub fn find(&self) -> Result<Uncovered> {
        let walk = |cell: &Cell| self.walk(*cell);
        let walked = match self.cells.len() {
            1 => self.cells.iter().map(walk).collect::<Result<Vec<_>>>()?, // of a read: one thread
            _ => self.cells.par_iter().map(walk).collect::<Result<Vec<_>>>()?,
        };
        let (found, works) = walked.into_iter().unzip();
        Ok(Uncovered { whose: self.whose, found, works })
    }

    fn walk(&self, mut cell: Cell) -> Result<(Found, Work)> {
        let (shape, partition, top) = (&self.shape, self.partition, self.shape.top());
        let mut cover = vec![0; shape.cell_bytes()].into_boxed_slice();
        let most = Work::most(shape);
        let mut left = most;
        let upload = loop {
            // 1. Which input of its job it is.
            let Cell { level, generation, place } = cell;
            let count = generation.count();
            let size = shape.size(level, count);
            left.less(Work { keys: size.into(), covers: 0 })?;
            let input = self.item(generation, size, place);
            // 2. A cell that it carried, or an upload.
            let from = match self.lineage.came(shape, partition, cell, input)? {
                Came::Moved(from) => from,
                Came::Uploaded(at) => break Some(at),
                Came::Zeros => break None,
            };
            if level == top {
                left.less(Work { keys: 0, covers: 2 })?;
                let at = SeedFor::Level(partition, from.level, from.generation.0);
                self.pads(at).xor(from.place, &mut cover);
                let way = carry_seed(partition, generation, self.repeats_carry_pads);
                self.pads(way).xor(input, &mut cover);
            }
            cell = from;
        };
        if !self.walks_short {
            self.spend(cell.generation, &mut left);
        }
        let work = Work { keys: most.keys - left.keys, covers: most.covers - left.covers };
        Ok((Found { upload, cover }, work))
    }

    /// Does what a longer chain would have taken.
    fn spend(&self, generation: Generation, left: &mut Work) {
        let size = u64::from(self.shape.size(self.shape.top(), self.shape.cycle()));
        while left.keys > 0 {
            let keys = left.keys.min(size);
            black_box(self.item(generation, keys as u32, 0));
            left.keys -= keys;
        }
        let mut nothing = vec![0; self.shape.cell_bytes()];
        for index in 0..std::mem::take(&mut left.covers) {
            self.pads(SeedFor::Carry(self.partition, generation.0)).xor(index, &mut nothing);
        }
        black_box(nothing);
    }

    fn item(&self, generation: Generation, size: u32, place: u32) -> u32 {
        let purpose = SeedFor::Order(self.partition, generation.0);
        Order::item(&Seed::new(self.keys.seed(purpose)), size, place)
    }

    fn pads(&self, purpose: SeedFor) -> Pads {
        Pads::new(&Seed::new(self.keys.seed(purpose)), self.shape.cell_bytes())
    }
}

/// How what lies in a cell came there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// From a cell of a level before.
    Moved(Cell),
    /// From the client.
    Uploaded(UploadPlace),
    /// From nowhere: it is zeros.
    Zeros,
}

impl Lineage {
    /// How what lies in `cell` came there, of which it is known which input of its job it is.
    ///
    /// # Errors
    /// [`Error::Bug`] if a rebuild of the top is not known any more.
    pub fn came(&self, shape: &Shape, partition: u16, cell: Cell, input: u32) -> Result<Came> {
        let Cell { level, generation, .. } = cell;
        let count = generation.count();
        let (carried, from) = if level == shape.top() {
            let mut known = self.rebuilds.iter().rev();
            let known = known.find(|known| known.generation == generation);
            let known = known.ok_or_else(|| Error::Bug("a chain is not known".into()))?;
            let at = known.list.nth(input);
            (known.list.count(), at.and_then(|at| cell_at(shape, &known.sources, at)))
        } else {
            let sources = self.sources(shape, partition, count);
            (cells(shape, &sources), cell_at(shape, &sources, input))
        };
        Ok(match (from, input.saturating_sub(carried)) {
            (Some(from), _) => Came::Moved(from),
            (None, upload) if upload < shape.uploads(count) => {
                let (generation, index) = (generation.0, upload as u16);
                Came::Uploaded(UploadPlace { partition, generation, index })
            }
            (None, _) => Came::Zeros,
        })
    }
}

/// The seed of what covers the cells that a rebuild carries: one of its own, unless a leak
/// `repeats` it.
pub fn carry_seed(partition: u16, generation: Generation, repeats: bool) -> SeedFor {
    SeedFor::Carry(partition, if repeats { 0 } else { generation.0 })
}

/// The cell that so many of these levels come before, in storage order.
pub fn cell_at(shape: &Shape, sources: &Sources, mut before: u32) -> Option<Cell> {
    for source in &sources.0 {
        let cells = shape.size(source.level, source.generation.count());
        if before < cells {
            let (level, generation) = (source.level, source.generation);
            return Some(Cell { level, generation, place: before });
        }
        before -= cells;
    }
    None
}

/// The number of cells of these levels.
pub fn cells(shape: &Shape, sources: &Sources) -> u32 {
    sources.0.iter().map(|source| shape.size(source.level, source.generation.count())).sum()
}
