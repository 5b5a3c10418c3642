//! What the journal says: an entry is durable before what it names is sent.
//!
//! | entry | durable before | holds |
//! |---|---|---|
//! | access | its messages | block, access, partitions, cells in their order, index |
//! | result | its answer, and the commit of a job over its cell | the block after it |
//! | job | its messages, every attempt | partition, job, blocks that it takes from the stash |
//! | commit | its messages | partition, job |
//!
//! Entries of a kind have one length: how many there are of each is public, what is in them not.

use bytes::Bytes;
use fogbank_durable::{SectionReader, SectionWriter};
use fogbank_mix::message::Place;
use fogbank_mix::{Generation, Shape};

use crate::checkpoint::inconsistent;
use crate::{Access, Result};

/// Kinds of entries.
const ACCESS: u8 = 1;
const RESULT: u8 = 2;
const JOB: u8 = 3;
const COMMIT: u8 = 4;
/// Stands for no block.
const NOBODY: u32 = u32::MAX;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An access departs.
    Access(AccessEntry),
    /// The access of this number ends; the block after it.
    Result(u64, Bytes),
    /// A job begins, or begins again.
    Job(JobEntry),
    /// The job of a partition is done.
    Commit(u16, Generation),
}

/// An access as it departs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessEntry {
    /// Its number, which is also that of its read.
    pub number: u64,
    /// The block, if anybody asked for one.
    pub block: Option<u32>,
    /// What to do with it.
    pub access: Access,
    /// The partition that it shows.
    pub partition: u16,
    /// The partition to which the block goes if no later access asks for it before it ends.
    pub to: u16,
    /// What it reads, in a secret order.
    pub places: Vec<Place>,
    /// Which of them the shuffler sends.
    pub index: u8,
}

/// A job as it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEntry {
    /// The partition.
    pub partition: u16,
    /// The job and its attempt.
    pub generation: Generation,
    /// The blocks that it takes from the stash, by upload place; of a later attempt those that are
    /// left.
    pub taken: Vec<Option<u32>>,
}

impl Entry {
    /// As it is written, for a volume of this shape.
    pub fn encode(&self, shape: &Shape) -> Vec<u8> {
        let mut w = SectionWriter::default();
        match self {
            Self::Access(entry) => {
                let block = entry.block.unwrap_or(NOBODY);
                w.u8(ACCESS).u64(entry.number).u32(block).u16(entry.partition).u16(entry.to);
                w.u8(entry.index).u8(entry.places.len() as u8);
                entry.places.iter().for_each(|at| {
                    _ = w.u8(at.level).u64(at.generation.0).u32(at.place);
                });
                let (code, offset, bytes) = entry.access.journalled();
                w.u8(code).u32(offset).u32((bytes[0].len() + bytes[1].len()) as u32);
                w.raw(bytes[0]).raw(bytes[1]);
                w.0.resize(access_bytes(shape), 0);
            }
            Self::Result(number, value) => _ = w.u8(RESULT).u64(*number).bytes(value),
            Self::Job(entry) => {
                w.u8(JOB).u16(entry.partition).u64(entry.generation.0);
                w.u32(entry.taken.len() as u32);
                entry.taken.iter().for_each(|block| _ = w.u32(block.unwrap_or(NOBODY)));
            }
            Self::Commit(partition, generation) => {
                _ = w.u8(COMMIT).u16(*partition).u64(generation.0)
            }
        }
        w.0
    }

    /// What [`Entry::encode`] made, of a volume of this shape and so many blocks of so many bytes.
    ///
    /// # Errors
    /// [`crate::Error::Bug`] if it is none of ours: it has verified.
    pub fn decode(bytes: &[u8], shape: &Shape, blocks: u32, value_bytes: usize) -> Result<Self> {
        let mut r = SectionReader(bytes);
        let block = |id: u32| match id {
            NOBODY => Ok(None),
            id if id < blocks => Ok(Some(id)),
            _ => Err(inconsistent()),
        };
        let known = |partition: u16| match shape.has(partition) {
            true => Ok(partition),
            false => Err(inconsistent()),
        };
        Ok(match r.u8()? {
            ACCESS => {
                let (number, block) = (r.u64()?, block(r.u32()?)?);
                let (partition, to, index) = (known(r.u16()?)?, known(r.u16()?)?, r.u8()?);
                let count = r.u8()?;
                let mut place = || {
                    let (level, generation) = (r.u8()?, Generation(r.u64()?));
                    Ok(Place { level, generation, place: r.u32()? })
                };
                let places = (0..count).map(|_| place()).collect::<Result<_>>()?;
                let (code, offset) = (r.u8()?, r.u32()?);
                let bytes = Bytes::copy_from_slice(r.bytes()?);
                let access = Access::from_journal((code, offset, bytes), value_bytes);
                let access = access.ok_or_else(inconsistent)?;
                Self::Access(AccessEntry { number, block, access, partition, to, places, index })
            }
            RESULT => {
                let (number, value) = (r.u64()?, r.bytes()?);
                if value.len() != value_bytes {
                    return Err(inconsistent());
                }
                Self::Result(number, Bytes::copy_from_slice(value))
            }
            JOB => {
                let (partition, generation) = (known(r.u16()?)?, Generation(r.u64()?));
                let taken = (0..r.u32()?).map(|_| block(r.u32()?)).collect::<Result<_>>()?;
                Self::Job(JobEntry { partition, generation, taken })
            }
            COMMIT => Self::Commit(known(r.u16()?)?, Generation(r.u64()?)),
            _ => return Err(inconsistent()),
        })
    }
}

/// Records of the journal are padded to a multiple of this.
pub const UNIT_BYTES: usize = 4096;

/// Bytes of the longest entry in a record.
pub fn entry_bytes_max(shape: &Shape) -> usize {
    let of_job = 1 + 2 + 8 + 4 + 4 * shape.batch() as usize;
    4 + access_bytes(shape).max(1 + 8 + 4 + shape.block_bytes as usize).max(of_job)
}

/// Bytes in records of the two entries of an access.
pub fn access_entries_bytes(shape: &Shape) -> [usize; 2] {
    [4 + access_bytes(shape), 4 + 1 + 8 + 4 + shape.block_bytes as usize]
}

/// Takes entries, at least one, that are written together: a record of at most so many bytes.
pub fn record(entries: &mut Vec<Vec<u8>>, bytes_max: usize) -> Vec<u8> {
    let mut bytes = 0;
    let fits = |entry: &&Vec<u8>| {
        bytes += 4 + entry.len();
        bytes <= bytes_max
    };
    let together = entries.iter().take_while(fits).count().max(1).min(entries.len());
    let mut record = SectionWriter::default();
    entries.drain(..together).for_each(|entry| _ = record.bytes(&entry));
    record.0
}

/// The entries of a record; what it is padded with says that there are none.
///
/// # Errors
/// [`crate::Error::Bug`] if it is none of ours.
pub fn entries(record: &[u8]) -> Result<Vec<&[u8]>> {
    let (mut r, mut entries) = (SectionReader(record), Vec::new());
    while r.0.len() >= 4 {
        match r.bytes()? {
            [] => break,
            entry => entries.push(entry),
        }
    }
    Ok(entries)
}

/// Bytes of the entry of an access: room for a cell of every level, and for a block.
fn access_bytes(shape: &Shape) -> usize {
    let fixed = 1 + 8 + 4 + 2 + 2 + 1 + 1 + 1 + 4 + 4;
    fixed + 13 * usize::from(shape.levels) + shape.block_bytes as usize
}
