//! What the checkpoints of all engines begin with, and how they are told from others.
//!
//! | tag | section | bytes |
//! |---|---|---|
//! | 1 | shape: format, capacity, value bytes, the engine's own; opening that saved, the engine's counters | fixed |
//! | 2 | of a tree: leaf of every address, or all ones | 4 N |
//!
//! A checkpoint is continued by the shape that saved it, in a later opening only: a version that
//! the same opening used twice would give one nonce to two texts.

use fogbank_durable::{SectionReader, SectionWriter, take};

use crate::{Error, Result, Section};

/// Tags of the sections that all have.
pub(crate) const SHAPE: u16 = 1;
pub(crate) const LEAVES: u16 = 2;

/// Bytes of a leaf.
pub(crate) const LEAF_BYTES: usize = 4;

/// The public shape as the first section begins with it; what else an engine's has is added.
pub(crate) fn shape(format: u32, capacity: u32, value_bytes: usize) -> SectionWriter {
    let mut shape = SectionWriter::default();
    shape.u32(format).u32(capacity).u64(value_bytes as u64);
    shape
}

/// What stands in the first section behind `shape`, to be continued in the opening `current`: the
/// opening that saved, and what the engine has put behind it.
///
/// # Errors
/// [`Error::Caller`] if it is of another shape, or of this opening or a later one.
pub(crate) fn behind_shape<'a>(
    sections: &'a [Section],
    shape: &SectionWriter,
    current: u32,
) -> Result<(u32, SectionReader<'a>)> {
    let Some(rest) = take(sections, SHAPE)?.strip_prefix(&shape.0[..]) else {
        return Err(Error::Caller("the checkpoint is of a store of another shape".into()));
    };
    let mut rest = SectionReader(rest);
    let opening = rest.u32()?;
    if opening >= current {
        return Err(Error::Caller("a checkpoint is continued in a later opening only".into()));
    }
    Ok((opening, rest))
}

/// A section of just its length.
pub(crate) fn unpadded(tag: u16, data: Vec<u8>) -> Section {
    Section { tag, padded_len: data.len(), data }
}

/// A checkpoint verified, but its parts contradict each other.
pub(crate) fn inconsistent() -> Error {
    Error::Bug("the checkpoint does not hold together".into())
}
