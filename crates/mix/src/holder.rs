//! The holder, S1: it stores the cells of a partition, sealed by nobody that it knows, and reads
//! out what it is asked for.
//!
//! 1. *A read* (`look`): the cells named, of levels that count or have records, in that order, each
//!    under a pad of the read's seed, go to the shuffler; their records go to the client.
//! 2. *A job* is named by the client's first message of it. The holder sends what the job reads:
//!    records of whole levels (`recall`), covered cells to the shuffler (`carry`), cells to the
//!    client (`fetch`), or, if the shuffler has lost them, whole levels as they are (`hand`).
//! 3. The new level comes from the shuffler (`level`). When it is durable, and its job was named,
//!    its digest goes to the client, which sends records for it; they are durable before `stored`.
//!    One of another length than its job says is digested all the same, and kept for the proof
//!    alone.
//! 4. *Commit*: the level takes the place of what its job read, if it had not by now. Before, its
//!    client may ask to be shown the level as it came (`prove`).
//! 5. *Opening* after a stop: of a partition all levels with records are there in the order of
//!    their jobs, each but the newest committed. The newest waits for the client to say so again,
//!    which it does before anything else; a level without records was never checked, and goes.
//!
//! # Invariants
//! - A level is taken once, and none of a count that is live. What counts, or has records, is
//!   replaced by the client's word alone.
//! - Of a partition two levels without a commit are kept at most: the one that the client named,
//!   and one that came before its name. A later attempt drops the earlier when it is named.
//! - A read names the jobs that wrote its levels: it never meets a cell that it does not mean.
//! - A client asks for what was acknowledged. If that is not here this cloud has broken its word,
//!   and says so ([`Error::Lacks`]): it is no refusal.
//!
//! It sees places, lists, lengths and times; cells and records are noise to it.
//!
//! # Time
//! The shuffler sees how long a read takes, and knows the order of each level. A read is one call
//! of the store for all its cells and records, in the order of levels. That a place that is in
//! memory already, or near another on the disk, is not read faster is argued only: it holds for
//! stores in memory and for ranged reads across a network, not for a disk behind a cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use fogbank_store::Store;
use tokio::sync::Mutex;

use crate::message::{
    Across, Back, Blinded, Carry, Commit, Digest, Fetch, Fetched, FromHolder, Hand, Handed,
    JobRecords, Level, LevelDigest, Look, Moved, NewRecords, Place, Proof, Prove, Recall, Record,
    Records, Source, Sources, Stored, ToHolder,
};
use crate::shelf::{Shelf, Shelved};
use crate::signed::{Signature, UNSIGNED};
use crate::{About, Cells, Error, Generation, Marks, Pads, Point, Result, Seed, Shape, digest};

/// What a holder sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HolderSends {
    /// To the client.
    Client(FromHolder),
    /// To the shuffler.
    Shuffler(Across),
}

/// See the module. Calls about different partitions may be made at once.
#[derive(Debug)]
pub struct Holder {
    shape: Shape,
    point: Point,
    shelf: Shelf,
    partitions: Box<[Mutex<Held>]>,
    /// One at a time: when the client has been told of it, it stops.
    strange: fogbank_env::Mutex<Option<Strange>>,
}

/// A level of another length than its job says.
#[derive(Debug)]
struct Strange {
    job: (u16, Generation),
    digest: Digest,
    signature: Signature,
    cells: Cells,
    is_told: bool,
}

#[derive(Debug, Default)]
struct Held {
    live: BTreeMap<u8, Generation>,
    /// Levels without a commit.
    made: BTreeMap<Generation, Made>,
    /// The newest job that the client has named.
    named: Generation,
}

#[derive(Debug)]
struct Made {
    /// None of one that an earlier process took.
    digest: Option<Digest>,
    /// Of the shuffler.
    signature: Signature,
    has_records: bool,
}

impl Holder {
    /// Of a volume of this shape, with what is in `store`. The point is the cloud's own.
    ///
    /// # Errors
    /// [`Error::Client`] if there is no such shape; those of the store.
    pub async fn open(shape: Shape, point: &Seed, store: Arc<dyn Store>) -> Result<Self> {
        shape.check()?;
        let point = Point::new(point, shape.cell_bytes());
        let shelf = Shelf::open(store, shape).await?;
        let mut found: BTreeMap<u16, Vec<Shelved>> = BTreeMap::new();
        for level in shelf.found().await? {
            found.entry(level.partition).or_default().push(level);
        }
        let mut partitions = Vec::new();
        for partition in shape.all() {
            let found = found.remove(&partition).unwrap_or_default();
            let (held, dropped) = Held::of(&shape, &found);
            shelf.forget(partition, &dropped).await?;
            partitions.push(Mutex::new(held));
        }
        let strange = fogbank_env::Mutex::default();
        Ok(Self { shape, point, shelf, partitions: partitions.into(), strange })
    }

    /// Does what the client asks.
    ///
    /// # Errors
    /// [`Error::Lacks`] for what is there where all is that was acknowledged; [`Error::Client`] for
    /// what no client that keeps to the protocol asks; those of the store.
    pub async fn ask(&self, message: ToHolder) -> Result<Vec<HolderSends>> {
        let mut held = self.held(message.partition())?.lock().await;
        let held = &mut *held;
        let Some((partition, generation)) = message.job() else {
            return match message {
                ToHolder::Look(look) => self.look(held, &look).await,
                ToHolder::Commit(commit) => self.commit(held, &commit).await,
                ToHolder::Prove(prove) => self.prove(held, &prove).await,
                _ => Err(Error::Bug("a message of a job names one")),
            };
        };
        let mut sends = Vec::new();
        if !self.is_named(held, (partition, generation), &mut sends).await? {
            return Ok(sends); // of an attempt that another has overtaken
        }
        sends.extend(match message {
            ToHolder::Recall(recall) => self.recall(held, recall).await?,
            ToHolder::Hand(hand) => self.hand(held, hand).await?,
            ToHolder::Carry(carry) => self.carry(held, carry).await?,
            ToHolder::Fetch(fetch) => self.fetch(held, fetch).await?,
            ToHolder::NewRecords(records) => self.records(held, records).await?,
            ToHolder::Look(_) | ToHolder::Commit(_) | ToHolder::Prove(_) => Vec::new(),
        });
        Ok(sends)
    }

    /// Takes a level from the shuffler. One that was taken, or that nobody can need, changes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Other`] if it has another length than its job says; those of the store.
    pub async fn level(&self, message: Back) -> Result<Vec<HolderSends>> {
        let Back::Level(Level { partition, level, generation, signature, cells }) = message;
        let (shape, count) = (self.shape, generation.count());
        let held = self.held(partition).map_err(|_| Error::Other("no partition has the level"))?;
        let fits = count > shape.first(partition)
            && count.is_multiple_of(shape.batch())
            && level == shape.written(count)
            && cells.len() <= shape.batch_cells_max();
        if !fits {
            return Err(Error::Other("a level that no job writes"));
        }
        let mut held = held.lock().await;
        let held = &mut *held;
        let (named, is_here) = (held.named, held.made.contains_key(&generation));
        let job = (partition, generation);
        let is_strange = self.strange.lock().as_ref().is_some_and(|strange| strange.job == job);
        if is_here || is_strange || generation < named || count <= held.done() {
            return Ok(Vec::new());
        }
        if cells.len() as u32 != shape.size(level, count) {
            return self.strange_level(job, generation == named, signature, cells);
        }
        // Of those that nobody has named the last to come stays.
        self.drop_made(held, partition, |other| other > named).await?;
        let sums = cells.iter().map(|cell| self.point.sum(cell));
        let digest = digest(About::Level(partition, generation.0), sums);
        self.shelf.put_cells(partition, generation, cells).await?;
        let made = Made { digest: Some(digest), signature, has_records: false };
        held.made.insert(generation, made);
        match generation == named {
            true => Ok(told([LevelDigest { partition, generation, digest }.into()])),
            false => Ok(Vec::new()), // the client has not named it yet
        }
    }

    fn strange_level(
        &self,
        job: (u16, Generation),
        is_named: bool,
        signature: Signature,
        cells: Cells,
    ) -> Result<Vec<HolderSends>> {
        let mut strange = self.strange.lock();
        if strange.as_ref().is_some_and(|strange| strange.is_told) {
            return Err(Error::Other("a level of another length"));
        }
        let sums = cells.iter().map(|cell| self.point.sum(cell));
        let digest = digest(About::Level(job.0, job.1.0), sums);
        *strange = Some(Strange { job, digest, signature, cells, is_told: false });
        drop(strange);
        Ok(if is_named { self.tell_strange(job) } else { Vec::new() })
    }

    /// The digest of the level of this job, if that is of another length.
    fn tell_strange(&self, job: (u16, Generation)) -> Vec<HolderSends> {
        let mut strange = self.strange.lock();
        let Some(strange) = strange.as_mut().filter(|strange| strange.job == job) else {
            return Vec::new();
        };
        strange.is_told = true;
        let (partition, generation) = job;
        told([LevelDigest { partition, generation, digest: strange.digest }.into()])
    }

    /// Hears of a job, and says whether it is the newest.
    async fn is_named(
        &self,
        held: &mut Held,
        (partition, generation): (u16, Generation),
        sends: &mut Vec<HolderSends>,
    ) -> Result<bool> {
        if generation.count() <= held.done() || generation <= held.named {
            return Ok(generation == held.named && generation.count() > held.done());
        }
        let waits = held.made.get(&held.named).is_some_and(|made| made.has_records);
        if waits && held.named.count() != generation.count() {
            return Err(Error::Lacks("the last job is not committed when the next begins"));
        }
        held.named = generation;
        self.drop_made(held, partition, |other| other < generation).await?;
        if let Some(digest) = held.made.get(&generation).and_then(|made| made.digest) {
            sends.extend(told([LevelDigest { partition, generation, digest }.into()]));
        }
        sends.extend(self.tell_strange((partition, generation)));
        Ok(true)
    }

    async fn drop_made(
        &self,
        held: &mut Held,
        partition: u16,
        goes: impl Fn(Generation) -> bool,
    ) -> Result<()> {
        let gone: Vec<Generation> = held.made.keys().copied().filter(|of| goes(*of)).collect();
        held.made.retain(|of, _| !goes(*of));
        self.shelf.forget(partition, &gone).await
    }

    async fn look(&self, held: &Held, look: &Look) -> Result<Vec<HolderSends>> {
        let Look { read, partition, ref pads, ref places } = *look;
        let is_here = |place: &Place| {
            let is_live = held.live.get(&place.level) == Some(&place.generation);
            // The client has committed it, and waits for reads of what it replaces to say so.
            let is_new = || {
                let made = held.made.get(&place.generation);
                made.is_some_and(|made| made.has_records)
                    && self.shape.written(place.generation.count()) == place.level
            };
            (is_live || is_new())
                && place.place < self.shape.size(place.level, place.generation.count())
        };
        if !places.iter().all(is_here) || places.len() > usize::from(self.shape.levels) {
            return Err(NOT_HERE);
        }
        let (mut cells, records) = self.shelf.read(partition, places).await?;
        self.cover(&mut cells, pads);
        Ok(vec![
            HolderSends::Shuffler(Blinded { read, signature: UNSIGNED, cells }.into()),
            HolderSends::Client(Records { read, records }.into()),
        ])
    }

    async fn recall(&self, held: &Held, recall: Recall) -> Result<Vec<HolderSends>> {
        let Recall { partition, generation, sources } = recall;
        held.has(&sources)?;
        let records = self.shelf.records(partition, &sources.0).await?;
        Ok(told([JobRecords { partition, generation, records }.into()]))
    }

    async fn hand(&self, held: &Held, hand: Hand) -> Result<Vec<HolderSends>> {
        let Hand { partition, generation, sources } = hand;
        held.has(&sources)?;
        let cells = self.shelf.cells(partition, &sources.0).await?;
        let signature = UNSIGNED;
        let handed = Handed { partition, generation, signature, cells };
        Ok(vec![HolderSends::Shuffler(handed.into())])
    }

    async fn carry(&self, held: &Held, carry: Carry) -> Result<Vec<HolderSends>> {
        let Carry { partition, generation, sources, pads, list } = carry;
        held.has(&sources)?;
        let (mut cells, records) = self.listed(partition, &sources, &list).await?;
        self.cover(&mut cells, &pads);
        let signature = UNSIGNED;
        Ok(vec![
            HolderSends::Shuffler(Moved { partition, generation, signature, cells }.into()),
            HolderSends::Client(JobRecords { partition, generation, records }.into()),
        ])
    }

    async fn fetch(&self, held: &Held, fetch: Fetch) -> Result<Vec<HolderSends>> {
        let Fetch { partition, generation, sources, list } = fetch;
        held.has(&sources)?;
        let (cells, records) = self.listed(partition, &sources, &list).await?;
        Ok(told([
            JobRecords { partition, generation, records }.into(),
            Fetched { partition, generation, cells }.into(),
        ]))
    }

    async fn records(&self, held: &mut Held, message: NewRecords) -> Result<Vec<HolderSends>> {
        let NewRecords { partition, generation, records } = message;
        let Some(made) = held.made.get_mut(&generation) else {
            return Ok(Vec::new()); // of a level that was lost in a stop: another attempt follows
        };
        let size = self.shape.size(self.shape.written(generation.count()), generation.count());
        if records.len() as u32 != size + 1 {
            return Err(Error::Client("a record a cell is needed, and a seal"));
        }
        if !made.has_records {
            self.shelf.put_records(partition, generation, &records).await?;
            made.has_records = true;
        }
        Ok(told([Stored { partition, generation }.into()]))
    }

    async fn commit(&self, held: &mut Held, commit: &Commit) -> Result<Vec<HolderSends>> {
        let Commit { partition, generation } = *commit;
        if generation.count() <= held.done() {
            return Ok(Vec::new()); // it was told before
        }
        if !held.made.get(&generation).is_some_and(|made| made.has_records) {
            return Err(Error::Lacks("a level that is to be committed has no records"));
        }
        held.made.remove(&generation);
        let replaced = held.commit(&self.shape, generation);
        self.shelf.forget(partition, &replaced).await?;
        self.drop_made(held, partition, |other| other < generation).await?;
        Ok(Vec::new())
    }

    /// The level whose digest it told, as it came. One that came since a start, and that nobody has
    /// named since, may be another than was digested before: it would blame this cloud.
    async fn prove(&self, held: &Held, prove: &Prove) -> Result<Vec<HolderSends>> {
        let Prove { partition, generation } = *prove;
        let level = self.shape.written(generation.count());
        let is_told = |made: &&Made| made.digest.is_some() && held.named == generation;
        let made = held.made.get(&generation).filter(is_told);
        let is_it = |of: &&Strange| of.job == (partition, generation) && of.is_told;
        let strange =
            self.strange.lock().as_ref().filter(is_it).map(|of| (of.signature, of.cells.clone()));
        if let Some((signature, cells)) = strange {
            return Ok(told([Proof { signature, cells }.into()]));
        }
        let (signature, cells) = match made {
            Some(made) => {
                let cells = self.shelf.cells(partition, &[Source { level, generation }]).await?;
                (made.signature, cells)
            }
            None => (UNSIGNED, Cells::new(self.shape.cell_bytes())),
        };
        Ok(told([Proof { signature, cells }.into()]))
    }

    fn held(&self, partition: u16) -> Result<&Mutex<Held>> {
        let held = self.partitions.get(usize::from(partition));
        held.ok_or(Error::Client("there is no such partition"))
    }

    /// Marked cells and their records, in storage order. All cells of the levels are read, so that
    /// it takes the same time whichever are marked.
    async fn listed(
        &self,
        partition: u16,
        sources: &Sources,
        list: &Marks,
    ) -> Result<(Cells, Vec<Record>)> {
        let cells = self.shelf.cells(partition, &sources.0).await?;
        let mut all = self.shelf.records(partition, &sources.0).await?;
        self.unseal(sources, &mut all);
        let mut listed = Cells::with_room(self.shape.cell_bytes(), list.count() as usize);
        let mut records = Vec::with_capacity(list.count() as usize);
        for (at, (cell, record)) in (0..).zip(cells.iter().zip(all)) {
            if list.has(at) {
                listed.push(cell);
                records.push(record);
            }
        }
        Ok((listed, records))
    }

    /// Takes the seals out of the records of these levels.
    fn unseal(&self, sources: &Sources, records: &mut Vec<Record>) {
        let mut at = 0;
        for source in &sources.0 {
            at += self.shape.size(source.level, source.generation.count()) as usize;
            records.remove(at);
        }
    }

    /// Covers each cell with the pad of its number.
    fn cover(&self, cells: &mut Cells, seed: &Seed) {
        let pads = Pads::new(seed, self.shape.cell_bytes());
        for at in 0..cells.len() {
            cells.get_mut(at).into_iter().for_each(|cell| pads.xor(at as u32, cell));
        }
    }
}

impl Held {
    /// What counts of the levels of a partition that are there, and what goes.
    fn of(shape: &Shape, found: &[Shelved]) -> (Self, Vec<Generation>) {
        let mut held = Self::default();
        let mut dropped: Vec<Generation> = Vec::new();
        // 1. Of each job the attempt with records that was named last.
        let mut jobs: BTreeMap<u64, Generation> = BTreeMap::new();
        for Shelved { generation, .. } in found.iter().filter(|found| found.of_records) {
            let last = jobs.entry(generation.count()).or_insert(*generation);
            *last = (*last).max(*generation);
        }
        // 2. All but the newest are committed: a partition has one job at a time.
        let newest = jobs.pop_last().map(|(_, generation)| generation);
        for generation in jobs.into_values() {
            dropped.extend(held.commit(shape, generation));
        }
        if let Some(generation) = newest {
            let (digest, signature) = (None, UNSIGNED);
            held.made.insert(generation, Made { digest, signature, has_records: true });
            held.named = generation;
        }
        // 3. What else is there counts for nothing.
        for Shelved { generation, .. } in found {
            let counts = held.made.contains_key(generation)
                || held.live.values().any(|live| live == generation);
            if !counts {
                dropped.push(*generation);
            }
        }
        (held, dropped)
    }

    /// The level of a job counts; gives those that do not any more.
    fn commit(&mut self, shape: &Shape, generation: Generation) -> Vec<Generation> {
        let level = shape.written(generation.count());
        let goes = |other: u8| other <= level;
        let replaced = self.live.iter().filter(|(other, _)| goes(**other));
        let replaced = replaced.map(|(_, generation)| *generation).collect();
        self.live.retain(|other, _| !goes(*other));
        self.live.insert(level, generation);
        self.named = self.named.max(generation);
        replaced
    }

    /// d of the newest job that is committed.
    fn done(&self) -> u64 {
        self.live.values().map(|live| live.count()).max().unwrap_or(0)
    }

    fn has(&self, sources: &Sources) -> Result<()> {
        let is_live = |source: &Source| self.live.get(&source.level) == Some(&source.generation);
        let are = sources.rise_below(u8::MAX) && sources.0.iter().all(is_live);
        if are { Ok(()) } else { Err(NOT_HERE) }
    }
}

fn told(messages: impl IntoIterator<Item = FromHolder>) -> Vec<HolderSends> {
    messages.into_iter().map(HolderSends::Client).collect()
}

const NOT_HERE: Error = Error::Lacks("a level that is to be read is not here");
