//! Stash and cached top in a checkpoint: sections of one size, whatever they hold.
//!
//! A piece of the stash costs the same work whether it holds blocks or none, and is small enough that
//! it is made within the room before a message: how many blocks the stash holds tells how much was
//! accessed of late.

use fogbank_durable::{SectionReader, SectionWriter, take};

use super::{Stash, StashedBlock};
use crate::checkpoint::unpadded;
use crate::geometry::{BLOCK_ID_BYTES, Geometry};
use crate::slab::Slab;
use crate::{Result, Section};

/// The first piece.
const STASH: u16 = 0x100;
const STASH_PIECE_BYTES: usize = 1 << 20;
/// Pieces of it, at most: their tags stay below those of others.
const STASH_PIECES_MAX: usize = 0x1000;
/// Stands for no block.
const NONE: u32 = u32::MAX;

/// A piece of the stash.
#[derive(Debug, Clone, Copy)]
struct StashPiece {
    tag: u16,
    /// Blocks that it has room for.
    blocks: usize,
    is_last: bool,
}

/// The sections of a stash, each made when it is asked for.
pub fn save_stash<'a>(
    geometry: &'a Geometry,
    stash: &'a Stash,
    slab: &'a Slab,
) -> impl Iterator<Item = fogbank_durable::Result<Section>> + Send + 'a {
    let mut held = stash.iter();
    stash_pieces(geometry).map(move |piece| save_stash_piece(geometry, &mut held, slab, piece))
}

/// The padded lengths of the sections of a stash, in bytes.
pub fn stash_lengths(geometry: &Geometry) -> impl Iterator<Item = usize> + use<> {
    let block_bytes = stash_block_bytes(geometry);
    stash_pieces(geometry).map(move |piece| piece.blocks * block_bytes)
}

/// Hands every block of a saved stash to `into`, with its value. As many pieces are taken as there are: the
/// bound may have been another when they were written.
///
/// # Errors
/// [`crate::Error::Bug`] if there is none or one is torn; whatever `into` returns.
pub fn load_stash(
    geometry: &Geometry,
    sections: &[Section],
    mut into: impl FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    take(sections, STASH)?;
    let tags = STASH..STASH + STASH_PIECES_MAX as u16;
    for piece in sections.iter().filter(|section| tags.contains(&section.tag)) {
        let mut data = SectionReader(&piece.data);
        while !data.is_empty() {
            let block = data.u32()?;
            let value = data.raw(geometry.value_bytes)?;
            if block != NONE {
                into(block, value)?;
            }
        }
    }
    Ok(())
}

fn stash_block_bytes(geometry: &Geometry) -> usize {
    4 + geometry.value_bytes
}

fn stash_pieces(geometry: &Geometry) -> impl Iterator<Item = StashPiece> + use<> {
    let bound = geometry.stash_blocks_max() as usize;
    let each = STASH_PIECE_BYTES / stash_block_bytes(geometry);
    let each = each.max(bound.div_ceil(STASH_PIECES_MAX)).max(1);
    (0..bound.div_ceil(each)).zip(STASH..).map(move |(index, tag)| {
        let left = bound - index * each;
        StashPiece { tag, blocks: left.min(each), is_last: left <= each }
    })
}

fn save_stash_piece<'a>(
    geometry: &Geometry,
    held: &mut impl Iterator<Item = &'a StashedBlock>,
    slab: &Slab,
    piece: StashPiece,
) -> fogbank_durable::Result<Section> {
    let nothing = vec![0; geometry.value_bytes];
    let mut data = SectionWriter(Vec::with_capacity(piece.blocks * stash_block_bytes(geometry)));
    for _ in 0..piece.blocks {
        let Some(held) = held.next() else {
            data.u32(NONE).raw(&nothing);
            continue;
        };
        let Some(value) = slab.get(held.payload).get(BLOCK_ID_BYTES..) else {
            return Err(fogbank_durable::Error::Bug("a block of the stash has no payload".into()));
        };
        data.u32(held.block).raw(value);
    }
    if piece.is_last && held.next().is_some() {
        return Err(fogbank_durable::Error::Bug("the stash is above its bound".into()));
    }
    Ok(unpadded(piece.tag, data.0))
}
