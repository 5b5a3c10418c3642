//! A client without I/O: what happens goes in, [`Effect`]s come out in the order in which they have
//! to take place. Section 6 and 7 of the protocol (module).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use fogbank_seal::{Digest, SiteKeys};

use super::canary::Canary;
use super::entry::{Entry, Found, Says};
use super::follower::{Follower, Plan};
use super::schedule::{Schedule, Table};
use super::table::Body;
use crate::{Access, Error, ImmediateShape, Result, lied};

/// What has to take place, in the order in which it was given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// To the log, in the order of turns. If the answer is lost: the same bytes again.
    Append(Entry),
    /// The client's register holds that the log has this length and digest, before anything behind
    /// it takes place: a touch, or an answer to what the register does not cover.
    Register(u64, Digest),
    /// One slot of every table of the place's epoch, in one request.
    Touch(u64, Vec<(Table, u32)>),
    /// Put if absent. That it is there already is no error.
    Publish(Found),
    /// The query of this turn is done: the block before it, nothing if it has none.
    Answer(u64, Option<Bytes>),
    /// The entry of this turn came too late to have an effect; it may be asked for anew.
    Void(u64),
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Client {
    session: u32,
    /// Whether its session builds.
    builds: bool,
    shape: ImmediateShape,
    /// Its last turn.
    turn: u64,
    /// The newest superblock.
    superblock: u64,
    /// The register holds a log of this length.
    registered: u64,
    /// Places to touch for which there is no superblock yet.
    waiting: BTreeSet<u64>,
    /// Of own turns the place, until they are answered.
    places: BTreeMap<u64, u64>,
    /// Places whose result it has found and has not heard to be there.
    unpublished: BTreeSet<u64>,
    pub(super) follower: Follower,
    is_silent: bool,
}

impl Client {
    /// A client that follows from the first entry on, under a session number of its own.
    pub fn new(
        session: u32,
        schedule: Schedule,
        keys: Arc<SiteKeys>,
        header: Digest,
        block_bytes: usize,
        canary: Arc<Canary>,
    ) -> Self {
        let follower = Follower::new(schedule, keys, header, block_bytes, canary);
        Self::following((session, false), follower, 1)
    }

    /// A client that follows so, and knows this superblock, under a session number of its own, and
    /// may be one that builds.
    pub fn following((session, builds): (u32, bool), follower: Follower, superblock: u64) -> Self {
        let (capacity, value_bytes) = (follower.schedule.blocks, follower.block_bytes());
        Self {
            session,
            builds,
            shape: ImmediateShape { capacity, value_bytes },
            turn: 0,
            superblock,
            registered: 0,
            waiting: BTreeSet::new(),
            places: BTreeMap::new(),
            unpublished: BTreeSet::new(),
            follower,
            is_silent: false,
        }
    }

    /// An entry of this turn, which asks for nothing, is on its way.
    pub fn has_greeted(&mut self, turn: u64) {
        self.turn = turn;
    }

    /// The number of its last entry.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// The public shape of what it asks for.
    pub fn shape(&self) -> ImmediateShape {
        self.shape
    }

    /// Asks for a block, or, with none, only shows that the session lives.
    ///
    /// # Errors
    /// [`Error::Caller`] for a block or a range outside of the site; whatever has stopped it.
    pub fn ask(&mut self, query: Option<(u32, Access)>) -> Result<Vec<Effect>> {
        if let Some((address, access)) = &query {
            self.shape.check(crate::Address(*address), access)?;
        }
        self.append(query, Says::Nothing)
    }

    /// Says that the session ends.
    ///
    /// # Errors
    /// Whatever has stopped it.
    pub fn leave(&mut self) -> Result<Vec<Effect>> {
        self.append(None, Says::Leaves)
    }

    fn append(&mut self, query: Option<(u32, Access)>, says: Says) -> Result<Vec<Effect>> {
        self.step(|client, out| {
            client.turn += 1;
            let entry = Entry {
                session: client.session,
                turn: client.turn,
                seen: client.follower.length(),
                seen_digest: client.follower.digest(),
                query,
                says,
                builds: client.builds,
            };
            let (follower, superblock) = (&client.follower, client.superblock);
            out.extend(follower.canary.touch_ahead(follower, &entry, superblock));
            out.push(Effect::Append(entry));
            Ok(())
        })
    }

    /// Entries come, the first of them at place `from`; those known already are passed over. Each
    /// with the digest of what is stored.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if they do not go on with this history, from then on for ever.
    pub fn entries(&mut self, from: u64, entries: &[(Entry, Digest)]) -> Result<Vec<Effect>> {
        self.step(|client, out| {
            let known = client.follower.length().checked_sub(from);
            let known = known.ok_or_else(|| lied("the log has a gap"))?;
            for (entry, stored) in entries.iter().skip(known as usize) {
                let place = client.follower.length();
                client.follower.entry(entry, stored)?;
                if entry.session == client.session {
                    client.places.insert(entry.turn, place);
                    client.waiting.insert(place);
                    // At once: many may wait for one superblock.
                    client.follower.touches(place)?;
                }
            }
            client.touch_what_can_be(out)
        })
    }

    /// Superblock `number` is there, and has been checked.
    ///
    /// # Errors
    /// Whatever has stopped it.
    pub fn superblock(&mut self, number: u64) -> Result<Vec<Effect>> {
        self.step(|client, out| {
            client.superblock = client.superblock.max(number);
            client.follower.is_superblock(client.superblock);
            client.touch_what_can_be(out)
        })
    }

    /// The cells of a touch have come, all of them opened.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if one does not hold what it has to.
    pub fn cells(&mut self, place: u64, cells: &[Body]) -> Result<Vec<Effect>> {
        self.step(|client, out| {
            // A place that is replayed was published by somebody else.
            let Some(found) = client.follower.found(place, cells)? else { return Ok(()) };
            let canary = &client.follower.canary;
            let own = client.follower.plan(place).filter(|plan| plan.session == client.session);
            let early = own.filter(|plan| canary.answers_early(plan.is_first_read()));
            if let Some(turn) = early.map(|plan| plan.turn) {
                client.places.remove(&turn);
                out.push(Effect::Answer(turn, Some(found.base.clone())));
            }
            out.push(Effect::Publish(found.clone()));
            if !client.follower.has_result(place) {
                client.unpublished.insert(place);
            }
            client.learn(&found, out)
        })
    }

    /// Somebody has published the result of a place.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is of another history.
    pub fn result(&mut self, found: &Found) -> Result<Vec<Effect>> {
        self.step(|client, out| {
            client.waiting.remove(&found.place);
            client.unpublished.remove(&found.place);
            client.learn(found, out)
        })
    }

    /// The result of a place has been missing for the public time: does the same for it as its
    /// owner would. Nothing if it is there.
    ///
    /// # Errors
    /// Whatever has stopped it.
    pub fn take_over(&mut self, place: u64) -> Result<Vec<Effect>> {
        self.step(|client, out| {
            if place < client.follower.length() && !client.follower.has_result(place) {
                client.waiting.insert(place);
                client.touch_what_can_be(out)?;
            }
            Ok(())
        })
    }

    /// What it has published of a place is there, by it or by another.
    pub fn published(&mut self, place: u64) {
        self.unpublished.remove(&place);
    }

    /// Whether it may put superblock `epoch`, once the tables that it installs are there. What it
    /// has found and not published does not count: the superblock after next drops what others
    /// need to find it.
    pub fn may_close(&self, epoch: u64) -> bool {
        let end = self.follower.schedule.first_of(epoch.saturating_sub(1));
        let is_there = self.follower.canary.closes_early()
            || self.unpublished.first().is_none_or(|place| *place >= end);
        self.follower.replayed() >= end && is_there
    }

    /// Whom it follows the log with: what it can build and close.
    pub fn follower(&self) -> &Follower {
        &self.follower
    }

    /// The newest superblock that it knows.
    pub fn newest_superblock(&self) -> u64 {
        self.superblock
    }

    fn touch_what_can_be(&mut self, out: &mut Vec<Effect>) -> Result<()> {
        let end = self.follower.schedule.first_of(self.superblock + 1);
        if self.waiting.first().is_none_or(|place| *place >= end) {
            return Ok(());
        }
        let later = self.waiting.split_off(&end);
        let now = std::mem::replace(&mut self.waiting, later);
        self.register(out);
        for place in now {
            let is_own = self.follower.plan(place).is_some_and(|of| of.session == self.session);
            let Some(touches) = self.follower.touches(place)? else { continue };
            let (mut slots, hit) = (touches.slots.clone(), touches.hit);
            if !is_own && self.follower.canary.takes_over_afresh() {
                let schedule = self.follower.schedule;
                for (at, (table, slot)) in slots.iter_mut().enumerate() {
                    if hit != Some(at) {
                        *slot = (*slot + 1) % schedule.slots(*table);
                    }
                }
            }
            let Follower { canary, schedule, .. } = &self.follower;
            slots.splice(..0, canary.picked_up(schedule, place, self.superblock));
            out.push(Effect::Touch(place, slots));
        }
        Ok(())
    }

    fn register(&mut self, out: &mut Vec<Effect>) {
        self.registered = self.follower.length();
        out.push(Effect::Register(self.registered, self.follower.digest()));
    }

    fn learn(&mut self, found: &Found, out: &mut Vec<Effect>) -> Result<()> {
        for (plan, value) in self.follower.learn(found)? {
            let Plan { session, turn, is_void, .. } = plan;
            if session == self.session
                && let Some(place) = self.places.remove(&turn)
            {
                if self.registered <= place {
                    self.register(out); // another has touched for it
                }
                out.push(if is_void { Effect::Void(turn) } else { Effect::Answer(turn, value) });
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        does: impl FnOnce(&mut Self, &mut Vec<Effect>) -> Result<()>,
    ) -> Result<Vec<Effect>> {
        if self.is_silent {
            return Err(lied("a check has failed before"));
        }
        let mut out = Vec::new();
        does(self, &mut out).map(|()| out).inspect_err(|error| {
            self.is_silent = !matches!(error, Error::Caller(_));
        })
    }
}
