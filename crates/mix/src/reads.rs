//! Reads that a shuffler knows of: what the client wants of them, and what the holder has sent.
//!
//! # Invariants
//! - Of a read what came first counts, until the volume is opened anew: all answers, and the
//!   proof, are of one batch.
//! - What is kept is bounded, and whatever the holder sends drops nothing that was answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::signed::Signature;
use crate::{Cells, Error, Result, Shape};

/// See the module.
#[derive(Debug)]
pub struct Reads {
    shape: Shape,
    /// Those that the client wants, with what has come for them.
    wanted: BTreeMap<u64, (Wanted, Option<Come>)>,
    /// Those of which only the holder has told.
    unasked: BTreeMap<u64, Come>,
}

/// What the holder has sent of a read, as it was signed.
type Come = (Signature, Arc<Cells>);

/// What the client says of a read.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// How many cells it has.
    pub count: u8,
    /// Which of them it wants.
    pub index: u8,
}

impl Reads {
    /// None, of a volume of this shape.
    pub fn new(shape: Shape) -> Self {
        Self { shape, wanted: BTreeMap::new(), unasked: BTreeMap::new() }
    }

    /// The client wants a cell.
    pub fn is_wanted(&mut self, read: u64, wanted: Wanted) {
        if let Some((known, _)) = self.wanted.get_mut(&read) {
            *known = wanted;
            return;
        }
        let come = self.unasked.remove(&read);
        make_room(&mut self.wanted, self.shape.reads_ahead());
        self.wanted.insert(read, (wanted, come));
    }

    /// The holder has sent all; whether these are the first.
    ///
    /// # Errors
    /// [`Error::Other`] for more cells than there are levels, if one such read was told of.
    pub fn come(&mut self, read: u64, signature: Signature, cells: Cells) -> Result<bool> {
        let is_here = self.wanted.get(&read).is_some_and(|(_, come)| come.is_some());
        if is_here || self.unasked.contains_key(&read) {
            return Ok(false);
        }
        if self.is_long(&cells) {
            self.make_room_for_long()?;
        }
        let come = (signature, Arc::new(cells));
        match self.wanted.get_mut(&read) {
            Some((_, waits)) => *waits = Some(come),
            None => {
                make_room(&mut self.unasked, self.shape.reads_ahead());
                self.unasked.insert(read, come);
            }
        }
        Ok(true)
    }

    /// What is wanted, and of which cells, if both have come.
    pub fn both(&self, read: u64) -> Option<(Wanted, Arc<Cells>)> {
        let (wanted, come) = self.wanted.get(&read)?;
        come.as_ref().map(|(_, cells)| (*wanted, cells.clone()))
    }

    /// What an answer was made of, as it was signed.
    pub fn shown(&self, read: u64) -> Option<(Signature, Cells)> {
        let (signature, cells) = self.wanted.get(&read)?.1.as_ref()?;
        Some((*signature, Cells::clone(cells)))
    }

    fn is_long(&self, cells: &Cells) -> bool {
        cells.len() > usize::from(self.shape.levels)
    }

    /// A read of more cells than there are levels is kept once at a time: when the client has been
    /// told of one, it stops.
    fn make_room_for_long(&mut self) -> Result<()> {
        let is_long = |(_, cells): &Come| self.is_long(cells);
        if self.wanted.values().any(|(_, come)| come.as_ref().is_some_and(is_long)) {
            return Err(Error::Other("a read of more cells than there are levels"));
        }
        let long = self.unasked.iter().find(|(_, come)| is_long(come)).map(|(read, _)| *read);
        long.into_iter().for_each(|read| _ = self.unasked.remove(&read));
        Ok(())
    }
}

/// Of too many the lowest goes: it was answered, or is left over.
fn make_room<T>(reads: &mut BTreeMap<u64, T>, most: usize) {
    if reads.len() >= most {
        reads.pop_first();
    }
}
