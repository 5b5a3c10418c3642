//! Calls and replies as bytes of a trace, written straight from what passes: nothing is built
//! first.
//!
//! The order of fields is drawn in `docs/trace-format.md`; `decode.rs` is its mirror.

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::event::LogCall;
use super::fingerprint::Fingerprints;
use super::split::Shown;
use super::wire::{NO_NAME, put_bytes, put_cells, put_name, put_varint};
use crate::{
    ArrayId, Call, Cell, CellReads, ChunkName, Operation, PutCondition, PutOutcome, Reply,
    StoreError,
};

/// What the calling side knows of cells.
pub(super) trait Cells: Sync {
    /// Bytes of a cell, if it saw the array made.
    fn cell_bytes(&self, array: ArrayId) -> Option<usize>;
    /// What of a cell is fingerprinted.
    fn fingerprints(&self) -> Fingerprints;
}

/// The arguments of `call`.
pub(super) fn put_call(out: &mut Vec<u8>, call: &Call<'_>, shapes: &impl Cells) {
    match call {
        Call::CreateArray(array, shape) => {
            put_varint(out, u64::from(array.0));
            put_varint(out, u64::from(shape.chunks));
            put_varint(out, u64::from(shape.cells_per_chunk));
            put_varint(out, u64::from(shape.cell_bytes));
        }
        Call::DropArray(array) | Call::ListChunks(array) => put_varint(out, u64::from(array.0)),
        Call::ReadCells(reads) => put_reads(out, reads),
        Call::ReadXor(reads, groups) => {
            put_reads(out, reads);
            put_varint(out, groups.len() as u64);
            groups.iter().for_each(|&end| put_varint(out, u64::from(end)));
        }
        Call::ReadChunks(chunks) | Call::DeleteChunks(chunks) => {
            put_varint(out, chunks.len() as u64);
            let mut last = NO_NAME;
            chunks.iter().for_each(|&name| put_name(out, &mut last, name));
        }
        Call::WriteChunks(writes) => {
            put_varint(out, writes.len() as u64);
            let bytes = writes.iter().map(|write| write.data.len()).sum();
            put_each(out, writes, bytes, |out, at, write| {
                let mut last = at.checked_sub(1).map_or(NO_NAME, |before| writes[before].chunk);
                put_name(out, &mut last, write.chunk);
                put_seen(out, &write.data, shapes.cell_bytes(write.chunk.array), shapes);
            });
        }
        Call::BlobGet(name) | Call::BlobList(name) => put_bytes(out, name.as_bytes()),
        Call::BlobPut(name, data, condition) => {
            put_blob(out, name, data.len() as u64, xxh3_64(data));
            match condition {
                PutCondition::Always => out.push(PUT_ALWAYS),
                PutCondition::IfAbsent => out.push(1),
                PutCondition::IfUnchanged(tag) => {
                    out.push(2);
                    put_bytes(out, tag.0.as_bytes());
                }
            }
        }
        Call::BlobDelete(names) => {
            put_varint(out, names.len() as u64);
            names.iter().for_each(|name| put_bytes(out, name.as_bytes()));
        }
        Call::Barrier => {}
    }
}

/// The arguments of the request as which a message stands in a trace.
pub(super) fn put_shown(out: &mut Vec<u8>, shown: &Shown) {
    match shown {
        Shown::Said { name, bytes, fingerprint } => {
            put_blob(out, name, *bytes, *fingerprint);
            out.push(PUT_ALWAYS);
        }
        Shown::Cells { chunk, seen } => {
            put_varint(out, 1);
            put_name(out, &mut { NO_NAME }, *chunk);
            put_varint(out, seen.bytes);
            put_varint(out, seen.fingerprints.len() as u64);
            seen.fingerprints.iter().for_each(|print| out.extend_from_slice(&print.to_le_bytes()));
        }
    }
}

fn put_blob(out: &mut Vec<u8>, name: &str, bytes: u64, fingerprint: u64) {
    put_bytes(out, name.as_bytes());
    put_varint(out, bytes);
    out.extend_from_slice(&fingerprint.to_le_bytes());
}

/// The kind of the event of a call to the log.
pub(super) fn log_kind(call: &LogCall) -> u8 {
    match call {
        LogCall::Append { .. } => KIND_APPEND,
        LogCall::Publish { .. } => KIND_PUBLISH,
        LogCall::Follow { .. } => KIND_FOLLOW,
        LogCall::Forget { .. } => KIND_FORGET,
    }
}

/// The arguments of a call to the log.
pub(super) fn put_log_call(out: &mut Vec<u8>, call: &LogCall) {
    match *call {
        LogCall::Append { session, turn, bytes, fingerprint } => {
            put_varint(out, u64::from(session));
            put_varint(out, turn);
            put_varint(out, bytes);
            out.extend_from_slice(&fingerprint.to_le_bytes());
        }
        LogCall::Publish { place, bytes, fingerprint } => {
            put_varint(out, place);
            put_varint(out, bytes);
            out.extend_from_slice(&fingerprint.to_le_bytes());
        }
        LogCall::Follow { from: place } | LogCall::Forget { before: place } => {
            put_varint(out, place);
        }
    }
}

/// What came back from a call to the log.
pub(super) fn put_log_reply(out: &mut Vec<u8>, reply: &Result<Placed, StoreError>) {
    match reply {
        Ok(Placed::At(place)) => {
            out.push(OUTCOME_PLACED);
            put_varint(out, place.map_or(0, |place| place + 1));
        }
        Ok(Placed::Done) => out.push(OUTCOME_DONE),
        Err(error) => put_failure(out, error),
    }
}

/// What the log answers a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Placed {
    /// The place of an entry, if it is still known.
    At(Option<u64>),
    /// Nothing to say.
    Done,
}

fn put_failure(out: &mut Vec<u8>, error: &StoreError) {
    out.push(match error {
        StoreError::Absent(_) | StoreError::Refused(_) | StoreError::Near(_) => OUTCOME_ABSENT,
        StoreError::Misbehaved(_) => OUTCOME_MISBEHAVED,
        StoreError::Caller(_) | StoreError::NoArray(_) => OUTCOME_CALLER,
    });
}

fn put_reads(out: &mut Vec<u8>, reads: &CellReads) {
    put_varint(out, reads.len() as u64);
    let mut last = NO_NAME;
    for read in reads.iter() {
        put_name(out, &mut last, read.chunk);
        put_cells(out, read.cells);
    }
}

/// A length and one fingerprint a cell; over everything at once where cells are not known.
fn put_seen(out: &mut Vec<u8>, data: &[u8], cell_bytes: Option<usize>, shapes: &impl Cells) {
    put_varint(out, data.len() as u64);
    let known = cell_bytes.filter(|&cell| !data.is_empty() && data.len().is_multiple_of(cell));
    let cell_bytes = known.unwrap_or(data.len()).max(1);
    let count = (data.len() / cell_bytes).max(1);
    put_varint(out, count as u64);
    let room = put_room(out, count);
    if data.is_empty() {
        room.copy_from_slice(&shapes.fingerprints().of(data).to_le_bytes());
    }
    shapes.fingerprints().write(data.chunks_exact(cell_bytes), room);
}

/// Room at the end of `out` for so many fingerprints.
fn put_room(out: &mut Vec<u8>, count: usize) -> &mut [u8] {
    let start = out.len();
    out.resize(start + count * 8, 0);
    &mut out[start..]
}

/// What came back from a call, which asked for `chunks` if it was a read of whole chunks.
pub(super) fn put_reply(
    out: &mut Vec<u8>,
    reply: &Result<Reply, StoreError>,
    chunks: &[ChunkName],
    shapes: Option<&impl Cells>,
) {
    match reply {
        Ok(Reply::Done) => out.push(OUTCOME_DONE),
        Ok(Reply::Cells(cells)) => put_cells_seen(out, cells, shapes),
        Ok(Reply::Chunks(read)) => {
            out.push(OUTCOME_CHUNKS);
            put_varint(out, read.len() as u64);
            let bytes = read.iter().flatten().map(|data| data.len()).sum();
            put_each(out, read, bytes, |out, at, data| {
                out.push(u8::from(data.is_some()));
                match (data, shapes) {
                    (None, _) => {}
                    (Some(data), None) => {
                        put_varint(out, data.len() as u64);
                        put_varint(out, 0);
                    }
                    (Some(data), Some(shapes)) => {
                        let cell_bytes = chunks.get(at).map(|name| shapes.cell_bytes(name.array));
                        put_seen(out, data, cell_bytes.flatten(), shapes);
                    }
                }
            });
        }
        Ok(Reply::Names(names)) => {
            out.push(OUTCOME_LISTED);
            put_varint(out, names.len() as u64);
        }
        Ok(Reply::Blob(None)) => out.push(OUTCOME_NO_BLOB),
        Ok(Reply::Blob(Some((data, _)))) => {
            out.push(OUTCOME_BLOB);
            put_varint(out, data.len() as u64);
            put_varint(out, 1);
            out.extend_from_slice(&xxh3_64(data).to_le_bytes());
        }
        Ok(Reply::Put(PutOutcome::Done(_))) => out.push(OUTCOME_PUT),
        Ok(Reply::Put(PutOutcome::ConditionFailed)) => out.push(OUTCOME_NOT_PUT),
        Ok(Reply::BlobNames(names)) => {
            out.push(OUTCOME_BLOBS_LISTED);
            put_varint(out, names.len() as u64);
        }
        Err(error) => put_failure(out, error),
    }
}

/// Cells are the many: a length once if all are alike, else one each.
fn put_cells_seen(out: &mut Vec<u8>, cells: &[Cell], shapes: Option<&impl Cells>) {
    let length = |cell: &Cell| bytes_of(cell).map(<[u8]>::len);
    let common = cells.first().and_then(length);
    let alike = common.is_some() && cells.iter().all(|cell| length(cell) == common);
    out.push(if alike { OUTCOME_CELLS_ALIKE } else { OUTCOME_CELLS });
    out.push(u8::from(shapes.is_some()));
    put_varint(out, cells.len() as u64);
    let fingerprints = shapes.map(Cells::fingerprints);
    if alike {
        let common = common.unwrap_or_default();
        put_varint(out, common as u64);
        if let Some(fingerprints) = fingerprints {
            write_each(put_room(out, cells.len()), cells, common * cells.len(), fingerprints);
        }
        return;
    }
    for cell in cells {
        put_varint(out, length(cell).map_or(0, |bytes| bytes as u64 + 1));
        if let (Some(bytes), Some(fingerprints)) = (bytes_of(cell), fingerprints) {
            out.extend_from_slice(&fingerprints.of(bytes).to_le_bytes());
        }
    }
}

fn bytes_of(cell: &Cell) -> Option<&[u8]> {
    match cell {
        Cell::Bytes(bytes) => Some(bytes),
        Cell::NotWritten => None,
    }
}

/// Writes the fingerprints of `cells`, all of which are there and of `bytes` in all, to `room`; on
/// all cores where these are many.
fn write_each(room: &mut [u8], cells: &[Cell], bytes: usize, fingerprints: Fingerprints) {
    if bytes < PARALLEL_BYTES_MIN {
        fingerprints.write(cells.iter().filter_map(bytes_of), room);
        return;
    }
    let runs = cells.par_chunks(RUN_CELLS).zip(room.par_chunks_mut(RUN_CELLS * 8));
    runs.for_each(|(cells, room)| fingerprints.write(cells.iter().filter_map(bytes_of), room));
}

/// Appends every item; on all cores where there are many bytes to fingerprint. The result is the
/// same either way: `put` depends on the item and its index alone.
fn put_each<T: Sync>(
    out: &mut Vec<u8>,
    items: &[T],
    bytes: usize,
    put: impl Fn(&mut Vec<u8>, usize, &T) + Sync,
) {
    if bytes < PARALLEL_BYTES_MIN {
        items.iter().enumerate().for_each(|(at, item)| put(out, at, item));
        return;
    }
    let parts = 4 * rayon::current_num_threads();
    let part_items = items.len().div_ceil(parts).max(1);
    let encoded: Vec<Vec<u8>> = items
        .par_chunks(part_items)
        .enumerate()
        .map(|(part, items)| {
            let mut out = Vec::new();
            let first = part * part_items;
            items.iter().enumerate().for_each(|(at, item)| put(&mut out, first + at, item));
            out
        })
        .collect();
    encoded.iter().for_each(|part| out.extend_from_slice(part));
}

const PUT_ALWAYS: u8 = 0;

/// Fingerprinting less than this is done before another thread has woken.
const PARALLEL_BYTES_MIN: usize = 1 << 20;
/// Cells that a thread fingerprints at once.
const RUN_CELLS: usize = 256;

/// The kind of the event of a request.
pub(super) fn kind(operation: Operation) -> u8 {
    match operation {
        Operation::CreateArray => 0,
        Operation::DropArray => 1,
        Operation::ReadCells => 2,
        Operation::ReadChunks => 3,
        Operation::WriteChunks => 4,
        Operation::DeleteChunks => 5,
        Operation::ListChunks => 6,
        Operation::BlobGet => 7,
        Operation::BlobPut => 8,
        Operation::BlobDelete => 9,
        Operation::BlobList => 10,
        Operation::Barrier => 11,
        Operation::ReadXor => 12,
    }
}

pub(super) const KIND_APPEND: u8 = 13;
pub(super) const KIND_PUBLISH: u8 = 14;
pub(super) const KIND_FOLLOW: u8 = 15;
pub(super) const KIND_FORGET: u8 = 16;

pub(super) const KIND_DONE: u8 = 32;
pub(super) const KIND_MARK: u8 = 33;
pub(super) const KIND_CLIENT_REQUEST: u8 = 34;
pub(super) const KIND_CLIENT_REPLY: u8 = 35;
pub(super) const KIND_HEARD: u8 = 36;

pub(super) const OUTCOME_DONE: u8 = 0;
pub(super) const OUTCOME_CELLS: u8 = 1;
pub(super) const OUTCOME_CELLS_ALIKE: u8 = 2;
pub(super) const OUTCOME_CHUNKS: u8 = 3;
pub(super) const OUTCOME_LISTED: u8 = 4;
pub(super) const OUTCOME_NO_BLOB: u8 = 5;
pub(super) const OUTCOME_BLOB: u8 = 6;
pub(super) const OUTCOME_NOT_PUT: u8 = 7;
pub(super) const OUTCOME_PUT: u8 = 8;
pub(super) const OUTCOME_BLOBS_LISTED: u8 = 9;
pub(super) const OUTCOME_ABSENT: u8 = 10;
pub(super) const OUTCOME_MISBEHAVED: u8 = 11;
pub(super) const OUTCOME_CALLER: u8 = 12;
pub(super) const OUTCOME_ABANDONED: u8 = 13;
pub(super) const OUTCOME_PLACED: u8 = 14;
