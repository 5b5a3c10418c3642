//! One task carries out what the plane says.
//!
//! 1. What has arrived and come by a moment in the middle between two points of the grid is taken
//!    then, in its order; the plane says what has to take place.
//! 2. Entries go into the journal, several records at once, while events are taken (`departing`).
//! 3. At the next point messages and answers leave whose entries, and all before them, are durable.
//!    Chains are walked meanwhile.
//! 4. From time to time the state, as the journal has it, becomes a checkpoint. It is written
//!    beside all this, onto the trusted disk, and so is it adopted: its commit record leaves for
//!    the first cloud at a point, when what the last one superseded is gone. Where the next one is
//!    due before that, no access departs until it is done: the journal is not to grow without end.
//!    In the end whoever of both holds it up is told; the first cloud when it keeps a commit record
//!    waiting as long as any other request.
//! 5. A session that has ended, or whose cloud is silent, is opened again, and what is under way is
//!    done again. What is waited for in vain is told (`waiting`), and who refuses (`refusals`).
//! 6. At closing the trusted disk has a time to keep the last checkpoint, then the first cloud one
//!    for its commit record, then that disk one to forget what it superseded.
//!
//! # Invariants
//! - Entries are written in the order in which the plane gave them out, by this task alone.
//! - Nothing is sent while a cloud has no session: what is under way is repeated when both have.
//! - Whatever goes wrong ends everything: no message and no answer leaves after it.
//!
//! # What the clouds see
//! Messages at points of the grid. How long a step, the journal or a checkpoint takes moves them
//! and commit records by whole quanta, and does not depend on what is asked for. Nothing of a
//! checkpoint but its commit record.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use fogbank_durable::{Checkpoint, Cut, PutAdoption, Vault};
use fogbank_env::{Nanos, compute};
use fogbank_mix::message::{FromHolder, FromShuffler, Reached};
use fogbank_mix::server::UNREACHED;
use fogbank_mix::session::FromCloud;
use fogbank_store::DepartureGrid;
use tokio::task::JoinSet;

use super::blame::lied_by;
use super::chain::Uncovered;
use super::departing::{Departing, Leaving};
use super::links::{Link, OfLink};
use super::plane::{Effect, MulticloudPlane};
use super::refusals::Refusals;
use super::waiting::{Looks, Overdue, Path};
use super::walking::Walking;
use super::witness;
use crate::immediate::arrival::Arrival;
use crate::immediate::beside::leave_now;
use crate::immediate::entrance::{EndsMidway, Fault};
use crate::immediate::events::{Events, Happens, Tells};
use crate::immediate::sequencer::Reply;
use crate::{Error, Result, of_task};

/// What happens.
pub enum Event {
    /// An access is submitted.
    Arrives(Arrival),
    /// Nothing will arrive any more.
    Closes,
    /// Something of the link with the first (0) or the second (1) cloud.
    Link(usize, OfLink),
    /// Chains have been walked.
    Uncovered(Result<Uncovered>),
    /// A checkpoint is written.
    Written(Result<Checkpoint>),
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

/// See the module.
pub struct Serving {
    pub plane: MulticloudPlane,
    pub vault: Vault,
    pub grid: DepartureGrid,
    pub links: [Link; 2],
    pub tells: Tells<Event>,
    pub events: Events<Event>,
    pub fault: Arc<Fault>,
    pub departing: Departing,
    pub limits: Limits,
    pub looks: Looks,
    pub walking: Walking,
    pub state: State,
}

/// Numbers of the settings.
pub struct Limits {
    pub under_way_max: usize,
    /// Entries of the journal from one checkpoint to the next: those of jobs that begin again, too.
    pub entries_max: u64,
    /// For how long the first cloud is waited for that is to keep a commit record.
    pub commit_nanos: Nanos,
    /// For how long the trusted disk is waited for, when nothing goes on but by it.
    pub closing_nanos: Nanos,
}

/// What is under way beside the plane.
#[derive(Default)]
pub struct State {
    /// Arrived, with no room yet.
    pub arrived: VecDeque<Arrival>,
    pub replies: HashMap<u64, Reply>,
    pub is_closing: bool,
    /// Whether both sessions were open.
    pub has_begun: bool,
    pub refusals: Refusals,
    /// Since when nothing goes on but by a checkpoint: it closes, or no access may depart.
    pub idle_since: Option<Nanos>,
    /// Entries of the journal since the last cut.
    pub since_cut: u64,
    /// The cut of the last checkpoint, until it is adopted.
    pub cut: Option<Cut>,
    /// One that is written, and whose commit record has not left.
    pub written: Option<Checkpoint>,
    /// The commit record on its way, and since when.
    pub adoptions: JoinSet<Result<PutAdoption>>,
    pub adopts_since: Option<Nanos>,
    pub beside: JoinSet<Result<()>>,
    /// Of what the last checkpoint superseded.
    pub deletions: JoinSet<Result<()>>,
}

impl State {
    /// Nothing goes on beside any more.
    fn falls_silent(&mut self) {
        (self.written, self.adopts_since) = (None, None);
        (self.beside, self.adoptions, self.deletions) = Default::default();
    }
}

impl Serving {
    /// Opens both sessions, and begins to do again what was under way. Nothing has arrived yet.
    ///
    /// # Errors
    /// Of the cloud that does not answer, or refuses.
    pub async fn begin(&mut self) -> Result<()> {
        while !self.has_sessions() {
            self.take_events().await?;
            self.take_place().await?;
        }
        self.state.has_begun = true;
        Ok(())
    }

    /// Serves until it is closed; then the last checkpoint. Whatever goes wrong ends everything,
    /// and all who wait are told.
    pub async fn run(mut self) -> Result<()> {
        let _or_midway = EndsMidway(self.fault.clone());
        let served = self.serve().await;
        if served.is_err() {
            self.links.iter_mut().for_each(Link::falls_silent);
        }
        let served = match served {
            Err(Error::Bug(what)) => Err(self.stopped(what).await),
            served => served,
        };
        let closed = || Error::Caller("the engine is closed".into());
        let reason = served.clone().err().unwrap_or_else(closed);
        self.fault.set(&reason);
        self.refuse_all(&reason);
        served?;
        let Self { plane, mut vault, grid, limits, .. } = self;
        let sections = plane.save(vault.openings())?;
        let writer = vault.checkpoint_writer()?;
        let near = limits.closing_nanos;
        let checkpoint = in_time(&grid, near, writer.write(sections), || unkept(UNWRITTEN)).await?;
        let closing = vault.close_over(checkpoint);
        let superseded = in_time(&grid, limits.commit_nanos, closing, uncommitted).await?;
        in_time(&grid, near, superseded.delete(), || unkept(UNDELETED)).await
    }

    async fn serve(&mut self) -> Result<()> {
        while !self.is_done() {
            // 1. What has happened by the middle between two points.
            self.take_events().await?;
            // 2. and 3. What follows from it.
            self.take_place().await?;
            // 4. A checkpoint, from time to time.
            self.cut_if_due()?;
            self.commits_in_time()?;
            self.closes_in_time()?;
        }
        while let Some(ended) = self.state.beside.join_next().await {
            of_task(ended)?;
        }
        Ok(())
    }

    /// A record, or a commit record, that could not be put has stopped the vault, which then says
    /// only that it has stopped.
    async fn stopped(&mut self, what: String) -> Error {
        if !self.vault.was_given_up() {
            return Error::Bug(what);
        }
        let put = self.state.adoptions.join_next().await;
        let failed = match put.and_then(|put| of_task(put).err()) {
            Some(failed) => Some(failed),
            None => self.departing.failure().await,
        };
        failed.unwrap_or(Error::Bug(what))
    }

    /// Whether both are open. Until then nothing is sent: all is done again when they are.
    fn has_sessions(&self) -> bool {
        self.links.iter().all(Link::has_session)
    }

    fn is_done(&self) -> bool {
        self.is_idle() && self.state.cut.is_none() && self.state.deletions.is_empty()
    }

    /// Whether it is closing, and all that can be left to do is of a checkpoint.
    fn is_idle(&self) -> bool {
        let State { is_closing, arrived, .. } = &self.state;
        let is_idle = self.plane.under_way() == 0 && arrived.is_empty() && self.events.is_empty();
        *is_closing && is_idle && self.departing.is_empty() && !self.plane.is_accusing()
    }

    /// Whether the next checkpoint is due and the last one does not count. No access departs until
    /// it does: a journal of more than two periods is more than a recovery has been said to read.
    fn is_behind(&self) -> bool {
        self.state.cut.is_some() && self.state.since_cut >= self.limits.entries_max
    }

    /// Does not wait for ever for what has to be kept or forgotten.
    fn closes_in_time(&mut self) -> Result<()> {
        if !self.is_idle() && (!self.is_behind() || self.plane.is_accusing()) {
            self.state.idle_since = None;
            return Ok(());
        }
        let now = self.grid.now();
        let since = *self.state.idle_since.get_or_insert(now);
        // The first cloud has its own time.
        if now < since + self.limits.closing_nanos || self.state.adopts_since.is_some() {
            return Ok(());
        }
        Err(unkept(if self.state.deletions.is_empty() { UNWRITTEN } else { UNDELETED }))
    }

    /// Does not wait for ever for a commit record either, whatever else goes on.
    fn commits_in_time(&self) -> Result<()> {
        match self.commits_until() {
            Some(until) if self.grid.now() >= until => Err(uncommitted()),
            _ => Ok(()),
        }
    }

    /// Until when the first cloud is waited for that is to keep a commit record.
    fn commits_until(&self) -> Option<Nanos> {
        self.state.adopts_since.map(|since| since + self.limits.commit_nanos)
    }

    /// When something has to be looked at, though nothing happens.
    fn next_look(&self) -> Nanos {
        let closes = self.state.idle_since.map(|since| since + self.limits.closing_nanos);
        let closes = closes.filter(|_| self.state.adopts_since.is_none());
        let refused = self.state.refusals.until().filter(|_| !self.plane.is_accusing());
        let looks = [Some(self.looks.next()), refused, closes, self.commits_until()];
        looks.into_iter().flatten().min().unwrap_or(Nanos::MAX)
    }

    async fn take_events(&mut self) -> Result<()> {
        let next_look = self.next_look();
        let moment = tokio::select! { biased;
            landed = self.departing.land() => {
                self.vault.count(landed?).await?;
                self.grid.now()
            }
            moment = self.events.moment() => moment?,
            Some(put) = self.state.adoptions.join_next() => {
                self.adopted(of_task(put)?).await?;
                self.grid.now()
            }
            Some(ended) = self.state.deletions.join_next() => {
                of_task(ended)?;
                self.grid.now()
            }
            () = self.grid.come(next_look) => self.grid.now(),
        };
        while let Some(put) = self.state.adoptions.try_join_next() {
            self.adopted(of_task(put)?).await?;
        }
        while let Some(ended) = self.state.deletions.try_join_next() {
            of_task(ended)?;
        }
        while let Some(event) = self.events.next(moment) {
            let was_accusing = self.plane.is_accusing();
            let effects = self.take(event).await?;
            if self.plane.is_accusing() && !was_accusing {
                // Nothing leaves after a lie, but the question.
                self.departing.falls_silent();
                self.links.iter_mut().for_each(Link::falls_silent);
                self.state.falls_silent();
            }
            self.given_out(effects);
        }
        self.look()?;
        while self.plane.under_way() < self.limits.under_way_max
            && !self.is_behind()
            && let Some(Arrival { address, access, reply, .. }) = self.state.arrived.pop_front()
        {
            self.state.replies.insert(self.plane.next_number(), reply);
            let effects = self.plane.arrive(Some(address.0), access)?;
            self.given_out(effects);
        }
        Ok(())
    }

    /// Chains are walked from now on; all else takes place in its turn.
    fn given_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Uncover(cells) = effect {
                self.walking.push(cells, &mut self.state.beside);
            } else {
                self.state.since_cut += self.departing.push(effect);
            }
        }
    }

    async fn take(&mut self, event: Event) -> Result<Vec<Effect>> {
        match event {
            Event::Arrives(arrival) => self.state.arrived.push_back(arrival),
            Event::Closes => self.state.is_closing = true,
            Event::Uncovered(found) => {
                let found = found?;
                return step(found.whose.is_read(), || self.plane.uncovered(found));
            }
            Event::Written(written) => self.state.written = Some(written?),
            Event::Link(cloud, _) if !self.plane.hears(cloud) => {}
            Event::Link(cloud, of_link) => match of_link {
                OfLink::Comes(FromCloud::Holder(said)) => {
                    self.links[cloud].is_heard();
                    let is_of_read = matches!(said, FromHolder::Records(_));
                    return step(is_of_read, || self.plane.holder_says(cloud, said));
                }
                OfLink::Comes(FromCloud::Shuffler(said)) => {
                    self.links[cloud].is_heard();
                    let is_of_read = matches!(said, FromShuffler::Answer(_));
                    return step(is_of_read, || self.plane.shuffler_says(cloud, said));
                }
                OfLink::Opened(outbox, seen) => {
                    let reached = self.reached();
                    if seen > reached && !self.plane.canary.serves_older() {
                        return Err(Error::Register(witness::older(reached, cloud, seen)));
                    }
                    self.links[cloud].is_open(outbox);
                    if self.plane.is_accusing() || self.has_sessions() {
                        self.departing.forget_messages();
                        return self.plane.repeat();
                    }
                }
                OfLink::Broken(why) => self.links[cloud].open_after(why),
                // Whoever has lied may not let this one through: that ends its session, too.
                OfLink::Failed(Error::Refused(why)) if self.plane.is_accusing() => {
                    self.links[cloud].open_after(why);
                }
                OfLink::Failed(error) if self.plane.is_accusing() => {
                    return Err(self.plane.unproved().unwrap_or(error));
                }
                OfLink::Failed(Error::Refused(why)) if self.state.has_begun => {
                    self.state.refusals.refuses(cloud, &why, self.grid.now());
                    self.links[cloud].open_after(why);
                }
                OfLink::Failed(Error::Fenced) if self.state.has_begun => {
                    self.state.refusals.is_taken(cloud, self.grid.now());
                    self.links[cloud].open();
                }
                OfLink::Failed(Error::Absent(why)) => {
                    return Err(Error::Absent(format!(
                        "the {} cloud: {why}",
                        witness::NAMES[cloud]
                    )));
                }
                OfLink::Failed(Error::Refused(why)) => {
                    let name = witness::NAMES[cloud];
                    return Err(Error::Refused(format!("the {name} cloud: {why}")));
                }
                OfLink::Failed(Error::CloudLied(why)) => {
                    return Err(lied_by(cloud, &why.to_string()));
                }
                OfLink::Failed(error) => return Err(error),
            },
        }
        Ok(Vec::new())
    }

    /// Looks whether what is waited for goes on. A cloud that owes it and has given no sign is
    /// opened again; it is told when that has been in vain, also where both are there.
    fn look(&mut self) -> Result<()> {
        let refusal = self.state.refusals.told(self.grid.now());
        if let Some(refusal) = refusal.filter(|_| !self.plane.is_accusing()) {
            return Err(refusal);
        }
        let overdue = self.looks.look(self.grid.now(), &self.plane);
        let Some(Overdue { path, gone, tells, seconds }) = overdue else { return Ok(()) };
        let stays_silent = match path {
            Path::Cloud(_) => self.plane.canary.waits_for_clouds(),
            Path::Between => self.plane.canary.waits_for_links(),
        };
        if let Some(error) = tells.and_then(|_| self.plane.unproved()) {
            return Err(error);
        }
        let is_there = |cloud: usize, since| self.links[cloud].has_sign_since(since);
        if tells.is_some_and(|since| path.ends().all(|cloud| is_there(cloud, since)))
            && !stays_silent
        {
            return Err(self.overdue(path, gone, seconds));
        }
        for cloud in path.ends() {
            let link = &mut self.links[cloud];
            if link.has_session() && !link.has_sign_since(gone) {
                link.open();
            }
        }
        Ok(())
    }

    /// What is waited for in vain: of whom, and what a cloud has said of itself since. While one
    /// has no session the other is sent nothing, and has nothing to answer.
    fn overdue(&self, path: Path, since: Nanos, seconds: u64) -> Error {
        let says = |cloud: usize| {
            let (why, name) = (self.links[cloud].ended_since(since)?, witness::NAMES[cloud]);
            let of = if why.starts_with(UNREACHED) {
                "the link between the two clouds: of "
            } else {
                ""
            };
            Some(format!("{of}the {name} cloud: {why}; this was tried for {seconds} s"))
        };
        let other = (0..2).filter(|cloud| path == Path::Cloud(1 - cloud));
        let said = path.ends().chain(other).find_map(says);
        Error::Absent(said.unwrap_or_else(|| format!("{path} for {seconds} s")))
    }

    async fn take_place(&mut self) -> Result<()> {
        // 1. What has to be durable is made so.
        self.departing.begin(&mut self.vault, &self.fault).await?;
        let is_covered = self.state.cut.as_ref().is_some_and(|cut| self.vault.covers(cut));
        let adopts = is_covered
            && !self.plane.is_accusing()
            && self.state.written.is_some()
            && self.state.deletions.is_empty();
        // 2. What stands behind it leaves.
        if adopts || self.departing.may_leave() {
            self.grid.next_usable_point(|| ()).await;
        }
        let reached = self.reached();
        let sends = self.has_sessions() || self.plane.is_accusing();
        for leaving in self.departing.leave() {
            match leaving {
                Leaving::Message(cloud, message) if sends => {
                    self.links[cloud].send(message, reached)
                }
                Leaving::Message(..) => {}
                Leaving::Answer(number, value) => {
                    if let Some(Some(reply)) = self.state.replies.remove(&number) {
                        let _nobody_waits = reply.send(Ok(value));
                    }
                }
            }
        }
        if adopts {
            self.begin_adoption().await?;
        }
        while let Some(ended) = self.state.beside.try_join_next() {
            of_task(ended)?;
        }
        Ok(())
    }

    /// How far the journal goes: whatever leaves now stands on it.
    fn reached(&self) -> Reached {
        Reached { epoch: self.vault.epoch(), place: self.vault.place() }
    }

    /// All that the plane has given out has its record: the state is what that leads to.
    fn cut_if_due(&mut self) -> Result<()> {
        let State { since_cut, cut, .. } = &self.state;
        let is_due = *since_cut >= self.limits.entries_max && cut.is_none();
        if !is_due || !self.departing.is_recorded() || self.plane.is_accusing() {
            return Ok(());
        }
        self.state.since_cut = 0;
        let sections = self.plane.save(self.vault.openings())?;
        self.state.cut = Some(self.vault.cut());
        let (writer, tells) = (self.vault.checkpoint_writer()?, self.tells.clone());
        self.state.beside.spawn(async move {
            let written = writer.write(sections).await.map_err(Error::from);
            tells.tell(Event::Written(written)).map_err(|_| gone())
        });
        Ok(())
    }

    /// The commit record of the checkpoint leaves, of which every record before its cut counts.
    async fn begin_adoption(&mut self) -> Result<()> {
        let Some((checkpoint, cut)) = self.state.written.take().zip(self.state.cut) else {
            return Err(Error::Bug("no cut".into()));
        };
        let begun = self.vault.begin_adoption(cut, checkpoint)?;
        let put = async move { Ok(begun.put().await?) };
        self.state.adopts_since = Some(self.grid.now());
        leave_now(&self.fault, &mut self.state.adoptions, put).await;
        Ok(())
    }

    /// The checkpoint counts from now on.
    async fn adopted(&mut self, adoption: PutAdoption) -> Result<()> {
        self.vault.end_adoption(adoption).await?;
        (self.state.cut, self.state.adopts_since) = (None, None);
        let superseded = self.vault.take_superseded();
        self.state.deletions.spawn(async move { Ok(superseded.delete().await?) });
        Ok(())
    }

    /// Tells all that have not been answered, and all that come yet.
    fn refuse_all(&mut self, reason: &Error) {
        for (_, reply) in self.state.replies.drain() {
            reply.into_iter().for_each(|reply| _ = reply.send(Err(reason.clone())));
        }
        self.state.arrived.drain(..).for_each(|arrival| arrival.refuse(reason));
        self.events.end(reason);
    }
}

/// A step of a read mostly moves a few blocks, which takes no longer than to hand the core over.
/// One of a job moves whole levels.
fn step<T>(is_of_read: bool, work: impl FnOnce() -> T) -> T {
    if is_of_read { work() } else { compute(work) }
}

/// What this brings within so many nanoseconds.
async fn in_time<T>(
    grid: &DepartureGrid,
    nanos: Nanos,
    work: impl Future<Output = fogbank_durable::Result<T>>,
    late: impl FnOnce() -> Error,
) -> Result<T> {
    let until = grid.now() + nanos;
    tokio::select! { biased;
        done = work => Ok(done?),
        () = grid.come(until) => Err(late()),
    }
}

/// The first cloud does not do what it has to for a checkpoint.
fn uncommitted() -> Error {
    let name = witness::NAMES[0];
    Error::Absent(format!("the {name} cloud: it does not keep the commit record"))
}

/// The trusted disk does not do what is for it: all of a checkpoint but its commit record.
fn unkept(what: &str) -> Error {
    Error::Register(format!("the trusted disk: {what}"))
}

const UNWRITTEN: &str = "a checkpoint does not come to its end";
const UNDELETED: &str = "what the last checkpoint took the place of is not deleted";

pub(super) fn gone() -> Error {
    Error::Bug("whoever serves has gone".into())
}
