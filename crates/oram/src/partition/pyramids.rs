//! All partitions, and what they were at a cut whose checkpoint is being written.
//!
//! A cut copies none of them. Whoever changes a partition that is not written yet has it copied
//! before; the writer takes one after the other, as it was at the cut. Lists of blocks are shared
//! and not copied, so a copy takes two marks a cell, and no step takes longer than one copy.

use std::ops::{Index, IndexMut};

use hashbrown::HashMap;

use super::pyramid::Pyramid;

/// See the module.
#[derive(Debug)]
pub struct Pyramids {
    all: Vec<Pyramid>,
    /// While a checkpoint is being written.
    cut: Option<AtCut>,
}

/// Partitions as they were at a cut.
#[derive(Debug, Default)]
struct AtCut {
    /// Those below are written.
    next: usize,
    /// Those that have changed since and are not written.
    copies: HashMap<usize, Pyramid>,
}

impl Pyramids {
    /// These.
    pub fn of(all: Vec<Pyramid>) -> Self {
        Self { all, cut: None }
    }

    /// In the order of their numbers.
    pub fn iter(&self) -> std::slice::Iter<'_, Pyramid> {
        self.all.iter()
    }

    /// All of them, to be changed. Only where no checkpoint is being written.
    pub fn all(&mut self) -> &mut [Pyramid] {
        &mut self.all
    }

    /// A checkpoint is to hold them as they are now. One that is being written is given up.
    pub fn cut(&mut self) {
        self.cut = Some(AtCut::default());
    }

    /// The next as it was at the cut; `None` when all were taken.
    pub fn next_at_cut(&mut self) -> Option<Pyramid> {
        let AtCut { next, copies } = self.cut.as_mut()?;
        let copied = copies.remove(next);
        let pyramid = copied.or_else(|| self.all.get(*next).cloned());
        *next += 1;
        if pyramid.is_none() {
            self.cut = None;
        }
        pyramid
    }
}

impl Index<usize> for Pyramids {
    type Output = Pyramid;

    fn index(&self, at: usize) -> &Pyramid {
        &self.all[at]
    }
}

impl IndexMut<usize> for Pyramids {
    fn index_mut(&mut self, at: usize) -> &mut Pyramid {
        let pyramid = &mut self.all[at];
        if let Some(cut) = self.cut.as_mut().filter(|cut| at >= cut.next) {
            cut.copies.entry(at).or_insert_with(|| pyramid.clone());
        }
        pyramid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::layout::Layout;

    #[test]
    fn a_cut_has_what_was_there_at_it() {
        let layout = Layout::new(64, 2).unwrap();
        let mut pyramids = Pyramids::of((0..4).map(|at| Pyramid::new(&layout, at)).collect());
        let given = |pyramid: Pyramid| pyramid.given;
        assert!(pyramids.next_at_cut().is_none());
        pyramids.cut();
        assert_eq!(pyramids.next_at_cut().map(given), Some(0));
        // One that is written, one that changes twice, one that does not, one that does later.
        pyramids[0].given = 10;
        pyramids[1].given = 11;
        pyramids[1].given = 21;
        assert_eq!((pyramids[1].given, pyramids.next_at_cut().map(given)), (21, Some(1)));
        assert_eq!(pyramids.next_at_cut().map(given), Some(2));
        pyramids[3].given = 13;
        assert_eq!(pyramids.next_at_cut().map(given), Some(3));
        assert!(pyramids.next_at_cut().is_none() && pyramids.cut.is_none());
        // The next is of another moment.
        pyramids.cut();
        let all: Vec<u64> = std::iter::from_fn(|| pyramids.next_at_cut()).map(given).collect();
        assert_eq!(all, [10, 21, 2, 13]);
    }
}
