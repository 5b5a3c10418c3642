//! The trusted state at a cut, as sections of a checkpoint, and back.
//!
//! A cut is made when no access is under way and all orders are carried out, so no job is open and no
//! level is due.
//!
//! All numbers are little-endian. Every `padded_len` is a function of the public configuration.
//!
//! | tag | section | bytes |
//! |---|---|---|
//! | 1 | as for every engine (`checkpoint`), with P, L, C, c0; the turn | |
//! | 2 | of every block: partition, level (all ones: stash), rank | 7 N |
//! | 3 | of every partition: orders carried out; of every stored level: generation (0: not filled), live ranks, next dummy, cells asked for, a bit for each rank whose block has left | |
//! | 256.. | the stashes, partition by partition, the oldest first (`stash/saved`) | (4 + value bytes) * bound, over all |

use bytes::Bytes;
use fogbank_durable::{SectionReader, SectionWriter, take};

use super::layout::Layout;
use super::level::{HOLE, Level, Saved};
use super::plane::PartitionPlane;
use super::position::Home;
use super::pyramid::Pyramid;
use super::settings::PartitionSettings;
use crate::checkpoint::{SHAPE, behind_shape, inconsistent, shape, unpadded};
use crate::stash::{SavedStash, load_stash};
use crate::{Error, Result, Section};

const POSITIONS: u16 = 2;
const PARTITIONS: u16 = 3;
const FORMAT: u32 = 1;

const POSITION_BYTES: usize = 4 + 1 + 2;
const LEVEL_BYTES: usize = 8 + 2 + 2 + 2;
/// Stands for the level of a block in a stash.
const IN_STASH: u8 = u8::MAX;

/// The padded lengths of the sections of a checkpoint, in bytes, in their order.
pub fn checkpoint_lengths(settings: &PartitionSettings) -> Vec<usize> {
    let (layout, value_bytes) = (settings.layout, settings.shell.shape.value_bytes);
    let levels = layout.stored_levels();
    let levels = levels.map(|l| LEVEL_BYTES + usize::from(layout.room(l)).div_ceil(8));
    let flat = [
        shape_head(&layout, value_bytes).0.len() + 4 + 4 + 1,
        POSITION_BYTES * layout.blocks as usize,
        layout.partitions as usize * (8 + levels.sum::<usize>()),
    ];
    let stash = SavedStash { bound: layout.stash_blocks_max(), value_bytes };
    flat.into_iter().chain(stash.lengths()).collect()
}

/// The sections of a checkpoint of the state as it is now.
///
/// # Errors
/// [`Error::Bug`] if it is none that can be saved.
pub(super) fn save(plane: &PartitionPlane) -> Result<Vec<Section>> {
    let (layout, value_bytes) = (plane.layout, plane.value_bytes);
    let mut head = shape_head(&layout, value_bytes);
    head.u32(plane.keys.current().0).u32(plane.turn.0).u8(plane.turn.1);
    let mut positions = SectionWriter::default();
    for block in 0..layout.blocks {
        let (partition, home) = plane.positions.get(block);
        let (level, rank) = match home {
            Home::Level { level, rank } => (level, rank),
            Home::Stash => (IN_STASH, 0),
            Home::Job { .. } | Home::UnderWay => {
                return Err(Error::Bug("a cut while something is under way".into()));
            }
        };
        positions.u32(partition).u8(level).u16(rank);
    }
    let mut partitions = SectionWriter::default();
    for pyramid in &plane.pyramids {
        partitions.u64(pyramid.done);
        for level in layout.stored_levels() {
            let room = layout.room(level);
            match &pyramid.levels[usize::from(level)] {
                None => {
                    let length = LEVEL_BYTES + usize::from(room).div_ceil(8);
                    partitions.0.resize(partitions.0.len() + length, 0);
                }
                Some(held) => {
                    let (live, next_dummy, asked, left) = held.save(room);
                    partitions.u64(held.version).u16(live).u16(next_dummy).u16(asked).raw(&left);
                }
            }
        }
    }
    let mut sections = vec![
        unpadded(SHAPE, head.0),
        unpadded(POSITIONS, positions.0),
        unpadded(PARTITIONS, partitions.0),
    ];
    let stashed = plane.pyramids.iter().flat_map(|pyramid| &pyramid.stash);
    let stashed: Vec<u32> = stashed.copied().collect();
    let held =
        stashed.iter().map(|block| (*block, plane.values.get(block).map(|value| &value[..])));
    // More than the bound is designed not to happen; then it is a multiple, and nothing is lost.
    let bound = layout.stash_blocks_max();
    let bound = bound * stashed.len().div_ceil(bound).max(1);
    for piece in (SavedStash { bound, value_bytes }).save(held) {
        sections.push(piece?);
    }
    Ok(sections)
}

/// Puts the state of `sections` into an empty `plane`.
///
/// # Errors
/// [`Error::Caller`] if they are of another store, [`Error::Bug`] if they contradict each other.
pub(super) fn restore(plane: &mut PartitionPlane, sections: &[Section]) -> Result<()> {
    let (layout, value_bytes) = (plane.layout, plane.value_bytes);
    let current = plane.keys.current().0;
    let (_, mut rest) = behind_shape(sections, &shape_head(&layout, value_bytes), current)?;
    plane.turn = (rest.u32()?, rest.u8()?);
    // 1. Live blocks by level and rank.
    let mut live = vec![vec![Vec::new(); layout.levels.into()]; layout.partitions as usize];
    let mut positions = SectionReader(take(sections, POSITIONS)?);
    for block in 0..layout.blocks {
        let (partition, level, rank) = (positions.u32()?, positions.u8()?, positions.u16()?);
        if level == IN_STASH {
            plane.positions.set(block, partition, Home::Stash);
            continue;
        }
        let of_level: Option<&mut Vec<(u16, u32)>> =
            live.get_mut(partition as usize).and_then(|live| live.get_mut(usize::from(level)));
        of_level.ok_or_else(inconsistent)?.push((rank, block));
        plane.positions.set(block, partition, Home::Level { level, rank });
    }
    // 2. Levels.
    let mut partitions = SectionReader(take(sections, PARTITIONS)?);
    for (pyramid, live) in plane.pyramids.iter_mut().zip(live) {
        *pyramid = Pyramid::new(&layout, partitions.u64()?);
        for level in layout.stored_levels() {
            let (version, length) = (partitions.u64()?, partitions.u16()?);
            let (next_dummy, asked) = (partitions.u16()?, partitions.u16()?);
            let room = layout.room(level);
            let left = partitions.raw(usize::from(room).div_ceil(8))?;
            if version == 0 {
                continue;
            }
            if length > room {
                return Err(inconsistent());
            }
            let mut slots = vec![HOLE; length.into()];
            for (rank, block) in &live[usize::from(level)] {
                *slots.get_mut(usize::from(*rank)).ok_or_else(inconsistent)? = *block;
            }
            let saved = Saved { next_dummy, asked, left };
            let held = Level::saved(version, layout.cells(level), slots, saved);
            pyramid.levels[usize::from(level)] = Some(held);
        }
    }
    // 3. Stashes.
    load_stash(value_bytes, sections, |block, value| {
        let known = (block < layout.blocks).then(|| plane.positions.get(block));
        let Some((partition, Home::Stash)) = known else { return Err(inconsistent()) };
        let pyramid = plane.pyramids.get_mut(partition as usize).ok_or_else(inconsistent)?;
        pyramid.stash.push_back(block);
        plane.values.insert(block, Bytes::copy_from_slice(value));
        Ok(())
    })
}

fn shape_head(layout: &Layout, value_bytes: usize) -> SectionWriter {
    let mut head = shape(FORMAT, layout.blocks, value_bytes);
    head.u32(layout.partitions).u8(layout.levels).u16(layout.top_blocks).u8(layout.kept_levels);
    head
}
