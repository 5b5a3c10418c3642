//! A program that is given what is public and nothing else, and writes what a cloud sees of
//! `partition`.
//!
//! It is the specification, asked what is due instead of told what came; what is free it draws as
//! its law says. It is told when clients ask and what the cloud replied. So whatever a cloud sees
//! of an engine that keeps to the specification, this could have written without a single block: if
//! nobody tells the two apart, nothing of what was asked is in it.
//!
//! 1. Whoever runs it tells all that happens ([`Simulator::takes`], [`Simulator::lists`]), also
//!    what it does itself, when it does it.
//! 2. Then he does what it says until it says nothing more ([`Simulator::next`]).
//!
//! Of messages on a grid, and of a pace, it knows nothing: there each leaves as soon as it can.

use fogbank_store::ChunkName;
use fogbank_store::trace::{Event, PublicConfig};

use super::fault::{Fault, Stop};
use super::immediate::Immediate;
use super::immediate::acts::Listed;
use super::partition::{Partition, PartitionConfig};
use super::{Machine, Refused};
use crate::{Breach, Observation};

pub use super::immediate::acts::Act;

/// See the module.
pub struct Simulator {
    machine: Immediate<Partition>,
    listed: Listed,
    is_closing: bool,
}

impl Simulator {
    /// One of a store of this configuration; what is free follows from `seed`.
    ///
    /// # Errors
    /// [`Refused`] for one that it does not follow.
    pub fn new(config: &PublicConfig, seed: u64) -> Result<Self, Refused> {
        let tail: PartitionConfig = config.tail().map_err(Refused)?;
        if tail.quantum_ns > 0 || tail.rate.is_some() {
            return Err(Refused("messages that wait for points".into()));
        }
        let mut machine = Partition::machine(config.clock, &tail)?;
        machine.seed(seed);
        Ok(Self { machine, listed: Listed::default(), is_closing: false })
    }

    /// What is to be done now, if anything. It has to be done and told before this is asked again.
    /// If more `comes` within this moment, only messages of cells are: the rest is decided when all
    /// has come.
    pub fn next(&mut self, comes: bool) -> Option<Act> {
        if comes {
            return self.machine.next_message();
        }
        if self.is_closing {
            self.machine.closes();
        }
        self.machine.next_act(&self.listed)
    }

    /// Something happened. Times never go back within a life.
    ///
    /// # Errors
    /// [`Breach`] if it is not what was due: whoever runs this did not do what it said.
    pub fn takes(&mut self, event: &Event) -> Result<(), Breach> {
        let mut nobody = |_: &Observation<'_>| {};
        let taken = self.machine.take((event.at(), event), &mut nobody);
        taken.map_err(|stop| {
            let (rule, expected, seen) = match stop {
                Stop::Fault(fault) => {
                    let Fault { rule, expected, seen } = *fault;
                    (rule, expected, seen)
                }
                Stop::Unpredictable(why) => ("unpredictable", String::new(), why.into()),
                Stop::Unfollowing(why) => ("unfollowing", String::new(), why),
            };
            Breach { rule, event: 0, at: event.at(), expected, seen }
        })
    }

    /// A list had these names, of blobs or of chunks.
    pub fn lists(&mut self, blobs: &[String], chunks: &[ChunkName]) {
        self.listed.blobs.extend_from_slice(blobs);
        self.listed.chunks.extend_from_slice(chunks);
    }

    /// The owner closes the store.
    pub fn closes(&mut self) {
        self.is_closing = true;
    }

    /// The proxy has stopped; another opens the store.
    pub fn next_life(&mut self) {
        self.machine.next_trace();
        (self.listed, self.is_closing) = (Listed::default(), false);
    }
}
