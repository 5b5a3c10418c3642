//! An access departs, is checked when its cells have come, and ends.
//!
//! - Of a level it reads the block's cell if that is there, else an unread dummy, uniform; while a
//!   list is out, one of the list.
//! - A block that is under way, or in the client, is in no cell: dummies everywhere, and a uniform
//!   index. What is drawn is the same either way.
//! - A block that is under way shows a partition drawn for this access alone.

use bytes::Bytes;
use fogbank_mix::message::{Answer, Look, Place, Record, Records, Want};
use fogbank_mix::signed::What;
use fogbank_mix::{About, Marks, Seed, digest};
use fogbank_seal::SeedFor;

use super::blame::{Accusation, lied_by};
use super::chain::{Cell, Found, Uncovered, Whose};
use super::journal::{AccessEntry, Entry};
use super::plane::{Effect, MulticloudPlane};
use super::waiting::Path;
use crate::position::Home;
use crate::{Access, Error, Result};

/// The next access to depart: what was drawn for it stays, however long it waits.
#[derive(Debug)]
pub struct Head {
    block: Option<u32>,
    access: Access,
    is_duplicate: bool,
    pub(super) partition: u16,
    to: u16,
}

/// An access that has departed.
#[derive(Debug)]
pub struct UnderWay {
    /// What the journal says.
    pub entry: AccessEntry,
    /// The cells that it reads, in the order in which they are named.
    cells: Vec<Cell>,
    /// Whether one of them is its block's.
    pub(super) is_wanted: bool,
    records: Option<Vec<Record>>,
    answer: Option<Answer>,
    /// What covers the cell that it is sent.
    uncovered: Option<Found>,
    /// Its cells have come: its block, if that was among them.
    come: Option<Option<Bytes>>,
}

impl UnderWay {
    /// One of which nothing has come.
    pub fn new(entry: AccessEntry, cells: Vec<Cell>, is_wanted: bool) -> Self {
        let come = entry.places.is_empty().then_some(None);
        let (records, answer, uncovered) = (None, None, None);
        Self { entry, cells, is_wanted, records, answer, uncovered, come }
    }

    /// Its cells are asked for again: what the clouds have told of it counts no more. They are the
    /// same in the same order, unless that `turns`.
    pub fn forget(&mut self, turns: bool) {
        if self.come.is_none() {
            (self.records, self.answer) = (None, None);
        }
        if turns && !self.cells.is_empty() {
            self.cells.rotate_right(1);
            self.entry.places.rotate_right(1);
            self.entry.index = (self.entry.index + 1) % self.cells.len() as u8;
        }
    }

    /// Over which what it waits for comes; nothing if that is the client's turn. All that comes of
    /// the shuffler comes by way of this `holder`.
    pub fn path(&self, holder: usize) -> Option<Path> {
        match (&self.come, &self.records, &self.answer) {
            (None, None, _) => Some(Path::Cloud(holder)),
            (None, _, None) => Some(Path::Between),
            _ => None,
        }
    }
}

impl MulticloudPlane {
    /// Lets accesses depart, in the order of arrival, until one has to wait.
    pub(super) fn depart(&mut self, out: &mut Vec<Effect>) -> Result<()> {
        loop {
            // 1. Its partition is fixed at the first look.
            let head = match self.head.take() {
                Some(head) => head,
                None => match self.arrivals.pop_front() {
                    Some((block, access)) => self.look_at(block, access),
                    None => return Ok(()),
                },
            };
            // 2. Whether it has to wait is public.
            if !self.pyramids[usize::from(head.partition)].bears_a_read(&self.shape) {
                self.head = Some(head);
                return Ok(());
            }
            // 3. The journal, then both clouds.
            let entry = self.choose(head)?;
            self.access_departs(entry.clone())?;
            let at = out.len();
            out.push(Effect::Journal(Entry::Access(entry)));
            self.ask_for_cells(self.accesses.len() - 1, out);
            if self.canary.journals_late() {
                out[at..].rotate_left(1);
            }
        }
    }

    fn look_at(&mut self, block: Option<u32>, access: Access) -> Head {
        let (decoy, to) = (self.draws.decoy(), self.draws.partition());
        let own = block.filter(|block| !self.asked.contains_key(block));
        let partition = own.map_or(decoy, |block| self.positions.get(block).0);
        block.into_iter().for_each(|block| *self.asked.entry(block).or_insert(0) += 1);
        Head { block, access, is_duplicate: own.is_none(), partition, to }
    }

    /// Which cells are read, in which order, and which is wanted.
    fn choose(&mut self, head: Head) -> Result<AccessEntry> {
        let Head { block, access, is_duplicate, partition, to } = head;
        let home = block.filter(|_| !is_duplicate).map(|block| self.positions.get(block).1);
        let pyramid = &self.pyramids[usize::from(partition)];
        let canary = &self.canary;
        let list = pyramid.job.as_ref().filter(|job| {
            let is_refresh = self.shape.refreshes(job.generation().count());
            !(canary.reads_outside_list() || is_refresh && canary.fetches_reals())
        });
        let mut places = Vec::new();
        for (level, _) in self.shape.filled(partition, pyramid.done) {
            let held = pyramid.level(level)?;
            let listed = list.and_then(|job| job.listed_of(&self.shape, level));
            let free = match listed {
                Some(listed) => listed.and(held.free()),
                None => held.free().clone(),
            };
            let drawn = self.draws.dummy(free.count(), self.canary.reads_first_dummy());
            let place = match home {
                Some(Home::Level { level: at, rank }) if at == level => Some(rank.into()),
                _ => free.nth(drawn),
            };
            let place = place.ok_or_else(|| Error::Bug("a level has no dummy left".into()))?;
            places.push(Place { level, generation: held.generation, place });
        }
        self.draws.shuffle(&mut places);
        let drawn = self.draws.index(places.len());
        let wanted = match home {
            Some(Home::Level { level, .. }) => places.iter().position(|at| at.level == level),
            _ => None,
        };
        let mut index = match wanted {
            Some(wanted) => wanted,
            None if self.canary.has_constant_index() => 0,
            None => drawn,
        };
        if self.canary.names_wanted_first() && index < places.len() {
            places.swap(0, index);
            index = 0;
        }
        let (number, index) = (self.first + self.accesses.len() as u64, index as u8);
        Ok(AccessEntry { number, block, access, partition, to, places, index })
    }

    /// An entry of the journal counts: cells are read, the block leaves where it was, and
    /// partitions have evictions.
    pub(super) fn access_departs(&mut self, entry: AccessEntry) -> Result<()> {
        if entry.number != self.first + self.accesses.len() as u64 {
            return Err(Error::Bug("an access is missing".into()));
        }
        let home = entry.block.map(|block| self.positions.get(block));
        let is_wanted = entry.block.is_some_and(|_| {
            let own = home.filter(|(partition, _)| *partition == entry.partition);
            let at = own.map(|(_, home)| home);
            let is_it = |level: u8, rank: u16| {
                entry.places.iter().any(|at| at.level == level && at.place == u32::from(rank))
            };
            matches!(at, Some(Home::Level { level, rank }) if is_it(level, rank))
        });
        let pyramid = &mut self.pyramids[usize::from(entry.partition)];
        let mut cells = Vec::new();
        for at in &entry.places {
            let Place { level, generation, place } = *at;
            let held = pyramid.level_mut(level)?;
            if held.generation != generation {
                return Err(Error::Bug("a read names a level that is not there".into()));
            }
            cells.push(Cell { level, generation, place });
            held.read(place)?;
        }
        pyramid.under_way += 1;
        pyramid.job.iter_mut().for_each(|job| job.list_reads += 1);
        if let (Some(block), Some((partition, home))) = (entry.block, home) {
            match home {
                Home::Stash => self.pyramids[partition as usize].unstash(block),
                Home::Level { .. } if !is_wanted => {
                    return Err(Error::Bug("a block is in a cell that is not read".into()));
                }
                _ => {}
            }
            self.positions.set_home(block, Home::UnderWay);
        }
        self.give_evictions(entry.partition);
        #[cfg(test)]
        {
            let wanted = is_wanted.then(|| entry.places[usize::from(entry.index)].level);
            self.truths.lock().insert(entry.number, wanted);
        }
        self.accesses.push_back(UnderWay::new(entry, cells, is_wanted));
        Ok(())
    }

    /// The messages of an access, the same however often they are sent.
    pub(super) fn ask_for_cells(&mut self, at: usize, out: &mut Vec<Effect>) {
        let access = &self.accesses[at];
        let AccessEntry { number: read, partition, ref places, index, .. } = access.entry;
        if places.is_empty() || access.come.is_some() {
            return;
        }
        let (cells, places) = (places.len() as u8, places.clone());
        let at = access.cells[usize::from(index)];
        let pads = Seed::new(self.keys.seed(self.read_seed(read)));
        out.push(Effect::Holder(partition, Look { read, partition, pads, places }.into()));
        out.push(Effect::Shuffler(partition, Want { read, partition, cells, index }.into()));
        // Its chain is walked while these travel, as long as the block itself if it is a dummy.
        out.push(Effect::Uncover(self.uncovering(Whose::Read(read), partition, vec![at])));
    }

    fn read_seed(&self, read: u64) -> SeedFor {
        SeedFor::Read(if self.canary.repeats_read_pads() { 0 } else { read })
    }

    /// Records of a read have come.
    pub(super) fn records_come(&mut self, message: Records, out: &mut Vec<Effect>) -> Result<()> {
        let Some(access) = self.access_of(message.read) else { return Ok(()) };
        access.records = Some(message.records);
        self.check_read(message.read, out)
    }

    /// The answer to a read has come.
    pub(super) fn answer_comes(&mut self, message: Answer, out: &mut Vec<Effect>) -> Result<()> {
        let read = message.read;
        let Some(access) = self.access_of(read) else { return Ok(()) };
        access.answer = Some(message);
        self.check_read(read, out)
    }

    /// The chain of the cell of a read has been walked.
    pub(super) fn read_is_uncovered(
        &mut self,
        read: u64,
        come: Uncovered,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let Some(access) = self.access_of(read) else { return Ok(()) };
        access.uncovered = come.found.into_iter().next();
        self.check_read(read, out)
    }

    fn access_of(&mut self, read: u64) -> Option<&mut UnderWay> {
        let at = read.checked_sub(self.first)?;
        self.accesses.get_mut(at as usize).filter(|access| access.come.is_none())
    }

    /// Once records and answer are here: the checks, then what is under the covers.
    fn check_read(&mut self, read: u64, out: &mut Vec<Effect>) -> Result<()> {
        let at = read.saturating_sub(self.first) as usize;
        let Some(access) = self.accesses.get(at) else { return Ok(()) };
        let (Some(records), Some(answer)) = (&access.records, &access.answer) else {
            return Ok(());
        };
        let Some(found) = &access.uncovered else { return Ok(()) };
        let (partition, index) = (access.entry.partition, usize::from(access.entry.index));
        let (checks, holder) = (self.checks(partition), usize::from(partition % 2));
        // 1. All cells, by what the shuffler says of those that the holder sent.
        if records.len() != access.cells.len() {
            return Err(lied_by(holder, "a read of another number of records"));
        }
        let pads = checks.pads(self.read_seed(read));
        let mut sums = Vec::with_capacity(records.len());
        for (number, (cell, record)) in (0..).zip(access.cells.iter().zip(records)) {
            let (cover, place) = checks.cover(*cell);
            let covers = checks.sums_of_covers([(&cover, place), (&pads, number)]);
            sums.push(checks.open(*cell, *record) ^ covers);
        }
        let at_shuffler = sums.iter().map(|sums| sums.shuffler);
        let is_right = digest(About::Read(read), at_shuffler.clone()) == answer.digest;
        if !is_right && !self.canary.checks_wanted() {
            let right = at_shuffler.collect();
            let what = "the cells of a read";
            let accusation = Accusation::new(what, partition, What::Blinded(read), right);
            self.accuse(accusation, out);
            return Ok(());
        }
        // 2. The one that came, dummy or not. A shuffler that was sent the wrong number sends none.
        if answer.cells.len() != 1 {
            return Err(lied_by(1 - holder, "an answer of another number of cells"));
        }
        let mut cell = answer.cells.bytes().to_vec();
        let (come, known) = (checks.sums(&cell), sums[index]);
        let is_right = match self.canary.checks_answer_there() {
            true => come.shuffler == known.shuffler,
            false => come.holder == known.holder,
        };
        if !is_right && (access.is_wanted || !self.canary.skips_dummies()) {
            return Err(lied_by(1 - holder, "the answer to a read"));
        }
        // 3. The covers come off, and the block is opened; of a dummy as well, for nothing.
        pads.xor(index as u32, &mut cell);
        let (cover, place) = checks.cover(access.cells[index]);
        cover.xor(place, &mut cell);
        let wanted = access.entry.block.filter(|_| access.is_wanted);
        let opened = self.open_block(found, wanted.unwrap_or(u32::MAX), cell);
        let come = wanted.map(|_| opened).transpose()?;
        let access = &mut self.accesses[at];
        (access.records, access.answer, access.uncovered) = (None, None, None);
        access.come = Some(come);
        Ok(())
    }

    /// Ends accesses in their order: the journal has the block, then the answer leaves.
    pub(super) fn end_accesses(&mut self, out: &mut Vec<Effect>) -> Result<()> {
        while let Some(access) = self.accesses.front_mut().filter(|access| access.come.is_some()) {
            let read = access.come.take().flatten();
            let AccessEntry { number, block, ref access, .. } = access.entry;
            let held = block.and_then(|block| self.values.get(&block));
            let before = read.or(held.cloned()).unwrap_or_else(|| self.zeros.clone());
            let after = access.applied_to(&before);
            let answer = access.answer(before, after.clone());
            out.push(Effect::Journal(Entry::Result(number, after.clone())));
            self.access_ends(number, after)?;
            let at = if self.canary.answers_early() { 0 } else { out.len() };
            out.insert(at, Effect::Answer(number, answer));
        }
        Ok(())
    }

    /// An entry of the journal counts: the oldest access has ended.
    pub(super) fn access_ends(&mut self, number: u64, value: Bytes) -> Result<()> {
        let ended = self.accesses.pop_front().filter(|ended| ended.entry.number == number);
        let ended = ended.ok_or_else(|| Error::Bug("another access ends".into()))?.entry;
        self.first += 1;
        let pyramid = &mut self.pyramids[usize::from(ended.partition)];
        pyramid.under_way -= 1;
        pyramid.old_reads = pyramid.old_reads.saturating_sub(1);
        let Some(block) = ended.block else { return Ok(()) };
        self.values.insert(block, value);
        let left = self.asked.get_mut(&block);
        let left = left.ok_or_else(|| Error::Bug("nobody asked for a block".into()))?;
        *left -= 1;
        if *left == 0 {
            self.asked.remove(&block);
            self.positions.set(block, ended.to, Home::Stash);
            self.pyramids[usize::from(ended.to)].stash.push_back(block);
        } else {
            // Where it will be if those who still ask never depart.
            self.positions.set(block, ended.to, Home::UnderWay);
        }
        Ok(())
    }

    /// Which cells of `level` an access may read while a list is out.
    pub(super) fn marks_of(list: &Marks, first: u32, cells: u32) -> Marks {
        let mut marks = Marks::none(cells as usize);
        (0..cells).filter(|cell| list.has(first + cell)).for_each(|cell| marks.set(cell));
        marks
    }
}
