//! Instants of a proxy whose messages leave on a grid: when it has taken what came, and when it has
//! decided what leaves.
//!
//! 1. What comes is taken in the middle between two points, so it counts from the point after that.
//!    Reads that count from one point were taken in the order of their requests.
//! 2. What leaves at a point was decided at it. But an engine's records, and its deletions of
//!    versions, were decided a point before: after all that counts from there.
//!
//! A failure or lie that is taken between the two ends all: then what was decided does not leave
//! any more.
//!
//! So events are put into that order before the machine sees them, each with the time from which it
//! counts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fogbank_env::Nanos;
use fogbank_store::trace::{Blame, Event, Outcome, Request, Sent};

use crate::oracle::LIE;
use crate::oracle::blob::JOURNAL;
use crate::oracle::fault::{Step, fault};

/// The order of an event: from when it counts, what kind it is, and where among those.
type Place = (Nanos, u8, u64, u64);

const ARRIVALS: u8 = 0;
const REPLIES: u8 = 1;
const WRITES: u8 = 2;
const DEPARTURES: u8 = 3;

/// See the module.
#[derive(Debug)]
pub(in crate::oracle) struct Instants {
    quantum: Nanos,
    held: BTreeMap<Place, Event>,
    /// Events so far.
    count: u64,
    /// When the last came.
    last: Nanos,
    /// Whether the vault is open and the engine's calls have begun.
    is_open: bool,
    /// Reads under way.
    reads: HashSet<u64>,
    /// Puts: what became of one is looked for if it fails.
    puts: HashSet<u64>,
    /// From when other failures, lies, and looks at what became of a put count.
    ends: BTreeSet<Nanos>,
    /// By time: the place of the first read that counts from then.
    first_reads: HashMap<Nanos, u64>,
    /// Whether also without a grid all events of an instant are to be known at once.
    holds: bool,
}

impl Instants {
    /// Of a grid of `quantum`; zero if there is none.
    pub fn new(quantum: Nanos) -> Self {
        Self {
            quantum,
            held: BTreeMap::new(),
            count: 0,
            last: 0,
            is_open: false,
            reads: HashSet::new(),
            puts: HashSet::new(),
            ends: BTreeSet::new(),
            first_reads: HashMap::new(),
            holds: false,
        }
    }

    /// Gives all events of an instant at once, also where there is no grid.
    pub fn whole(self) -> Self {
        Self { holds: true, ..self }
    }

    /// Takes an event in as it happened; returns those whose order is known by now.
    pub fn take(&mut self, event: &Event) -> Step<Vec<(Nanos, Event)>> {
        if self.quantum == 0 && !self.holds {
            return Ok(vec![(event.at(), event.clone())]);
        }
        if self.quantum == 0 {
            self.last = event.at();
            self.count += 1;
            self.held.insert((event.at(), REPLIES, self.count, 0), event.clone());
            return Ok(self.drain(event.at()));
        }
        self.check(event)?;
        self.last = event.at();
        let place = self.place(event);
        self.held.insert(place, event.clone());
        // What is still to come was decided a quantum ago at the earliest.
        Ok(self.drain(event.at().saturating_sub(self.quantum)))
    }

    /// The process has ended: what had been decided by then. What came and was not taken never
    /// counted.
    pub fn end(&mut self) -> Vec<(Nanos, Event)> {
        let known = self.drain(self.last + 1);
        *self = Self { holds: self.holds, ..Self::new(self.quantum) };
        known
    }

    /// Whether what was decided at `at`, to leave at the next point, may not have left any more.
    pub fn may_end_after(&self, at: Nanos) -> bool {
        self.ends.contains(&(at + self.quantum))
    }

    fn drain(&mut self, before: Nanos) -> Vec<(Nanos, Event)> {
        let later = self.held.split_off(&(before, 0, 0, 0));
        let known = std::mem::replace(&mut self.held, later);
        self.first_reads.retain(|at, _| *at >= before);
        known.into_iter().map(|((at, ..), event)| (at, event)).collect()
    }

    fn check(&self, event: &Event) -> Step {
        let leaves = matches!(event, Event::Sent(_) | Event::ClientReply(_));
        if leaves && !event.at().is_multiple_of(self.quantum) {
            let due = format!("a multiple of {} ns", self.quantum);
            return fault("on-grid", due, format!("{} ns", event.at()));
        }
        Ok(())
    }

    fn place(&mut self, event: &Event) -> Place {
        self.count += 1;
        let (at, count) = (event.at(), self.count);
        match event {
            Event::ClientRequest(_) => (self.counts_from(at), ARRIVALS, count, 0),
            Event::Mark(mark) => {
                if mark.label == LIE {
                    let from = self.counts_from(at);
                    self.ends.insert(from);
                    return (from, REPLIES, count, 0);
                }
                // The proxy's own: said when a message leaves.
                (at, DEPARTURES, count, 0)
            }
            Event::Done(done) => {
                let from = self.counts_from(at);
                let was_put = self.puts.remove(&done.id);
                let is_doubt = was_put && done.outcome == Outcome::Failed(Blame::Absent);
                let has_failed = matches!(done.outcome, Outcome::Failed(_)) && !is_doubt;
                // What a look at a put finds may be somebody else's, or nothing.
                if has_failed || matches!(done.outcome, Outcome::Blob(_)) {
                    self.ends.insert(from);
                }
                match self.reads.remove(&done.id) {
                    true => {
                        let first = *self.first_reads.entry(from).or_insert(count);
                        (from, REPLIES, first, done.id)
                    }
                    false => (from, REPLIES, count, 0),
                }
            }
            Event::ClientReply(_) | Event::Heard(_) => (at, DEPARTURES, count, 0),
            Event::Sent(sent) => self.departure(sent, count),
        }
    }

    fn departure(&mut self, sent: &Sent, count: u64) -> Place {
        let (at, before) = (sent.at, sent.at.saturating_sub(self.quantum));
        if matches!(sent.request, Request::BlobPut { .. }) {
            self.puts.insert(sent.id);
        }
        let is_record = |name: &str| name.starts_with(JOURNAL) && self.is_open;
        match &sent.request {
            Request::WriteChunks { .. } => return (at, WRITES, count, 0),
            Request::DeleteChunks { .. } => return (before, DEPARTURES, count, 0),
            Request::BlobPut { name, .. } if is_record(name) => {
                return (before, DEPARTURES, count, 0);
            }
            Request::ReadChunks { .. } | Request::ReadCells { .. } => {
                _ = self.reads.insert(sent.id);
            }
            Request::CreateArray { .. } => self.is_open = true,
            _ => {}
        }
        (at, DEPARTURES, count, 0)
    }

    /// The point from which what comes at `at` counts.
    fn counts_from(&self, at: Nanos) -> Nanos {
        let half = self.quantum / 2;
        let taken = (at + half).next_multiple_of(self.quantum) - half;
        (taken / self.quantum + 1) * self.quantum
    }
}
