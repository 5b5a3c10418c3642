//! The trusted state at a cut, as sections of a checkpoint, and back.
//!
//! A cut is made when no path is under way and everything flushed has been handed to a write-back,
//! so the subtree is what the cloud will hold once those are acknowledged: its buckets are named by
//! the versions that were sent, and nothing of them stands in the checkpoint.
//!
//! All numbers are little-endian. Every `padded_len` is a function of the public configuration.
//!
//! | tag | section | bytes |
//! |---|---|---|
//! | 1, 2 | as for every engine (`checkpoint`), with Z, t, array | |
//! | 3 | every stored bucket: its version | 8 a bucket |
//! | 256.. | stash and cached top, as for every engine (`stash/saved`) | (4 + value bytes) * bound, over all |

use fogbank_durable::{SectionReader, SectionWriter, take};

use super::processor::Processor;
use crate::checkpoint::{LEAF_BYTES, LEAVES, SHAPE, behind_shape, inconsistent, shape, unpadded};
use crate::geometry::{Geometry, opening_of, version};
use crate::stash::{StashedBlock, load_stash, save_stash, stash_lengths};
use crate::{Error, Result, Section};

const VERSIONS: u16 = 3;

const VERSION_BYTES: usize = 8;
const FORMAT: u32 = 1;

/// The padded lengths of the sections of a checkpoint, in bytes, in their order.
pub fn checkpoint_lengths(geometry: &Geometry) -> Vec<usize> {
    let flat = [
        shape_head(geometry, 0).0.len() + 4,
        LEAF_BYTES * geometry.capacity as usize,
        VERSION_BYTES * geometry.stored_buckets() as usize,
    ];
    flat.into_iter().chain(stash_lengths(geometry)).collect()
}

/// The sections of a checkpoint of the state as it is now, all in memory: what follows changes it.
pub(super) fn save(state: &Processor) -> Result<Vec<Section>> {
    if !state.write_queue.is_empty() {
        return Err(Error::Bug("a checkpoint of what was not handed to a write-back".into()));
    }
    let mut head = shape_head(&state.geometry, state.array.0 as u8);
    head.u32(state.opening);
    let mut sections = vec![
        unpadded(SHAPE, head.0),
        unpadded(LEAVES, state.positions.save_leaves()),
        unpadded(VERSIONS, save_versions(state)),
    ];
    for piece in save_stash(&state.geometry, &state.stash, &state.slab) {
        sections.push(piece?);
    }
    Ok(sections)
}

/// Puts the state of `sections` into an empty `state`.
pub(super) fn restore(state: &mut Processor, current: u32, sections: &[Section]) -> Result<()> {
    let geometry = state.geometry;
    behind_shape(sections, &shape_head(&geometry, state.array.0 as u8), current)?;
    state.positions.load_leaves(take(sections, LEAVES)?, geometry.tree.leaves())?;
    let mut versions = SectionReader(take(sections, VERSIONS)?);
    for (chunk, version) in (0..).zip(&mut state.versions) {
        *version = versions.u64()?;
        let name = fogbank_store::ChunkName { array: state.array, chunk, version: *version };
        if opening_of(&name) >= current {
            return Err(inconsistent());
        }
    }
    load_stash(geometry.value_bytes, sections, |block, value| {
        let known = block < geometry.capacity;
        let leaf = known.then(|| state.positions.leaf(block)).flatten().ok_or_else(inconsistent)?;
        let payload = state.handles.claim();
        state.slab.fill(payload, block, value);
        state.stash.push(StashedBlock { block, leaf, payload });
        Ok(())
    })
}

fn save_versions(state: &Processor) -> Vec<u8> {
    let mut versions = state.versions.clone();
    for (chunk, node) in state.subtree.iter().filter(|(_, node)| node.sent != 0) {
        let known = &mut versions[chunk as usize];
        *known = (*known).max(version(state.opening, node.sent));
    }
    versions.iter().flat_map(|version| version.to_le_bytes()).collect()
}

fn shape_head(geometry: &Geometry, array: u8) -> SectionWriter {
    let mut head = shape(FORMAT, geometry.capacity, geometry.value_bytes);
    head.u16(geometry.bucket.reals).u8(geometry.cached_levels).u8(array);
    head
}
