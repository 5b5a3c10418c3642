//! Accesses: which cells they read, which record they are in, and when they are answered.
//!
//! 1. A record has its commits, the jobs that are due and the accesses that wait, as far as there is
//!    room: room is what D leaves, and accesses under way.
//! 2. When it is durable one message reads the cells of all its accesses, in their order; then each of
//!    its jobs reads. What reads nothing sends nothing.
//! 3. Then its commits take effect, and its orders are durable.
//! 4. Accesses end in their order, each when its cells have come and those of the job that its
//!    partition had at the cut.

use fogbank_env::Nanos;
use fogbank_store::trace::Client;

use super::layout::name;
use super::recovery::Journalled;
use super::{CellSeen, Due, Own, Partition, Silent};
use crate::oracle::fault::{Step, fault};
use crate::oracle::immediate::{Immediate, Stage};
use crate::oracle::shape::below;
use crate::{Observation, Observer};

/// More accesses that read nothing than a message leaves open so are not followed.
const PARSED_MAX: usize = 512;

/// An access under way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Access {
    partition: u32,
    /// Its record.
    record: u64,
    has_come: bool,
    /// The job of its partition when it was cut, by its orders.
    awaits: Option<u64>,
    /// Whether somebody waits for the answer.
    asked: bool,
}

impl Access {
    pub fn partition(&self) -> u32 {
        self.partition
    }
}

/// What is told of an access or a cell.
#[derive(Debug, Clone)]
pub(super) enum Note {
    Access { partition: u32, shown: bool },
    Cell { cell: CellSeen, level: u8, nth: u16, unread: u16, rank: u16 },
}

/// Records.
impl Partition {
    /// Accesses for which there is room.
    pub(super) fn room(&self) -> usize {
        let under_way = self.accesses.len() + self.pending;
        let orders = self.config.orders_max.saturating_sub(self.state.open_orders);
        let by_orders = (orders * 4).div_ceil(5) as usize;
        (self.config.under_way_max as usize).saturating_sub(under_way).min(by_orders)
    }

    /// A record of so many parts is put; whether a cut comes after it.
    pub(super) fn cut_record(&mut self, name: &str, (parts, ends): (usize, bool)) -> Step<bool> {
        if !self.due.is_empty() {
            return fault(self.due[0].rule(), format!("{:?}", self.due[0]), "a record");
        }
        let jobs_max = self.config.jobs_max as usize;
        let written: Vec<u32> = (0..jobs_max).map_while(|_| self.written.pop_front()).collect();
        let commits: Vec<(u32, u64)> = written.into_iter().map(|p| self.committed_by(p)).collect();
        let room = self.room();
        let due = match self.config.rate {
            _ if ends => 0,
            Some(rate) if room < rate.accesses as usize => 0,
            Some(rate) => rate.accesses as usize,
            None => self.waiting.min(self.config.accesses_max as usize).min(room),
        };
        let is_last = !ends
            && self.state.since_cut >= self.config.checkpoint_every
            && (due > 0 || self.config.rate.is_none());
        let jobs = self.state.begin_jobs((jobs_max, self.config.job_cells_max, self.opening));
        let expected = commits.len() + jobs.len() + due;
        if parts != expected {
            let words = format!("{} commits, {} jobs, {due} accesses", commits.len(), jobs.len());
            let rule = match parts > expected {
                true if !self.served.is_empty() => "commit-after-barrier",
                true if !self.state.ready.is_empty() => "budget-cells",
                true if self.waiting > due => "budget-orders",
                true => "job-by-durable-orders",
                false if jobs.is_empty() && commits.is_empty() => "record-parts",
                false => "job-due",
            };
            return fault(rule, words, format!("a record of {parts} parts"));
        }
        let asked = if ends { 0 } else { due.min(self.waiting) };
        self.waiting -= asked;
        let awaited = |partition: u32| {
            let numbered = (self.first..).zip(&self.accesses);
            let early = numbered.filter(|(_, one)| one.partition == partition && !one.has_come);
            early.map(|(number, _)| number).collect::<Vec<u64>>()
        };
        let early: Vec<_> = jobs.iter().map(|partition| awaited(*partition)).collect();
        for (partition, early) in jobs.iter().zip(early) {
            if let Some(job) = &mut self.state.of(*partition).job {
                job.early = early;
            }
        }
        (self.pending, self.asked) = (due, asked);
        self.state.since_cut += due as u64;
        self.record = (self.record.0 + 1, name.into());
        let journalled =
            Journalled { commits: commits.clone(), accesses: due, ..Journalled::default() };
        self.journal.insert(name.into(), journalled);
        (self.commits, self.jobs) = (commits, jobs);
        Ok(is_last)
    }

    /// The commit of the job of `partition`.
    fn committed_by(&mut self, partition: u32) -> (u32, u64) {
        let job = self.state.of(partition).job.as_ref();
        (partition, job.map_or(0, |job| job.version))
    }

    /// The record that is on its way is durable from `at` on: its messages are due.
    pub(super) fn record_is_durable(&mut self, at: Nanos) {
        let (record, count) = (self.record.0, std::mem::take(&mut self.pending));
        for partition in std::mem::take(&mut self.jobs) {
            let reads = self.state.of(partition).job.as_ref().map_or(0, |job| job.reads());
            match reads {
                0 => self.comes_silently(at, Silent::Job(partition)),
                _ => self.due.push_back(Due::Job(partition)),
            }
        }
        if count == 0 {
            return self.takes_effect(Vec::new());
        }
        // None of them may show anything.
        if self.silent_partitions().is_empty() {
            self.due.push_front(Due::Accesses(record, count));
            self.pending = count;
            return;
        }
        let mut silent = self.clone();
        silent.pending = 0;
        self.due.push_front(Due::Accesses(record, count));
        self.pending = count;
        if let Ok(others) = silent.parse((record, count), &[]) {
            for mut other in others {
                other.comes_silently(at, Silent::Accesses(record));
                self.others.push(other);
            }
        }
    }

    /// What has no cells comes at once; on a grid, at the next point.
    pub(super) fn comes_silently(&mut self, at: Nanos, what: Silent) {
        match self.config.quantum_ns {
            0 => self.came(what, at),
            quantum => self.timers.push((at + quantum, what)),
        }
    }

    pub(super) fn came(&mut self, what: Silent, at: Nanos) {
        match what {
            Silent::Accesses(record) => self.accesses_came(record, at),
            Silent::Job(partition) => self.job_came(partition, at),
            Silent::ReplayNext => {}
        }
    }

    /// The commits of a record take effect, and these orders are durable.
    pub(super) fn takes_effect(&mut self, orders: Vec<u32>) {
        for commit in std::mem::take(&mut self.commits) {
            self.state.commit(commit);
        }
        orders.into_iter().for_each(|partition| self.state.order_is_durable(partition));
    }
}

/// Messages.
impl Partition {
    /// A message reads these cells.
    pub(super) fn read(&mut self, cells: &[CellSeen]) -> Step<Own> {
        if !self.replay.is_idle() {
            self.check_again(cells)?;
        }
        match self.due.pop_front() {
            None => fault("access-per-request", "no message", format!("{:x?}", cells.first())),
            Some(Due::Accesses(record, count)) if count == groups(cells) => {
                self.read_all((record, count), cells)?;
                Ok(Own::Accesses(record))
            }
            Some(Due::Accesses(record, count)) => {
                let mut worlds = self.clone();
                worlds.pending = 0;
                let mut worlds = worlds.parse((record, count), cells)?.into_iter();
                if let Some(first) = worlds.next() {
                    *self = first;
                }
                for mut other in worlds {
                    other.notes.clear();
                    self.others.push(other);
                }
                Ok(Own::Accesses(record))
            }
            Some(Due::Job(partition)) => {
                self.read_job(partition, cells)?;
                Ok(Own::Job(partition))
            }
        }
    }

    /// All of `count` accesses show something.
    fn read_all(&mut self, (record, count): (u64, usize), cells: &[CellSeen]) -> Step {
        self.pending = 0;
        let (mut from, mut orders) = (0, Vec::new());
        for _ in 0..count {
            if from == cells.len() {
                let due = format!("the cells of {count} accesses");
                return fault("access-per-request", due, format!("{from} cells"));
            }
            from += self.shown(record, &cells[from..], &mut orders)?;
        }
        if from < cells.len() {
            let due = format!("the cells of {count} accesses");
            return fault("access-per-request", due, format!("{:x?} as well", cells[from]));
        }
        self.have_read((count, cells), orders);
        Ok(())
    }

    /// The accesses of a record are known.
    fn have_read(&mut self, (count, cells): (usize, &[CellSeen]), orders: Vec<u32>) {
        self.journal_partitions(count, cells);
        match self.replay.is_idle() {
            true => self.takes_effect(orders),
            false => self.replay.orders = orders,
        }
    }

    /// All that `count` accesses may be that read these cells.
    pub(super) fn parse(
        self,
        (record, count): (u64, usize),
        cells: &[CellSeen],
    ) -> Step<Vec<Self>> {
        let shown = groups(cells);
        let known = self.replay.known();
        let (mut worlds, mut wrong) = (vec![(self, 0, Vec::new())], None);
        for nth in 0..count {
            let mut next: Vec<(Self, usize, Vec<u32>)> = Vec::new();
            for (plane, from, orders) in worlds {
                let silent = count - shown;
                let is_open =
                    |p: &u32| known.as_ref().is_none_or(|known| known.get(nth) == Some(p));
                let candidates = match silent {
                    0 => Vec::new(),
                    _ => plane.silent_partitions().into_iter().filter(is_open).collect(),
                };
                for partition in &candidates {
                    let (mut other, mut orders) = (plane.clone(), orders.clone());
                    other.cut_access(*partition, record, &mut orders);
                    let pick = below(&mut other.random, candidates.len() as u32) as usize;
                    let partition = candidates[pick];
                    other.notes.push(Note::Access { partition, shown: false });
                    let is_known = |(one, at, _): &(Self, usize, Vec<u32>)| {
                        *at == from && one.state == other.state && one.accesses == other.accesses
                    };
                    if !next.iter().any(is_known) {
                        next.push((other, from, orders));
                    }
                }
                if from < cells.len() {
                    let (mut plane, mut orders) = (plane, orders);
                    match plane.shown(record, &cells[from..], &mut orders) {
                        Ok(taken) => next.push((plane, from + taken, orders)),
                        Err(fault) => _ = wrong.get_or_insert(fault),
                    }
                }
            }
            let left = count - nth - 1;
            next.retain(|(_, from, _)| groups(&cells[*from..]) <= left);
            worlds = next;
            worlds.truncate(PARSED_MAX);
        }
        let mut read = Vec::new();
        for (mut plane, from, orders) in worlds {
            if from < cells.len() {
                continue;
            }
            plane.have_read((count, cells), orders);
            read.push(plane);
        }
        match (read.is_empty(), wrong) {
            (false, _) => Ok(read),
            (_, Some(wrong)) => Err(wrong),
            (_, None) => {
                let due = format!("the cells of {count} accesses");
                fault("access-per-request", due, format!("{} cells", cells.len()))
            }
        }
    }

    /// The next access shows the first of these cells; how many of them are its own.
    fn shown(&mut self, record: u64, cells: &[CellSeen], orders: &mut Vec<u32>) -> Step<usize> {
        let (partition, layout) = (cells[0].0.chunk, self.layout());
        if partition >= layout.partitions {
            return fault("cell-per-level", "a partition", format!("{:x?}", cells[0]));
        }
        let levels = self.state.of(partition).shows(&layout);
        self.notes.push(Note::Access { partition, shown: true });
        for (nth, level) in levels.iter().enumerate() {
            let pyramid = self.state.of(partition);
            let version =
                pyramid.levels[usize::from(*level)].as_ref().map_or(0, |held| held.version);
            let due = name(partition, *level, version);
            let Some(seen) = cells.get(nth).filter(|(seen, _)| *seen == due) else {
                return self.not_that(due, cells.get(nth));
            };
            let (unread, rank) = pyramid.read(&layout, *level, seen.1)?;
            let nth = layout.cells(*level) - unread;
            self.notes.push(Note::Cell { cell: *seen, level: *level, nth, unread, rank });
        }
        if levels.is_empty() {
            return self.not_that(cells[0].0, cells.first());
        }
        self.cut_access(partition, record, orders);
        Ok(levels.len())
    }

    /// Something else was read than the cell that was due.
    fn not_that<T>(&mut self, due: fogbank_store::ChunkName, seen: Option<&CellSeen>) -> Step<T> {
        let words = (format!("a cell of {due:x?}"), format!("{seen:x?}"));
        let Some((seen, _)) = seen.filter(|(seen, _)| seen.chunk == due.chunk) else {
            return fault("cell-per-level", words.0, words.1);
        };
        let pyramid = self.state.of(seen.chunk);
        let is = |level: u8| u16::from(level) + 1 == seen.array.0;
        let job = pyramid.job.as_ref();
        let reads = job.is_some_and(|job| job.sources.iter().any(|(level, _)| is(*level)));
        let makes = job.is_some_and(|job| job.version == seen.version);
        let rule = match (reads, makes) {
            (_, true) => "commit-before-read",
            (true, _) => "job-fixed",
            _ => "cell-per-level",
        };
        fault(rule, words.0, words.1)
    }

    /// Partitions of which an access would read nothing.
    fn silent_partitions(&self) -> Vec<u32> {
        let layout = self.layout();
        let silent = |p: &u32| self.state.pyramids[*p as usize].shows(&layout).is_empty();
        (0..layout.partitions).filter(silent).collect()
    }

    fn cut_access(&mut self, partition: u32, record: u64, orders: &mut Vec<u32>) {
        let awaits = self.state.of(partition).job.as_ref().map(|job| job.until);
        let asked = self.asked > 0;
        self.asked -= usize::from(asked);
        self.accesses.push_back(Access { partition, record, has_come: false, awaits, asked });
        let also = self.state.give_orders(partition);
        orders.extend([Some(partition), also].into_iter().flatten());
    }
}

/// Groups of cells that are of one access for certain.
fn groups(cells: &[CellSeen]) -> usize {
    let begins = |pair: &[CellSeen]| {
        let [(before, _), (after, _)] = [pair[0], pair[1]];
        before.chunk != after.chunk || after.array <= before.array
    };
    usize::from(!cells.is_empty()) + cells.windows(2).filter(|pair| begins(pair)).count()
}

/// Ends.
impl Partition {
    /// The cells of all accesses of a record have come.
    pub(super) fn accesses_came(&mut self, record: u64, at: Nanos) {
        for one in self.accesses.iter_mut().filter(|one| one.record == record) {
            one.has_come = true;
        }
        self.end_accesses();
        self.jobs_are_whole(at);
    }

    pub(super) fn end_accesses(&mut self) {
        while self.accesses.front().is_some_and(|one| one.has_come && !self.awaits_job(one)) {
            let asked = self.accesses.pop_front().is_some_and(|one| one.asked);
            self.due_answers += usize::from(asked);
            self.first += 1;
        }
    }

    fn awaits_job(&self, one: &Access) -> bool {
        let job = self.state.pyramids[one.partition as usize].job.as_ref();
        job.is_some_and(|job| Some(job.until) == one.awaits && !job.has_come())
    }

    /// Whether the cells of this access have come.
    pub(super) fn has_come(&self, number: u64) -> bool {
        let at = number.checked_sub(self.first);
        at.is_none_or(|at| self.accesses.get(at as usize).is_none_or(|one| one.has_come))
    }

    pub(super) fn check_answer(&mut self, client: &Client) -> Step {
        let due = self.unanswered.pop_front();
        let seen = (client.connection, client.number);
        if due != Some(seen) {
            let due = format!("the answer to {due:?}");
            return fault("reply-time", due, format!("that to {seen:?}"));
        }
        if self.due_answers > 0 {
            self.due_answers -= 1;
            return Ok(());
        }
        let awaits_job = self.accesses.front().is_some_and(|one| one.has_come);
        let rule = if awaits_job { "end-after-job" } else { "reply-time" };
        let due = "no answer before the cells of its access, of the job of its partition and of all before";
        fault(rule, due, format!("{seen:?}"))
    }
}

impl Immediate<Partition> {
    /// What was seen goes to the statistics.
    pub(super) fn note(&mut self, out: &mut dyn Observer) {
        let again = self.stage == Stage::Replaying;
        for note in std::mem::take(&mut self.plane.notes) {
            let (epoch, batch, access) =
                (self.summary.epochs, self.summary.read_batches, self.summary.accesses);
            match note {
                _ if again => {}
                Note::Access { partition, shown } => {
                    let (leaf, whole, stretch) = (partition, true, batch);
                    out.observe(&Observation::Path {
                        epoch,
                        batch,
                        access,
                        leaf,
                        whole,
                        shown,
                        stretch,
                    });
                    self.summary.accesses += 1;
                    self.summary.silent_paths += u64::from(!shown);
                }
                Note::Cell { cell: (name, cell), level, nth, unread, rank } => {
                    let (chunk, version) = (name.chunk, name.version);
                    out.observe(&Observation::PathCell {
                        chunk,
                        level,
                        version,
                        nth,
                        cell,
                        unread,
                        rank,
                    });
                }
            }
        }
    }

    /// What comes without a message comes.
    pub(super) fn timers_come(&mut self) {
        let at = self.at;
        let come: Vec<Silent> = self
            .plane
            .timers
            .extract_if(.., |(when, _)| *when <= at)
            .map(|(_, what)| what)
            .collect();
        let any = !come.is_empty();
        for what in come {
            self.plane.replay.empty &= what != Silent::ReplayNext;
            self.plane.came(what, at);
        }
        if any {
            self.replay_goes_on();
            self.cut_if_due();
        }
    }
}
