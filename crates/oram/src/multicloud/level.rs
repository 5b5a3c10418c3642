//! A level of a partition, as the client knows it: which block lies in which cell, and which cells
//! are unread dummies. A cell that was read is neither.
//!
//! 4 bytes a block and two marks a cell: the k-th block lies in the k-th cell that had one when the
//! level was written.

use fogbank_mix::{Generation, Marks};

use crate::checkpoint::inconsistent;
use crate::{Error, Result};

/// Stands for no block.
const NONE: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub struct Level {
    /// The job that wrote it.
    pub generation: Generation,
    cells: u32,
    /// Cells that had a block when it was written, or saved.
    filled: Marks,
    /// By rank among these, the block there; [`NONE`] once it was read.
    ids: Box<[u32]>,
    /// Unread cells without a block.
    free: Marks,
    /// Cells with a block.
    blocks: u32,
    /// How many cells were read; public.
    pub reads: u32,
}

impl Level {
    /// One just written, with these blocks in its cells.
    pub fn new(generation: Generation, ids: impl Iterator<Item = Option<u32>>) -> Self {
        let ids: Vec<Option<u32>> = ids.collect();
        let (mut filled, mut free) = (Marks::none(ids.len()), Marks::none(ids.len()));
        for (cell, id) in (0..).zip(&ids) {
            if id.is_some() { filled.set(cell) } else { free.set(cell) }
        }
        let cells = ids.len() as u32;
        let ids: Box<[u32]> = ids.into_iter().flatten().collect();
        let blocks = ids.len() as u32;
        Self { generation, cells, filled, ids, free, blocks, reads: 0 }
    }

    /// One as it was saved, but for the blocks in its cells: first [which](Self::fill) cells have
    /// one, then [what](Self::put) it is.
    pub fn saved(generation: Generation, cells: u32, free: Marks, reads: u32) -> Self {
        let (filled, ids) = (Marks::none(cells as usize), Box::default());
        Self { generation, cells, filled, ids, free, blocks: 0, reads }
    }

    /// `cell` of a saved one has a block.
    ///
    /// # Errors
    /// [`Error::Bug`] if something is there already, or there is no such cell.
    pub fn fill(&mut self, cell: u32) -> Result<()> {
        if cell >= self.cells || self.filled.has(cell) || self.free.has(cell) {
            return Err(inconsistent());
        }
        self.filled.set(cell);
        Ok(())
    }

    /// `block` lies in `cell`, one of those that have a block.
    ///
    /// # Errors
    /// [`Error::Bug`] if it is none of them.
    pub fn put(&mut self, cell: u32, block: u32) -> Result<()> {
        if self.ids.is_empty() {
            self.ids = vec![NONE; self.filled.count() as usize].into();
        }
        let id = self.slot(cell).filter(|id| **id == NONE);
        *id.ok_or_else(inconsistent)? = block;
        self.blocks += 1;
        Ok(())
    }

    /// What is noted of the block that `cell` had.
    fn slot(&mut self, cell: u32) -> Option<&mut u32> {
        if !self.filled.has(cell) {
            return None;
        }
        self.ids.get_mut(self.filled.before(cell) as usize)
    }

    /// Cells.
    pub fn cells(&self) -> u32 {
        self.cells
    }

    /// Cells with a block.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The block in `cell`.
    pub fn id(&self, cell: u32) -> Option<u32> {
        let is_filled = self.filled.has(cell);
        let id = is_filled.then(|| self.ids.get(self.filled.before(cell) as usize)).flatten();
        id.copied().filter(|id| *id != NONE)
    }

    /// Unread cells without a block.
    pub fn free(&self) -> &Marks {
        &self.free
    }

    /// Cells with a block, which are unread.
    pub fn reals(&self) -> impl Iterator<Item = (u32, u32)> {
        let ids = self.filled.iter().zip(&self.ids);
        ids.filter(|(_, id)| **id != NONE).map(|(cell, id)| (cell, *id))
    }

    /// `cell` is read: it is used for nothing any more.
    ///
    /// # Errors
    /// [`Error::Bug`] if it was read before.
    pub fn read(&mut self, cell: u32) -> Result<()> {
        if cell >= self.cells {
            return Err(Error::Bug("a cell that no level has".into()));
        }
        if let Some(id) = self.slot(cell).filter(|id| **id != NONE) {
            *id = NONE;
            self.blocks -= 1;
        } else if self.free.has(cell) {
            self.free.clear(cell);
        } else {
            return Err(Error::Bug("a cell would be read twice".into()));
        }
        self.reads += 1;
        Ok(())
    }
}
