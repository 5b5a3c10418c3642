//! Levels as the cloud holds them: cells opened, whole levels sealed.
//!
//! Every cell of a message is verified before anything of it is used, dummies as well. A cell that
//! was never written is one of a store just made: its block holds zeros.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::compute;
use fogbank_seal::{KeyRing, Place, TAG_BYTES};
use fogbank_store::{ArrayId, ArrayShape, Cell as Stored, CellReads, ChunkName, ChunkWrite};
use rayon::prelude::*;

use super::job::{Image, JobPart};
use super::journal::{self, Part};
use super::layout::Layout;
use super::level::ANY;
use super::plane::{Cell, Images, PartitionPlane};
use super::reader::AccessPart;
use super::segment::array;
use super::settings::PartitionSettings;
use crate::geometry::{BLOCK_ID_BYTES, opening_of, tick_of};
use crate::immediate::plane::{Codec, Message, Reply, Request};
use crate::immediate::sequencer::Number;
use crate::{Error, Result, Unverified, miscounted};

/// What a dummy says its block is.
const DUMMY: u64 = u64::MAX;

/// What is asked for in one message.
#[derive(Debug)]
pub enum Asked {
    /// The cells of all accesses of a record.
    Accesses(Vec<AccessPart>),
    /// The cells of a job.
    Job(JobPart),
    /// Cells of quotas of this partition, whose values a checkpoint lacks.
    Lacking(u32, Vec<Cell>),
}

impl Asked {
    /// The cells in the order of the message, with their partitions.
    pub fn cells(&self) -> impl Iterator<Item = (u32, &Cell)> {
        let (accesses, job) = match self {
            Self::Accesses(parts) => (&parts[..], None),
            Self::Job(JobPart { partition, cells, .. }) | Self::Lacking(partition, cells) => {
                (&[][..], Some((*partition, cells)))
            }
        };
        let of_access = |part: &'_ AccessPart| part.partition;
        let asked = accesses.iter().flat_map(move |part| {
            let partition = of_access(part);
            part.cells.iter().map(move |cell| (partition, cell))
        });
        let read = job
            .into_iter()
            .flat_map(|(partition, cells)| cells.iter().map(move |cell| (partition, cell)));
        asked.chain(read)
    }

    /// The message. Cells of one chunk that follow each other are one read.
    pub fn message(&self, of: &Layout) -> Message {
        let mut reads = CellReads::default();
        let mut run: Option<(ChunkName, Vec<u16>)> = None;
        for (partition, cell) in self.cells() {
            let (name, at) = of.locate(partition, cell);
            match &mut run {
                Some((chunk, cells)) if *chunk == name && cells.last() < Some(&at) => {
                    cells.push(at);
                }
                run => {
                    if let Some((chunk, cells)) = run.replace((name, vec![at])) {
                        reads.push(chunk, cells);
                    }
                }
            }
        }
        if let Some((chunk, cells)) = run {
            reads.push(chunk, cells);
        }
        Message::Cells(reads)
    }
}

impl Request for Asked {
    /// Duplicates share their message with others.
    fn decoy(&self) -> Option<Number> {
        None
    }

    fn content(&self) -> u32 {
        let first = match self {
            Self::Accesses(parts) => parts.first().and_then(|part| part.block),
            Self::Job(part) => part.from_stash.first().copied(),
            Self::Lacking(..) => None,
        };
        first.unwrap_or(u32::MAX)
    }
}

/// The live blocks of a message, with their values.
pub type Opened = Vec<(u32, Bytes)>;

/// Seals and opens levels and records.
#[derive(Debug)]
pub struct PartitionCodec {
    keys: Arc<KeyRing>,
    pub settings: PartitionSettings,
    zeros: Bytes,
}

impl PartitionCodec {
    /// For a store of these settings.
    pub fn new(keys: Arc<KeyRing>, settings: PartitionSettings) -> Self {
        let zeros = vec![0; settings.shell.shape.value_bytes].into();
        Self { keys, settings, zeros }
    }

    /// Verifies a cell; its block and value, if it has to hold a live one, or happens to where that
    /// does not matter ([`ANY`]).
    fn open_cell(
        &self,
        (partition, cell): (u32, &Cell),
        stored: Stored,
    ) -> Result<Option<(u32, Bytes)>> {
        let (name, at) = self.settings.layout.locate(partition, cell);
        let lied = || Error::CloudLied(Unverified::Cell { chunk: name, cell: at });
        let sealed = match stored {
            // Nobody has written a store just made.
            Stored::NotWritten if tick_of(&name) == 0 => {
                let block = cell.block.filter(|block| *block != ANY);
                return Ok(block.map(|block| (block, self.zeros.clone())));
            }
            Stored::NotWritten => return Err(lied()),
            Stored::Bytes(bytes) if bytes.len() != self.settings.cell_bytes() => return Err(lied()),
            Stored::Bytes(bytes) => bytes,
        };
        let keys = self.keys.of(opening_of(&name)).ok_or_else(lied)?;
        let mut plaintext = vec![0; sealed.len() - TAG_BYTES];
        let opened = keys.cells().open(place(&name, at), &sealed, &mut plaintext);
        opened.map_err(|_| lied())?;
        let Some(block) = cell.block else { return Ok(None) };
        let id = plaintext.first_chunk::<BLOCK_ID_BYTES>().map(|id| u64::from_le_bytes(*id));
        let block = match (block, id) {
            (ANY, Some(DUMMY)) => return Ok(None),
            (ANY, Some(id)) => u32::try_from(id).ok(),
            (block, id) => (id == Some(u64::from(block))).then_some(block),
        };
        let block = block.ok_or_else(|| Error::Bug("a cell holds another block".into()))?;
        Ok(Some((block, Bytes::from(plaintext).slice(BLOCK_ID_BYTES..))))
    }

    /// A level, sealed cell by cell: its segments.
    fn seal_level(&self, partition: u32, image: Image) -> Vec<ChunkWrite> {
        let Image { level, version, cells } = image;
        let layout = &self.settings.layout;
        let names = layout.chunks(partition, level, version);
        let segments = cells.chunks(layout.segment(level).into());
        names.zip(segments).map(|(name, cells)| self.seal_chunk(name, cells)).collect()
    }

    fn seal_chunk(&self, name: ChunkName, cells: &[Option<(u32, Bytes)>]) -> ChunkWrite {
        let (_, keys) = self.keys.current();
        let cell_bytes = self.settings.cell_bytes();
        let mut data = vec![0; cells.len() * cell_bytes];
        let cells = data.par_chunks_exact_mut(cell_bytes).zip(cells).enumerate();
        cells.for_each(|(at, (bytes, held))| {
            let id = held.as_ref().map_or(DUMMY, |(block, _)| u64::from(*block));
            bytes[..BLOCK_ID_BYTES].copy_from_slice(&id.to_le_bytes());
            // Of a dummy zeros are copied: it takes as long.
            let value = held.as_ref().map_or(&self.zeros, |(_, value)| value);
            bytes[BLOCK_ID_BYTES..BLOCK_ID_BYTES + value.len()].copy_from_slice(value);
            keys.cells().seal(place(&name, at as u16), bytes);
        });
        ChunkWrite { chunk: name, data: data.into() }
    }
}

impl Codec<PartitionPlane> for PartitionCodec {
    fn arrays(&self) -> Vec<(ArrayId, ArrayShape)> {
        let layout = self.settings.layout;
        let array = |level| {
            let shape = ArrayShape {
                chunks: layout.partitions * layout.segments(level),
                cells_per_chunk: layout.segment(level),
                cell_bytes: self.settings.cell_bytes() as u32,
            };
            (array(level), shape)
        };
        layout.stored_levels().map(array).collect()
    }

    fn encode(&self, parts: &[Part], behind: usize) -> Vec<u8> {
        journal::encode(parts, behind as u16, self.settings.part_bytes())
    }

    fn open(&self, asked: &Asked, _: &Message, reply: Reply) -> Result<Opened> {
        let Reply::Cells(stored) = reply else {
            return Err(Error::Bug("levels are read by their cells".into()));
        };
        let cells: Vec<(u32, &Cell)> = asked.cells().collect();
        if stored.len() != cells.len() {
            return Err(miscounted(stored.len(), cells.len()));
        }
        let opened = compute(|| {
            let opened = cells.into_par_iter().zip(stored);
            opened.map(|(cell, stored)| self.open_cell(cell, stored)).collect::<Vec<_>>()
        });
        // The first that failed in the order of the message, not of the cores.
        opened.into_iter().filter_map(Result::transpose).collect()
    }

    fn seal(&self, Images { partition, images }: Images) -> (u32, Vec<ChunkWrite>) {
        let seal = |image| compute(|| self.seal_level(partition, image));
        let sealed = images.into_iter().flat_map(seal);
        (partition, sealed.collect())
    }

    fn reply_bytes(&self, message: &Message) -> u64 {
        match message {
            Message::Cells(reads) => (reads.cell_count() * self.settings.cell_bytes()) as u64,
            Message::Chunks(_) => 0,
        }
    }
}

/// The AEAD is bound to level, partition, segment and generation: all are in the nonce or the key.
fn place(name: &ChunkName, cell: u16) -> Place {
    Place { array: name.array.0 as u8, chunk: name.chunk, cell, tick: tick_of(name) }
}
