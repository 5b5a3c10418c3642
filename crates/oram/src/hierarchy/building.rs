//! A piece of a build, done by one client at the pace of the log.
//!
//! 1. *Claim*: the versions that its chunks will have are put, while it reads (`sweep`).
//!    *Deal*: slots of a source are read; what is newest goes to buckets, which are written.
//! 2. *Fill*: the buckets of a range are read (or the sources whole, if nothing is dealt), and its
//!    slots are written.
//! 3. What was written counts once its versions are put. If another was first, it is deleted.
//! 4. *Finish*: addresses are put, and the versions of all slots, as the manifest.
//! 5. Whoever closes deletes what it has written, unless it was about to put the versions; whoever
//!    slept until the table was installed, too, but for what the manifest names.
//!
//! # Invariants
//! - A request leaves when the log has come to its place in the piece, not before, and in its turn
//!   among those of all builds of the client (`lane`), so that queries have few before them.
//! - In memory are the blocks of one piece, and some requests.
//!
//! # What the cloud sees
//! Fixed reads and writes, which follow from the piece; who does it, and when, from the log. The
//! making of what is written has a public time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use fogbank_durable::shared::{Object, Site, Superblock};
use fogbank_env::{Mutex, Nanos, compute};
use fogbank_seal::Sealer;
use fogbank_store::DepartureGrid;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::watch;

use super::canary::Canary;
use super::cells::{Cells, Run, Way};
use super::dealing::{Dealer, Filler};
use super::lane::AT_ONCE;
use super::pieces::{Piece, Pieces, share};
use super::schedule::Table;
use super::table::{Body, Recipe};
use crate::{Error, Result, lied};

/// When requests of a piece may leave.
pub struct Pace {
    /// Of the log.
    pub length: watch::Receiver<u64>,
    /// Those of the piece.
    pub places: Range<u64>,
    /// Whether the client closes.
    pub closing: watch::Receiver<bool>,
}

impl Pace {
    /// Waits for the place at which `moved` cells of `all` have been read or written.
    ///
    /// # Errors
    /// [`Error::Caller`] if the client closes.
    async fn come(&self, moved: u64, all: u64) -> Result<()> {
        let Range { start, end } = self.places;
        let due = start + share(end - start, moved, all);
        let (mut length, mut closing) = (self.length.clone(), self.closing.clone());
        // Nothing leaves when nobody serves any longer.
        let closed = || Error::Caller("the engine is closed".into());
        tokio::select! {
            biased;
            _ = closing.wait_for(|is_closing| *is_closing) => Err(closed()),
            come = length.wait_for(|length| *length > due) => {
                come.map(|_| ()).map_err(|_| closed())
            }
        }
    }
}

/// A piece of a table's build.
pub struct Build {
    pub site: Arc<Site>,
    pub cells: Arc<Cells>,
    pub grid: DepartureGrid,
    /// The epoch that touches the table first.
    pub installed: u64,
    pub recipe: Recipe,
    pub pieces: Arc<Pieces>,
    /// Which piece.
    pub number: u32,
    /// Pieces below it have been seen to be there.
    pub known: u32,
    /// Whether somebody may have done it.
    pub may_be_there: bool,
    /// What has been read of what pieces have written.
    pub found: Arc<Found>,
    pub pace: Pace,
    pub canary: Arc<Canary>,
}

/// By piece: the versions of what it has written, once they are known.
pub type Found = Mutex<BTreeMap<u32, Vec<u64>>>;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is there.
    Done,
    /// The piece of this number, which it needs, is not.
    Needs(u32),
    /// The client closes; nothing is left of what it had done.
    Left,
}

/// How long the making of what is written may take for each cell that was read or is written, and
/// beside that, at least: how many hold an address is secret.
const CELL_NANOS: Nanos = 3_000;
const MAKING_NANOS: Nanos = 2_000_000;
/// Slots of the table that are looked through in the time of a cell.
const SLOTS_A_CELL: u64 = 100;

impl Build {
    /// Does the piece, unless it is there.
    ///
    /// # Errors
    /// By blame.
    pub async fn run(&self) -> Result<Outcome> {
        match self.does().await {
            // It was not written yet.
            Err(Error::Caller(_)) if *self.pace.closing.borrow() => Ok(Outcome::Left),
            done => done,
        }
    }

    /// Waits for the place at which `moved` cells of `all` have been read or written.
    ///
    /// # Errors
    /// As [`Pace::come`].
    async fn come(&self, moved: u64, all: u64) -> Result<()> {
        self.pace.come(if self.canary.does_not_wait() { 0 } else { moved }, all).await
    }

    async fn does(&self) -> Result<Outcome> {
        if self.may_be_there && self.is_there().await? {
            return Ok(Outcome::Done);
        }
        match self.pieces.all().nth(self.number as usize) {
            Some(Piece::Deal(source, slots, first)) => self.deal(source, slots, first).await,
            Some(Piece::Fill(slots)) => self.fill(slots).await,
            Some(Piece::Finish) => self.finish().await,
            None => Err(Error::Bug("a build has no such piece".into())),
        }
    }

    async fn is_there(&self) -> Result<bool> {
        let (cells, start) = (&self.cells, &self.recipe.index.start);
        let (piece, table) = tokio::try_join!(
            cells.versions(self.object(self.number), start),
            cells.versions(self.manifest(), start),
        )?;
        Ok(piece.is_some() || table.is_some())
    }

    fn manifest(&self) -> Object {
        let Table { level, index } = self.pieces.table;
        Object::Manifest(level, index)
    }

    /// What says that a piece is done.
    fn object(&self, number: u32) -> Object {
        let Table { level, index } = self.pieces.table;
        let is_last = number + 1 == self.pieces.count();
        if is_last { self.manifest() } else { Object::Piece(level, index, number) }
    }

    fn run_of(&self, is_dealt: bool) -> Run {
        Run { table: self.pieces.table, is_dealt, start: self.recipe.index.start }
    }

    fn moves(&self) -> [u64; 2] {
        let piece = self.pieces.all().nth(self.number as usize);
        piece.map_or([0, 0], |piece| self.pieces.moves(&piece))
    }

    async fn deal(&self, source: usize, slots: Range<u32>, first: u32) -> Result<Outcome> {
        let (sealer, buckets) = tokio::try_join!(self.claim(), self.buckets(source, slots))?;
        match buckets {
            Some(buckets) => self.write(&self.run_of(true), first, &buckets, sealer).await,
            None => self.is_built().await,
        }
    }

    /// What goes to all ranges; `None` if the source is no longer there.
    async fn buckets(&self, source: usize, slots: Range<u32>) -> Result<Option<Vec<Body>>> {
        let mut dealer = Dealer::new(&self.recipe, &self.pieces, source);
        let mut reads = std::pin::pin!(self.reads(source, slots));
        while let Some(read) = reads.next().await {
            let (slot, bodies) = read?;
            let Some(bodies) = bodies else { return Ok(None) };
            self.made(bodies.len(), || dealer.take(slot, bodies)).await?;
        }
        let [_, writes] = self.moves();
        let buckets = self.made(writes as usize, || {
            let ranges = 0..self.pieces.ranges() as usize;
            let buckets = ranges.map(|range| dealer.bucket(range, &self.canary));
            Ok(buckets.collect::<Result<Vec<_>>>()?.concat())
        });
        buckets.await.map(Some)
    }

    async fn fill(&self, slots: Range<u32>) -> Result<Outcome> {
        let dealt = match self.versions(0..self.pieces.dealt()).await? {
            Ok(dealt) => dealt,
            Err(missing) => return self.misses(missing).await,
        };
        let first = slots.start;
        let (sealer, bodies) = tokio::try_join!(self.claim(), self.filled(slots, dealt))?;
        if self.canary.fills_ask_anew() && bodies.iter().flatten().flatten().next().is_none() {
            self.found.lock().clear();
        }
        match bodies {
            Some(bodies) => self.write(&self.run_of(false), first, &bodies, sealer).await,
            None => self.is_built().await,
        }
    }

    /// The content of slots; `None` if what it is made of is no longer there.
    async fn filled(&self, slots: Range<u32>, dealt: Vec<Vec<u64>>) -> Result<Option<Vec<Body>>> {
        let recipe = &self.recipe;
        let mut filler = self.made(slots.len(), || Filler::new(recipe, slots.clone())).await?;
        if self.pieces.dealt() > 0 {
            let mut reads = std::pin::pin!(self.dealt(self.pieces.range_of(slots.start), dealt));
            while let Some(read) = reads.next().await {
                let Some(bodies) = read? else { return Ok(None) };
                self.made(bodies.len(), || filler.take_dealt(bodies)).await?;
            }
        } else {
            for (source, index) in recipe.sources.iter().enumerate() {
                let mut reads = std::pin::pin!(self.reads(source, 0..index.slots()));
                while let Some(read) = reads.next().await {
                    let (slot, bodies) = read?;
                    let Some(bodies) = bodies else { return Ok(None) };
                    self.made(bodies.len(), || filler.take_source(source, slot, bodies)).await?;
                }
            }
        }
        let looked_through = (u64::from(recipe.index.slots()) / SLOTS_A_CELL) as usize;
        self.made(slots.len() + looked_through, || filler.bodies()).await.map(Some)
    }

    async fn claim(&self) -> Result<Sealer> {
        let [_, written] = self.moves();
        self.cells.claim(self.pieces.table, self.number, written).await
    }

    async fn finish(&self) -> Result<Outcome> {
        let (cells, index) = (&self.cells, &self.recipe.index);
        let fills = self.pieces.dealt()..self.number;
        let (versions, ()) = tokio::try_join!(self.versions(fills), cells.put_addresses(index))?;
        match versions {
            Ok(versions) => {
                cells.are_durable().await?;
                cells.put_versions(self.manifest(), &index.start, &versions.concat()).await?;
                Ok(Outcome::Done)
            }
            Err(missing) => self.misses(missing).await,
        }
    }

    /// What pieces of these numbers have written; the first that is not there, if one is not.
    async fn versions(&self, numbers: Range<u32>) -> Result<Versions> {
        let unknown = |number: &u32| !self.found.lock().contains_key(number);
        let unknown: Vec<u32> = numbers.clone().filter(unknown).collect();
        let get = |number| async move {
            let found = self.cells.paced_versions(self.object(number), &self.recipe.index.start);
            if let Some(versions) = found.await? {
                self.found.lock().insert(number, versions);
            }
            Ok::<_, Error>(())
        };
        let got = stream::iter(unknown).map(get).buffered(FETCHED_AT_ONCE);
        got.try_collect::<()>().await?;
        let found = self.found.lock();
        let of = |number| found.get(&number).cloned().ok_or(number);
        Ok(numbers.map(of).collect())
    }

    /// Reads slots of a source, each request at its place: from which slot on, and what is there.
    fn reads(
        &self,
        source: usize,
        slots: Range<u32>,
    ) -> impl stream::Stream<Item = Result<(u32, Option<Vec<Body>>)>> {
        let table = self.recipe.sources[source].table;
        let request = self.cells.request(table.level);
        let before: u64 = match self.pieces.dealt() {
            0 => self.pieces.sources[..source].iter().map(|(slots, _)| u64::from(*slots)).sum(),
            _ => 0,
        };
        let all = self.moves().iter().sum();
        let (begins, end) = (slots.start, slots.end);
        let request_of = move |first: u32| first..first.saturating_add(request).min(end);
        let is_read =
            move |first: &u32| self.canary.is_read(&self.recipe, source, &request_of(*first));
        let firsts = slots.step_by(request as usize).filter(is_read);
        let read = move |first: u32| {
            let some = request_of(first);
            let moved = before + u64::from(first - begins);
            async move {
                self.come(moved, all).await?;
                let turn = self.cells.turn(Way::Reads, (table.level, some.len())).await?;
                let bodies = self.cells.read_slots(table, some).await?;
                turn.has_come();
                Ok((first, bodies))
            }
        };
        stream::iter(firsts).map(read).buffered(AT_ONCE)
    }

    /// Reads what was dealt to a range, each request at its place.
    fn dealt(
        &self,
        range: usize,
        versions: Vec<Vec<u64>>,
    ) -> impl stream::Stream<Item = Result<Option<Vec<Body>>>> {
        let level = self.pieces.table.level;
        let (request, chunk) = (self.cells.request(level), self.cells.schedule.chunk_cells(level));
        let all = self.moves().iter().sum();
        let (mut requests, mut moved) = (Vec::new(), 0);
        for (piece, versions) in self.pieces.all().zip(versions) {
            let Piece::Deal(source, _, first) = piece else { continue };
            let room = self.pieces.sources[source].1;
            for cell in (0..room).step_by(request as usize) {
                let cells = cell..(cell + request).min(room);
                let skipped = range as u32 * room;
                let of = (skipped + cells.start) / chunk..(skipped + cells.end) / chunk;
                let of = versions.get(of.start as usize..of.end as usize);
                let versions = of.unwrap_or_default().to_vec();
                let cells = first + skipped + cells.start..first + skipped + cells.end;
                requests.push((moved, cells.clone(), versions));
                moved += cells.len() as u64;
            }
        }
        let read = move |(moved, cells, versions): (u64, Range<u32>, Vec<u64>)| async move {
            self.come(moved, all).await?;
            let turn = self.cells.turn(Way::Reads, (level, cells.len())).await?;
            let bodies = self.cells.read(&self.run_of(true), cells, &versions).await?;
            turn.has_come();
            Ok(bodies)
        };
        stream::iter(requests).map(read).buffered(AT_ONCE)
    }

    /// Writes cells, each request at its place, and puts their versions, and addresses before what
    /// makes a table of them.
    async fn write(
        &self,
        run: &Run,
        first: u32,
        bodies: &[Body],
        sealer: Sealer,
    ) -> Result<Outcome> {
        let (cells, start) = (&self.cells, &self.recipe.index.start);
        let request = cells.request(run.table.level);
        let [read, written] = self.moves();
        let write = |at: u32| async move {
            match self.come(read + u64::from(at), read + written).await {
                Err(Error::Caller(_)) => return Ok(None),
                come => come?,
            }
            let some = bodies[at as usize..].chunks(request as usize).next().unwrap_or_default();
            let blocks = || some.iter().flatten().count();
            let counted = self.canary.lane_cells(some.len(), blocks);
            let turn = cells.turn(Way::Writes, (run.table.level, counted)).await?;
            let sealer = Sealer { tick: sealer.tick + u64::from(at), ..sealer };
            let versions = cells.write(run, first + at, some, sealer).await?;
            turn.has_come();
            Ok(Some(versions))
        };
        let all = bodies.len() as u32;
        let writes = stream::iter((0..all).step_by(request as usize)).map(write);
        let is_last = self.number + 1 == self.pieces.count();
        let addresses =
            async { if is_last { cells.put_addresses(&self.recipe.index).await } else { Ok(()) } };
        let written = writes.buffered(AT_ONCE).try_collect::<Vec<Option<Vec<u64>>>>();
        let (versions, ()) = tokio::try_join!(written, addresses)?;
        if versions.iter().any(Option::is_none) {
            for (at, versions) in (0..).zip(versions) {
                cells.delete(run, first + at * request, &versions.unwrap_or_default(), &[]).await?;
            }
            return Ok(Outcome::Left);
        }
        let versions = versions.into_iter().flatten().collect::<Vec<_>>().concat();
        // Sweeps that would have found it may be over, if this client slept so long.
        let installed = async { Ok(Superblock::get(&self.site, self.installed).await?.is_some()) };
        let ((), is_installed) = tokio::try_join!(cells.are_durable(), installed)?;
        if is_installed {
            let named =
                if run.is_dealt { None } else { cells.versions(self.manifest(), start).await? };
            let named = named.map(|(named, _)| named).unwrap_or_default();
            cells.delete(run, first, &versions, &named).await?;
            return Ok(Outcome::Done);
        }
        let put = cells.put_versions(self.object(self.number), start, &versions).await?;
        if put.is_none() && self.are_another_s(run, &versions).await? {
            cells.delete(run, first, &versions, &[]).await?;
        }
        Ok(Outcome::Done)
    }

    /// Whether a piece that is there already names none of `versions`. It may be ours, and only the
    /// answer was lost; of a table that is there by now, and so without its pieces, nobody knows.
    async fn are_another_s(&self, run: &Run, versions: &[u64]) -> Result<bool> {
        let start = &self.recipe.index.start;
        let there = self.cells.versions(self.object(self.number), start).await?;
        Ok(there.map_or(run.is_dealt, |(there, _)| there != versions))
    }

    /// Makes something of so many cells, and takes as long whatever they hold.
    async fn made<T>(&self, cells: usize, makes: impl FnOnce() -> Result<T>) -> Result<T> {
        let until = self.grid.now() + MAKING_NANOS + CELL_NANOS * cells as Nanos;
        let made = compute(makes)?;
        self.grid.come_near(until).await;
        Ok(made)
    }

    /// A piece that it needs is not there.
    async fn misses(&self, missing: u32) -> Result<Outcome> {
        if missing < self.known { self.is_built().await } else { Ok(Outcome::Needs(missing)) }
    }

    /// What it reads is not there: right, if somebody has built the table.
    async fn is_built(&self) -> Result<Outcome> {
        let found = self.cells.versions(self.manifest(), &self.recipe.index.start).await?;
        if found.is_some() || Superblock::get(&self.site, self.installed).await?.is_some() {
            return Ok(Outcome::Done);
        }
        Err(lied("a table is withheld"))
    }
}

/// Versions by piece, or the first piece that is not there.
type Versions = std::result::Result<Vec<Vec<u64>>, u32>;

/// Objects that are fetched at once.
const FETCHED_AT_ONCE: usize = 64;
