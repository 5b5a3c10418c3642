//! The steps of the protocol in the order of the shell: see the module `partition`.

use std::sync::Arc;

use fogbank_durable::{SectionWriter, Sections};
use fogbank_store::ChunkName;

use super::codec::{Asked, Opened, PartitionCodec};
use super::journal::Part;
use super::orders::Effects;
use super::plane::{Images, PartitionPlane};
use super::state::Cutting;
use super::{replay, saved, state};
use crate::immediate::arrival::PADDING;
use crate::immediate::core::Core;
use crate::immediate::engine::{Progress, Shared};
use crate::immediate::plane::{Cut, Departing, Message, Plane, Record};
use crate::immediate::sequencer::Number;
use crate::{Error, Result, Section};

impl Plane for PartitionPlane {
    type Part = Part;
    type Request = Asked;
    type Opened = Opened;
    type Due = Images;
    type Written = u32;
    type Codec = PartitionCodec;

    const HAS_JOBS: bool = true;
    const CUTS_QUIETLY: bool = false;

    fn depart(&mut self, departing: Vec<Departing>) -> Result<Record<Self>> {
        // 1. Jobs that have written everything are committed.
        let mut parts = Vec::new();
        while parts.len() < self.jobs_max
            && let Some(commit) = self.next_commit()
        {
            parts.push(Part::Commit(commit));
        }
        let commits = parts.len();
        // 2. Partitions whose durable orders touch a stored level get a job.
        let mut jobs = Vec::new();
        let is_hit = |(_, address, _): &Departing| self.values.contains_key(&address.0);
        if !(self.canary.delays_jobs() && departing.iter().any(is_hit)) {
            self.begin_jobs(&mut parts, &mut jobs)?;
        }
        if self.canary.commits_at_cut() {
            self.take_effect(Effects::of(&parts[..commits]))?;
        }
        // 3. Every access shows one cell of each filled level of one partition, and gives orders.
        let mut accesses = Vec::with_capacity(departing.len());
        for (number, address, access) in departing {
            let block = (address.0 != PADDING).then_some(address.0);
            let part = self.cut_access(block, access)?;
            if part.number != number {
                return Err(Error::Bug("an access has two numbers".into()));
            }
            parts.push(Part::Access(part.clone()));
            accesses.push(part);
        }
        let mut effects = Effects::of(&parts);
        if self.canary.counts_at_once() {
            self.orders_are_durable(&std::mem::take(&mut effects.orders));
            self.begin_jobs(&mut parts, &mut jobs)?;
        }
        if self.canary.commits_at_cut() {
            effects.commits.clear();
        }
        self.uncounted.push_back(effects);
        if self.canary.omits_duplicates() {
            accesses
                .iter_mut()
                .filter(|part| part.is_duplicate)
                .for_each(|part| part.cells.clear());
        }
        self.since_cut += accesses.len() as u64;
        // 4. When the record is durable its cells are read: those of accesses before those of jobs.
        let asked = (!accesses.is_empty()).then_some(Asked::Accesses(accesses));
        Ok(Record { parts, requests: asked.into_iter().chain(jobs).collect() })
    }

    /// A job has written everything, or a partition is ready for one and the budget allows it.
    fn has_parts(&self) -> bool {
        !self.written.is_empty() || (!self.ready.is_empty() && self.open_cells < self.cells_max)
    }

    fn is_recorded(&mut self) -> Result<()> {
        self.count_oldest()
    }

    fn ask(&mut self, asked: &Asked) -> Message {
        asked.message(&self.layout)
    }

    fn leaves(&self, asked: &Asked) {
        self.tell_silent(asked);
    }

    fn returned(core: &mut Core<Self>, asked: Asked, opened: Opened) -> Result<Vec<Images>> {
        let mut partitions: Vec<u32> = match &asked {
            Asked::Accesses(parts) => parts.iter().map(|part| part.partition).collect(),
            Asked::Job(part) => vec![part.partition],
            Asked::Lacking(..) => Vec::new(),
        };
        core.take(asked, opened)?;
        // Jobs of these partitions may be whole now.
        partitions.sort_unstable();
        partitions.dedup();
        let images = partitions.into_iter().map(|partition| core.plane.images(partition));
        images.filter_map(Result::transpose).collect()
    }

    fn acknowledged(core: &mut Core<Self>, partition: &u32) {
        core.plane.written.push_back(*partition);
    }

    fn awaits_barrier(&self) -> bool {
        !self.canary.skips_barrier()
    }

    /// At the budget of orders no access is cut.
    fn room(&self) -> usize {
        let orders = self.orders_max.saturating_sub(self.open_orders);
        // An access gives five orders in four.
        self.under_way_max.min((orders * 4).div_ceil(5) as usize + self.accesses.len())
    }

    fn cut_is_due(&self) -> bool {
        self.since_cut >= self.checkpoint_every
    }

    /// All orders are carried out: no job is open, and none is to begin.
    fn may_cut(&self) -> bool {
        self.open_cells == 0 && self.ready.is_empty()
    }

    fn cut(&mut self) -> Result<Cut<Self>> {
        self.since_cut = 0;
        let mark = self.dropped + self.dead.len() as u64;
        let sections = state::save(self)?;
        self.look_at_cut()?;
        Ok(Cut { due: None, mark, sections })
    }

    /// What a job writes counts with its commit only: this waits for the values of the cut.
    fn is_acknowledged(&self, _: u64) -> bool {
        self.cutting.as_ref().is_none_or(|cutting| cutting.is_whole)
    }

    fn sections(shared: &Arc<Shared<Self>>, cut: Vec<Section>) -> Sections<'static> {
        let taken = shared.look(|core| (core.plane.cutting.take(), core.plane.saved_bytes));
        let ((cutting, bytes), shared) = (taken, shared.clone());
        let layout = shared.codec.settings.layout;
        let mut partitions = saved::Sections::of(bytes);
        let write = move |out: &mut SectionWriter| {
            // Under the lock it is taken, and not written.
            let pyramid = shared.look(|core| core.plane.pyramids.next_at_cut());
            pyramid.iter().for_each(|pyramid| saved::write(&layout, pyramid, out));
            pyramid.is_some()
        };
        let partitions = std::iter::from_fn(move || partitions.next(&write)).map(Ok);
        let values = cutting.map(Cutting::sections).into_iter().flatten();
        Box::new(cut.into_iter().map(Ok).chain(values).chain(partitions))
    }

    fn has_checkpoint(&mut self) {
        self.stats.checkpoints += 1;
    }

    /// What nobody reads any more; no access that would is under way when its job commits.
    fn superseded(&mut self, mark: u64, _: Number) -> Vec<ChunkName> {
        let mark = if self.canary.drops_early() { u64::MAX } else { mark };
        let dropped = (mark.saturating_sub(self.dropped) as usize).min(self.dead.len());
        self.dropped += dropped as u64;
        self.dead.drain(..dropped).collect()
    }

    fn is_current(&self, name: &ChunkName) -> bool {
        let Some((partition, level)) = self.layout.level_of(name) else { return false };
        let held = self.pyramids[partition as usize].levels[usize::from(level)].as_ref();
        held.is_some_and(|held| held.version == name.version)
    }

    async fn replay(
        shared: &Arc<Shared<Self>>,
        journal: Vec<Vec<u8>>,
        progress: &Progress,
    ) -> Result<bool> {
        replay::replay(shared, journal, progress).await
    }

    fn begins_again(&mut self) -> Result<Vec<Images>> {
        self.images_again()
    }
}

impl PartitionPlane {
    fn begin_jobs(&mut self, parts: &mut Vec<Part>, jobs: &mut Vec<Asked>) -> Result<()> {
        while jobs.len() < self.jobs_max
            && let Some(job) = self.begin_job(self.cells_max)?
        {
            parts.push(Part::Job(job.clone()));
            jobs.push(Asked::Job(job));
        }
        Ok(())
    }
}

impl Core<PartitionPlane> {
    /// A reply is taken: accesses end that may end, in their order.
    pub(super) fn take(&mut self, asked: Asked, opened: Opened) -> Result<()> {
        match asked {
            Asked::Accesses(parts) => {
                let mut opened = Some(opened);
                for part in parts {
                    self.plane.cells_came(part.number, opened.take().into_iter().flatten());
                }
            }
            Asked::Job(part) => self.plane.job_came(part.partition, opened),
            Asked::Lacking(partition, _) => self.plane.take_lacking(partition, opened),
        }
        while let Some((number, block)) = self.plane.end_next()? {
            self.ended(number);
            self.sequencer.answer(number, || block);
        }
        Ok(())
    }
}
