//! Whose each piece of a build is, and since when it is late. The first follows from the log alone,
//! so all clients agree on it.
//!
//! 1. A piece is the session's that logged its first place; where sessions that build are there, it
//!    is one of theirs: they take pieces in turn. One is there that has said so and logged
//!    something within an epoch, and has not left.
//! 2. When its session has said that it leaves, or has logged nothing for an epoch, the piece goes
//!    by the same rule at the next place, for builds of level l at the l-th after that: so that
//!    who is next does not get the pieces of all levels. And so on.
//! 3. Whoever has a piece keeps it while it lives, whoever comes to build meanwhile.
//! 4. A piece is late a quarter of an epoch after its end, or after it was given away, if that is
//!    later; but all are, when as much is left until queries need the table. Log and clients may
//!    stand still then, so the rest goes by time (`builds`).
//!
//! Who joins does not know whose pieces are that began long before. It takes them for those of a
//! session that has been silent since it joined: at worst it does one of them, too.
//!
//! # Invariants
//! - Who is given a piece has logged an entry just before, or builds and has within an epoch.
//! - When the log has come to where queries need the table, every piece that is not done is late.

use std::ops::Range;

use fogbank_env::Nanos;

use super::schedule::{Schedule, Table};
use super::sessions::Sessions;

/// See the module.
#[derive(Debug)]
pub struct Whose {
    /// Places to wait, so that no two levels are given to one session.
    level: u64,
    /// Which of those that build has the first piece, if there are several.
    turn: u64,
    /// T.
    epoch: u64,
    /// By piece.
    places: Vec<Range<u64>>,
    /// From here on every piece is late.
    needed: u64,
    /// By piece that has begun.
    given: Vec<Given>,
}

/// Whose a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// Nobody's that is known, if it began before this client joined.
    pub session: Option<u32>,
    /// The place at which it was given.
    pub since: u64,
    /// When it was seen to be late.
    pub late: Option<Nanos>,
}

impl Whose {
    /// Pieces that have these places, of a build of a table that queries of `epoch` touch first, as
    /// `sessions` say.
    pub fn new(
        schedule: &Schedule,
        Table { level, index }: Table,
        (places, epoch): (Vec<Range<u64>>, u64),
        (sessions, length): (&Sessions, u64),
        now: Nanos,
    ) -> Self {
        let needed = schedule.first_of(epoch).saturating_sub(u64::from(schedule.epoch) / 4);
        let (level, epoch) = (level.into(), schedule.epoch.into());
        let turn = level + index.unsigned_abs();
        let mut whose = Self { level, turn, epoch, places, needed, given: Vec::new() };
        if let Some(place) = length.checked_sub(1) {
            whose.begin(place, sessions);
            whose.find_late(place, now);
        }
        whose
    }

    /// The newest place has been logged. Pieces that are left to be done may be given away.
    pub fn logged(
        &mut self,
        place: u64,
        sessions: &Sessions,
        is_left: impl Fn(u32) -> bool,
        now: Nanos,
    ) {
        self.begin(place, sessions);
        for number in 0..self.given.len() {
            let given = self.given[number];
            let last = given.session.and_then(|session| sessions.last_of(session));
            let (last, waits) = match last {
                Some(last) if last.leaves => (last.place, 0),
                Some(last) => (last.place, self.epoch),
                None => (given.since, self.epoch),
            };
            if place > last + waits + self.level && is_left(number as u32) {
                let session = self.falls_to(number, place, sessions);
                self.given[number] = Given { session, since: place, late: None };
            }
        }
        self.find_late(place, now);
    }

    /// To whom a piece falls that begins at a place, or is nobody's any more.
    fn falls_to(&self, number: usize, place: u64, sessions: &Sessions) -> Option<u32> {
        let logged = sessions.at(place)?;
        let builders = sessions.builders_at(place, self.epoch);
        let turn = (self.turn + number as u64) % builders.len().max(1) as u64;
        Some(builders.get(turn as usize).copied().unwrap_or(logged))
    }

    fn begin(&mut self, place: u64, sessions: &Sessions) {
        while let Some(places) = self.places.get(self.given.len())
            && places.start <= place
        {
            let session = self.falls_to(self.given.len(), places.start, sessions);
            let since = session.map_or(place, |_| places.start);
            self.given.push(Given { session, since, late: None });
        }
    }

    fn find_late(&mut self, place: u64, now: Nanos) {
        for (given, places) in self.given.iter_mut().zip(&self.places) {
            let is_anew = given.session.is_some() && given.since > places.start;
            let ends = if is_anew { places.end.max(given.since) } else { places.end };
            if given.late.is_none() && place >= (ends + self.epoch / 4).min(self.needed) {
                given.late = Some(now);
            }
        }
    }

    /// Pieces that have begun.
    pub fn begun(&self) -> &[Given] {
        &self.given
    }

    /// Whose a piece is; `None` if it has not begun.
    pub fn given(&self, number: u32) -> Option<&Given> {
        self.given.get(number as usize)
    }

    /// Whether it was given anew, so that another may have done some of it, or all.
    pub fn is_anew(&self, number: u32) -> bool {
        let starts = self.places.get(number as usize).map(|places| places.start);
        self.given(number).is_some_and(|given| Some(given.since) != starts)
    }

    /// From which place to which it is done: by whoever it was given to, from there on.
    pub fn places(&self, number: u32) -> Range<u64> {
        let places = self.places.get(number as usize).cloned().unwrap_or_default();
        let since = self.given(number).map_or(places.start, |given| given.since);
        since.min(places.end)..places.end
    }
}
