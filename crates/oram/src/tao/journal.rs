//! Journal records: the accesses that are about to read their paths.
//!
//! A record has one part of constant length an access, in the order of arrival: how many there are
//! is public, for so many paths are read next. What recovery needs stands in it: the leaf that was
//! read, whether the block was there to be found or the path a decoy, and what to do with the
//! block.
//!
//! ```text
//! part   1 kind (1 the block's own path, 2 a decoy, 3 padding) | 1 access (0 read, 1 write, 2 swap)
//!        4 block | 4 leaf | 4 offset | 4 n | n bytes, zeros up to the block size
//! swap   the bytes are what is expected, then what is put there, n / 2 of each
//! ```

use bytes::Bytes;
use fogbank_durable::{SectionReader, SectionWriter};

use crate::checkpoint::inconsistent;
use crate::geometry::Geometry;
use crate::{Access, Result};

const HEAD_BYTES: usize = 1 + 1 + 4 + 4 + 4 + 4;

/// Why a path is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The block is mapped to its leaf (or to none, and the leaf was drawn).
    Own = 1,
    /// An earlier request is about to bring the block; the leaf was drawn.
    Decoy = 2,
    /// Nobody asked for anything; the leaf was drawn.
    Padding = 3,
}

/// An access as it is journalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    pub block: u32,
    pub leaf: u32,
    pub access: Access,
}

/// Bytes of a part.
pub(super) fn entry_bytes(value_bytes: usize) -> usize {
    HEAD_BYTES + value_bytes
}

/// The record of these accesses.
pub(super) fn encode<'a>(entries: impl Iterator<Item = &'a Entry>, value_bytes: usize) -> Vec<u8> {
    let mut w = SectionWriter::default();
    for entry in entries {
        let end = w.0.len() + entry_bytes(value_bytes);
        let (access, offset, bytes) = entry.access.journalled();
        w.u8(entry.kind as u8).u8(access).u32(entry.block).u32(entry.leaf).u32(offset);
        w.u32((bytes[0].len() + bytes[1].len()) as u32).raw(bytes[0]).raw(bytes[1]);
        w.0.resize(end, 0);
    }
    w.0
}

/// The accesses of a record.
///
/// # Errors
/// [`crate::Error::Bug`] if it is none of ours: it has verified.
pub(super) fn decode(record: &[u8], geometry: &Geometry) -> Result<Vec<Entry>> {
    let parts = record.chunks_exact(entry_bytes(geometry.value_bytes));
    if parts.len() == 0 || !parts.remainder().is_empty() {
        return Err(inconsistent());
    }
    parts.map(|part| decode_part(part, geometry)).collect()
}

fn decode_part(part: &[u8], geometry: &Geometry) -> Result<Entry> {
    let mut r = SectionReader(part);
    let kind = match r.u8()? {
        1 => Kind::Own,
        2 => Kind::Decoy,
        3 => Kind::Padding,
        _ => return Err(inconsistent()),
    };
    let code = r.u8()?;
    let (block, leaf, offset) = (r.u32()?, r.u32()?, r.u32()?);
    let bytes = Bytes::copy_from_slice(r.bytes()?);
    let access = Access::from_journal((code, offset, bytes), geometry.value_bytes);
    let access = access.ok_or_else(inconsistent)?;
    let known = block < geometry.capacity || kind == Kind::Padding;
    let sound = known && leaf < geometry.tree.leaves();
    if sound { Ok(Entry { kind, block, leaf, access }) } else { Err(inconsistent()) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::geometry::BucketShape;
    use crate::immediate::arrival::PADDING;

    #[test]
    fn a_record_comes_back_and_has_a_length_by_its_count() {
        let geometry = Geometry::new(64, 8, BucketShape::path(4), 0).unwrap();
        let write = Access::Write { offset: 3, bytes: Bytes::from_static(b"abcde") };
        let [expected, bytes] = [&b"abcd"[..], b"efgh"].map(Bytes::from_static);
        let swap = Access::Swap { offset: 4, expected, bytes };
        let entries = [
            Entry { kind: Kind::Own, block: 63, leaf: 15, access: write },
            Entry { kind: Kind::Decoy, block: 63, leaf: 0, access: Access::Read },
            Entry { kind: Kind::Own, block: 1, leaf: 2, access: swap },
            Entry { kind: Kind::Padding, block: PADDING, leaf: 7, access: Access::Read },
        ];
        let record = encode(entries.iter(), 8);
        assert_eq!(record.len(), 4 * entry_bytes(8));
        assert_eq!(decode(&record, &geometry).unwrap(), entries);
        for (at, byte) in [(0, 4), (2, 64), (6, 16), (10, 4)] {
            let mut other = record.clone();
            other[at] = byte;
            assert!(decode(&other, &geometry).is_err(), "byte {at}");
        }
        assert!(decode(&record[1..], &geometry).is_err() && decode(&[], &geometry).is_err());
    }
}
