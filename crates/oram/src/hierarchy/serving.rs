//! One task carries out what the client says.
//!
//! 1. What has happened by a moment in the middle between two points of the grid is taken then, in
//!    its order; the client says what has to take place.
//! 2. What has been seen is saved before anything is touched, or answered that it does not cover.
//! 3. At the next point appends, touches, results and answers leave.
//! 4. What is this session's to do for all, builds and superblocks, is begun; what is another's and
//!    late is taken over (`upkeep`).
//! 5. Whoever closes says so in its last entry, so that others take its part over at once.
//!
//! # Invariants
//! - Whatever goes wrong ends everything: nothing leaves after it.
//! - An entry is sealed once; whoever appends it sends the same bytes again.
//!
//! # What the cloud sees
//! Appends, touches, results, superblocks and builds, each when public events say so: entries and
//! results that come, superblocks, and points of the grid.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::shared::{Coming, Seen, SeenRegister, Site, Superblock};
use fogbank_env::{Nanos, compute};
use fogbank_seal::{Digest, digest};
use fogbank_store::{DepartureGrid, Log, LogEntry, is_of_forgotten};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::building::Outcome;
use super::cells::Cells;
use super::client::{Client, Effect};
use super::entry::{Found, Says};
use super::listening::{Heard, forgotten, not_so_far, publish};
use super::scan::{Cut, CutAsked};
use super::schedule::Table;
use super::sealed::{seal_entry, seal_result};
use super::sweep::Remains;
use super::table::Body;
use super::upkeep::Upkeep;
use crate::immediate::arrival::Arrival;
use crate::immediate::entrance::{EndsMidway, Fault};
use crate::immediate::events::{Events, Happens, Tells};
use crate::immediate::sequencer::Reply;
use crate::{Access, Error, Result, lied, of_task};

/// What happens.
pub enum Event {
    /// An access is submitted.
    Arrives(Arrival),
    /// Nothing will arrive any more.
    Closes,
    /// The log says something.
    Heard(Heard),
    /// The entry of this turn has been appended at a place, if the log still has it.
    Appended(u64, Option<u64>),
    /// The cells of a place have come, opened; nothing if the server does not have them.
    Cells(u64, Option<Vec<Body>>),
    /// The result of a place is there.
    Published(u64),
    /// Superblock `.0` is there, if it is, and its tables are installed.
    Superblock(u64, Option<Known>),
    /// What nobody needs any more has been removed.
    Removed,
    /// A piece of a table's build has come to its end.
    Built(Table, u32, Outcome),
    /// Somebody wants the state as it is after all places that are known.
    Cuts(oneshot::Sender<Cut>),
    /// Time passes.
    Tick,
    /// Something has failed beside.
    Failed(Error),
}

impl Happens for Event {
    fn arrives(arrival: Arrival) -> Self {
        Self::Arrives(arrival)
    }

    fn closes() -> Self {
        Self::Closes
    }

    fn arrival(self) -> Option<Arrival> {
        if let Self::Arrives(arrival) = self { Some(arrival) } else { None }
    }
}

/// A superblock that is there.
pub struct Known {
    /// Its digest as stored.
    pub stored: Digest,
    /// What is to be removed by who has put it.
    pub remains: Option<Remains>,
}

/// See the module.
pub struct Serving {
    pub client: Client,
    pub site: Arc<Site>,
    pub cells: Arc<Cells>,
    pub log: Arc<dyn Log>,
    pub seen: Arc<dyn SeenRegister>,
    pub grid: DepartureGrid,
    pub tells: Tells<Event>,
    pub events: Events<Event>,
    pub fault: Arc<Fault>,
    pub state: State,
    pub upkeep: Upkeep,
    /// Takes entries to the log, in the order of turns.
    pub appends: mpsc::UnboundedSender<LogEntry>,
    /// Tells who listens which results are not wanted any more.
    pub replayed: Arc<watch::Sender<u64>>,
    /// Tells builds how long the log is.
    pub length: watch::Sender<u64>,
    /// Tells builds that it is time to leave.
    pub closing: watch::Sender<bool>,
    /// Who listens, and what says that time passes: as long as somebody serves.
    pub _beside: JoinSet<()>,
}

/// What is under way beside the client.
#[derive(Default)]
pub struct State {
    /// By turn: who waits, and for what.
    pub waiting: HashMap<u64, (u32, Access, Reply)>,
    /// By turn: the digest of what was sealed, until it is heard.
    pub sent: BTreeMap<u64, Digest>,
    /// Places of this client's entries that have not been heard.
    pub appended: BTreeSet<u64>,
    /// By place: since when its result is missed.
    pub missing: BTreeMap<u64, Nanos>,
    /// Places whose cells are on their way.
    pub touching: BTreeSet<u64>,
    /// Results of this session that are not there yet.
    pub publishing: usize,
    /// Removals under way.
    pub removing: usize,
    /// Pieces of builds under way.
    pub building: usize,
    /// Arrived, and more are under way than there may be.
    pub arrived: std::collections::VecDeque<Arrival>,
    /// The newest superblock as stored.
    pub superblock: Digest,
    /// Who waits for the state at a moment.
    pub cuts: Vec<CutAsked>,
    pub is_closing: bool,
    /// The turn that says that it leaves, and until when it waits for the answer.
    pub leaves: Option<(u64, Nanos)>,
    pub beside: JoinSet<()>,
}

/// Queries of one client under way at once, at most.
pub const UNDER_WAY_MAX: usize = 64;
/// Who leaves waits for its last turn for so many public times, at most: others can do it, too.
const LEAVES_WITHIN: Nanos = 2;

fn elsewhere() -> Error {
    lied("the log tells of another entry where this client's was put")
}

impl Serving {
    /// Serves until it is closed. Whatever goes wrong ends everything, and all who wait are told.
    pub async fn run(mut self, first: Vec<Effect>) -> Result<()> {
        let _or_midway = EndsMidway(self.fault.clone());
        let served = match self.serve(first).await {
            Err(Error::Refused(why)) if is_of_forgotten(&why) => Err(self.is_away(why).await),
            served => served,
        };
        let closed = || Error::Caller("the engine is closed".into());
        let reason = served.clone().err().unwrap_or_else(closed);
        self.fault.set(&reason);
        self.refuse_all(&reason);
        served
    }

    /// What it means that the log says it has forgotten what this client wants. Nobody forgets it
    /// before a superblock is there that is so far ahead, and those are sealed.
    async fn is_away(&self, why: String) -> Error {
        let schedule = self.client.follower().schedule;
        let epoch = schedule.epoch_of(self.client.follower().length());
        let kept = u64::from(self.site.parameters().kept_epochs);
        match Superblock::newest(&self.site, 1, None).await {
            Ok(newest) if newest.first().is_none_or(|(of, _)| of.number < epoch + kept) => {
                not_so_far()
            }
            _ => Error::Refused(why),
        }
    }

    async fn serve(&mut self, first: Vec<Effect>) -> Result<()> {
        self.take_place(first).await?;
        while !self.is_done() {
            // 1. What has happened by the middle between two points.
            let (moment, mut effects) = (self.events.moment().await?, Vec::new());
            while let Some(event) = self.events.next(moment) {
                effects.extend(self.take(event).await?);
            }
            effects.extend(self.take_over()?);
            effects.extend(self.ask()?);
            effects.extend(self.speak()?);
            // 2. and 3. What follows from it.
            self.take_place(effects).await?;
            // 4. What is done for all.
            self.look_after().await?;
            self.cut();
            while let Some(ended) = self.state.beside.try_join_next() {
                of_task(ended.map(Ok))?;
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let State { publishing, removing, building, leaves, .. } = &self.state;
        let has_left = leaves.is_some_and(|(_, until)| self.grid.now() >= until);
        has_left && *publishing == 0 && *removing == 0 && *building == 0
    }

    async fn take(&mut self, event: Event) -> Result<Vec<Effect>> {
        match event {
            Event::Arrives(arrival) => self.state.arrived.push_back(arrival),
            Event::Closes => self.state.is_closing = true,
            Event::Heard(Heard::Entry(place, entry, stored)) => {
                if entry.session == self.site.session() {
                    // A copy of this process goes on as the same session, unless it is an entry
                    // that was heard before: that is the log's doing, and told as such.
                    let last = self.client.follower().sessions.last_of(entry.session);
                    let was_heard = last.is_some_and(|last| entry.turn <= last.turn);
                    if self.state.sent.remove(&entry.turn) != Some(stored) && !was_heard {
                        return Err(Error::Fenced);
                    }
                    self.state.appended.remove(&place);
                } else if entry.says == Says::Moves {
                    // What is answered is before it in the log, and so goes along.
                    return Err(Error::Moved);
                } else if entry.says == Says::Stays && self.site.coming() == Coming::Move {
                    let stays = "another client has said that this site stays (fogbank site stay), \
                                 so it is not moved; agree on one of the two, and say it again";
                    return Err(Error::Caller(stays.into()));
                }
                if self.state.appended.first().is_some_and(|first| *first <= place) {
                    return Err(elsewhere());
                }
                let now = self.grid.now();
                self.state.missing.insert(place, now);
                let schedule = self.client.follower().schedule;
                let takes = || self.client.entries(place, &[(entry, stored)]);
                // Orders may have to be made when an epoch begins. All else takes about as long
                // as to hand the core over.
                let begins = place.is_multiple_of(schedule.epoch.into());
                let effects = if begins { compute(takes) } else { takes() };
                self.upkeep.has_logged(self.client.follower(), now);
                self.length.send_replace(self.client.follower().length());
                for index in self.client.follower.take_unmade() {
                    self.state.beside.spawn_blocking(move || index.make());
                }
                return effects;
            }
            Event::Heard(Heard::Result(found)) => {
                if found.place < self.client.follower().replayed() {
                    return Ok(Vec::new());
                }
                let effects = self.client.result(&found);
                self.trim();
                return effects;
            }
            Event::Appended(turn, place) => self.is_appended(turn, place.ok_or_else(forgotten)?)?,
            Event::Cells(place, Some(cells)) => {
                self.state.touching.remove(&place);
                let effects = self.client.cells(place, &cells);
                self.trim();
                return effects;
            }
            Event::Cells(place, None) => {
                self.state.touching.remove(&place);
                self.are_dropped(place).await?;
            }
            Event::Published(place) => {
                self.client.published(place);
                self.state.publishing -= 1;
            }
            Event::Superblock(number, found) => return self.superblock(number, found),
            Event::Removed => self.state.removing -= 1,
            Event::Built(table, number, outcome) => {
                self.state.building -= 1;
                self.upkeep.has_ended(table, number, outcome, self.grid.now());
            }
            Event::Cuts(cut) => self.state.cuts.push((self.client.follower().length(), cut)),
            Event::Tick => {}
            Event::Failed(error) => return Err(error),
        }
        Ok(Vec::new())
    }

    /// An entry of this client has a place. A log that has told of others up to there, and not of
    /// it, has gone back: nobody would ever hear of it.
    fn is_appended(&mut self, turn: u64, place: u64) -> Result<()> {
        if !self.state.sent.contains_key(&turn) {
            return Ok(()); // it was heard meanwhile
        }
        self.state.appended.insert(place);
        if place < self.client.follower().length() { Err(elsewhere()) } else { Ok(()) }
    }

    /// Asks for what has arrived, as long as there is room.
    fn ask(&mut self) -> Result<Vec<Effect>> {
        let mut effects = Vec::new();
        while self.state.waiting.len() < UNDER_WAY_MAX
            && let Some(Arrival { address, access, reply, .. }) = self.state.arrived.pop_front()
        {
            effects.extend(self.client.ask(Some((address.0, access.clone())))?);
            self.state.waiting.insert(self.client.turn(), (address.0, access, reply));
        }
        Ok(effects)
    }

    /// Says what asks for nothing: that it leaves, when nobody waits any longer; or that it lives.
    fn speak(&mut self) -> Result<Vec<Effect>> {
        let State { is_closing, waiting, arrived, leaves, sent, .. } = &self.state;
        if leaves.is_some() {
            return Ok(Vec::new());
        }
        if *is_closing && waiting.is_empty() && arrived.is_empty() {
            // Others go on with what it builds, or this client when it comes back.
            self.closing.send_replace(true);
            let effects = self.client.leave()?;
            let until = self.grid.now() + LEAVES_WITHIN * self.upkeep.public_time();
            self.state.leaves = Some((self.client.turn(), until));
            return Ok(effects);
        }
        let is_to_speak = sent.is_empty() && self.upkeep.is_to_speak(self.client.follower());
        if is_to_speak { self.client.ask(None) } else { Ok(Vec::new()) }
    }

    /// A turn has been answered, or came too late: the last one, too?
    fn is_answered(&mut self, turn: u64) {
        if let Some((last, until)) = &mut self.state.leaves
            && *last == turn
        {
            *until = 0;
        }
    }

    /// Gives the state to those for whom all is there that they wait for.
    fn cut(&mut self) {
        let (client, cells) = (&self.client, &self.cells);
        let waits = |(length, asked): CutAsked| match Cut::of(client, cells, length) {
            Some(cut) => {
                let _nobody_waits = asked.send(cut);
                None
            }
            None => Some((length, asked)),
        };
        self.state.cuts =
            std::mem::take(&mut self.state.cuts).into_iter().filter_map(waits).collect();
    }

    /// Takes over what has been missed for the public time.
    fn take_over(&mut self) -> Result<Vec<Effect>> {
        let (now, late) = (self.grid.now(), self.upkeep.public_time());
        let is_late = |since: &Nanos| now >= since + late;
        let missed: Vec<u64> = self
            .state
            .missing
            .iter()
            .filter(|(place, since)| is_late(since) && !self.state.touching.contains(place))
            .map(|(place, _)| *place)
            .collect();
        let mut effects = Vec::new();
        for place in missed {
            self.state.missing.insert(place, now); // the next one, if its cells do not come
            effects.extend(self.client.take_over(place)?);
        }
        Ok(effects)
    }

    /// Results are there of all places before.
    fn trim(&mut self) {
        let replayed = self.client.follower().replayed();
        while let Some(first) = self.state.missing.first_entry()
            && *first.key() < replayed
        {
            first.remove();
        }
        self.replayed.send_replace(replayed);
    }

    /// The server does not have the cells of a place: right, if nobody needs them any more.
    async fn are_dropped(&mut self, place: u64) -> Result<()> {
        let epoch = self.client.follower().schedule.epoch_of(place);
        let later = self.upkeep.has_superblock(&self.site, epoch + 2).await?;
        // Its result was there before that superblock, and comes.
        if later { Ok(()) } else { Err(lied("cells are withheld")) }
    }

    fn superblock(&mut self, number: u64, found: Option<Known>) -> Result<Vec<Effect>> {
        self.upkeep.is_asked(found.is_some());
        let Some(Known { stored, remains }) = found else { return Ok(Vec::new()) };
        if let Some(remains) = remains {
            self.state.removing += 1;
            self.beside(async move { remains.remove().await.map(|()| Event::Removed) });
        }
        if number != self.client.newest_superblock() + 1 {
            return Ok(Vec::new());
        }
        self.state.superblock = stored;
        // Its places could not be touched before, by nobody.
        let (schedule, now) = (self.client.follower().schedule, self.grid.now());
        for (_, since) in self.state.missing.range_mut(schedule.first_of(number)..) {
            *since = now;
        }
        self.cells.forget(number.saturating_sub(3));
        self.upkeep.is_superblock(self.client.follower(), number, now);
        self.client.superblock(number)
    }

    async fn take_place(&mut self, mut effects: Vec<Effect>) -> Result<()> {
        // An entry that came too late is asked for anew.
        while let Some(at) = effects.iter().position(|effect| matches!(effect, Effect::Void(_))) {
            let Effect::Void(turn) = effects.remove(at) else { continue };
            self.is_answered(turn);
            if let Some((address, access, reply)) = self.state.waiting.remove(&turn) {
                effects.extend(self.client.ask(Some((address, access.clone())))?);
                self.state.waiting.insert(self.client.turn(), (address, access, reply));
            }
        }
        if effects.is_empty() {
            return Ok(());
        }
        let mut leaves = Vec::new();
        for effect in effects {
            match effect {
                Effect::Append(entry) => {
                    let bytes = self.sealed(&entry)?;
                    self.state.sent.insert(entry.turn, digest(&[&bytes]));
                    let (session, turn) = (entry.session, entry.turn);
                    leaves.push(Leaving::Append(LogEntry { session, turn, bytes }));
                }
                Effect::Register(length, log) => self.save(length, log).await?,
                Effect::Touch(place, slots) => leaves.push(Leaving::Touch(place, slots)),
                Effect::Publish(found) => {
                    let canary = &self.client.follower().canary;
                    let sealed = seal_result(&self.site, &found, canary)?;
                    self.state.publishing += 1;
                    leaves.push(Leaving::Publish(found, sealed));
                }
                Effect::Answer(turn, before) => {
                    self.is_answered(turn);
                    if let Some((_, access, reply)) = self.state.waiting.remove(&turn) {
                        leaves.push(Leaving::Answer(access, before, reply));
                    }
                }
                Effect::Void(_) => {}
            }
        }
        self.grid.next_usable_point(|| ()).await;
        leaves.into_iter().for_each(|leaving| self.leave(leaving));
        Ok(())
    }

    fn sealed(&self, entry: &super::entry::Entry) -> Result<Bytes> {
        seal_entry(&self.site, entry, self.client.shape().value_bytes)
    }

    /// What is seen is kept, before anything behind it takes place.
    async fn save(&self, length: u64, log: Digest) -> Result<()> {
        let follower = self.client.follower();
        let start = follower.start_of(follower.schedule.epoch_of(length.saturating_sub(1)));
        let seen = Seen {
            superblock: self.client.newest_superblock(),
            stored: self.state.superblock,
            length,
            digest: log,
            epoch_start: start.map(|start| start.history).unwrap_or_default(),
        };
        Ok(self.seen.save(&seen).await?)
    }

    fn leave(&mut self, leaving: Leaving) {
        let (log, grid) = (self.log.clone(), self.grid.clone());
        match leaving {
            Leaving::Append(entry) => _ = self.appends.send(entry),
            Leaving::Touch(place, slots) => {
                let cells = self.cells.clone();
                self.state.touching.insert(place);
                self.beside(async move { Ok(Event::Cells(place, cells.touch(&slots).await?)) });
            }
            Leaving::Publish(Found { place, .. }, sealed) => self.beside(async move {
                publish(log, grid, place, sealed).await?;
                Ok(Event::Published(place))
            }),
            Leaving::Answer(access, before, reply) => {
                let before = before.unwrap_or_default();
                let answer = access.answer(before.clone(), access.applied_to(&before));
                if let Some(reply) = reply {
                    let _nobody_waits = reply.send(Ok(answer));
                }
            }
        }
    }

    /// Does something beside all else, and tells what came of it.
    pub fn beside(&mut self, does: impl Future<Output = Result<Event>> + Send + 'static) {
        let tells = self.tells.clone();
        self.state.beside.spawn(async move {
            let event = does.await.unwrap_or_else(Event::Failed);
            let _nobody_serves = tells.tell(event);
        });
    }

    /// Tells all that have not been answered, and all that come yet.
    fn refuse_all(&mut self, reason: &Error) {
        self.state.beside.abort_all();
        for (_, (_, _, reply)) in self.state.waiting.drain() {
            reply.into_iter().for_each(|reply| _ = reply.send(Err(reason.clone())));
        }
        self.state.arrived.drain(..).for_each(|arrival| arrival.refuse(reason));
        self.events.end(reason);
    }
}

/// What leaves at the next point.
enum Leaving {
    Append(LogEntry),
    Touch(u64, Vec<(Table, u32)>),
    Publish(Found, Bytes),
    Answer(Access, Option<Bytes>, Reply),
}
