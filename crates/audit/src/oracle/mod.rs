//! The public state machine of an engine, written apart from it on purpose.
//!
//! Fed with the public configuration and the events of a trace, it predicts every record of it:
//! operation, order, bucket, size, version, names and sizes of blobs, the times of departures. What
//! differs is a [`Breach`] of one rule. What it leaves free goes to the observers.
//!
//! Every engine has a machine of its own, and a place in `ENGINES`. They share what a vault is
//! (`blob`, `chain`), what replies have to be (`replies`) and how traces join (`joint`); engines
//! that serve accesses as they come share what is around them (`immediate`).
//!
//! # What is outside
//!
//! Marks are never an input, with two exceptions: a store that lies in a test may say `lie` where
//! the fingerprints of a reply cannot tell, and an engine may say what is public and shown by no
//! message (`partition`). A trace is that of one process, which opens its store once, at the
//! beginning. How many processes there were its owner knows, so [`Summary::openings`] and
//! [`Summary::crashes`] are to be held against that; a trace that is missing among those given is
//! no breach but [`Halt::Unfollowing`], as far as the traces tell. Those of the clients of a site
//! were recorded at once, and are one stream before the machine sees them (`hierarchy`).
//!
//! Tags of conditional puts are not compared with those that the store gave out: replies in a trace
//! have none. A store refuses a wrong one, and then the put of a refused record shows.

mod blob;
mod chain;
mod fault;
pub mod hierarchy;
mod immediate;
mod joint;
pub mod multicloud;
pub mod partition;
mod replay;
mod replies;
pub mod ring;
mod shape;
pub mod simulator;
pub mod tao;

pub use fault::{Halt, Refused, Summary};
pub use replay::{ReplayError, replay};

use fogbank_env::Nanos;
use fogbank_store::trace::{Event, PublicConfig};

use self::fault::{Fault, Stop};
use crate::engine::{self, Entry};
use crate::{Breach, Observer};

/// The engines that this crate knows.
pub(crate) static ENGINES: [Entry; 5] = [
    Entry { name: hierarchy::NAME, read: engine::read::<hierarchy::HierarchyConfig> },
    Entry { name: ring::NAME, read: engine::read::<ring::RingConfig> },
    Entry { name: multicloud::NAME, read: engine::read::<multicloud::MulticloudConfig> },
    Entry { name: partition::NAME, read: engine::read::<partition::PartitionConfig> },
    Entry { name: tao::NAME, read: engine::read::<tao::TaoConfig> },
];

/// Replays the traces of one store.
pub struct Oracle {
    machine: Box<dyn Machine + Send>,
    events: u64,
    /// When the last event was.
    last: Nanos,
}

/// The public state machine of one engine.
pub(crate) trait Machine {
    /// Another seed for what completes leaves.
    fn seed(&mut self, seed: u64);

    /// Takes in the next event.
    fn event(&mut self, event: &Event, out: &mut dyn Observer) -> Result<(), Stop>;

    /// The trace has come to its end: takes in what was held until more of it was known.
    fn end_trace(&mut self, _out: &mut dyn Observer) -> Result<(), Stop> {
        Ok(())
    }

    /// What follows is a further trace of the same store, by a later process with its own clock.
    fn next_trace(&mut self);

    /// What was seen so far, but for the count of events.
    fn summary(&self) -> Summary;
}

impl Oracle {
    /// An oracle for a store of this configuration.
    ///
    /// # Errors
    /// [`Refused`] for one that it does not follow.
    pub fn new(config: &PublicConfig) -> Result<Self, Refused> {
        let (_, engine) = engine::of(config).map_err(Refused)?;
        let machine = engine.machine(config.clock)?;
        Ok(Self { machine, events: 0, last: 0 })
    }

    /// The same, with another seed for what completes leaves: two runs that are compared need two,
    /// or they would agree where nothing of the leaf was shown.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.machine.seed(seed);
        self
    }

    /// Takes in the next event.
    ///
    /// # Errors
    /// [`Halt`]; nothing may be taken in after that.
    pub fn event(&mut self, event: &Event, out: &mut dyn Observer) -> Result<(), Halt> {
        let taken = self.machine.event(event, out);
        let (number, at) = (self.events, event.at());
        (self.events, self.last) = (self.events + 1, at);
        Self::halted(taken, number, at)
    }

    /// The trace has come to its end.
    ///
    /// # Errors
    /// [`Halt`]; nothing may be taken in after that.
    pub fn end_trace(&mut self, out: &mut dyn Observer) -> Result<(), Halt> {
        let taken = self.machine.end_trace(out);
        Self::halted(taken, self.events.saturating_sub(1), self.last)
    }

    fn halted(taken: Result<(), Stop>, number: u64, at: Nanos) -> Result<(), Halt> {
        taken.map_err(|stop| match stop {
            Stop::Unpredictable(reason) => Halt::Unpredictable { event: number, reason },
            Stop::Unfollowing(reason) => Halt::Unfollowing { event: number, reason },
            Stop::Fault(fault) => {
                let Fault { rule, expected, seen } = *fault;
                Halt::Breach(Breach { rule, event: number, at, expected, seen })
            }
        })
    }

    /// What follows is a further trace of the same store, by a later process with its own clock.
    pub fn next_trace(&mut self) {
        self.machine.next_trace();
    }

    /// What was seen so far.
    pub fn summary(&self) -> Summary {
        Summary { events: self.events, ..self.machine.summary() }
    }
}

/// The mark of a store that lies.
const LIE: &str = "lie";
/// Why a trace cannot be followed.
const MIDST: &str = "the trace begins after the store was made, and nothing before it was given";
