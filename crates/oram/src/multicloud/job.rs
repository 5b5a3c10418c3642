//! A job: U blocks go up, and one level is made of them and of what lies below it.
//!
//! 1. *Begin*: which blocks of the stash go up is fixed by the journal, attempt by attempt: as many
//!    as leave room for C in the cells of the partition, and of a later attempt only those that
//!    nobody asked for since. Dummies take the other places.
//! 2. *Below the top* the shuffler is told what to merge, and the holder to send all records of it.
//!    *A rebuild* has the holder carry a list of cells. *A refresh* fetches them, checks all of
//!    them, opens what is real and uploads it.
//! 3. *Check*, each as soon as it can be: the seals of whole levels, of which nothing else tells
//!    whether a record was altered; what the holder sent at the shuffler's point, by the shuffler's
//!    digest; what the shuffler sent at the holder's, by the holder's. Then records are sent.
//! 4. *Commit*, when those are durable: the journal has it, and accesses take the new level. Both
//!    clouds are told when no read is under way that departed before: it may name what goes then.
//!    The next job of the partition begins after that.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_mix::message::{
    Carry, Commit, Digest, Fetch, Fetched, Hand, JobRecords, LevelDigest, Lost, Mix, MovedDigest,
    NewRecords, Recall, Record, Source, Sources, Stored, Strip, ToHolder, Upload,
};
use fogbank_mix::signed::What;
use fogbank_mix::{About, Cells, Generation, Marks, Order, Seed, Shape, Sum, digest};
use fogbank_seal::{SeedFor, UploadPlace};
use hashbrown::HashMap;

use super::blame::{Accusation, lied_by};
use super::chain::{self, Cell, Found, Uncovered, Whose, cell_at};
use super::checks::Sums;
use super::journal::{Entry, JobEntry};
use super::level::Level;
use super::lineage::Rebuild;
use super::plane::{Effect, MulticloudPlane};
use super::waiting::Path;
use crate::position::Home;
use crate::{Error, Result};

/// Stands for a dummy.
const NOBODY: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub struct Job {
    partition: u16,
    level: u8,
    generation: Generation,
    sources: Sources,
    /// Of a rebuild of the top that reads anything: a mark a cell of its sources.
    pub list: Option<Marks>,
    /// Reads of the partition since it began.
    pub list_reads: u32,
    /// By upload place; dummies follow.
    blocks: Vec<Option<Going>>,
    /// Sums of the uploads; none before they are sent.
    uploads: Option<Vec<Sums>>,
    records: Option<Vec<Record>>,
    fetched: Option<Cells>,
    /// What covers the cells that a refresh fetches.
    uncovered: Option<Vec<Found>>,
    /// Whether the shuffler has to tell what came from the holder, and what it told.
    awaits_moved: bool,
    moved: Option<Digest>,
    /// What it carries, with the covers that this got on the way, once that was checked.
    carried: Option<Vec<Sums>>,
    level_digest: Option<Digest>,
    is_checked: bool,
    is_stored: bool,
}

/// A block that goes up.
#[derive(Debug)]
struct Going {
    block: u32,
    /// Where it was: it lies in the new level if it has not left since.
    home: Home,
    /// As it was when the attempt began; of a cell that is fetched, when that has come.
    value: Option<Bytes>,
}

impl Job {
    /// One that nothing was sent for.
    pub fn new(
        shape: &Shape,
        (partition, generation): (u16, Generation),
        sources: Sources,
        list: Option<Marks>,
    ) -> Self {
        Self {
            partition,
            level: shape.written(generation.count()),
            generation,
            sources,
            list,
            list_reads: 0,
            blocks: Vec::new(),
            uploads: None,
            records: None,
            fetched: None,
            uncovered: None,
            awaits_moved: false,
            moved: None,
            carried: None,
            level_digest: None,
            is_checked: false,
            is_stored: false,
        }
    }

    /// The attempt under way.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// What goes up and where it was, by upload place; dummies to the public number.
    pub fn going(&self, shape: &Shape) -> impl Iterator<Item = Option<(u32, Home)>> {
        let places = shape.uploads(self.generation.count()) as usize;
        let going = self.blocks.iter().map(|going| going.as_ref().map(|g| (g.block, g.home)));
        going.chain(std::iter::repeat(None)).take(places)
    }

    /// What goes up of one that was saved. Its messages are not sent again: there will be another
    /// attempt, or it is committed.
    pub fn goes(&mut self, going: impl Iterator<Item = Option<(u32, Home)>>) {
        let going = going.map(|at| at.map(|(block, home)| Going { block, home, value: None }));
        self.blocks = going.collect();
    }

    /// Over which what it waits for comes; nothing if that is the client's turn. The other cloud than
    /// this `holder` makes a level when it has the uploads, and what the holder moves.
    pub fn path(&self, holder: usize) -> Option<Path> {
        let lacks_records = self.records.is_none() && !self.sources.0.is_empty();
        let lacks_cells = self.uploads.is_none() && self.fetched.is_none();
        let is_sent = self.uploads.is_some();
        match self {
            _ if lacks_records || lacks_cells => Some(Path::Cloud(holder)),
            _ if is_sent && self.awaits_moved && self.moved.is_none() => Some(Path::Between),
            _ if is_sent && self.level_digest.is_none() => Some(Path::Between),
            _ if self.is_checked && !self.is_stored => Some(Path::Cloud(holder)),
            _ => None,
        }
    }

    /// Which cells of `level` are on the list, if one is out.
    pub fn listed_of(&self, shape: &Shape, level: u8) -> Option<Marks> {
        let list = self.list.as_ref()?;
        let below = self.sources.0.iter().take_while(|source| source.level != level);
        let size = |source: &Source| shape.size(source.level, source.generation.count());
        let source = self.sources.0.iter().find(|source| source.level == level)?;
        Some(MulticloudPlane::marks_of(list, below.map(size).sum(), size(source)))
    }

    /// The cells that it carries, in storage order: what is listed, or all; of a refresh none.
    fn carries(&self, shape: &Shape) -> Vec<Cell> {
        match shape.refreshes(self.generation.count()) {
            true => Vec::new(),
            false => self.named(shape),
        }
    }

    /// The cells whose records it needs.
    fn named(&self, shape: &Shape) -> Vec<Cell> {
        let cells = chain::cells(shape, &self.sources);
        let is_named = |cell: &u32| self.list.as_ref().is_none_or(|list| list.has(*cell));
        let cells = (0..cells).filter(is_named);
        cells.filter_map(|cell| cell_at(shape, &self.sources, cell)).collect()
    }

    /// Everything that came for an attempt is forgotten.
    fn again(&mut self, generation: Generation, awaits_moved: bool) {
        (self.generation, self.awaits_moved) = (generation, awaits_moved);
        (self.uploads, self.records, self.fetched) = (None, None, None);
        self.uncovered = None;
        (self.moved, self.carried, self.level_digest) = (None, None, None);
        (self.is_checked, self.is_stored) = (false, false);
    }
}

impl MulticloudPlane {
    /// An access gives its partition an eviction, and every fourth gives the next in turn another.
    pub(super) fn give_evictions(&mut self, partition: u16) {
        self.give_eviction(partition);
        let (turn, since) = &mut self.turn;
        *since += 1;
        if *since == TURN_EVERY {
            let also = *turn;
            self.turn = ((also + 1) % self.shape.partitions, 0);
            self.give_eviction(also);
        }
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
    pub(super) fn begin_jobs(&mut self, out: &mut Vec<Effect>) -> Result<()> {
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
    pub(super) fn begin_again(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<()> {
        let pyramid = &self.pyramids[usize::from(partition)];
        let Some(job) = &pyramid.job else { return Ok(()) };
        let (count, attempt) = (job.generation.count(), job.generation.attempt());
        let attempt =
            attempt.checked_add(1).ok_or_else(|| Error::Bug("no attempt is left".into()))?;
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
    pub(super) fn job_begins(&mut self, entry: JobEntry) -> Result<()> {
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
                self.positions.set(block, partition.into(), home);
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
                let pads = seed(self.carry_seed(partition, generation));
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

    pub(super) fn carry_seed(&self, partition: u16, generation: Generation) -> SeedFor {
        let number = if self.canary.repeats_carry_pads() { 0 } else { generation.0 };
        SeedFor::Carry(partition, number)
    }

    /// Seals what goes up and sends it, once an attempt.
    fn send_up(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<()> {
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

    /// Records of what a job reads have come.
    pub(super) fn job_records_come(
        &mut self,
        come: JobRecords,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let Some(job) = self.job_of(come.partition, come.generation) else { return Ok(()) };
        job.records = Some(come.records);
        self.job_goes_on(come.partition, out)
    }

    /// The cells of a refresh have come.
    pub(super) fn fetched_come(&mut self, come: Fetched, out: &mut Vec<Effect>) -> Result<()> {
        let Some(job) = self.job_of(come.partition, come.generation) else { return Ok(()) };
        job.fetched = Some(come.cells);
        self.job_goes_on(come.partition, out)
    }

    /// The chains of the cells of a refresh have been walked.
    pub(super) fn refresh_is_uncovered(
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
    pub(super) fn moved_digest_comes(
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
    pub(super) fn level_digest_comes(
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
    pub(super) fn kept_is_lost(&mut self, come: Lost, out: &mut Vec<Effect>) -> Result<()> {
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
    pub(super) fn records_are_stored(&mut self, come: Stored) -> Result<()> {
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

    fn job_goes_on(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<()> {
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

    /// All cells of a refresh, dummies too, at the shuffler's point: the holder knows its own.
    /// Then what is real is opened, and goes up.
    fn check_fetched(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<()> {
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
    fn check_moved(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<bool> {
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
        let way = checks.pads(self.carry_seed(partition, generation));
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
    fn check_level(&mut self, partition: u16, out: &mut Vec<Effect>) -> Result<()> {
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

    /// The records of what a job carries, without the seals under those of whole levels; none if one
    /// of these is wrong.
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

    /// Commits the jobs whose records are durable, and tells both clouds of those that no read waits
    /// for any more.
    pub(super) fn commit_jobs(&mut self, out: &mut Vec<Effect>) -> Result<()> {
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

    /// Tells both clouds of the last commit of a partition, the first time or again. What only reads
    /// before it could ask for is needed no more.
    pub(super) fn tell_commit(&mut self, partition: u16, out: &mut Vec<Effect>) {
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
    pub(super) fn job_is_done(&mut self, partition: u16, generation: Generation) -> Result<()> {
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

    fn is_at_home(&self, partition: u16, going: &Going) -> bool {
        self.positions.get(going.block) == (partition.into(), going.home)
    }

    fn job(&self, partition: u16) -> Result<&Job> {
        self.pyramids[usize::from(partition)].job.as_ref().ok_or_else(no_job)
    }

    fn job_mut(&mut self, partition: u16) -> Result<&mut Job> {
        self.pyramids[usize::from(partition)].job.as_mut().ok_or_else(no_job)
    }

    /// The attempt that a message is about, if it is still under way.
    fn job_of(&mut self, partition: u16, generation: Generation) -> Option<&mut Job> {
        let job = self.pyramids.get_mut(usize::from(partition))?.job.as_mut()?;
        (job.generation == generation).then_some(job)
    }
}

/// Accesses from one eviction in turn to the next: nu = 1.25 evictions an access.
const TURN_EVERY: u8 = 4;

fn no_job() -> Error {
    Error::Bug("a partition has no such job".into())
}
