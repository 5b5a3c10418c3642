//! What the pieces of a build make, of what they read.
//!
//! # Invariants
//! - Equal pieces make equal cells in equal order, whoever makes them.
//! - Of an address that several sources hold, the newest counts.
//!
//! See `pieces`.

use std::ops::Range;

use super::canary::Canary;
use super::pieces::Pieces;
use super::table::{Body, Recipe};
use crate::{Error, Result, lied};

/// Deals slots of one source to the ranges of a table.
#[derive(Debug)]
pub struct Dealer<'a> {
    recipe: &'a Recipe,
    pieces: &'a Pieces,
    source: usize,
    /// By range.
    buckets: Vec<Vec<Body>>,
}

impl<'a> Dealer<'a> {
    /// Of the source of this number.
    pub fn new(recipe: &'a Recipe, pieces: &'a Pieces, source: usize) -> Self {
        let buckets = vec![Vec::new(); pieces.ranges() as usize];
        Self { recipe, pieces, source, buckets }
    }

    /// Takes what lies in the source from a slot on.
    ///
    /// # Errors
    /// Whoever wrote the source lied if it holds something else than it has to.
    pub fn take(&mut self, first: u32, bodies: Vec<Body>) -> Result<()> {
        for (slot, body) in (first..).zip(bodies) {
            if let Some(goes) = self.recipe.goes(self.source, slot, &body)? {
                self.buckets[self.pieces.range_of(goes)].push(body);
            }
        }
        Ok(())
    }

    /// What goes to a range, in the order in which it was taken, padded.
    ///
    /// # Errors
    /// [`Error::Bug`] if it has no room: the site stops.
    pub fn bucket(&mut self, range: usize, canary: &Canary) -> Result<Vec<Body>> {
        let room = self.pieces.sources[self.source].1 as usize;
        let mut bucket = std::mem::take(&mut self.buckets[range]);
        if bucket.len() > room {
            return Err(Error::Bug("a bucket of a build has overflowed".into()));
        }
        if !canary.pads_no_bucket() {
            bucket.resize(room, None);
        }
        Ok(bucket)
    }
}

/// Fills a range of slots of a table.
#[derive(Debug)]
pub struct Filler<'a> {
    recipe: &'a Recipe,
    slots: Range<u32>,
    bodies: Vec<Body>,
    filled: usize,
}

impl<'a> Filler<'a> {
    /// Of these slots; of a table of level 0 all is known.
    ///
    /// # Errors
    /// [`Error::Bug`] if it is not.
    pub fn new(recipe: &'a Recipe, slots: Range<u32>) -> Result<Self> {
        let bodies = vec![None; slots.len()];
        let mut filler = Self { recipe, slots, bodies, filled: 0 };
        let is_logged = recipe.sources.is_empty();
        for (address, slot) in recipe.index.held().filter(|_| is_logged) {
            let value = recipe.logged.get(&address);
            let value = value.ok_or_else(|| Error::Bug("a table misses a value".into()))?;
            filler.put(slot, Some((address, value.clone())))?;
        }
        Ok(filler)
    }

    /// Takes what lies in the source of this number from a slot on.
    ///
    /// # Errors
    /// As [`Dealer::take`].
    pub fn take_source(&mut self, source: usize, first: u32, bodies: Vec<Body>) -> Result<()> {
        for (slot, body) in (first..).zip(bodies) {
            if let Some(goes) = self.recipe.goes(source, slot, &body)? {
                self.put(goes, body)?;
            }
        }
        Ok(())
    }

    /// Takes what lies in a bucket of the range.
    ///
    /// # Errors
    /// Whoever dealt it lied if it holds something else than it has to.
    pub fn take_dealt(&mut self, bodies: Vec<Body>) -> Result<()> {
        for body in bodies {
            let Some((address, _)) = &body else { continue };
            let slot = self.recipe.index.slot_of(*address).filter(|slot| self.slots.contains(slot));
            self.put(slot.ok_or_else(|| lied("a bucket holds another block"))?, body)?;
        }
        Ok(())
    }

    fn put(&mut self, slot: u32, body: Body) -> Result<()> {
        if !self.slots.contains(&slot) {
            return Ok(());
        }
        let there = &mut self.bodies[(slot - self.slots.start) as usize];
        if there.is_some() {
            return Err(lied("a build has a block twice"));
        }
        *there = body;
        self.filled += 1;
        Ok(())
    }

    /// The content of the slots.
    ///
    /// # Errors
    /// Whoever wrote what was read lied if a block is missing.
    pub fn bodies(self) -> Result<Vec<Body>> {
        let held = self.recipe.index.held().filter(|(_, slot)| self.slots.contains(slot));
        match held.count() == self.filled {
            true => Ok(self.bodies),
            false => Err(lied("a build misses a block")),
        }
    }
}
