//! Requests: each is held against what is due.

use fogbank_store::trace::{Condition, Request, Sent};

use super::{Immediate, MIDST, Part, Plane, Stage, Waiting};
use crate::oracle::blob::{JOURNAL, Kept, check_put};
use crate::oracle::fault::{Step, Stop, fault};
use crate::oracle::replies::Expected;
use crate::{Observation, Observer};

impl<P: Plane> Immediate<P> {
    pub(in crate::oracle) fn sent(
        &mut self,
        sent: &Sent,
        out: &mut dyn Observer,
    ) -> Result<(), Stop> {
        self.summary.requests += 1;
        let request = &sent.request;
        self.orient(request)?;
        if (sent.cloud, sent.connection) != (0, 0) {
            let seen = format!("cloud {} connection {}", sent.cloud, sent.connection);
            fault("unknown-operation", "one cloud and one connection", seen)?;
        }
        let part = match self.look(request) {
            Some(part) => part,
            None => self.part(sent, out)?,
        };
        let mut put = None;
        let own = self.plane.expected(request);
        let (own, prints) = own.map_or((Expected::Done, Vec::new()), |own| own);
        let expected = match request {
            Request::BlobPut { name, bytes, fingerprint, .. } => {
                put = Some(name.clone());
                let (bytes, fingerprint) = (*bytes, *fingerprint);
                let kind = name.split('/').next().unwrap_or_default();
                out.observe(&Observation::Blob { kind, bytes, fingerprint });
                Expected::Put
            }
            Request::BlobGet { .. } => match part {
                Part::Fetch(piece) => Expected::Piece(Some(piece)),
                _ => Expected::Commit,
            },
            Request::BlobList { .. } => Expected::List,
            Request::ListChunks { .. } => Expected::Chunks,
            _ => own,
        };
        self.waiting.push(Waiting { id: sent.id, expected, prints, lane: part, put });
        Ok(())
    }

    /// A trace that begins in the middle of a store's life cannot be followed.
    fn orient(&mut self, request: &Request) -> Result<(), Stop> {
        if self.oriented {
            return Ok(());
        }
        match request {
            Request::BlobGet { .. } => return Ok(()),
            Request::BlobPut { condition: Condition::IfAbsent, .. } => {}
            Request::ReadChunks { .. } | Request::ReadCells { .. } | Request::ListChunks { .. } => {
            }
            _ => return Err(Stop::Unpredictable(MIDST)),
        }
        self.oriented = true;
        Ok(())
    }

    /// What a request looks for: what became of a put, or that it be durable.
    fn look(&mut self, request: &Request) -> Option<Part<P::Part>> {
        let doubts = self.doubts.iter_mut().filter(|doubt| !doubt.under_way);
        let (doubt, part) = match request {
            Request::BlobGet { name } => {
                (doubts.filter(|d| !d.ours && d.name == *name).last()?, Part::Look)
            }
            Request::Barrier => {
                let is_behind = self.plane.awaits_barrier();
                let due = doubts.filter(|d| d.ours && (d.is_first || !is_behind));
                (due.last()?, Part::Settled)
            }
            _ => return None,
        };
        doubt.under_way = true;
        Some(part)
    }

    /// Holds a request against what is due.
    fn part(&mut self, sent: &Sent, out: &mut dyn Observer) -> Result<Part<P::Part>, Stop> {
        let request = &sent.request;
        if let Some((rule, from)) = self.silent {
            // What was decided before the proxy knew may leave up to then.
            if sent.at > from {
                fault(rule, "nothing more", request.word())?;
            }
            return Ok(Part::Unchecked);
        }
        if self.stage == Stage::Opening {
            return Ok(self.opening_call(request)?);
        }
        P::before(self, Some(request))?;
        // Of a cut that is not quiet only these show that it was: further replies of the instant
        // come before it.
        let shows_cut = matches!(request, Request::BlobPut { .. } | Request::Barrier);
        if shows_cut || self.shell.cuts_quietly {
            self.cut_if_due();
        }
        self.decide_deletions();
        self.recovered();
        if let Some(part) = P::request(self, sent, out)? {
            return Ok(Part::Own(part));
        }
        Ok(match request {
            Request::BlobPut { name, bytes, condition, fingerprint } => {
                let kept = Kept { bytes: *bytes, fingerprint: *fingerprint };
                match name.starts_with(JOURNAL) {
                    true => self.record((name, kept, condition))?,
                    false => self.put_checkpoint((name, kept, condition))?,
                }
            }
            Request::Barrier => self.barrier()?,
            Request::BlobDelete { names } => self.delete_blobs(names)?,
            Request::DeleteChunks { chunks } => match self.stage {
                Stage::SweepDelete(count) => {
                    self.check_alone(request)?;
                    self.sweep(chunks, count)?
                }
                _ => self.delete_chunks(chunks)?,
            },
            Request::ListChunks { array } => {
                let is_next =
                    self.plane.array(self.listed.0).is_some_and(|(due, _)| due == array.0);
                if self.stage != Stage::SweepList || !is_next {
                    let due = format!("{:?}", self.stage);
                    fault("blob-order", due, "list chunks")?;
                }
                self.check_alone(request)?;
                Part::SweepList
            }
            _ => {
                let seen = request.word();
                fault("unknown-operation", "an operation of the protocol", seen)?
            }
        })
    }

    /// The calls of a sweep come one after the other.
    fn check_alone(&self, request: &Request) -> Step {
        let sweeps =
            |one: &Waiting<P::Part>| matches!(one.lane, Part::SweepList | Part::SweepDelete);
        if self.waiting.iter().any(sweeps) {
            let seen = request.word();
            return fault("waits-for-all", "the end of the sweep's call before", seen);
        }
        Ok(())
    }

    /// A journal record is put.
    fn record(&mut self, put: (&str, Kept, &Condition)) -> Step<Part<P::Part>> {
        let (name, kept, condition) = put;
        let seen = || format!("put {name}");
        let ends = self.may_end_begun();
        if self.has_departed && !ends {
            return fault("on-grid", "no record after a point without one", seen());
        }
        if self.stage != Stage::Serving && !ends {
            return fault("record-due", format!("no record while {:?}", self.stage), seen());
        }
        if !self.has_place() {
            return fault("records-at-once", "the end of the oldest record", seen());
        }
        if self.cut_due && !ends {
            return fault("cut-due", "no record before the cut", seen());
        }
        if let Some(point) = self.grid.next().filter(|point| !ends && *point != self.at) {
            let quantum = self.shell.quantum_ns;
            let [due, seen] = [point, self.at].map(|at| format!("{} ns", at + quantum));
            return fault("on-grid", due, seen);
        }
        let due = self.chain.next_record();
        check_put((&due, &Condition::IfAbsent), (name, condition), "blob-order")?;
        let parts = self.chain.accesses_of(kept.bytes)? as usize;
        let (is_last, ends) = P::record(self, name, (parts, ends))?;
        self.cut_due |= is_last;
        self.chain.put(name, kept, condition, false)?;
        self.recording.push_back((name.into(), false));
        self.is_extra = ends;
        self.summary.read_batches += 1;
        if self.has_place() {
            self.next_point();
            self.cut_at_decision();
        }
        Ok(Part::Record(name.into()))
    }

    /// Whether a record leaves now that brings to its end what was begun, before a cut.
    pub(in crate::oracle) fn may_end_begun(&self) -> bool {
        let have_left = self.was_quiet || self.shell.quantum_ns == 0;
        let before_cut = self.cut_due || self.stage == Stage::Recovering;
        let waits = (before_cut && self.shell.cuts_quietly)
            || (self.has_departed && self.deletions.is_empty() && have_left);
        let is_free = self.checkpoint.is_none() && self.recording.is_empty();
        waits && is_free && self.plane.is_quiet() && self.plane.has_parts()
    }
}
