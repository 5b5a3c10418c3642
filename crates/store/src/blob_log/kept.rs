//! What a log has in memory: everything that is not forgotten.
//!
//! Results are numbered in the order in which they came. A listener is a place and a number: it was
//! told all entries below the one and, of places it has passed, all results below the other. So it
//! takes no memory here, however far it is behind.
//!
//! Invariants
//! - A session's entries stand in the order of its turns, without a gap.
//! - A result that a listener finds with the entry has a number below its own; all others come
//!   later by their numbers. So each is told once, and after its entry.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::{LogEntry, LogEvent, Result, StoreError};

/// The words of a log that has forgotten what was asked for.
const FORGOTTEN: &str = "were forgotten";

/// Whether these words of a log say that it has forgotten what was asked for. Nobody has sealed
/// that: whoever knows better holds it against what is sealed.
pub fn is_of_forgotten(words: &str) -> bool {
    words.contains(FORGOTTEN)
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The first place that is not forgotten.
    first: u64,
    places: VecDeque<Place>,
    /// The last turn of every session: before `first`, and of all.
    forgotten: BTreeMap<u32, u64>,
    last: BTreeMap<u32, u64>,
    /// Places of turns that are kept.
    turns: BTreeMap<(u32, u64), u64>,
    /// Places of results that are kept, by number.
    published: BTreeMap<u64, u64>,
    /// What the next result is numbered.
    number: u64,
    /// No result of this number or above was forgotten.
    missed: u64,
    bytes: u64,
    /// Why nothing more comes.
    failed: Option<StoreError>,
}

#[derive(Debug)]
struct Place {
    entry: LogEntry,
    /// With its number.
    result: Option<(u64, Bytes)>,
}

/// How a turn stands to those that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was there: its place, unless that was forgotten.
    There(Option<u64>),
    /// It is the next one.
    Next,
    /// Its predecessor is not there yet.
    Early,
}

/// How far a listener is.
#[derive(Debug)]
pub(super) struct Heard {
    /// Where it began.
    from: u64,
    /// The place whose entry it is told next.
    next: u64,
    /// The number of the result it is told next.
    number: u64,
    /// A place whose entry it was told just now, and whose result may have been there before.
    just: Option<u64>,
}

impl Kept {
    /// Nothing, after what was forgotten.
    pub(super) fn after(first: u64, forgotten: BTreeMap<u32, u64>) -> Self {
        Self { first, last: forgotten.clone(), forgotten, ..Self::default() }
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The place that the next entry gets.
    pub(super) fn end(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// Bytes that all of it counts for.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.last.len() as u64 * SESSION_BYTES
    }

    pub(super) fn standing(&self, session: u32, turn: u64) -> Standing {
        let last = self.last.get(&session).copied().unwrap_or(0);
        match turn {
            turn if turn <= last => Standing::There(self.turns.get(&(session, turn)).copied()),
            turn if turn == last + 1 => Standing::Next,
            _ => Standing::Early,
        }
    }

    /// Whether one more session may begin, if `session` is one.
    pub(super) fn takes(&self, session: u32) -> bool {
        self.last.len() < SESSIONS_MAX || self.last.contains_key(&session)
    }

    /// The entry of a place has come, which is the next one or was there.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if it is not its turn.
    pub(super) fn append(&mut self, place: u64, entry: LogEntry) -> Result<()> {
        if place < self.end() {
            return Ok(());
        }
        if place > self.end() || self.standing(entry.session, entry.turn) != Standing::Next {
            let (session, turn) = (entry.session, entry.turn);
            let why = format!("place {place} of the log holds turn {turn} of session {session}");
            return Err(StoreError::Misbehaved(why));
        }
        self.last.insert(entry.session, entry.turn);
        self.turns.insert((entry.session, entry.turn), place);
        self.bytes += cost(entry.bytes.len());
        self.places.push_back(Place { entry, result: None });
        Ok(())
    }

    /// How many sessions but this one have any of the last so many entries.
    pub(super) fn others_of(&self, session: u32, entries: usize) -> u64 {
        let last = self.places.iter().rev().take(entries).map(|place| place.entry.session);
        last.filter(|other| *other != session).collect::<BTreeSet<u32>>().len() as u64
    }

    /// Whether the place has a result; `None` if the place is not kept.
    pub(super) fn has_result(&self, place: u64) -> Option<bool> {
        let index = usize::try_from(place.checked_sub(self.first)?).ok()?;
        self.places.get(index).map(|place| place.result.is_some())
    }

    /// The result of a place has come; the first one stays. Whether the place is kept.
    pub(super) fn publish(&mut self, place: u64, result: Bytes) -> bool {
        let index = place.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let Some(at) = index.and_then(|index| self.places.get_mut(index)) else { return false };
        if at.result.is_none() {
            self.bytes += cost(result.len());
            at.result = Some((self.number, result));
            self.published.insert(self.number, place);
            self.number += 1;
        }
        true
    }

    /// For the log that errs.
    #[cfg(test)]
    pub(super) fn forget_result(&mut self, place: u64) {
        let index = place.checked_sub(self.first).map(|index| index as usize);
        let there = index.and_then(|index| self.places.get_mut(index)?.result.take());
        if let Some((number, result)) = there {
            self.published.remove(&number);
            self.bytes -= cost(result.len());
        }
    }

    /// The last turns of all sessions in places below `before`.
    pub(super) fn turns_below(&self, before: u64) -> BTreeMap<u32, u64> {
        let mut turns = self.forgotten.clone();
        let many = before.saturating_sub(self.first) as usize;
        let going = self.places.iter().take(many);
        turns.extend(going.map(|place| (place.entry.session, place.entry.turn)));
        turns
    }

    /// Forgets places below `before`, of which `turns` are the last.
    pub(super) fn forget(&mut self, before: u64, turns: BTreeMap<u32, u64>) {
        while self.first < before
            && let Some(place) = self.places.pop_front()
        {
            self.turns.remove(&(place.entry.session, place.entry.turn));
            self.bytes -= cost(place.entry.bytes.len());
            if let Some((number, result)) = place.result {
                self.published.remove(&number);
                self.missed = self.missed.max(number + 1);
                self.bytes -= cost(result.len());
            }
            self.first += 1;
        }
        if self.first < before {
            // Others have gone on so far; what came in between was never here.
            (self.first, self.last) = (before, turns.clone());
        }
        self.forgotten = turns;
    }

    /// Nothing more comes; listeners are told why.
    pub(super) fn fail(&mut self, why: StoreError) {
        self.failed = Some(why);
    }

    /// The places that have no result.
    pub(super) fn without_result(&self) -> impl Iterator<Item = u64> {
        let places = (self.first..).zip(&self.places);
        places.filter(|(_, place)| place.result.is_none()).map(|(at, _)| at)
    }

    /// A listener from a place on.
    pub(super) fn listen(&self, from: u64) -> Result<Heard> {
        if from < self.first {
            return Err(self.gone());
        }
        Ok(Heard { from, next: from, number: self.number, just: None })
    }

    /// What it means that something before the first place that is kept was asked for.
    pub(super) fn gone(&self) -> StoreError {
        StoreError::Refused(format!("places below {} of the log {FORGOTTEN}", self.first))
    }

    /// What the listener is told next, if there is anything.
    ///
    /// # Errors
    /// [`StoreError::Absent`] if that was forgotten.
    pub(super) fn tell(&self, heard: &mut Heard) -> Result<Option<LogEvent>> {
        let just_gone = heard.just.is_some_and(|place| place < self.first);
        if heard.next < self.first || heard.number < self.missed || just_gone {
            let why = "what was to be told of the log was forgotten before it was taken";
            return Err(StoreError::Absent(why.into()));
        }
        if let Some(place) = heard.just.take()
            && let Some((number, result)) = self.result(place)
            && *number < heard.number
        {
            return Ok(Some(LogEvent::Result(place, result.clone())));
        }
        while let Some((&number, &place)) = self.published.range(heard.number..).next() {
            heard.number = number + 1;
            if (heard.from..heard.next).contains(&place)
                && let Some((_, result)) = self.result(place)
            {
                return Ok(Some(LogEvent::Result(place, result.clone())));
            }
        }
        let Some(at) = self.places.get((heard.next - self.first) as usize) else {
            return self.failed.clone().map_or(Ok(None), Err);
        };
        heard.just = Some(heard.next);
        heard.next += 1;
        Ok(Some(LogEvent::Entry(heard.next - 1, at.entry.bytes.clone())))
    }

    fn result(&self, place: u64) -> Option<&(u64, Bytes)> {
        let index = place.checked_sub(self.first)? as usize;
        self.places.get(index)?.result.as_ref()
    }
}

/// What an entry or a result of so many bytes counts for.
pub(super) fn cost(bytes: usize) -> u64 {
    bytes as u64 + ITEM_BYTES
}

/// A place in memory and in lists, beside the bytes.
const ITEM_BYTES: u64 = 256;
const SESSION_BYTES: u64 = 128;
/// Sessions, whose last turns stay for good.
const SESSIONS_MAX: usize = 1 << 16;
