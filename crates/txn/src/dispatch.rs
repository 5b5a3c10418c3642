//! Running programs: admission, probes, ends, and runs taken back.
//!
//! 1. An arriving program is admitted at once unless earlier ones still wait for admission or the
//!    reads asked for already fill what is left of the epoch.
//! 2. The first unfinished one of a session runs. If it ends well and fits the write quota it takes
//!    the newest timestamp; so does one that is refused, without its writes. If records are missing
//!    it waits for them; if the quota is full it is parked until the next epoch.
//! 3. One behind another of its session is probed, so that its reads join the same batch.
//! 4. When what it read is taken back, it runs again, and so do those behind it in its session:
//!    each depends on the one before for as long as that is not settled.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::batcher::Asker;
use crate::core::{Core, Refused};
use crate::error::{Bound, Error, Pause};
use crate::key::Key;
use crate::mvtso::Refusal;
use crate::program::Submission;
use crate::row::{Found, ProgramId};
use crate::schedule::Stage;
use crate::version::{Body, Change};
use crate::view::{Run, View};

/// Programs a client's submission runs at most; the sweeper goes on from there.
const STEPS_OF_A_SUBMIT: usize = 4;

impl Core {
    /// A program arrives.
    pub(crate) fn submit(&mut self, session: u64, body: Box<dyn Submission>) {
        if let Some(error) = self.refusal() {
            self.refused.push(Refused { body, error });
            return;
        }
        self.schedule.arrive(session, body);
        self.advance(STEPS_OF_A_SUBMIT);
    }

    /// Ends a session: what has not run will not.
    pub(crate) fn end_session(&mut self, session: u64) {
        for program in self.schedule.end_session(session) {
            self.cancel(program);
        }
    }

    /// Admits and runs what can be, at most `steps` programs. Whether there is more to do.
    pub(crate) fn advance(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            if self.drained || self.hushed {
                return false;
            } else if let Some(program) = self.schedule.next_ready() {
                self.attempt(program);
            } else if !self.has_room() {
                return false;
            } else if let Some(program) = self.schedule.next_to_admit() {
                self.admit(program);
            } else {
                return false;
            }
        }
        self.has_work()
    }

    /// Whether some program may be run or admitted now.
    pub(crate) fn has_work(&self) -> bool {
        let work = self.schedule.has_ready() || (self.schedule.has_cold() && self.has_room());
        work && !self.drained && !self.hushed
    }

    /// After anything that may have aborted a transaction: programs that read from it run again.
    pub(crate) fn clean_up(&mut self) {
        for id in std::mem::take(&mut self.mvtso.abandoned) {
            self.batcher.abandon(&mut self.mvtso.rows, id);
        }
        for (_, answer, error) in std::mem::take(&mut self.mvtso.outcomes.lost) {
            // The owner may have gone.
            let _ = answer.send(Err(error));
        }
        let redo = std::mem::take(&mut self.mvtso.redo);
        for &program in &redo {
            if !self.schedule.undo(program) {
                self.give_up(program);
            }
        }
        redo.iter().for_each(|&program| self.schedule.ready_if_first(program));
    }

    /// A program is to run again, and its session has gone.
    pub(crate) fn give_up(&mut self, program: ProgramId) {
        if let Some(body) = self.schedule.take(program).and_then(|entry| entry.body) {
            self.refused.push(Refused { body, error: Error::Closed });
        }
    }

    /// Answers a program with an error.
    pub(crate) fn refuse(&mut self, program: ProgramId, error: Error) {
        if let Some(body) = self.withdraw(program) {
            self.refused.push(Refused { body, error });
        }
    }

    /// Neither the reads asked for nor the work done fill the epoch yet.
    fn has_room(&self) -> bool {
        if self.has_worked_enough() {
            return false;
        }
        let left = (self.batches_left() + 1).saturating_mul(self.limits.blocks_per_batch);
        self.batcher.blocks_queued() < left
    }

    fn admit(&mut self, program: ProgramId) {
        let eldest = self.schedule.eldest == Some(program);
        let Some(entry) = self.schedule.get_mut(program) else { return };
        // It has been too many before, and would be again: no need to run it to find out.
        let is_short = entry.bytes > 0 && self.mvtso.quota.is_short_of(entry.bytes);
        if !eldest && (is_short || entry.is_large) {
            entry.stage = Stage::Parked;
            return;
        }
        entry.stage = Stage::Waiting;
        match self.schedule.first_of_session(program) {
            Some(Stage::Parked) => {}
            Some(_) if !self.schedule.is_first(program) => self.probe(program),
            _ => self.attempt(program),
        }
    }

    fn attempt(&mut self, program: ProgramId) {
        let mut run = std::mem::take(&mut self.run);
        if let Some(ended) = self.run_observed(program, &mut run) {
            match (self.more_than_an_epoch_holds(&run), ended) {
                (Some(error), _) | (None, Err(Pause::Refused(error))) => {
                    self.end_refused(program, &mut run, error);
                }
                (None, Ok(())) => self.end_run(program, &mut run),
                (None, Err(Pause::Missing)) => self.wait_for(program, &run),
            }
        }
        self.run = run;
    }

    /// Why no epoch will ever do what a run has asked for, if that is so.
    fn more_than_an_epoch_holds(&self, run: &Run) -> Option<Error> {
        let (needed, limit) = (self.blocks_of(run), self.limits.blocks_gathered_max);
        (needed > limit).then_some(Error::TooLarge { what: Bound::Reads, needed, limit })
    }

    /// Blocks that a run has read or asked for, as far as it came.
    fn blocks_of(&self, run: &Run) -> usize {
        let wanted = run.wanted.iter().map(|&id| self.mvtso.rows.get(id).base_blocks());
        run.blocks.max(wanted.sum())
    }

    /// A program that cannot be done ends as one that only reads: its error is told with the epoch.
    pub(crate) fn end_refused(&mut self, program: ProgramId, run: &mut Run, error: Error) {
        let Some(entry) = self.schedule.get_mut(program) else { return };
        let Some(body) = &mut entry.body else { return };
        body.refuse(error);
        entry.trail = None;
        run.writes.clear();
        run.watching.clear();
        run.forgets.clear();
        self.end_run(program, run);
    }

    /// Runs a program; if somebody wants to know what it asks for, as often as it would have to be
    /// run with nothing in memory. What it then waits for is only what is really not here.
    fn run_observed(
        &mut self,
        program: ProgramId,
        run: &mut Run,
    ) -> Option<std::result::Result<(), Pause>> {
        if self.observer.is_none() {
            return self.run_once(program, run);
        }
        let trail = self.schedule.get_mut(program)?.trail.take();
        run.trail = Some(trail.unwrap_or_default());
        let result = loop {
            let result = self.run_once(program, run);
            let paused = matches!(result, Some(Err(Pause::Missing)));
            let fetched = run.trail.as_mut().is_some_and(|trail| paused && trail.fetch());
            run.wanted.retain(|id| {
                let row = self.mvtso.rows.get(*id);
                row.read_at(row.newest()) == Found::NeedsBase
            });
            if !fetched || !run.wanted.is_empty() {
                break result;
            }
        };
        let trail = run.trail.take();
        if matches!(result, Some(Ok(()) | Err(Pause::Missing))) {
            self.schedule.get_mut(program)?.trail = trail;
        }
        result
    }

    /// Tells whoever wants to know what a program has asked for that has ended well.
    fn tell(&mut self, program: ProgramId, written: Vec<(Key, Option<u32>)>) {
        let trail = self.schedule.get_mut(program).and_then(|entry| entry.trail.take());
        if let Some((observer, mut trail)) = self.observer.as_ref().zip(trail) {
            written.into_iter().for_each(|(key, bytes)| trail.write(key, bytes));
            observer.ended(&trail.end());
        }
    }

    /// What a run has written, if anybody wants to know.
    fn written(&self, run: &Run) -> Vec<(Key, Option<u32>)> {
        let writes = run.writes.iter().filter(|_| self.observer.is_some());
        let bytes = |change: &Change| (change.body != Body::Gone).then_some(change.len);
        writes.map(|w| (self.mvtso.rows.get(w.row).key.clone(), bytes(&w.change))).collect()
    }

    /// Finds out what a program will read; whatever else comes of it is forgotten.
    fn probe(&mut self, program: ProgramId) {
        let mut run = std::mem::take(&mut self.run);
        match self.run_once(program, &mut run) {
            Some(_) if self.more_than_an_epoch_holds(&run).is_some() => {}
            Some(Err(Pause::Missing)) if !run.wanted.is_empty() => self.wait_for(program, &run),
            Some(Ok(())) => {
                if let Some(entry) = self.schedule.get_mut(program) {
                    entry.bytes = run.need.bytes;
                }
            }
            _ => {}
        }
        self.run = run;
    }

    fn run_once(
        &mut self,
        program: ProgramId,
        run: &mut Run,
    ) -> Option<std::result::Result<(), Pause>> {
        let mut body = self.schedule.get_mut(program)?.body.take()?;
        run.start(self.mvtso.next_ts(), self.mvtso.newest_active().is_some());
        run.began_ms = self.staging.began_ms(program).unwrap_or(self.now_ms);
        // A program that panics must not take those of others with it: its run is forgotten.
        let guarded = AssertUnwindSafe(|| body.run(&mut View::new(self, run)));
        let result = catch_unwind(guarded).unwrap_or(Err(Pause::Refused(Error::Panicked)));
        self.schedule.get_mut(program)?.body = Some(body);
        Some(result)
    }

    fn end_run(&mut self, program: ProgramId, run: &mut Run) {
        let eldest = self.schedule.eldest == Some(program);
        let held = self.hold_against_stage(program, run);
        let mvtso = &self.mvtso;
        let before = self.schedule.unsettled_before(program, |ts| mvtso.is_unsettled(ts));
        run.depends_on.extend(before);
        for &id in &run.marks {
            let row = self.mvtso.rows.get_mut(id);
            row.mark(row.newest(), run.ts);
        }
        for (range, sight) in &run.predicates {
            self.mvtso.predicates.record(range, *sight, run.ts);
        }
        let written = self.written(run);
        let ends = self.mvtso.finish_program(
            program,
            &mut run.writes,
            &run.depends_on,
            eldest,
            held.demand(),
        );
        match ends {
            Ok(ts) => {
                for (watch, target) in run.watching.drain(..) {
                    self.watches.enter(&watch, target, self.epoch, ts);
                }
                self.end_staging(program, ts, held);
                if eldest {
                    self.mvtso.quota.hold_for_eldest(0);
                }
                if !run.forgets.is_empty() {
                    self.mvtso.makes_room();
                }
                if let Some(entry) = self.schedule.get_mut(program) {
                    entry.forgets = std::mem::take(&mut run.forgets);
                }
                self.tell(program, written);
                let unsettled = self.mvtso.is_unsettled(ts);
                self.schedule.finish(program, ts, unsettled);
            }
            Err(_) if eldest && self.takes_epochs(run) => self.stage(program, run, held),
            Err(Refusal::NotNow { bytes }) => self.park(program, bytes),
            Err(Refusal::NoSpace(lack)) => self.end_refused(program, run, Error::NoRoom(lack)),
        }
    }

    /// The write quota is full: the program waits for the next epoch.
    pub(crate) fn park(&mut self, program: ProgramId, bytes: usize) {
        if let Some(entry) = self.schedule.get_mut(program) {
            entry.stage = Stage::Parked;
            entry.bytes = bytes;
        }
    }

    fn wait_for(&mut self, program: ProgramId, run: &Run) {
        if run.wanted.is_empty() {
            // It paused for nothing: no batch will wake it, so the next epoch does.
            self.park(program, 0);
            return;
        }
        let is_large = self.blocks_of(run) > self.limits.blocks_read_max;
        let asker = match self.schedule.eldest == Some(program) {
            true if is_large => Asker::Large,
            true => Asker::Eldest,
            false => Asker::Program,
        };
        let Some(entry) = self.schedule.get_mut(program) else { return };
        entry.is_large = is_large;
        if is_large && asker == Asker::Program {
            return self.park(program, 0); // its reads would fill the epochs until it is the eldest
        }
        entry.missing = run.wanted.len() as u32;
        entry.awaits.extend_from_slice(&run.wanted);
        if is_large {
            entry.reads.clone_from(&run.read);
        }
        for &id in &run.wanted {
            self.batcher.ask(&mut self.mvtso.rows, id, asker);
            self.mvtso.rows.get_mut(id).waiting.push(program);
        }
    }

    /// A program will not run any more: what it waited for, nobody waits for on its account.
    fn withdraw(&mut self, program: ProgramId) -> Option<Box<dyn Submission>> {
        let entry = self.schedule.take(program)?;
        if entry.missing > 0 {
            for &id in &entry.awaits {
                self.batcher.abandon(&mut self.mvtso.rows, id);
            }
        }
        self.schedule.leave_queue(entry.session, program);
        if self.schedule.eldest == Some(program) {
            self.schedule.eldest = None;
            self.mvtso.quota.hold_for_eldest(0);
        }
        entry.body
    }

    fn cancel(&mut self, program: ProgramId) {
        self.refuse(program, Error::Closed);
    }
}
