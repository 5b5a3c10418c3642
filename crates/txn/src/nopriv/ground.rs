//! Where records lie: an array of places of one block each, the content of which is never changed.
//! A record that is written takes new places; those it had are deleted when nobody can want them
//! any more.

use bytes::Bytes;
use fogbank_oram::Address;
use fogbank_store::{
    ArrayId, ArrayShape, Cell, CellReads, ChunkName, ChunkWrite, Store, StoreError,
};

use crate::core::pad;
use crate::directory::Blocks;
use crate::error::{Error, Result};

/// An array that no engine has.
const ARRAY: ArrayId = ArrayId(0x4E50);

/// Free places, and how often each was used.
pub(super) struct Ground {
    block_bytes: usize,
    free: Vec<u32>,
    versions: Vec<u32>,
}

impl Ground {
    /// An array of `capacity` blocks, and as many again for what is written and not yet deleted.
    pub(super) async fn create(
        store: &dyn Store,
        capacity: u32,
        block_bytes: usize,
    ) -> std::result::Result<Self, StoreError> {
        let chunks = capacity.saturating_mul(2);
        let shape = ArrayShape { chunks, cells_per_chunk: 1, cell_bytes: block_bytes as u32 };
        store.create_array(ARRAY, shape).await?;
        let free = (0..chunks).rev().collect();
        Ok(Self { block_bytes, free, versions: vec![0; chunks as usize] })
    }

    /// Takes places for a value; what is to be written there.
    pub(super) fn take(&mut self, value: &Bytes) -> Result<(Blocks, Vec<ChunkWrite>)> {
        let count = value.len().div_ceil(self.block_bytes);
        let first = self.free.len().checked_sub(count).ok_or(Error::OutOfSpace)?;
        let blocks: Blocks = self.free.drain(first..).map(Address).collect();
        let mut writes = Vec::with_capacity(count);
        for (address, block) in blocks.iter().zip(value.chunks(self.block_bytes)) {
            self.versions[address.0 as usize] += 1;
            writes.push(ChunkWrite {
                chunk: self.name(*address),
                data: pad(block, self.block_bytes),
            });
        }
        Ok((blocks, writes))
    }

    /// What is at these places now.
    pub(super) fn names(&self, blocks: &Blocks) -> impl Iterator<Item = ChunkName> {
        blocks.iter().map(|address| self.name(*address))
    }

    /// Nobody wants what is there any more.
    pub(super) fn give_up(&mut self, places: &[ChunkName]) {
        self.free.extend(places.iter().map(|place| place.chunk));
    }

    /// Adds the read of a value's blocks.
    pub(super) fn ask(&self, blocks: &Blocks, reads: &mut CellReads) {
        blocks.iter().for_each(|address| reads.push(self.name(*address), [0]));
    }

    fn name(&self, address: Address) -> ChunkName {
        let version = u64::from(self.versions[address.0 as usize]);
        ChunkName { array: ARRAY, chunk: address.0, version }
    }
}

/// The value of `len` bytes whose `count` blocks come next.
pub(super) fn value_of(
    cells: &mut impl Iterator<Item = Cell>,
    count: usize,
    len: usize,
) -> Option<Bytes> {
    let blocks: Option<Vec<Bytes>> = cells
        .take(count)
        .map(|cell| match cell {
            Cell::Bytes(bytes) => Some(bytes),
            Cell::NotWritten => None,
        })
        .collect();
    crate::core::join(&blocks?, count, len)
}
