//! Checkpoints beside the journal, deletions after them, and the close.
//!
//! 1. After the record with which a cut falls due, departures wait until the last checkpoint counts
//!    and, if the engine cuts quietly, no access is under way. Then there is the cut, and
//!    departures go on.
//! 2. When what was written so far is acknowledged there is a barrier, unless all of it is durable
//!    already; then the pieces, so many at once, on a grid one a point; then, as soon as all
//!    records before the cut count and what the last one superseded is gone, the commit. Records
//!    leave meanwhile.
//! 3. What it superseded is deleted: blobs, then chunk versions that no access under way can name.
//!
//! A close is the same when nothing is under way, whenever the owner wants it.

use fogbank_env::Nanos;
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
    /// Records before it that do not count yet.
    uncounted: usize,
    /// Its messages under way, and when the last left.
    under_way: u32,
    left: Option<Nanos>,
    /// When it was last decided that an earlier checkpoint leaves nothing to delete.
    decided: Option<Nanos>,
    /// Whether the store may have been closed where it was cut: nothing was asked, so no trace
    /// tells.
    or_closes: bool,
}

/// The next message of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Barrier,
    Piece(u32),
    /// None before all pieces have ended.
    Ends,
    Commit,
    /// None: its commit is under way.
    Counts,
}

/// What a commit superseded.
#[derive(Debug, Clone)]
pub(in crate::oracle) struct Deletion {
    number: u64,
    pub(super) blobs: Vec<String>,
    /// Decided when the blobs are gone and what came with that has been taken.
    pub(super) chunks: Option<Vec<ChunkName>>,
    closes: bool,
    mark: u64,
    pub(super) under_way: bool,
}

/// Requests.
impl<P: Plane> Immediate<P> {
    /// Cuts if that is due and nothing is in its way any more: when all has been taken that came
    /// within the instant.
    pub(in crate::oracle) fn cut_if_due(&mut self) {
        let is_quiet = self.plane.is_quiet() && self.plane.may_cut() && self.recording.is_empty();
        let may_cut = is_quiet || (!self.shell.cuts_quietly && self.has_place());
        if self.cut_due && self.checkpoint.is_none() && may_cut {
            self.cut_due = false;
            self.cut(false);
            self.grid.held_up(self.at);
        }
    }

    /// Cuts where it is decided what leaves at the next point, if that is due.
    pub(in crate::oracle) fn cut_at_decision(&mut self) {
        let was_due = self.cut_due;
        self.cut_if_due();
        if let Some(one) = self.checkpoint.as_mut().filter(|_| was_due && !self.cut_due) {
            one.left = Some(self.at);
        }
    }

    pub(in crate::oracle) fn cut(&mut self, closes: bool) {
        let mark = self.plane.cut();
        self.chain.cut();
        let due = if P::IS_DURABLE { Due::Piece(0) } else { Due::Barrier };
        let (uncounted, under_way, left) = (self.recording.len(), 0, None);
        let or_closes = !closes && self.plane.is_quiet() && self.plane.have_left();
        let decided = None;
        let one = Checkpoint { mark, closes, due, uncounted, under_way, left, decided, or_closes };
        self.checkpoint = Some(one);
    }

    /// The owner closes the store, if he may.
    pub(in crate::oracle) fn close_if_idle(&mut self) {
        let idle = self.stage == Stage::Serving
            && self.checkpoint.is_none()
            && !self.cut_due
            && self.recording.is_empty()
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
    pub(super) fn due(&self) -> Option<Due> {
        self.due_at(self.at)
    }

    /// The next point, if a piece may leave at it that may not now, since each has one of its own;
    /// or the commit, since it was decided at this one that there is nothing to delete.
    pub(in crate::oracle) fn next_piece(&self) -> Option<Nanos> {
        let next = self.at + self.shell.quantum_ns;
        let is_late = |due| matches!(due, Some(Due::Piece(_) | Due::Commit));
        let waits = self.due().is_none() && is_late(self.due_at(next));
        waits.then_some(next)
    }

    fn due_at(&self, at: Nanos) -> Option<Due> {
        let one = self.checkpoint?;
        // Once nobody knows what became of a piece the others wait for the answer.
        let is_doubtful = || self.doubts.iter().any(|doubt| matches!(doubt.part, Part::Piece(..)));
        let may = match one.due {
            Due::Barrier => one.under_way == 0 && self.plane.is_acknowledged(one.mark),
            Due::Piece(_) => {
                let has_point = self.shell.quantum_ns == 0 || one.left != Some(at);
                let is_free = one.under_way < self.shell.vault.pieces_at_once.max(1);
                is_free && has_point && self.plane.is_acknowledged(one.mark) && !is_doubtful()
            }
            Due::Ends | Due::Counts => false,
            Due::Commit => {
                let counts = (one.under_way, one.uncounted) == (0, 0);
                counts && self.deletions.is_empty() && one.decided != Some(at)
            }
        };
        may.then_some(one.due)
    }

    /// The oldest record counts.
    pub(in crate::oracle) fn record_counts(&mut self) {
        let uncounted = self.checkpoint.as_mut().map(|one| &mut one.uncounted);
        uncounted.into_iter().for_each(|records| *records = records.saturating_sub(1));
    }

    /// What is due leaves; the next message is `then`.
    fn leaves(&mut self, due: Due, then: Due, seen: &str) -> Step {
        if self.due() != Some(due) {
            let due = self.due().map_or("nothing of a checkpoint".into(), |due| format!("{due:?}"));
            return fault("commit-order", due, seen);
        }
        if let Some(one) = &mut self.checkpoint {
            (one.due, one.left) = (then, Some(self.at));
            one.under_way += 1;
        }
        Ok(())
    }

    /// A barrier that is not the engine's own.
    pub(in crate::oracle) fn barrier(&mut self) -> Step<Part<P::Part>> {
        if self.checkpoint.is_none() {
            self.close_if_idle();
        }
        self.leaves(Due::Barrier, Due::Piece(0), "a barrier")?;
        Ok(Part::Barrier)
    }

    /// A piece or a commit is put.
    pub(in crate::oracle) fn put_checkpoint(
        &mut self,
        put: (&str, Kept, &Condition),
    ) -> Step<Part<P::Part>> {
        let (name, kept, condition) = put;
        if P::IS_DURABLE && self.checkpoint.is_none() {
            self.close_if_idle();
        }
        let closes = self.checkpoint.is_some_and(|one| one.closes);
        match self.checkpoint.map(|one| one.due) {
            Some(Due::Piece(piece)) if name.starts_with(FULL) => {
                let is_last = piece + 1 >= self.shell.vault.pieces;
                let then = if is_last { Due::Ends } else { Due::Piece(piece + 1) };
                self.leaves(Due::Piece(piece), then, name)?;
                self.chain.cut_piece(piece, put)?;
                Ok(Part::Piece(name.into()))
            }
            Some(Due::Commit) if name == COMMIT => {
                self.leaves(Due::Commit, Due::Counts, name)?;
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
    /// A barrier, or a piece, of the checkpoint has ended.
    pub(in crate::oracle) fn part_ended(&mut self) {
        let Some(one) = &mut self.checkpoint else { return };
        one.under_way -= 1;
        if (one.due, one.under_way) == (Due::Ends, 0) {
            one.due = Due::Commit;
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
        let deletes_nothing = |one: &Deletion| one.chunks.as_ref().is_some_and(Vec::is_empty);
        if self.shell.quantum_ns > 0 && self.deletions.iter().any(deletes_nothing) {
            let decided = self.checkpoint.as_mut().map(|one| &mut one.decided);
            decided.into_iter().for_each(|decided| *decided = Some(self.at));
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
    pub(in crate::oracle) fn check_checkpoint_settled(&mut self, may_end: bool) -> Step {
        let is_unseen = |one: &Checkpoint| one.or_closes && one.due == Due::Piece(0);
        if self.stage == Stage::Serving
            && self.due().is_some()
            && self.checkpoint.take_if(|one| is_unseen(one)).is_some()
        {
            self.has_departed = true; // only a close may follow
        }
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
