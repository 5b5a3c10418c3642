//! Where a level lies in the cloud: in one chunk, or in segments.
//!
//! An array a level, a version a generation. A level of more cells than a segment has is cut into
//! segments of as many cells each, a chunk each: the chunks of a partition follow each other. So a
//! put, an object of an object store and a message of what a job writes stay small however large
//! the volume is. Where the cells do not come out even the level has some dummies more, fewer than
//! it has segments.
//!
//! A segment is a sixteenth of a top, but at least a mebibyte, as long as a piece of a checkpoint
//! (what comes behind one on a thin link waits), and at most eight (a sweep lists all chunks).
//!
//! All of it is known to the cloud.

use fogbank_store::{ArrayId, ChunkName};

use super::layout::Layout;
use super::plane::Cell;

/// Bytes of a segment, if a cell is no longer; and segments of a top, if they have so many bytes.
const SEGMENT_BYTES: std::ops::RangeInclusive<usize> = 1 << 20..=8 << 20;
const SEGMENTS: usize = 16;

impl Layout {
    /// The same with levels in segments, of cells of so many bytes.
    pub fn in_segments(self, cell_bytes: usize) -> Self {
        let top = self.least_cells(self.top()) as usize * cell_bytes;
        let bytes = (top / SEGMENTS).clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end());
        let cells = (bytes / cell_bytes.max(1)).clamp(1, u16::MAX.into());
        Self { segment_cells: cells as u16, ..self }
    }

    /// Segments of `level` of a partition.
    pub fn segments(&self, level: u8) -> u32 {
        self.least_cells(level).div_ceil(self.segment_cells.into())
    }

    /// Cells of a segment of `level`.
    pub fn segment(&self, level: u8) -> u16 {
        // Not more than `segment_cells`.
        self.least_cells(level).div_ceil(self.segments(level)) as u16
    }

    /// The chunks of a level of a partition in one generation, from the first place on.
    pub fn chunks(
        &self,
        partition: u32,
        level: u8,
        version: u64,
    ) -> impl Iterator<Item = ChunkName> + use<> {
        let segments = self.segments(level);
        let first = partition * segments;
        (first..first + segments).map(move |chunk| ChunkName {
            array: array(level),
            chunk,
            version,
        })
    }

    /// The chunk in which a cell of `partition` lies, and which cell of that it is.
    pub fn locate(&self, partition: u32, cell: &Cell) -> (ChunkName, u16) {
        let segment = self.segment(cell.level);
        let chunk = partition * self.segments(cell.level) + u32::from(cell.place / segment);
        let name = ChunkName { array: array(cell.level), chunk, version: cell.version };
        (name, cell.place % segment)
    }

    /// The partition and the level of which a chunk is, if it is of one.
    pub fn level_of(&self, name: &ChunkName) -> Option<(u32, u8)> {
        let level = u8::try_from(name.array.0.checked_sub(1)?).ok();
        let level = level.filter(|level| *level < self.levels)?;
        let partition = name.chunk / self.segments(level);
        (partition < self.partitions).then_some((partition, level))
    }
}

/// The array of a level.
pub fn array(level: u8) -> ArrayId {
    ArrayId(u16::from(level) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A top of 5.2 MB lies in six chunks, one of 140 MB in seventeen.
    #[test]
    fn a_large_level_lies_in_segments_of_as_many_cells() {
        let layout = Layout::new(1 << 28, 1).unwrap().in_segments(4_120);
        let top = layout.top();
        assert_eq!((layout.segments(top), layout.segment_cells), (17, 2_036));
        assert!(u32::from(layout.segment(top)) * 4_120 <= 8 << 20);
        let least = u32::from(layout.room(top)) + u32::from(layout.dummies(top));
        assert!((0..17).contains(&(u32::from(layout.cells(top)) - least)));
        assert_eq!(layout.segments(10), 2, "2,048 cells are 12 more than fit");
        assert_eq!((layout.segments(9), layout.cells(9)), (1, 1_024));
        let small = Layout::new(1 << 18, 5).unwrap().in_segments(4_120);
        assert_eq!((small.segments(small.top()), small.segment_cells), (6, 254));
    }

    #[test]
    fn every_cell_has_a_chunk_of_its_level_and_a_cell_of_its_own() {
        let layout = Layout { partitions: 4, segment_cells: 5, ..Layout::new(40, 1).unwrap() };
        layout.check().unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for (partition, level) in (0..4).flat_map(|p| layout.stored_levels().map(move |l| (p, l))) {
            let names: Vec<ChunkName> = layout.chunks(partition, level, 7).collect();
            assert_eq!(names.len() as u32, layout.segments(level));
            for place in 0..layout.cells(level) {
                let cell = Cell { level, place, version: 7, block: None };
                let (name, at) = layout.locate(partition, &cell);
                assert!(names.contains(&name) && at < layout.segment(level) && at < 5);
                assert_eq!(layout.level_of(&name), Some((partition, level)));
                assert!(seen.insert((name, at)), "{name:?} {at}");
            }
        }
        let name = |array, chunk| ChunkName { array: ArrayId(array), chunk, version: 0 };
        let beyond = 4 * layout.segments(layout.top());
        for other in [name(0, 0), name(u16::MAX, 0), name(array(layout.top()).0, beyond)] {
            assert_eq!(layout.level_of(&other), None, "{other:?}");
        }
    }
}
