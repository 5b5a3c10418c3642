//! What one client does for all: tables are built, superblocks put, what is superseded removed.
//!
//! 1. *Build*: as soon as its sources are there. It is the affair of the session that logged the
//!    first place of the epoch in which it starts.
//! 2. *Close*: superblock k, when results and tables are there. It is the affair of the session
//!    that logged the first place of epoch k - 1.
//! 3. *Take over*: whoever has missed a superblock for the public time does for it what is missing.
//!    A build is taken over when the log comes near the place that needs it.
//! 4. *Remove*: whoever put superblock k removes what no query touches any longer.
//!
//! Two that do the same write the same plaintext; which of them counts is decided by a put.
//!
//! # What the cloud sees
//! What is read and written follows from which table it is, and who does it from the log. When it
//! begins follows from entries, results and superblocks alone.
//!
//! Sections 7 and 8 of the protocol (module). A table is built at once here, and not at the pace
//! of the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use fogbank_durable::shared::{Object, Site, Superblock};
use fogbank_env::{Nanos, compute};
use fogbank_seal::{Digest, Mark};
use fogbank_store::DepartureGrid;

use super::cells::Cells;
use super::follower::Follower;
use super::listening::{forget, forgotten};
use super::schedule::{Schedule, Table};
use super::serving::{Event, Known, Serving};
use super::table::Recipe;
use crate::{Error, Result, lied};

/// What is to be done for all.
pub struct Upkeep {
    public_time: Nanos,
    /// Tables whose sources are there and that are not, so far as is known: since when, and whether
    /// they are being built here.
    builds: BTreeMap<Table, (Nanos, bool)>,
    /// Epochs below it have been looked at for tables of level 0.
    logged: u64,
    /// Since when the next superblock could be put.
    since: Option<Nanos>,
    /// Whether it is being asked for, or put.
    is_asking: bool,
    /// When it was last asked for in vain.
    asked: Nanos,
    /// Whether it was tried to put it.
    has_tried: bool,
}

impl Upkeep {
    /// What there is to do after superblock `number`.
    pub fn new(follower: &Follower, public_time: Nanos, number: u64, now: Nanos) -> Self {
        let schedule = follower.schedule;
        let mut upkeep = Self {
            public_time,
            builds: BTreeMap::new(),
            logged: number.saturating_sub(1),
            since: None,
            is_asking: false,
            asked: 0,
            has_tried: false,
        };
        for started in schedule.oldest_start(number)..=number {
            let starting = schedule.starting(started).into_iter().filter(|of| of.level > 0);
            let missing = starting.filter(|table| schedule.installed(*table) > number);
            upkeep.builds.extend(missing.map(|table| (table, (now, false))));
        }
        upkeep
    }

    /// After how long without what another has to do it is taken over.
    pub fn public_time(&self) -> Nanos {
        self.public_time
    }

    /// A table has been built here.
    pub fn is_built(&mut self, table: Table) {
        self.builds.remove(&table);
    }

    /// A superblock that was asked for is there or is not.
    pub fn is_asked(&mut self, is_there: bool) {
        self.is_asking = false;
        if is_there {
            (self.asked, self.has_tried) = (0, false);
        }
    }

    /// Whether a table is being built here.
    pub fn builds_here(&self) -> bool {
        self.builds.values().any(|(_, is_here)| *is_here)
    }

    /// Superblock `number` is there: tables that start from what it installs can be built.
    pub fn is_superblock(&mut self, follower: &Follower, number: u64, now: Nanos) {
        let schedule = follower.schedule;
        self.builds.retain(|table, _| schedule.installed(*table) > number);
        let starting = schedule.starting(number).into_iter().filter(|table| table.level > 0);
        self.builds.extend(starting.map(|table| (table, (now, false))));
        self.since = None;
    }

    /// Whether a superblock is there by now.
    ///
    /// # Errors
    /// By blame.
    pub async fn has_superblock(&self, site: &Site, number: u64) -> Result<bool> {
        Ok(Superblock::get(site, number).await?.is_some())
    }

    /// Tables that are to be built here now.
    fn due(&mut self, follower: &Follower, session: u32, now: Nanos) -> Vec<Table> {
        let schedule = follower.schedule;
        while follower.replayed() >= schedule.first_of(self.logged + 1) {
            let table = Table { level: 0, index: self.logged as i64 };
            self.builds.insert(table, (now, false));
            self.logged += 1;
        }
        let public_time = self.public_time;
        let is_due = |table: &Table, since: Nanos| {
            let start = follower.start_of(schedule.build_starts(*table));
            if start.is_some_and(|start| start.session == session) {
                return true;
            }
            let needed = schedule.first_of(schedule.installed(*table));
            let is_near = follower.length() + u64::from(schedule.epoch / 4) >= needed;
            is_near && now >= since + public_time
        };
        let mut due = Vec::new();
        for (table, (since, is_here)) in &mut self.builds {
            // Which addresses it holds is known once the log has come to where its build starts.
            if !*is_here && follower.known(*table).is_some() && is_due(table, *since) {
                *is_here = true;
                due.push(*table);
            }
        }
        due
    }
}

impl Serving {
    /// Begins what is to be done for all.
    ///
    /// # Errors
    /// By blame.
    pub async fn look_after(&mut self) -> Result<()> {
        let (now, session) = (self.grid.now(), self.site.session());
        if self.state.is_closing {
            return Ok(()); // others go on
        }
        for table in self.upkeep.due(self.client.follower(), session, now) {
            // Results that came meanwhile show that it is there.
            let Some(recipe) = self.client.follower().recipe(table) else {
                self.upkeep.is_built(table);
                continue;
            };
            let build = Build {
                site: self.site.clone(),
                cells: self.cells.clone(),
                grid: self.grid.clone(),
                installed: self.client.follower().schedule.installed(table),
                recipe,
            };
            self.beside(async move { build.run().await.map(|()| Event::Built(table)) });
        }
        let number = self.client.newest_superblock() + 1;
        let follower = self.client.follower();
        let Some(start) = follower.start_of(number - 1).filter(|_| !self.upkeep.is_asking) else {
            return Ok(());
        };
        let may_close = self.client.may_close(number);
        let since = may_close.then(|| *self.upkeep.since.get_or_insert(now));
        let is_mine = start.session == session;
        let is_late = since.is_some_and(|since| now >= since + self.upkeep.public_time);
        let closes = may_close && (is_mine || is_late);
        let is_first = closes && !self.upkeep.has_tried;
        if !is_first && now < self.upkeep.asked + self.upkeep.public_time / POLLS {
            return Ok(());
        }
        self.upkeep.has_tried |= closes;
        (self.upkeep.is_asking, self.upkeep.asked) = (true, now);
        let step = Step::new(self, number, start.history)?;
        self.beside(async move {
            let found = if closes { step.close().await? } else { step.get().await? };
            Ok(Event::Superblock(number, found))
        });
        Ok(())
    }
}

/// A superblock that is not known is asked for so often in the public time.
pub const POLLS: Nanos = 10;

/// A table that is to be built of its sources, which have been installed.
struct Build {
    site: Arc<Site>,
    cells: Arc<Cells>,
    grid: DepartureGrid,
    /// The epoch that touches it first.
    installed: u64,
    recipe: Recipe,
}

/// How long the making of a table may take for each of its slots, and beside that, at least: how many
/// of them hold an address is secret.
const SLOT_NANOS: Nanos = 3_000;
const MAKING_NANOS: Nanos = 2_000_000;

impl Build {
    async fn run(&self) -> Result<()> {
        let Self { cells, recipe, .. } = self;
        let mut sources = Vec::new();
        for source in &recipe.sources {
            match cells.read_whole(source.table).await? {
                Some(bodies) => sources.push(bodies),
                None => return self.is_built().await,
            }
        }
        let read = sources.iter().map(|source| source.len() as Nanos).sum::<Nanos>();
        let slots = read + Nanos::from(recipe.index.slots());
        let made = self.grid.now() + MAKING_NANOS + SLOT_NANOS * slots;
        let bodies = compute(|| recipe.made_of(&sources))?;
        self.grid.come(made).await;
        cells.write(&recipe.index, &bodies).await
    }

    /// A source is not there: right, if somebody has built the table.
    async fn is_built(&self) -> Result<()> {
        let index = &self.recipe.index;
        let has_manifest = self.cells.install(index.table, &index.start).await?.is_some();
        if has_manifest || Superblock::get(&self.site, self.installed).await?.is_some() {
            return Ok(());
        }
        Err(lied("a table is withheld"))
    }
}

/// The next superblock, with all that has to be known of it.
struct Step {
    site: Arc<Site>,
    cells: Arc<Cells>,
    log: Arc<dyn fogbank_store::Log>,
    grid: DepartureGrid,
    schedule: Schedule,
    number: u64,
    /// Of the history before epoch `number - 1`.
    history: Digest,
    /// Superblock `number - 1` as stored.
    previous: Digest,
    /// The tables that it installs, with the marks of their builds.
    tables: Vec<(Table, Mark)>,
    /// Of epoch `number - 2`, if there is one.
    marks: Vec<Mark>,
}

impl Step {
    fn new(serving: &Serving, number: u64, history: Digest) -> Result<Self> {
        let follower = serving.client.follower();
        let schedule = follower.schedule;
        let start = |table| {
            let index = follower.known(table);
            let index = index.ok_or_else(|| Error::Bug(format!("no index of {table:?}")))?;
            Ok((table, index.start))
        };
        let tables = schedule.installing(number).into_iter().map(start);
        let start = number.checked_sub(2).and_then(|epoch| follower.start_of(epoch));
        Ok(Self {
            site: serving.site.clone(),
            cells: serving.cells.clone(),
            log: serving.log.clone(),
            grid: serving.grid.clone(),
            schedule,
            number,
            history,
            previous: serving.state.superblock,
            tables: tables.collect::<Result<_>>()?,
            marks: start.map(|start| start.marks.clone()).unwrap_or_default(),
        })
    }

    /// Asks for it; all that it installs can be read then.
    async fn get(&self) -> Result<Option<Known>> {
        let found = Superblock::get(&self.site, self.number).await?;
        let Some((superblock, stored)) = found else { return Ok(None) };
        let Some(manifests) = self.install().await? else {
            // So long ago that it was removed?
            let later = self.number + u64::from(self.site.parameters().kept_epochs);
            return Err(match Superblock::get(&self.site, later).await? {
                Some(_) => forgotten(),
                None => lied("a manifest is withheld"),
            });
        };
        if superblock != self.of(manifests) {
            return Err(lied("a superblock is of another history"));
        }
        Ok(Some(Known { stored, remains: None }))
    }

    /// Puts it, if the tables that it installs are there, and removes what is superseded then.
    async fn close(self) -> Result<Option<Known>> {
        // Another may have been first, long ago.
        if let Some(known) = self.get().await? {
            return Ok(Some(known));
        }
        let Some(manifests) = self.install().await? else { return Ok(None) };
        if let Some(epoch) = self.number.checked_sub(2) {
            let mark = super::follower::mark(&self.history);
            self.site.put(Object::Marks(epoch), &mark, &self.marks.concat()).await?;
        }
        let (stored, is_first) = self.of(manifests).put(&self.site).await?;
        let Self { site, cells, log, grid, schedule, number, .. } = self;
        let remains = Remains { site, cells, log, grid, schedule, number };
        let remains = is_first.then_some(remains);
        Ok(Some(Known { stored, remains }))
    }

    fn of(&self, manifests: Vec<Digest>) -> Superblock {
        let Self { number, history, previous, .. } = *self;
        Superblock { number, history, previous, manifests }
    }

    async fn install(&self) -> Result<Option<Vec<Digest>>> {
        let mut manifests = Vec::new();
        for (table, start) in &self.tables {
            let Some(manifest) = self.cells.install(*table, start).await? else { return Ok(None) };
            manifests.push(manifest);
        }
        Ok(Some(manifests))
    }
}

/// What no query touches any longer when superblock `number` is there: tables one superblock later
/// than they were superseded, for queries of the epoch before may still touch them; the log, and
/// what tables were found by, when it has been kept long enough.
pub struct Remains {
    site: Arc<Site>,
    cells: Arc<Cells>,
    log: Arc<dyn fogbank_store::Log>,
    grid: DepartureGrid,
    schedule: Schedule,
    number: u64,
}

impl Remains {
    /// Removes it; and, in case that whoever had to was stopped, what went a superblock before.
    ///
    /// # Errors
    /// By blame.
    pub async fn remove(&self) -> Result<()> {
        let Self { schedule, number, .. } = *self;
        for superseded in [number - 1, number.saturating_sub(2)] {
            for table in schedule.superseding(superseded) {
                self.cells.remove(table).await?;
            }
        }
        let kept = u64::from(self.site.parameters().kept_epochs);
        if let Some(epoch) = number.checked_sub(kept) {
            forget(&*self.log, &self.grid, schedule.first_of(epoch)).await?;
            let gone = schedule.superseding(epoch).into_iter();
            let mut objects: Vec<Object> = gone
                .flat_map(|Table { level, index }| {
                    [Object::Index(level, index), Object::Manifest(level, index)]
                })
                .collect();
            let (first, last) =
                (schedule.oldest_start(epoch.saturating_sub(1)), schedule.oldest_start(epoch));
            objects.extend((first..last).map(Object::Marks));
            self.site.delete(&objects).await?;
        }
        Ok(())
    }
}
