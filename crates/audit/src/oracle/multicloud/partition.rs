//! What one cloud knows of a partition: evictions, levels, which cells were read, the job under
//! way.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::Layout;
use super::said::Named;
use crate::oracle::fault::{Step, fault};

/// A level at the holder.
#[derive(Debug, Clone)]
pub struct Level {
    /// Which job wrote it, and which attempt.
    pub job: u64,
    /// Cells that were not read.
    pub unread: BTreeSet<u32>,
    /// How many were.
    pub reads: u16,
}

/// A job that was named.
#[derive(Debug, Clone)]
pub struct Job {
    /// Which, and which attempt.
    pub job: u64,
    /// Of a rebuild of the top: by level of its sources, the cells on the list. The same on every
    /// attempt.
    pub list: Option<BTreeMap<u8, BTreeSet<u32>>>,
    /// Whether the holder has records, the shuffler uploads: then reads may name the new level.
    pub is_ready: bool,
    /// Whether they do.
    pub counts: bool,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Evictions that accesses have given it, as far as this cloud was told of them.
    pub given: u64,
    /// Accesses of which nobody was told anything: this partition had no level, and they may be its
    /// own.
    unseen: u64,
    /// Evictions that a job took which nobody was told of yet: a later access says that there were
    /// some.
    debt: u64,
    /// Whether it had no level when the last access was told of.
    pub was_empty: bool,
    /// Evictions of jobs that count for new reads.
    pub done: u64,
    pub levels: BTreeMap<u8, Level>,
    pub job: Option<Job>,
    /// The last that was committed.
    pub committed: Option<u64>,
}

/// Evictions that a job ends at.
pub fn count(job: u64) -> u64 {
    job >> 16
}

impl Partition {
    pub fn new(layout: &Layout, partition: u16) -> Self {
        let first = layout.first(partition);
        let (levels, job, committed) = (BTreeMap::new(), None, None);
        let (unseen, debt, was_empty) = (0, 0, true);
        Self { given: first, unseen, debt, was_empty, done: first, levels, job, committed }
    }

    /// An access gives it an eviction.
    pub fn is_given(&mut self) {
        match self.debt {
            0 => self.given += 1,
            debt => self.debt = debt - 1,
        }
    }

    /// All accesses are known by now: what its job took there was.
    pub fn settles(&mut self) -> Step {
        let Some(unseen) = self.unseen.checked_sub(self.debt) else {
            return fault("job-due", format!("{} evictions", self.unseen), self.debt.to_string());
        };
        (self.unseen, self.debt) = (unseen, 0);
        Ok(())
    }

    /// An access was told of.
    pub fn looks_at_itself(&mut self) {
        self.was_empty = self.levels.is_empty();
    }

    /// Of an access nobody was told anything.
    pub fn may_be_given(&mut self) {
        if self.was_empty {
            self.unseen += 1;
        }
    }

    /// A job is named, in either role: it has to be due, or another attempt of the one that is
    /// under way. Returns whether it is the first attempt.
    pub fn begins(&mut self, layout: &Layout, job: u64) -> Step<bool> {
        let due = self.done + layout.batch();
        if let Some(before) = &mut self.job {
            if count(before.job) != count(job) || before.job >= job || before.counts {
                return fault("job-due", "another attempt of the job under way", job.to_string());
            }
            (before.job, before.is_ready) = (job, false);
            return Ok(false);
        }
        let lacks = due.saturating_sub(self.given);
        if count(job) == due && lacks > 0 && (self.was_empty || lacks <= self.unseen) {
            (self.given, self.debt) = (due, self.debt + lacks);
            if !self.was_empty {
                self.settles()?;
            }
        }
        if count(job) != due || self.given < due {
            let due = format!("the job that ends at {due}, when so many evictions are given");
            return fault("job-due", due, format!("{} of {} given", count(job), self.given));
        }
        self.job = Some(Job { job, list: None, is_ready: false, counts: false });
        Ok(true)
    }

    /// What the job under way reads is what the public counters say. At the holder, by the very
    /// jobs that wrote it.
    pub fn reads(
        &self,
        layout: &Layout,
        (partition, is_holder): (u16, bool),
        (job, sources): (u64, &[Named]),
    ) -> Step {
        let due = layout.sources(partition, count(job));
        let named = sources.iter().map(|(level, job)| (*level, count(*job)));
        let are_live = !is_holder
            || sources
                .iter()
                .all(|(level, job)| self.levels.get(level).is_some_and(|level| level.job == *job));
        match named.eq(due.iter().copied()) && are_live {
            true => Ok(()),
            false => fault("job-sources", format!("{due:?}"), format!("{sources:?}")),
        }
    }

    /// The job under way, if it is this one.
    pub fn job(&mut self, rule: &'static str, job: u64) -> Step<&mut Job> {
        let under_way = self.job.as_ref().map(|of| of.job);
        match self.job.as_mut().filter(|of| of.job == job) {
            Some(of) => Ok(of),
            None => fault(rule, format!("{under_way:?}"), job.to_string()),
        }
    }

    /// Reads name the level of the job under way from now on.
    pub fn takes_new(&mut self, layout: &Layout) {
        let Some(job) = self.job.as_mut().filter(|job| !job.counts) else { return };
        let (ends, level) = (count(job.job), layout.written(count(job.job)));
        job.counts = true;
        self.done = ends;
        self.levels.retain(|other, _| *other > level);
        let unread = (0..layout.size(level, ends)).collect();
        self.levels.insert(level, Level { job: job.job, unread, reads: 0 });
    }

    /// Both clouds are told that the job under way counts; or once more of the last one.
    pub fn commits(&mut self, layout: &Layout, job: u64) -> Step {
        if self.committed == Some(job) {
            return Ok(());
        }
        if !self.job("commit-of-job", job)?.is_ready {
            return fault(
                "commit-after-records",
                "a level with all that it needs",
                job.to_string(),
            );
        }
        self.takes_new(layout);
        (self.job, self.committed) = (None, Some(job));
        Ok(())
    }
}
