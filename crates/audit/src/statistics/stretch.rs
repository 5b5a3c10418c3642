//! Paths that show nothing get a place among those that show something.
//!
//! The trace tells how many paths of a stretch showed nothing, not when they came. All paths are
//! drawn alike, so every place is as likely. Left together at the end, where they are observed,
//! they would be neighbours that come from one small set of leaves, and the same places of two runs
//! would come from the same set. To leave them out is no way out either: that a path was shown says
//! something of its leaf.

use super::runs::mixed;

/// The paths of the open stretch.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    number: u64,
    /// The running numbers of the accesses, rising.
    accesses: Vec<u64>,
    shown: Vec<u32>,
    silent: Vec<u32>,
    /// What places are drawn by: of the leaves of earlier stretches, so that runs draw apart.
    state: u64,
}

impl Stretch {
    /// Whether a path of this stretch can be added.
    pub(super) fn holds(&self, number: u64) -> bool {
        self.accesses.is_empty() || self.number == number
    }

    pub(super) fn path(&mut self, number: u64, access: u64, leaf: u32, shown: bool) {
        self.number = number;
        self.accesses.push(access);
        if shown { self.shown.push(leaf) } else { self.silent.push(leaf) }
    }

    /// Ends the stretch: its leaves, those shown in their order, at its accesses.
    pub(super) fn settle(&mut self, mut each: impl FnMut(u64, u32)) {
        let mut places = self.state;
        for &leaf in self.shown.iter().chain(&self.silent) {
            self.state = mixed(self.state.wrapping_add(STEP) ^ u64::from(leaf));
        }
        let (mut shown, mut silent) = (self.shown.drain(..), self.silent.drain(..));
        for access in self.accesses.drain(..) {
            let left = (shown.len() + silent.len()) as u64;
            let drawn = if silent.len() == 0 { left } else { below(&mut places, left) };
            let from = if drawn < silent.len() as u64 { &mut silent } else { &mut shown };
            if let Some(leaf) = from.next() {
                each(access, leaf);
            }
        }
    }
}

/// A draw below `bound`, by the last steps of splitmix64 and a multiply-shift.
fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_add(STEP);
    ((u128::from(mixed(*state)) * u128::from(bound)) >> 64) as u64
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_paths_come_anywhere_and_shown_ones_in_their_order() {
        let (mut stretch, mut silent_at) = (Stretch::default(), [0; 4]);
        for number in 0..4_000 {
            for (access, leaf) in (4 * number..).zip([1, 2, 3]) {
                stretch.path(number, access, leaf, true);
            }
            stretch.path(number, 4 * number + 3, 9, false);
            let mut seen = Vec::new();
            stretch.settle(|access, leaf| seen.push((access, leaf)));
            assert!(seen.iter().map(|(access, _)| *access).eq(4 * number..4 * number + 4));
            silent_at[seen.iter().position(|(_, leaf)| *leaf == 9).unwrap()] += 1;
            seen.retain(|(_, leaf)| *leaf != 9);
            assert!(seen.iter().map(|(_, leaf)| *leaf).eq([1, 2, 3]));
        }
        assert!(silent_at.iter().all(|count| (850..1150).contains(count)), "{silent_at:?}");
    }
}
