//! Partitions in a checkpoint: one record each, one after the other, cut into sections of one size.
//!
//! How long a record is, is secret: it tells how many blocks a partition has. How long all of them
//! are at most is public, and so much room they have: a block is in one list, of a level, a job or
//! a stash, or in none; levels, marks and counters have room as if every level were filled; and how
//! many cells of quotas were read, and ranks planned, follows from the budgets.
//!
//! ```text
//! record  4 bytes of what follows
//!         8 orders carried out | of those that count, those given, those of its job: 4 how many more
//!         4 n | n times 4 block of the stash, the oldest first
//!         of a job, of every level that it writes, from the lowest:
//!             2 n ranks | bits of those that have left | 4 block, of every other
//!         of every stored level: 8 generation (0: not filled), and of a filled one
//!             2 n blocks | 2 asked for | 2 lacks of its quota (all ones: it was not asked since it is
//!             due) | 2 drawn | 2 m read of its quota
//!             marks of the cells of its blocks | marks of unread cells, 8 bytes for 64 each
//!             n times 4 block | m times 2 place | bits of those whose block has left since
//! ```

use bytes::Buf;
use fogbank_durable::{SectionReader, SectionWriter};
use fogbank_mix::Marks;

use super::job::{Destination, Job};
use super::layout::Layout;
use super::level::{DueRead, HOLE, Level};
use super::pyramid::Pyramid;
use super::settings::PartitionSettings;
use crate::checkpoint::inconsistent;
use crate::{Result, Section};

/// The first section, bytes of each, and how many at most.
const TAG: u16 = 0x2000;
const SECTION_BYTES: usize = 1 << 20;
const SECTIONS_MAX: usize = 0x2000;

const RECORD_BYTES: usize = 4 + 8 + 3 * 4 + 4;
const LEVEL_BYTES: usize = 8 + 5 * 2;
/// A level of a job beside its ranks.
const PLAN_BYTES: usize = 2 + 1;
const BLOCK_BYTES: usize = 4;
/// Stands for a quota of which nothing was read.
const ALL: u16 = u16::MAX;

/// Bytes of all records, at most. Public.
pub fn bytes_max(settings: &PartitionSettings) -> usize {
    let layout = settings.layout;
    let level = |l| LEVEL_BYTES + 2 * marks_bytes(layout.cells(l)) + PLAN_BYTES;
    let levels: usize = layout.stored_levels().map(level).sum();
    let partitions = layout.partitions as usize;
    // Ranks that jobs plan, and cells of quotas: each is a cell of the budget, or was read early on
    // account of an order.
    let every: usize = layout.stored_levels().map(|l| usize::from(layout.room(l))).sum();
    let largest = layout.job_cells(2 * layout.cycle() - 1, layout.cycle() - 1);
    let of_jobs = (settings.job_cells_max() + largest) as usize;
    let early = settings.orders_max() as usize * layout.stored_levels().count();
    let planned = of_jobs.min(every * partitions);
    let reads = (of_jobs + early).min(every * partitions);
    // Bits begin anew with every level.
    let bits = |n: usize| n / 8 + layout.stored_levels().count() * partitions;
    partitions * (RECORD_BYTES + levels)
        + BLOCK_BYTES * layout.blocks as usize
        + bits(planned)
        + 2 * reads
        + bits(reads)
}

fn marks_bytes(cells: u16) -> usize {
    usize::from(cells).div_ceil(64) * 8
}

/// The lengths of the sections of so many bytes. Public.
pub fn lengths(bytes: usize) -> impl Iterator<Item = usize> {
    let each = SECTION_BYTES.max(bytes.div_ceil(SECTIONS_MAX));
    (0..bytes.div_ceil(each)).map(move |at| each.min(bytes - at * each))
}

/// The record of a partition is appended.
pub fn write(layout: &Layout, pyramid: &Pyramid, out: &mut SectionWriter) {
    let from = out.0.len();
    let beyond = |orders: u64| (orders - pyramid.done) as u32;
    let of_job = pyramid.job.as_ref().map_or(0, |job| beyond(job.until));
    out.u32(0).u64(pyramid.done).u32(beyond(pyramid.sure)).u32(beyond(pyramid.given)).u32(of_job);
    out.u32(pyramid.stash.len() as u32);
    pyramid.stash.iter().for_each(|block| _ = out.u32(*block));
    for Destination { plan, .. } in pyramid.job.iter().flat_map(|job| &job.destinations) {
        out.u16(plan.len() as u16).raw(&bits(plan.iter().map(|block| *block == HOLE)));
        plan.iter().filter(|block| **block != HOLE).for_each(|block| _ = out.u32(*block));
    }
    for level in layout.stored_levels() {
        match &pyramid.levels[usize::from(level)] {
            None => _ = out.u64(0),
            Some(held) => write_level(held, out),
        }
    }
    let bytes = (out.0.len() - from - 4) as u32;
    out.0[from..from + 4].copy_from_slice(&bytes.to_le_bytes());
}

fn write_level(held: &Level, out: &mut SectionWriter) {
    out.u64(held.version).u16(held.blocks() as u16).u16(held.asked);
    out.u16(held.left.unwrap_or(ALL)).u16(held.drawn).u16(held.due_reads.len() as u16);
    let mut listed = Marks::of(vec![0; held.unread().words().len()]);
    held.laid().for_each(|(place, _)| listed.set(place.into()));
    for marks in [&listed, held.unread()] {
        marks.words().iter().for_each(|word| _ = out.u64(*word));
    }
    held.laid().for_each(|(_, block)| _ = out.u32(block));
    held.due_reads.iter().for_each(|read| _ = out.u16(read.place));
    out.raw(&bits(held.due_reads.iter().map(|read| read.has_left)));
}

fn bits(of: impl ExactSizeIterator<Item = bool>) -> Vec<u8> {
    let mut bits = vec![0; of.len().div_ceil(8)];
    of.enumerate().for_each(|(at, is_set)| bits[at / 8] |= u8::from(is_set) << (at % 8));
    bits
}

fn is_set(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

/// Cuts records that come one by one into sections.
pub struct Sections {
    lengths: Box<dyn Iterator<Item = usize> + Send>,
    tag: u16,
    records: SectionWriter,
}

impl Sections {
    /// For so many bytes at most.
    pub fn of(bytes: usize) -> Self {
        Self { lengths: Box::new(lengths(bytes)), tag: TAG, records: SectionWriter::default() }
    }

    /// The next section, if there is one: `write` appends another record, or tells that there is
    /// none.
    pub fn next(&mut self, mut write: impl FnMut(&mut SectionWriter) -> bool) -> Option<Section> {
        let padded_len = match self.lengths.next() {
            Some(length) => length,
            // More than the bound is designed not to happen; then there are more, and nothing is
            // lost.
            None if self.records.0.is_empty() && !write(&mut self.records) => return None,
            None => SECTION_BYTES,
        };
        while self.records.0.len() < padded_len && write(&mut self.records) {}
        let rest = self.records.0.split_off(self.records.0.len().min(padded_len));
        let data = std::mem::replace(&mut self.records.0, rest);
        let tag = self.tag;
        self.tag += 1;
        Some(Section { tag, padded_len, data })
    }
}

/// Takes the sections of partitions out of those of a checkpoint; gives their records one by one.
pub struct Records<'a> {
    sections: std::slice::IterMut<'a, Section>,
    read: Vec<u8>,
    at: usize,
}

impl<'a> Records<'a> {
    /// Those of a checkpoint.
    pub fn of(sections: &'a mut [Section]) -> Self {
        Self { sections: sections.iter_mut(), read: Vec::new(), at: 0 }
    }

    /// The next record. A section that was read is gone: there is no room for all of it twice.
    ///
    /// # Errors
    /// [`crate::Error::Bug`] if there is none.
    pub fn next(&mut self) -> Result<SectionReader<'_>> {
        let bytes = loop {
            let mut left = &self.read[self.at..];
            if left.len() >= 4 && left.get_u32_le() as usize <= left.len() {
                let mut left = &self.read[self.at..];
                break left.get_u32_le() as usize;
            }
            let tags = TAG..TAG + SECTIONS_MAX as u16;
            let next = self.sections.find(|section| tags.contains(&section.tag));
            let next = std::mem::take(&mut next.ok_or_else(inconsistent)?.data);
            self.read.drain(..self.at);
            self.at = 0;
            self.read.extend_from_slice(&next);
        };
        let from = self.at + 4;
        self.at = from + bytes;
        Ok(SectionReader(&self.read[from..self.at]))
    }
}

/// The partition of a record.
///
/// # Errors
/// [`crate::Error::Bug`] if it contradicts itself.
pub fn read(layout: &Layout, r: &mut SectionReader<'_>) -> Result<Pyramid> {
    let done = r.u64()?;
    let mut pyramid = Pyramid::new(layout, done);
    let [sure, given, of_job] = [r.u32()?, r.u32()?, r.u32()?].map(u64::from);
    (pyramid.sure, pyramid.given) = (done + sure, done + given);
    let stashed = r.u32()?;
    pyramid.stash = (0..stashed).map(|_| Ok(r.u32()?)).collect::<Result<_>>()?;
    if of_job > 0 {
        let destination =
            |level| Ok(Destination { level, plan: read_plan(layout.room(level), r)? });
        let written = layout.destinations(done + of_job, done).into_iter();
        let destinations = written.map(destination).collect::<Result<_>>()?;
        pyramid.job = Some(Job::saved(done + of_job, layout, done, destinations));
    }
    for level in layout.stored_levels() {
        pyramid.levels[usize::from(level)] = read_level(layout.cells(level), r)?;
    }
    if r.is_empty() { Ok(pyramid) } else { Err(inconsistent()) }
}

fn read_plan(room: u16, r: &mut SectionReader<'_>) -> Result<Vec<u32>> {
    let ranks = usize::from(r.u16()?);
    if ranks > room.into() {
        return Err(inconsistent());
    }
    let left = r.raw(ranks.div_ceil(8))?;
    (0..ranks).map(|rank| if is_set(left, rank) { Ok(HOLE) } else { Ok(r.u32()?) }).collect()
}

fn read_level(cells: u16, r: &mut SectionReader<'_>) -> Result<Option<Level>> {
    let version = r.u64()?;
    if version == 0 {
        return Ok(None);
    }
    let [blocks, asked, left, drawn, due] = [r.u16()?, r.u16()?, r.u16()?, r.u16()?, r.u16()?];
    let mut marks = || {
        let words = (0..marks_bytes(cells) / 8).map(|_| Ok(r.u64()?));
        let marks = Marks::of(words.collect::<Result<_>>()?);
        match marks.iter().last().is_none_or(|last| last < cells.into()) {
            true => Ok(marks),
            false => Err(inconsistent()),
        }
    };
    let (listed, unread) = (marks()?, marks()?);
    if listed.count() != u32::from(blocks) {
        return Err(inconsistent());
    }
    let ids = SectionReader(r.raw(usize::from(blocks) * BLOCK_BYTES)?).0.chunks_exact(BLOCK_BYTES);
    let ids = ids.map(|mut id| id.get_u32_le());
    let laid: Vec<(u16, u32)> = listed.iter().map(|place| place as u16).zip(ids).collect();
    let places: Vec<u16> = (0..due).map(|_| Ok(r.u16()?)).collect::<Result<_>>()?;
    let has_left = r.raw(places.len().div_ceil(8))?;
    if places.iter().any(|place| *place >= cells || unread.has((*place).into())) {
        return Err(inconsistent());
    }
    let mut level = Level::saved(version, laid.into_iter(), unread, cells.into());
    let reads = places.into_iter().enumerate();
    let read = |(at, place)| DueRead { place, has_left: is_set(has_left, at) };
    level.due_reads = reads.map(read).collect();
    (level.asked, level.drawn, level.left) = (asked, drawn, (left != ALL).then_some(left));
    Ok(Some(level))
}
