//! A job begins: evictions fall due, what goes up is fixed by the journal, and the first messages
//! are sent.

use fogbank_mix::message::{Carry, Fetch, Mix, Recall, ToHolder, Upload};
use fogbank_mix::{Cells, Generation, Seed};
use fogbank_seal::{SeedFor, UploadPlace};

use super::{Going, Job, NOBODY, no_job};
use crate::multicloud::chain::{Whose, carry_seed};
use crate::multicloud::journal::{Entry, JobEntry};
use crate::multicloud::plane::{Effect, MulticloudPlane};
use crate::position::Home;
use crate::{Error, Result};

impl MulticloudPlane {
    /// An access gives its partition an eviction, and every fourth gives the next in turn another.
    pub(in crate::multicloud) fn give_evictions(&mut self, partition: u16) {
        self.give_eviction(partition);
        let also = self.turn.of_access(self.shape.partitions);
        also.into_iter().for_each(|also| self.give_eviction(also as u16));
    }

    fn give_eviction(&mut self, partition: u16) {
        let pyramid = &mut self.pyramids[usize::from(partition)];
        pyramid.given += 1;
        let is_free = pyramid.job.is_none() && !pyramid.is_untold;
        if pyramid.given == pyramid.done + self.shape.batch() && is_free {
            self.due.push_back(partition);
        }
    }

    /// Begins the jobs that are due.
    pub(in crate::multicloud) fn begin_jobs(&mut self, out: &mut Vec<Effect>) -> Result<()> {
        while let Some(partition) = self.due.pop_front() {
            let pyramid = &self.pyramids[usize::from(partition)];
            let generation = Generation::new(pyramid.done + self.shape.batch(), 0);
            let room = u32::from(self.shape.top_blocks).saturating_sub(pyramid.blocks());
            let taken = pyramid.stash.iter().take((self.shape.batch() as usize).min(room as usize));
            let mut taken: Vec<Option<u32>> = taken.copied().map(Some).collect();
            taken.resize(self.shape.batch() as usize, None);
            self.begin_job(JobEntry { partition, generation, taken }, out)?;
        }
        Ok(())
    }

    /// Begins the job of `partition` once more, with what is left of what it took.
    pub(in crate::multicloud) fn begin_again(
        &mut self,
        partition: u16,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let pyramid = &self.pyramids[usize::from(partition)];
        let Some(job) = &pyramid.job else { return Ok(()) };
        let (count, attempt) = (job.generation.count(), job.generation.attempt());
        let next = u16::from(!self.canary.keeps_attempt());
        let attempt =
            attempt.checked_add(next).ok_or_else(|| Error::Bug("no attempt is left".into()))?;
        let is_left = |going: &&Going| {
            matches!(going.home, Home::Job { .. })
                && (self.canary.takes_again() || self.is_at_home(partition, going))
        };
        let block = |going: &Option<Going>| going.as_ref().filter(is_left).map(|g| g.block);
        let batch = self.shape.batch() as usize;
        let mut taken: Vec<_> = job.blocks.iter().take(batch).map(block).collect();
        taken.resize(batch, None);
        let generation = Generation::new(count, attempt);
        self.begin_job(JobEntry { partition, generation, taken }, out)
    }

    fn begin_job(&mut self, entry: JobEntry, out: &mut Vec<Effect>) -> Result<()> {
        let partition = entry.partition;
        self.job_begins(entry.clone())?;
        out.push(Effect::Journal(Entry::Job(entry)));
        self.ask_for_level(partition, out)
    }

    /// An entry of the journal counts: blocks leave the stash, and what goes up is fixed.
    pub(in crate::multicloud) fn job_begins(&mut self, entry: JobEntry) -> Result<()> {
        let JobEntry { partition, generation, taken } = entry;
        let (shape, count) = (self.shape, generation.count());
        let level = shape.written(count);
        self.due.retain(|due| *due != partition);
        let pyramid = &mut self.pyramids[usize::from(partition)];
        if std::mem::take(&mut pyramid.is_untold) {
            pyramid.lineage.forget_before_refresh(); // both were told before this began
        }
        if count != pyramid.done + shape.batch() || taken.len() as u64 > shape.batch() {
            return Err(Error::Bug("a job of another partition".into()));
        }
        if pyramid.job.is_none() {
            let sources = pyramid.lineage.sources(&shape, partition, count);
            let rebuilds = level == shape.top() && !sources.0.is_empty();
            let list = rebuilds.then(|| self.list(partition, generation, &sources)).transpose()?;
            let job = Job::new(&shape, (partition, generation), sources, list);
            self.pyramids[usize::from(partition)].job = Some(job);
        }
        // 1. What was in the stash, by the entry.
        let mut blocks = Vec::with_capacity(taken.len());
        for (rank, block) in (0..).zip(taken) {
            let home = Home::Job { level, rank };
            blocks.push(block.map(|block| {
                self.pyramids[usize::from(partition)].unstash(block);
                self.positions.set(block, partition, home);
                let value = self.values.get(&block).unwrap_or(&self.zeros).clone();
                Going { block, home, value: Some(value) }
            }));
        }
        // 2. Of a refresh also what is real on the list.
        let pyramid = &mut self.pyramids[usize::from(partition)];
        let job = pyramid.job.as_mut().ok_or_else(no_job)?;
        job.again(generation, job.list.is_some() && !shape.refreshes(count));
        if shape.refreshes(count) && job.list.is_some() {
            for cell in job.named(&shape) {
                let held = pyramid.levels[usize::from(cell.level)].as_ref();
                if let Some(block) = held.and_then(|held| held.id(cell.place)) {
                    let home = Home::Level { level: cell.level, rank: cell.place as u16 };
                    blocks.push(Some(Going { block, home, value: None }));
                }
            }
        }
        if blocks.len() > shape.uploads(count) as usize {
            // Places beyond the blocks taken were dummies: only a refresh has more than a batch.
            let taken = blocks.iter().flatten().count();
            if taken > shape.uploads(count) as usize {
                return Err(Error::Bug("a partition has too many blocks".into()));
            }
            blocks.retain(Option::is_some);
            for (rank, going) in (0..).zip(blocks.iter_mut().flatten()) {
                if let Home::Job { .. } = going.home {
                    going.home = Home::Job { level, rank };
                    self.positions.set_home(going.block, going.home);
                }
            }
        }
        job.blocks = blocks;
        Ok(())
    }

    /// The first messages of a job.
    fn ask_for_level(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<()> {
        let shape = self.shape;
        let job = self.job(partition)?;
        let Job { level, generation, ref sources, ref list, .. } = *job;
        let is_refresh = shape.refreshes(generation.count());
        let (sources, list) = (sources.clone(), list.clone());
        let seed = |purpose| Seed::new(self.keys.seed(purpose));
        let order = seed(SeedFor::Order(partition, generation.0));
        let pads = seed(SeedFor::Level(partition, level, generation.0));
        let mix = Mix { partition, level, generation, sources: sources.clone(), order, pads };
        out.push(Effect::Shuffler(partition, mix.into()));
        let message = match list {
            // Of a job that reads nothing, too: a holder takes no level that was not named.
            None => Recall { partition, generation, sources }.into(),
            Some(list) if is_refresh => Fetch { partition, generation, sources, list }.into(),
            Some(list) => {
                let repeats = self.canary.repeats_carry_pads();
                let pads = seed(carry_seed(partition, generation, repeats));
                Carry { partition, generation, sources, pads, list }.into()
            }
        };
        let fetches = matches!(message, ToHolder::Fetch(_));
        out.push(Effect::Holder(partition, message));
        if !fetches {
            return self.send_up(partition, out);
        }
        // The chains of all that comes are walked meanwhile.
        let named = self.job(partition)?.named(&shape);
        let uncovering = self.uncovering(Whose::Refresh(partition, generation), partition, named);
        out.push(Effect::Uncover(uncovering));
        Ok(())
    }

    /// Seals what goes up and sends it, once an attempt.
    pub(super) fn send_up(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<()> {
        let (job, checks) = (self.job(partition)?, self.checks(partition));
        let generation = job.generation;
        let mut cells = Cells::new(self.shape.cell_bytes());
        let mut sums = Vec::new();
        for index in 0..self.shape.uploads(generation.count()) as u16 {
            let going = job.blocks.get(usize::from(index)).and_then(Option::as_ref);
            let id = going.map_or(NOBODY, |going| going.block);
            let cell = cells.push_zeros();
            if let Some(going) = going {
                let value = going.value.as_ref();
                let value = value.ok_or_else(|| Error::Bug("a block has not come".into()))?;
                cell[..value.len()].copy_from_slice(value);
            }
            let place = UploadPlace { partition, generation: generation.0, index };
            self.keys.seal(place, id, cell);
            sums.push(checks.sums(cell));
        }
        self.job_mut(partition)?.uploads = Some(sums);
        out.push(Effect::Shuffler(partition, Upload { partition, generation, cells }.into()));
        Ok(())
    }
}
