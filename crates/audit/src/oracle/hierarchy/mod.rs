//! What the server of a site sees of all its clients: their traces, joined by the log.
//!
//! 1. *The log*: every session appends its turns one by one; all hear the same entries, in the
//!    order of the server's indices, and the same results. Each has one length.
//! 2. *A touch* is for a place of the client's own that it has heard, or for one whose result was
//!    missed for the public time. It names one slot of every table of the epoch, newest first.
//! 3. *No slot is named twice*, but by touches that are the same in all: of one place, by another
//!    client. Of an epoch that is over there is one of each place.
//! 4. *Pieces of builds*: which reads and writes there are, how long each is, and from which length
//!    of the log on it may leave; who does them, by who has logged what: builders, if they are
//!    there, whom the length of what they put first tells. Their ticks are nobody else's.
//! 5. *Objects* are put if absent, when what they say is there, and have the size of their kind.
//!    Superblocks wait for results that all have.
//! 6. *Who has put a superblock sweeps*: nothing that a touch may need.
//!
//! Free are: when clients come and ask, which unread slot of each table a touch names, and times
//! but for who waits for the public time. Slots go to the statistics.
//!
//! A request of an earlier that failed may be sent again. How a site's traces are joined is in
//! `together`.

mod cells;
mod client;
mod config;
mod engine;
mod layout;
mod named;
mod objects;
mod pieces;
mod rules;
pub mod simulator;

mod together;
mod whose;

use std::collections::{BTreeMap, HashMap};

use fogbank_env::{Nanos, Purpose, Randomness};
use fogbank_store::ChunkName;
use fogbank_store::trace::{ChunkCells, Event, Heard, LogCall, Mark, Outcome, Request, Sent};

pub use config::HierarchyConfig;
pub use engine::NAME;
pub use rules::RULES;
pub use together::Together;

use self::cells::{Cells, MISSING};
use self::client::Client;
use self::layout::{Layout, Table};
use self::pieces::Begun;
use self::rules::{Rule, fault};
use self::together::ENDS;
use self::whose::Sessions;
use super::Machine;
use super::fault::{Refused, Step, Stop, Summary};
use crate::{Observation, Observer};

/// See the module.
pub struct Hierarchy {
    layout: Layout,
    clients: BTreeMap<u32, Client>,
    cells: Cells,
    sessions: Sessions,
    /// By place: what stands in the log, and what was published.
    log: Vec<[Option<u64>; 2]>,
    /// Whose each entry is, by what was sealed.
    appended: HashMap<u64, u32>,
    /// Pieces that were begun, whose owners are known when all traces are.
    begun: Vec<Begun>,
    under_way: BTreeMap<u64, (u32, Request)>,
    /// Requests to follow the log, and whose they are.
    follows: BTreeMap<u64, u32>,
    /// The newest superblock that was put.
    newest: u64,
    summary: Summary,
}

impl Hierarchy {
    /// Of a site of which nothing was seen yet.
    ///
    /// # Errors
    /// [`Refused`] for one that the specification does not follow.
    pub fn new(config: &HierarchyConfig) -> Result<Self, Refused> {
        config.check()?;
        let layout = Layout::new(config);
        let random = Randomness::repeatable(0).stream(Purpose::Shuffle);
        let (clients, sessions, log, appended, begun) = Default::default();
        let (under_way, follows) = Default::default();
        Ok(Self {
            cells: Cells::new(&layout, random),
            layout,
            clients,
            sessions,
            log,
            appended,
            begun,
            under_way,
            follows,
            newest: 1,
            summary: Summary::default(),
        })
    }

    fn sent(&mut self, sent: &Sent, out: &mut dyn Observer) -> Result<(), Stop> {
        let Sent { id, at, connection: who, request, .. } = sent;
        self.summary.requests += 1;
        self.under_way.insert(*id, (*who, request.clone()));
        if let Request::Log(LogCall::Follow { .. }) = request {
            self.follows.insert(*id, *who);
        }
        let client = self.clients.entry(*who).or_default();
        if client.sends_again(request) {
            return Ok(());
        }
        match request {
            Request::Log(call) => self.calls_log(*who, call, out)?,
            Request::ReadCells { reads } => self.touches(*who, reads, *at, out)?,
            Request::ReadChunks { chunks } => self.reads(*who, chunks)?,
            Request::WriteChunks { writes } => self.writes(*who, writes, out)?,
            Request::CreateArray { array, shape } => self.makes(*array, *shape)?,
            Request::BlobPut { name, bytes, condition, fingerprint } => {
                self.puts(*who, name, (*bytes, condition), *fingerprint, out)?;
            }
            Request::BlobGet { name } => self.gets(*who, name)?,
            Request::BlobList { prefix } => self.lists(*who, prefix)?,
            Request::BlobDelete { names } => self.deletes(*who, names)?,
            Request::DeleteChunks { chunks } => self.deletes_chunks(*who, chunks)?,
            Request::Barrier => self.settles(*who, *id)?,
            other => return Ok(fault(Rule::CallOfSite, "no such call", other.word())?),
        }
        Ok(())
    }

    /// The trace of a client has come to its end.
    fn ends(&mut self, who: u32) {
        let session = self.clients.get(&who).and_then(|client| client.session);
        session.into_iter().for_each(|session| self.sessions.ends(session));
        self.under_way.retain(|_, (of, _)| *of != who);
        self.follows.retain(|_, of| *of != who);
    }

    fn calls_log(&mut self, who: u32, call: &LogCall, out: &mut dyn Observer) -> Step {
        let (layout, client) = (&self.layout, self.clients.entry(who).or_default());
        match *call {
            LogCall::Append { session, turn, bytes, fingerprint } => {
                has_bytes(Rule::EntryBytes, layout.of.entry_bytes, bytes)?;
                if client.session != Some(session) {
                    let expected = format!("{:?}", client.session);
                    return fault(Rule::OwnSession, expected, session.to_string());
                }
                let next = client.turns.len() as u64 + 1;
                if turn != next {
                    return fault(Rule::TurnOnce, next.to_string(), turn.to_string());
                }
                client.turns.push(fingerprint);
                self.appended.insert(fingerprint, session);
                client.unheard.insert(fingerprint, turn);
                out.observe(&Observation::Blob { kind: "entry", bytes, fingerprint });
            }
            LogCall::Publish { place, bytes, fingerprint } => {
                has_bytes(Rule::ResultBytes, layout.of.result_bytes, bytes)?;
                client.publishes(layout, place, fingerprint)?;
                out.observe(&Observation::Blob { kind: "result", bytes, fingerprint });
            }
            LogCall::Follow { from } => {
                let first = layout.first_of(client.superblock.0.saturating_sub(3));
                // Behind a stream that broke it goes on with what it lacks, and never goes back:
                // whoever asked for one result again would show which.
                let due = client.followed..=client.length.max(first);
                if !due.contains(&from) || (client.turns.is_empty() && from != first) {
                    return fault(Rule::FollowFrom, format!("{due:?}"), from.to_string());
                }
                client.followed = from;
                if client.turns.is_empty() {
                    (client.from, client.length) = (Some(from), from);
                }
                // Whoever finds a new site has greeted before.
                client.from.get_or_insert(from);
            }
            LogCall::Forget { before } => {
                let kept = u64::from(layout.of.kept_epochs);
                let due = client.has_put.iter().filter_map(|number| number.checked_sub(kept));
                let due: Vec<u64> = due.map(|epoch| layout.first_of(epoch)).collect();
                if !due.contains(&before) {
                    return fault(Rule::ForgetDue, format!("{due:?}"), before.to_string());
                }
            }
        }
        Ok(())
    }

    fn touches(
        &mut self,
        who: u32,
        reads: &[ChunkCells],
        at: Nanos,
        out: &mut dyn Observer,
    ) -> Result<(), Stop> {
        let (mut slots, mut versions) = (Vec::new(), Vec::<ChunkName>::new());
        for read in reads {
            for cell in &read.cells {
                slots.push(self.cells.slot_of(&read.chunk, *cell)?);
                versions.push(read.chunk);
            }
        }
        let (layout, client) = (&self.layout, self.clients.entry(who).or_default());
        let tables: Vec<Table> = slots.iter().map(|(table, _)| *table).collect();
        let by = layout.epoch_by(tables.first());
        let epochs = if by == 1 { vec![0, 1] } else { vec![by] };
        let fitting: Vec<u64> =
            epochs.iter().copied().filter(|epoch| layout.tables(*epoch) == tables).collect();
        let due = client.due(layout);
        let epoch = client.touches(layout, &fitting, at);
        let Some(epoch) = epoch else {
            let of_due = due.map(|epoch| layout.tables(epoch));
            if fitting.is_empty() || (tables.is_empty() && of_due.is_some()) {
                let expected = of_due.unwrap_or_else(|| layout.tables(by));
                let expected = format!("one slot of each of {expected:?}");
                return Ok(fault(Rule::TablesOfTheEpoch, expected, format!("{tables:?}"))?);
            }
            let expected = "a place of its own that it has heard, or one that is late";
            return Ok(fault(Rule::TouchDue, expected, format!("a touch of epochs {fitting:?}"))?);
        };
        self.summary.accesses += 1;
        self.summary.cells_read += slots.len() as u64;
        Ok(self.cells.touch((epoch, who), slots, &versions, out)?)
    }

    fn done(&mut self, id: u64, at: Nanos, outcome: &Outcome) -> Result<(), Stop> {
        let Some((who, request)) = self.under_way.remove(&id) else { return Ok(()) };
        let (layout, client) = (&self.layout, self.clients.entry(who).or_default());
        match (request, outcome) {
            (request, Outcome::Failed(_) | Outcome::Abandoned) => client.has_failed(request),
            (Request::Log(LogCall::Publish { place, .. }), _) => client.settles(layout, place),
            (Request::Log(LogCall::Append { fingerprint, .. }), Outcome::Placed(Some(place))) => {
                self.stands(*place, 0, fingerprint)?;
            }
            (Request::ReadCells { reads }, Outcome::Cells(_)) => {
                let first = reads.first().and_then(|read| read.cells.first().zip(Some(read.chunk)));
                let table = match first {
                    Some((cell, chunk)) => Some(self.cells.slot_of(&chunk, *cell)?.0),
                    None => None,
                };
                match layout.epoch_by(table.as_ref()) {
                    // Nothing tells these two apart: either may be published of.
                    1 => (0..2).for_each(|epoch| client.has_touched(epoch)),
                    epoch => client.has_touched(epoch),
                }
            }
            (request @ (Request::ReadChunks { .. } | Request::WriteChunks { .. }), _) => {
                self.moved(who, &request)?;
            }
            (Request::BlobPut { name, .. }, Outcome::Put(is_done)) => {
                self.has_put(who, &name, *is_done, at)?;
            }
            (Request::BlobGet { name }, Outcome::Blob(Some(_))) => self.has_got(who, &name, at)?,
            (Request::Barrier, _) => self.has_settled(who, id),
            _ => {}
        }
        Ok(())
    }

    fn heard(&mut self, heard: &Heard) -> Result<(), Stop> {
        let Heard { id, at, place, is_result, bytes, fingerprint } = *heard;
        let Some(who) = self.follows.get(&id).copied() else {
            return Ok(fault(Rule::FollowAsked, "a request to follow", id.to_string())?);
        };
        self.stands(place, usize::from(is_result), fingerprint)?;
        let (layout, client) = (&self.layout, self.clients.entry(who).or_default());
        if is_result {
            has_bytes(Rule::ResultBytes, layout.of.result_bytes, bytes)?;
            client.learns(layout, place, at);
            return Ok(());
        }
        has_bytes(Rule::EntryBytes, layout.of.entry_bytes, bytes)?;
        if place < client.length {
            return Ok(()); // told anew, behind a connection that broke
        }
        if place != client.length {
            return Ok(fault(
                Rule::PlacesWithoutGap,
                client.length.to_string(),
                place.to_string(),
            )?);
        }
        client.hears(place, fingerprint, at);
        Ok(())
    }

    /// Of each epoch all of whose results were heard, every place was touched.
    fn are_touched(&self) -> Step {
        let has_result = |place: u64| {
            let known = usize::try_from(place).ok().and_then(|at| self.log.get(at));
            known.is_some_and(|known| known[1].is_some())
        };
        let mut epoch = 0;
        while let (first, epochs) = self.layout.group_of(epoch)
            && self.layout.first_of(first + epochs) <= self.log.len() as u64
        {
            let mut places = self.layout.first_of(first)..self.layout.first_of(first + epochs);
            if places.all(has_result) {
                self.cells.has_touched_all(first)?;
            }
            epoch = first + epochs;
        }
        Ok(())
    }

    /// All are told the same of a place.
    fn stands(&mut self, place: u64, of: usize, print: u64) -> Step {
        if place > self.log.len() as u64 + PLACES_AHEAD {
            return fault(Rule::PlacesWithoutGap, self.log.len().to_string(), place.to_string());
        }
        if self.log.len() as u64 <= place {
            self.log.resize(place as usize + 1, [None; 2]);
        }
        let known = *self.log[place as usize][of].get_or_insert(print);
        if known == print {
            if let Some(session) = self.appended.get(&print).filter(|_| of == 0) {
                self.sessions.logged(place, *session);
            }
            return Ok(());
        }
        fault(Rule::OneLog, format!("{known:016x} at place {place}"), format!("{print:016x}"))
    }
}

impl Machine for Hierarchy {
    fn seed(&mut self, seed: u64) {
        self.cells.seed(Randomness::repeatable(seed).stream(Purpose::Shuffle));
    }

    fn event(&mut self, event: &Event, out: &mut dyn Observer) -> Result<(), Stop> {
        match event {
            Event::Sent(sent) => self.sent(sent, out),
            Event::Done(done) => self.done(done.id, done.at, &done.outcome),
            Event::Heard(heard) => self.heard(heard),
            // Those of the traces themselves are left out where they are joined.
            Event::Mark(Mark { label, number, .. }) if label == ENDS => {
                self.ends(*number as u32);
                Ok(())
            }
            Event::Mark(_) | Event::ClientRequest(_) | Event::ClientReply(_) => Ok(()),
        }
    }

    fn end_trace(&mut self, _: &mut dyn Observer) -> Result<(), Stop> {
        if self.sessions.unknown(self.log.len() as u64).is_some() {
            return Err(Stop::Unpredictable(MISSING));
        }
        self.are_owners()?;
        self.are_touched()?;
        Ok(())
    }

    fn next_trace(&mut self) {}

    fn summary(&self) -> Summary {
        let sessions = self.clients.values().filter(|client| client.session.is_some()).count();
        Summary {
            openings: sessions as u32,
            epochs: self.layout.epoch_of(self.log.len() as u64),
            ..self.summary
        }
    }
}

/// Places of the log that one client may hear of before another.
const PLACES_AHEAD: u64 = 1 << 20;

fn has_bytes(rule: Rule, due: u64, seen: u64) -> Step {
    if due == seen { Ok(()) } else { fault(rule, due.to_string(), seen.to_string()) }
}
