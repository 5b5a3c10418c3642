//! Recovery: what the records since the last checkpoint name is read again, record by record.
//!
//! 1. The state is that of the checkpoint. Every record is cut again: the same jobs, the same accesses,
//!    the same cells, all at once. What was not seen before the stop is seen now.
//! 2. When all of it has come accesses end, commits take effect and orders are durable.
//! 3. Then jobs without a commit write, as this opening's; records bring them to their end, and there is
//!    a checkpoint. A new store has one before it serves, too.

use super::layout::version;
use super::pyramid::Phase;
use super::state::State;
use super::{CellSeen, Due, Partition, Silent};
use crate::oracle::fault::{Step, fault};
use crate::oracle::immediate::{Immediate, Stage};

/// What the traces have shown of a record.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Journalled {
    /// Partitions and generations.
    pub commits: Vec<(u32, u64)>,
    pub accesses: usize,
    /// By access: its partition, once its cells were seen.
    pub partitions: Option<Vec<u32>>,
    /// Whether they showed nothing.
    pub is_silent: bool,
    /// What its messages read, as far as they were seen.
    pub messages: Vec<Vec<CellSeen>>,
}

/// The records that are read again.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Replay {
    names: Vec<String>,
    /// The next of them.
    next: usize,
    /// Whether one is at hand, and how many of its messages were seen.
    at_hand: bool,
    seen: usize,
    /// Replies that have not come.
    under_way: usize,
    /// Whether it reads nothing, and waits for the next point.
    pub empty: bool,
    /// The orders of the record at hand.
    pub orders: Vec<u32>,
    journal: Vec<Journalled>,
    /// Whether the record at hand may be over, and nobody has looked.
    wakes: bool,
}

impl Replay {
    pub fn is_idle(&self) -> bool {
        !self.at_hand
    }

    /// The partitions of the accesses of the record at hand, as far as they are known.
    pub fn known(&self) -> Option<Vec<u32>> {
        let at_hand = self.at_hand.then(|| self.journal.get(self.next)).flatten()?;
        at_hand.partitions.clone()
    }
}

impl Replay {
    /// A reply has come.
    pub fn reply_comes(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

impl Partition {
    /// The accesses of the record were seen, and these cells of them.
    pub(super) fn journal_partitions(&mut self, count: usize, cells: &[CellSeen]) {
        let of = self.accesses.len() - count;
        let partitions = self.accesses.iter().skip(of).map(super::Access::partition).collect();
        if let Some(journalled) = self.journal.get_mut(&self.record.1) {
            journalled.partitions = Some(partitions);
            journalled.is_silent = cells.is_empty();
            if self.replay.is_idle() && !cells.is_empty() {
                journalled.messages.insert(0, cells.to_vec());
            }
        }
    }

    /// A job of the record was seen to read these cells.
    pub(super) fn journal_job(&mut self, cells: &[CellSeen]) -> Step {
        if self.replay.is_idle()
            && let Some(journalled) = self.journal.get_mut(&self.record.1)
        {
            journalled.messages.push(cells.to_vec());
        }
        Ok(())
    }

    /// Holds a message of a replay against what it was.
    pub(super) fn check_again(&mut self, cells: &[CellSeen]) -> Step {
        let known = self.replay.journal.get(self.replay.next);
        let known = known.and_then(|known| known.messages.get(self.replay.seen));
        self.replay.seen += 1;
        self.replay.under_way += 1;
        match known.filter(|known| known[..] != *cells) {
            None => Ok(()),
            Some(known) => {
                let first = known.iter().zip(cells).find(|(due, seen)| due != seen);
                let due = format!("{:x?}", first.map(|(due, _)| due));
                fault("replay-identical", due, format!("{:x?}", first.map(|(_, seen)| seen)))
            }
        }
    }
}

impl Immediate<Partition> {
    /// The store is open: its state is that of the newest checkpoint.
    pub(super) fn begin_replay(&mut self) {
        let (opening, layout) = (self.plane.opening, self.plane.layout());
        let plane = &mut self.plane;
        let saved = plane.saved.clone();
        let is_new = saved.is_none();
        plane.state = saved.unwrap_or_else(|| State::new(layout, opening));
        plane.state.dead.clear();
        plane.state.dropped = 0;
        let names = self.chain.journalled();
        let journal = names.iter().map(|name| plane.journal.get(name).cloned().unwrap_or_default());
        plane.replay = Replay { journal: journal.collect(), names, ..Replay::default() };
        if is_new || !plane.replay.names.is_empty() {
            self.stage = Stage::Replaying;
            self.next_record_again();
        } else {
            self.stage = Stage::SweepList;
        }
    }

    /// The next record is cut again; or all have been.
    fn next_record_again(&mut self) {
        let (at, plane) = (self.at, &mut self.plane);
        let Some(name) = plane.replay.names.get(plane.replay.next).cloned() else {
            self.stage = Stage::Recovering;
            self.cut_due = true;
            plane.write_again(at);
            return self.cut_if_due();
        };
        let known = plane.replay.journal[plane.replay.next].clone();
        (plane.replay.at_hand, plane.replay.seen) = (true, 0);
        let budget = (plane.config.jobs_max as usize, plane.config.job_cells_max, plane.opening);
        let jobs = plane.state.begin_jobs(budget);
        plane.record = (plane.record.0 + 1, name);
        plane.commits = known.commits.clone();
        plane.state.since_cut += known.accesses as u64;
        for partition in jobs {
            let reads = plane.state.of(partition).job.as_ref().map_or(0, |job| job.reads());
            match reads {
                0 => plane.job_came(partition, at),
                _ => plane.due.push_back(Due::Job(partition)),
            }
        }
        if known.accesses > 0 {
            plane.again(&known);
        }
        if self.plane.due.is_empty() {
            self.record_was_empty();
        }
    }

    fn record_was_empty(&mut self) {
        let (at, quantum) = (self.at, self.shell.quantum_ns);
        self.plane.replay.empty = quantum > 0;
        match quantum {
            0 => self.replay_goes_on(),
            quantum => self.plane.timers.push((at + quantum, Silent::ReplayNext)),
        }
    }

    /// What reads nothing is over.
    pub(super) fn replay_wakes(&mut self) {
        if std::mem::take(&mut self.plane.replay.wakes) && self.plane.due.is_empty() {
            self.record_was_empty();
        }
    }

    /// Something has come: if it was the last of the record at hand, the next is at hand.
    pub(super) fn replay_goes_on(&mut self) {
        let replay = &self.plane.replay;
        let is_over = replay.at_hand && !replay.empty && replay.under_way == 0;
        if self.stage != Stage::Replaying || !is_over || !self.plane.due.is_empty() {
            return;
        }
        let plane = &mut self.plane;
        plane.end_all();
        let orders = std::mem::take(&mut plane.replay.orders);
        plane.takes_effect(orders);
        plane.replay.at_hand = false;
        plane.replay.next += 1;
        self.next_record_again();
    }
}

impl Partition {
    /// The accesses of the record at hand are due, or may all show nothing.
    fn again(&mut self, known: &Journalled) {
        let of = (self.record.0, known.accesses);
        let silent = match &known.partitions {
            Some(_) if !known.is_silent => Vec::new(),
            _ => self.clone().parse(of, &[]).unwrap_or_default(),
        };
        self.due.push_front(Due::Accesses(of.0, of.1));
        let mut silent = silent.into_iter();
        if known.is_silent
            && let Some(first) = silent.next()
        {
            *self = first;
        }
        for mut other in silent {
            other.replay.wakes = true;
            self.others.push(other);
        }
    }

    /// Accesses of a replay end at once.
    fn end_all(&mut self) {
        self.first += self.accesses.len() as u64;
        self.accesses.clear();
        self.due_answers = 0;
    }

    /// Jobs without a commit write what they have to, as this opening's.
    fn write_again(&mut self, at: fogbank_env::Nanos) {
        let opening = self.opening;
        for pyramid in &mut self.state.pyramids {
            if let Some(job) = &mut pyramid.job {
                (job.step, job.version) = (Phase::Come, version(opening, job.until));
                job.early.clear();
            }
        }
        self.jobs_are_whole(at);
    }
}
