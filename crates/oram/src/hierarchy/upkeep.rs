//! What one client does for all: pieces of tables are built, superblocks put, what is superseded
//! removed.
//!
//! 1. *Build*: pieces of this session, and those that are late (`builds`, `building`).
//! 2. *Close*: superblock k, when results and tables are there. It is the affair of the session
//!    that logged the first place of epoch k - 1 (or, when that has gone, of another: `whose`), and
//!    of who has just built a table; when it could have been put for the public time, of everybody.
//! 3. *Remove*: whoever put superblock k removes what nobody needs any longer (`sweep`).
//!
//! Two that do the same write the same plaintext; which of them counts is decided by a put.
//!
//! # What the cloud sees
//! What is read and written follows from which piece of which table it is, and who does it from the
//! log. When it begins follows from entries, results and superblocks alone.
//!
//! Sections 7 and 8 of the protocol (module).

use std::sync::Arc;

use fogbank_durable::shared::{Object, Site, Superblock};
use fogbank_env::Nanos;
use fogbank_seal::{Digest, Mark};
use fogbank_store::DepartureGrid;
use futures_util::future::try_join_all;

use super::building::{Build, Outcome, Pace};
use super::builds::{Builds, Due};
use super::cells::Cells;
use super::follower::{Follower, Start};
use super::listening::forgotten;
use super::schedule::{Schedule, Table};
use super::serving::{Event, Known, Serving};
use super::sweep::Remains;
use crate::{Error, Result, lied};

/// What is to be done for all.
pub struct Upkeep {
    public_time: Nanos,
    builds: Builds,
    /// Since when the next superblock could be put.
    since: Option<Nanos>,
    /// Whether it is being asked for, or put.
    is_asking: bool,
    /// When it was last asked for in vain, at which length of the log, and how often at that.
    asked: (Nanos, u64, u32),
    /// Whether it was tried to put it.
    has_tried: bool,
    /// Whether a table that it may wait for has been built here since it was tried.
    has_built: bool,
}

impl Upkeep {
    /// What there is to do for a session after superblock `session.1`.
    pub fn new(follower: &Follower, public_time: Nanos, session: (u32, u64), now: Nanos) -> Self {
        let builds = Builds::new(follower, public_time, session, now);
        let (since, is_asking, asked, has_tried, has_built) = Default::default();
        Self { public_time, builds, since, is_asking, asked, has_tried, has_built }
    }

    /// After how long without what another has to do it is taken over.
    pub fn public_time(&self) -> Nanos {
        self.public_time
    }

    /// What came of a piece of a build here. The superblock that waits for the table can be put.
    pub fn has_ended(&mut self, table: Table, number: u32, outcome: Outcome, now: Nanos) {
        if self.builds.has_ended(table, number, outcome, now) {
            (self.asked, self.has_built) = (Default::default(), true);
        }
    }

    /// The newest place of the log has come.
    pub fn has_logged(&mut self, follower: &Follower, now: Nanos) {
        self.builds.has_logged(follower, now);
    }

    /// Whether this session has to show that it lives.
    pub fn is_to_speak(&self, follower: &Follower) -> bool {
        self.builds.is_to_speak(follower)
    }

    /// A superblock that was asked for is there or is not.
    pub fn is_asked(&mut self, is_there: bool) {
        self.is_asking = false;
        if is_there {
            (self.asked, self.has_tried) = (Default::default(), false);
        }
    }

    /// When the next superblock is asked for again: more and more rarely while the log rests.
    fn asks_at(&self, length: u64) -> Nanos {
        let (at, asked_at, times) = self.asked;
        let times = if length == asked_at { times.min(POLLS as u32) } else { 1 };
        at + self.public_time / POLLS * Nanos::from(times)
    }

    fn asks(&mut self, length: u64, now: Nanos) {
        let (_, asked_at, times) = self.asked;
        self.asked = (now, length, if length == asked_at { times + 1 } else { 1 });
        self.is_asking = true;
        self.has_built = false;
    }

    /// Superblock `number` is there.
    pub fn is_superblock(&mut self, follower: &Follower, number: u64, now: Nanos) {
        self.builds.is_superblock(follower, number, now);
        self.since = None;
    }

    /// Whether a superblock is there by now.
    ///
    /// # Errors
    /// By blame.
    pub async fn has_superblock(&self, site: &Site, number: u64) -> Result<bool> {
        Ok(Superblock::get(site, number).await?.is_some())
    }
}

impl Serving {
    /// Begins what is to be done for all.
    ///
    /// # Errors
    /// By blame.
    pub async fn look_after(&mut self) -> Result<()> {
        let now = self.grid.now();
        let leaves = self.state.leaves.is_some();
        let due =
            if leaves { Vec::new() } else { self.upkeep.builds.due(self.client.follower(), now) };
        for due in due {
            let Due { pieces, number, known, may_be_there, places, found } = due;
            let (table, follower) = (pieces.table, self.client.follower());
            // Results that came meanwhile show that it is there.
            let Some(recipe) = follower.recipe(table) else {
                self.upkeep.builds.is_built(table);
                continue;
            };
            let build = Build {
                site: self.site.clone(),
                cells: self.cells.clone(),
                grid: self.grid.clone(),
                installed: follower.schedule.installed(table),
                recipe,
                pieces,
                number,
                known,
                may_be_there,
                found,
                pace: Pace {
                    length: self.length.subscribe(),
                    places,
                    closing: self.closing.subscribe(),
                },
                canary: follower.canary.clone(),
            };
            self.state.building += 1;
            self.beside(async move { Ok(Event::Built(table, number, build.run().await?)) });
        }
        let number = self.client.newest_superblock() + 1;
        let follower = self.client.follower();
        let Some(start) = follower.start_of(number - 1).filter(|_| !self.upkeep.is_asking) else {
            return Ok(());
        };
        // What it installs is not built before.
        let (schedule, length) = (follower.schedule, follower.length());
        if length < schedule.first_of(number - 1) + u64::from(schedule.epoch / 2) {
            return Ok(());
        }
        let may_close = self.client.may_close(number);
        let since = may_close.then(|| *self.upkeep.since.get_or_insert(now));
        let is_mine = self.upkeep.builds.closes() || self.upkeep.has_built;
        let is_late = since.is_some_and(|since| now >= since + self.upkeep.public_time);
        let closes = may_close && (is_mine || is_late);
        let is_first = closes && !self.upkeep.has_tried;
        if !is_first && now < self.upkeep.asks_at(length) {
            return Ok(());
        }
        let step = Step::new(self, number, (start, is_first))?;
        self.upkeep.has_tried |= closes;
        self.upkeep.asks(length, now);
        self.beside(async move {
            let found = if closes { step.close().await? } else { step.get().await? };
            Ok(Event::Superblock(number, found))
        });
        Ok(())
    }
}

/// A superblock that is not known is asked for so often in the public time, at most.
pub const POLLS: Nanos = 10;

/// The next superblock, with all that has to be known of it.
struct Step {
    site: Arc<Site>,
    cells: Arc<Cells>,
    log: Arc<dyn fogbank_store::Log>,
    grid: DepartureGrid,
    schedule: Schedule,
    number: u64,
    /// Of the history before epoch `number - 1`, and whether the site has moved in it.
    history: Digest,
    has_moved: bool,
    /// Superblock `number - 1` as stored.
    previous: Digest,
    /// The tables that it names, with the marks of their builds.
    tables: Vec<(Table, Mark)>,
    /// Of epoch `number - 2`, if there is one and they are to be put.
    marks: Option<Vec<Mark>>,
}

impl Step {
    /// How epoch `number - 1` began, and whether this client has not tried to close before.
    fn new(serving: &Serving, number: u64, (of, is_first): (&Start, bool)) -> Result<Self> {
        let follower = serving.client.follower();
        let schedule = follower.schedule;
        let start = |table| {
            let index = follower.known(table);
            let index = index.ok_or_else(|| Error::Bug(format!("no index of {table:?}")))?;
            Ok((table, index.start))
        };
        let tables = schedule.named(number).into_iter().map(start);
        let start = number.checked_sub(2).and_then(|epoch| follower.start_of(epoch));
        let marks = start.filter(|_| is_first).map(|start| start.marks.clone());
        Ok(Self {
            site: serving.site.clone(),
            cells: serving.cells.clone(),
            log: serving.log.clone(),
            grid: serving.grid.clone(),
            schedule,
            number,
            history: of.history,
            has_moved: of.has_moved,
            previous: serving.state.superblock,
            tables: tables.collect::<Result<_>>()?,
            marks,
        })
    }

    /// Asks for it; all that it installs can be read then.
    async fn get(&self) -> Result<Option<Known>> {
        let get = async { Ok(Superblock::get(&self.site, self.number).await?) };
        let (found, manifests) = tokio::try_join!(get, self.install())?;
        self.found(found, manifests).await
    }

    /// What was found of it, and of the tables that it installs.
    async fn found(
        &self,
        found: Option<(Superblock, Digest)>,
        manifests: Option<Vec<Digest>>,
    ) -> Result<Option<Known>> {
        let Some((superblock, stored)) = found else { return Ok(None) };
        // They may have come since they were asked for.
        let manifests = match manifests {
            None => self.install().await?,
            there => there,
        };
        let Some(manifests) = manifests else {
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
        let get = async { Ok(Superblock::get(&self.site, self.number).await?) };
        let (found, manifests, ()) = tokio::try_join!(get, self.install(), self.put_marks())?;
        // Another may have been first, long ago.
        if found.is_some() {
            return self.found(found, manifests).await;
        }
        let Some(manifests) = manifests else { return Ok(None) };
        let (stored, is_first) = self.of(manifests).put(&self.site).await?;
        let Self { site, cells, log, grid, schedule, number, .. } = self;
        let remains = Remains { site, cells, log, grid, schedule, number };
        let remains = is_first.then_some(remains);
        Ok(Some(Known { stored, remains }))
    }

    /// They are there before it, whoever puts it.
    async fn put_marks(&self) -> Result<()> {
        if let (Some(epoch), Some(marks)) = (self.number.checked_sub(2), &self.marks) {
            let mark = super::follower::mark(&self.history);
            self.site.put(Object::Marks(epoch), &mark, &marks.concat()).await?;
        }
        Ok(())
    }

    fn of(&self, manifests: Vec<Digest>) -> Superblock {
        let Self { number, history, has_moved, previous, .. } = *self;
        Superblock { number, history, has_moved, previous, manifests }
    }

    async fn install(&self) -> Result<Option<Vec<Digest>>> {
        let installs = self.tables.iter().map(|(table, start)| self.cells.install(*table, start));
        Ok(try_join_all(installs).await?.into_iter().collect())
    }
}
