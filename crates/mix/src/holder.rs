//! The holder, S1: it stores the cells of a partition, sealed by nobody that it knows, and reads
//! out what it is asked for.
//!
//! 1. *A read* (`look`): the cells named, in that order, each under a pad of the read's seed, go to
//!    the shuffler; their records go to the client.
//! 2. *A job*: it sends what the job reads: records of whole levels (`recall`), covered cells to
//!    the shuffler (`carry`), cells to the client (`fetch`), or, if the shuffler has lost them,
//!    whole levels as they are (`hand`).
//! 3. The new level comes from the shuffler (`level`); once it is durable its digest goes to the
//!    client, which sends records for it.
//! 4. *Commit*: the level takes the place of what its job read, if it had not by now. A level of an
//!    earlier attempt goes when a later one is heard of.
//!
//! It sees places, lists, lengths and times; cells and records are noise to it.

use std::collections::{BTreeMap, HashMap};

use crate::message::{
    Across, Back, Blinded, Carry, Commit, Fetch, Fetched, FromHolder, Hand, Handed, JobRecords,
    Level, LevelDigest, Look, Moved, NewRecords, Place, Recall, Record, Records, Source, Sources,
    Stored, ToHolder,
};
use crate::{About, Cells, Error, Generation, Marks, Pads, Point, Result, Seed, Shape, digest};

/// What a holder sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HolderSends {
    /// To the client.
    Client(FromHolder),
    /// To the shuffler.
    Shuffler(Across),
}

/// See the module.
#[derive(Debug)]
pub struct Holder {
    shape: Shape,
    point: Point,
    partitions: HashMap<u16, Held>,
}

#[derive(Debug, Default)]
struct Held {
    live: BTreeMap<u8, Stand>,
    /// Levels without a commit. The next job's level may overtake the commit of the last.
    made: BTreeMap<Generation, (u8, Stand)>,
}

/// A level as it stands.
#[derive(Debug)]
struct Stand {
    generation: Generation,
    cells: Cells,
    records: Vec<Record>,
}

impl Holder {
    /// Of a volume of this shape, of which nothing is here yet. The point is the cloud's own.
    pub fn new(shape: Shape, point: &Seed) -> Self {
        let point = Point::new(point, shape.cell_bytes());
        Self { shape, point, partitions: HashMap::new() }
    }

    /// Does what the client asks.
    ///
    /// # Errors
    /// [`Error::Client`] for what no client that keeps to the protocol asks.
    pub fn ask(&mut self, message: ToHolder) -> Result<Vec<HolderSends>> {
        match message {
            ToHolder::Look(look) => self.look(&look),
            ToHolder::Recall(recall) => self.recall(&recall),
            ToHolder::Hand(hand) => self.hand(&hand),
            ToHolder::Carry(carry) => self.carry(&carry),
            ToHolder::Fetch(fetch) => self.fetch(&fetch),
            ToHolder::NewRecords(records) => self.records(records),
            ToHolder::Commit(commit) => self.commit(&commit),
        }
    }

    /// Takes a level from the shuffler.
    ///
    /// # Errors
    /// [`Error::Other`] if it has another length than its job says.
    pub fn level(&mut self, message: Back) -> Result<Vec<HolderSends>> {
        let Back::Level(Level { partition, level, generation, cells }) = message;
        let count = generation.count();
        if level != self.shape.written(count) || cells.len() as u32 != self.shape.size(level, count)
        {
            return Err(Error::Other("a level of another length"));
        }
        let held = self.partitions.entry(partition).or_default();
        let later = |other: &Generation| other.count() == count && *other > generation;
        if held.made.keys().any(later) {
            return Ok(Vec::new()); // an earlier attempt that was under way
        }
        let sums = cells.iter().map(|cell| self.point.sum(cell));
        let digest = digest(About::Level(partition, generation.0), sums);
        held.made.retain(|other, _| other.count() != count);
        held.made.insert(generation, (level, Stand { generation, cells, records: Vec::new() }));
        Ok(told([LevelDigest { partition, generation, digest }.into()]))
    }

    fn look(&self, look: &Look) -> Result<Vec<HolderSends>> {
        let Look { read, partition, ref pads, ref places } = *look;
        let held = self.held(partition)?;
        let stand = |place: &Place| {
            let stand = held.live.get(&place.level);
            let stand = stand.filter(|stand| stand.generation == place.generation);
            let stand = stand.ok_or(NOT_HERE)?;
            let cell = stand.cells.get(place.place as usize).ok_or(NOT_HERE)?;
            let record = stand.records.get(place.place as usize).ok_or(NOT_HERE)?;
            Ok((cell, *record))
        };
        let (cells, records): (Vec<_>, _) =
            places.iter().map(stand).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let cells = self.covered(cells.into_iter(), pads);
        Ok(vec![
            HolderSends::Shuffler(Blinded { read, cells }.into()),
            HolderSends::Client(Records { read, records }.into()),
        ])
    }

    fn recall(&mut self, recall: &Recall) -> Result<Vec<HolderSends>> {
        let Recall { partition, generation, ref sources } = *recall;
        self.hears_of(partition, generation);
        let records = self.all(partition, sources)?.map(|(_, record)| record).collect();
        Ok(told([JobRecords { partition, generation, records }.into()]))
    }

    fn hand(&mut self, hand: &Hand) -> Result<Vec<HolderSends>> {
        let Hand { partition, generation, ref sources } = *hand;
        let mut cells = Cells::new(self.shape.cell_bytes());
        self.all(partition, sources)?.for_each(|(cell, _)| cells.push(cell));
        Ok(vec![HolderSends::Shuffler(Handed { partition, generation, cells }.into())])
    }

    fn carry(&mut self, carry: &Carry) -> Result<Vec<HolderSends>> {
        let Carry { partition, generation, ref sources, ref pads, ref list } = *carry;
        self.hears_of(partition, generation);
        let (cells, records): (Vec<_>, Vec<_>) = self.listed(partition, sources, list)?.unzip();
        let cells = self.covered(cells.into_iter(), pads);
        Ok(vec![
            HolderSends::Shuffler(Moved { partition, generation, cells }.into()),
            HolderSends::Client(JobRecords { partition, generation, records }.into()),
        ])
    }

    fn fetch(&mut self, fetch: &Fetch) -> Result<Vec<HolderSends>> {
        let Fetch { partition, generation, ref sources, ref list } = *fetch;
        self.hears_of(partition, generation);
        let mut cells = Cells::new(self.shape.cell_bytes());
        let mut records = Vec::new();
        for (cell, record) in self.listed(partition, sources, list)? {
            cells.push(cell);
            records.push(record);
        }
        Ok(told([
            JobRecords { partition, generation, records }.into(),
            Fetched { partition, generation, cells }.into(),
        ]))
    }

    fn records(&mut self, message: NewRecords) -> Result<Vec<HolderSends>> {
        let NewRecords { partition, generation, records } = message;
        let held = self.partitions.entry(partition).or_default();
        let Some((_, made)) = held.made.get_mut(&generation) else {
            return Ok(Vec::new()); // the level of a later attempt has overtaken them
        };
        if records.len() != made.cells.len() {
            return Err(Error::Client("a record a cell is needed"));
        }
        made.records = records;
        Ok(told([Stored { partition, generation }.into()]))
    }

    fn commit(&mut self, commit: &Commit) -> Result<Vec<HolderSends>> {
        let held = self.partitions.entry(commit.partition).or_default();
        let Some((level, made)) = held.made.remove(&commit.generation) else {
            return Ok(Vec::new()); // it was told before
        };
        if level == self.shape.top() {
            held.live.clear();
        } else {
            held.live.retain(|other, _| *other > level);
        }
        held.live.insert(level, made);
        Ok(Vec::new())
    }

    /// A level of an earlier attempt is not needed any more.
    fn hears_of(&mut self, partition: u16, generation: Generation) {
        if let Some(held) = self.partitions.get_mut(&partition) {
            let count = generation.count();
            held.made.retain(|other, _| other.count() != count || *other >= generation);
        }
    }

    fn held(&self, partition: u16) -> Result<&Held> {
        self.partitions.get(&partition).ok_or(NOT_HERE)
    }

    /// Cells and records of levels, in storage order.
    fn all<'a>(
        &'a self,
        partition: u16,
        sources: &Sources,
    ) -> Result<impl Iterator<Item = (&'a [u8], Record)> + use<'a>> {
        let held = self.partitions.get(&partition);
        let stand = |source: &Source| {
            let stand = held.and_then(|held| held.live.get(&source.level));
            stand.filter(|stand| stand.generation == source.generation).ok_or(NOT_HERE)
        };
        let stands = sources.0.iter().map(stand).collect::<Result<Vec<_>>>()?;
        let each = |stand: &'a Stand| stand.cells.iter().zip(stand.records.iter().copied());
        Ok(stands.into_iter().flat_map(each))
    }

    fn listed<'a>(
        &'a self,
        partition: u16,
        sources: &Sources,
        list: &'a Marks,
    ) -> Result<impl Iterator<Item = (&'a [u8], Record)> + use<'a>> {
        let all = (0..).zip(self.all(partition, sources)?);
        Ok(all.filter(|(at, _)| list.has(*at)).map(|(_, both)| both))
    }

    /// Cells in order, each under the pad of its number.
    fn covered<'a>(&self, cells: impl ExactSizeIterator<Item = &'a [u8]>, seed: &Seed) -> Cells {
        let pads = Pads::new(seed, self.shape.cell_bytes());
        let mut covered = Cells::with_room(self.shape.cell_bytes(), cells.len());
        for (index, cell) in (0..).zip(cells) {
            let out = covered.push_zeros();
            out.copy_from_slice(cell);
            pads.xor(index, out);
        }
        covered
    }
}

fn told(messages: impl IntoIterator<Item = FromHolder>) -> Vec<HolderSends> {
    messages.into_iter().map(HolderSends::Client).collect()
}

const NOT_HERE: Error = Error::Client("it asks for what is not here");
