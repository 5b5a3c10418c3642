//! The calls of an opening, one after the other, and the sweep of bucket versions at its end.

use fogbank_store::trace::Request;
use fogbank_store::{ArrayShape, ChunkName};

use super::{Immediate, MIDST, Part, Plane, Stage, Waiting};
use crate::oracle::blob::Kept;
use crate::oracle::chain::{Next, Read};
use crate::oracle::fault::{Step, Stop, fault};
use crate::oracle::joint::Looked;
use crate::oracle::replies::Reply;

/// Requests.
impl<P: Plane> Immediate<P> {
    pub(in crate::oracle) fn opening_call(&mut self, request: &Request) -> Step<Part<P::Part>> {
        let is_journal = |waiting: &Waiting<P::Part>| matches!(waiting.lane, Part::Journal(_));
        let reads_on = self.chain.asks() && self.waiting.iter().all(is_journal);
        if !self.waiting.is_empty() && !reads_on {
            let seen = request.word();
            return fault("waits-for-all", "the end of the request before", seen);
        }
        match request {
            Request::BlobGet { name } if self.chain.asks() && !self.chain.is_doubtful() => {
                return Ok(Part::Journal(self.chain.ask(name)?));
            }
            Request::BlobGet { name } => {
                if let Some(piece) = self.chain.get(name)? {
                    return Ok(Part::Fetch(piece));
                }
            }
            Request::BlobPut { name, bytes, condition, fingerprint } => {
                let kept = Kept { bytes: *bytes, fingerprint: *fingerprint };
                self.chain.put(name, kept, condition, false)?;
            }
            Request::BlobDelete { names } => self.chain.delete(names)?,
            Request::BlobList { prefix } => self.chain.list(prefix)?,
            Request::Barrier if self.chain.is_unsettled() => {}
            Request::CreateArray { array, shape } if self.may_make() => {
                self.check_array(array.0, *shape)?;
                return Ok(Part::Array);
            }
            _ => return self.chain.out_of_order(request.word()),
        }
        Ok(Part::Opening)
    }

    /// Whether the array is due. A list that cannot be true may have told the proxy to delete
    /// nothing.
    fn may_make(&mut self) -> bool {
        if self.chain.may_delete_nothing() {
            self.chain.advance();
        }
        self.chain.next == Next::Array
    }

    /// The deletion of a sweep.
    pub(in crate::oracle) fn sweep(
        &mut self,
        names: &[ChunkName],
        count: u64,
    ) -> Step<Part<P::Part>> {
        self.plane.check_sweep(names, (count, self.chain.opening()))?;
        self.plane.stored().delete(names);
        self.swept = names.to_vec();
        Ok(Part::SweepDelete)
    }
}

/// Replies.
impl<P: Plane> Immediate<P> {
    pub(in crate::oracle) fn opening_ended(
        &mut self,
        waiting: &Waiting<P::Part>,
        reply: Reply,
    ) -> Result<(), Stop> {
        let was = self.chain.next;
        let puts = waiting.put.is_some() || self.chain.is_unsettled();
        match (&waiting.put, reply) {
            (Some(name), Reply::Put(done)) => self.chain.put_ended(name, done),
            (_, Reply::Looked(seen)) => self.opening_looked(seen)?,
            (_, Reply::Listed(names)) => {
                if !self.chain.list_ended(names) {
                    self.summary.lies += 1;
                }
            }
            _ if self.chain.is_unsettled() => self.chain.put_settled(),
            _ => self.chain.advance(),
        }
        if puts && matches!(was, Next::Opening | Next::Claim) && self.chain.next != was {
            self.claimed();
        }
        Ok(())
    }

    fn claimed(&mut self) {
        self.summary.openings += 1;
        self.plane.claimed(self.chain.opening());
    }

    pub(in crate::oracle) fn opening_doubt(&mut self, waiting: &Waiting<P::Part>) {
        if let Some(name) = &waiting.put {
            self.chain.put_ended(name, false);
        }
    }

    fn opening_looked(&mut self, seen: Option<Kept>) -> Result<(), Stop> {
        if !self.oriented && seen.is_some() {
            return Err(Stop::Unpredictable(MIDST));
        }
        self.oriented = true;
        if self.chain.is_doubtful() {
            if !self.chain.rechecked(seen) {
                self.silence("silence-after-a-failure");
            }
            return Ok(());
        }
        if let Next::RecordGet(_) = self.chain.next {
            self.summary.lies += u32::from(!self.chain.record_looked(seen));
            return Ok(());
        }
        let looked = self.chain.looked_at(seen);
        self.take_looked(looked)
    }

    /// What stands at a place of the journal has come; nothing if its get failed.
    pub(in crate::oracle) fn journal_came(
        &mut self,
        place: u32,
        seen: Option<Option<Kept>>,
    ) -> Result<(), Stop> {
        match self.chain.came(place, seen) {
            Read::Waits => Ok(()),
            Read::Looked(looked) => self.take_looked(looked),
            Read::Failed => {
                self.silence("silence-after-a-failure");
                Ok(())
            }
        }
    }

    fn take_looked(&mut self, looked: Looked) -> Result<(), Stop> {
        match looked {
            Looked::True { landed: true } => self.plane.committed(),
            Looked::True { .. } => {}
            Looked::Lie => {
                self.summary.lies += 1;
                self.silence("silence-after-a-lie");
            }
            Looked::Strange(_) => {
                let reason = "it goes on from what none of the traces before has put";
                return Err(Stop::Unfollowing(reason.into()));
            }
        }
        Ok(())
    }

    /// So many versions were listed in one of the arrays.
    pub(in crate::oracle) fn swept(&mut self, listed: u64) {
        if self.stage != Stage::SweepList {
            return;
        }
        self.listed = (self.listed.0 + 1, self.listed.1 + listed);
        let (arrays, listed) = self.listed;
        if self.plane.array(arrays).is_some() {
            return;
        }
        if !self.plane.stored().is_possible(listed) {
            self.summary.lies += 1;
            return self.serve();
        }
        match listed.saturating_sub(self.plane.current()) {
            0 => {
                self.plane.stored().settle();
                self.serve();
            }
            left => self.stage = Stage::SweepDelete(left),
        }
    }

    pub(in crate::oracle) fn sweep_ended(&mut self) {
        let swept = std::mem::take(&mut self.swept);
        self.plane.stored().deleted(&swept);
        self.plane.stored().settle();
        self.serve();
    }

    fn serve(&mut self) {
        self.stage = Stage::Serving;
        self.plane.serves(self.at);
        self.grid.after(self.at);
    }

    /// Holds the making of an array against the engine's.
    fn check_array(&self, array: u16, shape: ArrayShape) -> Step {
        let due = self.plane.array(self.arrays);
        if due != Some((array, shape)) {
            return fault("array-shape", format!("{due:?}"), format!("{array}: {shape:?}"));
        }
        Ok(())
    }
}
