//! The trusted state at a cut, as sections of a checkpoint, and back.
//!
//! A cut is made between any two records. What it has to be is the state in which all accesses cut
//! before it have ended, and none after it:
//!
//! 1. At the cut: counters, positions, levels, open jobs with their plans as they are now. A block
//!    under way goes to the stash to which the last access before the cut sends it. The values in
//!    stashes, and of what open jobs took from them, are held.
//! 2. When the last access before the cut has ended, and none after it: the values of what was under
//!    way. Now the checkpoint can be written.
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
//! | 2 | of every block: partition, level (all ones: stash; first bit: to be written by a job), rank | 7 N |
//! | 3 | of every partition: orders carried out; of those that count, those given and those of its job, how many more; of every stored level: generation (0: not filled), ranks live, next dummy, that when it fell due, cells asked for, what its quota lacks (all ones: all), ranks that a job plans; bits of the ranks that have left, and of those read of its quota | |
//! | 4 | of every record under way: how many commits and orders, and these | padded |
//! | 256.. | stashes, partition by partition, the oldest first, then what jobs took, then what was under way (`stash/saved`) | (4 + value bytes) * bound, over all |

use bytes::Bytes;
use fogbank_durable::{SectionReader, SectionWriter, take};
use hashbrown::HashMap;

use super::job::{Destination, Job};
use super::journal::Commit;
use super::layout::Layout;
use super::level::{HOLE, Level, Saved};
use super::orders::Effects;
use super::plane::PartitionPlane;
use super::pyramid::Pyramid;
use super::settings::PartitionSettings;
use crate::checkpoint::{SHAPE, behind_shape, inconsistent, shape, unpadded};
use crate::immediate::sequencer::Number;
use crate::position::Home;
use crate::stash::{SavedStash, load_stash};
use crate::{Error, Result, Section};

const POSITIONS: u16 = 2;
const PARTITIONS: u16 = 3;
const UNCOUNTED: u16 = 4;
const FORMAT: u32 = 2;

const POSITION_BYTES: usize = 4 + 1 + 2;
const PARTITION_BYTES: usize = 8 + 3 * 4;
const LEVEL_BYTES: usize = 8 + 6 * 2;
const COMMIT_BYTES: usize = 4 + 8 + 8;
/// Stands for the level of a block in a stash.
const IN_STASH: u8 = u8::MAX;
/// Set in the level of a block in a job.
const IN_JOB: u8 = 0x80;
/// Stands for a quota of which nothing was read.
const ALL: u16 = u16::MAX;

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
    /// The sections of the values.
    pub fn sections(self) -> impl Iterator<Item = fogbank_durable::Result<Section>> + Send {
        // More than the bound is designed not to happen; then it is a multiple, and nothing is lost.
        let bound = self.saved.bound * self.held.len().div_ceil(self.saved.bound).max(1);
        let held = self.held.into_iter().map(|(block, value)| (block, Some(value)));
        SavedStash { bound, ..self.saved }.save(held)
    }
}

/// A job has stored `block`, whose `value` leaves the memory: a cut may still want it. No access behind
/// the cut has ended, so it is the value at the cut.
pub(super) fn hold_for_cut(cutting: &mut Option<Cutting>, block: u32, value: Option<Bytes>) {
    let Some(cutting) = cutting.as_mut().filter(|cutting| !cutting.is_whole) else { return };
    let waits = cutting.under_way.iter().position(|waits| *waits == block);
    if let Some((at, value)) = waits.zip(value) {
        cutting.under_way.swap_remove(at);
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
    let levels: usize = layout.stored_levels().map(|l| level_bytes(&layout, l)).sum();
    let flat = [
        shape_head(&layout, value_bytes).0.len() + 4 + 4 + 1,
        POSITION_BYTES * layout.blocks as usize,
        layout.partitions as usize * (PARTITION_BYTES + levels),
        settings.uncounted_bytes(),
    ];
    let stash = SavedStash { bound: settings.saved_blocks_max(), value_bytes };
    flat.into_iter().chain(stash.lengths()).collect()
}

impl PartitionSettings {
    pub(super) fn uncounted_bytes(&self) -> usize {
        let (records, commits, orders) = self.uncounted_max();
        2 + records * 4 + commits * COMMIT_BYTES + orders * 4
    }
}

fn level_bytes(layout: &Layout, level: u8) -> usize {
    LEVEL_BYTES + 2 * usize::from(layout.room(level)).div_ceil(8)
}

/// A cut: the sections of the state as it is now, but for values, which are noted.
///
/// # Errors
/// [`Error::Bug`] if it is none that can be saved.
pub(super) fn save(plane: &mut PartitionPlane) -> Result<Vec<Section>> {
    let mut head = shape_head(&plane.layout, plane.value_bytes);
    head.u32(plane.keys.current().0).u32(plane.turn.0).u8(plane.turn.1);
    // 1. What is under way goes where its last access sends it.
    let mut goes_to = HashMap::new();
    let (mut order, accesses) = (Vec::new(), plane.accesses.iter());
    for (block, to) in accesses.filter_map(|access| Some((access.block?, access.to))) {
        if goes_to.insert(block, to).is_none() {
            order.push(block);
        }
    }
    let sections = vec![
        unpadded(SHAPE, head.0),
        unpadded(POSITIONS, save_positions(plane, &goes_to)?),
        unpadded(PARTITIONS, save_partitions(plane)),
        save_uncounted(plane),
    ];
    // 2. Values of stashes, but for what comes with the cells of jobs; and of what jobs took of them.
    let mut held = Vec::new();
    let mut hold = |block: u32| {
        let value = plane.values.get(&block).cloned();
        held.push((block, value.ok_or_else(|| Error::Bug("a stash lacks a value".into()))?));
        Ok::<_, Error>(())
    };
    for pyramid in &plane.pyramids {
        let comes = |block: &u32| !pyramid.job.as_ref().is_some_and(|j| j.overflow.contains(block));
        pyramid.stash.iter().copied().filter(comes).try_for_each(&mut hold)?;
    }
    for (partition, pyramid) in (0..).zip(&plane.pyramids) {
        let taken = pyramid.job.iter().flat_map(|job| &job.from_stash).copied();
        let is_there = |block: &u32| {
            let (at, home) = plane.positions.get(*block);
            at == partition && matches!(home, Home::Job { .. })
        };
        taken.filter(is_there).try_for_each(&mut hold)?;
    }
    let until = plane.first + plane.accesses.len() as u64;
    let saved = SavedStash { bound: plane.saved_blocks_max, value_bytes: plane.value_bytes };
    plane.cutting = Some(Cutting { until, under_way: order, held, is_whole: false, saved });
    Ok(sections)
}

fn save_positions(plane: &PartitionPlane, goes_to: &HashMap<u32, u32>) -> Result<Vec<u8>> {
    let mut positions = SectionWriter::default();
    for block in 0..plane.layout.blocks {
        let (partition, home) = plane.positions.get(block);
        let (partition, level, rank) = match home {
            Home::Level { level, rank } => (partition, level, rank),
            Home::Job { level, rank } => (partition, level | IN_JOB, rank),
            Home::Stash => (partition, IN_STASH, 0),
            Home::UnderWay => {
                let to = goes_to.get(&block).copied();
                (to.ok_or_else(|| Error::Bug("nobody asks for a block".into()))?, IN_STASH, 0)
            }
        };
        positions.u32(partition).u8(level).u16(rank);
    }
    Ok(positions.0)
}

fn save_partitions(plane: &PartitionPlane) -> Vec<u8> {
    let (layout, mut out) = (plane.layout, SectionWriter::default());
    for pyramid in &plane.pyramids {
        let beyond = |orders: u64| (orders - pyramid.done) as u32;
        let of_job = pyramid.job.as_ref().map_or(0, |job| beyond(job.until));
        out.u64(pyramid.done).u32(beyond(pyramid.sure)).u32(beyond(pyramid.given)).u32(of_job);
        for level in layout.stored_levels() {
            let end = out.0.len() + level_bytes(&layout, level);
            let planned = pyramid.job.iter().flat_map(|job| &job.destinations);
            let planned = planned.filter(|to| to.level == level).map(|to| to.plan.len() as u16);
            let planned = planned.sum();
            match &pyramid.levels[usize::from(level)] {
                None => _ = out.u64(0).raw(&[0; LEVEL_BYTES - 8 - 2]).u16(planned),
                Some(held) => {
                    let saved = held.save(layout.room(level));
                    out.u64(held.version).u16(saved.live).u16(saved.next_dummy);
                    out.u16(saved.first_dummy).u16(saved.asked).u16(saved.left.unwrap_or(ALL));
                    out.u16(planned).raw(&saved.gone).raw(&saved.due_reads);
                }
            }
            out.0.resize(end, 0);
        }
    }
    out.0
}

fn save_uncounted(plane: &PartitionPlane) -> Section {
    let mut out = SectionWriter::default();
    out.u16(plane.uncounted.len() as u16);
    for Effects { commits, orders } in &plane.uncounted {
        out.u16(commits.len() as u16).u16(orders.len() as u16);
        for Commit { partition, until, version } in commits {
            out.u32(*partition).u64(*until).u64(*version);
        }
        orders.iter().for_each(|partition| _ = out.u32(*partition));
    }
    let padded_len = plane.uncounted_bytes.max(out.0.len());
    Section { tag: UNCOUNTED, padded_len, data: out.0 }
}

/// Blocks of a partition by level and rank.
type Ranked = Vec<Vec<(u16, u32)>>;

/// Puts the state of `sections` into an empty `plane`. Values that stand in cells of quotas are
/// lacking.
///
/// # Errors
/// [`Error::Caller`] if they are of another store, [`Error::Bug`] if they contradict each other.
pub(super) fn restore(plane: &mut PartitionPlane, sections: &[Section]) -> Result<()> {
    let (layout, value_bytes) = (plane.layout, plane.value_bytes);
    let current = plane.keys.current().0;
    let (_, mut rest) = behind_shape(sections, &shape_head(&layout, value_bytes), current)?;
    plane.turn = (rest.u32()?, rest.u8()?);
    // 1. Blocks by level and rank, and those in stashes.
    let empty = || vec![vec![Vec::new(); layout.levels.into()]; layout.partitions as usize];
    let (mut live, mut planned): (Vec<Ranked>, Vec<Ranked>) = (empty(), empty());
    let mut stashed = Vec::new();
    let mut positions = SectionReader(take(sections, POSITIONS)?);
    for block in 0..layout.blocks {
        let (partition, level, rank) = (positions.u32()?, positions.u8()?, positions.u16()?);
        if level == IN_STASH {
            plane.positions.set(block, partition, Home::Stash);
            stashed.push(block);
            continue;
        }
        let (ranked, home, level) = match level & IN_JOB {
            0 => (&mut live, Home::Level { level, rank }, level),
            _ => {
                let level = level & !IN_JOB;
                (&mut planned, Home::Job { level, rank }, level)
            }
        };
        let of_partition = ranked.get_mut(partition as usize);
        let of_level = of_partition.and_then(|levels| levels.get_mut(usize::from(level)));
        of_level.ok_or_else(inconsistent)?.push((rank, block));
        plane.positions.set(block, partition, home);
    }
    // 2. Counters, levels and jobs.
    let mut partitions = SectionReader(take(sections, PARTITIONS)?);
    for (pyramid, blocks) in plane.pyramids.iter_mut().zip(live.iter().zip(&planned)) {
        *pyramid = restore_partition(&layout, &mut partitions, blocks)?;
    }
    plane.uncounted = restore_uncounted(SectionReader(take(sections, UNCOUNTED)?))?;
    // 3. Values: of stashes, and of what jobs took of them.
    load_stash(value_bytes, sections, |block, value| {
        let known = (block < layout.blocks).then(|| plane.positions.get(block));
        let (partition, home) = known.ok_or_else(inconsistent)?;
        let pyramid = plane.pyramids.get_mut(partition as usize).ok_or_else(inconsistent)?;
        match (home, &mut pyramid.job) {
            (Home::Stash, _) => pyramid.stash.push_back(block),
            (Home::Job { .. }, Some(job)) => job.from_stash.push(block),
            _ => return Err(inconsistent()),
        }
        plane.values.insert(block, Bytes::copy_from_slice(value));
        Ok(())
    })?;
    for block in stashed.into_iter().filter(|block| !plane.values.contains_key(block)) {
        let pyramid = &mut plane.pyramids[plane.positions.get(block).0 as usize];
        pyramid.job.as_mut().ok_or_else(inconsistent)?.overflow.push(block);
        pyramid.stash.push_back(block);
    }
    plane.count_open();
    Ok(())
}

fn restore_partition(
    layout: &Layout,
    r: &mut SectionReader<'_>,
    (live, planned): (&Ranked, &Ranked),
) -> Result<Pyramid> {
    let done = r.u64()?;
    let mut pyramid = Pyramid::new(layout, done);
    let [sure, given, of_job] = [r.u32()?, r.u32()?, r.u32()?].map(u64::from);
    (pyramid.sure, pyramid.given) = (done + sure, done + given);
    let written = match of_job {
        0 => Vec::new(),
        _ => layout.destinations(done + of_job, done),
    };
    let mut destinations = Vec::with_capacity(written.len());
    for level in layout.stored_levels() {
        let room = layout.room(level);
        let bits = usize::from(room).div_ceil(8);
        let version = r.u64()?;
        let [live_ranks, next_dummy, first_dummy] = [r.u16()?, r.u16()?, r.u16()?];
        let [asked, left, plan] = [r.u16()?, r.u16()?, r.u16()?];
        let (gone, due_reads) = (r.raw(bits)?.to_vec(), r.raw(bits)?.to_vec());
        if live_ranks > room || plan > room {
            return Err(inconsistent());
        }
        if written.contains(&level) {
            let plan = by_rank(plan, &planned[usize::from(level)])?;
            destinations.push(Destination { level, plan });
        }
        if version != 0 {
            let left = (left != ALL).then_some(left);
            let saved =
                Saved { live: live_ranks, next_dummy, first_dummy, asked, left, gone, due_reads };
            let slots = by_rank(live_ranks, &live[usize::from(level)])?;
            let held = Level::saved(version, layout.cells(level), slots, &saved);
            pyramid.levels[usize::from(level)] = Some(held);
        }
    }
    pyramid.job = (of_job > 0).then(|| Job::saved(done + of_job, layout, done, destinations));
    Ok(pyramid)
}

fn by_rank(ranks: u16, blocks: &[(u16, u32)]) -> Result<Vec<u32>> {
    let mut slots = vec![HOLE; ranks.into()];
    for (rank, block) in blocks {
        *slots.get_mut(usize::from(*rank)).ok_or_else(inconsistent)? = *block;
    }
    Ok(slots)
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
