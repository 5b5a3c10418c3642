//! Bytes of a trace as events: the mirror of `encode.rs`.
//!
//! Any byte may be wrong: `None` says so. Memory is reserved only for what is really there, and for
//! no more than an event may hold (`spare.rs`).

use super::encode::*;
use super::event::{
    Blame, ChunkCells, ChunkSeen, Client, Condition, Done, Event, Heard, LogCall, Mark, Outcome,
    Request, Sent,
};
use super::spare::{Spare, TEXT_BYTES_A_CELL};
use super::wire::{Bytes, NO_NAME};
use crate::{ArrayId, ArrayShape, ChunkName};

/// Where the reader is within a block: what the next event counts from.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    pub(super) at: u64,
    pub(super) next_id: u64,
}

impl Bytes<'_> {
    pub(super) fn event(&mut self, position: &mut Position, spare: &mut Spare) -> Option<Event> {
        spare.begin_event();
        let kind = self.byte()?;
        position.at = position.at.checked_add(self.varint()?)?;
        let at = position.at;
        Some(match kind {
            KIND_DONE => {
                let id = position.next_id.checked_sub(self.varint()?)?;
                Event::Done(Done { id, at, outcome: self.outcome(spare)? })
            }
            KIND_MARK => Event::Mark(Mark { at, number: self.varint()?, label: self.text(spare)? }),
            KIND_CLIENT_REQUEST => Event::ClientRequest(self.client(at)?),
            KIND_CLIENT_REPLY => Event::ClientReply(self.client(at)?),
            KIND_HEARD => Event::Heard(Heard {
                id: position.next_id.checked_sub(self.varint()?)?,
                at,
                place: self.varint()?,
                is_result: match self.byte()? {
                    flag @ (0 | 1) => flag == 1,
                    _ => return None,
                },
                bytes: self.varint()?,
                fingerprint: self.u64()?,
            }),
            operation => {
                let cloud = self.byte()?;
                let connection = self.varint()?.try_into().ok()?;
                let request = self.request(operation, spare)?;
                let id = position.next_id;
                position.next_id = id.checked_add(1)?;
                Event::Sent(Sent { id, at, cloud, connection, request })
            }
        })
    }

    fn client(&mut self, at: u64) -> Option<Client> {
        let connection = self.varint()?.try_into().ok()?;
        Some(Client { at, connection, number: self.varint()?, bytes: self.varint()? })
    }

    fn request(&mut self, kind: u8, spare: &mut Spare) -> Option<Request> {
        Some(match kind {
            0 => Request::CreateArray {
                array: self.array()?,
                shape: ArrayShape {
                    chunks: self.varint()?.try_into().ok()?,
                    cells_per_chunk: self.varint()?.try_into().ok()?,
                    cell_bytes: self.varint()?.try_into().ok()?,
                },
            },
            1 => Request::DropArray { array: self.array()? },
            2 => Request::ReadCells { reads: self.reads(spare)? },
            3 => Request::ReadChunks { chunks: self.names(spare)? },
            4 => Request::WriteChunks { writes: self.writes(spare)? },
            5 => Request::DeleteChunks { chunks: self.names(spare)? },
            6 => Request::ListChunks { array: self.array()? },
            7 => Request::BlobGet { name: self.text(spare)? },
            8 => Request::BlobPut {
                name: self.text(spare)?,
                bytes: self.varint()?,
                fingerprint: self.u64()?,
                condition: match self.byte()? {
                    0 => Condition::Always,
                    1 => Condition::IfAbsent,
                    2 => Condition::IfUnchanged(self.text(spare)?),
                    _ => return None,
                },
            },
            9 => {
                let count = self.claimed(1, spare)?;
                Request::BlobDelete {
                    names: (0..count).map(|_| self.text(spare)).collect::<Option<_>>()?,
                }
            }
            10 => Request::BlobList { prefix: self.text(spare)? },
            11 => Request::Barrier,
            12 => {
                let reads = self.reads(spare)?;
                let count = self.claimed(1, spare)?;
                let end = |_| self.varint()?.try_into().ok();
                Request::ReadXor { reads, groups: (0..count).map(end).collect::<Option<_>>()? }
            }
            KIND_APPEND => Request::Log(LogCall::Append {
                session: self.varint()?.try_into().ok()?,
                turn: self.varint()?,
                bytes: self.varint()?,
                fingerprint: self.u64()?,
            }),
            KIND_PUBLISH => Request::Log(LogCall::Publish {
                place: self.varint()?,
                bytes: self.varint()?,
                fingerprint: self.u64()?,
            }),
            KIND_FOLLOW => Request::Log(LogCall::Follow { from: self.varint()? }),
            KIND_FORGET => Request::Log(LogCall::Forget { before: self.varint()? }),
            _ => return None,
        })
    }

    /// A number of items, which the event may still hold.
    fn claimed(&mut self, item_bytes: usize, spare: &mut Spare) -> Option<usize> {
        let count = self.count(item_bytes)?;
        spare.claim(count)?;
        Some(count)
    }

    fn text(&mut self, spare: &mut Spare) -> Option<String> {
        let length = self.count(1)?;
        spare.claim(1 + length / TEXT_BYTES_A_CELL)?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    fn array(&mut self) -> Option<ArrayId> {
        Some(ArrayId(self.varint()?.try_into().ok()?))
    }

    fn reads(&mut self, spare: &mut Spare) -> Option<Vec<ChunkCells>> {
        let (count, mut last) = (self.count(4)?, NO_NAME);
        let mut reads = spare.reads.pop().unwrap_or_default();
        for _ in 0..count {
            let chunk = self.name(&mut last)?;
            let most = spare.left();
            let cells = self.cells(spare.cells.pop().unwrap_or_default(), most)?;
            spare.claim(cells.len().max(1))?;
            reads.push(ChunkCells { chunk, cells });
        }
        Some(reads)
    }

    fn names(&mut self, spare: &mut Spare) -> Option<Vec<ChunkName>> {
        let (count, mut last) = (self.claimed(3, spare)?, NO_NAME);
        (0..count).map(|_| self.name(&mut last)).collect()
    }

    fn writes(&mut self, spare: &mut Spare) -> Option<Vec<(ChunkName, ChunkSeen)>> {
        let (count, mut last) = (self.claimed(5, spare)?, NO_NAME);
        let mut writes = spare.writes.pop().unwrap_or_default();
        for _ in 0..count {
            writes.push((self.name(&mut last)?, self.seen(spare)?));
        }
        Some(writes)
    }

    fn seen(&mut self, spare: &mut Spare) -> Option<ChunkSeen> {
        let bytes = self.varint()?;
        let count = self.count(8)?;
        Some(ChunkSeen { bytes, fingerprints: self.fingerprints(count, spare)? })
    }

    fn fingerprints(&mut self, count: usize, spare: &mut Spare) -> Option<Vec<u64>> {
        let mut fingerprints = spare.fingerprints.pop().unwrap_or_default();
        let bytes = self.take(count.checked_mul(8)?)?;
        let each = bytes.chunks_exact(8).filter_map(|bytes| bytes.first_chunk());
        fingerprints.extend(each.map(|bytes| u64::from_le_bytes(*bytes)));
        Some(fingerprints)
    }

    fn outcome(&mut self, spare: &mut Spare) -> Option<Outcome> {
        Some(match self.byte()? {
            OUTCOME_DONE => Outcome::Done,
            OUTCOME_CELLS => Outcome::Cells(self.cells_seen(false, spare)?),
            OUTCOME_CELLS_ALIKE => Outcome::Cells(self.cells_seen(true, spare)?),
            OUTCOME_CHUNKS => {
                let count = self.claimed(1, spare)?;
                let mut chunks = Vec::with_capacity(count);
                for _ in 0..count {
                    chunks.push(match self.byte()? {
                        0 => None,
                        1 => Some(self.seen(spare)?),
                        _ => return None,
                    });
                }
                Outcome::Chunks(chunks)
            }
            OUTCOME_LISTED => Outcome::Listed(self.varint()?),
            OUTCOME_NO_BLOB => Outcome::Blob(None),
            OUTCOME_BLOB => Outcome::Blob(Some(self.seen(spare)?)),
            OUTCOME_NOT_PUT => Outcome::Put(false),
            OUTCOME_PUT => Outcome::Put(true),
            OUTCOME_BLOBS_LISTED => Outcome::BlobsListed(self.varint()?),
            OUTCOME_ABSENT => Outcome::Failed(Blame::Absent),
            OUTCOME_MISBEHAVED => Outcome::Failed(Blame::Misbehaved),
            OUTCOME_CALLER => Outcome::Failed(Blame::Caller),
            OUTCOME_ABANDONED => Outcome::Abandoned,
            OUTCOME_PLACED => Outcome::Placed(self.varint()?.checked_sub(1)),
            _ => return None,
        })
    }

    fn cells_seen(&mut self, alike: bool, spare: &mut Spare) -> Option<Vec<Option<ChunkSeen>>> {
        let fingerprints = match self.byte()? {
            flag @ (0 | 1) => flag == 1,
            _ => return None,
        };
        // Cells all alike and without fingerprints take no bytes each: only the budget bounds them.
        let count = match (alike, fingerprints) {
            (true, false) => self.varint()?.try_into().ok()?,
            (true, true) => self.count(8)?,
            (false, _) => self.count(1)?,
        };
        spare.claim(count)?;
        let common = if alike { self.varint()?.checked_add(1)? } else { 0 };
        let mut cells = spare.replies.pop().unwrap_or_default();
        cells.reserve(count);
        for _ in 0..count {
            let length = if alike { common } else { self.varint()? };
            cells.push(match length.checked_sub(1) {
                None => None,
                Some(bytes) => {
                    let fingerprints = match fingerprints {
                        true => self.fingerprints(1, spare)?,
                        false => Vec::new(),
                    };
                    Some(ChunkSeen { bytes, fingerprints })
                }
            });
        }
        Some(cells)
    }
}
