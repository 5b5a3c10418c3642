//! What every client knows of a table without reading it, and what a builder puts there.
//!
//! # Invariants
//! - Addresses and order are functions of the log: followers download nothing.
//! - Ranks 0 .. m - 1 are the addresses in order, then fillers, then fakes; the order says the slot
//!   of each, so distinct ranks are distinct uniform slots to whoever lacks the key. Of it is kept
//!   the slot of each address, and of each fake that is not drawn yet: a filler has no use.
//! - A built table has one content, whoever builds it.
//! - Addresses and order are made once, by whoever asks for them first: at the start of an epoch,
//!   beside what serves; no query needs them before the next one.
//!
//! Sections 4 and 8 of the protocol (module).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_seal::{Digest, Mark, OrderKey, SiteKeys};

use super::canary::Canary;
use super::fakes::{Fakes, Owned};
use super::numbers::Numbers;
use super::schedule::{Schedule, Table};
use crate::{Error, Result, lied};

/// A cell of a table: an address and its block, or nothing.
pub type Body = Option<(u32, Bytes)>;

/// See the module.
#[derive(Debug)]
pub struct Index {
    /// Which table.
    pub table: Table,
    /// The mark of the history when its build starts.
    pub start: Mark,
    /// What its addresses come from, until they are made.
    from: Mutex<Option<Holds>>,
    made: OnceLock<Made>,
    /// The slots of all fakes, until whoever touches the table takes them.
    fakes: Mutex<Option<Numbers>>,
    /// N.
    blocks: u32,
    reals: u32,
    slots: u32,
    key: OrderKey,
}

/// Where the addresses of a table come from.
#[derive(Debug)]
pub enum Holds {
    /// They are these.
    These(Vec<u32>),
    /// They are those of its sources.
    Sources(Vec<Arc<Index>>),
}

/// What takes a while.
#[derive(Debug)]
struct Made {
    /// Sorted.
    addresses: Numbers,
    /// Of each address.
    slots: Numbers,
}

impl Holds {
    /// Sorted, each once.
    fn addresses(self) -> Vec<u32> {
        let mut addresses = match self {
            Self::These(addresses) => addresses,
            Self::Sources(sources) => sources.iter().flat_map(|of| of.addresses().iter()).collect(),
        };
        addresses.sort(); // a few sorted runs, which it merges
        addresses.dedup();
        addresses
    }
}

impl Index {
    /// That of a table which holds these, whose build starts after a history of mark `start`.
    pub fn new(
        schedule: &Schedule,
        keys: &SiteKeys,
        table: Table,
        start: &Mark,
        holds: Holds,
    ) -> Self {
        let key = keys.order(table.level, table.index, start);
        let (reals, slots) = (schedule.reals(table.level), schedule.slots(table));
        let (from, made, fakes) = (Mutex::new(Some(holds)), OnceLock::new(), Mutex::default());
        let blocks = schedule.blocks;
        Self { table, start: *start, from, made, fakes, blocks, reals, slots, key }
    }

    /// Makes addresses and order, unless they are there: of one table at a time in a process.
    pub fn make(&self) {
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock();
        self.made();
    }

    fn made(&self) -> &Made {
        self.made.get_or_init(|| {
            let holds = self.from.lock().take();
            let addresses = holds.map(Holds::addresses).unwrap_or_default();
            let order = self.key.order(self.slots);
            let slots = order.get(..addresses.len()).unwrap_or_default();
            let slots = Numbers::below(self.slots, slots);
            *self.fakes.lock() = Some(self.fakes_of(&order));
            Made { addresses: Numbers::below(self.blocks, &addresses), slots }
        })
    }

    fn fakes_of(&self, order: &[u32]) -> Numbers {
        let fakes = order.get(self.reals as usize..).unwrap_or_default();
        Numbers::below(self.slots, fakes)
    }

    /// The slots of all fakes, by number. They are made anew for whoever is not the first to ask.
    fn take_fakes(&self) -> Numbers {
        self.made();
        let kept = self.fakes.lock().take();
        kept.unwrap_or_else(|| self.fakes_of(&self.key.order(self.slots)))
    }

    /// The addresses that it holds.
    pub fn addresses(&self) -> &Numbers {
        &self.made().addresses
    }

    /// All slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The slot of an address that it holds.
    pub fn slot_of(&self, address: u32) -> Option<u32> {
        let Made { addresses, slots } = self.made();
        addresses.find(address).map(|rank| slots.get(rank))
    }

    /// The slot of the fake that a place of a block owns, see [`Owned::last_of`].
    ///
    /// # Errors
    /// [`Error::Bug`] if the fakes of the block are used up.
    pub fn fake(&self, of: &mut Owned, with: &[Digest], canary: &Canary) -> Result<u32> {
        of.last_of(&self.key, with, canary)
    }

    /// The addresses that it holds, and the slot of each.
    pub fn held(&self) -> impl Iterator<Item = (u32, u32)> {
        let Made { addresses, slots } = self.made();
        addresses.iter().zip(slots.iter())
    }

    /// Bytes that it takes.
    #[cfg(test)]
    fn kept(&self) -> u64 {
        let Made { addresses, slots } = self.made();
        let fakes = self.fakes.lock().as_ref().map_or(0, Numbers::kept);
        addresses.kept() + slots.kept() + fakes
    }
}

/// What a table is built of.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The table.
    pub index: Arc<Index>,
    /// Of a table of level 0: the values of its epoch.
    pub logged: BTreeMap<u32, Bytes>,
    /// Of all others: what has to be read whole, newest first.
    pub sources: Vec<Arc<Index>>,
}

impl Recipe {
    /// To which slot of the table goes what lies in a slot of the source of this number. Nowhere,
    /// if that is nothing, or a newer source holds the address.
    ///
    /// # Errors
    /// Whoever wrote the source lied if it holds something else than it has to.
    pub fn goes(&self, source: usize, slot: u32, body: &Body) -> Result<Option<u32>> {
        let Some((address, _)) = body else { return Ok(None) };
        if self.sources[source].slot_of(*address) != Some(slot) {
            return Err(lied("a table holds another block"));
        }
        let is_stale = |newer: &Arc<Index>| newer.slot_of(*address).is_some();
        if self.sources[..source].iter().any(is_stale) {
            return Ok(None);
        }
        let goes = self.index.slot_of(*address);
        goes.map(Some).ok_or_else(|| Error::Bug("a table misses an address".into()))
    }
}

/// A table that queries touch, or will: its index and the fakes that they own.
#[derive(Debug, Clone)]
pub struct Live {
    pub index: Arc<Index>,
    /// M.
    draw: u32,
    /// Once a query touches it.
    fakes: Option<Fakes>,
}

impl Live {
    pub fn new(schedule: &Schedule, index: Arc<Index>) -> Self {
        Self { index, draw: schedule.draw, fakes: None }
    }

    /// A block of places begins that touch it: the fakes that they own.
    pub fn draw(&mut self, before: &Mark) -> Owned {
        let (index, draw) = (&self.index, self.draw);
        let fakes = self.fakes.get_or_insert_with(|| Fakes::new(index.take_fakes(), draw));
        Owned::new(fakes.draw(&index.key, before))
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub fn kept(&self) -> u64 {
        self.index.kept() + self.fakes.as_ref().map_or(0, Fakes::kept)
    }
}
