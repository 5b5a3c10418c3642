//! Reads of cells: which ranges are asked for, and what they bring.
//!
//! The rule, public and a function of the call alone: all cells asked of one chunk version in one
//! call are taken together in their order; where at most `gap_bytes` lie between one and the next,
//! both are in one range and what is between is read through and dropped. A range is one GET.
//! Ranges leave in the order in which their chunk versions come first in the call, within one by
//! place.
//!
//! Reading through shows the cloud nothing: from the cells asked for, which it would be told one by
//! one otherwise, it can work out the ranges itself. What is read through is not looked at.

use std::ops::Range;

use bytes::Bytes;
use fogbank_store::{ArrayShape, Cell, CellReads, ChunkName, PlaceMap};

/// One GET: a range of a chunk version, and the cells it is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RangeRead {
    pub chunk: ChunkName,
    pub shape: ArrayShape,
    /// In bytes of the chunk version.
    pub range: Range<u64>,
    /// Where each cell starts in the range, and which of the reply's cells it is.
    pub cells: Vec<(u64, usize)>,
}

impl RangeRead {
    /// Puts what came back where it belongs.
    pub(crate) fn deliver(&self, found: Option<Bytes>, reply: &mut [Cell]) {
        let length = self.shape.cell_bytes as usize;
        let Some(found) = found else { return }; // the reply is of cells not written to begin with
        for &(start, index) in &self.cells {
            let start = start as usize;
            reply[index] = Cell::Bytes(found.slice(start..start + length));
        }
    }
}

/// The ranges for `reads`, whose arrays have the shapes that `shape_of` says.
pub(crate) fn ranges(
    reads: &CellReads,
    gap_bytes: u64,
    mut shape_of: impl FnMut(ChunkName) -> ArrayShape,
) -> Vec<RangeRead> {
    let mut places: PlaceMap<ChunkName, usize> = PlaceMap::default();
    let mut asked: Vec<(ChunkName, Vec<(u16, usize)>)> = Vec::new();
    let mut index = 0;
    for read in reads.iter() {
        let place = *places.entry(read.chunk).or_insert_with(|| {
            asked.push((read.chunk, Vec::new()));
            asked.len() - 1
        });
        for &cell in read.cells {
            asked[place].1.push((cell, index));
            index += 1;
        }
    }
    let mut ranges = Vec::with_capacity(asked.len());
    for (chunk, mut cells) in asked {
        cells.sort_unstable();
        of_chunk(chunk, shape_of(chunk), gap_bytes, &cells, &mut ranges);
    }
    ranges
}

/// The ranges for `cells` of one chunk version, by place.
fn of_chunk(
    chunk: ChunkName,
    shape: ArrayShape,
    gap_bytes: u64,
    cells: &[(u16, usize)],
    ranges: &mut Vec<RangeRead>,
) {
    let length = u64::from(shape.cell_bytes);
    let first_of_chunk = ranges.len();
    for &(cell, index) in cells {
        let start = u64::from(cell) * length;
        let open = ranges[first_of_chunk..].last_mut();
        match open.filter(|open| start <= open.range.end.saturating_add(gap_bytes)) {
            Some(open) => {
                open.range.end = open.range.end.max(start + length);
                open.cells.push((start - open.range.start, index));
            }
            None => ranges.push(RangeRead {
                chunk,
                shape,
                range: start..start + length,
                cells: vec![(0, index)],
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use fogbank_store::ArrayId;
    use fogbank_store::conformance::content;
    use proptest::prelude::*;

    use super::*;

    const SHAPE: ArrayShape = ArrayShape { chunks: 4, cells_per_chunk: 12, cell_bytes: 10 };

    fn name(chunk: u32) -> ChunkName {
        ChunkName { array: ArrayId(1), chunk, version: 1 }
    }

    fn asked(reads: &[(u32, &[u16])], gap_bytes: u64) -> Vec<(u32, Range<u64>)> {
        let mut calls = CellReads::default();
        for (chunk, cells) in reads {
            calls.push(name(*chunk), cells.iter().copied());
        }
        let ranges = ranges(&calls, gap_bytes, |_| SHAPE);
        ranges.into_iter().map(|range| (range.chunk.chunk, range.range)).collect()
    }

    #[test]
    fn cells_that_lie_close_share_a_range() {
        let cells: &[(u32, &[u16])] = &[(2, &[0, 1, 3, 7])];
        assert_eq!(asked(cells, 0), [(2, 0..20), (2, 30..40), (2, 70..80)]);
        assert_eq!(asked(cells, 9), [(2, 0..20), (2, 30..40), (2, 70..80)]);
        assert_eq!(asked(cells, 10), [(2, 0..40), (2, 70..80)]);
        assert_eq!(asked(cells, u64::MAX), [(2, 0..80)]);
        // Over the reads of a call, in the order in which chunks come first; nothing for no cells.
        let split: &[(u32, &[u16])] = &[(3, &[5]), (2, &[4]), (3, &[4, 9]), (1, &[])];
        assert_eq!(asked(split, 0), [(3, 40..60), (3, 90..100), (2, 40..50)]);
    }

    proptest! {
        #[test]
        fn every_cell_comes_back_and_the_gaps_are_as_the_rule_says(
            reads in prop::collection::vec(
                (0u32..4, prop::collection::btree_set(0u16..12, 0..12)), 0..9
            ),
            gap_bytes in 0u64..60,
        ) {
            let mut call = CellReads::default();
            for (chunk, cells) in &reads {
                call.push(name(*chunk), cells.iter().copied());
            }
            let ranges = ranges(&call, gap_bytes, |_| SHAPE);
            let mut reply = vec![Cell::NotWritten; call.cell_count()];
            for range in &ranges {
                let whole = content(SHAPE, range.chunk);
                let bytes = whole.slice(range.range.start as usize..range.range.end as usize);
                range.deliver(Some(bytes), &mut reply);
            }
            let mut reply = reply.iter();
            for read in call.iter() {
                let whole = content(SHAPE, read.chunk);
                for &cell in read.cells {
                    let start = cell as usize * 10;
                    let cell = Cell::Bytes(whole.slice(start..start + 10));
                    prop_assert_eq!(reply.next(), Some(&cell));
                }
            }
            for pair in ranges.windows(2).filter(|pair| pair[0].chunk == pair[1].chunk) {
                prop_assert!(pair[1].range.start > pair[0].range.end + gap_bytes);
            }
        }
    }
}
