//! Chunk versions as items: an item a cell, and one that says that the version is there.
//!
//! Writing: 1. the item that says so is put, only if it is not there yet; 2. then all cells, 25 a
//! request. If it was there, the cells that are there are compared: others mean that the caller
//! gave one version two contents; none or the same, that an earlier try got so far, and it is done
//! to its end. So a write can be tried again blindly, and what a crash left behind is listed and
//! can be deleted.
//!
//! Deleting goes the other way round: first the cells, then the item that says that they are there.
//!
//! Reading cells: 100 a request, each once, in the order of the call. A chunk version of which a
//! cell is missing was not written.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use fogbank_store::shape::rewritten;
use fogbank_store::{
    ArrayId, ArrayShape, Cell, CellReads, ChunkName, ChunkWrite, PlaceMap, Result, StoreError,
};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::chunks::{Writing, of_shard, without_repetitions};
use crate::dynamo::keys::{Key, Keys};
use crate::dynamo::table::{Change, Condition, ItemsMax, Put, Table};
use crate::names::SHARDS;
use crate::retry::Twice;

/// The cells of a store.
pub(crate) struct Chunks<'a> {
    pub table: &'a Table,
    pub keys: &'a Keys,
    pub requests_max: usize,
    pub writing: &'a Writing,
}

impl Chunks<'_> {
    /// All cells of `reads`, which fit their arrays; `shape_of` knows these.
    pub(crate) async fn read_cells(
        &self,
        reads: &CellReads,
        shape_of: impl Fn(ChunkName) -> ArrayShape,
    ) -> Result<Vec<Cell>> {
        let mut places: PlaceMap<ChunkName, HashMap<u16, Vec<usize>>> = PlaceMap::default();
        let mut wanted: Vec<(Key, usize, Vec<usize>)> = Vec::with_capacity(reads.cell_count());
        let mut index = 0;
        for read in reads.iter() {
            for &cell in read.cells {
                let cells = places.entry(read.chunk).or_default().entry(cell).or_default();
                if cells.is_empty() {
                    let bytes = shape_of(read.chunk).cell_bytes as usize;
                    wanted.push((self.keys.cell(read.chunk, cell), bytes, Vec::new()));
                    cells.push(wanted.len() - 1);
                }
                wanted[cells[0]].2.push(index);
                index += 1;
            }
        }
        let batches = batches(wanted, GETS_AT_ONCE, |(_, bytes, _)| *bytes);
        let asked = batches.into_iter().map(|batch| async move {
            let keys = batch.iter().map(|(key, ..)| key.clone()).collect();
            let found = self.table.get_many(keys).await.map_err(StoreError::from)?;
            Ok::<_, StoreError>((batch, found))
        });
        let mut answered = stream::iter(asked).buffer_unordered(self.requests_max);
        let mut reply = vec![Cell::NotWritten; reads.cell_count()];
        while let Some((batch, mut found)) = answered.try_next().await? {
            for (key, length, indices) in batch {
                let Some(bytes) = found.remove(&key) else { continue };
                if bytes.len() != length {
                    return Err(StoreError::Misbehaved("a cell of another length".into()));
                }
                for index in indices {
                    reply[index] = Cell::Bytes(bytes.clone());
                }
            }
        }
        Ok(reply)
    }

    /// Reads one whole; `None` where it was not written.
    pub(crate) async fn read(&self, name: ChunkName, shape: ArrayShape) -> Result<Option<Bytes>> {
        let cells = self.cells(name, shape).await?;
        if cells.len() < usize::from(shape.cells_per_chunk) {
            return Ok(None);
        }
        let mut whole = BytesMut::with_capacity(shape.chunk_bytes());
        cells.iter().for_each(|(_, bytes)| whole.extend_from_slice(bytes));
        Ok(Some(whole.freeze()))
    }

    /// The cells of a chunk version that are there, in order.
    async fn cells(&self, name: ChunkName, shape: ArrayShape) -> Result<Vec<(u16, Bytes)>> {
        let most = ItemsMax::Refuse(shape.cells_per_chunk.into());
        let bytes = Some(shape.cell_bytes as usize);
        let found = self.table.query(&self.keys.cells(name), "", bytes, most).await?;
        let cells = found.into_iter().map(|(sort, bytes)| {
            let cell = Keys::parse_cell(&sort).filter(|&cell| cell < shape.cells_per_chunk);
            let fits = bytes.len() == shape.cell_bytes as usize;
            cell.filter(|_| fits).map(|cell| (cell, bytes)).ok_or_else(|| {
                StoreError::Misbehaved("the items of a chunk version are not its cells".into())
            })
        });
        cells.collect()
    }

    /// Writes all of `writes`, which fit their arrays.
    pub(crate) async fn write(
        &self,
        writes: Vec<ChunkWrite>,
        shape_of: impl Fn(ChunkName) -> ArrayShape,
    ) -> Result<()> {
        let writes = without_repetitions(writes)?;
        let say = async |write: &ChunkWrite, shape| {
            let _place = self.writing.take(1).await;
            self.say(write, shape).await
        };
        let said: Vec<_> = writes.iter().map(|write| say(write, shape_of(write.chunk))).collect();
        stream::iter(said).buffer_unordered(self.requests_max).try_collect::<()>().await?;
        let mut changes = Vec::new();
        for ChunkWrite { chunk, data } in writes {
            let length = shape_of(chunk).cell_bytes as usize;
            for cell in 0..shape_of(chunk).cells_per_chunk {
                let start = usize::from(cell) * length;
                let bytes = data.slice(start..start + length);
                changes.push(Change::Put(self.keys.cell(chunk, cell), bytes));
            }
        }
        self.change_in_turn(changes, Some(self.writing)).await
    }

    /// Puts the item that says that a chunk version is there.
    async fn say(&self, write: &ChunkWrite, shape: ArrayShape) -> Result<()> {
        let key = self.keys.chunk(write.chunk);
        let put = self.table.put(&key, HashMap::new(), Condition::IfAbsent, Twice::Harmless);
        if let Put::Done(_) = put.await? {
            return Ok(());
        }
        let length = shape.cell_bytes as usize;
        let there = self.cells(write.chunk, shape).await?;
        let same = |&(cell, ref bytes): &(u16, Bytes)| {
            let start = usize::from(cell) * length;
            write.data[start..start + length] == bytes[..]
        };
        if there.iter().all(same) { Ok(()) } else { Err(rewritten(write.chunk)) }
    }

    /// Deletes chunk versions of arrays that `shape_of` knows.
    pub(crate) async fn delete(
        &self,
        chunks: &[ChunkName],
        shape_of: impl Fn(ChunkName) -> Option<ArrayShape>,
    ) -> Result<()> {
        let (mut cells, mut said) = (Vec::new(), Vec::new());
        for &name in chunks {
            let Some(shape) = shape_of(name).filter(|shape| shape.check_chunk(name).is_ok()) else {
                continue;
            };
            let of_chunk = (0..shape.cells_per_chunk).map(|cell| self.keys.cell(name, cell));
            cells.extend(of_chunk.map(Change::Delete));
            said.push(Change::Delete(self.keys.chunk(name)));
        }
        self.change(cells).await?;
        self.change(said).await
    }

    pub(crate) async fn change(&self, changes: Vec<Change>) -> Result<()> {
        self.change_in_turn(changes, None).await
    }

    async fn change_in_turn(&self, changes: Vec<Change>, turn: Option<&Writing>) -> Result<()> {
        let bytes = |change: &Change| match change {
            Change::Put(_, bytes) => bytes.len(),
            Change::Delete(_) => 0,
        };
        let batches = batches(changes, CHANGES_AT_ONCE, bytes);
        let change = async |batch| {
            let _place = match turn {
                Some(writing) => writing.take(1).await,
                None => None,
            };
            self.table.change_many(batch).await
        };
        let made: Vec<_> = batches.into_iter().map(change).collect();
        let mut made = stream::iter(made).buffer_unordered(self.requests_max);
        while made.try_next().await?.is_some() {}
        Ok(())
    }

    /// The versions of all chunks of `array`, sixteen queries side by side.
    pub(crate) async fn list(&self, array: ArrayId, shape: ArrayShape) -> Result<Vec<ChunkName>> {
        let most = ItemsMax::LeaveOut(of_shard(shape).listed_max());
        let shards = (0..SHARDS).map(|shard| async move {
            let partition = self.keys.shard(array, shard);
            let items = self.table.query(&partition, "", None, most).await?;
            let names = items.iter().filter_map(|(sort, _)| Keys::parse_chunk(array, sort));
            Ok::<_, StoreError>(
                names.filter(|name| name.chunk % SHARDS == shard).collect::<Vec<_>>(),
            )
        });
        let listed: Vec<_> = stream::iter(shards).buffered(SHARDS as usize).try_collect().await?;
        Ok(listed.concat())
    }
}

/// `items` in batches of at most `at_once` that stay below what a request may hold, so that none is
/// left over for its length.
pub(crate) fn batches<T>(
    items: Vec<T>,
    at_once: usize,
    bytes: impl Fn(&T) -> usize,
) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::with_capacity(items.len() / at_once + 1);
    let mut held = usize::MAX;
    for item in items {
        let length = bytes(&item) + KEY_BYTES_MAX;
        let full = batches.last().is_none_or(|batch| batch.len() == at_once);
        if full || held + length > BATCH_BYTES_MAX {
            batches.push(Vec::new());
            held = 0;
        }
        held += length;
        if let Some(batch) = batches.last_mut() {
            batch.push(item);
        }
    }
    batches
}

/// Keys of a BatchGetItem.
pub(crate) const GETS_AT_ONCE: usize = 100;
/// Changes of a BatchWriteItem.
const CHANGES_AT_ONCE: usize = 25;
/// A batch may have 16 MB either way.
const BATCH_BYTES_MAX: usize = 15_000_000;
/// No key of ours is longer, with the names of attributes.
pub(crate) const KEY_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_so_many_items_and_no_more_bytes_than_a_request_may() {
        let lengths = |items: Vec<usize>, at_once| {
            let batches = batches(items, at_once, |&bytes| bytes);
            batches.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(lengths(vec![500; 250], 100), [100, 100, 50]);
        assert_eq!(lengths(vec![400_000; 100], 100), [37, 37, 26]);
        assert_eq!(lengths(vec![400_000; 30], 25), [25, 5]);
        assert!(lengths(Vec::new(), 25).is_empty());
    }
}
