//! Nothing that comes is linked to anything that came: no cell, nor the XOR of two of a message,
//! was seen before, as a cell or as the XOR of two.
//!
//! Prints of cells are linear: the XOR of two is the print of the XOR. Pairs of one message are
//! looked at that are not far from each other: a cover that is used again, or one that covers a row
//! of cells in the same order, shows there.

use std::collections::HashSet;

use crate::oracle::fault::{Step, fault};

/// How far apart cells of a pair are, at most.
const APART_MAX: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub struct Unlinkable {
    seen: HashSet<u64>,
    pairs: HashSet<u64>,
}

impl Unlinkable {
    /// A message with these cells comes.
    pub fn comes(&mut self, cells: &[u64]) -> Step {
        for (at, cell) in cells.iter().enumerate() {
            if self.pairs.contains(cell) || !self.seen.insert(*cell) {
                return fault("unlinkable", "a cell unlike all before", format!("{cell:016x}"));
            }
            for other in &cells[at.saturating_sub(APART_MAX)..at] {
                let both = cell ^ other;
                if self.seen.contains(&both) || !self.pairs.insert(both) {
                    let seen = format!("{cell:016x} and {other:016x}");
                    return fault("unlinkable", "two cells unlike any two before", seen);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_or_a_difference_that_comes_again_is_seen() {
        let row = [0x11, 0x25, 0x4a];
        for (next, is_linked) in [
            ([0x100, 0x207, 0x501], false),
            ([0x100, 0x11, 0x501], true),         // a cell
            ([0x100, 0x100 ^ 0x34, 0x501], true), // as two were to each other
            ([0x100, 0x34, 0x501], true),         // the difference itself
        ] {
            let mut unlinkable = Unlinkable::default();
            unlinkable.comes(&row).unwrap();
            assert_eq!(unlinkable.comes(&next).is_err(), is_linked, "{next:x?}");
        }
    }
}
