//! An engine that may be told to leak.

use std::collections::BTreeMap;

use fogbank_store::{CellReads, ChunkName};

use super::Leak;
use crate::position::Location;
use crate::ring::mark;

/// What is looked for in a binary that must not hold canaries.
#[used]
static MARKER: [u8; 37] = *b"fogbank: this program can leak (test)";

/// Which leak, if any, and what it remembers.
#[derive(Debug, Default)]
pub struct Canary {
    leak: Option<Leak>,
    every: u32,
    chances: u32,
    state: u32,
    revealed: BTreeMap<u32, u32>, // by block: the leaf of its last read
    accessed: BTreeMap<u32, u64>, // by block: evictions before its last access
}

/// What a canary keeps from being verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trust(Option<Leak>);

impl Trust {
    /// Whether a cell is used unverified.
    pub(crate) fn cell(self, block: u32) -> bool {
        self.0 == Some(Leak::DummiesUnverified) && block == mark::DUMMY
    }

    /// Whether a path on which nothing was sought is.
    pub(crate) fn xor(self) -> bool {
        self.0 == Some(Leak::XorUnchecked)
    }
}

impl Canary {
    /// Leaks wherever it can.
    pub fn new(leak: Leak) -> Self {
        Self::rare(leak, 1)
    }

    /// Leaks in one of `every` writes or draws of a leaf. Other leaks are told wherever they can be.
    pub fn rare(leak: Leak, every: u32) -> Self {
        Self { leak: Some(leak), every, ..Self::default() }
    }

    fn is(&self, leak: Leak) -> bool {
        self.leak == Some(leak)
    }

    /// Whether this chance to leak is taken.
    fn strikes(&mut self, leak: Leak) -> bool {
        self.chances += u32::from(self.is(leak));
        self.is(leak) && self.chances.is_multiple_of(self.every)
    }

    pub(crate) fn takes_duplicates(&self) -> bool {
        self.is(Leak::DuplicatesRead) || self.is(Leak::DuplicatesOmitted)
    }

    /// Whether a slot of the batch is left out.
    pub(crate) fn omits(&self, block: u32, leaf: Option<u32>, repeated: impl Fn() -> bool) -> bool {
        let absent = self.is(Leak::AbsentSkipsRead) && leaf.is_none();
        let twice = self.is(Leak::DuplicatesOmitted) && repeated();
        block != mark::DUMMY && (absent || twice)
    }

    /// Whether a block is served from the stash, where an eviction since its last access has left it.
    pub(crate) fn serves_residue(&self, block: u32, at: Option<Location>, evictions: u64) -> bool {
        self.is(Leak::ResidueSkipsRead)
            && matches!(at, Some(Location::Stash { .. }))
            && self.accessed.get(&block).is_some_and(|accessed| *accessed < evictions)
    }

    /// A number of which the low bits are a leaf.
    pub(crate) fn draw(&mut self, uniform: u32) -> u32 {
        if self.strikes(Leak::CongruentialLeaves) {
            self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            self.state
        } else if self.strikes(Leak::ModuloLeaves) {
            uniform % 100
        } else {
            uniform
        }
    }

    /// A block's path was read.
    pub(crate) fn note_read(&mut self, block: u32, leaf: u32, evictions: u64) {
        if self.leak.is_none() {
            return;
        }
        self.accessed.insert(block, evictions);
        self.revealed.insert(block, leaf);
    }

    /// A block is written: the leaf it is to have, if not a fresh one.
    pub(crate) fn note_write(&mut self, block: u32, evictions: u64) -> Option<u32> {
        self.leak?;
        self.accessed.insert(block, evictions);
        let revealed = self.revealed.get(&block).copied()?;
        self.strikes(Leak::NoRemapOnWrite).then_some(revealed)
    }

    /// After how many reads a bucket is full.
    pub(crate) fn reads_max(&self, dummies: u16, one_to_spare: bool) -> u16 {
        match self.leak {
            Some(Leak::OneReadMore) if one_to_spare => dummies + 1,
            Some(Leak::OneReadLess) => dummies - 1,
            _ => dummies,
        }
    }

    /// The number that the order of slots is drawn with.
    pub(crate) fn order_tick(&self, tick: u64) -> u64 {
        if self.is(Leak::ReusedOrder) { 0 } else { tick }
    }

    /// The order in which the dummies of a new version will be read.
    pub(crate) fn order_dummies(&self, slots: &mut [u16]) {
        if self.is(Leak::DummiesInOrder) {
            slots.sort_unstable();
        }
    }

    /// Whether it is forgotten that a dummy was read.
    pub(crate) fn forgets_read(&self) -> bool {
        self.is(Leak::SlotForgotten)
    }

    /// Accesses of a write batch.
    pub(crate) fn write_slots(&self, slots: usize, writes: usize) -> usize {
        if self.is(Leak::UnpaddedWrites) { writes } else { slots }
    }

    /// What cells are taken unverified.
    pub(crate) fn trust(&self) -> Trust {
        Trust(self.leak)
    }

    /// Puts the slots of a retired bucket into the order in which they are asked for.
    pub(crate) fn arrange(&self, slots: &mut [(u16, u32)]) {
        if self.is(Leak::RealsFirst) {
            slots.sort_unstable_by_key(|(slot, block)| (*block == mark::DUMMY, *slot));
        }
    }

    /// Asks for them: the slots of one entry must rise.
    pub(crate) fn push(&self, message: &mut CellReads, name: ChunkName, slots: &[(u16, u32)]) {
        for rising in slots.chunk_by(|(a, _), (b, _)| a < b) {
            message.push(name, rising.iter().map(|(slot, _)| *slot));
        }
    }
}
