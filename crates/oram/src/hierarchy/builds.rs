//! Which pieces of which builds this client does, and when.
//!
//! 1. A build goes on from when its sources are there, or its epoch is replayed, until the
//!    superblock is there that installs it.
//! 2. A piece that is this session's (`whose`) is begun at once. A session that has one, or builds,
//!    shows that it lives: it logs an entry that asks for nothing if it has logged none for most of
//!    an epoch.
//! 3. A piece that stays late is done by others, if they do not find it, one after the other: the
//!    sessions that live, by number, for each piece from another one on. The first begins after
//!    the public time. It has a *head start*, the public time and as long again for every 100
//!    chunks of late pieces that it comes first for, until the second begins; then the next two,
//!    the next four, and so on.
//!
//! # Invariant
//! - One piece of a build at a time.
//!
//! Sections 7 and 8 of the protocol (module).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use fogbank_env::Nanos;

use super::building::{Found, Outcome};
use super::follower::Follower;
use super::pieces::Pieces;
use super::schedule::Table;
use super::whose::Whose;
use crate::Access;

/// See the module.
pub struct Builds {
    public_time: Nanos,
    /// This client's.
    session: u32,
    under_way: BTreeMap<Table, UnderWay>,
    /// Whose the next superblock is: like a piece without a build.
    superblock: Whose,
    /// Epochs below it have been looked at for tables of level 0.
    logged: u64,
}

/// A build whose table is not there, so far as is known.
struct UnderWay {
    pieces: Arc<Pieces>,
    /// By piece: chunks that are read and written.
    chunks: Vec<u64>,
    whose: Whose,
    /// Pieces that were tried here, and when to try them again.
    tried: BTreeMap<u32, Nanos>,
    /// Pieces below it are there; others that are, too.
    next: u32,
    done: BTreeSet<u32>,
    /// The piece that is being done here.
    here: Option<u32>,
    /// What has been read of what pieces have written.
    found: Arc<Found>,
}

/// A piece that is to be done now.
pub struct Due {
    pub pieces: Arc<Pieces>,
    pub number: u32,
    /// Pieces below it are there.
    pub known: u32,
    /// Whether somebody may have done it.
    pub may_be_there: bool,
    /// From which place to which.
    pub places: Range<u64>,
    pub found: Arc<Found>,
}

impl Builds {
    /// Those of `session` that go on when superblock `number` is there.
    pub fn new(
        follower: &Follower,
        public_time: Nanos,
        (session, number): (u32, u64),
        now: Nanos,
    ) -> Self {
        let superblock = closes(follower, number + 1, now);
        let logged = number.saturating_sub(1);
        let under_way = BTreeMap::new();
        let mut builds = Self { public_time, session, under_way, superblock, logged };
        for started in follower.schedule.oldest_start(number)..=number {
            builds.begin(follower, (started, number), now);
        }
        builds
    }

    /// Superblock `number` is there: tables that start from what it installs can be built.
    pub fn is_superblock(&mut self, follower: &Follower, number: u64, now: Nanos) {
        self.under_way.retain(|table, _| follower.schedule.installed(*table) > number);
        self.begin(follower, (number, number), now);
        self.superblock = closes(follower, number + 1, now);
    }

    fn begin(&mut self, follower: &Follower, (started, number): (u64, u64), now: Nanos) {
        for table in follower.schedule.starting(started) {
            if table.level > 0 && follower.schedule.installed(table) > number {
                self.under_way.insert(table, UnderWay::new(follower, table, now));
            }
        }
    }

    /// The newest place of the log has come.
    pub fn has_logged(&mut self, follower: &Follower, now: Nanos) {
        let (sessions, place) = (&follower.sessions, follower.length().saturating_sub(1));
        let writes = || {
            let query = follower.plan(place).and_then(|plan| plan.query.as_ref());
            query.is_some_and(|(_, access)| matches!(access, Access::Write { .. }))
        };
        let is_passed_over = follower.canary.passes_writers_over() && writes();
        for UnderWay { whose, next, done, .. } in self.under_way.values_mut() {
            let is_left =
                |number: u32| number >= *next && !done.contains(&number) && !is_passed_over;
            whose.logged(place, sessions, is_left, now);
        }
        self.superblock.logged(place, sessions, |_| true, now);
    }

    /// Whether it is this session's to put the next superblock.
    pub fn closes(&self) -> bool {
        self.superblock.given(0).is_some_and(|given| given.session == Some(self.session))
    }

    /// Whether others would take this session for one that has gone, with pieces to do, or with
    /// those that would be its own.
    pub fn is_to_speak(&self, follower: &Follower) -> bool {
        let last = follower.sessions.last_of(self.session).map_or(0, |last| last.place);
        let silent = 4 * (follower.length() - last) > 3 * u64::from(follower.schedule.epoch);
        let has_pieces = || self.under_way.values().any(|of| of.own(self.session).next().is_some());
        silent && (follower.sessions.is_builder(self.session) || has_pieces())
    }

    /// What came of a piece that was done here; whether the table is there with it.
    pub fn has_ended(&mut self, table: Table, number: u32, outcome: Outcome, now: Nanos) -> bool {
        let Some(of) = self.under_way.get_mut(&table) else { return false };
        of.here = None;
        match outcome {
            Outcome::Done => _ = of.done.insert(number),
            Outcome::Left => {}
            Outcome::Needs(missing) => {
                // Those before it were asked for, too, unless it is the first that fills.
                if missing != of.pieces.dealt() {
                    of.next = of.next.max(missing);
                }
                of.tried.insert(number, now + self.public_time / RETRIES);
            }
        }
        while of.done.remove(&of.next) {
            of.next += 1;
        }
        of.done = of.done.split_off(&of.next);
        let is_built = outcome == Outcome::Done && number + 1 == of.pieces.count();
        if of.next == of.pieces.count() {
            self.under_way.remove(&table);
        }
        is_built
    }

    /// A table is there.
    pub fn is_built(&mut self, table: Table) {
        self.under_way.remove(&table);
    }

    /// Pieces that are to be done here now.
    pub fn due(&mut self, follower: &Follower, now: Nanos) -> Vec<Due> {
        let schedule = &follower.schedule;
        while follower.replayed() >= schedule.first_of(self.logged + 1) {
            let table = Table { level: 0, index: self.logged as i64 };
            self.under_way.insert(table, UnderWay::new(follower, table, now));
            self.logged += 1;
        }
        let (mut due, mut living) = (Vec::new(), None);
        for (table, of) in &mut self.under_way {
            // Which addresses it holds is known once the log has come to where its build starts.
            if of.here.is_some() || follower.known(*table).is_none() {
                continue;
            }
            let mut others = || {
                let places = schedule.epoch.into();
                living.get_or_insert_with(|| follower.sessions.living(places)).clone()
            };
            let own = of.own(self.session).find(|number| of.may_try(*number, now));
            let mut late = || {
                let late = of.late().next().is_some().then(&mut others)?;
                of.late_one(*table, (self.session, &late), self.public_time, now)
            };
            // What others need comes first: of what is late, too.
            of.here = own.into_iter().chain(late()).min();
            due.extend(of.here.map(|number| of.due(number, own == Some(number))));
        }
        due
    }
}

/// Whose superblock `number` is.
fn closes(follower: &Follower, number: u64, now: Nanos) -> Whose {
    let schedule = &follower.schedule;
    let first = schedule.first_of(number - 1);
    let places = std::iter::once(first..first + u64::from(schedule.epoch) / 2).collect();
    let like = Table { level: 0, index: number as i64 };
    Whose::new(schedule, like, (places, number), (&follower.sessions, follower.length()), now)
}

/// How often in the public time it is looked for what a piece needs.
const RETRIES: Nanos = 10;
/// Chunks that are moved within the public time, at least, by whoever is late.
const CHUNKS: u64 = 100;

impl UnderWay {
    fn new(follower: &Follower, table: Table, now: Nanos) -> Self {
        let schedule = &follower.schedule;
        let pieces = Arc::new(Pieces::new(schedule, table));
        let cells = u64::from(schedule.chunk_cells(table.level));
        let chunks = pieces.all().map(|piece| pieces.moves(&piece).iter().sum::<u64>() / cells);
        let chunks = chunks.collect();
        let places = (pieces.places(), schedule.installed(table));
        let sessions = (&follower.sessions, follower.length());
        let whose = Whose::new(schedule, table, places, sessions, now);
        let (tried, next, done, here, found) = Default::default();
        Self { pieces, chunks, whose, tried, next, done, here, found }
    }

    fn is_done(&self, number: u32) -> bool {
        number < self.next || self.done.contains(&number)
    }

    fn may_try(&self, number: u32, now: Nanos) -> bool {
        self.tried.get(&number).is_none_or(|at| *at <= now)
    }

    /// Pieces of a session that are to be done.
    fn own(&self, session: u32) -> impl Iterator<Item = u32> {
        let own = (0..).zip(self.whose.begun());
        let own = own.filter(move |(number, given)| {
            given.session == Some(session) && !self.is_done(*number)
        });
        own.map(|(number, _)| number)
    }

    /// Late pieces that are not known to be there, and since when they are late.
    fn late(&self) -> impl Iterator<Item = (u32, Nanos)> {
        let late = (0..).zip(self.whose.begun());
        late.filter_map(|(number, given)| Some((number, given.late?)))
            .filter(|(number, _)| !self.is_done(*number))
    }

    /// The first late piece that it is `session`'s turn to do, of those that live.
    fn late_one(
        &self,
        table: Table,
        (session, living): (u32, &[u32]),
        public_time: Nanos,
        now: Nanos,
    ) -> Option<u32> {
        let count = living.len();
        let at = living.iter().position(|of| *of == session).unwrap_or(count);
        // Of pieces so far, by who comes first for them: chunks.
        let mut before: BTreeMap<usize, u64> = BTreeMap::new();
        self.late().find_map(|(number, since)| {
            let first = (usize::from(table.level) + number as usize) % count.max(1);
            let chunks = before.entry(first).or_default();
            *chunks += self.chunks[number as usize];
            let head_start = public_time + public_time * *chunks / CHUNKS;
            let rank = if at == count { count } else { (at + count - first) % count };
            let after = u64::from(usize::BITS - rank.leading_zeros());
            let is_turn = now >= since + public_time + head_start * after;
            (is_turn && self.may_try(number, now)).then_some(number)
        })
    }

    fn due(&self, number: u32, is_own: bool) -> Due {
        let (pieces, found) = (self.pieces.clone(), self.found.clone());
        let is_late = self.whose.given(number).is_some_and(|given| given.late.is_some());
        let may_be_there =
            !is_own || is_late || self.whose.is_anew(number) || self.tried.contains_key(&number);
        let mut places = self.whose.places(number);
        if !is_own {
            places.start = places.end;
        }
        Due { pieces, number, known: self.next, may_be_there, places, found }
    }
}
