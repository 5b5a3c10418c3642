//! How what lies in a cell came there: from which upload, and under which covers.
//!
//! Nobody keeps covers; they follow from seeds and from lists of rebuilds. A cell is an input of
//! its job by the job's order, and an input is a cell of a level below (its cover came off when it
//! moved), a carried cell (it got two covers: that of its old place, and that of its way), an
//! upload, or zeros. A refresh carries nothing, so a chain has at most 2 (R - 1) covers.
//!
//! Leaks: how long it takes follows from the chain. Answers leave at a time that does not show it.

use fogbank_mix::message::Sources;
use fogbank_mix::{Generation, Order, Pads, Seed, Shape};
use fogbank_seal::{SeedFor, SplitKeys, UploadPlace};

use super::pyramid::Pyramid;
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

/// See the module.
#[derive(Debug, Default)]
pub struct Chain {
    /// Where what lies there was uploaded; nowhere if it is zeros.
    pub upload: Option<UploadPlace>,
    /// The covers on it, those of its present place not among them.
    pub covers: Vec<(SeedFor, u32)>,
}

impl Chain {
    /// Takes the covers off `cell`.
    pub fn strip(&self, keys: &SplitKeys, cell: &mut [u8]) {
        for (purpose, index) in &self.covers {
            Pads::new(&Seed::new(keys.seed(*purpose)), cell.len()).xor(*index, cell);
        }
    }
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

/// The chain of `cell`.
///
/// # Errors
/// [`Error::Bug`] if a rebuild of the top is not known any more.
pub fn chain(
    (shape, keys): (&Shape, &SplitKeys),
    (partition, pyramid): (u16, &Pyramid),
    mut cell: Cell,
) -> Result<Chain> {
    let mut chain = Chain::default();
    loop {
        // 1. Which input of its job it is.
        let Cell { level, generation, place } = cell;
        let count = generation.count();
        let seed = Seed::new(keys.seed(SeedFor::Order(partition, generation.0)));
        let input = Order::new(&seed, shape.size(level, count)).at(place);
        // 2. A cell that it carried, or an upload.
        let (carried, from) = if level == shape.top() {
            let known = pyramid.rebuilds.iter().find(|known| known.generation == generation);
            let known = known.ok_or_else(|| Error::Bug("a chain is not known".into()))?;
            let at = known.list.nth(input);
            (known.list.count(), at.and_then(|at| cell_at(shape, &known.sources, at)))
        } else {
            let sources = pyramid.sources(shape, partition, count);
            (cells(shape, &sources), cell_at(shape, &sources, input))
        };
        let Some(from) = from else {
            let index = input - carried;
            if index < shape.uploads(count) {
                let (generation, index) = (generation.0, index as u16);
                chain.upload = Some(UploadPlace { partition, generation, index });
            }
            return Ok(chain);
        };
        if level == shape.top() {
            chain
                .covers
                .push((SeedFor::Level(partition, from.level, from.generation.0), from.place));
            chain.covers.push((SeedFor::Carry(partition, generation.0), input));
        }
        cell = from;
    }
}
