//! A bare engine, without a vault: it makes its array, then one epoch follows the other. There are
//! no blobs: nothing is journalled, claimed or closed.

use fogbank_env::Nanos;
use fogbank_store::ArrayShape;
use fogbank_store::trace::Request;

use super::Ring;
use super::fault::{Step, fault};
use super::replies::{Expected, Reply};
use crate::Observer;

/// Requests.
impl Ring {
    /// Holds a request against what is due. Returns the reply it has to have.
    pub(super) fn request_bare(
        &mut self,
        request: &Request,
        at: Nanos,
        sibling: bool,
        out: &mut dyn Observer,
    ) -> Step<Expected> {
        match request {
            Request::CreateArray { array, shape } => {
                self.create_array(array.0, *shape, at)?;
                Ok(Expected::Done)
            }
            Request::ReadCells { reads } => {
                self.check_made("read cells")?;
                self.epochs.read(reads, at, sibling, out)?;
                Ok(Expected::Cells)
            }
            Request::ReadXor { reads, groups } => {
                self.check_made("read XOR")?;
                self.epochs.read_paths(reads, groups, at, sibling, out)?;
                Ok(Expected::Combined(groups.len()))
            }
            Request::WriteChunks { writes } => {
                self.check_made("write chunks")?;
                self.epochs.write(writes, at, out)?;
                Ok(Expected::Done)
            }
            Request::DeleteChunks { chunks } => {
                self.check_made("delete chunks")?;
                self.epochs.delete(chunks, at, out)?;
                Ok(Expected::Done)
            }
            Request::Barrier => {
                self.check_made("barrier")?;
                self.epochs.barrier(at, out)?;
                Ok(Expected::Done)
            }
            _ => {
                let seen = request.word();
                fault("unknown-operation", "an operation of a bare engine", seen)
            }
        }
    }

    fn create_array(&mut self, array: u16, shape: ArrayShape, at: Nanos) -> Step {
        if self.made {
            return fault("blob-order", self.epochs.due().1, "create array");
        }
        self.check_array(array, shape)?;
        self.epochs.pace.owners(at).map(drop)
    }

    fn check_made(&self, seen: &str) -> Step {
        if self.made { Ok(()) } else { fault("blob-order", "create array", seen) }
    }
}

/// Replies.
impl Ring {
    /// The end of a request of a bare engine.
    pub(super) fn done_bare(&mut self, reply: Reply) {
        match reply {
            Reply::Failed | Reply::Abandoned => self.failed(),
            Reply::Lie => self.lied(),
            _ if !self.made => {
                self.made = true;
                self.summary.openings = 1;
                self.epochs.pace.start_epochs();
            }
            _ if self.waiting.is_empty() => self.epochs.message_ended(),
            _ => {}
        }
    }
}
