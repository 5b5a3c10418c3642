//! The trusted state at a cut, as sections of a checkpoint, and back.
//!
//! A cut is made between any two records. What it has to be is the state in which all accesses cut
//! before it have ended, and none after it:
//!
//! 1. At the cut: counters, positions, levels, open jobs with their plans as they are now. A block
//!    under way goes to the stash to which the last access before the cut sends it. The values in
//!    stashes, and of what open jobs took from them, are held.
//! 2. When the last access before the cut has ended, and none after it: the values of what was
//!    under way. Now the checkpoint can be written.
//!
//! Not in it are the values that stand in cells of the quota of a due level, or of a job's sources:
//! recovery reads all such cells again (`replay`). They are there as long as the checkpoint counts,
//! and which they are is public.
//!
//! All numbers are little-endian. Every `padded_len` is a function of the public configuration.
//!
//! | tag | section | bytes |
//! |---|---|---|
//! | 1 | as for every engine (`checkpoint`), with P, L, C, c0; the turn | |
//! | 2 | of every block under way: block, partition that it goes to | 8 each, padded |
//! | 3 | of every record under way: how many commits and orders, and these | padded |
//! | 256.. | stashes, partition by partition, the oldest first, then what jobs took, then what was under way (`stash/saved`) | (4 + value bytes) * bound, over all |
//! | 8192.. | partitions (`saved`) | 4 N and more, over all |

use bytes::Bytes;
use fogbank_durable::{SectionReader, SectionWriter, take};
use hashbrown::HashMap;

use super::journal::Commit;
use super::layout::Layout;
use super::orders::Effects;
use super::plane::PartitionPlane;
use super::saved::{self, Records};
use super::settings::PartitionSettings;
use crate::checkpoint::{SHAPE, behind_shape, inconsistent, shape, unpadded};
use crate::immediate::sequencer::Number;
use crate::stash::{SavedStash, load_stash};
use crate::turn::Turn;
use crate::{Error, Result, Section};

const UNDER_WAY: u16 = 2;
const UNCOUNTED: u16 = 3;
const FORMAT: u32 = 3;

const UNDER_WAY_BYTES: usize = 4 + 4;
const COMMIT_BYTES: usize = 4 + 8 + 8;

/// A cut whose checkpoint is not written yet.
#[derive(Debug)]
pub struct Cutting {
    /// The number of the first access that it does not comprise.
    until: Number,
    /// Blocks whose values are not known before that.
    under_way: Vec<u32>,
    /// Blocks with the values that they have at it.
    held: Vec<(u32, Bytes)>,
    /// Whether all are known.
    pub is_whole: bool,
    saved: SavedStash,
}

impl Cutting {
    /// How many values it holds and will hold.
    #[cfg(test)]
    pub fn values(&self) -> usize {
        self.held.len() + self.under_way.len()
    }

    /// The sections of the values.
    pub fn sections(self) -> impl Iterator<Item = fogbank_durable::Result<Section>> + Send {
        // More than the bound is designed not to happen; then it is a multiple, and nothing is
        // lost.
        let bound = self.saved.bound * self.held.len().div_ceil(self.saved.bound).max(1);
        let held = self.held.into_iter().map(|(block, value)| (block, Some(value)));
        SavedStash { bound, ..self.saved }.save(held)
    }
}

/// A job has stored `block`, whose `value` leaves the memory: a cut may still want it. No access
/// behind the cut has ended, so it is the value at the cut.
pub(super) fn hold_for_cut(cutting: &mut Option<Cutting>, block: u32, value: Option<Bytes>) {
    let Some(cutting) = cutting.as_mut().filter(|cutting| !cutting.is_whole) else { return };
    let waits = cutting.under_way.binary_search(&block).ok();
    if let Some((at, value)) = waits.zip(value) {
        cutting.under_way.remove(at);
        cutting.held.push((block, value));
    }
}

impl PartitionPlane {
    /// Notes the values that a cut waits for, if they are known.
    ///
    /// # Errors
    /// [`Error::Bug`] if one is not in memory.
    pub(super) fn look_at_cut(&mut self) -> Result<()> {
        let first = self.first;
        let waits = |cutting: &&mut Cutting| !cutting.is_whole && first >= cutting.until;
        let Some(cutting) = self.cutting.as_mut().filter(waits) else { return Ok(()) };
        for block in cutting.under_way.drain(..) {
            let value = self.values.get(&block).cloned();
            let value = value.ok_or_else(|| Error::Bug("a cut lacks a value".into()))?;
            cutting.held.push((block, value));
        }
        cutting.is_whole = true;
        Ok(())
    }
}

/// The padded lengths of the sections of a checkpoint, in bytes, in their order.
pub fn checkpoint_lengths(settings: &PartitionSettings) -> Vec<usize> {
    let (layout, value_bytes) = (settings.layout, settings.shell.shape.value_bytes);
    let flat = [
        shape_head(&layout, value_bytes).0.len() + 4 + 4 + 1,
        UNDER_WAY_BYTES * settings.shell.under_way_max,
        settings.uncounted_bytes(),
    ];
    let stash = SavedStash { bound: settings.saved_blocks_max(), value_bytes };
    let partitions = saved::lengths(saved::bytes_max(settings));
    flat.into_iter().chain(stash.lengths()).chain(partitions).collect()
}

impl PartitionSettings {
    pub(super) fn uncounted_bytes(&self) -> usize {
        let (records, commits, orders) = self.uncounted_max();
        2 + records * 4 + commits * COMMIT_BYTES + orders * 4
    }
}

/// A cut: the sections of the state as it is now, but for values, which are noted.
///
/// # Errors
/// [`Error::Bug`] if it is none that can be saved.
pub(super) fn save(plane: &mut PartitionPlane) -> Result<Vec<Section>> {
    let mut head = shape_head(&plane.layout, plane.value_bytes);
    head.u32(plane.keys.current().0).u32(plane.turn.next).u8(plane.turn.since);
    // 1. What is under way goes where its last access sends it.
    let mut goes_to = HashMap::new();
    let (mut order, accesses) = (Vec::new(), plane.accesses.iter());
    for (block, to) in accesses.filter_map(|access| Some((access.block?, access.to))) {
        if goes_to.insert(block, to).is_none() {
            order.push(block);
        }
    }
    let mut under_way = SectionWriter::default();
    order.iter().for_each(|block| _ = under_way.u32(*block).u32(goes_to[block]));
    let sections = vec![
        unpadded(SHAPE, head.0),
        padded(UNDER_WAY, under_way.0, UNDER_WAY_BYTES * plane.under_way_max),
        padded(UNCOUNTED, save_uncounted(plane), plane.uncounted_bytes),
    ];
    // 2. Values of stashes, but for what comes with the cells of jobs; and of what jobs took of
    //    them.
    let mut held = Vec::new();
    let mut hold = |block: u32| {
        let value = plane.values.get(&block).cloned();
        held.push((block, value.ok_or_else(|| Error::Bug("a stash lacks a value".into()))?));
        Ok::<_, Error>(())
    };
    for pyramid in plane.pyramids.iter() {
        let comes = |block: &u32| !pyramid.job.as_ref().is_some_and(|j| j.overflow.contains(block));
        pyramid.stash.iter().copied().filter(comes).try_for_each(&mut hold)?;
    }
    let jobs = plane.pyramids.iter().filter_map(|pyramid| pyramid.job.as_ref());
    jobs.flat_map(|job| &job.from_stash).copied().try_for_each(&mut hold)?;
    // 3. Partitions are written later, as they are now.
    plane.pyramids.cut();
    let until = plane.first + plane.accesses.len() as u64;
    let saved = SavedStash { bound: plane.saved_blocks_max, value_bytes: plane.value_bytes };
    order.sort_unstable();
    plane.cutting = Some(Cutting { until, under_way: order, held, is_whole: false, saved });
    Ok(sections)
}

/// More than there is room for is designed not to happen; then it is longer, and nothing is lost.
fn padded(tag: u16, data: Vec<u8>, room: usize) -> Section {
    Section { tag, padded_len: room.max(data.len()), data }
}

fn save_uncounted(plane: &PartitionPlane) -> Vec<u8> {
    let mut out = SectionWriter::default();
    out.u16(plane.uncounted.len() as u16);
    for Effects { commits, orders } in &plane.uncounted {
        out.u16(commits.len() as u16).u16(orders.len() as u16);
        for Commit { partition, until, version } in commits {
            out.u32(*partition).u64(*until).u64(*version);
        }
        orders.iter().for_each(|partition| _ = out.u32(*partition));
    }
    out.0
}

/// Puts the state of `sections` into an empty `plane`, and takes those of partitions as they are
/// read. Values that stand in cells of quotas are lacking.
///
/// # Errors
/// [`Error::Caller`] if they are of another store, [`Error::Bug`] if they contradict each other.
pub(super) fn restore(plane: &mut PartitionPlane, sections: &mut [Section]) -> Result<()> {
    let (layout, value_bytes) = (plane.layout, plane.value_bytes);
    let current = plane.keys.current().0;
    let (_, mut rest) = behind_shape(sections, &shape_head(&layout, value_bytes), current)?;
    plane.turn = Turn { next: rest.u32()?, since: rest.u8()? };
    plane.uncounted = restore_uncounted(SectionReader(take(sections, UNCOUNTED)?))?;
    // 1. Values: of stashes, of what jobs took of them, and of what was under way.
    load_stash(value_bytes, sections, |block, value| {
        plane.values.insert(block, Bytes::copy_from_slice(value));
        Ok(())
    })?;
    let mut under_way = SectionReader(take(sections, UNDER_WAY)?);
    let mut ended = Vec::new();
    while !under_way.is_empty() {
        ended.push((under_way.u32()?, under_way.u32()?));
    }
    // 2. Partitions.
    let (mut records, mut blocks) = (Records::of(sections), 0);
    for partition in 0..layout.partitions {
        let mut pyramid = saved::read(&layout, &mut records.next()?)?;
        let positions = &mut plane.positions;
        let mut place = |block: &u32| {
            blocks += 1;
            let position = positions.get_mut(*block as usize).ok_or_else(inconsistent)?;
            *position = partition as u16;
            Ok::<_, Error>(())
        };
        // Most are here: there is nothing in this loop that would keep one from the next.
        for held in pyramid.levels.iter().flatten() {
            held.list().iter().try_for_each(&mut place)?;
        }
        pyramid.job.iter().flat_map(|job| job.planned()).try_for_each(|block| place(&block))?;
        pyramid.stash.iter().try_for_each(&mut place)?;
        // 3. What a stash lacks was too many for its job; what it does not lack of the job is from
        //    it.
        let has_value = |block: &u32| plane.values.contains_key(block);
        let lacking = pyramid.stash.iter().copied().filter(|block| !has_value(block));
        let lacking: Vec<u32> = lacking.collect();
        match &mut pyramid.job {
            None if !lacking.is_empty() => return Err(inconsistent()),
            None => {}
            Some(job) => {
                job.overflow = lacking;
                job.from_stash = job.planned().filter(has_value).collect();
            }
        }
        plane.pyramids[partition as usize] = pyramid;
    }
    for (block, to) in ended {
        let known = plane.positions.get_mut(block as usize).filter(|_| to < layout.partitions);
        *known.ok_or_else(inconsistent)? = to as u16;
        plane.pyramids[to as usize].stash.push_back(block);
        blocks += 1;
    }
    if blocks != layout.blocks {
        return Err(inconsistent());
    }
    plane.count_open();
    Ok(())
}

fn restore_uncounted(mut r: SectionReader<'_>) -> Result<std::collections::VecDeque<Effects>> {
    let records = r.u16()?;
    let mut effects = |_| {
        let (commits, orders) = (r.u16()?, r.u16()?);
        let mut commit = |_| {
            let (partition, until, version) = (r.u32()?, r.u64()?, r.u64()?);
            Ok(Commit { partition, until, version })
        };
        let commits = (0..commits).map(&mut commit).collect::<Result<_>>()?;
        let orders = (0..orders).map(|_| Ok(r.u32()?)).collect::<Result<_>>()?;
        Ok(Effects { commits, orders })
    };
    (0..records).map(&mut effects).collect()
}

fn shape_head(layout: &Layout, value_bytes: usize) -> SectionWriter {
    let mut head = shape(FORMAT, layout.blocks, value_bytes);
    head.u32(layout.partitions).u8(layout.levels).u16(layout.top_blocks).u8(layout.kept_levels);
    head
}
