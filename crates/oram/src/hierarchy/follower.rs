//! What a client knows by following the log: everything but the order of the log is a function of
//! the log.
//!
//! 1. An entry comes: it is checked, and its digest joins the chain.
//! 2. At the first place of an epoch the tables whose builds start get their addresses and orders;
//!    at that of a block of places the fakes of the block are drawn.
//! 3. What a place touches follows from this: one slot of every table of its epoch. It is found out
//!    for places that this client touches; those of others take no such work.
//! 4. Results come in any order; values are replayed as far as there is no gap.
//!
//! # Invariants
//! - An entry that fails a check is planned by nobody.
//! - Plans do not depend on results, so touches wait for none.
//! - What a place touches is the same whoever finds it out, and whenever.
//!
//! Sections 2, 4, 5 and 10 of the protocol (module).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use fogbank_seal::{Digest, Mark, SiteKeys, digest};

use super::canary::Canary;
use super::entry::{Entry, Found};
use super::fakes::Owned;
use super::replay::Replay;
use super::schedule::{Schedule, Table};
use super::sessions::Sessions;
use super::table::{Body, Holds, Index, Live, Recipe};
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
    /// Whether no entry of the window before it has its address.
    is_first: bool,
    /// What it touches, once somebody has asked.
    touches: Option<Touches>,
}

impl Plan {
    /// Whether it reads what no entry of the window before it has asked for.
    pub fn is_first_read(&self) -> bool {
        self.is_first && matches!(self.query, Some((_, Access::Read)))
    }
}

/// What a place touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touches {
    /// One slot of every table of the epoch, newest first.
    pub slots: Vec<(Table, u32)>,
    /// Which of them holds the address.
    pub hit: Option<usize>,
}

/// A block of places whose fakes are drawn together.
#[derive(Debug, Clone)]
struct Block {
    /// Its first place.
    first: u64,
    /// By table, newest first.
    fakes: Vec<(Table, Owned)>,
    /// Of the log with each of its entries so far.
    digests: Vec<Digest>,
}

/// How an epoch begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The digest of the history before it.
    pub history: Digest,
    /// Who logged its first place.
    pub session: u32,
    /// Of every block of places so far, the mark of the history before it.
    pub marks: Vec<Mark>,
    /// Whether somebody had said before it that the site moves, and nobody that it stays.
    pub has_moved: bool,
}

/// What a client that follows from the middle of the log on has to know of what was before.
#[derive(Debug, Clone, Default)]
pub struct Before {
    /// The first epoch whose entries it is given.
    pub epoch: u64,
    /// The digests of the histories from the first place of the second epoch before that (or of
    /// the log) to its own first place.
    pub digests: Vec<Digest>,
    /// Who has logged what, so far as it has seen.
    pub sessions: Sessions,
    /// Whether the site has moved by then.
    pub has_moved: bool,
    /// The values at the end of the epoch before.
    pub values: BTreeMap<u32, Bytes>,
    /// The addresses of all tables that queries of that epoch touch.
    pub tables: BTreeMap<Table, Vec<u32>>,
    /// By epoch: marks of its blocks, from the first one in which a build of these tables started.
    pub marks: BTreeMap<u64, Vec<Mark>>,
}

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
    /// Who has logged what.
    pub sessions: Sessions,
    has_moved: bool,
    /// Whether it has followed from the first entry on, so that it knows the turns of all.
    knows_all_turns: bool,
    /// How epochs began, as long as it may be asked.
    starts: BTreeMap<u64, Start>,
    /// Addresses logged in the epoch before the one under way, and in that.
    seen: [BTreeSet<u32>; 2],
    tables: BTreeMap<Table, Live>,
    /// Those whose places are not all replayed.
    blocks: VecDeque<Block>,
    /// Of tables whose builds have started: addresses and orders that nobody has asked for yet.
    unmade: Vec<Arc<Index>>,
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
            let all = Holds::These(all);
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
            sessions: Sessions::default(),
            has_moved: false,
            knows_all_turns: true,
            starts: BTreeMap::new(),
            seen: Default::default(),
            tables,
            blocks: VecDeque::new(),
            unmade: Vec::new(),
            plans: BTreeMap::new(),
            bases: BTreeMap::new(),
            replay: Replay::default(),
        }
    }

    /// At the first place of an epoch, of which it is told what was before.
    ///
    /// # Errors
    /// [`Error::Bug`] if something is missing.
    pub fn joining(
        schedule: Schedule,
        keys: Arc<SiteKeys>,
        before: Before,
        block_bytes: usize,
        canary: Arc<Canary>,
    ) -> Result<Self> {
        let missing = |what: &str| Error::Bug(format!("who joins is not told of {what}"));
        let Before { epoch, digests, sessions, has_moved, values, tables: addresses, marks } =
            before;
        let start_of = |table| {
            let marks = marks.get(&schedule.build_starts(table));
            marks.and_then(|marks| marks.first()).copied().ok_or_else(|| missing("a mark"))
        };
        let index = |table, holds| -> Result<_> {
            let index = Index::new(&schedule, &keys, table, &start_of(table)?, holds);
            index.make();
            Ok(Arc::new(index))
        };
        // 1. The tables that are touched, with the fakes that places so far have owned.
        let mut tables = BTreeMap::new();
        for (table, addresses) in addresses {
            let mut live = Live::new(&schedule, index(table, Holds::These(addresses))?);
            for touched in schedule.installed(table)..epoch {
                let marks = marks.get(&touched).ok_or_else(|| missing("an epoch"))?;
                marks.iter().for_each(|mark| _ = live.draw(mark));
            }
            tables.insert(table, live);
        }
        // 2. Those that are being built of them.
        for started in marks.keys().copied().filter(|started| *started < epoch) {
            for table in schedule.starting(started) {
                if table.level == 0 || schedule.installed(table) <= epoch {
                    continue;
                }
                let sources = schedule.sources(table);
                let known: Option<Vec<&Live>> = sources.iter().map(|of| tables.get(of)).collect();
                let known = known.ok_or_else(|| missing("a source"))?;
                let sources = known.iter().map(|live| live.index.clone()).collect();
                let index = index(table, Holds::Sources(sources))?;
                tables.insert(table, Live::new(&schedule, index));
            }
        }
        let first = schedule.first_of(epoch);
        let digests_from = (first + 1).checked_sub(digests.len() as u64);
        let seen = values.keys().copied().collect();
        Ok(Self {
            schedule,
            keys,
            canary,
            zeros: vec![0; block_bytes].into(),
            digests: digests.into(),
            digests_from: digests_from.ok_or_else(|| missing("fewer digests"))?,
            sessions,
            has_moved,
            knows_all_turns: false,
            starts: BTreeMap::new(),
            seen: [BTreeSet::new(), seen],
            tables,
            blocks: VecDeque::new(),
            unmade: Vec::new(),
            plans: BTreeMap::new(),
            bases: BTreeMap::new(),
            replay: Replay::after(first, values),
        })
    }

    /// What it is time to make, beside all else.
    pub fn take_unmade(&mut self) -> Vec<Arc<Index>> {
        std::mem::take(&mut self.unmade)
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.zeros.len()
    }

    /// How an epoch began, if it has and is not long over.
    pub fn start_of(&self, epoch: u64) -> Option<&Start> {
        self.starts.get(&epoch)
    }

    /// The digest of the log at an earlier length, if it is kept.
    pub fn digest_at(&self, length: u64) -> Option<&Digest> {
        self.digests.get(length.checked_sub(self.digests_from)? as usize)
    }

    /// Entries that the log has.
    pub fn length(&self) -> u64 {
        self.digests_from + self.digests.len() as u64 - 1
    }

    /// Whether somebody has said that the site moves, and nobody after it that it stays.
    pub fn has_moved(&self) -> bool {
        self.has_moved
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
            let (session, has_moved) = (entry.session, self.has_moved);
            let start = Start { history: before, session, marks: Vec::new(), has_moved };
            self.starts.insert(epoch, start);
        }
        if place.is_multiple_of(self.schedule.draw.into()) {
            self.begin_block((epoch, place), &mark(&before))?;
        }
        while self.digests_from < oldest {
            self.digests.pop_front();
            self.digests_from += 1;
        }
        self.has_moved = entry.says.moved(self.has_moved);
        let with = digest(&[&before, stored]);
        self.digests.push_back(with);
        self.blocks.back_mut().into_iter().for_each(|block| block.digests.push(with));
        let has_effect = !is_void || self.canary.obeys_void();
        let query = entry.query.clone().filter(|_| has_effect);
        let is_first = query.as_ref().is_some_and(|(address, _)| !self.is_in_window(*address));
        if let Some((address, _)) = &query {
            self.seen[1].insert(*address);
        } else if self.canary.sees_none() {
            self.seen[1].insert(0);
        }
        let (session, turn) = (entry.session, entry.turn);
        let touches = None;
        let plan = Plan { session, turn, query, is_void, digest: with, is_first, touches };
        self.plans.insert(place, plan);
        Ok(())
    }

    /// A block of places begins, after the history of this mark.
    fn begin_block(&mut self, (epoch, first): (u64, u64), before: &Mark) -> Result<()> {
        if let Some(start) = self.starts.get_mut(&epoch) {
            start.marks.push(*before);
        }
        let (mut fakes, digests) = (Vec::new(), Vec::new());
        for table in self.schedule.tables(epoch) {
            let live = self.tables.get_mut(&table).ok_or_else(|| no_index(table))?;
            fakes.push((table, live.draw(before)));
        }
        self.blocks.push_back(Block { first, fakes, digests });
        Ok(())
    }

    fn is_in_window(&self, address: u32) -> bool {
        self.seen[1].contains(&address)
            || (self.seen[0].contains(&address) && !self.canary.has_short_window())
    }

    fn check(&mut self, entry: &Entry, place: u64, is_void: bool) -> Result<()> {
        let is_next = match self.sessions.logged(place, entry) {
            Some(last) => entry.turn == last.turn + 1,
            // Of a session of before only the entries that count can be checked.
            None => entry.turn == 1 || !self.knows_all_turns,
        };
        if self.canary.accepts_hidden() {
            return Ok(());
        }
        if !is_next {
            return Err(lied("an entry is hidden or stands twice"));
        }
        let is_mine = self.digest_at(entry.seen) == Some(&entry.seen_digest);
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
            let holds = if table.level == 0 {
                Holds::These(self.seen[0].iter().copied().collect())
            } else {
                let sources = self.schedule.sources(table);
                let known = sources.iter().filter_map(|source| self.tables.get(source));
                Holds::Sources(known.map(|live| live.index.clone()).collect())
            };
            let index = Arc::new(Index::new(&self.schedule, &self.keys, table, start, holds));
            self.unmade.push(index.clone());
            self.tables.insert(table, Live::new(&self.schedule, index));
        }
    }

    /// Superblock `number` is there. A source goes when results show, too, that what was made of it
    /// is there: the log may be far ahead of superblocks, and a client far behind.
    pub fn is_superblock(&mut self, number: u64) {
        let (schedule, replayed) = (self.schedule, self.schedule.epoch_of(self.replay.length()));
        let needed = replayed.min(number);
        self.tables.retain(|table, _| schedule.superseded(*table) >= needed);
        self.starts.retain(|start, _| start + 4 > needed);
    }

    /// What a place touches that is not replayed; `None` if it is.
    ///
    /// # Errors
    /// [`Error::Bug`] if a table is not known, or its fakes are used up.
    pub fn touches(&mut self, place: u64) -> Result<Option<&Touches>> {
        let Some(plan) = self.plans.get(&place) else { return Ok(None) };
        if plan.touches.is_none() {
            let (address, is_first) = (plan.query.as_ref().map(|query| query.0), plan.is_first);
            let touches = self.find_touches(place, address, is_first)?;
            self.plans.entry(place).and_modify(|plan| plan.touches = Some(touches));
        }
        Ok(self.plans.get(&place).and_then(|plan| plan.touches.as_ref()))
    }

    fn find_touches(
        &mut self,
        place: u64,
        address: Option<u32>,
        is_first: bool,
    ) -> Result<Touches> {
        let is_before = |block: &&mut Block| block.first <= place;
        let block = self.blocks.iter_mut().rev().find(is_before);
        let block = block.ok_or_else(|| Error::Bug("a place has no block".into()))?;
        let with = block.digests.get(..=(place - block.first) as usize).unwrap_or_default();
        let mut is_wanted = is_first;
        let (mut slots, mut hit) = (Vec::with_capacity(block.fakes.len()), None);
        for (table, fakes) in &mut block.fakes {
            let index = &self.tables.get(table).ok_or_else(|| no_index(*table))?.index;
            // Found out in any case: every place owns a fake of every table, used or not.
            let fake = index.fake(fakes, with, &self.canary)?;
            // Searched in any case: the time does not tell whether something is wanted.
            let real = index.slot_of(address.unwrap_or_default()).filter(|_| is_wanted);
            let stops = hit.is_some() && self.canary.stops_at_hit();
            if stops || (!is_first && self.canary.skips_duplicates()) {
                continue;
            }
            if real.is_some() {
                (is_wanted, hit) = (false, Some(slots.len()));
            }
            slots.push((*table, real.unwrap_or(fake)));
        }
        Ok(Touches { slots, hit })
    }

    /// What a touch has found: the block where the plan says that it is, or zeros.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if cells are missing, or the wanted one holds another address.
    pub fn found(&self, place: u64, cells: &[Body]) -> Result<Option<Found>> {
        let Some(plan) = self.plans.get(&place) else { return Ok(None) };
        let untouched = || Error::Bug("cells of a place that was not touched".into());
        let Touches { slots, hit } = plan.touches.as_ref().ok_or_else(untouched)?;
        if cells.len() != slots.len() {
            return Err(crate::miscounted(cells.len(), slots.len()));
        }
        let base = match (hit.map(|hit| &cells[hit]), &plan.query) {
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
        let (replay, places) = (self.replay.length(), u64::from(self.schedule.draw));
        while self.blocks.front().is_some_and(|block| block.first + places <= replay) {
            self.blocks.pop_front();
        }
        Ok(replayed)
    }

    /// Bytes by which it knows what tables hold and where.
    #[cfg(test)]
    pub fn kept(&self) -> u64 {
        self.tables.values().map(Live::kept).sum()
    }

    /// The tables whose build has started and may still be needed.
    pub fn known(&self, table: Table) -> Option<&Arc<Index>> {
        self.tables.get(&table).map(|live| &live.index)
    }

    /// Places whose result is known, and that of all before.
    pub fn replayed(&self) -> u64 {
        self.replay.length()
    }

    /// What a table is built of. `None` if it cannot be built now.
    pub fn recipe(&self, table: Table) -> Option<Recipe> {
        let index = self.known(table)?.clone();
        let mut logged = BTreeMap::new();
        if table.level == 0 {
            logged = self.replay.of_epoch(&self.schedule, table.index as u64)?.clone();
        }
        let sources = self.schedule.sources(table);
        let sources: Option<_> = sources.iter().map(|of| self.known(*of).cloned()).collect();
        Some(Recipe { index, logged, sources: sources? })
    }
}

fn no_index(table: Table) -> Error {
    Error::Bug(format!("no index of {table:?}"))
}

/// The mark of a history.
pub(super) fn mark(digest: &Digest) -> Mark {
    let mut mark = [0; 16];
    mark.copy_from_slice(&digest[..16]);
    mark
}
