//! Journal records: commits, then jobs, then the accesses that are about to read.
//!
//! A record has one part of constant length for each of them: how many there are is public. What
//! recovery needs stands in it. The cells of an access and of a job follow from the state; those of
//! an access are noted as well, so that a recovery that would read others stops before it does.
//!
//! Every part begins with the number of records that were under way when its record was cut: what
//! those before them brought about had taken effect by then.
//!
//! ```text
//! each    2 records under way
//! commit  1 kind (1) | 4 partition | 8 orders carried out | 8 generation
//! job     1 kind (2) | 4 partition | 8 orders carried out | 4 n | n times 4 block from the stash
//! access  1 kind (3 the block's own partition, 4 a duplicate, 5 padding)
//!         4 block | 4 partition | 4 partition to go to
//!         4 n | n times (1 level | 2 place)
//!         1 access (0 read, 1 write, 2 swap) | 4 offset | 4 n | n bytes
//! swap    the bytes are what is expected, then what is put there, n / 2 of each
//! ```

use bytes::Bytes;
use fogbank_durable::{SectionReader, SectionWriter};

use super::job::{FROM_STASH_MAX, JobPart};
use super::layout::Layout;
use super::reader::AccessPart;
use crate::checkpoint::inconsistent;
use crate::immediate::arrival::PADDING;
use crate::{Access, Result};

/// Of records. It stands in the configuration of a store: one of another format cannot be taken
/// over.
pub const RECORD_FORMAT: u16 = 3;
const COMMIT: u8 = 1;
const JOB: u8 = 2;
const OWN: u8 = 3;
const DUPLICATE: u8 = 4;
const NOBODY: u8 = 5;

const CELL_BYTES: usize = 1 + 2;
const JOB_BYTES: usize = 2 + 1 + 4 + 8 + 4 + 4 * FROM_STASH_MAX;
const ACCESS_BYTES: usize = 2 + 1 + 4 + 4 + 4 + 4 + 1 + 4 + 4;

/// A part of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A job is done: what it has written is durable.
    Commit(Commit),
    /// A job begins.
    Job(JobPart),
    /// An access departs.
    Access(AccessPart),
}

/// A job is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The partition.
    pub partition: u32,
    /// Orders carried out.
    pub until: u64,
    /// The generation of the levels that it has written.
    pub version: u64,
}

/// What an access that the journal names did, and what it drew.
#[derive(Debug)]
pub struct Again {
    /// The block, if anybody asked for one.
    pub block: Option<u32>,
    pub access: Access,
    /// Whether the block was under way, so that the partition was drawn.
    pub is_duplicate: bool,
    pub partition: u32,
    pub to: u32,
    /// Level and place of its cells.
    pub cells: Vec<(u8, u16)>,
}

/// A part as it is read.
#[derive(Debug)]
pub enum Read {
    Commit(Commit),
    /// Partition, orders carried out, and blocks from the stash.
    Job(u32, u64, Vec<u32>),
    Access(Again),
}

/// Bytes of a part.
pub fn part_bytes(layout: &Layout, value_bytes: usize) -> usize {
    let access = ACCESS_BYTES + CELL_BYTES * usize::from(layout.levels) + value_bytes;
    access.max(JOB_BYTES)
}

/// The record of these parts, each of `part_bytes`, cut while so many records were under way.
pub fn encode(parts: &[Part], behind: u16, part_bytes: usize) -> Vec<u8> {
    let mut w = SectionWriter(Vec::with_capacity(parts.len() * part_bytes));
    for (part, end) in parts.iter().zip((1..).map(|parts| parts * part_bytes)) {
        w.u16(behind);
        match part {
            Part::Commit(commit) => {
                w.u8(COMMIT).u32(commit.partition).u64(commit.until).u64(commit.version);
            }
            Part::Job(job) => {
                w.u8(JOB).u32(job.partition).u64(job.until).u32(job.from_stash.len() as u32);
                job.from_stash.iter().for_each(|block| _ = w.u32(*block));
            }
            Part::Access(access) => encode_access(&mut w, access),
        }
        w.0.resize(end, 0);
    }
    w.0
}

fn encode_access(w: &mut SectionWriter, part: &AccessPart) {
    let kind = match part.block {
        None => NOBODY,
        Some(_) if part.is_duplicate => DUPLICATE,
        Some(_) => OWN,
    };
    w.u8(kind).u32(part.block.unwrap_or(PADDING)).u32(part.partition).u32(part.to);
    w.u32(part.cells.len() as u32);
    part.cells.iter().for_each(|cell| _ = w.u8(cell.level).u16(cell.place));
    let (code, offset, bytes) = part.access.journalled();
    w.u8(code).u32(offset).u32((bytes[0].len() + bytes[1].len()) as u32);
    w.raw(bytes[0]).raw(bytes[1]);
}

/// The parts of a record, and how many were under way when it was cut.
///
/// # Errors
/// [`crate::Error::Bug`] if it is none of ours: it has verified.
pub fn decode(record: &[u8], layout: &Layout, value_bytes: usize) -> Result<(usize, Vec<Read>)> {
    let parts = record.chunks_exact(part_bytes(layout, value_bytes));
    if parts.len() == 0 || !parts.remainder().is_empty() {
        return Err(inconsistent());
    }
    let behind = SectionReader(record).u16()?;
    let parts = parts.map(|part| decode_part(SectionReader(part), layout, value_bytes));
    Ok((behind.into(), parts.collect::<Result<_>>()?))
}

fn decode_part(mut r: SectionReader<'_>, layout: &Layout, value_bytes: usize) -> Result<Read> {
    r.u16()?;
    let part = match r.u8()? {
        COMMIT => {
            let (partition, until, version) = (r.u32()?, r.u64()?, r.u64()?);
            Read::Commit(Commit { partition, until, version })
        }
        JOB => {
            let (partition, until, blocks) = (r.u32()?, r.u64()?, r.u32()?);
            let blocks: Result<Vec<u32>> = (0..blocks).map(|_| Ok(r.u32()?)).collect();
            Read::Job(partition, until, blocks?)
        }
        kind @ OWN..=NOBODY => {
            let (block, partition, to) = (r.u32()?, r.u32()?, r.u32()?);
            let cells = r.u32()?;
            let cells: Result<Vec<(u8, u16)>> =
                (0..cells).map(|_| Ok((r.u8()?, r.u16()?))).collect();
            let (cells, code, offset) = (cells?, r.u8()?, r.u32()?);
            let bytes = Bytes::copy_from_slice(r.bytes()?);
            let access = Access::from_journal((code, offset, bytes), value_bytes);
            let access = access.ok_or_else(inconsistent)?;
            if to >= layout.partitions {
                return Err(inconsistent());
            }
            let block = (kind != NOBODY).then_some(block);
            let is_duplicate = kind == DUPLICATE;
            Read::Access(Again { block, access, is_duplicate, partition, to, cells })
        }
        _ => return Err(inconsistent()),
    };
    let (partition, blocks) = match &part {
        Read::Commit(commit) => (commit.partition, &[][..]),
        Read::Job(partition, _, blocks) => (*partition, &blocks[..]),
        Read::Access(again) => (again.partition, again.block.as_slice()),
    };
    let is_known = partition < layout.partitions && blocks.iter().all(|b| *b < layout.blocks);
    if is_known { Ok(part) } else { Err(inconsistent()) }
}
