//! Which pieces of which builds this client does, and when.
//!
//! 1. A build goes on from when its sources are there, or its epoch is replayed, until the
//!    superblock is there that installs it.
//! 2. A piece is this session's if it logged the first place of the piece. It is begun once the log
//!    has come there.
//! 3. A piece that is late is looked for, and done if it is not there, when the public time has
//!    passed: by the session that logged the place at which it became late. By all others when that
//!    session has had time to do it: the public time again, and for every 40 chunks of it.
//!
//! # Invariant
//! - One piece of a build at a time.
//!
//! Sections 7 and 8 of the protocol (module).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use fogbank_env::Nanos;

use super::building::Outcome;
use super::follower::Follower;
use super::pieces::Pieces;
use super::schedule::{Schedule, Table};

/// See the module.
pub struct Builds {
    public_time: Nanos,
    under_way: BTreeMap<Table, UnderWay>,
    /// Places that this session has logged not long ago.
    own: VecDeque<u64>,
    /// Epochs below it have been looked at for tables of level 0.
    logged: u64,
}

/// A build whose table is not there, so far as is known.
struct UnderWay {
    pieces: Arc<Pieces>,
    /// By piece.
    places: Vec<Range<u64>>,
    /// By piece: chunks that are read and written.
    chunks: Vec<u64>,
    /// Places below it have been looked through for pieces of this session.
    looked: u64,
    /// Pieces of this session that are to be done, and when to try.
    own: BTreeMap<u32, Nanos>,
    /// Late pieces that are this session's to take over first.
    heirs: BTreeSet<u32>,
    /// Since when each is late, from the first on.
    late: Vec<Nanos>,
    /// Pieces below it are there; others that are, too.
    next: u32,
    done: BTreeSet<u32>,
    /// The piece that is being done here.
    here: Option<u32>,
}

/// A piece that is to be done now.
pub struct Due {
    pub pieces: Arc<Pieces>,
    pub number: u32,
    /// Pieces below it are there.
    pub known: u32,
    /// Whether somebody may have done it.
    pub may_be_there: bool,
    pub places: Range<u64>,
}

impl Builds {
    /// Those that go on when superblock `number` is there.
    pub fn new(schedule: &Schedule, public_time: Nanos, number: u64) -> Self {
        let (under_way, own) = Default::default();
        let logged = number.saturating_sub(1);
        let mut builds = Self { public_time, under_way, own, logged };
        for started in schedule.oldest_start(number)..=number {
            builds.begin(schedule, started, number);
        }
        builds
    }

    /// Superblock `number` is there: tables that start from what it installs can be built.
    pub fn is_superblock(&mut self, schedule: &Schedule, number: u64) {
        self.under_way.retain(|table, _| schedule.installed(*table) > number);
        self.begin(schedule, number, number);
    }

    fn begin(&mut self, schedule: &Schedule, started: u64, number: u64) {
        for table in schedule.starting(started) {
            if table.level > 0 && schedule.installed(table) > number {
                self.under_way.insert(table, UnderWay::new(schedule, table));
            }
        }
    }

    /// This session has logged a place.
    pub fn has_logged(&mut self, schedule: &Schedule, place: u64) {
        self.own.push_back(place);
        let kept = 8 * u64::from(schedule.epoch);
        while self.own.front().is_some_and(|oldest| oldest + kept < place) {
            self.own.pop_front();
        }
    }

    /// What came of a piece that was done here; whether the table is there with it.
    pub fn has_ended(&mut self, table: Table, number: u32, outcome: Outcome, now: Nanos) -> bool {
        let Some(of) = self.under_way.get_mut(&table) else { return false };
        of.here = None;
        match outcome {
            Outcome::Done => {
                of.done.insert(number);
                of.own.remove(&number);
            }
            Outcome::Left => {}
            Outcome::Needs(missing) => {
                // Those before it were asked for, too, unless it is the first that fills.
                if missing != of.pieces.dealt() {
                    of.next = of.next.max(missing);
                }
                if let Some(at) = of.own.get_mut(&number) {
                    *at = now + self.public_time / RETRIES;
                }
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
            self.under_way.insert(table, UnderWay::new(schedule, table));
            self.logged += 1;
        }
        let (mut due, length) = (Vec::new(), follower.length());
        for (table, of) in &mut self.under_way {
            of.look(&self.own, length, now);
            // Which addresses it holds is known once the log has come to where its build starts.
            if of.here.is_some() || follower.known(*table).is_none() {
                continue;
            }
            of.here = of.late_one(self.public_time, now).or(of.own_one(now));
            if let Some(number) = of.here {
                let (pieces, places) = (of.pieces.clone(), of.places[number as usize].clone());
                let may_be_there = of.may_be_there(number);
                due.push(Due { pieces, number, known: of.next, may_be_there, places });
            }
        }
        due
    }
}

/// How often in the public time it is looked for what a piece needs.
const RETRIES: Nanos = 10;
/// Chunks that are moved within the public time, at least: a link of round trips of 100 ms carries
/// as many for whoever is late.
const CHUNKS: u64 = 40;

impl UnderWay {
    fn new(schedule: &Schedule, table: Table) -> Self {
        let pieces = Arc::new(Pieces::new(schedule, table));
        let (places, cells) = (pieces.places(), u64::from(schedule.chunk_cells(table.level)));
        let chunks = pieces.all().map(|piece| pieces.moves(&piece).iter().sum::<u64>() / cells);
        let chunks = chunks.collect();
        let (own, heirs, late, done) = Default::default();
        Self { pieces, places, chunks, looked: 0, own, heirs, late, next: 0, done, here: None }
    }

    /// Looks at what has been logged.
    fn look(&mut self, own: &VecDeque<u64>, length: u64, now: Nanos) {
        let late_at = |places: &Range<u64>| self.pieces.is_late_at(places.end);
        for place in own.iter().rev().take_while(|place| **place >= self.looked) {
            for (number, places) in (0..).zip(&self.places) {
                if places.start == *place {
                    self.own.insert(number, 0);
                }
                if late_at(places) == *place {
                    self.heirs.insert(number);
                }
            }
        }
        self.looked = length;
        while self.places.get(self.late.len()).is_some_and(|places| late_at(places) < length) {
            self.late.push(now);
        }
    }

    /// The first piece that is not known to be there, if it has been late for long.
    fn late_one(&self, public_time: Nanos, now: Nanos) -> Option<u32> {
        let since = self.late.get(self.next as usize)?;
        let head_start = public_time + public_time * self.chunks[self.next as usize] / CHUNKS;
        let is_heir = self.heirs.contains(&self.next);
        let waits = public_time + if is_heir { 0 } else { head_start };
        (now >= since + waits).then_some(self.next)
    }

    /// Whether a piece may have been done: others do it when it is late; whoever has tried it and
    /// lost the answer has done it.
    fn may_be_there(&self, number: u32) -> bool {
        self.late.len() > number as usize || self.own.get(&number).is_none_or(|at| *at > 0)
    }

    /// The first piece of this session that is to be tried.
    fn own_one(&self, now: Nanos) -> Option<u32> {
        let mut own = self.own.iter().filter(|(number, at)| {
            **number >= self.next && !self.done.contains(*number) && **at <= now
        });
        own.next().map(|(number, _)| *number)
    }
}
