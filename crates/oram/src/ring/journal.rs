//! Records of what is about to be read, and reading exactly that again.
//!
//! A proxy that dies after asking for cells must, when it recovers, ask for exactly the same cells:
//! other dummies on the same path would show where the block was. What a batch reads is a function
//! of the last committed state and of (block, leaf) of every request; so that is the record, and it
//! has one size, whatever its kind. A write batch reads what the evictions due in it read, which
//! needs no more than the fact that it began; zeros make its record as long as the others.
//!
//! Paper: Obladi section 8; the exact replay is what its security argument asks for.

use super::RingEngine;
use super::bucket::mark;
use super::plan::Request;
use crate::batch::Replayed;
use crate::{Error, Result};

const READ_BATCH: u8 = 1;
const WRITE_BATCH: u8 = 2;
const REQUEST_BYTES: usize = 8;

/// The record of a read batch: kind, then (block, leaf) of every request in the order of planning.
pub(super) fn read_record(requests: &[Request]) -> Vec<u8> {
    let mut record = Vec::with_capacity(record_bytes(requests.len()));
    record.push(READ_BATCH);
    for request in requests {
        record.extend(request.block.to_le_bytes());
        record.extend(request.leaf.to_le_bytes());
    }
    record
}

/// The record of a write batch, as long as that of a batch of `read_batch` requests.
pub(super) fn write_record(read_batch: usize) -> Vec<u8> {
    let mut record = vec![0; record_bytes(read_batch)];
    record[0] = WRITE_BATCH;
    record
}

/// Bytes of every journal record of a store whose read batches have `read_batch` slots.
pub fn record_bytes(read_batch: usize) -> usize {
    1 + read_batch * REQUEST_BYTES
}

impl RingEngine {
    /// See [`crate::RecoverableEngine::replay`]. Blocks found get fresh leaves.
    pub(super) async fn repeat_batch(&mut self, record: &[u8]) -> Result<Replayed> {
        if record.len() != record_bytes(self.settings.shape.read_batch) {
            return Err(not_a_record());
        }
        let requests = match record {
            [WRITE_BATCH, zeros @ ..] if zeros.iter().all(|byte| *byte == 0) => None,
            [READ_BATCH, requests @ ..] => Some(self.parse(requests)?),
            _ => return Err(not_a_record()),
        };
        self.check_room(requests.is_some())?;
        self.begin()?;
        let result = match requests {
            Some(requests) => self.read_paths_of(&requests, 0, None).await.map(|_| Replayed::Reads),
            None => self.write_slots(Vec::new(), None).await.map(|()| Replayed::Writes),
        };
        self.finish(result)
    }

    fn parse(&self, requests: &[u8]) -> Result<Vec<Request>> {
        let requests = requests.chunks_exact(REQUEST_BYTES).map(|bytes| {
            let number = |at: usize| {
                bytes[at..].first_chunk().map_or(u32::MAX, |number| u32::from_le_bytes(*number))
            };
            Request { block: number(0), leaf: number(4), reply: u32::MAX }
        });
        let requests: Vec<Request> = requests.collect();
        let geometry = &self.planner.geometry;
        let known = |r: &Request| {
            (r.block < geometry.capacity || r.block == mark::DUMMY)
                && r.leaf < geometry.tree.leaves()
        };
        if requests.iter().all(known) { Ok(requests) } else { Err(not_a_record()) }
    }
}

fn not_a_record() -> Error {
    Error::Caller("not a journal record of this store".into())
}
