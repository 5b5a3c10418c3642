//! Changing an array: only while it is owned, so one at a time, whatever the number of handles.
//!
//! The invariants are those of [`super::array`]; the order of the steps here is what keeps them.

use std::os::unix::fs::FileExt;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::array::ArrayFile;
use super::disk::{failed, still_named};
use super::frames::{Frame, Header, Record, record_offset};
use super::index::Place;
use super::scan::Scan;
use crate::shape::rewritten;
use crate::{ChunkName, ChunkWrite, Result, StoreError};

/// What only the owner needs.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// Frames that may be used, the lowest last.
    free: Vec<u32>,
    /// Frames that may be used after the next barrier.
    freed: Vec<u32>,
    /// Frames from here on were never used.
    end: u32,
    /// The epoch of what is written now.
    epoch: u32,
}

/// The array while it is ours: no other thread or process changes it.
pub(super) struct Owned<'a> {
    array: &'a ArrayFile,
    owner: MutexGuard<'a, Owner>,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        let _ = self.array.frames.unlock(); // a lock that stays ends with the handle
    }
}

impl<'a> Owned<'a> {
    /// Wraps both locks, which the caller holds.
    pub(super) fn new(array: &'a ArrayFile, owner: MutexGuard<'a, Owner>) -> Self {
        Self { array, owner }
    }
}

impl Owned<'_> {
    /// Writes chunk versions that fit the shape: all their bytes, then their records.
    pub(super) fn write(&mut self, writes: &[ChunkWrite]) -> Result<()> {
        let fresh = self.not_there(writes)?;
        self.array.dirty.store(true, Ordering::Release);
        let placed = self.place(&fresh)?;
        if let Err(error) = self.write_cells(&fresh, &placed) {
            self.owner.free.extend(placed.iter().rev().map(|place| place.frame));
            return Err(error);
        }
        let epoch = self.owner.epoch;
        let mut records: Vec<(u32, Frame)> = placed
            .iter()
            .zip(&fresh)
            .map(|(place, write)| {
                let (chunk, version) = (place.chunk, place.version);
                let fingerprint = xxh3_64(&write.data);
                (place.frame, Frame::Live(Record { chunk, version, epoch, fingerprint }))
            })
            .collect();
        self.write_records(&mut records)?;
        let mut index = self.array.index.write();
        placed.into_iter().for_each(|place| index.insert(place));
        Ok(())
    }

    /// Deletes those of `names` that are there.
    pub(super) fn delete(&mut self, names: &[ChunkName]) -> Result<()> {
        let index = self.array.index();
        let found = names.iter().filter_map(|name| index.find(name.chunk, name.version));
        let mut records: Vec<_> = found.map(|frame| (frame, Frame::Free)).collect();
        drop(index);
        records.sort_unstable_by_key(|&(frame, _)| frame);
        records.dedup_by_key(|&mut (frame, _)| frame); // a name given twice is freed once
        if records.is_empty() {
            return Ok(());
        }
        self.array.dirty.store(true, Ordering::Release);
        self.write_records(&mut records)?;
        self.owner.freed.extend(records.iter().map(|&(frame, _)| frame));
        let mut index = self.array.index.write();
        names.iter().for_each(|name| index.remove(name.chunk, name.version));
        Ok(())
    }

    /// Makes everything written before durable; what was freed before may then be used again.
    pub(super) fn barrier(&mut self) -> Result<()> {
        let array = self.array;
        let epoch = self.owner.epoch;
        // Before anything is called durable: what nobody can open again is not kept.
        still_named(&array.cells, &array.cells_path())?;
        still_named(&array.frames, &array.frames_path())?;
        array.sync(&array.cells, array.cells_path())?;
        let turn = array.turn.load(Ordering::Acquire);
        array.write_header(Header { epoch, turn, dropped: false })?;
        array.sync(&array.frames, array.frames_path())?;
        array.dirty.store(false, Ordering::Release);
        self.owner.epoch = next_epoch(epoch)?;
        // Before any of the freed frames can be used: readers that looked them up look again.
        array.generation.fetch_add(1, Ordering::AcqRel);
        let freed = std::mem::take(&mut self.owner.freed);
        self.owner.free.extend(freed);
        self.owner.free.sort_unstable_by(|a, b| b.cmp(a)); // low frames first: runs, a short file
        Ok(())
    }

    /// Marks the array as dropped for every handle that has it open.
    pub(super) fn mark_dropped(&mut self) -> Result<()> {
        let turn = self.array.turn.load(Ordering::Acquire);
        self.array.write_header(Header { epoch: 0, turn, dropped: true })
    }

    /// The writes whose versions are not there yet, each once. One that is there must be the same.
    fn not_there<'w>(&self, writes: &'w [ChunkWrite]) -> Result<Vec<&'w ChunkWrite>> {
        let index = self.array.index();
        let mut fresh: Vec<&ChunkWrite> = Vec::with_capacity(writes.len());
        let mut seen: HashTable<&ChunkWrite> = HashTable::with_capacity(writes.len());
        for write in writes {
            let name = write.chunk;
            let key = index.hash(name.chunk, name.version);
            if let Some(frame) = index.find(name.chunk, name.version) {
                let mut there = vec![0; write.data.len()];
                self.array.read_frame(frame, 0, &mut there)?;
                if there != write.data {
                    return Err(rewritten(name));
                }
            } else if let Some(twin) = seen.find(key, |other| other.chunk == name) {
                if twin.data != write.data {
                    return Err(rewritten(name));
                }
            } else {
                seen.insert_unique(key, write, |w| index.hash(w.chunk.chunk, w.chunk.version));
                fresh.push(write);
            }
        }
        Ok(fresh)
    }

    /// A frame for each write.
    fn place(&mut self, writes: &[&ChunkWrite]) -> Result<Vec<Place>> {
        let owner = &mut *self.owner;
        let beyond = writes.len().saturating_sub(owner.free.len());
        if u32::try_from(beyond).ok().and_then(|more| owner.end.checked_add(more)).is_none() {
            return Err(StoreError::Caller(format!("array {} is full", self.array.id.0)));
        }
        let place = |write: &&ChunkWrite| {
            let frame = owner.free.pop().unwrap_or_else(|| {
                owner.end += 1;
                owner.end - 1
            });
            Place { version: write.chunk.version, chunk: write.chunk.chunk, frame }
        };
        Ok(writes.iter().map(place).collect())
    }

    fn write_cells(&self, writes: &[&ChunkWrite], placed: &[Place]) -> Result<()> {
        let array = self.array;
        for (write, place) in writes.iter().zip(placed) {
            let at = u64::from(place.frame) * array.frame_bytes;
            let written = array.cells.write_all_at(&write.data, at);
            written.map_err(|error| failed("write", &array.cells_path(), &error))?;
        }
        Ok(())
    }

    /// Writes records, neighbours in one go. If it fails, nobody knows which of them are there:
    /// the array is given up, and the next to come reads it again.
    fn write_records(&mut self, records: &mut [(u32, Frame)]) -> Result<()> {
        records.sort_unstable_by_key(|&(frame, _)| frame);
        let mut run = Vec::new();
        for neighbours in records.chunk_by(|a, b| a.0 + 1 == b.0) {
            run.clear();
            neighbours.iter().for_each(|(frame, state)| run.extend(state.encode(*frame)));
            let written = self.array.frames.write_all_at(&run, record_offset(neighbours[0].0));
            if let Err(error) = written {
                self.array.turn.store(0, Ordering::Release);
                return Err(failed("write", &self.array.frames_path(), &error));
            }
        }
        Ok(())
    }

    /// Rebuilds the index from the records and makes the array ours.
    pub(super) fn take_over(&mut self, header: Header) -> Result<()> {
        let array = self.array;
        array.turn.store(0, Ordering::Release);
        array.generation.fetch_add(1, Ordering::AcqRel);
        let mut scan = Scan::read(array, header.epoch)?;
        // Before a barrier calls their epoch closed, the records that do not count must say so.
        let mut lost: Vec<_> = scan.lost.iter().map(|&frame| (frame, Frame::Free)).collect();
        self.write_records(&mut lost)?;
        scan.free.append(&mut scan.lost);
        if !scan.free.is_empty() {
            // What the last owner freed may not be durable yet, and from here on it is used.
            array.sync(&array.frames, array.frames_path())?;
        }
        scan.free.sort_unstable_by(|a, b| b.cmp(a));
        let epoch = next_epoch(header.epoch)?;
        *self.owner = Owner { free: scan.free, freed: Vec::new(), end: scan.end, epoch };
        array.dirty.store(scan.unproven, Ordering::Release);
        *array.index.write() = scan.index;
        let turn = header.turn + 1;
        array.write_header(Header { turn, ..header })?;
        array.turn.store(turn, Ordering::Release);
        Ok(())
    }
}

/// The epoch after `epoch`. It never wraps: that would make old records look like new ones.
fn next_epoch(epoch: u32) -> Result<u32> {
    epoch.checked_add(1).ok_or_else(|| StoreError::Caller("the array has no epochs left".into()))
}
