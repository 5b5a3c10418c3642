//! What a client knows by following the log: everything but the order of the log is a function of
//! the log.
//!
//! 1. An entry comes: it is checked, its digest joins the chain, and what its place touches is
//!    planned: one slot of every table of its epoch.
//! 2. At the first place of an epoch the tables whose builds start get their addresses and orders.
//! 3. Results come in any order; values are replayed as far as there is no gap.
//!
//! # Invariants
//! - An entry that fails a check is planned by nobody.
//! - Plans do not depend on results, so touches wait for none.
//!
//! Sections 2, 4, 5 and 10 of the protocol (module).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use fogbank_seal::{Digest, Mark, SiteKeys, digest};

use super::canary::Canary;
use super::entry::{Entry, Found};
use super::replay::Replay;
use super::schedule::{Schedule, Table};
use super::table::{Body, Index, Live};
use crate::{Access, Error, Result, lied};

/// What is to be done for a place, until it is replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Whose entry it is.
    pub session: u32,
    /// Which of the session's.
    pub turn: u64,
    /// Nothing if the entry has none, or is void.
    pub query: Option<(u32, Access)>,
    /// Sealed so early that it has no effect.
    pub is_void: bool,
    /// Of the log with the entry.
    pub digest: Digest,
    /// One slot of every table of the epoch, newest first.
    pub slots: Vec<(Table, u32)>,
    /// Which of them holds the address.
    pub hit: Option<usize>,
}

/// One slot of every table of an epoch, and which of them holds the address.
type Slots = (Vec<(Table, u32)>, Option<usize>);

/// See the module.
#[derive(Debug, Clone)]
pub struct Follower {
    /// What follows from the parameters of the site.
    pub schedule: Schedule,
    keys: Arc<SiteKeys>,
    pub(super) canary: Arc<Canary>,
    zeros: Bytes,
    /// Digests of the histories from place `digests_from` to the end of the log.
    digests: VecDeque<Digest>,
    digests_from: u64,
    /// Of every session the last turn.
    turns: BTreeMap<u32, u64>,
    /// Addresses logged in the epoch before the one under way, and in that.
    seen: [BTreeSet<u32>; 2],
    tables: BTreeMap<Table, Live>,
    plans: BTreeMap<u64, Plan>,
    /// Bases of places that are not replayed yet.
    bases: BTreeMap<u64, Bytes>,
    pub(super) replay: Replay,
}

impl Follower {
    /// Before the first entry of a site whose header has this digest.
    pub fn new(
        schedule: Schedule,
        keys: Arc<SiteKeys>,
        header: Digest,
        block_bytes: usize,
        canary: Arc<Canary>,
    ) -> Self {
        let mut tables = BTreeMap::new();
        if schedule.has_image {
            let all = (0..schedule.blocks).collect();
            let index = Index::new(&schedule, &keys, schedule.image(), &mark(&header), all);
            tables.insert(schedule.image(), Live::new(&schedule, Arc::new(index)));
        }
        Self {
            schedule,
            keys,
            canary,
            zeros: vec![0; block_bytes].into(),
            digests: [header].into(),
            digests_from: 0,
            turns: BTreeMap::new(),
            seen: Default::default(),
            tables,
            plans: BTreeMap::new(),
            bases: BTreeMap::new(),
            replay: Replay::default(),
        }
    }

    /// Entries that the log has.
    pub fn length(&self) -> u64 {
        self.digests_from + self.digests.len() as u64 - 1
    }

    /// The digest of the log.
    pub fn digest(&self) -> Digest {
        self.digests.back().copied().unwrap_or_default()
    }

    /// What is planned for a place that is not replayed.
    pub fn plan(&self, place: u64) -> Option<&Plan> {
        self.plans.get(&place)
    }

    /// Whether the result of a place is known.
    pub fn has_result(&self, place: u64) -> bool {
        place < self.replay.length() || self.bases.contains_key(&place)
    }

    /// The next entry comes, as stored of this digest.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it does not go on with this history.
    pub fn entry(&mut self, entry: &Entry, stored: &Digest) -> Result<()> {
        let place = self.length();
        let epoch = self.schedule.epoch_of(place);
        let oldest = self.schedule.first_of(epoch.saturating_sub(2));
        let is_void = entry.seen < oldest;
        self.check(entry, place, is_void)?;
        let before = self.digest();
        if place.is_multiple_of(self.schedule.epoch.into()) {
            self.enter(epoch, &mark(&before));
        }
        while self.digests_from < oldest {
            self.digests.pop_front();
            self.digests_from += 1;
        }
        let with = digest(&[&before, stored]);
        self.digests.push_back(with);
        let has_effect = !is_void || self.canary.obeys_void();
        let query = entry.query.clone().filter(|_| has_effect);
        let (slots, hit) = self.slots(epoch, place, query.as_ref().map(|q| q.0), &with)?;
        if let Some((address, _)) = &query {
            self.seen[1].insert(*address);
        } else if self.canary.sees_none() {
            self.seen[1].insert(0);
        }
        let (session, turn) = (entry.session, entry.turn);
        let plan = Plan { session, turn, query, is_void, digest: with, slots, hit };
        self.plans.insert(place, plan);
        Ok(())
    }

    fn check(&mut self, entry: &Entry, place: u64, is_void: bool) -> Result<()> {
        let last = self.turns.entry(entry.session).or_default();
        if entry.turn != *last + 1 {
            return Err(lied("an entry is hidden or stands twice"));
        }
        *last = entry.turn;
        let of = entry.seen.checked_sub(self.digests_from).map(|at| self.digests.get(at as usize));
        let is_mine = of.flatten() == Some(&entry.seen_digest);
        if entry.seen > place || !(is_mine || is_void) {
            return Err(lied("an entry was sealed in another history"));
        }
        if entry.query.as_ref().is_some_and(|(address, _)| *address >= self.schedule.blocks) {
            return Err(Error::Bug("an entry has an address beyond the site".into()));
        }
        Ok(())
    }

    /// An epoch begins: tables whose builds start get their addresses and orders, others go.
    fn enter(&mut self, epoch: u64, start: &Mark) {
        self.seen[0] = std::mem::take(&mut self.seen[1]);
        for table in self.schedule.starting(epoch) {
            let addresses = if table.level == 0 {
                self.seen[0].iter().copied().collect()
            } else {
                let sources = self.schedule.sources(table);
                let known = sources.iter().filter_map(|source| self.tables.get(source));
                known.flat_map(|live| live.index.addresses().iter().copied()).collect()
            };
            let index = Index::new(&self.schedule, &self.keys, table, start, addresses);
            self.tables.insert(table, Live::new(&self.schedule, Arc::new(index)));
        }
        // The log may be far ahead of the superblocks: a source goes when results show that what
        // was made of it is there.
        let (schedule, replayed) = (self.schedule, self.schedule.epoch_of(self.replay.length()));
        self.tables.retain(|table, _| schedule.superseded(*table) >= replayed);
    }

    /// One slot of every table of the epoch, and which holds the address.
    fn slots(
        &mut self,
        epoch: u64,
        place: u64,
        address: Option<u32>,
        with: &Digest,
    ) -> Result<Slots> {
        let in_window = |address: &u32| {
            self.seen[1].contains(address)
                || (self.seen[0].contains(address) && !self.canary.has_short_window())
        };
        let is_first = address.as_ref().is_some_and(|address| !in_window(address));
        let mut want = address.filter(|_| is_first);
        let before = mark(&self.digests[self.digests.len() - 2]);
        let (mut slots, mut hit) = (Vec::new(), None);
        for table in self.schedule.tables(epoch) {
            let missing = || Error::Bug(format!("no index of {table:?}"));
            let live = self.tables.get_mut(&table).ok_or_else(missing)?;
            if place.is_multiple_of(self.schedule.draw.into()) {
                live.begin(&before);
            }
            // Drawn in any case: every place owns a fake of every table, used or not.
            let fake = live.next_fake(with, &self.canary)?;
            let real = want.and_then(|address| live.index.slot_of(address));
            let stops = hit.is_some() && self.canary.stops_at_hit();
            if stops || (!is_first && self.canary.skips_duplicates()) {
                continue;
            }
            if real.is_some() {
                (want, hit) = (None, Some(slots.len()));
            }
            slots.push((table, real.unwrap_or(fake)));
        }
        Ok((slots, hit))
    }

    /// What a touch has found: the block where the plan says that it is, or zeros.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if cells are missing, or the wanted one holds another address.
    pub fn found(&self, place: u64, cells: &[Body]) -> Result<Option<Found>> {
        let Some(plan) = self.plans.get(&place) else { return Ok(None) };
        if cells.len() != plan.slots.len() {
            return Err(crate::miscounted(cells.len(), plan.slots.len()));
        }
        let base = match (plan.hit.map(|hit| &cells[hit]), &plan.query) {
            (None, _) => self.zeros.clone(),
            (Some(Some((found, value))), Some((address, _))) if found == address => value.clone(),
            _ => return Err(lied("a cell holds another block")),
        };
        Ok(Some(Found { place, digest: plan.digest, base }))
    }

    /// A result is known. Returns the places that were replayed with it: what was planned, and the
    /// block before it.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is of another history.
    pub fn learn(&mut self, found: &Found) -> Result<Vec<(Plan, Option<Bytes>)>> {
        if self.has_result(found.place) {
            return Ok(Vec::new());
        }
        let plan = self.plans.get(&found.place);
        if plan.is_none_or(|plan| plan.digest != found.digest) {
            return Err(lied("a result is of another history"));
        }
        self.bases.insert(found.place, found.base.clone());
        let mut replayed = Vec::new();
        while let Some(base) = self.bases.remove(&self.replay.length()) {
            let plan = self.plans.remove(&self.replay.length());
            let plan = plan.ok_or_else(|| Error::Bug("a place has no plan".into()))?;
            let value = self.replay.next(&self.schedule, plan.query.as_ref(), &base, &self.canary);
            replayed.push((plan, value));
        }
        Ok(replayed)
    }

    /// The tables whose build has started and may still be needed.
    pub fn known(&self, table: Table) -> Option<&Arc<Index>> {
        self.tables.get(&table).map(|live| &live.index)
    }

    /// Places whose result is known, and that of all before.
    pub fn replayed(&self) -> u64 {
        self.replay.length()
    }

    /// The content of a table, slot by slot; of all levels but 0 from its sources, read whole,
    /// newest first. `None` if it cannot be built now.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if a source holds something else than it has to.
    pub fn build(&self, table: Table, sources: &[Vec<Body>]) -> Result<Option<Vec<Body>>> {
        let Some(index) = self.known(table) else { return Ok(None) };
        if table.level == 0 {
            let values = self.replay.of_epoch(&self.schedule, table.index as u64);
            return values.map(|values| index.bodies(values)).transpose();
        }
        let mut values = BTreeMap::new();
        for (source, bodies) in self.schedule.sources(table).iter().zip(sources).rev() {
            let Some(index) = self.known(*source) else { return Ok(None) };
            values.extend(index.values(bodies)?);
        }
        index.bodies(&values).map(Some)
    }
}

fn mark(digest: &Digest) -> Mark {
    let mut mark = [0; 16];
    mark.copy_from_slice(&digest[..16]);
    mark
}
