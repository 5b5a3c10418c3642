//! The directory as sections of a checkpoint.
//!
//! One stream, cut into pieces of equal length:
//!
//! ```text
//! stream   count u64, then in key order: key length u16, key, attr u64, value length u32,
//!          then ceil(value length / block bytes) addresses u32        (all little-endian)
//! bound    8 + capacity * (2 + key_budget_bytes + 8 + 4 + 4)
//! ```
//!
//! Keys, their bytes and their blocks are all bounded by the capacity, so the bound is public and
//! never exceeded. Free addresses are those that no record holds.
//! What the cloud sees: as many pieces as the bound asks for, each padded to its length.

use bytes::Buf;
use fogbank_oram::{Address, BatchShape, Section};

use crate::directory::{Blocks, Directory};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::record::Stat;

/// The tag of the first piece.
pub const FIRST_TAG: u16 = 0x4000;
/// Bytes of a piece, unless that made too many of them.
const PIECE_BYTES: usize = 1 << 20;
/// Pieces at most.
const PIECES_MAX: usize = 0x8000;
/// Bytes of an entry beside its key and its further blocks.
const ENTRY_BYTES: usize = 2 + 8 + 4 + 4;
/// Bytes of the head of the stream.
const HEAD_BYTES: usize = 8;

/// Whether a section of a checkpoint belongs to the directory.
pub(crate) fn is_piece(section: &Section) -> bool {
    usize::from(section.tag).checked_sub(usize::from(FIRST_TAG)).is_some_and(|n| n < PIECES_MAX)
}

/// The directory in pieces of public lengths.
pub(crate) fn save(directory: &Directory, shape: &BatchShape, key_budget: usize) -> Vec<Section> {
    let (bound, piece_bytes) = bound(shape, key_budget);
    let mut pieces = Pieces::new(piece_bytes);
    pieces.append(&(directory.len() as u64).to_le_bytes());
    for (key, entry) in directory.iter() {
        let stat = entry.stat();
        pieces.append(&(key.encoded_len() as u16).to_le_bytes());
        pieces.append(key.encoded());
        pieces.append(&stat.attr.to_le_bytes());
        pieces.append(&stat.len.to_le_bytes());
        for address in directory.blocks(entry) {
            pieces.append(&address.0.to_le_bytes());
        }
    }
    pieces.into_sections(bound)
}

/// The padded lengths of the sections of a directory's checkpoint, in bytes, in their order.
pub fn checkpoint_lengths(shape: &BatchShape, key_budget: usize) -> Vec<usize> {
    let (bound, piece_bytes) = bound(shape, key_budget);
    lengths(bound, piece_bytes).collect()
}

/// Bytes of the longest stream, and of a piece of it.
fn bound(shape: &BatchShape, key_budget: usize) -> (usize, usize) {
    let bound = HEAD_BYTES + shape.capacity as usize * (ENTRY_BYTES + key_budget);
    (bound, PIECE_BYTES.max(bound.div_ceil(PIECES_MAX)))
}

fn lengths(bound: usize, piece_bytes: usize) -> impl Iterator<Item = usize> {
    (0..bound.div_ceil(piece_bytes)).map(move |index| piece_bytes.min(bound - index * piece_bytes))
}

/// A stream in pieces of equal length: never in memory twice.
struct Pieces {
    piece_bytes: usize,
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

impl Pieces {
    fn new(piece_bytes: usize) -> Self {
        Self { piece_bytes, full: Vec::new(), last: Vec::new() }
    }

    fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.piece_bytes - self.last.len();
            let (head, tail) = bytes.split_at(bytes.len().min(room));
            self.last.extend_from_slice(head);
            bytes = tail;
            if self.last.len() == self.piece_bytes {
                self.full.push(std::mem::take(&mut self.last));
            }
        }
    }

    /// As many sections as a stream of `bound` bytes has; those behind the last piece are empty.
    fn into_sections(mut self, bound: usize) -> Vec<Section> {
        self.full.push(self.last);
        let mut pieces = self.full.into_iter();
        lengths(bound, self.piece_bytes)
            .zip(FIRST_TAG..)
            .map(|(padded_len, tag)| Section {
                tag,
                padded_len,
                data: pieces.next().unwrap_or_default(),
            })
            .collect()
    }
}

/// The directory that [`save`] wrote, checked against the engine's shape.
pub(crate) fn restore(sections: &[Section], shape: &BatchShape) -> Result<Directory> {
    let mut pieces: Vec<_> = sections.iter().filter(|section| is_piece(section)).collect();
    pieces.sort_by_key(|section| section.tag);
    let in_order = pieces.iter().enumerate().all(|(i, s)| usize::from(s.tag - FIRST_TAG) == i);
    if pieces.is_empty() || !in_order {
        return Err(Error::BadCheckpoint("a piece is missing"));
    }
    let stream = pieces.iter().map(|section| &section.data[..]).collect::<Vec<_>>().concat();
    read(&stream, shape).ok_or(Error::BadCheckpoint("it cannot be read"))?
}

fn read(mut stream: &[u8], shape: &BatchShape) -> Option<Result<Directory>> {
    let mut directory = Directory::default();
    let mut held = vec![false; shape.capacity as usize];
    let count = stream.try_get_u64_le().ok()?;
    for _ in 0..count {
        let key_len = usize::from(stream.try_get_u16_le().ok()?);
        let key = Key::from_encoded(stream.get(..key_len)?);
        stream.advance(key_len);
        let attr = stream.try_get_u64_le().ok()?;
        let len = stream.try_get_u32_le().ok()?;
        let mut blocks = Blocks::new();
        for _ in 0..(len as usize).div_ceil(shape.value_bytes.max(1)) {
            let address = stream.try_get_u32_le().ok()?;
            match held.get_mut(address as usize) {
                Some(held) if !*held => *held = true,
                _ => return Some(Err(Error::BadCheckpoint("an address is held twice"))),
            }
            blocks.push(Address(address));
        }
        directory.put(&key, Stat { len, attr }, &blocks);
    }
    Some(Ok(directory))
}
