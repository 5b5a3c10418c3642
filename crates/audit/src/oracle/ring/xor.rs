//! A read batch whose paths the cloud combines.
//!
//! The paths stand in one message with their ends, what retires buckets in another; how the two
//! interleave is not said. It is replayed so: the next path is taken as soon as it fits the live
//! buckets and nothing is due; if it does not fit, the next eviction comes first. What a path reads
//! does not depend on an eviction that shares no bucket with it, so where both orders fit, both
//! lead to the same buckets, counts and retirements.

use super::fault::{Step, fault};
use super::reads::{Entry, Reads};
use crate::Observer;

/// The messages of one batch, as far as they were seen.
#[derive(Debug, Default)]
pub(super) struct XorBatch {
    paths: Vec<(u32, u64, u16)>,
    ends: Vec<u32>,
    retired: Vec<(u32, u64, u32)>, // chunk, version, end of its cells
    cells: Vec<u16>,
    pub seen_cells: bool,
    pub seen_paths: bool,
}

impl XorBatch {
    pub fn add_path_cell(&mut self, chunk: u32, version: u64, cell: u16) {
        self.paths.push((chunk, version, cell));
    }

    pub fn set_ends(&mut self, ends: &[u32]) -> Step {
        // One list a batch: a second could end paths before they begin.
        let sound = self.ends.is_empty()
            && ends.last().map_or(0, |end| *end as usize) == self.paths.len()
            && ends.is_sorted_by(|a, b| a < b)
            && ends.first().is_none_or(|end| *end > 0);
        if !sound {
            return fault(
                "path-consistent",
                "every path ends after its cells",
                format!("{ends:?}"),
            );
        }
        self.ends.extend_from_slice(ends);
        Ok(())
    }

    pub fn add_retired(&mut self, entry: Entry<'_>) {
        self.cells.extend_from_slice(entry.cells);
        self.retired.push((entry.chunk, entry.version, self.cells.len() as u32));
    }

    pub fn clear(&mut self) {
        self.paths.clear();
        self.ends.clear();
        self.retired.clear();
        self.cells.clear();
        (self.seen_cells, self.seen_paths) = (false, false);
    }

    /// Whether the batch reads paths.
    pub fn has_paths(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Replays the batch.
    pub fn replay(
        &self,
        reads: &mut Reads,
        out: &mut dyn Observer,
        mut reach: impl FnMut(&mut Reads, &mut dyn Observer) -> Step<bool>,
    ) -> Step {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut paths = starts.zip(&self.ends).map(|(start, end)| start as usize..*end as usize);
        let mut path = paths.next();
        let mut start = 0;
        for (at, (chunk, version, end)) in self.retired.iter().enumerate() {
            let cells = &self.cells[start..*end as usize];
            start = *end as usize;
            while let Some(cells) = path.clone().map(|path| &self.paths[path])
                && reads.is_free()
                && fits(reads, cells)
                && !self.wears_out_of_turn(reads, at, cells)
            {
                take(reads, cells, out)?;
                path = paths.next();
            }
            let entry = Entry { chunk: *chunk, version: *version, cells };
            reads.retiring(entry, out, &mut reach)?;
        }
        path.into_iter().chain(paths).try_for_each(|path| take(reads, &self.paths[path], out))
    }
}

impl XorBatch {
    /// Whether a path would wear a bucket out whose reshuffle does not come where it then has to:
    /// next, or with the next eviction, or right behind it. Such a path comes after that eviction,
    /// which paths that show nothing have brought about.
    fn wears_out_of_turn(&self, reads: &Reads, at: usize, cells: &[(u32, u64, u16)]) -> bool {
        let most = reads.buckets.shape.dummies;
        let last = |chunk| reads.buckets.get(chunk).is_some_and(|b| b.reads + 1 == most);
        let mut above = None;
        let chain = self.retired[at..].iter().map(|(chunk, ..)| *chunk).take_while(|chunk| {
            let known = reads.buckets.get(*chunk).is_some();
            let next = known && reads.buckets.live_above(*chunk) == above;
            above = Some(*chunk);
            next
        });
        let evicted: Vec<u32> = chain.collect();
        let worn = cells.iter().map(|(chunk, ..)| *chunk).filter(|chunk| last(*chunk));
        let deepest = worn.rev().find(|chunk| !evicted.contains(chunk));
        let behind = self.retired.get(at + evicted.len()).map(|(chunk, ..)| *chunk);
        let evicts = reads.buckets.open() > 0 && !evicted.is_empty();
        evicts && deepest.is_some() && deepest != behind
    }
}

/// Whether these cells are a whole path through the live buckets.
fn fits(reads: &Reads, cells: &[(u32, u64, u16)]) -> bool {
    let mut above = None;
    let chain = cells.iter().all(|(chunk, version, _)| {
        let bucket = reads.buckets.get(*chunk);
        let live = bucket.is_some_and(|bucket| bucket.live() && bucket.version == *version);
        let next = live && reads.buckets.live_above(*chunk) == above;
        above = Some(*chunk);
        next
    });
    chain && above.is_some_and(|last| reads.buckets.open_below(last) > 0)
}

fn take(reads: &mut Reads, cells: &[(u32, u64, u16)], out: &mut dyn Observer) -> Step {
    for (at, (chunk, version, cell)) in cells.iter().enumerate() {
        let entry = Entry { chunk: *chunk, version: *version, cells: &[*cell] };
        if at > 0 && !reads.continues_at(*chunk) {
            return fault(
                "path-consistent",
                "a bucket below the one before",
                format!("bucket {chunk}"),
            );
        }
        reads.path_cell(entry, *cell, out)?;
    }
    reads.end_path(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_one_list_of_ends_and_it_rises() {
        let sound = |lists: &[&[u32]]| {
            let mut batch = XorBatch::default();
            (0..4).for_each(|cell| batch.add_path_cell(cell, 1, 0));
            lists.iter().all(|ends| batch.set_ends(ends).is_ok())
        };
        assert!(sound(&[&[1, 4]]));
        assert!(!sound(&[&[4, 1]]));
        assert!(!sound(&[&[2, 4], &[1, 4]]));
    }
}
