//! Leaks of `ring` on purpose, see [`crate::canary`].

#[cfg(feature = "canaries")]
use std::collections::BTreeMap;

use fogbank_store::{CellReads, ChunkName};

#[cfg(feature = "canaries")]
use super::bucket::mark;
use crate::canary::canary;
use crate::position::Location;

canary! {
    leaks {
        /// A block that an eviction has left in the stash is served from there, and a uniform path
        /// read in place of its own. What was left could not go on the path evicted last, so the
        /// leaves that are still read lean towards it. Rule: a path read never depends on the
        /// stash. (The value is not delivered: for runs of the engine alone.)
        ResidueSkipsRead,
        /// The read that retires a bucket names the slots of its blocks first, then the dummies.
        /// Rule: by rising slot, whatever is in them.
        RealsFirst,
        /// A block that is written goes back to the leaf that its last read has shown, so that the
        /// next read repeats it. Rule: every write maps to a fresh leaf.
        NoRemapOnWrite,
        /// A bucket serves S + 1 reads where it has a dummy to spare. Rule: S.
        OneReadMore,
        /// A bucket is reshuffled after S - 1 reads. Rule: S.
        OneReadLess,
        /// All versions of a bucket have the same order of slots. Rule: a fresh one each.
        ReusedOrder,
        /// Dummies are read by rising slot. Rule: in the secret order.
        DummiesInOrder,
        /// That a dummy was read is forgotten, and its slot is read again. Rule: a slot once a
        /// version.
        SlotForgotten,
        /// Leaves are the low bits of a linear congruential generator. Rule: randomness fit for
        /// keys.
        CongruentialLeaves,
        /// Leaves are drawn modulo a number that their own does not divide. Rule: uniform.
        ModuloLeaves,
        /// An address that holds nothing reads no path. Rule: as many paths as the batch has slots.
        AbsentSkipsRead,
        /// Two requests for one address in a batch read the same path twice. Rule: distinct
        /// addresses.
        DuplicatesRead,
        /// The second request for an address in a batch is left out, not made a dummy. Rule: as
        /// many paths as the batch has slots.
        DuplicatesOmitted,
        /// A write batch counts as many accesses as it has writes. Rule: its fixed size.
        UnpaddedWrites,
        /// Dummies are used unverified. Rule: every cell is verified before any is used.
        DummiesUnverified,
        /// What is left of an XORed path on which nothing was sought is not compared with zero.
        /// Rule: every path is verified.
        XorUnchecked,
    }
    state {
        every: u32,
        chances: u32,
        state: u32,
        /// By block: the leaf of its last read.
        revealed: BTreeMap<u32, u32>,
        /// By block: evictions before its last access.
        accessed: BTreeMap<u32, u64>,
    }
    asks {
        /// Whether it is forgotten that a dummy was read.
        forgets_read: SlotForgotten,
    }

    fn takes_duplicates(&self) -> bool { false } or {
        self.is(Leak::DuplicatesRead) || self.is(Leak::DuplicatesOmitted)
    }

    /// Whether a slot of the batch is left out.
    fn omits(&self, block: u32, leaf: Option<u32>, repeated: impl Fn() -> bool) -> bool {
        false
    } or {
        let absent = self.is(Leak::AbsentSkipsRead) && leaf.is_none();
        let twice = self.is(Leak::DuplicatesOmitted) && repeated();
        block != mark::DUMMY && (absent || twice)
    }

    /// Whether a block is served from the stash, where an eviction since its last access has left
    /// it.
    fn serves_residue(&self, block: u32, at: Option<Location>, evictions: u64) -> bool {
        false
    } or {
        self.is(Leak::ResidueSkipsRead)
            && matches!(at, Some(Location::Stash { .. }))
            && self.accessed.get(&block).is_some_and(|accessed| *accessed < evictions)
    }

    /// A number of which the low bits are a leaf.
    fn draw(&mut self, uniform: u32) -> u32 { uniform } or {
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
    fn note_read(&mut self, block: u32, leaf: u32, evictions: u64) {} or {
        if self.leak.is_some() {
            self.accessed.insert(block, evictions);
            self.revealed.insert(block, leaf);
        }
    }

    /// A block is written: the leaf it is to have, if not a fresh one.
    fn note_write(&mut self, block: u32, evictions: u64) -> Option<u32> { None } or {
        self.leak?;
        self.accessed.insert(block, evictions);
        let revealed = self.revealed.get(&block).copied()?;
        self.strikes(Leak::NoRemapOnWrite).then_some(revealed)
    }

    /// After how many reads a bucket is full.
    fn reads_max(&self, dummies: u16, one_to_spare: bool) -> u16 { dummies } or {
        match self.leak {
            Some(Leak::OneReadMore) if one_to_spare => dummies + 1,
            Some(Leak::OneReadLess) => dummies - 1,
            _ => dummies,
        }
    }

    /// The number that the order of slots is drawn with.
    fn order_tick(&self, tick: u64) -> u64 { tick } or {
        if self.is(Leak::ReusedOrder) { 0 } else { tick }
    }

    /// The order in which the dummies of a new version will be read.
    fn order_dummies(&self, slots: &mut [u16]) {} or {
        if self.is(Leak::DummiesInOrder) {
            slots.sort_unstable();
        }
    }

    /// Accesses of a write batch.
    fn write_slots(&self, slots: usize, writes: usize) -> usize { slots } or {
        if self.is(Leak::UnpaddedWrites) { writes } else { slots }
    }

    /// What is taken unverified.
    fn trust(&self) -> Trust { Trust::default() } or { Trust { leak: self.leak } }

    /// Puts the slots of a retired bucket into the order in which they are asked for.
    fn arrange(&self, slots: &mut [(u16, u32)]) {} or {
        if self.is(Leak::RealsFirst) {
            slots.sort_unstable_by_key(|(slot, block)| (*block == mark::DUMMY, *slot));
        }
    }

    /// Asks for them: the slots of one entry must rise.
    fn push(&self, message: &mut CellReads, name: ChunkName, slots: &[(u16, u32)]) {
        message.push(name, slots.iter().map(|(slot, _)| *slot));
    } or {
        for rising in slots.chunk_by(|(a, _), (b, _)| a < b) {
            message.push(name, rising.iter().map(|(slot, _)| *slot));
        }
    }
}

#[cfg(feature = "canaries")]
impl Canary {
    /// Leaks in one of `every` writes or draws of a leaf. Other leaks are told wherever they can
    /// be.
    pub fn rare(leak: Leak, every: u32) -> Self {
        Self { every, ..Self::new(leak) }
    }

    /// Whether this chance to leak is taken.
    fn strikes(&mut self, leak: Leak) -> bool {
        self.chances += u32::from(self.is(leak));
        self.is(leak) && self.chances.is_multiple_of(self.every.max(1))
    }
}

/// What a canary keeps from being verified; in what ships, nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trust {
    #[cfg(feature = "canaries")]
    leak: Option<Leak>,
}

#[allow(clippy::unused_self)] // the same face in what ships
impl Trust {
    /// Whether a cell is used unverified.
    pub(crate) fn cell(self, block: u32) -> bool {
        #[cfg(feature = "canaries")]
        return self.leak == Some(Leak::DummiesUnverified) && block == mark::DUMMY;
        #[cfg(not(feature = "canaries"))]
        {
            let _ = block;
            false
        }
    }

    /// Whether a path on which nothing was sought is.
    pub(crate) fn xor(self) -> bool {
        #[cfg(feature = "canaries")]
        return self.leak == Some(Leak::XorUnchecked);
        #[cfg(not(feature = "canaries"))]
        false
    }
}
