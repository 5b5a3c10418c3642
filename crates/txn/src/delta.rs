//! What an epoch changed in the directory, as one section of public length.
//!
//! ```text
//! stream   count u32 (bit 31: drops, bit 30: marks), then: kind u8, key length u16, key, and
//!          kind 1, put:       attr u64, value length u32, its addresses u32 each
//!          kind 2, attribute: attr u64
//!          kind 3, removed:   nothing
//!          kind 4, forgotten: count u64, of records from the key on   (all little-endian)
//!          kind 5, staged put: as a put        kinds 6 and 7, staged removal, unstaged: nothing
//!          kind 8, staged attribute: attr u64
//! bound    4 + write_batch * SLOT_BYTES
//! ```
//!
//! What is staged ([`crate::stage`]) comes first. A delta that *drops* takes off the stage what
//! earlier ones have put on it; one that *marks* makes all that is on it count, before its other
//! entries.
//!
//! Every record that changes reserves what its entry takes, and [`SLOT_BYTES`] for each block it
//! writes: so neither the section nor the write batch overflows, whatever is written. An entry
//! takes a share of a slot at least, so there are not more than closing an epoch has time for.
//! Deltas are applied in order to the directory of the checkpoint before them. What the cloud sees:
//! a section of one length an epoch.

use bytes::Buf;
use fogbank_oram::{Address, BatchShape, Section};

use crate::directory::{Blocks, Directory};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::record::Stat;

/// The tag of the section.
pub(crate) const DELTA_TAG: u16 = 0xC000;

/// Bytes of keys that a slot of the write batch carries into the delta: the default of sixteen
/// slots carries the longest key there is.
pub(crate) const KEY_BYTES_A_SLOT: usize = 256;

/// Bytes of an entry beside its key and its further addresses.
const ENTRY_BYTES: usize = BEGIN_BYTES + 8 + 4 + 4;
/// Bytes that every entry begins with, beside its key.
const BEGIN_BYTES: usize = 1 + 2;
const HEAD_BYTES: usize = 4;

const PUT: u8 = 1;
const ATTRIBUTE: u8 = 2;
const REMOVED: u8 = 3;
const FORGOTTEN: u8 = 4;
const STAGED_PUT: u8 = 5;
const STAGED_REMOVAL: u8 = 6;
const UNSTAGED: u8 = 7;
const STAGED_ATTRIBUTE: u8 = 8;
/// Bits of the count.
const DROPS: u32 = 1 << 31;
const MARKS: u32 = 1 << 30;

/// Bytes of the section for each slot of the write batch.
pub(crate) const SLOT_BYTES: usize = ENTRY_BYTES + KEY_BYTES_A_SLOT;
/// Entries that a slot has time for.
pub(crate) const ENTRIES_A_SLOT: usize = 3;

/// Bytes of the section that a put of a record in so many blocks takes, which are written.
pub(crate) fn bytes_of_put(key: &Key, blocks: usize) -> usize {
    let entry = ENTRY_BYTES + key.encoded_len() + 4 * blocks.saturating_sub(1);
    at_least(entry.max(blocks.saturating_mul(SLOT_BYTES)))
}

/// Bytes of the section that a new attribute takes, or the note of what was forgotten from a key
/// on.
pub(crate) fn bytes_of_number(key: &Key) -> usize {
    at_least(BEGIN_BYTES + key.encoded_len() + 8)
}

/// Bytes of the section that the removal of a record takes.
pub(crate) fn bytes_of_removal(key: &Key) -> usize {
    at_least(BEGIN_BYTES + key.encoded_len())
}

fn at_least(entry: usize) -> usize {
    entry.max(SLOT_BYTES / ENTRIES_A_SLOT)
}

/// The public length of the section that an epoch's changes of the directory make.
pub fn delta_length(shape: &BatchShape) -> usize {
    HEAD_BYTES + shape.write_batch * SLOT_BYTES
}

/// The changes of one epoch as they are made to the directory.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    entries: Vec<u8>,
    count: u32,
    flags: u32,
}

impl Delta {
    /// One of which earlier ones leave nothing on the stage.
    pub(crate) fn dropping() -> Self {
        Self { flags: DROPS, ..Self::default() }
    }

    /// A record was staged, in these blocks.
    pub(crate) fn staged_put(&mut self, key: &Key, stat: Stat, blocks: &[Address]) {
        self.begin_put(STAGED_PUT, key, stat, blocks);
    }

    /// The removal of a record was staged.
    pub(crate) fn staged_removal(&mut self, key: &Key) {
        self.begin(STAGED_REMOVAL, key);
    }

    /// Another attribute of a record was staged.
    pub(crate) fn staged_attribute(&mut self, key: &Key, attr: u64) {
        self.begin(STAGED_ATTRIBUTE, key);
        self.entries.extend_from_slice(&attr.to_le_bytes());
    }

    /// Nothing is staged of a record any more.
    pub(crate) fn unstaged(&mut self, key: &Key) {
        self.begin(UNSTAGED, key);
    }

    /// All that is staged counts.
    pub(crate) fn mark(&mut self) {
        self.flags |= MARKS;
    }

    /// A record was put, in these blocks.
    pub(crate) fn put(&mut self, key: &Key, stat: Stat, blocks: &[Address]) {
        self.begin_put(PUT, key, stat, blocks);
    }

    fn begin_put(&mut self, kind: u8, key: &Key, stat: Stat, blocks: &[Address]) {
        self.begin(kind, key);
        self.entries.extend_from_slice(&stat.attr.to_le_bytes());
        self.entries.extend_from_slice(&stat.len.to_le_bytes());
        for address in blocks {
            self.entries.extend_from_slice(&address.0.to_le_bytes());
        }
    }

    /// A record keeps its value and has a new attribute.
    pub(crate) fn attribute(&mut self, key: &Key, attr: u64) {
        self.begin(ATTRIBUTE, key);
        self.entries.extend_from_slice(&attr.to_le_bytes());
    }

    /// A record is gone.
    pub(crate) fn removed(&mut self, key: &Key) {
        self.begin(REMOVED, key);
    }

    /// So many records are gone, from this key on.
    pub(crate) fn forgotten(&mut self, from: &Key, count: usize) {
        self.begin(FORGOTTEN, from);
        self.entries.extend_from_slice(&(count as u64).to_le_bytes());
    }

    /// Entries.
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    fn begin(&mut self, kind: u8, key: &Key) {
        self.count += 1;
        self.entries.push(kind);
        // A key is no longer than 65,535 bytes (limits).
        self.entries.extend_from_slice(&(key.encoded_len() as u16).to_le_bytes());
        self.entries.extend_from_slice(key.encoded());
    }

    /// The section, at its public length.
    pub(crate) fn into_section(self, shape: &BatchShape) -> Section {
        let mut data = Vec::with_capacity(HEAD_BYTES + self.entries.len());
        data.extend_from_slice(&(self.count | self.flags).to_le_bytes());
        data.extend_from_slice(&self.entries);
        Section { tag: DELTA_TAG, padded_len: delta_length(shape), data }
    }
}

/// Applies the delta among the `sections` of one epoch to the directory as it was before.
///
/// # Errors
/// [`Error::BadCheckpoint`] if there is none or it is not what [`Delta`] wrote.
pub(crate) fn apply(
    directory: &mut Directory,
    sections: &[Section],
    shape: &BatchShape,
) -> Result<()> {
    let section = sections.iter().find(|section| section.tag == DELTA_TAG);
    let section = section.ok_or(Error::BadCheckpoint("an epoch has no delta"))?;
    let applied = apply_stream(directory, &section.data, shape);
    applied.ok_or(Error::BadCheckpoint("the delta of an epoch cannot be read"))
}

fn apply_stream(directory: &mut Directory, mut stream: &[u8], shape: &BatchShape) -> Option<()> {
    let head = stream.try_get_u32_le().ok()?;
    if head & DROPS != 0 {
        directory.drop_staged();
    }
    let mut marks = head & MARKS != 0;
    for _ in 0..head & !(DROPS | MARKS) {
        let kind = stream.try_get_u8().ok()?;
        let key_len = usize::from(stream.try_get_u16_le().ok()?);
        let key = Key::from_encoded(stream.get(..key_len)?);
        stream.advance(key_len);
        if kind < STAGED_PUT && std::mem::take(&mut marks) {
            settle(directory);
        }
        match kind {
            PUT | STAGED_PUT => {
                let attr = stream.try_get_u64_le().ok()?;
                let len = stream.try_get_u32_le().ok()?;
                let blocks = addresses(&mut stream, len, shape)?;
                match kind {
                    PUT => directory.put(&key, Stat { len, attr }, &blocks),
                    _ => directory.stage_put(&key, Stat { len, attr }, &blocks),
                }
            }
            ATTRIBUTE => {
                let attr = stream.try_get_u64_le().ok()?;
                let entry = *directory.get(&key)?;
                let blocks = directory.blocks(&entry);
                directory.put(&key, Stat { attr, ..entry.stat() }, &blocks);
            }
            REMOVED => directory.remove(&key).then_some(())?,
            FORGOTTEN => {
                let count = usize::try_from(stream.try_get_u64_le().ok()?).ok()?;
                directory.remove_from(&key, count).then_some(())?;
            }
            STAGED_ATTRIBUTE => {
                let attr = stream.try_get_u64_le().ok()?;
                directory.stage_attribute(&key, attr).then_some(())?;
            }
            STAGED_REMOVAL => directory.stage_removal(&key).then_some(())?,
            UNSTAGED => directory.unstage(&key).then_some(())?,
            _ => return None,
        }
    }
    if marks {
        settle(directory);
    }
    directory.take_orphans(); // which addresses are free is found out at the end
    stream.is_empty().then_some(())
}

/// All that is staged counts, and is made part of the entries at once.
fn settle(directory: &mut Directory) {
    directory.count_staged();
    directory.absorb_some(usize::MAX);
}

fn addresses(stream: &mut &[u8], len: u32, shape: &BatchShape) -> Option<Blocks> {
    let count = (len as usize).div_ceil(shape.value_bytes.max(1));
    let mut blocks = Blocks::new();
    for _ in 0..count {
        let address = stream.try_get_u32_le().ok()?;
        (address < shape.capacity).then(|| blocks.push(Address(address)))?;
    }
    Some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyRange;

    const SHAPE: BatchShape =
        BatchShape { capacity: 100, value_bytes: 8, read_batch: 4, write_batch: 4 };

    #[test]
    fn changes_are_made_again() {
        let key = |name: &[u8]| Key::new(b"g", name);
        let stat = |len, attr| Stat { len, attr };
        let (mut live, mut copy) = (Directory::default(), Directory::default());
        live.put(&key(b"old"), stat(3, 1), &[Address(9)]);
        live.put(&key(b"long"), stat(20, 1), &[Address(1), Address(2), Address(3)]);
        live.put(&key(b"empty"), stat(0, 1), &[]);
        for directory in [&mut live, &mut copy] {
            for (n, blocks) in [(1, &[Address(11)][..]), (2, &[]), (3, &[Address(12)])] {
                directory.put(&Key::new(b"f", &[n]), stat(blocks.len() as u32, 1), blocks);
            }
        }
        for (name, len, blocks) in
            [(&b"old"[..], 3, &[9][..]), (b"long", 20, &[1, 2, 3]), (b"empty", 0, &[])]
        {
            let blocks: Vec<_> = blocks.iter().map(|&a| Address(a)).collect();
            copy.put(&key(name), stat(len, 1), &blocks);
        }
        let mut delta = Delta::default();
        live.put(&key(b"new"), stat(9, 5), &[Address(4), Address(5)]);
        delta.put(&key(b"new"), stat(9, 5), &[Address(4), Address(5)]);
        live.put(&key(b"long"), stat(20, 7), &[Address(1), Address(2), Address(3)]);
        delta.attribute(&key(b"long"), 7);
        live.remove(&key(b"old"));
        delta.removed(&key(b"old"));
        let some = KeyRange::group(b"f");
        assert_eq!(live.remove_some(&some, 3), (2, vec![Address(11)]));
        delta.forgotten(some.start(), 2);
        let section = delta.into_section(&SHAPE);
        assert_eq!(section.padded_len, delta_length(&SHAPE));
        apply(&mut copy, std::slice::from_ref(&section), &SHAPE).unwrap();
        let all = |d: &Directory| -> Vec<_> {
            d.iter().map(|(key, e)| (key.clone(), *e, d.blocks(e).to_vec())).collect()
        };
        assert_eq!(all(&live), all(&copy));

        // Whatever is cut off or added is refused.
        for data in
            [section.data[..section.data.len() - 1].to_vec(), [&section.data[..], &[0]].concat()]
        {
            let mut copy = Directory::default();
            copy.put(&key(b"old"), stat(3, 1), &[Address(9)]);
            copy.put(&key(b"long"), stat(20, 1), &[Address(1), Address(2), Address(3)]);
            let section = Section { data, ..section.clone() };
            assert!(apply(&mut copy, &[section], &SHAPE).is_err());
        }
        assert!(apply(&mut Directory::default(), &[], &SHAPE).is_err());
    }

    #[test]
    fn the_longest_entries_of_all_slots_stay_within_the_bound() {
        let mut delta = Delta::default();
        for slot in 0..SHAPE.write_batch {
            let name = vec![slot as u8 + 1; KEY_BYTES_A_SLOT - 1];
            let key = Key::new(b"", &name);
            assert_eq!(bytes_of_put(&key, 1), SLOT_BYTES, "{}", key.encoded_len());
            delta.put(&key, Stat { len: 8, attr: 1 }, &[Address(slot as u32)]);
        }
        assert_eq!(delta.into_section(&SHAPE).data.len(), delta_length(&SHAPE));
    }

    #[test]
    fn every_entry_takes_what_it_was_charged_or_less() {
        for len in [0, 1, 80, 90, 300, 4_000] {
            let key = Key::new(b"g", &vec![b'k'; len]);
            let taken = |make: &dyn Fn(&mut Delta)| {
                let mut delta = Delta::default();
                make(&mut delta);
                delta.into_section(&SHAPE).data.len() - HEAD_BYTES
            };
            let blocks: Vec<_> = (0..7).map(Address).collect();
            for count in 0..blocks.len() {
                let put = taken(&|delta| {
                    delta.put(&key, Stat { len: 8 * count as u32, attr: 1 }, &blocks[..count]);
                });
                assert!(put <= bytes_of_put(&key, count));
                assert!(bytes_of_put(&key, count) >= count * SLOT_BYTES);
            }
            assert!(taken(&|delta| delta.attribute(&key, 1)) <= bytes_of_number(&key));
            assert!(taken(&|delta| delta.staged_attribute(&key, 1)) <= bytes_of_number(&key));
            assert!(taken(&|delta| delta.forgotten(&key, 1)) <= bytes_of_number(&key));
            assert!(taken(&|delta| delta.removed(&key)) <= bytes_of_removal(&key));
        }
    }
}
