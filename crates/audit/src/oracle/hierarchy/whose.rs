//! Whose a piece of a build is, by the log: who may have begun it at a place.
//!
//! 1. The session's that logged its first place.
//! 2. When that has said that it leaves, or has logged nothing for an epoch, the session's that
//!    logs the next place; of level l the l-th after that. And so on.
//! 3. Late ones are anybody's.
//!
//! That a session leaves is sealed; here it is one of two possibilities for whoever has ended. A
//! client that learns of a build late does not know of what was given away before.

use std::collections::BTreeMap;
use std::ops::Range;

/// Who logged each place, and who has ended.
#[derive(Debug, Default)]
pub struct Sessions {
    /// By place; nobody's that is known yet.
    at: Vec<Option<u32>>,
    /// Places of each session.
    places: BTreeMap<u32, Vec<u64>>,
    ended: BTreeMap<u32, u64>,
}

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

    /// Whether a piece of a level, which begins at `start`, may be `session`'s when the log has
    /// `length` places, for who learnt of the build when it had so many or a few more. T is
    /// `epoch`.
    pub fn is_of(
        &self,
        session: u32,
        level: u8,
        (start, learnt, length): (u64, Range<u64>, u64),
        epoch: u64,
    ) -> bool {
        // A superblock counts when its manifests have come, too: a round trip later or two.
        let (first, last) = (learnt.start.max(start), learnt.end.max(start) + 2 * epoch);
        (first.min(length)..=last.min(length)).any(|learnt| {
            [false, true].into_iter().any(|leaves| {
                let mut given = (self.at(start), start);
                for place in learnt..length {
                    let last = given.0.and_then(|of| self.last(of, place));
                    let has_left =
                        leaves && given.0.is_some_and(|of| last == self.ended.get(&of).copied());
                    let (last, waits) = match last {
                        Some(last) => (last, if has_left { 0 } else { epoch }),
                        None => (given.1, epoch),
                    };
                    if place > last + waits + u64::from(level) {
                        given = (self.at(place), place);
                    }
                }
                given.0 == Some(session)
            })
        })
    }
}
