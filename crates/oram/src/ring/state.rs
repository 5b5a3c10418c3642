//! The trusted state between epochs, as sections of a checkpoint, and back.
//!
//! All numbers are little-endian. Every `padded_len` is a function of the public configuration.
//!
//! | tag | section | bytes |
//! |---|---|---|
//! | 1, 2 | as for every engine (`checkpoint`), with Z, S, A, t, array; then tick, evictions, round | |
//! | 3 | every bucket: version, reads, blocks it was written with | 12 a bucket |
//! | 4 | every bucket: block ids or marks, unused ones zero | 4 Z a bucket |
//! | 256.. | stash, in pieces of up to 1 MiB: (block id, value), ids all ones where there is none | (4 + value bytes) * bound, over all |
//!
//! The sections of an epoch's delta have the tags 6 to 8 (`delta`).
//!
//! Orders of slots are not saved: they follow from key, place and version. Nor is where a block is:
//! that follows from section 4 and the stash.

use fogbank_durable::{SectionReader, SectionWriter, take};
use fogbank_seal::KeyRing;
use fogbank_store::ChunkName;
use rayon::prelude::*;

use super::RingEngine;
use super::bucket::{Bucket, NO_IMAGE, mark};
use super::plan::Planner;
use crate::checkpoint::{LEAF_BYTES, LEAVES, SHAPE, behind_shape, inconsistent, shape, unpadded};
use crate::geometry::{Geometry, opening_of, tick_of};
use crate::position::Location;
use crate::slab::Slab;
use crate::stash::{StashedBlock, load_stash, save_stash, stash_lengths};
use crate::{Error, Result, Section, Sections};

const BUCKETS: u16 = 3;
const REALS: u16 = 4;

/// Bytes of a bucket's head and of a block's mark in a checkpoint.
const BUCKET_BYTES: usize = 8 + 2 + 2;
const REAL_BYTES: usize = 4;

const FORMAT: u32 = 2;

/// Counters that a checkpoint carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counters {
    /// The opening that saved.
    pub opening: u32,
    pub tick: u64,
    pub evictions: u64,
    pub round: u32,
}

impl RingEngine {
    /// The sections of a checkpoint.
    pub(super) fn sections(&self) -> Result<Sections<'_>> {
        let (planner, slab) = (&self.planner, &self.slab);
        if !planner.images.is_empty() {
            return Err(Error::Caller("the state can be saved between epochs only".into()));
        }
        let counters = Counters {
            opening: self.keys.current().0,
            tick: self.tick,
            evictions: planner.evictions,
            round: planner.round,
        };
        let head = save_shape(&planner.geometry, self.settings.array, counters);
        let head = std::iter::once(Ok(unpadded(SHAPE, head)));
        let flat = [LEAVES, BUCKETS, REALS].into_iter().map(move |tag| {
            Ok(match tag {
                LEAVES => unpadded(LEAVES, planner.positions.save_leaves()),
                BUCKETS => unpadded(BUCKETS, save_buckets(planner)),
                _ => unpadded(REALS, save_reals(planner)),
            })
        });
        let pieces = save_stash(&planner.geometry, &planner.stash, slab);
        Ok(Box::new(head.chain(flat).chain(pieces)))
    }
}

/// The padded lengths of the sections of a checkpoint, in bytes, in their order.
pub fn checkpoint_lengths(geometry: &Geometry) -> Vec<usize> {
    let none = Counters { opening: 0, tick: 0, evictions: 0, round: 0 };
    let buckets = geometry.stored_buckets() as usize;
    let flat = [
        save_shape(geometry, 0, none).len(),
        LEAF_BYTES * geometry.capacity as usize,
        BUCKET_BYTES * buckets,
        REAL_BYTES * usize::from(geometry.bucket.reals) * buckets,
    ];
    flat.into_iter().chain(stash_lengths(geometry)).collect()
}

/// Puts the state of `sections` into a new engine's `planner` and `slab`.
pub(super) fn restore(
    planner: &mut Planner,
    slab: &mut Slab,
    keys: &KeyRing,
    array: u8,
    sections: &[Section],
) -> Result<Counters> {
    let counters = load_shape(&planner.geometry, array, sections, keys.current().0)?;
    planner.evictions = counters.evictions;
    planner.round = counters.round;
    let leaves = planner.geometry.tree.leaves();
    planner.positions.load_leaves(take(sections, LEAVES)?, leaves)?;
    load_buckets(planner, take(sections, BUCKETS)?, take(sections, REALS)?)?;
    let geometry = planner.geometry;
    load_stash(geometry.value_bytes, sections, |block, value| {
        let leaf = mapped_leaf(planner, block)?;
        let payload = planner.handles.claim();
        slab.fill(payload, block, value);
        planner.hold(StashedBlock { block, leaf, payload });
        Ok(())
    })?;
    restore_orders(planner, keys)?;
    Ok(counters)
}

fn save_shape(geometry: &Geometry, array: u8, counters: Counters) -> Vec<u8> {
    let mut data = shape_head(geometry, array);
    data.u32(counters.opening).u64(counters.tick).u64(counters.evictions).u32(counters.round);
    data.0
}

fn shape_head(geometry: &Geometry, array: u8) -> SectionWriter {
    let mut data = shape(FORMAT, geometry.capacity, geometry.value_bytes);
    let bucket = geometry.bucket;
    data.u16(bucket.reals).u16(bucket.dummies).u16(bucket.evict_every);
    data.u8(geometry.cached_levels).u8(array);
    data
}

fn load_shape(
    geometry: &Geometry,
    array: u8,
    sections: &[Section],
    current: u32,
) -> Result<Counters> {
    let (opening, mut rest) = behind_shape(sections, &shape_head(geometry, array), current)?;
    let counters =
        Counters { opening, tick: rest.u64()?, evictions: rest.u64()?, round: rest.u32()? };
    let sound = counters.round < u32::from(geometry.bucket.evict_every);
    if sound { Ok(counters) } else { Err(inconsistent()) }
}

fn save_buckets(planner: &Planner) -> Vec<u8> {
    let mut data = SectionWriter(Vec::with_capacity(planner.buckets.len() as usize * BUCKET_BYTES));
    for chunk in 0..planner.buckets.len() {
        let head = planner.buckets.head(chunk);
        data.u64(head.version).u16(head.reads).u16(head.held);
    }
    data.0
}

fn save_reals(planner: &Planner) -> Vec<u8> {
    let reals = usize::from(planner.geometry.bucket.reals);
    let mut data = Vec::with_capacity(planner.buckets.len() as usize * reals * REAL_BYTES);
    for chunk in 0..planner.buckets.len() {
        let held = usize::from(planner.buckets.head(chunk).held);
        let (used, unused) = planner.buckets.reals(chunk).split_at(held);
        data.extend(used.iter().flat_map(|real| real.to_le_bytes()));
        data.extend(unused.iter().flat_map(|_| [0; 4]));
    }
    data
}

fn load_buckets(planner: &mut Planner, heads: &[u8], reals: &[u8]) -> Result<()> {
    let (mut heads, mut reals) = (SectionReader(heads), SectionReader(reals));
    let bucket = planner.geometry.bucket;
    for chunk in 0..planner.buckets.len() {
        let (version, reads, held) = (heads.u64()?, heads.u16()?, heads.u16()?);
        if reads > bucket.dummies || held > bucket.reals {
            return Err(inconsistent());
        }
        let mut taken = 0;
        for index in 0..bucket.reals {
            let real = reals.u32()?;
            if index < held {
                taken += u16::from(real == mark::TAKEN);
                load_real(planner, chunk, index, real)?;
            }
        }
        let next_dummy = (held + reads).checked_sub(taken).ok_or_else(inconsistent)?;
        *planner.buckets.head_mut(chunk) =
            Bucket { version, image: NO_IMAGE, reads, held, next_dummy };
    }
    Ok(())
}

fn load_real(planner: &mut Planner, chunk: u32, index: u16, real: u32) -> Result<()> {
    if real != mark::TAKEN && real != mark::STALE {
        let level = planner.geometry.level_of(chunk);
        let leaf = mapped_leaf(planner, real)?;
        if planner.geometry.chunk(level, leaf) != chunk {
            return Err(inconsistent());
        }
        planner.positions.set_location(real, Location::Bucket { level, index });
    }
    planner.buckets.reals_mut(chunk)[usize::from(index)] = real;
    Ok(())
}

fn mapped_leaf(planner: &Planner, block: u32) -> Result<u32> {
    let known = block < planner.geometry.capacity;
    known.then(|| planner.positions.leaf(block)).flatten().ok_or_else(inconsistent)
}

/// Draws the order of every written bucket again, each with the keys of its opening.
fn restore_orders(planner: &mut Planner, keys: &KeyRing) -> Result<()> {
    let array = planner.array;
    let mut buckets: Vec<_> = planner.buckets.orders_mut().enumerate().collect();
    let all_known = buckets.par_iter_mut().all(|(chunk, (head, order))| {
        let name = ChunkName { array, chunk: *chunk as u32, version: head.version };
        match keys.of(opening_of(&name)) {
            Some(keys) => {
                keys.permutation().order(array.0 as u8, name.chunk, tick_of(&name), order);
                true
            }
            None => head.version == 0,
        }
    });
    if all_known { Ok(()) } else { Err(inconsistent()) }
}
