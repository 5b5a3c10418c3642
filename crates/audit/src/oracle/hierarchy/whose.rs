//! Whose a piece of a build is, by the log: who may have begun it at a place.
//!
//! 1. The session's that logged its first place.
//! 2. When that has said that it leaves, or has logged nothing for an epoch, the session's that
//!    logs the next place; of level l the l-th after that. And so on.
//! 3. Late ones are anybody's.
//!
//! That a session leaves is sealed; here it is one of two possibilities for whoever has ended. A
//! client that learns of a build late does not know of what was given away before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::layout::Table;

/// Who logged each place, and who has ended.
#[derive(Debug, Default)]
pub struct Sessions {
    /// By place; nobody's that is known yet.
    at: Vec<Option<u32>>,
    /// Places of each session.
    places: BTreeMap<u32, Vec<u64>>,
    ended: BTreeMap<u32, u64>,
    /// Those that build.
    builders: BTreeSet<u32>,
}

/// Whose a piece is, and since which place.
type Given = (Option<u32>, u64);

impl Sessions {
    pub fn logged(&mut self, place: u64, session: u32) {
        let place_at = place as usize;
        if self.at.len() <= place_at {
            self.at.resize(place_at + 1, None);
        }
        if self.at[place_at].replace(session).is_none() {
            let places = self.places.entry(session).or_default();
            let at = places.partition_point(|other| *other < place);
            places.insert(at, place);
        }
    }

    /// A session has said that it builds.
    pub fn builds(&mut self, session: u32) {
        self.builders.insert(session);
    }

    /// A session's trace has come to its end.
    pub fn ends(&mut self, session: u32) {
        let last = self.places.get(&session).and_then(|places| places.last().copied());
        last.map(|last| self.ended.insert(session, last));
    }

    /// The first place that nobody is known to have logged, below `length`.
    pub fn unknown(&self, length: u64) -> Option<u64> {
        (0..length).find(|place| self.at(*place).is_none())
    }

    pub fn at(&self, place: u64) -> Option<u32> {
        self.at.get(place as usize).copied().flatten()
    }

    fn last(&self, session: u32, upto: u64) -> Option<u64> {
        let places = self.places.get(&session)?;
        places[..places.partition_point(|place| *place <= upto)].last().copied()
    }

    /// Whether a piece, which begins at `start`, may be `session`'s when the log has `length`
    /// places, for who learnt of the build when it had so many or a few more. T is `epoch`.
    pub fn is_of(
        &self,
        session: u32,
        piece: (Table, u32),
        (start, learnt, length): (u64, Range<u64>, u64),
        epoch: u64,
    ) -> bool {
        let first: BTreeSet<Given> =
            self.falls_to(piece, start, epoch).into_iter().map(|of| (of, start)).collect();
        // A superblock counts when its manifests have come, too: a round trip later or two.
        let (from, upto) = (learnt.start.max(start), learnt.end.max(start) + 2 * epoch);
        let mut given = BTreeSet::new();
        for place in from.min(length)..length {
            if place <= upto {
                given.extend(&first); // it may have learnt of it just now
            }
            given =
                given.into_iter().flat_map(|of| self.goes_on(piece, of, place, epoch)).collect();
        }
        if length <= upto {
            given.extend(first);
        }
        given.iter().any(|(of, _)| *of == Some(session))
    }

    /// Whose a piece may be when one more place is logged.
    fn goes_on(&self, piece: (Table, u32), given: Given, place: u64, epoch: u64) -> Vec<Given> {
        let last = given.0.and_then(|of| self.last(of, place));
        let has_ended = given.0.is_some_and(|of| last == self.ended.get(&of).copied());
        let mut may_be = Vec::new();
        // Whoever has ended may have left.
        for waits in [Some(epoch), has_ended.then_some(0)].into_iter().flatten() {
            if place > last.unwrap_or(given.1) + waits + u64::from(piece.0.level) {
                may_be.extend(self.falls_to(piece, place, epoch).into_iter().map(|of| (of, place)));
            } else {
                may_be.push(given);
            }
        }
        may_be
    }

    /// To whom a piece may fall that begins at a place, or is given away there.
    fn falls_to(&self, piece: (Table, u32), place: u64, epoch: u64) -> Vec<Option<u32>> {
        let last = |of: &u32| self.last(*of, place).filter(|last| last + epoch >= place);
        let there = self.builders.iter().filter(|of| last(of).is_some());
        let has_ended = |of: &&u32| last(of) == self.ended.get(*of).copied();
        let ended: Vec<u32> = there.clone().filter(has_ended).take(ENDED_MAX).copied().collect();
        let (Table { level, index }, number) = piece;
        let turn = u64::from(level) + index.unsigned_abs() + u64::from(number);
        // Each of those that have ended may have left.
        let may_be = (0..1u32 << ended.len()).map(|left| {
            let has_left = |of: &u32| {
                let at = ended.iter().position(|ended| ended == of);
                at.is_some_and(|at| left >> at & 1 == 1)
            };
            let there: Vec<u32> = there.clone().filter(|of| !has_left(of)).copied().collect();
            let of = there.get((turn % there.len().max(1) as u64) as usize).copied();
            of.or_else(|| self.at(place))
        });
        may_be.collect()
    }
}

/// Builders that have ended within an epoch of each other, each of which may have left, at most.
const ENDED_MAX: usize = 4;
