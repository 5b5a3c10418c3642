//! What every client knows of a table without reading it, and what a builder puts there.
//!
//! # Invariants
//! - Addresses and order are functions of the log: followers download nothing.
//! - Ranks 0 .. m - 1 are the addresses in order, then fillers, then fakes; `order[rank]` is the
//!   slot, so distinct ranks are distinct uniform slots to whoever lacks the key.
//! - A built table has one content, whoever builds it.
//!
//! Sections 4 and 8 of the protocol (module).

use std::collections::BTreeMap;

use bytes::Bytes;
use fogbank_seal::{Mark, OrderKey, SiteKeys};

use super::canary::Canary;
use super::fakes::Fakes;
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
    /// The addresses that it holds, sorted.
    addresses: Box<[u32]>,
    order: Box<[u32]>,
    reals: u32,
    key: OrderKey,
}

impl Index {
    /// That of a table of these addresses, whose build starts after a history of mark `start`.
    pub fn new(
        schedule: &Schedule,
        keys: &SiteKeys,
        table: Table,
        start: &Mark,
        mut addresses: Vec<u32>,
    ) -> Self {
        addresses.sort_unstable();
        addresses.dedup();
        let key = keys.order(table.level, table.index, start);
        let order = key.order(schedule.slots(table));
        let reals = schedule.reals(table.level);
        Self { table, start: *start, addresses: addresses.into(), order, reals, key }
    }

    /// The addresses that it holds.
    pub fn addresses(&self) -> &[u32] {
        &self.addresses
    }

    /// All slots.
    pub fn slots(&self) -> u32 {
        self.order.len() as u32
    }

    /// The slot of an address that it holds.
    pub fn slot_of(&self, address: u32) -> Option<u32> {
        self.addresses.binary_search(&address).ok().map(|rank| self.order[rank])
    }

    /// The slot of a fake.
    pub fn slot_of_fake(&self, fake: u32) -> u32 {
        self.order[(self.reals + fake) as usize]
    }

    /// All slots with what they hold, of the values of its addresses.
    ///
    /// # Errors
    /// [`Error::Bug`] if one is missing.
    pub fn bodies(&self, values: &BTreeMap<u32, Bytes>) -> Result<Vec<Body>> {
        let mut bodies = vec![None; self.order.len()];
        for (address, slot) in self.addresses.iter().zip(&self.order) {
            let value = values.get(address);
            let value = value.ok_or_else(|| Error::Bug("a table misses a value".into()))?;
            bodies[*slot as usize] = Some((*address, value.clone()));
        }
        Ok(bodies)
    }

    /// The values of all addresses of a table that was read whole, in the order of slots.
    ///
    /// # Errors
    /// Whoever wrote the table lied if another address stands where one has to.
    pub fn values(&self, bodies: &[Body]) -> Result<BTreeMap<u32, Bytes>> {
        let at = |(address, slot): (&u32, &u32)| match bodies.get(*slot as usize) {
            Some(Some((found, value))) if found == address => Ok((*address, value.clone())),
            _ => Err(lied("a table holds another block")),
        };
        self.addresses.iter().zip(&self.order).map(at).collect()
    }
}

/// What a table is built of.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The table.
    pub index: std::sync::Arc<Index>,
    /// Of a table of level 0: the values of its epoch.
    pub(super) logged: BTreeMap<u32, Bytes>,
    /// Of all others: what has to be read whole, newest first.
    pub sources: Vec<std::sync::Arc<Index>>,
}

impl Recipe {
    /// The content of the table, slot by slot, of that of its sources.
    ///
    /// # Errors
    /// Whoever wrote a source lied if it holds something else than it has to.
    pub fn made_of(&self, sources: &[Vec<Body>]) -> Result<Vec<Body>> {
        if self.sources.is_empty() {
            return self.index.bodies(&self.logged);
        }
        let mut values = BTreeMap::new();
        for (index, bodies) in self.sources.iter().zip(sources).rev() {
            values.extend(index.values(bodies)?);
        }
        self.index.bodies(&values)
    }
}

/// A table that queries touch, or will: its index and the fakes that they own.
#[derive(Debug, Clone)]
pub struct Live {
    pub index: std::sync::Arc<Index>,
    fakes: Fakes,
}

impl Live {
    pub fn new(schedule: &Schedule, index: std::sync::Arc<Index>) -> Self {
        let fakes = Fakes::new(schedule.fakes(index.table), schedule.draw);
        Self { index, fakes }
    }

    /// A block of places begins that touch it.
    pub fn begin(&mut self, before: &Mark) {
        self.fakes.begin(&self.index.key, before);
    }

    /// The slot of the fake of the next place.
    ///
    /// # Errors
    /// [`Error::Bug`] if its fakes are used up.
    pub fn next_fake(&mut self, with: &fogbank_seal::Digest, canary: &Canary) -> Result<u32> {
        Ok(self.index.slot_of_fake(self.fakes.next(&self.index.key, with, canary)?))
    }
}
