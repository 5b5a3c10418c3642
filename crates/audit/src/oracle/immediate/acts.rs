//! What leaves next, of a program that knows nothing but what the cloud knows: see
//! [`crate::oracle::simulator`].

use fogbank_store::trace::Request;
use fogbank_store::{ArrayId, ChunkName};

use super::checkpoints::Due;
use super::{Immediate, Part, Plane, Stage, Waiting};
use crate::oracle::chain::Next;
use crate::oracle::immediate::stored::TICK_BITS;

/// Something that the proxy does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// A request leaves. What is put or written has its length and no bytes yet; a commit record
    /// that replaces one has no tag.
    Sends(Request),
    /// A mark of this number says what no message shows.
    Says(&'static str, u64),
    /// A client is answered: his connection, and which of his requests.
    Answers(u32, u64),
}

/// What lists have shown.
#[derive(Debug, Default)]
pub(in crate::oracle) struct Listed {
    pub blobs: Vec<String>,
    pub chunks: Vec<ChunkName>,
}

/// What is asked of a plane whose acts are made.
pub(in crate::oracle) trait Acting: Plane {
    /// A message of cells that leaves now, or a mark of one; what is free in it is drawn.
    fn next_read(&mut self) -> Option<Act>;
    /// What is done now of what else is its own.
    fn next_own(&mut self) -> Option<Act>;
    /// How many parts a record has that is due, or that `ends` what was begun.
    fn parts_due(&self, ends: bool) -> usize;
    /// Whether this version counts.
    fn counts(&self, name: &ChunkName) -> bool;
}

impl<P: Acting> Immediate<P> {
    /// What is done now: the first of what may be.
    pub(in crate::oracle) fn next_act(&mut self, listed: &Listed) -> Option<Act> {
        let read = self.next_message();
        let own = read.or_else(|| self.is_open().then(|| self.plane.next_own()).flatten());
        own.or_else(|| self.next_request(listed).map(Act::Sends))
    }

    /// A message of cells that leaves now: it does before anything else is decided.
    pub(in crate::oracle) fn next_message(&mut self) -> Option<Act> {
        if self.is_open() { self.plane.next_read() } else { None }
    }

    fn is_open(&self) -> bool {
        self.stage != Stage::Opening && self.stage != Stage::Ended
    }

    /// What leaves now of what every engine has.
    fn next_request(&mut self, listed: &Listed) -> Option<Request> {
        self.decide_deletions();
        self.recovered();
        match self.stage {
            Stage::Opening => self.next_call(listed),
            Stage::Replaying | Stage::Ended => None,
            Stage::SweepList if self.waiting.is_empty() => {
                let (array, _) = self.plane.array(self.listed.0)?;
                Some(Request::ListChunks { array: ArrayId(array) })
            }
            Stage::SweepDelete(_) if self.waiting.is_empty() => {
                let opening = u64::from(self.chain.opening());
                let is_left = |name: &&ChunkName| {
                    name.version >> TICK_BITS < opening && !self.plane.counts(name)
                };
                let mut chunks: Vec<_> = listed.chunks.iter().filter(is_left).copied().collect();
                chunks.sort_unstable();
                Some(Request::DeleteChunks { chunks })
            }
            Stage::SweepList | Stage::SweepDelete(_) => None,
            Stage::Recovering | Stage::Serving | Stage::Closing => {
                self.cut_if_due();
                self.next_of_checkpoint().or_else(|| self.next_record())
            }
        }
    }

    /// The owner asks for nothing more: what was begun comes to its end, then the store is closed.
    pub(in crate::oracle) fn closes(&mut self) {
        self.has_departed = true;
        self.was_quiet = self.plane.is_quiet();
        if !self.may_end_begun() {
            self.close_if_idle();
        }
    }

    fn next_call(&self, listed: &Listed) -> Option<Request> {
        let is_journal = |one: &Waiting<P::Part>| matches!(one.lane, Part::Journal(_));
        let reads_on = self.chain.asks() && self.waiting.iter().all(is_journal);
        if !self.waiting.is_empty() && !reads_on {
            return None;
        }
        match self.chain.next {
            Next::Array => {
                let (array, shape) = self.plane.array(self.arrays)?;
                Some(Request::CreateArray { array: ArrayId(array), shape })
            }
            _ => self.chain.due(&listed.blobs),
        }
    }

    fn next_of_checkpoint(&self) -> Option<Request> {
        let deletion = self.deletions.iter().find(|one| !one.under_way);
        match (self.due(), deletion) {
            (Some(Due::Piece(piece)), _) => Some(self.chain.due_piece(piece)),
            (Some(Due::Commit), _) => Some(self.chain.due_commit()),
            (_, Some(one)) if !one.blobs.is_empty() => {
                Some(Request::BlobDelete { names: one.blobs.clone() })
            }
            (_, Some(one)) => Some(Request::DeleteChunks { chunks: one.chunks.clone()? }),
            _ => None,
        }
    }

    fn next_record(&self) -> Option<Request> {
        let ends = self.may_end_begun();
        let serves = self.stage == Stage::Serving && !self.has_departed && !self.cut_due;
        let may_leave = serves && self.has_place() && self.plane.may_record();
        let parts = if ends || may_leave { self.plane.parts_due(ends) } else { 0 };
        (parts > 0).then(|| self.chain.due_record(parts))
    }
}
