//! Ends of requests, and what is due after them.
//!
//! A put whose outcome nobody knows is followed by a look at what is there, and by a barrier if that shows
//! our bytes: then it has ended well.

use fogbank_store::trace::{Blame, Done, Outcome};

use super::{Doubt, Part, Stop, Tao, Waiting};
use crate::oracle::blob::Kept;
use crate::oracle::chain::Next;
use crate::oracle::fault::{Step, fault};
use crate::oracle::replies::Reply;

impl Tao {
    pub(super) fn done(&mut self, done: &Done) -> Result<(), Stop> {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.id == done.id) else {
            let seen = format!("request {}", done.id);
            return Ok(fault("reply-fits", "the end of a request", seen)?);
        };
        let waiting = self.waiting.swap_remove(at);
        let reply = waiting.judge(&done.outcome, self.config.cell_bytes)?;
        if self.silent.is_some() {
            return Ok(());
        }
        if !matches!(reply, Reply::Failed | Reply::Abandoned) {
            self.passed_over(&waiting.lane)?;
        }
        match reply {
            Reply::Lie => {
                self.summary.lies += 1;
                self.silence("silence-after-a-lie");
            }
            Reply::Failed if is_absence(&done.outcome) && waiting.put.is_some() => {
                self.doubt(waiting);
            }
            Reply::Put(false) => self.doubt(waiting),
            Reply::Failed | Reply::Abandoned => self.silence("silence-after-a-failure"),
            Reply::Looked(seen) if waiting.lane == Part::Look => self.looked(seen),
            reply if matches!(waiting.lane, Part::Opening | Part::Fetch(_)) => {
                self.opening_ended(&waiting, reply)?
            }
            _ if waiting.lane == Part::Settled => self.settled(),
            Reply::Listed(names) => self.swept(names),
            _ => self.ended(waiting.lane),
        }
        Ok(())
    }

    /// What could have left before this reply and has not, will not; unless all replies of the moment are
    /// taken before anything leaves, as those to write-backs are, and all on a grid.
    fn passed_over(&mut self, part: &Part) -> Step {
        match part {
            Part::Images(_) => Ok(()),
            _ if self.config.quantum_ns > 0 => Ok(()),
            _ => {
                let tree = (&mut self.tree, self.accesses.put);
                self.write_backs.close_full(self.at, None, tree)
            }
        }
    }

    /// A put whose outcome nobody knows.
    fn doubt(&mut self, waiting: Waiting) {
        if waiting.lane == Part::Opening {
            return self.opening_doubt(&waiting);
        }
        let name = waiting.put.unwrap_or_default();
        let Some(kept) = self.chain.putting(&name) else {
            return self.silence("silence-after-a-failure");
        };
        let (part, ours, under_way) = (waiting.lane, false, false);
        self.doubts.push(Doubt { name, kept, part, ours, under_way });
    }

    fn looked(&mut self, seen: Option<Kept>) {
        let Some(at) = self.doubts.iter().position(|doubt| doubt.under_way && !doubt.ours) else {
            return;
        };
        if seen == Some(self.doubts[at].kept) {
            (self.doubts[at].ours, self.doubts[at].under_way) = (true, false);
        } else {
            self.silence("silence-after-a-failure");
        }
    }

    fn settled(&mut self) {
        let Some(at) = self.doubts.iter().position(|doubt| doubt.under_way && doubt.ours) else {
            return;
        };
        let part = self.doubts.remove(at).part;
        self.ended(part);
    }

    /// A request has ended well.
    fn ended(&mut self, part: Part) {
        match part {
            Part::Record(name) => {
                self.chain.landed(&name);
                self.is_recording = false;
                self.accesses.durable(self.at);
                self.grid.after(self.at);
                self.cut_due = std::mem::take(&mut self.is_last);
                self.cut_if_due();
            }
            Part::Path(of, shown) => {
                self.accesses.back(of);
                self.write_backs.flush(shown, self.at, &mut self.tree);
                self.cut_if_due();
            }
            Part::Again => self.again_ended(),
            Part::Images(message) => {
                self.write_backs.ended(message);
            }
            Part::Barrier => self.barrier_ended(),
            Part::Piece(name, last) => self.piece_ended(&name, last),
            Part::Commit => self.commit_ended(),
            Part::Blobs(number) => self.blobs_deleted(number),
            Part::Chunks(number) => self.chunks_deleted(number),
            Part::Array => {
                self.chain.next = Next::Batches;
                self.begin_replay();
            }
            Part::SweepDelete => self.sweep_ended(),
            Part::Opening
            | Part::Fetch(_)
            | Part::SweepList
            | Part::Look
            | Part::Settled
            | Part::Unchecked => {}
        }
    }

    /// The checkpoint that was being committed counts.
    pub(super) fn committed(&mut self) {
        if let Some(saved) = self.saving.take() {
            self.saved = saved;
        }
    }
}

/// Whether the store may have done it all the same.
fn is_absence(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(Blame::Absent))
}
