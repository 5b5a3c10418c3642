//! The state between two entries of the journal, for checkpoints.
//!
//! | tag | section | bytes |
//! |---|---|---|
//! | 1 | shape, opening; accesses ended, whose turn it is | fixed |
//! | 2 | of some blocks each: partition, level or what stands for one, place | 5 N together |
//! | 3 | of some partitions each: counters, levels, how they came about, job | by public counters |
//! | 4 | accesses under way, as their entries | by their number, which is public |
//! | - | blocks that are in no cell, with their values (`stash`) | by a bound |
//!
//! What came of messages is not in it: a recovery asks again. Of a job it holds the list, which
//! cannot be drawn again, since accesses have read cells of its levels meanwhile.
//!
//! What can be long is cut into sections, each made when its turn to be written has come, and gone
//! when it has been read. How tops came about, most of it, does not change, and is copied by then.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::{SectionReader, SectionWriter, Sections, take};
use fogbank_mix::message::{Place, Source, Sources};
use fogbank_mix::{Generation, Marks, Shape};
use hashbrown::HashSet;

use super::chain::Cell;
use super::job::Job;
use super::journal::Entry;
use super::level::Level;
use super::lineage::{Lineage, Rebuild};
use super::plane::MulticloudPlane;
use super::pyramid::Pyramid;
use super::reader::UnderWay;
use crate::checkpoint::{SHAPE, behind_shape, inconsistent, shape, unpadded};
use crate::position::{Home, POSITION_BYTES};
use crate::stash::{SavedStash, unload_stash};
use crate::turn::Turn;
use crate::{Result, Section};

const POSITIONS: u16 = 2;
const PARTITIONS: u16 = 3;
const ACCESSES: u16 = 4;
const FORMAT: u32 = 3;
/// Blocks, and partitions, of a section.
const BLOCKS_EACH: u32 = 1 << 18;
const PARTITIONS_EACH: usize = 16;
/// Stands for no block.
const NOBODY: u32 = u32::MAX;

impl MulticloudPlane {
    /// The state now. Every entry so far has to be in the journal before.
    ///
    /// # Errors
    /// [`Error::Bug`] if it is none that can be saved.
    pub fn save(&self, opening: u32) -> Result<Sections<'static>> {
        let mut head = self.head();
        head.u32(opening).u64(self.first).u16(self.turn.next as u16).u8(self.turn.since);
        let flat = [unpadded(SHAPE, head.0), unpadded(ACCESSES, self.save_accesses())];
        let positions = self.save_positions().into_iter().map(|of| unpadded(POSITIONS, of));
        let pyramids = self.pyramids.iter().map(|of| self.save_partition(of));
        let mut pyramids = pyramids.collect::<Vec<_>>().into_iter();
        let partitions = std::iter::from_fn(move || {
            let mut out = SectionWriter::default();
            pyramids.by_ref().take(PARTITIONS_EACH).for_each(|of| of.write(&mut out));
            (!out.0.is_empty()).then(|| unpadded(PARTITIONS, out.0))
        });
        let flat = flat.into_iter().chain(positions).chain(partitions);
        let held = self.held();
        // More than the bound is designed not to happen; then it is a multiple, and nothing is
        // lost.
        let bound = self.settings.saved_blocks_max();
        let bound = bound * held.len().div_ceil(bound).max(1);
        let saved = SavedStash { bound, value_bytes: self.settings.shape.value_bytes };
        let held = held.into_iter().map(|(block, value)| (block, Some(value)));
        Ok(Box::new(flat.map(Ok).chain(saved.save(held))))
    }

    /// Puts the state of `sections` into a client that knows nothing, in a later opening.
    ///
    /// # Errors
    /// [`Error::Caller`] if they are of another store, [`Error::Bug`] if they contradict each
    /// other.
    pub(super) fn restore(&mut self, mut sections: Vec<Section>, current: u32) -> Result<()> {
        let (_, mut rest) = behind_shape(&sections, &self.head(), current)?;
        self.first = rest.u64()?;
        self.turn = Turn { next: rest.u16()?.into(), since: rest.u8()? };
        // 1. Where blocks are.
        let mut blocks = 0..self.settings.layout.blocks;
        for section in sections.extract_if(.., |section| section.tag == POSITIONS) {
            let mut positions = SectionReader(&section.data);
            while !positions.is_empty() {
                let block = blocks.next().ok_or_else(inconsistent)?;
                let (partition, level) = (positions.u16()?, positions.u8()?);
                self.is_known(partition)?;
                self.positions.set(block, partition, Home::of_bytes(level, positions.u16()?));
            }
        }
        // 2. What is known of partitions, and which blocks lie in their cells.
        let mut partitions = self.shape.all().peekable();
        for section in sections.extract_if(.., |section| section.tag == PARTITIONS) {
            let mut of = SectionReader(&section.data);
            while !of.is_empty() {
                let partition = partitions.next().ok_or_else(inconsistent)?;
                let pyramid = restore_partition(&self.shape, partition, &mut of)?;
                self.pyramids[usize::from(partition)] = pyramid;
            }
        }
        if !blocks.is_empty() || partitions.peek().is_some() {
            return Err(inconsistent());
        }
        self.fill_levels(|level, cell, _| level.fill(cell))?;
        self.fill_levels(Level::put)?;
        // 3. Accesses under way.
        let mut accesses = SectionReader(take(&sections, ACCESSES)?);
        while !accesses.is_empty() {
            self.restore_access(&mut accesses)?;
        }
        // 4. Values of what is in no cell; stashes in their order.
        let (value_bytes, mut held) = (self.settings.shape.value_bytes, Vec::new());
        unload_stash(value_bytes, &mut sections, |block, value| {
            held.push((block, Bytes::copy_from_slice(value)));
            Ok(())
        })?;
        for (block, value) in held {
            if block >= self.settings.layout.blocks {
                return Err(inconsistent());
            }
            if let (partition, Home::Stash) = self.positions.get(block) {
                self.pyramids[usize::from(partition)].stash.push_back(block);
            }
            self.values.insert(block, value);
        }
        for (partition, pyramid) in self.shape.all().zip(&self.pyramids) {
            let is_due = pyramid.given >= pyramid.done + self.shape.batch();
            let is_free = pyramid.job.is_none() && !pyramid.is_untold;
            self.due.extend((is_due && is_free).then_some(partition));
        }
        Ok(())
    }

    fn head(&self) -> SectionWriter {
        let partitions = self.shape.partitions_as_written();
        let Shape { levels, kept_levels, top_blocks, .. } = self.shape;
        let Shape { spare, extra, refresh_every, block_bytes, .. } = self.shape;
        let of = self.settings.shape;
        let mut head = shape(FORMAT, of.capacity, of.value_bytes);
        head.u16(partitions).u8(levels).u8(kept_levels).u16(top_blocks);
        head.u16(spare).u16(extra).u16(refresh_every).u32(block_bytes);
        head
    }

    fn save_positions(&self) -> Vec<Vec<u8>> {
        let blocks = self.settings.layout.blocks;
        let bytes = BLOCKS_EACH.min(blocks) as usize * POSITION_BYTES;
        let mut all = Vec::new();
        let under_way: HashSet<u32> =
            self.accesses.iter().filter_map(|access| access.entry.block).collect();
        for block in 0..blocks {
            if block.is_multiple_of(BLOCKS_EACH) {
                all.push(SectionWriter(Vec::with_capacity(bytes)));
            }
            let (partition, home) = self.positions.get(block);
            // Only accesses that have not departed ask for it: as the journal has it.
            let is_back = home == Home::UnderWay && !under_way.contains(&block);
            let (level, rank) = if is_back { Home::Stash } else { home }.bytes();
            all.last_mut().into_iter().for_each(|of| _ = of.u16(partition).u8(level).u16(rank));
        }
        all.into_iter().map(|of| of.0).collect()
    }

    fn save_partition(&self, pyramid: &Pyramid) -> SavedPartition {
        let (mut head, mut tail) = (SectionWriter::default(), SectionWriter::default());
        let last = pyramid.last.map_or(0, |last| last.0);
        head.u64(pyramid.given).u64(pyramid.done).u64(last);
        head.u32(pyramid.old_reads).u8(pyramid.is_untold.into());
        for level in &pyramid.levels {
            let Some(held) = level else {
                head.u8(0);
                continue;
            };
            head.u8(1).u64(held.generation.0).u32(held.reads);
            save_marks(held.free(), &mut head);
        }
        tail.u8(pyramid.job.is_some().into());
        if let Some(job) = &pyramid.job {
            tail.u64(job.generation().0).u32(job.list_reads).u8(job.list.is_some().into());
            job.list.iter().for_each(|list| save_marks(list, &mut tail));
            for going in job.going(&self.shape) {
                let (block, home) = going.unwrap_or((NOBODY, Home::Stash));
                let (level, rank) = home.bytes();
                tail.u32(block).u8(level).u16(rank);
            }
        }
        SavedPartition { head: head.0, lineage: pyramid.lineage.clone(), tail: tail.0 }
    }

    /// Does this to every cell of a level that a block lies in, as positions say.
    fn fill_levels(
        &mut self,
        mut with: impl FnMut(&mut Level, u32, u32) -> Result<()>,
    ) -> Result<()> {
        for block in 0..self.settings.layout.blocks {
            let (partition, home) = self.positions.get(block);
            if let Home::Level { level, rank } = home {
                let pyramid = &mut self.pyramids[usize::from(partition)];
                with(pyramid.level_mut(level)?, rank.into(), block)?;
            }
        }
        Ok(())
    }

    fn save_accesses(&self) -> Vec<u8> {
        let mut out = SectionWriter::default();
        for access in &self.accesses {
            out.u8(access.is_wanted.into());
            out.bytes(&Entry::Access(access.entry.clone()).encode(&self.shape));
        }
        out.0
    }

    fn restore_access(&mut self, r: &mut SectionReader<'_>) -> Result<()> {
        let (is_wanted, at) = (r.u8()? != 0, &self.settings.shape);
        let entry = Entry::decode(r.bytes()?, &self.shape, at.capacity, at.value_bytes)?;
        let Entry::Access(entry) = entry else { return Err(inconsistent()) };
        let cell =
            |at: &Place| Cell { level: at.level, generation: at.generation, place: at.place };
        let cells = entry.places.iter().map(cell).collect();
        entry.block.into_iter().for_each(|block| *self.asked.entry(block).or_insert(0) += 1);
        self.pyramids[usize::from(entry.partition)].under_way += 1;
        self.accesses.push_back(UnderWay::new(entry, cells, is_wanted));
        Ok(())
    }

    /// Blocks that are in no cell: of stashes in their order, then others.
    fn held(&self) -> Vec<(u32, Bytes)> {
        let value = |block: u32| self.values.get(&block).map(|value| (block, value.clone()));
        let stashed = self.pyramids.iter().flat_map(|pyramid| pyramid.stash.iter().copied());
        let is_elsewhere = |block: &u32| self.positions.get(*block).1 != Home::Stash;
        let mut others: Vec<u32> = self.values.keys().copied().filter(is_elsewhere).collect();
        others.sort_unstable();
        stashed.chain(others).filter_map(value).collect()
    }

    fn is_known(&self, partition: u16) -> Result<()> {
        if self.shape.has(partition) { Ok(()) } else { Err(inconsistent()) }
    }
}

/// A partition as it is at the cut: what changes is written already.
struct SavedPartition {
    head: Vec<u8>,
    lineage: Lineage,
    tail: Vec<u8>,
}

impl SavedPartition {
    fn write(&self, out: &mut SectionWriter) {
        out.raw(&self.head);
        save_lineage(&self.lineage, out);
        out.raw(&self.tail);
    }
}

fn save_marks(marks: &Marks, out: &mut SectionWriter) {
    out.u32(marks.words().len() as u32);
    marks.words().iter().for_each(|word| _ = out.u64(*word));
}

fn restore_marks(r: &mut SectionReader<'_>) -> Result<Marks> {
    let words = r.u32()?;
    let words = (0..words).map(|_| Ok(r.u64()?)).collect::<Result<_>>()?;
    Ok(Marks::of(words))
}

fn save_lineage(lineage: &Lineage, out: &mut SectionWriter) {
    out.u16(lineage.attempts.len() as u16);
    lineage.attempts.iter().for_each(|(count, attempt)| _ = out.u64(*count).u16(*attempt));
    out.u16(lineage.rebuilds.len() as u16);
    for Rebuild { generation, sources, list } in lineage.rebuilds.iter().map(|one| &**one) {
        out.u64(generation.0).u8(sources.0.len() as u8);
        sources.0.iter().for_each(|at| _ = out.u8(at.level).u64(at.generation.0));
        save_marks(list, out);
    }
}

fn restore_lineage(r: &mut SectionReader<'_>) -> Result<Lineage> {
    let attempts = r.u16()?;
    let attempts = (0..attempts).map(|_| Ok((r.u64()?, r.u16()?))).collect::<Result<_>>()?;
    let mut rebuilds = Vec::new();
    for _ in 0..r.u16()? {
        let (generation, sources) = (Generation(r.u64()?), r.u8()?);
        let source = |_| Ok(Source { level: r.u8()?, generation: Generation(r.u64()?) });
        let sources = Sources((0..sources).map(source).collect::<Result<_>>()?);
        let list = restore_marks(r)?;
        rebuilds.push(Arc::new(Rebuild { generation, sources, list }));
    }
    Ok(Lineage { rebuilds, attempts })
}

fn restore_partition(shape: &Shape, partition: u16, r: &mut SectionReader<'_>) -> Result<Pyramid> {
    let mut pyramid = Pyramid::new(shape, partition);
    (pyramid.given, pyramid.done) = (r.u64()?, r.u64()?);
    pyramid.last = Some(Generation(r.u64()?)).filter(|last| last.0 != 0);
    (pyramid.old_reads, pyramid.is_untold) = (r.u32()?, r.u8()? != 0);
    for level in 0..shape.levels {
        if r.u8()? == 0 {
            continue;
        }
        let (generation, reads) = (Generation(r.u64()?), r.u32()?);
        let cells = shape.size(level, generation.count());
        let held = Level::saved(generation, cells, restore_marks(r)?, reads);
        pyramid.levels[usize::from(level)] = Some(held);
    }
    pyramid.lineage = restore_lineage(r)?;
    if r.u8()? != 0 {
        let (generation, list_reads) = (Generation(r.u64()?), r.u32()?);
        let list = (r.u8()? != 0).then(|| restore_marks(r)).transpose()?;
        let sources = pyramid.lineage.sources(shape, partition, generation.count());
        let mut job = Job::new(shape, (partition, generation), sources, list);
        job.list_reads = list_reads;
        let going = (0..shape.uploads(generation.count())).map(|_| {
            let (block, home) = (r.u32()?, Home::of_bytes(r.u8()?, r.u16()?));
            Ok((block != NOBODY).then_some((block, home)))
        });
        job.goes(going.collect::<Result<Vec<_>>>()?.into_iter());
        pyramid.job = Some(job);
    }
    Ok(pyramid)
}
