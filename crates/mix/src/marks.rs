//! A bit a cell: which of them a list names, which were read.

/// See the module. Bits beyond the last mark are 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks(Vec<u64>);

impl Marks {
    /// None of `cells` marked.
    pub fn none(cells: usize) -> Self {
        Self(vec![0; cells.div_ceil(64)])
    }

    /// Those of these words, the lowest bit first.
    pub fn of(words: Vec<u64>) -> Self {
        Self(words)
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// Whether `cell` is marked.
    pub fn has(&self, cell: u32) -> bool {
        self.0.get(cell as usize / 64).is_some_and(|word| word >> (cell % 64) & 1 == 1)
    }

    /// Marks `cell`, if there is such a one.
    pub fn set(&mut self, cell: u32) {
        if let Some(word) = self.0.get_mut(cell as usize / 64) {
            *word |= 1 << (cell % 64);
        }
    }

    /// Takes the mark off `cell`.
    pub fn clear(&mut self, cell: u32) {
        if let Some(word) = self.0.get_mut(cell as usize / 64) {
            *word &= !(1 << (cell % 64));
        }
    }

    /// How many are marked.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// How many are marked before `cell`.
    pub fn before(&self, cell: u32) -> u32 {
        let (word, bit) = (cell as usize / 64, cell % 64);
        let whole: u32 = self.0.iter().take(word).map(|word| word.count_ones()).sum();
        whole + self.0.get(word).map_or(0, |word| (word & ((1 << bit) - 1)).count_ones())
    }

    /// The marked cells, from the lowest.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.0).flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        })
    }

    /// The marked cell that so many come before.
    pub fn nth(&self, before: u32) -> Option<u32> {
        nth(self.0.iter().copied(), before)
    }

    /// The cell marked here and not in `other` that so many such come before.
    pub fn nth_without(&self, other: &Self, before: u32) -> Option<u32> {
        nth(self.0.iter().zip(&other.0).map(|(word, without)| word & !without), before)
    }

    /// Those marked here and in `other`.
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }
}

fn nth(words: impl Iterator<Item = u64>, mut before: u32) -> Option<u32> {
    for (at, word) in (0..).zip(words) {
        let here = word.count_ones();
        if before < here {
            let mut left = word;
            (0..before).for_each(|_| left &= left - 1);
            return Some(at * 64 + left.trailing_zeros());
        }
        before -= here;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_in_order() {
        let mut marks = Marks::none(130);
        let cells = [0, 1, 63, 64, 100, 127, 128, 129];
        cells.into_iter().for_each(|cell| marks.set(cell));
        marks.set(7);
        marks.clear(7);
        marks.set(192); // beyond
        assert!(marks.iter().eq(cells));
        assert_eq!((marks.count(), marks.nth(8)), (8, None));
        for (before, cell) in (0..).zip(cells) {
            assert_eq!((marks.nth(before), marks.has(cell)), (Some(cell), true));
            assert_eq!((marks.before(cell), marks.before(cell + 1)), (before, before + 1));
        }
        let mut some = Marks::none(130);
        [63, 65, 129].into_iter().for_each(|cell| some.set(cell));
        assert!(some.and(&marks).iter().eq([63, 129]));
        assert_eq!([0, 5, 6].map(|at| marks.nth_without(&some, at)), [Some(0), Some(128), None]);
    }
}
