//! Which program is next: arrival order, session order, and who waits for what.
//!
//! Programs are numbered as they arrive. Within an epoch a cursor moves over them: those before it
//! have been *admitted*, that is run or probed once. When an epoch ends with programs unfinished,
//! the cursor returns to the first of them, so they keep their place: first come, first served
//! across epochs. A session's programs take effect in the order submitted: only its first
//! unfinished one may run; the others are probed for what they will read, so that a whole pipeline
//! shares one batch.
//!
//! The eldest unfinished program has the first claim on every batch and on the write quota it is
//! known to need. What it has read when an epoch ends is still there in the next, so it ends some
//! time, however much it reads: nobody waits for ever and nobody is starved. One that reads more
//! than an epoch's batches begins when it is the eldest.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::footprint::Trail;
use crate::key::{Key, KeyRange};
use crate::program::Submission;
use crate::row::ProgramId;
use crate::rows::RowId;
use crate::version::Ts;

/// How far a program is in this epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not admitted in this epoch.
    Cold,
    /// Admitted; runs when nothing is missing and it is first of its session.
    Waiting,
    /// Does not fit the write quota of this epoch.
    Parked,
    /// Has run at this timestamp.
    Done(Ts),
}

/// One program.
pub(crate) struct Entry {
    /// The program; taken out while it runs.
    pub body: Option<Box<dyn Submission>>,
    /// Its session.
    pub session: u64,
    /// How far it is.
    pub stage: Stage,
    /// Records it waits for that are not here yet.
    pub missing: u32,
    /// All records it has asked for in this epoch.
    pub awaits: SmallVec<[RowId; 4]>,
    /// What it has asked for so far, if anybody wants to know.
    pub trail: Option<Trail<Key>>,
    /// Bytes of the delta it took alone when it last ran without ending; 0 if not known.
    pub bytes: usize,
    /// All records that it had read when it last paused, if it is large.
    pub reads: Vec<RowId>,
    /// What it has ended with: ranges of which nobody asks for a key before all in them has gone.
    pub forgets: Vec<KeyRange>,
    /// Whether it reads more than the batches of an epoch bring.
    pub is_large: bool,
}

#[derive(Default)]
struct SessionQueue {
    unfinished: VecDeque<ProgramId>,
    /// Timestamps of finished programs that may still be taken back, oldest first.
    unsettled: SmallVec<[Ts; 2]>,
}

/// All programs that are not answered yet.
#[derive(Default)]
pub(crate) struct Schedule {
    /// The eldest unfinished one of this epoch.
    pub eldest: Option<ProgramId>,
    /// Programs that have run in this epoch.
    pub done: Vec<ProgramId>,
    entries: VecDeque<Option<Entry>>,
    first: ProgramId,
    cursor: ProgramId,
    ready: BinaryHeap<Reverse<ProgramId>>,
    sessions: HashMap<u64, SessionQueue>,
    last_session: u64,
}

impl Schedule {
    /// Opens a session.
    pub(crate) fn open_session(&mut self) -> u64 {
        self.last_session += 1;
        self.sessions.insert(self.last_session, SessionQueue::default());
        self.last_session
    }

    /// Ends a session; its unfinished programs, to be cancelled.
    pub(crate) fn end_session(&mut self, session: u64) -> VecDeque<ProgramId> {
        self.sessions.remove(&session).map(|queue| queue.unfinished).unwrap_or_default()
    }

    /// A program arrives.
    pub(crate) fn arrive(&mut self, session: u64, body: Box<dyn Submission>) -> ProgramId {
        let id = self.end();
        let (stage, awaits) = (Stage::Cold, SmallVec::new());
        let body = Some(body);
        self.entries.push_back(Some(Entry {
            body,
            session,
            stage,
            missing: 0,
            awaits,
            trail: None,
            bytes: 0,
            reads: Vec::new(),
            forgets: Vec::new(),
            is_large: false,
        }));
        if let Some(queue) = self.sessions.get_mut(&session) {
            queue.unfinished.push_back(id);
        }
        id
    }

    /// A program that is not answered yet.
    pub(crate) fn get_mut(&mut self, id: ProgramId) -> Option<&mut Entry> {
        let index = id.checked_sub(self.first)?;
        self.entries.get_mut(index as usize)?.as_mut()
    }

    /// Takes a program out: answered or cancelled.
    pub(crate) fn take(&mut self, id: ProgramId) -> Option<Entry> {
        let index = id.checked_sub(self.first)?;
        let entry = self.entries.get_mut(index as usize)?.take();
        while matches!(self.entries.front(), Some(None)) {
            self.entries.pop_front();
            self.first += 1;
        }
        self.cursor = self.cursor.max(self.first);
        entry
    }

    /// The next program to admit, if one has arrived.
    pub(crate) fn next_to_admit(&mut self) -> Option<ProgramId> {
        while self.cursor < self.end() {
            self.cursor += 1;
            let id = self.cursor - 1;
            if self.get_mut(id).is_some_and(|entry| entry.stage == Stage::Cold) {
                return Some(id);
            }
        }
        None
    }

    /// Whether this is the first unfinished program of its session.
    pub(crate) fn is_first(&mut self, id: ProgramId) -> bool {
        let Some(session) = self.get_mut(id).map(|entry| entry.session) else { return false };
        self.sessions.get(&session).and_then(|q| q.unfinished.front()) == Some(&id)
    }

    /// How far the first unfinished program of this one's session is.
    pub(crate) fn first_of_session(&mut self, id: ProgramId) -> Option<Stage> {
        let session = self.get_mut(id)?.session;
        let first = *self.sessions.get(&session)?.unfinished.front()?;
        self.get_mut(first).map(|entry| entry.stage)
    }

    /// Notes that a program may run now, if it may.
    pub(crate) fn ready_if_first(&mut self, id: ProgramId) {
        let waits = |entry: &mut Entry| entry.stage == Stage::Waiting && entry.missing == 0;
        if self.is_first(id) && self.get_mut(id).is_some_and(waits) {
            self.ready.push(Reverse(id));
        }
    }

    /// The program that may run next.
    pub(crate) fn next_ready(&mut self) -> Option<ProgramId> {
        while let Some(Reverse(id)) = self.ready.pop() {
            let waits = |entry: &mut Entry| entry.stage == Stage::Waiting && entry.missing == 0;
            if self.get_mut(id).is_some_and(waits) && self.is_first(id) {
                return Some(id);
            }
        }
        None
    }

    /// Whether some program may run now.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether some program waits to be admitted.
    pub(crate) fn has_cold(&self) -> bool {
        self.cursor < self.end()
    }

    /// A program leaves its session's queue; the one behind it may be ready.
    pub(crate) fn leave_queue(&mut self, session: u64, id: ProgramId) {
        let Some(queue) = self.sessions.get_mut(&session) else { return };
        if queue.unfinished.front() == Some(&id) {
            queue.unfinished.pop_front();
        } else {
            queue.unfinished.retain(|other| *other != id);
        }
        if let Some(&next) = queue.unfinished.front() {
            self.ready_if_first(next);
        }
    }

    /// A program has run at `ts`.
    pub(crate) fn finish(&mut self, id: ProgramId, ts: Ts, unsettled: bool) {
        let Some(entry) = self.get_mut(id) else { return };
        entry.stage = Stage::Done(ts);
        entry.awaits.clear();
        let session = entry.session;
        self.done.push(id);
        if unsettled && let Some(queue) = self.sessions.get_mut(&session) {
            queue.unsettled.push(ts);
        }
        self.leave_queue(session, id);
        if self.eldest == Some(id) {
            self.eldest = None;
        }
    }

    /// The last finished program of this one's session that may still be taken back.
    pub(crate) fn unsettled_before(
        &mut self,
        id: ProgramId,
        is_unsettled: impl Fn(Ts) -> bool,
    ) -> Option<Ts> {
        let session = self.get_mut(id)?.session;
        let queue = self.sessions.get_mut(&session)?;
        while queue.unsettled.last().is_some_and(|&ts| !is_unsettled(ts)) {
            queue.unsettled.pop();
        }
        queue.unsettled.last().copied()
    }

    /// A program's run was taken back: it waits in its old place again. False if its session has
    /// ended, and the program with it.
    pub(crate) fn undo(&mut self, id: ProgramId) -> bool {
        let Some(entry) = self.get_mut(id) else { return true };
        entry.stage = Stage::Waiting;
        entry.missing = 0;
        let session = entry.session;
        let Some(queue) = self.sessions.get_mut(&session) else { return false };
        let place = queue.unfinished.partition_point(|&other| other < id);
        queue.unfinished.insert(place, id);
        true
    }

    /// The first of all, when those that have ended are taken out.
    pub(crate) fn oldest(&self) -> Option<(ProgramId, &Entry)> {
        Some((self.first, self.entries.front()?.as_ref()?))
    }

    /// The eldest program, if it waits for reads.
    pub(crate) fn reading_eldest(&mut self) -> Option<&Entry> {
        let entry = self.get_mut(self.eldest?)?;
        (entry.stage == Stage::Waiting && entry.missing > 0).then_some(entry)
    }

    /// A new epoch: every unfinished program is cold again and the eldest has first claim.
    pub(crate) fn open_epoch(&mut self) {
        for entry in self.entries.iter_mut().flatten() {
            entry.stage = Stage::Cold;
            entry.missing = 0;
            entry.awaits.clear();
            entry.reads.clear();
        }
        self.sessions.values_mut().for_each(|queue| queue.unsettled.clear());
        self.ready.clear();
        self.done.clear();
        self.cursor = self.first;
        self.eldest = (self.first < self.end()).then_some(self.first);
    }

    /// Takes every program out, when nothing will be run any more.
    pub(crate) fn take_all(&mut self) -> Vec<Box<dyn Submission>> {
        self.first = self.end();
        self.cursor = self.first;
        self.ready.clear();
        self.eldest = None;
        self.sessions.values_mut().for_each(|queue| queue.unfinished.clear());
        self.entries.drain(..).flatten().filter_map(|entry| entry.body).collect()
    }

    fn end(&self) -> ProgramId {
        self.first + self.entries.len() as u64
    }
}
