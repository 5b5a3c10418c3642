//! A store without a journal, or without a vault: every call in its turn, the vault's and the
//! engine's.
//!
//! The engine's calls are paced. Those of a vault follow the end of the one before at once, but for the
//! first of an opening and of a closing, which come when somebody wants them.

use fogbank_env::Nanos;
use fogbank_store::ArrayShape;
use fogbank_store::trace::Request;

use super::blob::{COMMIT, Kept};
use super::fault::{Step, fault};
use super::replies::{Expected, Reply, Waiting};
use super::vault::{Next, Put};
use super::{MIDST, Oracle, Stop};
use crate::{Observation, Observer};

/// Requests.
impl Oracle {
    /// Holds a request against what is due. Returns the reply it has to have, and whether it is the
    /// engine's.
    pub(super) fn request_unjournalled(
        &mut self,
        request: &Request,
        at: Nanos,
        sibling: bool,
        out: &mut dyn Observer,
    ) -> Step<(Expected, bool)> {
        match request {
            Request::CreateArray { array, shape } => {
                self.create_array(array.0, *shape, at)?;
                Ok((Expected::Done, true))
            }
            Request::ReadCells { reads } => {
                self.check_running("read cells")?;
                self.epochs.read(reads, at, sibling, out)?;
                Ok((Expected::Cells, true))
            }
            Request::ReadXor { reads, groups } => {
                self.check_running("read XOR")?;
                self.epochs.read_paths(reads, groups, at, sibling, out)?;
                Ok((Expected::Combined(groups.len()), true))
            }
            Request::WriteChunks { writes } => {
                self.check_running("write chunks")?;
                self.epochs.write(writes, at, out)?;
                Ok((Expected::Done, true))
            }
            Request::DeleteChunks { chunks } => {
                self.check_running("delete chunks")?;
                self.epochs.delete(chunks, at, out)?;
                Ok((Expected::Done, true))
            }
            Request::Barrier => self.barrier(at, out),
            Request::BlobGet { .. }
            | Request::BlobPut { .. }
            | Request::BlobDelete { .. }
            | Request::BlobList { .. } => Ok((self.blob(request, at, out)?, false)),
            _ => {
                let seen = format!("{:?}", request.operation());
                fault("unknown-operation", "an operation of the protocol", seen)
            }
        }
    }

    fn create_array(&mut self, array: u16, shape: ArrayShape, at: Nanos) -> Step {
        let due = match &self.vault {
            Some(vault) if vault.next == Next::Array => Ok(()),
            None if !self.made => Ok(()),
            Some(vault) => Err(vault.next.words()),
            None => Err(self.epochs.due().1.into()),
        };
        if let Err(due) = due {
            return fault("blob-order", due, "create array");
        }
        self.check_array(array, shape)?;
        let pace = &mut self.epochs.pace;
        if self.vault.is_some() { pace.further(at) } else { pace.owners(at) }.map(drop)
    }

    fn check_running(&self, seen: &str) -> Step {
        match &self.vault {
            Some(vault) if vault.next != Next::Epochs => {
                fault("blob-order", vault.next.words(), seen)
            }
            None if !self.made => fault("blob-order", "create array", seen),
            _ => Ok(()),
        }
    }

    fn barrier(&mut self, at: Nanos, out: &mut dyn Observer) -> Step<(Expected, bool)> {
        match &mut self.vault {
            Some(vault) if vault.next != Next::Epochs => {
                vault.barrier()?;
                self.epochs.pace.unpaced(at)?;
                Ok((Expected::Done, false))
            }
            _ => {
                self.check_running("barrier")?;
                self.epochs.barrier(at, out)?;
                Ok((Expected::Done, true))
            }
        }
    }

    fn blob(&mut self, request: &Request, at: Nanos, out: &mut dyn Observer) -> Step<Expected> {
        let Some(vault) = &mut self.vault else {
            return fault("unknown-operation", "no blobs without a vault", "a blob");
        };
        if vault.next == Next::Epochs && !self.epochs.is_between() {
            let (rule, words) = self.epochs.due();
            return fault(rule, words, format!("{:?}", request.operation()));
        }
        let free = matches!(vault.next, Next::Opening | Next::Epochs);
        let expected = match request {
            Request::BlobGet { name } => match vault.get(name)? {
                None => Expected::Commit,
                Some(piece) => Expected::Piece(Some(piece)),
            },
            Request::BlobPut { name, bytes, condition, fingerprint } => {
                vault.put(name, Kept { bytes: *bytes, fingerprint: *fingerprint }, condition)?;
                let kind = name.split('/').next().unwrap_or_default();
                let (bytes, fingerprint) = (*bytes, *fingerprint);
                out.observe(&Observation::Blob { kind, bytes, fingerprint });
                if name == COMMIT { Expected::CommitPut } else { Expected::PiecePut }
            }
            Request::BlobDelete { names } => {
                vault.delete(names)?;
                Expected::Done
            }
            Request::BlobList { prefix } => {
                vault.list(prefix)?;
                Expected::List
            }
            _ => Expected::Done,
        };
        if !free {
            self.epochs.pace.unpaced(at)?;
        }
        Ok(expected)
    }
}

/// Replies.
impl Oracle {
    /// The end of a request of a store without a journal.
    pub(super) fn done_unjournalled(
        &mut self,
        waiting: &Waiting,
        reply: Reply,
    ) -> Result<(), Stop> {
        match reply {
            Reply::Failed | Reply::Abandoned => self.failed(),
            Reply::Lie => {
                let window = waiting.expected == Expected::Cells && self.epochs.window_is_full();
                self.lied(window);
            }
            Reply::Looked(seen) => self.looked(seen)?,
            _ if waiting.paced => self.engine_message_ended(),
            _ => self.vault_message_ended(reply),
        }
        Ok(())
    }

    fn looked(&mut self, seen: Option<Kept>) -> Result<(), Stop> {
        let Some(vault) = &mut self.vault else { return Ok(()) };
        if !self.oriented && seen.is_some() {
            return Err(Stop::Unpredictable(MIDST));
        }
        self.oriented = true;
        if let Next::Recheck(_) = vault.next {
            if !vault.rechecked(seen) {
                self.failed();
            }
            return Ok(());
        }
        let looked = vault.looked_at(seen);
        self.take_look(looked);
        Ok(())
    }

    fn engine_message_ended(&mut self) {
        match &mut self.vault {
            Some(vault) if vault.next == Next::Array => vault.advance(),
            None if !self.made => {
                self.made = true;
                self.summary.openings = 1;
                self.epochs.start(1);
            }
            _ if self.waiting.is_empty() => self.epochs.message_ended(),
            _ => {}
        }
    }

    fn vault_message_ended(&mut self, reply: Reply) {
        let Some(vault) = &mut self.vault else { return };
        let was = vault.next;
        match reply {
            Reply::Put(done) => vault.put_ended(done),
            Reply::Listed(names) => {
                if !vault.list_ended(names) {
                    self.summary.lies += 1;
                }
            }
            _ => vault.advance(),
        }
        let put = match was {
            Next::Opening | Next::Claim => Some(Put::Claim),
            Next::RunPut => Some(Put::Run),
            Next::ClosePut => Some(Put::Close),
            Next::Settle(put) => Some(put),
            _ => None,
        };
        match put.filter(|_| !matches!(vault.next, Next::Recheck(_))) {
            Some(Put::Claim) => self.summary.openings += 1,
            Some(Put::Run) => self.epochs.start(vault.opening()),
            Some(Put::Close) => self.summary.closings += 1,
            None => {}
        }
    }
}
