//! Accesses: which record they are in, which cells they read, and when they are answered.
//!
//! 1. A record has its commits, the jobs that are due and the accesses that wait, as far as there
//!    is room: room is what D leaves, and accesses under way.
//! 2. Several records are under way; each counts when all before it do. Then the proxy marks those
//!    of its accesses that read nothing; one message reads the cells of all others, in their order;
//!    then each of its jobs reads.
//! 3. Its commits take effect, and its orders count.
//! 4. Accesses end in their order, each when its cells have come and those of the job that its
//!    partition had at the cut.
//!
//! What reads nothing sends nothing, and comes at once; on a grid, at the next point.

use std::collections::VecDeque;

use fogbank_env::Nanos;
use fogbank_store::trace::{Client, Mark};

use super::layout::name;
use super::recovery::{Brings, Effects, Journalled, Saved};
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

/// A record from its cut until all that it reads has been shown; in a replay, the one that is read
/// again.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub number: u64,
    pub name: String,
    /// Whether it counts, whether its jobs were begun, and whether it has taken effect.
    pub counts: bool,
    has_begun: bool,
    has_effect: bool,
    /// Its commits by partition, with the generation, and the partitions that get an order.
    pub effects: Effects,
    /// Its jobs that have not read, with the orders carried out when they are done.
    jobs: VecDeque<(u32, u64)>,
    /// Accesses that are not shown, and how many of them somebody waits for.
    pub accesses: usize,
    asked: usize,
    /// The partitions in turn to which they give orders.
    pub also: VecDeque<Option<u32>>,
    /// Those of them that read nothing, by their place in it: their partitions.
    pub marked: VecDeque<(usize, u32)>,
    /// Where they are drawn here: the partition and the cells of each.
    pub drawn: Option<Vec<(u32, Vec<CellSeen>)>>,
    /// Marks and messages of it that were seen.
    pub seen: usize,
    /// What happened between its cut and that of the next.
    after: Vec<After>,
}

/// What happens to levels beside what records read.
#[derive(Debug)]
enum After {
    /// These commits take effect.
    Commits(Vec<(u32, u64)>),
    /// The state is copied for a checkpoint.
    Copy,
}

/// What the trace has shown of a record: what a mark says, what a message reads.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shown {
    Mark(u64),
    Cells(Vec<CellSeen>),
}

/// Records.
impl Partition {
    /// Accesses that were cut and whose records were not shown.
    fn not_shown(&self) -> usize {
        self.now.records.iter().map(|record| record.accesses).sum()
    }

    /// The number of the next access that is cut.
    pub(super) fn next_number(&self) -> u64 {
        self.now.first + (self.now.accesses.len() + self.not_shown()) as u64
    }

    /// Whether every access that was cut has ended.
    pub(super) fn have_ended(&self) -> bool {
        self.now.accesses.is_empty() && self.not_shown() == 0
    }

    /// Accesses for which there is room.
    pub(super) fn room(&self) -> usize {
        let under_way = self.now.accesses.len() + self.not_shown();
        let orders = self.config.orders_max.saturating_sub(self.state.open_orders);
        let by_orders = (orders * 4).div_ceil(5) as usize;
        (self.config.under_way_max as usize).saturating_sub(under_way).min(by_orders)
    }

    /// Commits and accesses that go into a record now, one that `ends` what was begun or not.
    pub(super) fn parts_at_hand(&self, ends: bool) -> (usize, usize) {
        let room = self.room();
        let accesses = match self.config.rate {
            _ if ends => 0,
            Some(rate) if room < rate.accesses as usize => 0,
            Some(rate) => rate.accesses as usize,
            None => self.now.waiting.min(self.config.accesses_max as usize).min(room),
        };
        ((self.config.jobs_max as usize).min(self.now.written.len()), accesses)
    }

    /// Jobs of a record at most, cells of open jobs, and the opening.
    pub(super) fn budget(&self) -> (usize, u64, u32) {
        (self.config.jobs_max as usize, self.config.job_cells_max, self.opening)
    }

    /// A record of so many parts is put: whether a cut comes after it, and whether accesses have
    /// ended.
    pub(super) fn put_record(
        &mut self,
        name: &str,
        (parts, ends): (usize, bool),
    ) -> Step<(bool, bool)> {
        if let Some(due) = self.next_due() {
            // Without a grid the process may end within this instant, before that leaves.
            return match self.config.quantum_ns {
                0 => Ok((false, ends)),
                _ => fault(due.rule(), format!("{due:?}"), "a record"),
            };
        }
        let (most, accesses) = self.parts_at_hand(ends);
        let version = |p: u32| self.state.job(p).map_or(0, |job| job.version);
        let commits: Vec<_> = self.now.written.drain(..most).map(|p| (p, version(p))).collect();
        let wait = self.now.waiting;
        let jobs = self.state.begin_jobs(self.budget());
        let begun = commits.len() + jobs.len();
        // What came without a message may have come before the record was cut, or after.
        let mut accesses = accesses;
        while parts > begun + accesses && self.come_silent() {
            accesses = self.parts_at_hand(ends).1;
        }
        // The owner has closed the store at a point of the rate: what was begun comes to its end at
        // once.
        let stops = accesses > 0 && wait == 0 && parts == begun && self.have_ended();
        let accesses = if stops { 0 } else { accesses };
        let due = begun + accesses;
        if parts != due {
            let rule = match parts > due {
                true if !self.now.served.is_empty() => "commit-after-barrier",
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
        self.now.waiting -= accesses.min(wait);
        let behind = self.now.records.iter().filter(|record| !record.counts).count();
        let brings = Brings { commits, jobs };
        let journalled = Journalled { brings: brings.clone(), accesses, behind, shown: Vec::new() };
        self.journal.insert(name.into(), journalled);
        let ends = ends || stops;
        let is_last = !ends
            && self.state.since_cut >= self.config.checkpoint_every
            && (accesses > 0 || self.config.rate.is_none());
        self.cut_record(name, brings, (accesses, accesses.min(wait)));
        Ok((is_last, ends))
    }

    /// A record is cut, in life or in a replay; for how many of its accesses somebody waits.
    pub(super) fn cut_record(
        &mut self,
        name: &str,
        Brings { commits, jobs }: Brings,
        (accesses, asked): (usize, usize),
    ) {
        self.now.cut_records += 1;
        let (number, name, also) = (self.now.cut_records, name.into(), self.state.cut(accesses));
        let effects = Effects { commits, orders: Vec::new() };
        let record =
            Record { number, name, effects, jobs, accesses, asked, also, ..<_>::default() };
        self.now.records.push_back(record);
    }

    /// The record counts from `at` on, as all before it do: what it reads is due.
    pub(super) fn record_counts(&mut self, name: &str, at: Nanos) {
        if let Some(record) = self.now.records.iter_mut().find(|record| record.name == name) {
            record.counts = true;
        }
        self.show_next(at);
    }

    /// The message that is due.
    pub(super) fn next_due(&self) -> Option<Due> {
        if let Some((partition, _)) =
            self.now.replay.lacking.front().filter(|_| self.now.replay.is_at_hand)
        {
            return Some(Due::Lacking(*partition));
        }
        let front = self.now.records.front().filter(|record| record.counts)?;
        match front.accesses {
            0 => front.jobs.front().map(|(partition, _)| Due::Job(*partition)),
            count => Some(Due::Accesses(count)),
        }
    }

    /// Goes on to the next message: what sends none comes silently, and a record of which all was
    /// shown is over.
    fn show_next(&mut self, at: Nanos) {
        while self.now.records.front().is_some_and(|one| one.counts && one.accesses == 0) {
            self.begin_front();
            self.takes_effect();
            let Some(front) = self.now.records.front_mut() else { return };
            let Some((partition, _)) = front.jobs.front().copied() else {
                let over = self.now.records.pop_front().map(|record| record.after);
                over.into_iter().flatten().for_each(|after| self.happens(after));
                continue;
            };
            if self.state.job(partition).is_some_and(|job| job.cells() > 0) {
                break;
            }
            front.jobs.pop_front();
            self.comes_silently(at, Own::Job(partition));
        }
    }

    /// The jobs of the first record begin: their cells follow from all that was cut before.
    pub(super) fn begin_front(&mut self) {
        let Some(front) = self.now.records.front_mut().filter(|record| !record.has_begun) else {
            return;
        };
        front.has_begun = true;
        let (number, jobs, layout) = (front.number, front.jobs.clone(), self.state.layout);
        for (nth, (partition, until)) in (1..).zip(jobs) {
            let reads = self.pyramids[partition as usize].begin_job(&layout, until);
            let numbered = (self.now.first..).zip(&self.now.accesses);
            let early = numbered.filter(|(_, one)| one.partition == partition && !one.has_come);
            let early = early.map(|(number, _)| number).collect();
            // It may be that of a record which no commit can overtake: it is there.
            if let Some(job) = self.state.job_mut(partition) {
                (job.reads, job.early, job.order) = (reads, early, (number, nth));
            }
        }
    }

    /// The accesses of the first record are shown: it takes effect. In a replay it does when it did
    /// in life.
    fn takes_effect(&mut self) {
        let Some(front) = self.now.records.front_mut().filter(|record| !record.has_effect) else {
            return;
        };
        front.has_effect = true;
        let (number, effects) = (front.number, std::mem::take(&mut front.effects));
        if self.now.replay.is_at_hand {
            return self.now.replay.uncounted.push_back(effects);
        }
        for saved in [&mut self.now.saving, &mut self.committing].into_iter().flatten() {
            let waits = saved.uncounted.iter_mut().find(|(of, _)| *of == number);
            if let Some((_, waits)) = waits {
                *waits = effects.clone();
            }
        }
        self.bring_about(effects);
        self.copy_if_shown();
    }

    /// The last record that counts.
    pub(super) fn last_counted(&self) -> u64 {
        let not_counted = self.now.records.iter().find(|record| !record.counts);
        not_counted.map_or(self.now.cut_records, |record| record.number - 1)
    }

    /// Commits take effect and orders count.
    pub(super) fn bring_about(&mut self, Effects { commits, orders }: Effects) {
        commits.iter().for_each(|commit| self.state.commit(*commit));
        if !commits.is_empty() {
            self.happens_after(After::Commits(commits));
        }
        orders.into_iter().for_each(|partition| self.state.order_counts(partition));
    }

    /// It happens now: to levels, when all that was cut before it is shown.
    fn happens_after(&mut self, after: After) {
        match self.now.records.back_mut() {
            Some(last) => last.after.push(after),
            None => self.happens(after),
        }
    }

    fn happens(&mut self, after: After) {
        match after {
            After::Commits(commits) => {
                for (partition, version) in commits {
                    self.pyramids[partition as usize].commit(&self.state.layout, version);
                }
            }
            After::Copy => {
                for saved in [&mut self.now.saving, &mut self.committing].into_iter().flatten() {
                    saved.pyramids.get_or_insert_with(|| self.pyramids.clone());
                }
            }
        }
    }

    /// Copies the state for a cut when all records have taken effect that counted then.
    pub(super) fn copy_if_shown(&mut self) {
        let next = self.now.records.iter().find(|record| !record.has_effect).map(|one| one.number);
        let is_due = |saving: &&mut Saved| {
            saving.state.is_none() && next.is_none_or(|next| next > saving.counted)
        };
        let Some(saving) = self.now.saving.as_mut().filter(is_due) else { return };
        let not_counted = self.now.records.iter().filter(|record| !record.has_effect);
        saving.uncounted = not_counted.map(|record| (record.number, Effects::default())).collect();
        saving.mark = self.state.dropped + self.state.dead.len() as u64;
        saving.state = Some(self.state.clone());
        self.happens_after(After::Copy);
    }

    pub(super) fn comes_silently(&mut self, at: Nanos, what: Own) {
        match self.config.quantum_ns {
            0 if self.now.replay.is_at_hand => {}
            0 => self.now.silent.push_back((at, what)),
            quantum => {
                self.now.replay.under_way += 1;
                self.now.timers.push((at + quantum, what));
            }
        }
    }

    /// The next of what comes without a message within this instant has come; whether there was
    /// one.
    pub(super) fn come_silent(&mut self) -> bool {
        let next = self.now.silent.pop_front();
        next.map(|(at, what)| self.comes(what, at)).is_some()
    }

    pub(super) fn all_come_silent(&mut self) {
        while self.come_silent() {}
    }

    /// Holds what is shown of the first record against what was; whether nothing was.
    fn show(&mut self, shown: Shown) -> Step<bool> {
        let Some(Record { name, seen, .. }) = self.now.records.front_mut() else { return Ok(true) };
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
        let front = plane.now.records.front().filter(|record| record.counts);
        let known = front.and_then(|record| record.marked.back()).map_or(0, |(nth, _)| nth + 1);
        let due = match plane.next_due() {
            Some(Due::Accesses(count)) => known..count,
            _ => 0..0,
        };
        if !due.contains(&nth) || partition >= plane.config.partitions {
            let due = format!("a mark of one of the accesses {due:?}");
            fault("access-per-request", due, format!("one of {nth}, partition {partition}"))?;
        }
        let is_new = plane.show(Shown::Mark(mark.number))?;
        plane.is_marked = true;
        let Some(record) = plane.now.records.front_mut() else { return Ok(()) };
        record.marked.push_back((nth, partition));
        let number = record.number;
        if record.marked.len() == record.accesses {
            self.accesses_read(&[], is_new, out)?;
            self.plane.comes_silently(self.at, Own::Accesses(number));
            self.plane.show_next(self.at);
            self.goes_on();
        }
        Ok(())
    }

    /// A message reads these cells.
    pub(super) fn read(&mut self, cells: &[CellSeen], out: &mut dyn Observer) -> Result<Own, Stop> {
        self.summary.cells_read += cells.len() as u64;
        self.plane.now.replay.under_way += 1;
        let due = self.plane.next_due();
        if let Some(Due::Lacking(partition)) = due {
            return Ok(self.plane.read_lacking(partition, cells)?);
        }
        let number = self.plane.now.records.front().map_or(0, |record| record.number);
        let is_new = self.plane.show(Shown::Cells(cells.to_vec()))?;
        let own = match due {
            Some(Due::Accesses(_)) => {
                self.accesses_read(cells, is_new, out)?;
                Own::Accesses(number)
            }
            Some(Due::Job(partition)) => {
                // What was seen before is no news.
                let mut nobody = |_: &Observation<'_>| {};
                let out: &mut dyn Observer = if is_new { out } else { &mut nobody };
                self.plane.read_job(partition, cells, out)?;
                self.plane.now.records.front_mut().and_then(|record| record.jobs.pop_front());
                Own::Job(partition)
            }
            _ => fault("access-per-request", "no message", format!("{:x?}", cells.first()))?,
        };
        self.plane.show_next(self.at);
        Ok(own)
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
        self.plane.begin_front();
        let front = self.plane.now.records.front_mut();
        let (count, mut marked) = front.map_or((0, VecDeque::new()), |front| {
            (std::mem::take(&mut front.accesses), std::mem::take(&mut front.marked))
        });
        let mut from = 0;
        for nth in 0..count {
            let is_marked = marked.front().is_some_and(|(at, _)| *at == nth);
            let marked = if is_marked { marked.pop_front() } else { None };
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
        match self.is_marked || !self.pyramids.iter().any(silent) {
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
        let levels = self.pyramids[partition as usize].shows(&layout);
        if is_marked != levels.is_empty() {
            let due = format!("a cell of each of the levels {levels:?} of {partition}");
            let seen = if is_marked { "none".into() } else { format!("{:x?}", cells.first()) };
            let rule = if is_marked { "cell-per-level" } else { self.rule_of(partition, cells) };
            return fault(rule, due, seen);
        }
        for (at, level) in levels.iter().enumerate() {
            let pyramid = &mut self.pyramids[partition as usize];
            let version = pyramid.levels[usize::from(*level)].as_ref().map_or(0, |l| l.version);
            let due = name(partition, *level, version);
            let Some((_, cell)) = cells.get(at).filter(|(seen, _)| *seen == due) else {
                let seen = cells.get(at);
                return fault(
                    self.rule_of(partition, &cells[at.min(cells.len())..]),
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

    /// The rule by which an access of `partition` may not read what comes first of these.
    fn rule_of(&self, partition: u32, cells: &[CellSeen]) -> &'static str {
        let Some(job) = &self.pyramids[partition as usize].job else { return "cell-per-level" };
        let mut own = cells.iter().take_while(|(seen, _)| seen.chunk == partition);
        match cells.first().is_some_and(|(seen, _)| job.reads(seen)) {
            _ if own.any(|(seen, _)| job.makes(seen)) => "commit-before-read",
            true => "job-fixed",
            false => "cell-per-level",
        }
    }

    fn cut_access(&mut self, partition: u32) {
        let pyramid = &mut self.pyramids[partition as usize];
        let awaits = pyramid.job.as_ref().map(|job| job.until);
        pyramid.given += 1;
        let Some(front) = self.now.records.front_mut() else { return };
        let asked = front.asked > 0;
        front.asked -= usize::from(asked);
        let (record, has_come) = (front.number, false);
        self.now.accesses.push_back(Access { partition, record, has_come, awaits, asked });
        let also = front.also.pop_front().flatten();
        if let Some(also) = also {
            self.pyramids[also as usize].given += 1;
        }
        front.effects.orders.extend([Some(partition), also].into_iter().flatten());
    }
}

/// Ends.
impl Partition {
    /// The cells of all accesses of a record have come.
    pub(super) fn accesses_come(&mut self, record: u64, at: Nanos) {
        for (number, one) in (self.now.first..).zip(&mut self.now.accesses) {
            let job = self.state.partitions[one.partition as usize].job.as_mut();
            one.has_come |= one.record == record;
            if let Some(job) = job.filter(|job| one.has_come && job.early.contains(&number)) {
                job.early.retain(|early| *early != number);
                job.came = job.came.max((at, record, 0));
            }
        }
    }

    pub(super) fn end_accesses(&mut self) {
        while self.now.accesses.front().is_some_and(|one| one.has_come && !self.awaits_job(one)) {
            let asked = self.now.accesses.pop_front().is_some_and(|one| one.asked);
            self.now.due_answers += usize::from(asked);
            self.now.first += 1;
        }
    }

    fn awaits_job(&self, one: &Access) -> bool {
        let job = self.state.job(one.partition);
        job.is_some_and(|job| Some(job.until) == one.awaits && !job.has_come())
    }

    pub(super) fn check_answer(&mut self, client: &Client) -> Step {
        let (due, seen) = (self.now.unanswered.pop_front(), (client.connection, client.number));
        if due != Some(seen) {
            let due = format!("the answer to {due:?}");
            return fault("reply-time", due, format!("that to {seen:?}"));
        }
        if self.now.due_answers > 0 {
            self.now.due_answers -= 1;
            return Ok(());
        }
        let awaits_job = self.now.accesses.front().is_some_and(|one| one.has_come);
        let rule = if awaits_job { "end-after-job" } else { "reply-time" };
        let due = "no answer before the cells of its access, of the job of its partition and of \
            all before";
        fault(rule, due, format!("{seen:?}"))
    }
}

const UNMARKED: &str =
    "an access may have read nothing, and no mark says which partition it was of";
