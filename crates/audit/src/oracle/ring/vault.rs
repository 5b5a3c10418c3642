//! An engine in a vault: every call in its turn, the vault's and the engine's.
//!
//! All calls are paced: each leaves at the first multiple of the quantum that is half a quantum
//! past the end of the one before, but for the first of a batch, which has its point of the grid,
//! and the first of an opening and of a closing, which leave at a multiple that is chosen by
//! whoever wants them.

use fogbank_env::Nanos;
use fogbank_store::ChunkName;
use fogbank_store::trace::{Blame, Done, Outcome, Request};

use super::blob::{JOURNAL, Kept};
use super::chain::{Chain, Collect, Next};
use super::fault::{Step, fault};
use super::replies::{Expected, Reply};
use super::{Ring, Stop, Waiting};
use crate::{Observation, Observer};

/// Requests.
impl Ring {
    /// Holds a request against what is due. Returns the reply it has to have.
    pub(super) fn request_vault(
        &mut self,
        request: &Request,
        at: Nanos,
        sibling: bool,
        out: &mut dyn Observer,
    ) -> Step<Expected> {
        self.check_settled(request)?;
        self.pass_what_a_lie_left_open(request);
        self.epochs.begin_recorded(out);
        match request {
            Request::ReadCells { reads } => {
                self.check_due(Next::Batches, "a read")?;
                if !self.epochs.repeat(request, at)? {
                    let sibling = sibling || self.epochs.overtakes();
                    self.epochs.read(reads, at, sibling, out)?;
                }
                Ok(Expected::Cells)
            }
            Request::ReadXor { reads, groups } => {
                self.check_due(Next::Batches, "a read")?;
                if !self.epochs.repeat(request, at)? {
                    let sibling = sibling || self.epochs.overtakes();
                    self.epochs.read_paths(reads, groups, at, sibling, out)?;
                }
                Ok(Expected::Combined(groups.len()))
            }
            Request::WriteChunks { writes } => {
                self.check_due(Next::Batches, "images")?;
                self.epochs.write(writes, at, out)?;
                Ok(Expected::Done)
            }
            Request::CreateArray { array, shape } => {
                self.check_due(Next::Array, "create array")?;
                self.check_array(array.0, *shape)?;
                self.epochs.pace.further(at)?;
                Ok(Expected::Done)
            }
            Request::ListChunks { array } if array.0 == self.config.array => {
                self.check_due(Next::SweepList, "list chunks")?;
                self.epochs.pace.further(at)?;
                Ok(Expected::Chunks)
            }
            Request::DeleteChunks { chunks } => self.delete_chunks(chunks, at, out),
            Request::Barrier => self.barrier_vault(at, out),
            Request::BlobGet { .. }
            | Request::BlobPut { .. }
            | Request::BlobDelete { .. }
            | Request::BlobList { .. } => self.blob_vault(request, at, out),
            _ => {
                let seen = request.word();
                fault("unknown-operation", "an operation of the protocol", seen)
            }
        }
    }

    /// After a put whose outcome had to be looked for, nothing but a barrier.
    fn check_settled(&self, request: &Request) -> Step {
        match &self.chain {
            Some(chain) if chain.is_unsettled() && *request != Request::Barrier => {
                let seen = request.word();
                fault(chain.next.rule(), "a barrier, after a put that was looked for", seen)
            }
            _ => Ok(()),
        }
    }

    /// Whether a request looks for what became of a put, or makes it durable.
    pub(super) fn looks_for_a_put(&self, request: &Request) -> bool {
        self.chain.as_ref().is_some_and(|chain| match request {
            Request::BlobGet { name } => chain.doubts(name),
            _ => chain.is_unsettled(),
        })
    }

    /// Whether a request is the record of a batch.
    pub(super) fn is_record(&self, request: &Request) -> bool {
        self.chain.as_ref().is_some_and(|chain| chain.next == Next::Batches) && is_journal(request)
    }

    /// Whether a request is the second of the two deletions after a commit, which leave at once.
    pub(super) fn is_second_deletion(&self, request: &Request) -> bool {
        let Some(chain) = &self.chain else { return false };
        let collects = chain.next == Next::Collect;
        let Collect { chunks, blobs } = chain.collect;
        let fits = match request {
            Request::DeleteChunks { .. } => chunks && !blobs,
            Request::BlobDelete { .. } => blobs && !chunks,
            _ => false,
        };
        collects && fits && self.collects_at.is_some()
    }

    /// The time of a deletion after a commit: two that leave at once have one.
    fn hold_deletion(&mut self, at: Nanos, out: &mut dyn Observer) -> Step {
        match self.collects_at {
            Some(first) => self.epochs.pace.together(at, first),
            None => {
                self.collects_at = Some(at);
                let cause = self.epochs.pace.further(at)?;
                self.epochs.departed_to_delete(at, cause, out)
            }
        }
    }

    /// A list that cannot be true may have told the proxy to delete something or nothing.
    fn pass_what_a_lie_left_open(&mut self, request: &Request) {
        let Some(chain) = &mut self.chain else { return };
        match (chain.next, request) {
            (Next::Leftovers, Request::BlobDelete { .. }) => {}
            (Next::SweepDelete, Request::DeleteChunks { .. }) => {}
            (Next::Leftovers, _) if chain.may_delete_nothing() => chain.advance(),
            (Next::SweepDelete, _) if self.epochs.may_delete_nothing() => {
                chain.advance();
                self.went_on(Next::SweepDelete);
            }
            _ => {}
        }
    }

    fn check_due(&self, next: Next, seen: &str) -> Step {
        match &self.chain {
            Some(chain) if chain.next == next => Ok(()),
            // The sweep, or an epoch that goes on by itself, before the open one is at its end.
            Some(chain) if chain.next == Next::Batches && chain.recovers => {
                self.epochs.check_complete()?;
                chain.out_of_order(seen)
            }
            Some(chain) => chain.out_of_order(seen),
            None => fault("unknown-operation", "no vault", seen),
        }
    }

    fn delete_chunks(
        &mut self,
        chunks: &[ChunkName],
        at: Nanos,
        out: &mut dyn Observer,
    ) -> Step<Expected> {
        match self.chain.as_ref().map(|chain| chain.next) {
            Some(Next::Collect) => {
                let Some(chain) = &mut self.chain else { return Ok(Expected::Done) };
                if !std::mem::take(&mut chain.collect.chunks) {
                    return chain.out_of_order("a second deletion of chunks");
                }
                self.hold_deletion(at, out)?;
                self.epochs.collect(chunks)?;
            }
            Some(Next::SweepDelete) => self.epochs.sweep(chunks, at)?,
            Some(Next::Batches) => {
                return fault("commit-order", "the commit before", "a deletion of chunks");
            }
            _ => self.check_due(Next::Collect, "a deletion of chunks")?,
        }
        Ok(Expected::Done)
    }

    fn barrier_vault(&mut self, at: Nanos, out: &mut dyn Observer) -> Step<Expected> {
        match &self.chain {
            Some(chain) if chain.is_unsettled() => {
                self.epochs.pace.after(self.ended_at, at)?;
            }
            Some(chain) if chain.next != Next::Batches => return chain.out_of_order("barrier"),
            _ => self.epochs.barrier(at, out)?,
        }
        Ok(Expected::Done)
    }

    fn blob_vault(
        &mut self,
        request: &Request,
        at: Nanos,
        out: &mut dyn Observer,
    ) -> Step<Expected> {
        let Some(chain) = &mut self.chain else { return Ok(Expected::Done) };
        let (before, between) = (chain.next, self.epochs.is_between());
        let looks = chain.is_doubtful();
        let expected = match request {
            Request::BlobGet { name } => match chain.get(name)? {
                Some(piece) => Expected::Piece(Some(piece)),
                None => Expected::Commit,
            },
            Request::BlobPut { name, bytes, condition, fingerprint } => {
                let kept = Kept { bytes: *bytes, fingerprint: *fingerprint };
                chain.put(name, kept, condition, between)?;
                let kind = name.split('/').next().unwrap_or_default();
                let (bytes, fingerprint) = (*bytes, *fingerprint);
                out.observe(&Observation::Blob { kind, bytes, fingerprint });
                Expected::Put
            }
            Request::BlobDelete { names } => {
                chain.delete(names)?;
                Expected::Done
            }
            Request::BlobList { prefix } => {
                chain.list(prefix)?;
                Expected::List
            }
            _ => Expected::Done,
        };
        let puts = matches!(request, Request::BlobPut { .. });
        match before {
            Next::Collect => self.hold_deletion(at, out)?,
            Next::CommitPiece(1..) | Next::ClosePiece(1..) if puts => {
                let cause = self.epochs.lanes.piece(&self.epochs.pace, at)?;
                self.epochs.departed_to_commit(at, cause, out)?;
            }
            Next::Batches if is_journal(request) => self.epochs.record(at, out)?,
            Next::CommitPiece(0) | Next::CommitPut if puts && !looks => {
                let cause = self.epochs.pace.further(at)?;
                self.epochs.departed_to_commit(at, cause, out)?;
            }
            _ if looks => self.epochs.pace.after(self.ended_at, at).map(drop)?,
            Next::Opening | Next::Batches => drop(self.epochs.pace.owners(at)?),
            _ => drop(self.epochs.pace.further(at)?),
        }
        if matches!(before, Next::CommitPiece(0) | Next::Batches) && super::is_piece(request) {
            self.epochs.lanes.first_piece(&self.epochs.pace, at);
        }
        Ok(expected)
    }
}

/// Replies.
impl Ring {
    /// The end of a request of a store.
    pub(super) fn done_vault(
        &mut self,
        waiting: &Waiting,
        done: &Done,
        reply: Reply,
    ) -> Result<(), Stop> {
        match (&waiting.put, reply) {
            (_, Reply::Lie) => self.lied(),
            (_, Reply::Abandoned) => self.failed(),
            (Some(name), Reply::Failed) if is_absence(&done.outcome) => self.put_ended(name, false),
            (_, Reply::Failed) => self.failed(),
            (Some(name), Reply::Put(done)) => self.put_ended(name, done),
            (_, Reply::Looked(seen)) => self.looked_vault(seen)?,
            (_, _) if waiting.lane.is_some() && !self.waiting.is_empty() => {}
            (_, _) if waiting.lane.is_some() => self.batch_message_ended(),
            (_, reply) if self.waiting.is_empty() || self.is_unsettled() => self.call_ended(reply),
            _ => {}
        }
        Ok(())
    }

    fn is_unsettled(&self) -> bool {
        self.chain.as_ref().is_some_and(Chain::is_unsettled)
    }

    fn put_ended(&mut self, name: &str, done: bool) {
        let Some(chain) = &mut self.chain else { return };
        let was = chain.next;
        chain.put_ended(name, done);
        match done {
            true => self.put_settled(was),
            false => self.epochs.lanes.doubted(self.ended_at),
        }
    }

    /// What was put when `was` was due is durable.
    fn put_settled(&mut self, was: Next) {
        match was {
            Next::Batches => {
                let at = self.epochs.pace.ready();
                self.epochs.again.record_ended(at);
            }
            _ => self.went_on(was),
        }
    }

    fn looked_vault(&mut self, seen: Option<Kept>) -> Result<(), Stop> {
        let Some(chain) = &mut self.chain else { return Ok(()) };
        if !self.oriented && seen.is_some() {
            return Err(Stop::Unpredictable(super::MIDST));
        }
        self.oriented = true;
        if chain.is_doubtful() {
            if !chain.rechecked(seen) {
                self.failed();
            }
            return Ok(());
        }
        match chain.next {
            Next::JournalGet(_) => self.journal_looked(seen),
            Next::RecordGet(_) => {
                if !chain.record_looked(seen) {
                    self.lied_in_vain();
                }
            }
            _ => self.commit_looked(seen),
        }
        Ok(())
    }

    fn journal_looked(&mut self, seen: Option<Kept>) {
        let Some(chain) = &mut self.chain else { return };
        let looked = chain.journal_looked(seen);
        if chain.next == Next::Takeover {
            self.epochs.recover(chain.batches());
        }
        self.take_look(looked);
    }

    fn commit_looked(&mut self, seen: Option<Kept>) {
        let Some(chain) = &mut self.chain else { return };
        let looked = chain.looked_at(seen);
        if let Some(landed) = self.take_look(looked) {
            if landed {
                self.epochs.landed();
            }
            self.epochs.reopen();
        }
    }

    /// A call that is no put and no look has ended well.
    fn call_ended(&mut self, reply: Reply) {
        let Some(chain) = &mut self.chain else { return };
        let was = chain.next;
        if chain.is_unsettled() {
            chain.put_settled();
            self.epochs.lanes.looked(self.ended_at, chain.is_doubtful());
            return self.put_settled(was);
        }
        match (was, reply) {
            (Next::Batches, _) => return self.batch_message_ended(),
            (_, Reply::Listed(names)) if was == Next::SweepList => {
                chain.advance();
                match self.epochs.swept(names) {
                    Some(0) => chain.advance(),
                    Some(_) => {}
                    None => self.lied_in_vain(),
                }
            }
            (_, Reply::Listed(names)) => {
                if !chain.list_ended(names) {
                    self.lied_in_vain();
                }
            }
            _ => chain.advance(),
        }
        self.went_on(was);
    }

    fn batch_message_ended(&mut self) {
        self.epochs.message_ended();
        match &mut self.chain {
            Some(chain) if self.epochs.is_durable() => chain.next = Next::CommitPiece(0),
            _ => {}
        }
    }

    /// What a step of the vault means for the engine.
    fn went_on(&mut self, was: Next) {
        let Some(chain) = &mut self.chain else { return };
        match was {
            Next::Opening | Next::Claim => {
                self.summary.openings += 1;
                self.epochs.claimed(chain.opening());
            }
            Next::CommitPut => {
                self.epochs.landed();
                self.collects_at = None;
                chain.collect.chunks = !self.epochs.reads.superseded.is_empty();
            }
            Next::SweepDelete => self.epochs.collected(),
            Next::Collect if chain.next != Next::Collect => {
                self.epochs.collected();
                self.epochs.pace.epoch_done();
            }
            Next::ClosePut => self.summary.closings += 1,
            _ => {}
        }
        let swept = matches!(was, Next::SweepList | Next::SweepDelete);
        if swept && chain.next == Next::Batches {
            self.epochs.go_on();
        }
    }
}

/// Whether a request puts a journal record.
fn is_journal(request: &Request) -> bool {
    matches!(request, Request::BlobPut { name, .. } if name.starts_with(JOURNAL))
}

/// Whether the store may have done it all the same.
fn is_absence(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(Blame::Absent))
}
