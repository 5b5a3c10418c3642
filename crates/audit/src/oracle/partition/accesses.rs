//! Accesses: which record they are in, which cells they read, and when they are answered.
//!
//! 1. A record has its commits, the jobs that are due and the accesses that wait, as far as there is
//!    room: room is what D leaves, and accesses under way.
//! 2. When it is durable the proxy marks those of its accesses that read nothing; one message reads the
//!    cells of all others, in their order; then each of its jobs reads.
//! 3. Then its commits take effect, and its orders are durable.
//! 4. Accesses end in their order, each when its cells have come and those of the job that its
//!    partition had at the cut.
//!
//! What reads nothing sends nothing, and comes at once; on a grid, at the next point.

use std::collections::VecDeque;

use fogbank_env::Nanos;
use fogbank_store::trace::{Client, Mark};

use super::layout::name;
use super::recovery::Journalled;
use super::{CellSeen, Due, Own, Partition};
use crate::oracle::fault::{Step, Stop, fault};
use crate::oracle::immediate::{Immediate, Stage};
use crate::{Observation, Observer};

/// An access under way.
#[derive(Debug)]
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

/// The record that is on its way, or was last; in a replay, the one that is read again.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub number: u64,
    pub name: String,
    /// By partition, with the generation; they take effect when its accesses are known.
    pub commits: Vec<(u32, u64)>,
    pub jobs: Vec<u32>,
    /// Accesses that are not known, and how many of them somebody waits for.
    pub accesses: usize,
    asked: usize,
    /// Those of them that read nothing, by their place in it: their partitions.
    marked: VecDeque<(usize, u32)>,
    /// The partitions that its accesses give orders to.
    pub orders: Vec<u32>,
    /// Marks and messages of it that were seen.
    pub seen: usize,
}

/// What the trace has shown of a record: what a mark says, what a message reads.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shown {
    Mark(u64),
    Cells(Vec<CellSeen>),
}

/// Records.
impl Partition {
    /// Accesses for which there is room.
    pub(super) fn room(&self) -> usize {
        let under_way = self.accesses.len() + self.record.accesses;
        let orders = self.config.orders_max.saturating_sub(self.state.open_orders);
        let by_orders = (orders * 4).div_ceil(5) as usize;
        (self.config.under_way_max as usize).saturating_sub(under_way).min(by_orders)
    }

    /// A record of so many parts is put; whether a cut comes after it.
    pub(super) fn put_record(&mut self, name: &str, (parts, ends): (usize, bool)) -> Step<bool> {
        let most = (self.config.jobs_max as usize).min(self.written.len());
        let version = |p: u32| self.state.of(p).job.as_ref().map_or(0, |job| job.version);
        let commits: Vec<_> = self.written.drain(..most).map(|p| (p, version(p))).collect();
        let journalled = Journalled { commits: commits.clone(), parts, shown: Vec::new() };
        self.journal.insert(name.into(), journalled);
        if let Some(due) = self.due.front() {
            // Without a grid the process may end within this instant, before that leaves.
            return match self.config.quantum_ns {
                0 => Ok(false),
                _ => fault(due.rule(), format!("{due:?}"), "a record"),
            };
        }
        let (room, wait) = (self.room(), self.waiting);
        let accesses = match self.config.rate {
            _ if ends => 0,
            Some(rate) if room < rate.accesses as usize => 0,
            Some(rate) => rate.accesses as usize,
            None => wait.min(self.config.accesses_max as usize).min(room),
        };
        let is_last = !ends
            && self.state.since_cut >= self.config.checkpoint_every
            && (accesses > 0 || self.config.rate.is_none());
        let jobs = self.begin_jobs();
        let due = commits.len() + jobs.len() + accesses;
        if parts != due {
            let rule = match parts > due {
                true if !self.served.is_empty() => "commit-after-barrier",
                true if !self.state.ready.is_empty() => "budget-cells",
                true if wait > accesses => "budget-orders",
                true => "job-by-durable-orders",
                false if due == accesses => "record-parts",
                false => "job-due",
            };
            let (commits, jobs) = (commits.len(), jobs.len());
            let due = format!("{commits} commits, {jobs} jobs, {accesses} accesses");
            return fault(rule, due, format!("a record of {parts} parts"));
        }
        self.waiting -= accesses.min(wait);
        self.cut(name, (commits, jobs), (accesses, accesses.min(wait)));
        Ok(is_last)
    }

    pub(super) fn begin_jobs(&mut self) -> Vec<u32> {
        let budget = (self.config.jobs_max as usize, self.config.job_cells_max, self.opening);
        let jobs = self.state.begin_jobs(budget);
        for (nth, partition) in (1..).zip(&jobs) {
            let numbered = (self.first..).zip(&self.accesses);
            let early = numbered.filter(|(_, one)| one.partition == *partition && !one.has_come);
            let early = early.map(|(number, _)| number).collect();
            if let Some(job) = &mut self.state.of_mut(*partition).job {
                (job.early, job.order) = (early, (self.record.number + 1, nth));
            }
        }
        jobs
    }

    /// A record is cut, in life or in a replay; for how many of its accesses somebody waits.
    pub(super) fn cut(
        &mut self,
        name: &str,
        (commits, jobs): (Vec<(u32, u64)>, Vec<u32>),
        (accesses, asked): (usize, usize),
    ) {
        self.state.since_cut += accesses as u64;
        let (number, name) = (self.record.number + 1, name.into());
        self.record = Record { number, name, commits, jobs, accesses, asked, ..Record::default() };
    }

    /// The record is durable from `at` on: what it reads is due.
    pub(super) fn record_is_durable(&mut self, at: Nanos) {
        for partition in self.record.jobs.clone() {
            match self.state.of(partition).job.as_ref().map_or(0, |job| job.reads()) {
                0 => self.comes_silently(at, Own::Job(partition)),
                _ => self.due.push_back(Due::Job(partition)),
            }
        }
        match self.record.accesses {
            0 => self.takes_effect(),
            count => self.due.push_front(Due::Accesses(count)),
        }
    }

    pub(super) fn comes_silently(&mut self, at: Nanos, what: Own) {
        match self.config.quantum_ns {
            0 if self.replay.is_at_hand => {}
            0 => self.comes(what, at),
            quantum => {
                self.replay.under_way += 1;
                self.timers.push((at + quantum, what));
            }
        }
    }

    /// The accesses of the record are known. In a replay that counts when all of it has come.
    pub(super) fn takes_effect(&mut self) {
        if self.replay.is_at_hand {
            return;
        }
        for commit in std::mem::take(&mut self.record.commits) {
            self.state.commit(commit);
        }
        for partition in std::mem::take(&mut self.record.orders) {
            self.state.order_is_durable(partition);
        }
    }

    /// Holds what is shown of the record against what was; whether nothing was.
    fn show(&mut self, shown: Shown) -> Step<bool> {
        let Record { name, seen, .. } = &mut self.record;
        *seen += 1;
        let known = &mut self.journal.entry(name.clone()).or_default().shown;
        match known.get(*seen - 1) {
            Some(known) if *known != shown => {
                fault("replay-identical", format!("{known:x?}"), format!("{shown:x?}"))
            }
            Some(_) => Ok(false),
            None => {
                known.push(shown);
                Ok(true)
            }
        }
    }
}

/// Messages.
impl Immediate<Partition> {
    /// The proxy says that an access of the record reads nothing, and which partition it is of.
    pub(super) fn marked(&mut self, mark: &Mark, out: &mut dyn Observer) -> Result<(), Stop> {
        let plane = &mut self.plane;
        let (nth, partition) = ((mark.number >> 32) as usize, mark.number as u32);
        let known = plane.record.marked.back().map_or(0, |(nth, _)| nth + 1);
        let due = match plane.due.front() {
            Some(Due::Accesses(count)) => known..*count,
            _ => 0..0,
        };
        if !due.contains(&nth) || partition >= plane.config.partitions {
            let due = format!("a mark of one of the accesses {due:?}");
            fault("access-per-request", due, format!("one of {nth}, partition {partition}"))?;
        }
        let is_new = plane.show(Shown::Mark(mark.number))?;
        plane.record.marked.push_back((nth, partition));
        plane.is_marked = true;
        if plane.record.marked.len() == plane.record.accesses {
            plane.due.pop_front();
            self.accesses_read(&[], is_new, out)?;
            let silent = Own::Accesses(self.plane.record.number);
            self.plane.comes_silently(self.at, silent);
            self.goes_on();
        }
        Ok(())
    }

    /// A message reads these cells.
    pub(super) fn read(&mut self, cells: &[CellSeen], out: &mut dyn Observer) -> Result<Own, Stop> {
        self.summary.cells_read += cells.len() as u64;
        let is_new = self.plane.show(Shown::Cells(cells.to_vec()))?;
        self.plane.replay.under_way += 1;
        match self.plane.due.pop_front() {
            None => Ok(fault("access-per-request", "no message", format!("{:x?}", cells.first()))?),
            Some(Due::Accesses(_)) => {
                self.accesses_read(cells, is_new, out)?;
                Ok(Own::Accesses(self.plane.record.number))
            }
            Some(Due::Job(partition)) => {
                self.plane.read_job(partition, cells)?;
                Ok(Own::Job(partition))
            }
        }
    }

    /// The accesses of the record read these cells, but for those that are marked.
    fn accesses_read(
        &mut self,
        cells: &[CellSeen],
        is_new: bool,
        out: &mut dyn Observer,
    ) -> Result<(), Stop> {
        // What was seen before is no news.
        let mut nobody = |_: &Observation<'_>| {};
        let out: &mut dyn Observer = if is_new { out } else { &mut nobody };
        let count = std::mem::take(&mut self.plane.record.accesses);
        let mut from = 0;
        for nth in 0..count {
            let marked = &mut self.plane.record.marked;
            let marked =
                marked.front().is_some_and(|(at, _)| *at == nth).then(|| marked.pop_front());
            let marked = marked.flatten();
            let partition = match (marked, cells.get(from)) {
                (Some((_, partition)), _) => partition,
                (None, Some((first, _))) => first.chunk,
                (None, None) => {
                    self.plane.is_followed()?;
                    let due = format!("the cells of {count} accesses");
                    return Ok(fault("access-per-request", due, format!("those of {nth}"))?);
                }
            };
            self.summary.silent_paths += u64::from(marked.is_some());
            self.note(partition, out);
            from += self.plane.reads(partition, &cells[from..], (marked.is_some(), out))?;
            self.plane.cut_access(partition);
        }
        if let Some(seen) = cells.get(from) {
            self.plane.is_followed()?;
            let due = format!("the cells of {count} accesses");
            fault("access-per-request", due, format!("{seen:x?} as well"))?;
        }
        self.plane.takes_effect();
        Ok(())
    }

    /// An access is seen to be of `partition`.
    fn note(&mut self, leaf: u32, out: &mut dyn Observer) {
        let (epoch, batch) = (self.summary.epochs, self.summary.read_batches);
        let (access, whole, shown, stretch) = (self.summary.accesses, true, true, batch);
        out.observe(&Observation::Path { epoch, batch, access, leaf, whole, shown, stretch });
        self.summary.accesses += u64::from(self.stage != Stage::Replaying);
    }
}

impl Partition {
    /// Whether accesses that read nothing are marked where there may be some.
    pub(super) fn is_followed(&self) -> Result<(), Stop> {
        let silent = |pyramid: &super::Pyramid| pyramid.shows(&self.state.layout).is_empty();
        match self.is_marked || !self.state.pyramids.iter().any(silent) {
            true => Ok(()),
            false => Err(Stop::Unpredictable(UNMARKED)),
        }
    }

    /// An access of `partition` reads the first of these cells, or none if it is marked; how many.
    fn reads(
        &mut self,
        partition: u32,
        cells: &[CellSeen],
        (is_marked, out): (bool, &mut dyn Observer),
    ) -> Step<usize> {
        let layout = self.state.layout;
        if partition >= layout.partitions {
            return fault("cell-per-level", "a partition", format!("{partition}"));
        }
        let levels = self.state.of(partition).shows(&layout);
        if is_marked != levels.is_empty() {
            let due = format!("a cell of each of the levels {levels:?} of {partition}");
            let seen = if is_marked { "none".into() } else { format!("{:x?}", cells.first()) };
            return fault(self.rule_of(cells.first().filter(|_| !is_marked)), due, seen);
        }
        for (at, level) in levels.iter().enumerate() {
            let pyramid = &mut self.state.pyramids[partition as usize];
            let version = pyramid.levels[usize::from(*level)].as_ref().map_or(0, |l| l.version);
            let due = name(partition, *level, version);
            let Some((_, cell)) = cells.get(at).filter(|(seen, _)| *seen == due) else {
                let seen = cells.get(at);
                return fault(
                    self.rule_of(seen),
                    format!("a cell of {due:x?}"),
                    format!("{seen:x?}"),
                );
            };
            let (unread, rank) = pyramid.read(&layout, *level, *cell)?;
            let (nth, chunk, level, cell) =
                (layout.cells(*level) - unread, partition, *level, *cell);
            let seen = Observation::PathCell { chunk, level, version, nth, cell, unread, rank };
            out.observe(&seen);
        }
        Ok(levels.len())
    }

    /// The rule by which an access may not read this.
    fn rule_of(&self, seen: Option<&CellSeen>) -> &'static str {
        let pyramid = seen.and_then(|(seen, _)| self.state.pyramids.get(seen.chunk as usize));
        let Some((job, (seen, _))) = pyramid.and_then(|p| p.job.as_ref()).zip(seen) else {
            return "cell-per-level";
        };
        match job.sources.iter().any(|(level, _)| u16::from(*level) + 1 == seen.array.0) {
            _ if job.version == seen.version => "commit-before-read",
            true => "job-fixed",
            false => "cell-per-level",
        }
    }

    fn cut_access(&mut self, partition: u32) {
        let awaits = self.state.of(partition).job.as_ref().map(|job| job.until);
        let asked = self.record.asked > 0;
        self.record.asked -= usize::from(asked);
        let (record, has_come) = (self.record.number, false);
        self.accesses.push_back(Access { partition, record, has_come, awaits, asked });
        let also = self.state.give_orders(partition);
        self.record.orders.extend([Some(partition), also].into_iter().flatten());
    }
}

/// Ends.
impl Partition {
    /// The cells of all accesses of a record have come.
    pub(super) fn accesses_come(&mut self, record: u64, at: Nanos) {
        for (number, one) in (self.first..).zip(&mut self.accesses) {
            let job = self.state.pyramids[one.partition as usize].job.as_mut();
            one.has_come |= one.record == record;
            if let Some(job) = job.filter(|job| one.has_come && job.early.contains(&number)) {
                job.early.retain(|early| *early != number);
                job.came = job.came.max((at, record, 0));
            }
        }
    }

    pub(super) fn end_accesses(&mut self) {
        while self.accesses.front().is_some_and(|one| one.has_come && !self.awaits_job(one)) {
            let asked = self.accesses.pop_front().is_some_and(|one| one.asked);
            self.due_answers += usize::from(asked);
            self.first += 1;
        }
    }

    fn awaits_job(&self, one: &Access) -> bool {
        let job = self.state.of(one.partition).job.as_ref();
        job.is_some_and(|job| Some(job.until) == one.awaits && !job.has_come())
    }

    pub(super) fn check_answer(&mut self, client: &Client) -> Step {
        let (due, seen) = (self.unanswered.pop_front(), (client.connection, client.number));
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

const UNMARKED: &str =
    "an access may have read nothing, and no mark says which partition it was of";
