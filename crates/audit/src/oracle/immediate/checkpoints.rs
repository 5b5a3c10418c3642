//! Checkpoints beside the journal, deletions after them, and the close.
//!
//! 1. After the record with which a cut falls due, departures wait until the last checkpoint counts and no
//!    access is under way. Then there is the cut, and departures go on.
//! 2. When what was written so far is acknowledged there is a barrier; then the pieces, one after the
//!    other; then, as soon as no record is on its way and what the last one superseded is gone, the commit.
//! 3. What it superseded is deleted: blobs, then chunk versions that no access under way can name.
//!
//! A close is the same when nothing is under way, whenever the owner wants it.

use fogbank_store::ChunkName;
use fogbank_store::trace::Condition;

use super::{Immediate, Part, Plane, Stage};
use crate::oracle::blob::{COMMIT, FULL, Kept, check_names};
use crate::oracle::fault::{Step, fault};

/// A checkpoint that is being written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::oracle) struct Checkpoint {
    mark: u64,
    closes: bool,
    due: Due,
    under_way: bool,
}

/// The message of a checkpoint that is due, or under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Barrier,
    Piece(u32),
    Commit,
}

/// What a commit superseded.
#[derive(Debug, Clone)]
pub(in crate::oracle) struct Deletion {
    number: u64,
    blobs: Vec<String>,
    /// Decided when the blobs are gone and what came with that has been taken.
    chunks: Option<Vec<ChunkName>>,
    closes: bool,
    mark: u64,
    under_way: bool,
}

/// Requests.
impl<P: Plane> Immediate<P> {
    /// Cuts if that is due and nothing is under way any more.
    pub(in crate::oracle) fn cut_if_due(&mut self) {
        let may_cut = self.plane.is_quiet() && self.plane.may_cut();
        if self.cut_due && self.checkpoint.is_none() && !self.is_recording && may_cut {
            self.cut_due = false;
            self.cut(false);
            self.grid.held_up(self.at);
        }
    }

    pub(in crate::oracle) fn cut(&mut self, closes: bool) {
        let mark = self.plane.cut();
        self.chain.cut();
        self.checkpoint = Some(Checkpoint { mark, closes, due: Due::Barrier, under_way: false });
    }

    /// The owner closes the store, if he may.
    pub(in crate::oracle) fn close_if_idle(&mut self) {
        let idle = self.stage == Stage::Serving
            && self.checkpoint.is_none()
            && !self.cut_due
            && !self.is_recording
            && self.plane.is_quiet()
            && self.plane.may_cut()
            && self.plane.have_left()
            && self.plane.is_idle()
            && self.deletions.is_empty();
        if idle {
            self.stage = Stage::Closing;
            self.cut(true);
        }
    }

    /// The message of the checkpoint that may leave now.
    fn due(&self) -> Option<Due> {
        let one = self.checkpoint.filter(|one| !one.under_way)?;
        let may = match one.due {
            Due::Barrier => self.plane.is_acknowledged(one.mark),
            Due::Piece(_) => true,
            Due::Commit => !self.is_recording && self.deletions.is_empty(),
        };
        may.then_some(one.due)
    }

    /// Whether a commit is due, before which no record may leave.
    pub(in crate::oracle) fn commits(&self) -> bool {
        self.checkpoint.is_some_and(|one| one.due == Due::Commit)
    }

    fn leaves(&mut self, due: Due, seen: &str) -> Step {
        if self.due() != Some(due) {
            let due = self.due().map_or("nothing of a checkpoint".into(), |due| format!("{due:?}"));
            return fault("commit-order", due, seen);
        }
        if let Some(one) = &mut self.checkpoint {
            one.under_way = true;
        }
        Ok(())
    }

    /// A barrier that is not the engine's own.
    pub(in crate::oracle) fn barrier(&mut self) -> Step<Part<P::Part>> {
        if self.checkpoint.is_none() {
            self.close_if_idle();
        }
        self.leaves(Due::Barrier, "a barrier")?;
        Ok(Part::Barrier)
    }

    /// A piece or a commit is put.
    pub(in crate::oracle) fn put_checkpoint(
        &mut self,
        put: (&str, Kept, &Condition),
    ) -> Step<Part<P::Part>> {
        let (name, kept, condition) = put;
        let closes = self.checkpoint.is_some_and(|one| one.closes);
        match self.checkpoint.map(|one| one.due) {
            Some(Due::Piece(piece)) if name.starts_with(FULL) => {
                self.leaves(Due::Piece(piece), name)?;
                let last = self.chain.cut_piece(piece, put)?;
                Ok(Part::Piece(name.into(), last))
            }
            Some(Due::Commit) if name == COMMIT => {
                self.leaves(Due::Commit, name)?;
                self.chain.cut_commit(closes, kept, condition)?;
                self.plane.committing();
                Ok(Part::Commit)
            }
            _ => {
                let due =
                    self.due().map_or("nothing of a checkpoint".into(), |due| format!("{due:?}"));
                fault("commit-order", due, format!("put {name}"))
            }
        }
    }

    pub(in crate::oracle) fn delete_blobs(&mut self, names: &[String]) -> Step<Part<P::Part>> {
        let due = self.deletions.iter_mut().find(|one| !one.under_way && !one.blobs.is_empty());
        let Some(one) = due else {
            return fault("commit-order", "no deletion of blobs", format!("delete {names:?}"));
        };
        check_names("commit-order", &one.blobs, names)?;
        one.under_way = true;
        let number = one.number;
        self.chain.deletes(names);
        Ok(Part::Blobs(number))
    }

    pub(in crate::oracle) fn delete_chunks(&mut self, names: &[ChunkName]) -> Step<Part<P::Part>> {
        let decided = |one: &&mut Deletion| !one.under_way && one.chunks.is_some();
        let found = self.deletions.iter_mut().find(decided);
        let Some((one, chunks)) = found.and_then(|one| one.chunks.clone().map(|c| (one, c))) else {
            return fault("superseded-deleted", "no deletion", format!("delete {names:x?}"));
        };
        if chunks != names {
            let same = chunks.iter().zip(names).take_while(|(a, b)| a == b).count();
            let words = |name: Option<&ChunkName>| match name {
                Some(name) => format!("delete {name:x?}, number {same} as they were superseded"),
                None => format!("a call that ends after {same} versions"),
            };
            let (due, seen) = (words(chunks.get(same)), words(names.get(same)));
            return fault("superseded-deleted", due, seen);
        }
        one.under_way = true;
        let number = one.number;
        self.plane.stored().delete(names);
        Ok(Part::Chunks(number))
    }
}

/// Replies.
impl<P: Plane> Immediate<P> {
    pub(in crate::oracle) fn barrier_ended(&mut self) {
        self.next_of_checkpoint(Due::Piece(0));
    }

    pub(in crate::oracle) fn piece_ended(&mut self, name: &str, last: bool) {
        self.chain.landed(name);
        let Some(Checkpoint { due: Due::Piece(piece), .. }) = self.checkpoint else { return };
        self.next_of_checkpoint(if last { Due::Commit } else { Due::Piece(piece + 1) });
    }

    fn next_of_checkpoint(&mut self, due: Due) {
        if let Some(one) = &mut self.checkpoint {
            (one.due, one.under_way) = (due, false);
        }
    }

    pub(in crate::oracle) fn commit_ended(&mut self) {
        let Some(Checkpoint { mark, closes, .. }) = self.checkpoint.take() else { return };
        let blobs = self.chain.committed(closes);
        self.plane.committed();
        self.summary.epochs += 1;
        self.summary.closings += u32::from(closes);
        blobs.iter().for_each(|name| self.plane.forget_record(name));
        let (number, chunks, under_way) = (self.summary.epochs, None, false);
        self.deletions.push(Deletion { number, blobs, chunks, closes, mark, under_way });
        self.grid.held_up(self.at);
        self.cut_if_due();
    }

    pub(in crate::oracle) fn blobs_deleted(&mut self, number: u64) {
        let Some(one) = self.deletions.iter_mut().find(|one| one.number == number) else { return };
        let blobs = std::mem::take(&mut one.blobs);
        one.under_way = false;
        self.chain.deleted(&blobs);
        if self.shell.quantum_ns == 0 {
            self.decide_deletions();
        }
    }

    /// Which versions go is decided where the blobs are gone.
    pub(in crate::oracle) fn decide_deletions(&mut self) {
        for one in self.deletions.iter_mut().filter(|one| one.blobs.is_empty()) {
            one.chunks.get_or_insert_with(|| self.plane.superseded(one.mark, one.closes));
        }
        self.drop_deleted();
    }

    pub(in crate::oracle) fn chunks_deleted(&mut self, number: u64) {
        let Some(one) = self.deletions.iter_mut().find(|one| one.number == number) else { return };
        let chunks = one.chunks.replace(Vec::new()).unwrap_or_default();
        self.plane.stored().deleted(&chunks);
        self.drop_deleted();
    }

    fn drop_deleted(&mut self) {
        self.deletions.retain(|one| one.chunks.as_ref().is_none_or(|chunks| !chunks.is_empty()));
        if self.stage == Stage::Closing && self.checkpoint.is_none() && self.deletions.is_empty() {
            self.stage = Stage::Ended;
        }
    }

    /// The checkpoint of a recovery counts, and what it superseded is deleted.
    pub(in crate::oracle) fn recovered(&mut self) {
        let over = self.checkpoint.is_none() && self.deletions.is_empty();
        if self.stage == Stage::Recovering && over && !self.cut_due {
            self.stage = Stage::SweepList;
        }
    }

    /// What should have left at once and has not.
    /// Unless all `may_end` before what was decided leaves.
    pub(in crate::oracle) fn check_checkpoint_settled(&self, may_end: bool) -> Step {
        if let Some(due) = self.due() {
            return fault("commit-order", format!("{due:?} at once"), "nothing");
        }
        match self.deletions.iter().find(|one| !one.under_way) {
            Some(one) if one.blobs.is_empty() && may_end => Ok(()),
            Some(one) if one.blobs.is_empty() => {
                fault("superseded-deleted", "a deletion of versions at once", "nothing")
            }
            Some(_) => fault("commit-order", "a deletion of blobs at once", "nothing"),
            None => Ok(()),
        }
    }
}
