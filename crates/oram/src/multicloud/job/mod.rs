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

mod begin;
mod check;
mod come;
mod commit;

use bytes::Bytes;
use fogbank_mix::message::{Digest, Record, Source, Sources};
use fogbank_mix::{Cells, Generation, Marks, Shape};

use super::chain::{self, Cell, Found, cell_at};
use super::checks::Sums;
use super::plane::MulticloudPlane;
use super::waiting::Path;
use crate::position::Home;
use crate::{Error, Result};

/// Stands for a dummy.
pub const NOBODY: u32 = u32::MAX;

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

    /// Over which what it waits for comes; nothing if that is the client's turn. The other cloud
    /// than this `holder` makes a level when it has the uploads, and what the holder moves.
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
    fn is_at_home(&self, partition: u16, going: &Going) -> bool {
        self.positions.get(going.block) == (partition, going.home)
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

fn no_job() -> Error {
    Error::Bug("a partition has no such job".into())
}
