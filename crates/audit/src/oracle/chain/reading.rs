//! Reads of the journal when a store is opened: as many places at once as records may have been
//! under way. They are looked at in their order when all have come; what stands behind a free
//! place, or in the room that a takeover left, is not looked at.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Chain, Kept, Next, Place};
use crate::oracle::blob::record_name;
use crate::oracle::fault::{Step, fault};
use crate::oracle::joint::Looked;

/// The places at hand.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    asked: u32,
    /// What came; of a get that failed, nothing.
    came: BTreeMap<u32, Option<Option<Kept>>>,
}

/// What the places at hand have come to.
pub(in crate::oracle) enum Read {
    /// Not all have come.
    Waits,
    Looked(Looked),
    /// The get of a place failed that is looked at.
    Failed,
}

impl Chain {
    /// The places at hand, if a journal is due.
    fn at_hand(&self) -> Option<Range<u32>> {
        match self.next {
            Next::JournalGet(from) => Some(from..from + self.records_at_once()),
            _ => None,
        }
    }

    fn records_at_once(&self) -> u32 {
        self.parts.map_or(1, |parts| parts.records_at_once.max(1))
    }

    /// The place that stands behind an entry at `place`.
    pub(super) fn behind(&self, place: u32, of: Option<Place>) -> u32 {
        place + if of == Some(Place::Takeover) { self.records_at_once() } else { 1 }
    }

    /// Whether another place of the journal is asked for, beside those that were.
    pub fn asks(&self) -> bool {
        self.at_hand().is_some_and(|places| (self.reading.asked as usize) < places.len())
    }

    /// A get of the journal: of which place.
    pub fn ask(&mut self, name: &str) -> Step<u32> {
        let Some((place, due)) = self.due_place() else {
            return self.out_of_order(format!("get {name}"));
        };
        if name != due {
            return fault(self.next.rule(), format!("get {due}"), format!("get {name}"));
        }
        self.reading.asked += 1;
        Ok(place)
    }

    /// The place that is asked for next, and its name.
    pub(super) fn due_place(&self) -> Option<(u32, String)> {
        let place = self.at_hand()?.start + self.reading.asked;
        Some((place, record_name(self.epoch() + 1, place)))
    }

    /// What stands at a place has come.
    pub fn came(&mut self, place: u32, seen: Option<Option<Kept>>) -> Read {
        self.reading.came.insert(place, seen);
        match self.at_hand() {
            Some(places) if self.reading.came.len() < places.len() => Read::Waits,
            _ => self.look_at_all(),
        }
    }

    fn look_at_all(&mut self) -> Read {
        for (place, seen) in std::mem::take(&mut self.reading).came {
            let looked = match self.next {
                Next::JournalGet(next) if next > place => continue,
                Next::JournalGet(_) => seen.map(|seen| self.journal_looked(seen)),
                _ => break,
            };
            match looked {
                None => return Read::Failed,
                Some(Looked::True { .. }) => {}
                Some(other) => return Read::Looked(other),
            }
        }
        Read::Looked(Looked::True { landed: false })
    }
}
