//! Memory of events that were looked at, for those to come: a long trace has a thousand million
//! cells, and each would be an allocation of its own.

use super::event::{ChunkCells, ChunkSeen, Done, Event, Outcome, Request, Sent};
use crate::ChunkName;

/// Empty lists that have been longer.
#[derive(Debug, Default)]
pub(super) struct Spare {
    pub reads: Vec<Vec<ChunkCells>>,
    pub writes: Vec<Vec<(ChunkName, ChunkSeen)>>,
    pub replies: Vec<Vec<Option<ChunkSeen>>>,
    pub cells: Vec<Vec<u16>>,
    pub fingerprints: Vec<Vec<u64>>,
    budget: Budget,
}

/// What may still be decoded, counted in cells: any item of a list is one, and so is a text and
/// every 32 bytes of it. Some cells take no byte of their own, and an empty name takes one and
/// becomes 24: without a bound a few damaged or hostile bytes would fill the memory.
#[derive(Debug, Default)]
struct Budget {
    event: usize,
    block: usize,
}

impl Spare {
    /// A block begins: what it may hold is not used yet.
    pub fn begin_block(&mut self) {
        self.budget.block = BLOCK_CELLS_MAX;
    }

    /// An event begins.
    pub fn begin_event(&mut self) {
        self.budget.event = EVENT_CELLS_MAX;
    }

    /// Takes so many cells from what the event and its block may hold; `None` if that is too
    /// little.
    pub fn claim(&mut self, cells: usize) -> Option<()> {
        self.budget.event = self.budget.event.checked_sub(cells)?;
        self.budget.block = self.budget.block.checked_sub(cells)?;
        Some(())
    }

    /// How many cells the event may still hold.
    pub fn left(&self) -> usize {
        self.budget.event.min(self.budget.block)
    }

    /// Takes the lists of `event`.
    pub fn take_back(&mut self, event: Event) {
        match event {
            Event::Sent(Sent { request, .. }) => self.take_request(request),
            Event::Done(Done { outcome: Outcome::Cells(mut cells), .. }) => {
                for seen in cells.drain(..).flatten() {
                    keep(&mut self.fingerprints, seen.fingerprints);
                }
                keep(&mut self.replies, cells);
            }
            _ => {}
        }
    }

    fn take_request(&mut self, request: Request) {
        match request {
            Request::ReadCells { mut reads } | Request::ReadXor { mut reads, .. } => {
                for read in reads.drain(..) {
                    keep(&mut self.cells, read.cells);
                }
                keep(&mut self.reads, reads);
            }
            Request::WriteChunks { mut writes } => {
                for (_, seen) in writes.drain(..) {
                    keep(&mut self.fingerprints, seen.fingerprints);
                }
                keep(&mut self.writes, writes);
            }
            _ => {}
        }
    }
}

fn keep<T>(spare: &mut Vec<Vec<T>>, mut list: Vec<T>) {
    if spare.len() < KEPT_MAX {
        list.clear();
        spare.push(list);
    }
}

/// More are not kept of one kind. Any of them may have grown to the longest list.
const KEPT_MAX: usize = 1 << 13;
/// Cells of an event: a message of the engines names fewer than 2^18.
pub(super) const EVENT_CELLS_MAX: usize = 1 << 22;
/// Cells of a block. Honest ones have at most 16 a byte, and a block little more than 2^16 bytes.
pub(super) const BLOCK_CELLS_MAX: usize = 1 << 23;
/// Bytes of a text that count as one cell.
pub(super) const TEXT_BYTES_A_CELL: usize = 32;
