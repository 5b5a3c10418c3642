//! The directory as sections of a checkpoint.
//!
//! One stream, cut into pieces of equal length:
//!
//! ```text
//! stream   count u64, then in key order: key length u16, key, attr u64, value length u32,
//!          then ceil(value length / block bytes) addresses u32        (all little-endian)
//!          bit 31 of the value length: the removal of this record is staged
//!          bit 30: this record is staged; one of the same key that is not comes before it
//!          both: another attribute of this record is staged, a u64 behind the addresses
//! bound    8 + capacity * (2 + key_budget_bytes + 8 + 4 + 4)
//! ```
//!
//! Keys, their bytes and their blocks are all bounded by the capacity, so the bound is public and
//! never exceeded; what is staged counts as records beside them, and a staged attribute as bytes of
//! keys. Free addresses are those that no
//! record holds.
//! What the cloud sees: as many pieces as the bound asks for, each padded to its length.

use bytes::Buf;
use fogbank_oram::{Address, BatchEngine, BatchShape, Section, Sections};

use crate::directory::{Blocks, Directory, Entry};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::record::Stat;
use crate::stage::Staged;

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
/// Bits of the length of a value, which no value reaches.
const GOES: u32 = 1 << 31;
const STAGED: u32 = 1 << 30;
/// Bytes of the longest value.
pub(crate) const VALUE_BYTES_MAX: usize = STAGED as usize - 1;

/// Whether a section of a checkpoint belongs to the directory.
pub(crate) fn is_piece(section: &Section) -> bool {
    usize::from(section.tag).checked_sub(usize::from(FIRST_TAG)).is_some_and(|n| n < PIECES_MAX)
}

/// Engine and directory as one full checkpoint. `piece` makes the next piece of the directory,
/// which does not change until the last one is made.
pub(crate) fn save<'a>(
    engine: &'a mut dyn BatchEngine,
    key_budget: usize,
    mut piece: impl FnMut(&mut Pieces) -> Option<Section> + Send + 'a,
) -> fogbank_oram::Result<Sections<'a>> {
    let mut pieces = Pieces::new(&engine.shape(), key_budget);
    let of_directory = std::iter::from_fn(move || piece(&mut pieces).map(Ok));
    Ok(Box::new(engine.save()?.chain(of_directory)))
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

/// The directory, piece by piece: no more than one is in memory, and the directory is free between
/// two.
pub(crate) struct Pieces {
    bound: usize,
    piece_bytes: usize,
    /// Pieces made.
    made: usize,
    /// The next key, if there is one.
    next: Option<Key>,
    /// The beginning of the next piece: what of an entry the last one had no room for.
    begun: Vec<u8>,
}

impl Pieces {
    pub(crate) fn new(shape: &BatchShape, key_budget: usize) -> Self {
        let (bound, piece_bytes) = bound(shape, key_budget);
        Self { bound, piece_bytes, made: 0, next: None, begun: Vec::new() }
    }

    /// The next piece of `directory`, `None` after the last. Those behind the end of the stream are
    /// empty: there are as many as the bound asks for.
    pub(crate) fn next(&mut self, directory: &Directory) -> Option<Section> {
        let padded_len = lengths(self.bound, self.piece_bytes).nth(self.made)?;
        let mut data = Vec::with_capacity(self.piece_bytes + self.begun.len());
        data.append(&mut self.begun);
        if self.made == 0 {
            let records = directory.len() + directory.stage().beside().0;
            data.extend_from_slice(&(records as u64).to_le_bytes());
            let first = Key::from_encoded(&[]);
            self.next = directory.stored(&first).next().map(|(key, ..)| key.clone());
        }
        if let Some(next) = self.next.take() {
            let mut stored = directory.stored(&next);
            while data.len() < self.piece_bytes {
                let Some((key, entry, staged)) = stored.next() else { break };
                let flags = match staged {
                    Some(Staged::Removal) => GOES,
                    Some(Staged::Attribute(_)) => GOES | STAGED,
                    _ => 0,
                };
                entry.inspect(|entry| append(&mut data, directory, key, entry, flags));
                match staged {
                    Some(Staged::Put(entry)) => append(&mut data, directory, key, entry, STAGED),
                    Some(Staged::Attribute(entry)) => {
                        data.extend_from_slice(&entry.stat().attr.to_le_bytes());
                    }
                    _ => {}
                }
            }
            self.next = stored.next().map(|(key, ..)| key.clone());
        }
        let is_last = lengths(self.bound, self.piece_bytes).nth(self.made + 1).is_none();
        if is_last && self.next.is_some() {
            // More than the bound: longer than its public length, so that it is refused, not cut.
            data.resize(padded_len + 1, 0);
        } else if !is_last {
            self.begun = data.split_off(data.len().min(self.piece_bytes));
        }
        let tag = FIRST_TAG + self.made as u16;
        self.made += 1;
        Some(Section { tag, padded_len, data })
    }
}

fn append(data: &mut Vec<u8>, directory: &Directory, key: &Key, entry: &Entry, flags: u32) {
    let stat = entry.stat();
    data.extend_from_slice(&(key.encoded_len() as u16).to_le_bytes());
    data.extend_from_slice(key.encoded());
    data.extend_from_slice(&stat.attr.to_le_bytes());
    data.extend_from_slice(&(stat.len | flags).to_le_bytes());
    for address in directory.blocks(entry) {
        data.extend_from_slice(&address.0.to_le_bytes());
    }
}

/// The directory that [`Pieces`] wrote, checked against the engine's shape, and what is staged.
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
        let flagged = stream.try_get_u32_le().ok()?;
        let len = flagged & !(GOES | STAGED);
        let mut blocks = Blocks::new();
        for _ in 0..(len as usize).div_ceil(shape.value_bytes.max(1)) {
            let address = stream.try_get_u32_le().ok()?;
            match held.get_mut(address as usize) {
                Some(held) if !*held => *held = true,
                _ => return Some(Err(Error::BadCheckpoint("an address is held twice"))),
            }
            blocks.push(Address(address));
        }
        match flagged & (GOES | STAGED) {
            STAGED => directory.stage_put(&key, Stat { len, attr }, &blocks),
            flags => {
                directory.put(&key, Stat { len, attr }, &blocks);
                match flags {
                    0 => {}
                    GOES => _ = directory.stage_removal(&key),
                    _ => {
                        let attr = stream.try_get_u64_le().ok()?;
                        directory.stage_attribute(&key, attr);
                    }
                }
            }
        }
    }
    Some(Ok(directory))
}
