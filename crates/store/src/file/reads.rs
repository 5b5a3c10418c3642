//! A batch of reads as few large system calls on several threads.
//!
//! Which cells are fetched together is a function of the request alone: cells of one chunk with at
//! most [`GAP_BYTES_MAX`] between them are one read of the file, gap included. Nothing here depends
//! on what is in the cells or on what was read before.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use super::array::ArrayFile;
use super::buffers::Buffers;
use crate::{Cell, Result};

/// One chunk version to read from, found or not.
pub(super) struct Wanted<'a> {
    pub(super) array: &'a Arc<ArrayFile>,
    pub(super) frame: Option<u32>,
    pub(super) part: Part<'a>,
}

/// What of it.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    /// All its cells, as one entry of the reply.
    Whole,
    /// These, an entry each.
    Cells(&'a [u16]),
}

/// Reads everything wanted; the reply has the entries of each, in order.
pub(super) fn read_all(
    wanted: &[Wanted<'_>],
    pool: &rayon::ThreadPool,
    buffers: &Buffers,
) -> Result<Vec<Cell>> {
    let entries = wanted.iter().map(|want| want.part.entries()).sum();
    let mut reply = vec![Cell::NotWritten; entries];
    let mut jobs = split(wanted, &mut reply);
    match &mut jobs[..] {
        [] => {}
        // Waking another thread costs more than a small job does.
        [only] => only.run(buffers)?,
        _ => pool.install(|| jobs.par_iter_mut().try_for_each(|job| job.run(buffers)))?,
    }
    drop(jobs);
    Ok(reply)
}

/// Some neighbours in a batch, read into one buffer.
struct Job<'a> {
    wanted: &'a [Wanted<'a>],
    reply: &'a mut [Cell],
    bytes: usize,
}

fn split<'a>(wanted: &'a [Wanted<'a>], reply: &'a mut [Cell]) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    let mut rest = reply;
    let (mut start, mut bytes, mut entries) = (0, 0, 0);
    for end in 0..=wanted.len() {
        let next = wanted.get(end).map_or(0, Wanted::bytes);
        let full = bytes + next > JOB_BYTES || end - start >= JOB_READS;
        if end > start && (end == wanted.len() || full) {
            let (reply, left) = std::mem::take(&mut rest).split_at_mut(entries);
            rest = left;
            jobs.push(Job { wanted: &wanted[start..end], reply, bytes });
            (start, bytes, entries) = (end, 0, 0);
        }
        bytes += next;
        entries += wanted.get(end).map_or(0, |want| want.part.entries());
    }
    jobs
}

impl Job<'_> {
    fn run(&mut self, buffers: &Buffers) -> Result<()> {
        if self.bytes == 0 {
            return Ok(()); // nothing of it is written
        }
        let mut buffer = buffers.take(self.bytes);
        let mut rest = buffer.as_mut();
        for want in self.wanted {
            let Some(frame) = want.frame else { continue };
            for run in want.runs() {
                let kept_bytes = want.kept_bytes(&run);
                let (here, left) = std::mem::take(&mut rest).split_at_mut(kept_bytes);
                rest = left;
                if kept_bytes == run.bytes.len() {
                    want.array.read_frame(frame, run.bytes.start, here)?;
                } else {
                    let mut gapped = buffers.take(run.bytes.len());
                    want.array.read_frame(frame, run.bytes.start, gapped.as_mut())?;
                    want.close_gaps(&run, gapped.as_ref(), here);
                }
            }
        }
        self.cut(&buffer.freeze());
        Ok(())
    }

    /// Cuts the buffer into the entries of the reply.
    fn cut(&mut self, buffer: &Bytes) {
        let (mut entry, mut start) = (0, 0);
        for want in self.wanted {
            let entries = &mut self.reply[entry..entry + want.part.entries()];
            entry += entries.len();
            if want.frame.is_none() {
                continue;
            }
            let entry_bytes = want.bytes() / entries.len().max(1);
            for cell in entries {
                *cell = Cell::Bytes(buffer.slice(start..start + entry_bytes));
                start += entry_bytes;
            }
        }
    }
}

/// Bytes of a chunk that are read in one go, and which of the wanted cells lie in them.
struct Run {
    bytes: Range<usize>,
    cells: Range<usize>,
}

impl Wanted<'_> {
    /// Bytes of its entries.
    fn bytes(&self) -> usize {
        match self.part {
            _ if self.frame.is_none() => 0,
            Part::Whole => self.array.shape.chunk_bytes(),
            Part::Cells(cells) => cells.len() * self.array.shape.cell_bytes as usize,
        }
    }

    /// Bytes of a run less its gaps.
    fn kept_bytes(&self, run: &Run) -> usize {
        match self.part {
            Part::Whole => run.bytes.len(),
            Part::Cells(_) => run.cells.len() * self.array.shape.cell_bytes as usize,
        }
    }

    /// Copies the cells of a run together: a reply that is kept for a while does not keep the gaps.
    fn close_gaps(&self, run: &Run, gapped: &[u8], kept: &mut [u8]) {
        let Part::Cells(cells) = self.part else { return };
        let cell_bytes = self.array.shape.cell_bytes as usize;
        for (cell, kept) in cells[run.cells.clone()].iter().zip(kept.chunks_exact_mut(cell_bytes)) {
            let start = usize::from(*cell) * cell_bytes - run.bytes.start;
            kept.copy_from_slice(&gapped[start..start + cell_bytes]);
        }
    }

    fn runs(&self) -> impl Iterator<Item = Run> {
        let shape = self.array.shape;
        let cell_bytes = shape.cell_bytes as usize;
        let cells = match self.part {
            Part::Whole => &[],
            Part::Cells(cells) => cells,
        };
        let mut whole = matches!(self.part, Part::Whole);
        let mut next = 0;
        std::iter::from_fn(move || {
            if std::mem::take(&mut whole) {
                return Some(Run { bytes: 0..shape.chunk_bytes(), cells: 0..0 });
            }
            let first = next;
            let mut last = *cells.get(first)?;
            next += 1;
            while let Some(&cell) = cells.get(next) {
                if (cell - last - 1) as usize * cell_bytes > GAP_BYTES_MAX {
                    break;
                }
                last = cell;
                next += 1;
            }
            let start = cells[first] as usize * cell_bytes;
            Some(Run { bytes: start..(last as usize + 1) * cell_bytes, cells: first..next })
        })
    }
}

impl Part<'_> {
    fn entries(&self) -> usize {
        match self {
            Part::Whole => 1,
            Part::Cells(cells) => cells.len(),
        }
    }
}

/// Reading over a page costs less than a second system call, and the disk fetches it anyway.
const GAP_BYTES_MAX: usize = 4096;
/// Enough to be worth a thread's waking, little enough to balance.
const JOB_BYTES: usize = 256 << 10;
const JOB_READS: usize = 512;
