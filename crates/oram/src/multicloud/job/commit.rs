//! A job is committed: the journal has it, accesses take the new level, and both clouds are told
//! when no read of before is under way.

use std::sync::Arc;

use fogbank_mix::message::{Commit, Sources};
use fogbank_mix::{Generation, Marks, Order, Seed};
use fogbank_seal::SeedFor;

use super::{Going, Job, no_job};
use crate::Result;
use crate::multicloud::journal::Entry;
use crate::multicloud::level::Level;
use crate::multicloud::lineage::Rebuild;
use crate::multicloud::plane::{Effect, MulticloudPlane};
use crate::position::Home;

impl MulticloudPlane {
    /// Commits the jobs whose records are durable, and tells both clouds of those that no read
    /// waits for any more.
    pub(in crate::multicloud) fn commit_jobs(&mut self, out: &mut Vec<Effect>) -> Result<()> {
        for partition in std::mem::take(&mut self.stored) {
            let generation = self.job(partition)?.generation;
            out.push(Effect::Journal(Entry::Commit(partition, generation)));
            self.job_is_done(partition, generation)?;
            self.untold.push(partition);
        }
        for at in (0..self.untold.len()).rev() {
            let partition = self.untold[at];
            let pyramid = &self.pyramids[usize::from(partition)];
            if pyramid.old_reads == 0 || self.canary.commits_at_once() {
                self.untold.swap_remove(at);
                self.tell_commit(partition, out);
            }
        }
        Ok(())
    }

    /// Tells both clouds of the last commit of a partition, the first time or again. What only
    /// reads before it could ask for is needed no more.
    pub(in crate::multicloud) fn tell_commit(&mut self, partition: u16, out: &mut Vec<Effect>) {
        let (batch, pyramid) = (self.shape.batch(), &mut self.pyramids[usize::from(partition)]);
        let Some(generation) = pyramid.last else { return };
        if std::mem::take(&mut pyramid.is_untold) {
            pyramid.lineage.forget_before_refresh();
            if pyramid.given >= pyramid.done + batch {
                self.due.push_back(partition);
            }
        }
        let commit = Commit { partition, generation };
        out.push(Effect::Holder(partition, commit.clone().into()));
        out.push(Effect::Shuffler(partition, commit.into()));
    }

    /// An entry of the journal counts: the level takes the place of what its job read.
    pub(in crate::multicloud) fn job_is_done(
        &mut self,
        partition: u16,
        generation: Generation,
    ) -> Result<()> {
        let (shape, count) = (self.shape, generation.count());
        let is_it = |job: &mut Job| job.generation == generation;
        let job = self.pyramids[usize::from(partition)].job.take_if(is_it).ok_or_else(no_job)?;
        // 1. Which block lies in which cell: what has left since lies in none.
        let pyramid = &self.pyramids[usize::from(partition)];
        let carried = job.carries(&shape);
        let mut inputs = Vec::with_capacity(carried.len() + job.blocks.len());
        for cell in &carried {
            inputs.push(pyramid.level(cell.level)?.id(cell.place));
        }
        let stays = |going: &&Going| self.is_at_home(partition, going);
        let placed = |going: &Option<Going>| going.as_ref().filter(stays).map(|going| going.block);
        inputs.extend(job.blocks.iter().map(placed));
        let seed = Seed::new(self.keys.seed(SeedFor::Order(partition, generation.0)));
        let order = Order::new(&seed, shape.size(job.level, count)).list();
        let input = |item: &u32| inputs.get(*item as usize).copied().flatten();
        let level = Level::new(generation, order.iter().map(input));
        for (place, block) in level.reals() {
            let home = Home::Level { level: job.level, rank: place as u16 };
            self.positions.set_home(block, home);
            self.values.remove(&block);
        }
        // 2. The level counts, its sources do not.
        let pyramid = &mut self.pyramids[usize::from(partition)];
        for source in &job.sources.0 {
            pyramid.levels[usize::from(source.level)] = None;
        }
        pyramid.levels[usize::from(job.level)] = Some(level);
        // 3. How it came about, for chains.
        if job.level == shape.top() {
            let begins = shape.refreshes(count) || job.list.is_none();
            let (sources, list) = match job.list.filter(|_| !begins) {
                Some(list) => (job.sources, list),
                None => (Sources::default(), Marks::none(0)),
            };
            pyramid.lineage.rebuilds.push(Arc::new(Rebuild { generation, sources, list }));
        }
        pyramid.last = Some(generation);
        (pyramid.old_reads, pyramid.is_untold) = (pyramid.under_way, true);
        pyramid.lineage.note(generation);
        pyramid.done = count;
        Ok(())
    }
}
