//! A level of a partition, as the client knows it: which block lies in which cell, and which cells
//! are unread dummies. A cell that was read is neither.

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
    /// By cell, the block there; [`NONE`] for none.
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
        let ids: Box<[u32]> = ids.map(|id| id.unwrap_or(NONE)).collect();
        let mut free = Marks::none(ids.len());
        let mut blocks = 0;
        for (cell, id) in (0..).zip(&ids) {
            match *id {
                NONE => free.set(cell),
                _ => blocks += 1,
            }
        }
        Self { generation, ids, free, blocks, reads: 0 }
    }

    /// One as it was saved, but for the blocks in its cells.
    pub fn saved(generation: Generation, cells: u32, free: Marks, reads: u32) -> Self {
        let ids = vec![NONE; cells as usize].into();
        Self { generation, ids, free, blocks: 0, reads }
    }

    /// `block` lies in `cell` of a saved one.
    ///
    /// # Errors
    /// [`Error::Bug`] if something does already, or there is no such cell.
    pub fn put(&mut self, cell: u32, block: u32) -> Result<()> {
        let id = self.ids.get_mut(cell as usize).filter(|id| **id == NONE);
        *id.ok_or_else(inconsistent)? = block;
        self.blocks += 1;
        Ok(())
    }

    /// Cells.
    pub fn cells(&self) -> u32 {
        self.ids.len() as u32
    }

    /// Cells with a block.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The block in `cell`.
    pub fn id(&self, cell: u32) -> Option<u32> {
        self.ids.get(cell as usize).copied().filter(|id| *id != NONE)
    }

    /// Unread cells without a block.
    pub fn free(&self) -> &Marks {
        &self.free
    }

    /// Cells with a block, which are unread.
    pub fn reals(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.ids).filter(|(_, id)| **id != NONE).map(|(cell, id)| (cell, *id))
    }

    /// `cell` is read: it is used for nothing any more.
    ///
    /// # Errors
    /// [`Error::Bug`] if it was read before.
    pub fn read(&mut self, cell: u32) -> Result<()> {
        let id = self.ids.get_mut(cell as usize);
        let id = id.ok_or_else(|| Error::Bug("a cell that no level has".into()))?;
        if *id != NONE {
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
