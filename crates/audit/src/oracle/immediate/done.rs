//! Ends of requests, and what is due after them.
//!
//! A put whose outcome nobody knows is followed by a look at what is there, and by a barrier if
//! that shows our bytes: then it has ended well.

use fogbank_store::trace::{Blame, Done, Outcome};

use super::{Doubt, Immediate, Part, Plane, Waiting};
use crate::oracle::blob::Kept;
use crate::oracle::chain::Next;
use crate::oracle::fault::{Stop, fault};
use crate::oracle::replies::Reply;

impl<P: Plane> Immediate<P> {
    pub(in crate::oracle) fn done(&mut self, done: &Done) -> Result<(), Stop> {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.id == done.id) else {
            let seen = format!("request {}", done.id);
            return Ok(fault("reply-fits", "the end of a request", seen)?);
        };
        let waiting = self.waiting.swap_remove(at);
        let reply = waiting.judge(&done.outcome, self.shell.cell_bytes)?;
        if self.silent.is_some() {
            return Ok(());
        }
        if !matches!(reply, Reply::Failed | Reply::Abandoned) {
            P::passed_over(self, &waiting.lane)?;
        }
        if let Part::Journal(place) = waiting.lane {
            let seen = if let Reply::Looked(seen) = reply { Some(seen) } else { None };
            return self.journal_came(place, seen);
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

    /// A put whose outcome nobody knows.
    fn doubt(&mut self, waiting: Waiting<P::Part>) {
        if waiting.lane == Part::Opening {
            return self.opening_doubt(&waiting);
        }
        let name = waiting.put.unwrap_or_default();
        let Some(kept) = self.chain.putting(&name) else {
            return self.silence("silence-after-a-failure");
        };
        let (part, ours, is_first, under_way) = (waiting.lane, false, false, false);
        self.doubts.push(Doubt { name, kept, part, ours, is_first, under_way });
    }

    fn looked(&mut self, seen: Option<Kept>) {
        let Some(at) = self.doubts.iter().position(|doubt| doubt.under_way && !doubt.ours) else {
            return;
        };
        if seen != Some(self.doubts[at].kept) {
            return self.silence("silence-after-a-failure");
        }
        let is_first = !self.plane.awaits_barrier();
        let doubt = &mut self.doubts[at];
        (doubt.ours, doubt.is_first, doubt.under_way) = (true, is_first, false);
    }

    fn settled(&mut self) {
        let Some(at) = self.doubts.iter().position(|doubt| doubt.under_way && doubt.ours) else {
            return;
        };
        let part = self.doubts.remove(at).part;
        self.ended(part);
    }

    /// A record is durable: it counts, and those behind it that are, if all before it do.
    fn record_landed(&mut self, name: &str) {
        let landed = self.recording.iter_mut().find(|(of, _)| of == name);
        landed.into_iter().for_each(|(_, is_durable)| *is_durable = true);
        let was_full = !self.has_place();
        while self.recording.front().is_some_and(|(_, is_durable)| *is_durable)
            && let Some((name, _)) = self.recording.pop_front()
        {
            self.record_counts();
            P::recorded(self, &name);
        }
        if was_full && self.has_place() {
            self.next_point();
        }
    }

    /// Departures go on behind the last record.
    pub(in crate::oracle) fn next_point(&mut self) {
        if !self.is_extra {
            self.grid.after(self.at);
        }
    }

    /// A request has ended well.
    fn ended(&mut self, part: Part<P::Part>) {
        match part {
            Part::Record(name) => {
                self.chain.landed(&name);
                self.record_landed(&name);
            }
            Part::Own(part) => P::ended(self, part),
            Part::Barrier => self.part_ended(),
            Part::Piece(name) => {
                self.chain.landed(&name);
                self.part_ended();
            }
            Part::Commit => self.commit_ended(),
            Part::Blobs(number) => self.blobs_deleted(number),
            Part::Chunks(number) => self.chunks_deleted(number),
            Part::Array => {
                self.arrays += 1;
                if self.plane.array(self.arrays).is_none() {
                    self.chain.next = Next::Batches;
                    P::begin_replay(self);
                }
            }
            Part::SweepDelete => self.sweep_ended(),
            Part::Opening
            | Part::Journal(_)
            | Part::Fetch(_)
            | Part::SweepList
            | Part::Look
            | Part::Settled
            | Part::Unchecked => {}
        }
    }
}

/// Whether the store may have done it all the same.
fn is_absence(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(Blame::Absent))
}
