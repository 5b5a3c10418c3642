//! What is known of one client, by its own trace: what it has heard, and what it may do by that.

use std::collections::{BTreeMap, BTreeSet};

use fogbank_env::Nanos;
use fogbank_store::trace::Request;

use super::layout::{Layout, Piece, Table};
use super::rules::{Rule, fault};
use crate::oracle::fault::Step;

/// See the module.
#[derive(Default)]
pub struct Client {
    /// Once it has put its salt.
    pub session: Option<u32>,
    /// Whether its salt said that it builds.
    pub builds: bool,
    /// Of its turns so far: what was sealed. Turn n stands at n - 1.
    pub turns: Vec<u64>,
    /// Entries that it has heard end here; it knows nothing from before `from`.
    pub length: u64,
    pub from: Option<u64>,
    /// From which place on it has followed the log last.
    pub followed: u64,
    /// How long the log was when it had joined.
    pub joined: Option<u64>,
    /// The newest superblock that it knows, and since when.
    pub superblock: (u64, Nanos),
    /// Superblocks that it knows, and how long the log was then.
    pub learnt: BTreeMap<u64, u64>,
    /// Those that it has put: it sweeps after each.
    pub has_put: BTreeSet<u64>,
    /// Own turns that it has not heard, by what was sealed.
    pub unheard: BTreeMap<u64, u64>,
    /// Own places that it has not touched.
    due: BTreeSet<u64>,
    /// By epoch: own places whose result came first. They may be touched all the same.
    excused: BTreeMap<u64, u32>,
    /// By epoch: touches that were taken for own places, and may have been for late ones.
    credit: BTreeMap<u64, u32>,
    /// Places whose results it has not heard, and since when.
    missing: BTreeMap<u64, Nanos>,
    /// By epoch: touches that came back, and places for which it has published something.
    touched: BTreeMap<u64, u32>,
    published: BTreeMap<u64, u64>,
    /// Results of all places below the first are there for all; of these, too.
    settled: (u64, BTreeSet<u64>),
    /// By epoch: how long the log was when the results of all its places were known.
    pub replayed: BTreeMap<u64, u64>,
    /// Tables whose manifest it knows; pieces of which it knows what was written.
    pub manifests: BTreeSet<Table>,
    pub pieces: BTreeMap<(Table, u32), u32>,
    pub works: BTreeMap<(Table, u32), Work>,
    /// Pieces that are whole and wait for a barrier.
    pub barriers_due: usize,
    /// Requests that failed: the same may be sent again.
    failed: Vec<Request>,
}

/// A piece that it does.
pub struct Work {
    pub piece: Piece,
    /// The version of the first chunk that it writes, once it was claimed.
    pub version: Option<u64>,
    /// Of reads and writes, those that were asked for, and how many have come back.
    pub read: (BTreeSet<usize>, usize),
    pub written: (BTreeSet<usize>, usize),
    /// Barriers that were asked for when all of it was there, and whether one has come.
    pub barriers: BTreeSet<u64>,
    pub is_durable: bool,
}

/// Requests of a piece that may be asked for before the one before them.
pub const AHEAD: usize = 32;

impl Work {
    pub fn new(piece: Piece) -> Self {
        let (version, read, written, barriers, is_durable) = Default::default();
        Self { piece, version, read, written, barriers, is_durable }
    }

    /// Whether all that it has to read and write has been.
    pub fn is_whole(&self) -> bool {
        self.read.1 == self.piece.reads.len() && self.written.1 == self.piece.writes.len()
    }

    /// Where the log has to have come to for a request before which so many cells were moved.
    pub fn due(&self, moved: u64) -> u64 {
        let places = &self.piece.places;
        let whole = u128::from(places.end - places.start);
        let share = whole * u128::from(moved) / u128::from(self.piece.moves.max(1));
        places.start + share as u64
    }
}

impl Client {
    /// Whether a request is one that failed before: it may be sent again, to the last byte.
    pub fn sends_again(&mut self, request: &Request) -> bool {
        let found = self.failed.iter().position(|failed| failed == request);
        found.map(|at| self.failed.swap_remove(at)).is_some()
    }

    pub fn has_failed(&mut self, request: Request) {
        self.failed.push(request);
    }

    /// An entry of a place comes.
    pub fn hears(&mut self, place: u64, print: u64, at: Nanos) {
        self.length = place + 1;
        self.missing.insert(place, at);
        if self.unheard.remove(&print).is_some() {
            self.joined.get_or_insert(place + 1);
            self.due.insert(place);
        }
    }

    /// The result of a place comes.
    pub fn learns(&mut self, layout: &Layout, place: u64, at: Nanos) {
        let (epoch, since) = (layout.epoch_of(place), self.missing.remove(&place));
        if self.due.remove(&place) {
            *self.excused.entry(epoch).or_default() += 1;
        } else if since.is_some_and(|since| at >= since + layout.of.public_ns) {
            // It was late, and a touch of it may be about to leave.
            *self.credit.entry(epoch).or_default() += 1;
        }
        self.settles(layout, place);
    }

    /// The result of a place is there for all.
    pub fn settles(&mut self, layout: &Layout, place: u64) {
        let (below, others) = &mut self.settled;
        if place >= *below {
            others.insert(place);
        }
        while others.remove(below) {
            *below += 1;
            if *below == layout.first_of(layout.epoch_of(*below)) {
                self.replayed.insert(layout.epoch_of(*below) - 1, self.length);
            }
        }
    }

    pub fn has_settled(&self, place: u64) -> bool {
        self.settled.0 >= place
    }

    /// A superblock is known.
    pub fn knows(&mut self, layout: &Layout, number: u64, at: Nanos) {
        if number <= self.superblock.0 {
            return;
        }
        self.superblock = (number, at);
        self.learnt.insert(number, self.length);
        let (below, others) = &mut self.settled;
        *below = (*below).max(layout.first_of(number - 1));
        *others = others.split_off(below);
    }

    /// The epoch of these that a touch may be for now: of an own place, or one that is late.
    pub fn touches(&mut self, layout: &Layout, epochs: &[u64], at: Nanos) -> Option<u64> {
        let epochs = epochs.iter().copied().filter(|epoch| *epoch <= self.superblock.0);
        let epochs: Vec<u64> = epochs.collect();
        for epoch in epochs {
            let of = layout.first_of(epoch)..layout.first_of(epoch + 1);
            let public = layout.of.public_ns;
            let is_late = self.missing.range(of.clone()).any(|(_, since)| at >= since + public);
            let own = self.due.range(of).next().copied();
            let excused = self.excused.get_mut(&epoch).filter(|left| **left > 0);
            match (own, excused) {
                (Some(place), _) => _ = self.due.remove(&place),
                (None, Some(left)) => *left -= 1,
                (None, None) if is_late => return Some(epoch),
                (None, None) => {
                    let credit = self.credit.get_mut(&epoch).filter(|left| **left > 0);
                    let Some(left) = credit else { continue };
                    *left -= 1;
                    return Some(epoch);
                }
            }
            // It may have been for the late one, and its own comes yet.
            *self.credit.entry(epoch).or_default() += u32::from(is_late);
            return Some(epoch);
        }
        None
    }

    /// The epoch of the first place that is to be touched, if there is one.
    pub fn due(&self, layout: &Layout) -> Option<u64> {
        self.due.first().map(|place| layout.epoch_of(*place))
    }

    pub fn has_touched(&mut self, epoch: u64) {
        *self.touched.entry(epoch).or_default() += 1;
        while self.touched.len() > EPOCHS_KEPT {
            self.touched.pop_first();
        }
    }

    /// It publishes what it found for a place.
    pub fn publishes(&mut self, layout: &Layout, place: u64, print: u64) -> Step {
        if place >= self.length {
            return fault(Rule::PublishHeard, format!("below {}", self.length), place.to_string());
        }
        if self.published.get(&place) == Some(&print) {
            return Ok(());
        }
        let epoch = layout.epoch_of(place);
        match self.touched.get_mut(&epoch).filter(|left| **left > 0) {
            Some(left) => *left -= 1,
            None => {
                let seen = format!("a result of place {place}");
                return fault(Rule::PublishTouched, "a touch of its epoch before", seen);
            }
        }
        self.published.insert(place, print);
        while self.published.len() > PLACES_KEPT {
            self.published.pop_first();
        }
        Ok(())
    }
}

/// Epochs and places of which it is known what it has touched and published.
const EPOCHS_KEPT: usize = 16;
const PLACES_KEPT: usize = 1 << 14;
