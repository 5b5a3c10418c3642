//! What a window can be held against: the reads before it, in bounded memory.
//!
//! The last read of every chunk lies in a table of fixed size in which a newer chunk may displace
//! an older one. Which it displaces follows from places alone, so two runs forget alike.

use std::collections::VecDeque;

use fogbank_store::{ArrayId, ChunkName};

/// Cells of a chunk whose reading is remembered; those beyond count as unread.
const CELLS: usize = 320;

/// Chunks that are remembered at most.
const CHUNKS: usize = 1 << 16;

/// The windows in which heat falls to a third.
const COOLING: usize = 128;

/// Leaves that are remembered.
pub(super) const LEAVES: usize = 64;

/// What is known of a chunk from reads before.
#[derive(Debug, Clone)]
struct Remembered {
    /// The array and the chunk, plus one: 0 is free.
    key: u64,
    version: u64,
    /// The window that last read it.
    window: u64,
    /// The first cell it read then.
    cell: u16,
    /// How often it was read, windows long ago counting less.
    heat: f32,
    /// The cells read of this version.
    read: [u64; CELLS / 64],
}

/// What a read of a chunk repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Again {
    /// How many windows ago it was read, if that is known; 0 in the same window.
    pub(super) age: Option<u64>,
    /// Whether the first cell is the same as then.
    pub(super) same_cell: bool,
    /// How often it was read before, windows long ago counting less.
    pub(super) heat: f32,
}

/// Where a cell stands among the unread ones of its version.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rank {
    /// How many unread cells lie before it.
    pub(super) rank: u32,
    /// How many cells were unread, it included.
    pub(super) unread: u32,
    /// Whether this version's cell was read before.
    pub(super) again: bool,
}

/// The reads of the windows before.
#[derive(Debug)]
pub(super) struct Past {
    /// What is left of heat after so many windows.
    cooling: Vec<f32>,
    chunks: Vec<Remembered>,
    leaves: VecDeque<(ArrayId, u32)>,
}

impl Past {
    pub(super) fn new() -> Self {
        let read = [0; CELLS / 64];
        let free = Remembered { key: 0, version: 0, window: 0, cell: 0, heat: 0.0, read };
        let cooling = (0..8 * COOLING).map(|age| (-(age as f32) / COOLING as f32).exp());
        Self {
            cooling: cooling.collect(),
            chunks: vec![free; CHUNKS],
            leaves: VecDeque::with_capacity(LEAVES),
        }
    }

    /// Takes in the read of `cells` of a chunk of `width` cells in `window`; `ranks` is called with
    /// the rank of each.
    pub(super) fn read(
        &mut self,
        chunk: ChunkName,
        cells: &[u16],
        width: u16,
        window: u64,
        mut ranks: impl FnMut(Rank),
    ) -> Again {
        let key = (u64::from(chunk.array.0) << 32 | u64::from(chunk.chunk)) + 1;
        let at = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CHUNKS.trailing_zeros());
        let known = &mut self.chunks[at as usize];
        let first = cells.first().copied().unwrap_or(0);
        let again = match known.key == key {
            true => {
                let same_cell = !cells.is_empty() && known.cell == first;
                let age = window.saturating_sub(known.window);
                let left = self.cooling.get(age as usize).copied().unwrap_or(0.0);
                Again { age: Some(age), same_cell, heat: known.heat * left }
            }
            false => Again { age: None, same_cell: false, heat: 0.0 },
        };
        if known.key != key || known.version != chunk.version {
            known.read = [0; CELLS / 64];
        }
        (known.key, known.version) = (key, chunk.version);
        (known.window, known.cell, known.heat) = (window, first, again.heat + 1.0);
        if width > 0 {
            cells.iter().for_each(|&cell| ranks(known.rank(cell, width)));
            cells.iter().for_each(|&cell| known.mark(cell));
        }
        again
    }

    /// How many leaves ago `leaf` was read, from 1, if it is among the last ones; then takes it in.
    pub(super) fn leaf(&mut self, array: ArrayId, leaf: u32) -> Option<usize> {
        let found = self.leaves.iter().rev().position(|&seen| seen == (array, leaf));
        if self.leaves.len() == LEAVES {
            self.leaves.pop_front();
        }
        self.leaves.push_back((array, leaf));
        found.map(|ago| ago + 1)
    }
}

impl Remembered {
    fn rank(&self, cell: u16, width: u16) -> Rank {
        let (word, bit) = (usize::from(cell) / 64, cell % 64);
        let below: u32 = self.read.iter().take(word).map(|bits| bits.count_ones()).sum();
        let here = self.read.get(word).copied().unwrap_or(0);
        let before = below + (here & ((1 << bit) - 1)).count_ones();
        let words = usize::from(width).div_ceil(64);
        let all: u32 = self.read.iter().take(words).map(|bits| bits.count_ones()).sum();
        Rank {
            rank: u32::from(cell).saturating_sub(before),
            unread: u32::from(width).saturating_sub(all).max(1),
            again: here >> bit & 1 == 1,
        }
    }

    fn mark(&mut self, cell: u16) {
        if let Some(bits) = self.read.get_mut(usize::from(cell) / 64) {
            *bits |= 1 << (cell % 64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(chunk: u32, version: u64) -> ChunkName {
        ChunkName { array: ArrayId(0), chunk, version }
    }

    #[test]
    fn ranks_count_unread_cells_of_one_version() {
        let mut past = Past::new();
        let mut ranks = Vec::new();
        past.read(chunk(7, 1), &[0, 2, 70], 100, 5, |rank| ranks.push(rank));
        assert_eq!(ranks[2], Rank { rank: 70, unread: 100, again: false });
        ranks.clear();
        let again = past.read(chunk(7, 1), &[71, 2], 100, 9, |rank| ranks.push(rank));
        assert_eq!((again.age, again.same_cell), (Some(4), false));
        assert!(again.heat > 0.9 && again.heat < 1.0);
        assert_eq!(ranks[0], Rank { rank: 68, unread: 97, again: false });
        assert_eq!(ranks[1], Rank { rank: 1, unread: 97, again: true });
        ranks.clear();
        let again = past.read(chunk(7, 2), &[71], 100, 9, |rank| ranks.push(rank));
        assert_eq!((again.age, again.same_cell), (Some(0), true));
        assert!(again.heat > 1.9 && again.heat < 2.0);
        assert_eq!(ranks[0], Rank { rank: 71, unread: 100, again: false });
    }

    #[test]
    fn a_leaf_is_known_for_sixty_four_more() {
        let mut past = Past::new();
        assert_eq!(past.leaf(ArrayId(0), 9), None);
        (0..63).for_each(|i| assert_eq!(past.leaf(ArrayId(0), 100 + i), None));
        assert_eq!(past.leaf(ArrayId(0), 9), Some(64));
        (0..64).for_each(|i| assert_eq!(past.leaf(ArrayId(0), 200 + i), None));
        assert_eq!(past.leaf(ArrayId(0), 9), None);
    }
}
