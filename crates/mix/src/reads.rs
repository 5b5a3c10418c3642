//! Reads that a shuffler knows of: what the client wants of them, and what the holder has sent.
//!
//! # Invariants
//! - Of a read what came first counts: all answers, and the proof, are of one batch.
//! - What is kept is bounded, and whatever the holder sends drops nothing that was answered.

use std::collections::BTreeMap;

use crate::signed::Signature;
use crate::{Cells, Error, Result, Shape};

/// See the module.
#[derive(Debug)]
pub struct Reads {
    shape: Shape,
    known: BTreeMap<u64, Read>,
}

/// What is known of a read.
#[derive(Debug, Default)]
struct Read {
    wanted: Option<Wanted>,
    cells: Option<(Signature, Cells)>,
}

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
        Self { shape, known: BTreeMap::new() }
    }

    /// The client wants a cell.
    pub fn is_wanted(&mut self, read: u64, wanted: Wanted) {
        if self.known.get(&read).is_none_or(|known| known.wanted.is_none()) {
            self.make_room(true);
        }
        self.known.entry(read).or_default().wanted = Some(wanted);
    }

    /// The holder has sent all; whether these are the first.
    ///
    /// # Errors
    /// [`Error::Other`] for more cells than there are levels, if one such read was told of.
    pub fn come(&mut self, read: u64, signature: Signature, cells: Cells) -> Result<bool> {
        if self.is_long(&cells) {
            self.make_room_for_long()?;
        }
        if !self.known.contains_key(&read) {
            self.make_room(false);
        }
        let known = self.known.entry(read).or_default();
        if known.cells.is_some() {
            return Ok(false);
        }
        known.cells = Some((signature, cells));
        Ok(true)
    }

    /// What is wanted, and of which cells, if both have come.
    pub fn both(&self, read: u64) -> Option<(Wanted, &Cells)> {
        let known = self.known.get(&read)?;
        known.wanted.zip(known.cells.as_ref().map(|(_, cells)| cells))
    }

    /// What an answer was made of, as it was signed.
    pub fn shown(&self, read: u64) -> Option<(Signature, Cells)> {
        self.known.get(&read).filter(|known| known.wanted.is_some())?.cells.clone()
    }

    /// Of too many reads that the client wants, or that only the holder knows of, the lowest goes: it
    /// was answered, or is left over.
    fn make_room(&mut self, is_wanted: bool) {
        let of = |known: &Read| known.wanted.is_some() == is_wanted;
        if self.known.values().filter(|known| of(known)).count() >= self.shape.reads_ahead() {
            let lowest = self.known.iter().find(|(_, known)| of(known)).map(|(read, _)| *read);
            lowest.into_iter().for_each(|read| _ = self.known.remove(&read));
        }
    }

    fn is_long(&self, cells: &Cells) -> bool {
        cells.len() > usize::from(self.shape.levels)
    }

    /// A read of more cells than there are levels is kept once at a time: when the client has been
    /// told of one, it stops.
    fn make_room_for_long(&mut self) -> Result<()> {
        let is_long = |known: &Read| known.cells.as_ref().is_some_and(|(_, of)| self.is_long(of));
        let long = self.known.iter().find(|(_, known)| is_long(known));
        match long.map(|(read, known)| (*read, known.wanted.is_some())) {
            Some((_, true)) => Err(Error::Other("a read of more cells than there are levels")),
            Some((read, false)) => {
                self.known.remove(&read);
                Ok(())
            }
            None => Ok(()),
        }
    }
}
