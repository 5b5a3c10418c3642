//! What an epoch changed, as sections of constant length for a checkpoint, and that epoch again.
//!
//! # The idea
//!
//! The metadata plane is deterministic: given what every slot of an epoch asked for and which fresh
//! leaves came of it, it evicts, reshuffles and places the same blocks in the same places, without
//! a payload and without I/O. So a delta does not list what changed in map, buckets and stash. It
//! is:
//!
//! 1. the counters at the end of the epoch: the version its images were written under, and figures
//!    that the replay has to arrive at;
//! 2. the *access log*: of every slot in the order of planning block, leaf read and fresh leaf;
//! 3. the values of the blocks that the log names and that are in the stash, the cached top of the
//!    tree included, at the end of the epoch. Whatever else is in the stash was there at its start,
//!    for evictions and reshuffles displace nothing (`evict`), and the values in buckets are in the
//!    cloud.
//!
//! | tag | section | bytes |
//! |---|---|---|
//! | 6 | format, opening, tick, evictions, round | fixed |
//! | 7 | count of batches; of each kind and count of slots, then the slots | 4 + 5 (R + 1) + 12 R b + 8 b_w |
//! | 8 | count, then (block id, value) | 4 + (4 + value bytes) * min(stash bound, R b + b_w) |
//!
//! A read slot is block id (all ones for a dummy), leaf read, fresh leaf (all ones if the address
//! held nothing); a write slot is block id (all ones for padding) and fresh leaf (all ones if
//! emptied).
//!
//! # Why it tells nothing
//!
//! - *Lengths.* R, b and b_w are public and so is the bound of the stash; every section is padded
//!   to a function of them. The log has a slot for every slot of a batch whether it was real or
//!   not, also in an epoch that a recovery repeated and filled up. The third section never holds
//!   more than one block a slot, by the argument above and not by luck.
//! - *Time.* Making a delta sorts and looks up every slot of the epoch, dummies too; that is a
//!   public number. What depends on secrets is how many values are copied, which is little beside
//!   sealing the padded section; and it leaves when the owner's departures are due, not when it is
//!   ready.
//! - *The trace.* Keeping the log sends nothing and draws nothing.

use fogbank_durable::{SectionReader, SectionWriter, take};

use super::bucket::mark;
use super::plan::{Planner, Request};
use super::{RingEngine, RingSettings};
use crate::checkpoint::{inconsistent, unpadded};
use crate::geometry::{BLOCK_ID_BYTES, Geometry};
use crate::position::Location;
use crate::stash::StashedBlock;
use crate::{Error, Result, Section};

const END: u16 = 6;
const ACCESSES: u16 = 7;
const ENTERED: u16 = 8;

const FORMAT: u32 = 1;
const READ_BATCH: u8 = 1;
const WRITE_BATCH: u8 = 2;
const BATCH_BYTES: usize = 1 + 4;
const READ_SLOT_BYTES: usize = 3 * 4;
const WRITE_SLOT_BYTES: usize = 2 * 4;
const NO_LEAF: u32 = u32::MAX;

/// The padded lengths of the sections of a delta, in bytes, in their order.
///
/// # Errors
/// [`Error::Caller`] for settings outside the limits.
pub fn delta_lengths(settings: &RingSettings) -> Result<[usize; 3]> {
    let geometry = settings.geometry()?;
    Ok([END_BYTES, log_bytes(settings), entered_bytes(&geometry, settings)])
}

const END_BYTES: usize = 4 + 4 + 8 + 8 + 4;

fn log_bytes(settings: &RingSettings) -> usize {
    let reads = settings.read_batches * settings.shape.read_batch;
    let batches = settings.read_batches + 1;
    let slots = READ_SLOT_BYTES * reads + WRITE_SLOT_BYTES * settings.shape.write_batch;
    4 + BATCH_BYTES * batches + slots
}

fn entered_max(geometry: &Geometry, settings: &RingSettings) -> usize {
    let accesses = settings.read_batches * settings.shape.read_batch + settings.shape.write_batch;
    accesses.min(geometry.stash_blocks_max() as usize)
}

fn entered_bytes(geometry: &Geometry, settings: &RingSettings) -> usize {
    4 + (4 + geometry.value_bytes) * entered_max(geometry, settings)
}

/// What a read slot asked for and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadSlot {
    pub block: u32,
    pub leaf: u32,
    /// Where the block is mapped now, if the address held one.
    pub fresh: Option<u32>,
}

/// What a write slot wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteSlot {
    pub block: u32,
    /// Where the block is mapped now, unless the address was emptied.
    pub fresh: Option<u32>,
}

/// A batch, slot by slot in the order of planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Batch {
    Reads(Vec<ReadSlot>),
    Writes(Vec<WriteSlot>),
}

/// The access log of the open epoch.
#[derive(Debug, Default)]
pub(super) struct EpochLog {
    batches: Vec<Batch>,
}

impl EpochLog {
    pub fn begin_reads(&mut self, slots: usize) {
        self.batches.push(Batch::Reads(Vec::with_capacity(slots)));
    }

    pub fn begin_writes(&mut self, slots: usize) {
        self.batches.push(Batch::Writes(Vec::with_capacity(slots)));
    }

    /// A slot of the read batch that was begun last.
    pub fn note_read(&mut self, request: &Request, fresh: Option<u32>) {
        if let Some(Batch::Reads(slots)) = self.batches.last_mut() {
            slots.push(ReadSlot { block: request.block, leaf: request.leaf, fresh });
        }
    }

    /// A slot of the write batch that was begun last.
    pub fn note_write(&mut self, block: u32, fresh: Option<u32>) {
        if let Some(Batch::Writes(slots)) = self.batches.last_mut() {
            slots.push(WriteSlot { block, fresh });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    fn read_batches(&self) -> usize {
        self.batches.iter().filter(|batch| matches!(batch, Batch::Reads(_))).count()
    }
}

/// Where an epoch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Opening and tick of the versions its images were written under.
    pub opening: u32,
    pub tick: u64,
    pub evictions: u64,
    pub round: u32,
}

/// A delta as it was read back.
#[derive(Debug)]
pub(super) struct Delta<'a> {
    pub end: End,
    pub batches: Vec<Batch>,
    /// Blocks and values.
    pub entered: Vec<(u32, &'a [u8])>,
}

impl RingEngine {
    /// Refuses a batch that the log of the epoch has no room for.
    pub(super) fn check_room(&self, reads: bool) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let read_batches = log.read_batches();
        let full = match reads {
            true => read_batches == self.settings.read_batches,
            false => read_batches < log.batches.len(),
        };
        if full {
            let most = self.settings.read_batches;
            let reason = format!("a logged epoch has {most} read batches and one write batch");
            return Err(Error::Caller(reason));
        }
        Ok(())
    }

    /// The delta of the epoch that has just been written back; the next one's log is empty. Nothing
    /// for an engine that keeps no log.
    pub(super) fn take_delta(&mut self) -> Result<Vec<Section>> {
        let Some(log) = &mut self.log else { return Ok(Vec::new()) };
        let batches = std::mem::take(&mut log.batches);
        if self.planner.displaced != 0 {
            return Err(Error::Bug("an eviction displaced a block that nobody accessed".into()));
        }
        let (opening, _) = self.keys.current();
        let log = encode(&batches);
        Ok(vec![
            unpadded(END, self.end(opening).encode()),
            padded(ACCESSES, log_bytes(&self.settings), log)?,
            self.save_entered(&batches)?,
        ])
    }

    /// Where the engine stands.
    pub(super) fn end(&self, opening: u32) -> End {
        let Planner { evictions, round, .. } = self.planner;
        End { opening, tick: self.tick, evictions, round }
    }

    fn save_entered(&self, batches: &[Batch]) -> Result<Section> {
        let padded_len = entered_bytes(&self.planner.geometry, &self.settings);
        let mut data = SectionWriter(Vec::with_capacity(padded_len));
        let entered = entered(&self.planner, batches);
        data.u32(entered.len() as u32);
        for held in entered {
            let Some(value) = self.slab.get(held.payload).get(BLOCK_ID_BYTES..) else {
                return Err(Error::Bug("a block of the stash has no payload".into()));
            };
            data.u32(held.block).raw(value);
        }
        padded(ENTERED, padded_len, data.0)
    }
}

/// The blocks that `batches` accessed and that are in the stash now, by rising id.
pub(super) fn entered(planner: &Planner, batches: &[Batch]) -> Vec<StashedBlock> {
    let mut blocks: Vec<u32> = Vec::new();
    for batch in batches {
        match batch {
            Batch::Reads(slots) => blocks.extend(slots.iter().map(|slot| slot.block)),
            Batch::Writes(slots) => blocks.extend(slots.iter().map(|slot| slot.block)),
        }
    }
    blocks.sort_unstable();
    blocks.dedup();
    let held = |block: u32| {
        let leaf = planner.positions.leaf(block)?;
        match planner.positions.location(block)? {
            Location::Stash { index } => planner.stash.bin_of(leaf).get(index as usize).copied(),
            Location::Bucket { .. } => None,
        }
    };
    blocks.into_iter().filter(|block| *block != mark::DUMMY).filter_map(held).collect()
}

fn padded(tag: u16, padded_len: usize, data: Vec<u8>) -> Result<Section> {
    if data.len() > padded_len {
        return Err(Error::Bug(format!("section {tag} of a delta is above its bound")));
    }
    Ok(Section { tag, padded_len, data })
}

impl End {
    fn encode(&self) -> Vec<u8> {
        let mut data = SectionWriter::default();
        data.u32(FORMAT).u32(self.opening).u64(self.tick).u64(self.evictions).u32(self.round);
        data.0
    }

    fn decode(data: &[u8]) -> Result<Self> {
        let mut data = SectionReader(data);
        if data.u32()? != FORMAT {
            return Err(Error::Caller("the delta has another format".into()));
        }
        let (opening, tick) = (data.u32()?, data.u64()?);
        Ok(Self { opening, tick, evictions: data.u64()?, round: data.u32()? })
    }
}

fn encode(batches: &[Batch]) -> Vec<u8> {
    let mut data = SectionWriter::default();
    data.u32(batches.len() as u32);
    for batch in batches {
        match batch {
            Batch::Reads(slots) => {
                data.u8(READ_BATCH).u32(slots.len() as u32);
                for ReadSlot { block, leaf, fresh } in slots {
                    data.u32(*block).u32(*leaf).u32(fresh.unwrap_or(NO_LEAF));
                }
            }
            Batch::Writes(slots) => {
                data.u8(WRITE_BATCH).u32(slots.len() as u32);
                for WriteSlot { block, fresh } in slots {
                    data.u32(*block).u32(fresh.unwrap_or(NO_LEAF));
                }
            }
        }
    }
    data.0
}

impl<'a> Delta<'a> {
    /// Reads a delta back; every block and leaf in it is one of `geometry`.
    pub fn decode(geometry: &Geometry, sections: &'a [Section]) -> Result<Self> {
        let end = End::decode(take(sections, END)?)?;
        let batches = decode(geometry, take(sections, ACCESSES)?)?;
        let mut entered = SectionReader(take(sections, ENTERED)?);
        let count = entered.u32()?;
        let blocks = (0..count).map(|_| Ok((entered.u32()?, entered.raw(geometry.value_bytes)?)));
        Ok(Self { end, batches, entered: blocks.collect::<Result<_>>()? })
    }
}

fn decode(geometry: &Geometry, data: &[u8]) -> Result<Vec<Batch>> {
    let mut data = SectionReader(data);
    let count = data.u32()?;
    (0..count).map(|_| decode_batch(geometry, &mut data)).collect()
}

fn decode_batch(geometry: &Geometry, data: &mut SectionReader<'_>) -> Result<Batch> {
    let (kind, slots) = (data.u8()?, data.u32()?);
    let block = |block: u32| {
        let known = block < geometry.capacity || block == mark::DUMMY;
        if known { Ok(block) } else { Err(inconsistent()) }
    };
    let leaf =
        |leaf: u32| if leaf < geometry.tree.leaves() { Ok(leaf) } else { Err(inconsistent()) };
    let fresh = |fresh: u32| (fresh != NO_LEAF).then(|| leaf(fresh)).transpose();
    match kind {
        READ_BATCH => {
            let slots = (0..slots).map(|_| {
                let (sought, read, now) = (data.u32()?, data.u32()?, data.u32()?);
                Ok(ReadSlot { block: block(sought)?, leaf: leaf(read)?, fresh: fresh(now)? })
            });
            Ok(Batch::Reads(slots.collect::<Result<_>>()?))
        }
        WRITE_BATCH => {
            let slots = (0..slots).map(|_| {
                let (written, now) = (data.u32()?, data.u32()?);
                Ok(WriteSlot { block: block(written)?, fresh: fresh(now)? })
            });
            Ok(Batch::Writes(slots.collect::<Result<_>>()?))
        }
        _ => Err(inconsistent()),
    }
}
