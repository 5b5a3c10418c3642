//! What comes for a job, of either cloud, and what can go on then.

use fogbank_mix::message::{
    Fetched, Hand, JobRecords, LevelDigest, Lost, MovedDigest, Source, Stored, Strip,
};
use fogbank_mix::{Generation, Seed};
use fogbank_seal::SeedFor;

use crate::Result;
use crate::multicloud::blame::lied_by;
use crate::multicloud::chain::Uncovered;
use crate::multicloud::plane::{Effect, MulticloudPlane};

impl MulticloudPlane {
    /// Records of what a job reads have come.
    pub(in crate::multicloud) fn job_records_come(
        &mut self,
        come: JobRecords,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let Some(job) = self.job_of(come.partition, come.generation) else { return Ok(()) };
        job.records = Some(come.records);
        self.job_goes_on(come.partition, out)
    }

    /// The cells of a refresh have come.
    pub(in crate::multicloud) fn fetched_come(
        &mut self,
        come: Fetched,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let Some(job) = self.job_of(come.partition, come.generation) else { return Ok(()) };
        job.fetched = Some(come.cells);
        self.job_goes_on(come.partition, out)
    }

    /// The chains of the cells of a refresh have been walked.
    pub(in crate::multicloud) fn refresh_is_uncovered(
        &mut self,
        (partition, generation): (u16, Generation),
        come: Uncovered,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let Some(job) = self.job_of(partition, generation) else { return Ok(()) };
        job.uncovered = Some(come.found);
        self.job_goes_on(partition, out)
    }

    /// The shuffler tells what came from the holder.
    pub(in crate::multicloud) fn moved_digest_comes(
        &mut self,
        come: MovedDigest,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let Some(job) = self.job_of(come.partition, come.generation) else { return Ok(()) };
        if job.awaits_moved {
            job.moved = Some(come.digest);
        }
        self.job_goes_on(come.partition, out)
    }

    /// The holder tells what came from the shuffler.
    pub(in crate::multicloud) fn level_digest_comes(
        &mut self,
        come: LevelDigest,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let Some(job) = self.job_of(come.partition, come.generation) else { return Ok(()) };
        // A holder takes a level once: another digest is a lie, before it is checked and after.
        if job.level_digest.is_some_and(|told| told != come.digest) {
            let holder = usize::from(come.partition % 2);
            return Err(lied_by(holder, "a new level is digested twice"));
        }
        job.level_digest = Some(come.digest);
        self.job_goes_on(come.partition, out)
    }

    /// The shuffler has lost what it kept: the holder hands it over, all of it.
    pub(in crate::multicloud) fn kept_is_lost(
        &mut self,
        come: Lost,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let Lost { partition, generation } = come;
        let top = self.shape.top();
        let Some(job) = self.job_of(partition, generation) else { return Ok(()) };
        if job.level == top || job.sources.0.is_empty() || job.awaits_moved {
            let shuffler = usize::from(1 - partition % 2);
            return Err(lied_by(shuffler, "nothing was kept that could be lost"));
        }
        (job.awaits_moved, job.carried) = (true, None);
        let sources = job.sources.clone();
        let seed = |source: &Source| {
            let purpose = SeedFor::Level(partition, source.level, source.generation.0);
            Seed::new(self.keys.seed(purpose))
        };
        let pads = sources.0.iter().map(seed).collect();
        out.push(Effect::Holder(partition, Hand { partition, generation, sources }.into()));
        out.push(Effect::Shuffler(partition, Strip { partition, generation, pads }.into()));
        Ok(())
    }

    /// The records of the new level are durable.
    pub(in crate::multicloud) fn records_are_stored(&mut self, come: Stored) -> Result<()> {
        let Some(job) = self.job_of(come.partition, come.generation) else { return Ok(()) };
        if !job.is_checked {
            let holder = usize::from(come.partition % 2);
            return Err(lied_by(holder, "records are durable that were not sent"));
        }
        job.is_stored = true;
        if !self.stored.contains(&come.partition) {
            self.stored.push(come.partition);
        }
        Ok(())
    }

    pub(super) fn job_goes_on(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<()> {
        let job = self.job(partition)?;
        if job.uploads.is_none() {
            let have_come = job.records.is_some() && job.fetched.is_some();
            return match have_come && job.uncovered.is_some() {
                true => self.check_fetched(partition, out),
                false => Ok(()),
            };
        }
        let lacks_records = job.records.is_none() && !job.sources.0.is_empty();
        let lacks_moved = job.awaits_moved && job.moved.is_none();
        if lacks_records || lacks_moved || job.is_checked {
            return Ok(());
        }
        // Before the level is there: of what does not fit none is made.
        if job.carried.is_none() && !self.check_moved(partition, out)? {
            return Ok(());
        }
        match self.job(partition)?.level_digest {
            Some(_) => self.check_level(partition, out),
            None => Ok(()),
        }
    }
}
