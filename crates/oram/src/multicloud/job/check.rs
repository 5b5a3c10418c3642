//! The checks of a job, each as soon as it can be: of a refresh, of what moves, and of the level.

use fogbank_mix::message::{NewRecords, Record, Source};
use fogbank_mix::signed::What;
use fogbank_mix::{About, Order, Seed, Sum, digest};
use fogbank_seal::SeedFor;
use hashbrown::HashMap;

use super::{Going, Job, NOBODY};
use crate::Result;
use crate::multicloud::blame::{Accusation, lied_by};
use crate::multicloud::chain::{Cell, carry_seed};
use crate::multicloud::checks::Sums;
use crate::multicloud::plane::{Effect, MulticloudPlane};
use crate::position::Home;

impl MulticloudPlane {
    /// All cells of a refresh, dummies too, at the shuffler's point: the holder knows its own.
    /// Then what is real is opened, and goes up.
    pub(super) fn check_fetched(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<()> {
        let (job, checks) = (self.job(partition)?, self.checks(partition));
        let (named, holder) = (job.named(&self.shape), usize::from(partition % 2));
        let (Some(records), Some(cells)) = (&job.records, &job.fetched) else { return Ok(()) };
        if records.len() != named.len() || cells.len() != named.len() {
            return Err(lied_by(holder, "a refresh of another number of cells"));
        }
        for (at, (record, cell)) in named.iter().zip(records.iter().zip(cells.iter())) {
            let (cover, place) = checks.cover(*at);
            let known = checks.open(*at, *record) ^ checks.sums_of_covers([(&cover, place)]);
            let come = checks.sums(cell);
            let is_right = match self.canary.checks_refresh_there() {
                true => come.holder == known.holder,
                false => come.shuffler == known.shuffler,
            };
            if !is_right {
                return Err(lied_by(holder, "the cells of a refresh"));
            }
        }
        // All of them are opened, or it would show how many are real.
        let Some(found) = &job.uncovered else { return Ok(()) };
        let of_home = |going: &Going| match going.home {
            Home::Level { level, rank } => Some(((level, u32::from(rank)), going.block)),
            _ => None,
        };
        let blocks: HashMap<(u8, u32), u32> =
            job.blocks.iter().flatten().filter_map(of_home).collect();
        let mut opened = Vec::new();
        for (at, (cell, found)) in named.iter().zip(cells.iter().zip(found)) {
            let mut cell = cell.to_vec();
            let (cover, place) = checks.cover(*at);
            cover.xor(place, &mut cell);
            let block = blocks.get(&(at.level, at.place)).copied();
            let value = self.open_block(found, block.unwrap_or(NOBODY), cell);
            opened.extend(block.map(|_| value).transpose()?);
        }
        let mut opened = opened.into_iter();
        let job = self.job_mut(partition)?;
        for going in job.blocks.iter_mut().flatten().filter(|going| going.value.is_none()) {
            going.value = opened.next();
        }
        (job.fetched, job.uncovered) = (None, None);
        self.send_up(partition, out)?;
        self.job_goes_on(partition, out)
    }

    /// What it carries, with the covers that it got on the way; whether that is right.
    pub(super) fn check_moved(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<bool> {
        let (job, checks, shape) = (self.job(partition)?, self.checks(partition), self.shape);
        let Job { level, generation, .. } = *job;
        let carried = job.carries(&shape);
        let Some(records) = self.carried_records(job) else {
            return Err(lied_by(usize::from(partition % 2), "the records of a job"));
        };
        if !carried.is_empty() && records.len() != carried.len() {
            let what = "a job of another number of records";
            return Err(lied_by(usize::from(partition % 2), what));
        }
        let repeats = self.canary.repeats_carry_pads();
        let way = checks.pads(carry_seed(partition, generation, repeats));
        let mut sums = Vec::with_capacity(shape.size(level, generation.count()) as usize);
        for (number, (cell, record)) in (0..).zip(carried.iter().zip(&records)) {
            let inner = checks.open(*cell, *record);
            sums.push(match job.list {
                None => inner,
                Some(_) => {
                    let (cover, place) = checks.cover(*cell);
                    inner ^ checks.sums_of_covers([(&cover, place), (&way, number)])
                }
            });
        }
        let moved = digest(About::Moved(partition, generation.0), sums.iter().map(|s| s.shuffler));
        if job.moved.is_some_and(|told| told != moved) && !self.canary.trusts_moved() {
            // As they came: what is handed over has the covers of its places.
            let as_stored = |(cell, sums): (&Cell, &Sums)| {
                let (cover, place) = checks.cover(*cell);
                (*sums ^ checks.sums_of_covers([(&cover, place)])).shuffler
            };
            let (batch, right) = match job.list {
                None => {
                    let right = carried.iter().zip(&sums).map(as_stored).collect();
                    (What::Handed(partition, generation.0), right)
                }
                Some(_) => {
                    let right = sums.iter().map(|sums| sums.shuffler).collect();
                    (What::Moved(partition, generation.0), right)
                }
            };
            let what = "the cells that a job moves";
            self.accuse(Accusation::new(what, partition, batch, right), out);
            return Ok(false);
        }
        self.job_mut(partition)?.carried = Some(sums);
        Ok(true)
    }

    /// The new level; then records for it.
    pub(super) fn check_level(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<()> {
        let mut sums = self.job_mut(partition)?.carried.take().unwrap_or_default();
        let (job, checks, shape) = (self.job(partition)?, self.checks(partition), self.shape);
        let Job { level, generation, .. } = *job;
        // 1. What it carries, the uploads, and zeros, in its order.
        sums.extend(job.uploads.iter().flatten());
        let size = shape.size(level, generation.count());
        let seed = Seed::new(self.keys.seed(SeedFor::Order(partition, generation.0)));
        let input = |item: &u32| sums.get(*item as usize).copied().unwrap_or_default();
        let inner: Vec<Sums> = Order::new(&seed, size).list().iter().map(input).collect();
        let covers = checks.pads(SeedFor::Level(partition, level, generation.0));
        let right: Vec<Sum> = (0..)
            .zip(&inner)
            .map(|(place, inner)| (*inner ^ checks.sums_of_covers([(&covers, place)])).holder)
            .collect();
        let known = digest(About::Level(partition, generation.0), right.iter().copied());
        if job.level_digest != Some(known) && !self.canary.trusts_levels() {
            let batch = What::Level(partition, level, generation.0);
            let accusation = Accusation::new("the cells of a new level", partition, batch, right);
            self.accuse(accusation, out);
            return Ok(());
        }
        // 2. Its records.
        let record =
            |(place, sums): (u32, &Sums)| checks.record(Cell { level, generation, place }, *sums);
        let mut records: Vec<Record> = (0..).zip(&inner).map(record).collect();
        records.push(checks.seal(level, generation, &records));
        self.job_mut(partition)?.is_checked = true;
        out.push(Effect::Holder(partition, NewRecords { partition, generation, records }.into()));
        Ok(())
    }

    /// The records of what a job carries, without the seals under those of whole levels; none if
    /// one of these is wrong.
    fn carried_records(&self, job: &Job) -> Option<Vec<Record>> {
        let mut rest = job.records.as_deref().unwrap_or_default();
        if job.list.is_some() {
            return Some(rest.to_vec());
        }
        let checks = self.checks(job.partition);
        let mut records = Vec::with_capacity(rest.len());
        for Source { level, generation } in &job.sources.0 {
            let size = self.shape.size(*level, generation.count()) as usize;
            let (of_level, behind) = rest.split_at_checked(size)?;
            let (seal, behind) = behind.split_first()?;
            let is_whole = *seal == checks.seal(*level, *generation, of_level);
            if !is_whole && !self.canary.ignores_seals() {
                return None;
            }
            records.extend(of_level);
            rest = behind;
        }
        rest.is_empty().then_some(records)
    }
}
