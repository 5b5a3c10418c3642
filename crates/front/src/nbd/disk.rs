//! The disk: ranges of bytes over the blocks of an engine.
//!
//! 1. A range is cut into pieces of so many blocks.
//! 2. A piece waits until so many accesses more may be under way, first of its connection, then of
//!    all. Both queues are in the order of arrival, and a request joins them again for every piece:
//!    so a long one cannot keep a short one waiting for more than a piece of each request.
//! 3. Every block of the piece is one access, of its part that lies in the range. Whether it reads
//!    or writes makes no difference to their count or order.
//! 4. Their room is given back when the engine has answered them, whatever became of the request.

use super::export::Export;
use super::limits::Limits;
use super::reply::{Outcome, Refusal};
use super::span::{Part, Span};
use bytes::Bytes;
use fogbank_oram::{Access, Address, Error, ImmediateEngine, Ticket};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// An engine as a disk.
pub struct Disk {
    engine: Arc<dyn ImmediateEngine>,
    block_bytes: u64,
    /// A block of them.
    zeros: Bytes,
    piece_blocks: u32,
    accesses_max: u32,
    accesses: Arc<Semaphore>,
    /// That the engine has stopped was said.
    lamented: AtomicBool,
}

impl Disk {
    /// A client has taken the disk, and has it for as long as this is kept.
    pub fn attend(&self) -> Box<dyn Send + Sync> {
        self.engine.attend()
    }

    /// The disk over `engine`.
    pub fn new(engine: Arc<dyn ImmediateEngine>, limits: &Limits) -> Self {
        let shape = engine.shape();
        let all = limits.all_accesses_max.max(1);
        let accesses_max = limits.accesses_max.clamp(1, all);
        Self {
            engine,
            block_bytes: (shape.value_bytes as u64).max(1),
            zeros: Bytes::from(vec![0; shape.value_bytes]),
            // A piece that is larger than its room would wait for ever.
            piece_blocks: limits.piece_blocks.clamp(1, accesses_max),
            accesses_max,
            accesses: Arc::new(Semaphore::new(all as usize)),
            lamented: AtomicBool::new(false),
        }
    }

    /// How clients see it.
    pub fn export(&self, name: String, limits: &Limits, read_only: bool, trim: bool) -> Export {
        Export {
            name,
            size: u64::from(self.engine.shape().capacity).saturating_mul(self.block_bytes),
            block_bytes: self.block_bytes,
            payload_bytes_max: limits.payload_bytes_max,
            read_only,
            trim,
        }
    }

    /// The way of one connection to it.
    pub fn lane(self: &Arc<Self>) -> Lane {
        let accesses = Arc::new(Semaphore::new(self.accesses_max as usize));
        Lane { disk: self.clone(), accesses }
    }

    /// The pieces in which the bytes of a write are taken in: those in which it is carried out.
    pub fn pieces(&self, span: Span) -> impl Iterator<Item = Span> {
        span.pieces(self.block_bytes, self.piece_blocks)
    }

    /// Bytes that a request for `span` holds until its reply has left: those of a read, which has
    /// whole blocks.
    pub fn held_bytes(&self, span: Span) -> u64 {
        span.blocks(self.block_bytes).saturating_mul(self.block_bytes)
    }

    /// Whatever an engine says, the client hears one thing.
    fn refusal(&self, error: &Error) -> Refusal {
        if !self.lamented.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "the disk fails: its engine has stopped");
        }
        Refusal::Stopped
    }
}

/// The way of one connection to the disk.
#[derive(Clone)]
pub struct Lane {
    disk: Arc<Disk>,
    accesses: Arc<Semaphore>,
}

impl Lane {
    /// The bytes of `span`.
    pub async fn read(&self, span: Span) -> Outcome {
        self.carry_out(span, |_| Access::Read, |part, block| Some(block.slice(part.bytes))).await
    }

    /// Puts `payload` there, which is `span` long and cut as [`Disk::pieces`] says.
    pub async fn write(&self, span: Span, payload: Vec<Bytes>) -> Outcome {
        let mut pieces = payload.into_iter();
        let mut rest = Bytes::new();
        let patch = move |part: &Part| {
            if rest.is_empty() {
                rest = pieces.next().unwrap_or_default();
            }
            let bytes = rest.split_to(part.bytes.len().min(rest.len()));
            Access::Write { offset: part.bytes.start as u32, bytes }
        };
        self.carry_out(span, patch, |_, _| None).await
    }

    /// Makes it zeros.
    pub async fn zero(&self, span: Span) -> Outcome {
        let zeros = self.disk.zeros.clone();
        let patch = move |part: &Part| Access::Write {
            offset: part.bytes.start as u32,
            bytes: zeros.slice(..part.bytes.len()),
        };
        self.carry_out(span, patch, |_, _| None).await
    }

    /// The client is lost: what was submitted goes on, and nothing more is.
    pub fn close(&self) {
        self.accesses.close();
    }

    /// Carries out `access_of` every block of `span`, and gives what `keep` keeps of the answers.
    async fn carry_out(
        &self,
        span: Span,
        mut access_of: impl FnMut(&Part) -> Access,
        keep: fn(Part, Bytes) -> Option<Bytes>,
    ) -> Outcome {
        let mut kept = Vec::new();
        let mut under_way: VecDeque<JoinHandle<Outcome>> = VecDeque::new();
        let mut pieces = self.disk.pieces(span).peekable();
        while let Some(piece) = pieces.next() {
            let answers = self.submit(piece, &mut access_of).await?.answers(keep);
            if pieces.peek().is_none() && under_way.is_empty() {
                // Most requests are one piece, and need no task beside their own.
                kept.append(&mut answers.await?);
                return Ok(kept);
            }
            // A task of its own gives the room back even while this request waits for more.
            under_way.push_back(tokio::spawn(answers));
            while under_way.front().is_some_and(JoinHandle::is_finished) {
                let Some(done) = under_way.pop_front() else { break };
                kept.append(&mut joined(done).await?);
            }
        }
        for piece in under_way {
            kept.append(&mut joined(piece).await?);
        }
        Ok(kept)
    }

    /// Submits a piece when there is room for it.
    async fn submit(
        &self,
        piece: Span,
        access_of: &mut impl FnMut(&Part) -> Access,
    ) -> Result<Piece, Refusal> {
        let disk = &self.disk;
        // It fits: a piece has at most so many blocks.
        let blocks = piece.blocks(disk.block_bytes) as u32;
        let own = self.accesses.clone().acquire_many_owned(blocks).await;
        let all = disk.accesses.clone().acquire_many_owned(blocks).await;
        let (Ok(own), Ok(all)) = (own, all) else { return Err(Refusal::Stopped) };
        let submit = |part: Part| {
            // It fits: the capacity does.
            let ticket = disk.engine.submit(Address(part.block as u32), access_of(&part));
            (part, ticket)
        };
        let tickets = piece.parts(disk.block_bytes).map(submit).collect();
        Ok(Piece { disk: disk.clone(), tickets, _room: [own, all] })
    }
}

/// Accesses that are under way.
struct Piece {
    disk: Arc<Disk>,
    tickets: Vec<(Part, Ticket)>,
    _room: [OwnedSemaphorePermit; 2],
}

impl Piece {
    async fn answers(self, keep: fn(Part, Bytes) -> Option<Bytes>) -> Outcome {
        let mut kept = Vec::new();
        let mut failed = None;
        // All of them, even after a failure: the room is theirs until then.
        for (part, ticket) in self.tickets {
            match ticket.await {
                Ok(block) if block.len() as u64 == self.disk.block_bytes => {
                    kept.extend(keep(part, block));
                }
                Ok(block) => {
                    let what = format!("the engine answered {} bytes for a block", block.len());
                    failed = Some(self.disk.refusal(&Error::Bug(what)));
                }
                Err(error) => failed = Some(self.disk.refusal(&error)),
            }
        }
        failed.map_or(Ok(kept), Err)
    }
}

async fn joined(piece: JoinHandle<Outcome>) -> Outcome {
    piece.await.unwrap_or(Err(Refusal::Stopped))
}
