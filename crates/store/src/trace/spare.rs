//! Memory of events that were looked at, for those to come: a long trace has a thousand million cells,
//! and each would be an allocation of its own.

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
}

impl Spare {
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
