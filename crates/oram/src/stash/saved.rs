//! Stash and cached top in a checkpoint: sections of one size, whatever they hold.
//!
//! A piece of the stash costs the same work whether it holds blocks or none, and is small enough
//! that it is made within the room before a message: how many blocks the stash holds tells how much
//! was accessed of late.

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

/// The public size of a saved stash.
#[derive(Debug, Clone, Copy)]
pub struct SavedStash {
    /// Blocks that it has room for.
    pub bound: usize,
    /// Bytes of each.
    pub value_bytes: usize,
}

/// The sections of the stash of a tree, each made when it is asked for.
pub fn save_stash<'a>(
    geometry: &Geometry,
    stash: &'a Stash,
    slab: &'a Slab,
) -> impl Iterator<Item = fogbank_durable::Result<Section>> + Send + use<'a> {
    let value = |held: &StashedBlock| slab.get(held.payload).get(BLOCK_ID_BYTES..);
    SavedStash::of(geometry).save(stash.iter().map(move |held| (held.block, value(held))))
}

/// The padded lengths of the sections of the stash of a tree, in bytes.
pub fn stash_lengths(geometry: &Geometry) -> impl Iterator<Item = usize> + use<> {
    SavedStash::of(geometry).lengths()
}

impl SavedStash {
    fn of(geometry: &Geometry) -> Self {
        let bound = geometry.stash_blocks_max() as usize;
        Self { bound, value_bytes: geometry.value_bytes }
    }

    /// The sections of what is `held`: blocks with their values, which have to be there.
    pub fn save<V: AsRef<[u8]>>(
        self,
        mut held: impl Iterator<Item = (u32, Option<V>)> + Send,
    ) -> impl Iterator<Item = fogbank_durable::Result<Section>> + Send {
        self.pieces().map(move |piece| self.save_piece(&mut held, piece))
    }

    /// The padded lengths of the sections, in bytes.
    pub fn lengths(self) -> impl Iterator<Item = usize> {
        self.pieces().map(move |piece| piece.blocks * self.block_bytes())
    }

    fn block_bytes(self) -> usize {
        4 + self.value_bytes
    }

    fn pieces(self) -> impl Iterator<Item = StashPiece> {
        let bound = self.bound;
        let each = STASH_PIECE_BYTES / self.block_bytes();
        let each = each.max(bound.div_ceil(STASH_PIECES_MAX)).max(1);
        (0..bound.div_ceil(each)).zip(STASH..).map(move |(index, tag)| {
            let left = bound - index * each;
            StashPiece { tag, blocks: left.min(each), is_last: left <= each }
        })
    }

    fn save_piece<V: AsRef<[u8]>>(
        self,
        held: &mut impl Iterator<Item = (u32, Option<V>)>,
        piece: StashPiece,
    ) -> fogbank_durable::Result<Section> {
        let nothing = vec![0; self.value_bytes];
        let mut data = SectionWriter(Vec::with_capacity(piece.blocks * self.block_bytes()));
        for _ in 0..piece.blocks {
            let Some((block, value)) = held.next() else {
                data.u32(NONE).raw(&nothing);
                continue;
            };
            let Some(value) = value else {
                let words = "a block of the stash has no payload";
                return Err(fogbank_durable::Error::Bug(words.into()));
            };
            data.u32(block).raw(value.as_ref());
        }
        if piece.is_last && held.next().is_some() {
            return Err(fogbank_durable::Error::Bug("the stash is above its bound".into()));
        }
        Ok(unpadded(piece.tag, data.0))
    }
}

/// Hands every block of a saved stash to `into`, with its value. As many pieces are taken as there
/// are: the bound may have been another when they were written.
///
/// # Errors
/// [`crate::Error::Bug`] if there is none or one is torn; whatever `into` returns.
pub fn load_stash(
    value_bytes: usize,
    sections: &[Section],
    mut into: impl FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    take(sections, STASH)?;
    let mut pieces = sections.iter().filter(|section| is_of_stash(section));
    pieces.try_for_each(|piece| load_piece(value_bytes, piece, &mut into))
}

/// The same of a stash that takes much of what memory there is: each piece goes when it is read.
///
/// # Errors
/// As [`load_stash`].
pub fn unload_stash(
    value_bytes: usize,
    sections: &mut Vec<Section>,
    mut into: impl FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    take(sections, STASH)?;
    let mut pieces = sections.extract_if(.., |section| is_of_stash(section));
    pieces.try_for_each(|piece| load_piece(value_bytes, &piece, &mut into))
}

fn is_of_stash(section: &Section) -> bool {
    (STASH..STASH + STASH_PIECES_MAX as u16).contains(&section.tag)
}

fn load_piece(
    value_bytes: usize,
    piece: &Section,
    into: &mut impl FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut data = SectionReader(&piece.data);
    while !data.is_empty() {
        let block = data.u32()?;
        let value = data.raw(value_bytes)?;
        if block != NONE {
            into(block, value)?;
        }
    }
    Ok(())
}
