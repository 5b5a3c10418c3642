//! A job carries out the orders of a partition: it reads the levels that they merge and writes
//! those that they leave.
//!
//! 1. *Begin*: sources and destinations follow from the counters. What is planned to be written:
//!    the live blocks of the sources, by level and address, then the oldest of the stash, as many
//!    as fit. The highest destination is filled first. What is too many (the top only) goes to the
//!    stash.
//! 2. The cells: of every source what its quota lacks, which holds all its unread live blocks.
//! 3. They are read. When they have come, and those of every access to the partition cut before the
//!    job, the destinations are sealed and written whole, dummies as well (`image`). A block that
//!    an access has taken meanwhile leaves a dummy.
//! 4. *Commit*: destinations take the place of sources.
//!
//! What is read and written follows from counters alone: not from what is live, or in a stash.
//!
//! Protocol, section 5; ObliviStore, section 5.

use bytes::Bytes;

use super::journal::Commit;
use super::layout::Layout;
use super::level::{Draws, HOLE, Taken};
use super::plane::{Cell, Images, PartitionPlane, not_filled};
use super::state;
use crate::geometry::version;
use crate::immediate::sequencer::Number;
use crate::position::Home;
use crate::{Error, Result};

/// Blocks that a job takes from a stash at most: so many are listed in its part of a record.
pub const FROM_STASH_MAX: usize = 128;

/// A job as it goes into a record and into a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPart {
    /// The partition.
    pub partition: u32,
    /// Orders carried out when it is done.
    pub until: u64,
    /// The blocks that it takes from the stash.
    pub from_stash: Vec<u32>,
    /// What it reads, by level and place. Follows from the rest and the state.
    pub cells: Vec<Cell>,
}

/// A level to be written.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Which.
    pub level: u8,
    /// By rank: the block, [`HOLE`] if it has left.
    pub plan: Vec<u32>,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Its cells have not come.
    Reading,
    /// They have come.
    Come,
    /// Its images were made.
    Writing,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Job {
    /// Orders carried out when it is done.
    pub until: u64,
    sources: Vec<u8>,
    /// What it took from the stash and still holds: the values were in memory.
    pub from_stash: Vec<u32>,
    /// What was too many, and is in the stash: the values come with its cells.
    pub overflow: Vec<u32>,
    /// From the lowest level.
    pub destinations: Vec<Destination>,
    /// The generation that they will have.
    version: u64,
    /// What it takes of the budget of cells.
    pub cost: u64,
    /// Accesses to the partition that were cut before it and whose cells had not come.
    early: Vec<Number>,
    step: Step,
}

/// A level as it is to be written: by place, the block and its value.
#[derive(Debug)]
pub struct Image {
    /// Which level.
    pub level: u8,
    /// Its generation.
    pub version: u64,
    /// By place; `None` for a dummy.
    pub cells: Vec<Option<(u32, Bytes)>>,
}

impl Job {
    /// One of a checkpoint, whose cells have to be read again.
    pub fn saved(until: u64, of: &Layout, done: u64, destinations: Vec<Destination>) -> Self {
        Self {
            until,
            sources: of.sources(until, done),
            from_stash: Vec::new(),
            overflow: Vec::new(),
            destinations,
            version: 0, // it is written anew, or its commit says
            cost: of.job_cells(until, done),
            early: Vec::new(),
            step: Step::Reading,
        }
    }

    /// Whether its cells have come.
    pub fn has_come(&self) -> bool {
        self.step != Step::Reading
    }

    /// The levels that it reads.
    pub fn sources(&self) -> &[u8] {
        &self.sources
    }

    /// The blocks that it holds.
    pub fn planned(&self) -> impl Iterator<Item = u32> {
        let planned = self.destinations.iter().flat_map(|to| &to.plan).copied();
        planned.filter(|block| *block != HOLE)
    }

    /// The block planned at this rank has been asked for.
    pub fn forget(&mut self, level: u8, rank: u16) {
        let planned = self.destinations.iter_mut().find(|to| to.level == level);
        if let Some(slot) = planned.and_then(|to| to.plan.get_mut(usize::from(rank))) {
            // Of what it took from the stash a cut wants the values that are still its own.
            self.from_stash.retain(|block| block != slot);
            *slot = HOLE;
        }
    }

    /// Where it plans `block` to be; all plans are looked through.
    pub fn find(&self, block: u32) -> Option<Home> {
        let planned = self.destinations.iter().map(|Destination { level, plan }| {
            let ranks = (0..).zip(plan);
            let is = |found, (rank, planned): (u16, &u32)| {
                if *planned == block { Some(rank) } else { found }
            };
            ranks.fold(None, is).map(|rank| Home::Job { level: *level, rank })
        });
        planned.fold(None, Option::or)
    }
}

impl PartitionPlane {
    /// Begins the job of the partition that has been ready longest, if there is one and the budget
    /// of `cells_max` allows it. One job may pass the budget.
    ///
    /// # Errors
    /// [`Error::Bug`] if an invariant does not hold.
    pub fn begin_job(&mut self, cells_max: u64) -> Result<Option<JobPart>> {
        if self.open_cells >= cells_max {
            return Ok(None);
        }
        let Some(partition) = self.ready.front().copied() else { return Ok(None) };
        let pyramid = &mut self.pyramids[partition as usize];
        let until = pyramid.sure;
        let oldest = pyramid.stash.iter().take(FROM_STASH_MAX).copied().collect();
        self.plan_job(partition, until, oldest).map(Some)
    }

    /// Plans the job of `partition` up to `until` orders, with as many of the `oldest` as fit.
    ///
    /// # Errors
    /// [`Error::Bug`] if an invariant does not hold, or one of them is not in the stash.
    pub(super) fn plan_job(
        &mut self,
        partition: u32,
        until: u64,
        oldest: Vec<u32>,
    ) -> Result<JobPart> {
        let layout = self.layout;
        let pyramid = &mut self.pyramids[partition as usize];
        pyramid.is_ready = false;
        match self.ready.front() == Some(&partition) {
            true => _ = self.ready.pop_front(),
            false => self.ready.retain(|ready| *ready != partition),
        }
        let done = pyramid.done;
        let (sources, written) = (layout.sources(until, done), layout.destinations(until, done));
        // 1. What is written: the live blocks of the sources, then what fits of the stash.
        let mut blocks = Vec::new();
        for level in &sources {
            let held = self.pyramids[partition as usize].level(*level).ok_or_else(not_filled)?;
            let from = blocks.len();
            blocks.extend(held.laid().map(|(_, block)| block));
            blocks[from..].sort_unstable();
        }
        let room: usize = written.iter().map(|level| usize::from(layout.room(*level))).sum();
        let mut from_stash = oldest;
        from_stash.truncate(room.saturating_sub(blocks.len()));
        let pyramid = &mut self.pyramids[partition as usize];
        // A journal lists them, too: of a block that is elsewhere there would be two.
        if !from_stash.iter().all(|block| pyramid.unstash(*block)) {
            return Err(Error::Bug("a job takes a block that is in no stash".into()));
        }
        blocks.extend(&from_stash);
        // 2. The highest level is filled first; what is too many goes to the stash.
        let mut destinations = Vec::with_capacity(written.len());
        let mut rest = &blocks[..];
        for level in written.iter().rev() {
            let (plan, others) = rest.split_at(rest.len().min(layout.room(*level).into()));
            destinations.push(Destination { level: *level, plan: plan.to_vec() });
            rest = others;
        }
        destinations.reverse();
        let overflow = rest.to_vec();
        self.pyramids[partition as usize].stash.extend(rest);
        // 3. Its cells are fixed now: later accesses read none of these levels.
        let mut cells = Vec::new();
        for level in &sources {
            let held = self.pyramids[partition as usize].level(*level).ok_or_else(not_filled)?;
            let of = (partition, *level, held.version);
            let draws = Draws::of((&self.keys, &self.canary), of)?;
            let mut taken = held.take_rest(layout.room(*level), &draws)?;
            if self.canary.reads_reals() {
                taken.retain(|taken| taken.block.is_some());
            }
            let from = cells.len();
            let front = self.front_dummies(partition, *level, &taken)?;
            cells.extend(self.cells(partition, *level, taken)?);
            let dummies = cells[from..].iter_mut().filter(|cell| cell.block.is_none());
            dummies.zip(front).for_each(|(cell, place)| cell.place = place);
            cells[from..].sort_unstable_by_key(|cell: &Cell| cell.place);
        }
        let cost = layout.job_cells(until, done);
        let cost = if self.canary.counts_reals() { blocks.len() as u64 } else { cost };
        self.open_cells += cost;
        self.stats.jobs += 1;
        self.stats.cells_read += cells.len() as u64;
        self.stats.cells_written +=
            written.iter().map(|l| u64::from(layout.cells(*l))).sum::<u64>();
        let early = self.not_come_of(partition);
        let version = version(self.keys.current().0, until);
        self.pyramids[partition as usize].job = Some(Job {
            until,
            sources,
            from_stash: from_stash.clone(),
            overflow,
            destinations,
            version,
            cost,
            early,
            step: Step::Reading,
        });
        Ok(JobPart { partition, until, from_stash, cells })
    }

    /// What a job leaks that reads the first unread dummies: their places. Nothing, but in tests.
    fn front_dummies(&mut self, partition: u32, level: u8, taken: &[Taken]) -> Result<Vec<u16>> {
        if !self.canary.reads_front() {
            return Ok(Vec::new());
        }
        let held = self.pyramids[partition as usize].level(level).ok_or_else(not_filled)?;
        let mut places = held.dummies_before(taken);
        places.sort_unstable();
        Ok(places)
    }

    fn not_come_of(&self, partition: u32) -> Vec<Number> {
        let numbered = (self.first..).zip(&self.accesses);
        numbered
            .filter(|(_, access)| access.partition == partition && !access.has_come)
            .map(|(number, _)| number)
            .collect()
    }

    /// The cells of the job of `partition` have come: the live ones, by block.
    pub fn job_came(&mut self, partition: u32, live: impl IntoIterator<Item = (u32, Bytes)>) {
        self.take_values(live);
        if let Some(job) = &mut self.pyramids[partition as usize].job {
            job.step = Step::Come;
        }
    }

    /// What the job of `partition` is to write, once all of it has come.
    ///
    /// # Errors
    /// [`Error::Bug`] if a block is not in memory.
    pub fn images(&mut self, partition: u32) -> Result<Option<Images>> {
        let first = self.first;
        let has_come = |number: &Number| match number.checked_sub(first) {
            None => true,
            Some(at) => self.accesses.get(at as usize).is_none_or(|access| access.has_come),
        };
        let pyramid = &mut self.pyramids[partition as usize];
        let awaits_none = self.canary.awaits_no_early();
        let is_whole = |job: &&mut Job| {
            job.step == Step::Come && (awaits_none || job.early.iter().all(has_come))
        };
        let Some(job) = pyramid.job.as_mut().filter(is_whole) else { return Ok(None) };
        job.step = Step::Writing;
        let mut images = Vec::with_capacity(job.destinations.len());
        for Destination { level, plan } in &job.destinations {
            if plan.iter().all(|block| *block == HOLE) && self.canary.skips_empty() {
                continue;
            }
            let of = (partition, *level, job.version);
            let draws = Draws::of((&self.keys, &self.canary), of)?;
            let places = draws.order(self.layout.cells(*level));
            let mut cells = vec![None; places.len()];
            for (block, place) in plan.iter().zip(&places).filter(|(block, _)| **block != HOLE) {
                let value = match self.values.get(block) {
                    Some(value) => value,
                    None if awaits_none => continue,
                    None => return Err(Error::Bug("a block has not come".into())),
                };
                cells[usize::from(*place)] = Some((*block, value.clone()));
            }
            images.push(Image { level: *level, version: job.version, cells });
        }
        Ok(Some(Images { partition, images }))
    }

    /// What the next jobs have written is durable: the commit, for a record.
    pub(super) fn next_commit(&mut self) -> Option<Commit> {
        let partition = self.written.pop_front()?;
        let job = self.pyramids[partition as usize].job.as_ref()?;
        Some(Commit { partition, until: job.until, version: job.version })
    }

    /// What every job whose cells have come is to write, also if that was sent before.
    ///
    /// # Errors
    /// [`Error::Bug`] if a block is not in memory.
    pub(super) fn images_again(&mut self) -> Result<Vec<Images>> {
        let mut due = Vec::new();
        for partition in 0..self.layout.partitions {
            if let Some(job) = &mut self.pyramids[partition as usize].job {
                job.step = Step::Come;
                job.version = version(self.keys.current().0, job.until);
            }
            due.extend(self.images(partition)?);
        }
        Ok(due)
    }

    /// A commit is durable: destinations take the place of sources.
    ///
    /// # Errors
    /// [`Error::Bug`] if there is no such job.
    pub fn commit(&mut self, commit: Commit) -> Result<()> {
        let Commit { partition, until, version } = commit;
        let pyramid = &mut self.pyramids[partition as usize];
        let job = pyramid.job.take().filter(|job| job.until == until);
        let job = job.ok_or_else(|| Error::Bug("a commit of no job".into()))?;
        for level in &job.sources {
            if let Some(gone) = pyramid.levels[usize::from(*level)].take() {
                self.dead.extend(self.layout.chunks(partition, *level, gone.version));
            }
        }
        for Destination { level, plan } in job.destinations {
            for block in plan.iter().filter(|block| **block != HOLE) {
                let value = self.values.remove(block);
                state::hold_for_cut(&mut self.cutting, *block, value);
            }
            let made = self.made(partition, level, version, &plan)?;
            self.pyramids[partition as usize].levels[usize::from(level)] = Some(made);
        }
        let pyramid = &mut self.pyramids[partition as usize];
        self.open_orders -= job.until - pyramid.done;
        self.open_cells -= job.cost;
        pyramid.done = job.until;
        self.settle(partition);
        Ok(())
    }
}
