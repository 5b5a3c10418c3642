//! What holds after a run in which every transaction has come to its end.
//!
//! 1. *counters*: in all hospitals together, the counters of a kind have gone up by as many as
//!    objects of it were created.
//! 2. *objects*: all below the counters exist, and those at the counters do not.
//! 3. *interactions*: one drug interacts with another if and only if that does with it.
//! 4. *lists*: what is in a list exists, belongs there, and is in it once. What exists is in its
//!    lists, but for as many as the lists say have fallen out of them. The prescription that a
//!    content speaks of exists.
//!
//! Records are read a part at a time, whatever there is of them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fogbank_txn::Key;

use super::creators;
use super::drugs::{self, interactions};
use super::lists::Listing;
use super::numbers::{self, Hospital};
use super::plan::Plan;
use super::rows::Kind;
use crate::database::{Database, Error, Result};
use crate::workload::{Ledger, read_all};

/// Objects, or lists, that are looked at together.
const PART: usize = 2_000;

/// A check that goes on.
pub(super) struct Check<'a> {
    pub plan: Plan,
    pub database: &'a dyn Database,
}

/// The counters by kind and hospital.
pub(super) type Counters = BTreeMap<u8, Vec<u32>>;

pub(super) type Numbers<'a> = Box<dyn Iterator<Item = u32> + Send + 'a>;

impl Check<'_> {
    /// Holds everything against the rules.
    pub async fn all(&self, ledger: &Ledger) -> Result<()> {
        let mut counters = Counters::new();
        for kind in Kind::ALL {
            counters.insert(kind as u8, self.counters(kind, ledger).await?);
        }
        for kind in Kind::ALL {
            self.objects(kind, &counters).await?;
            self.next_objects(kind, &counters).await?;
        }
        self.interactions().await?;
        self.prescribed(&counters).await?;
        for listing in Listing::ALL {
            self.agreement(listing, &counters).await?;
        }
        Ok(())
    }

    /// The records of these keys. Few: they are in memory together.
    pub async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let mut records = Vec::with_capacity(keys.len());
        let keep = |_: &Key, record| {
            records.push(record);
            Ok(())
        };
        read_all(self.database, keys.iter().cloned(), keep).await?;
        Ok(records)
    }

    /// The records of objects that exist.
    pub async fn existing(&self, kind: Kind, ids: Vec<u32>) -> Result<Vec<(u32, Bytes)>> {
        let keys: Vec<Key> = ids.iter().map(|id| kind.key(*id)).collect();
        let found = self.read(&keys).await?;
        let missing = |id| Error::broken(format!("objects: {} {id} is missing", kind.name()));
        let known =
            |(id, record): (u32, Option<Bytes>)| Ok((id, record.ok_or_else(|| missing(id))?));
        ids.into_iter().zip(found).map(known).collect()
    }

    fn hospitals(&self) -> impl Iterator<Item = Hospital> + Send + use<> {
        let of = self.plan.hospitals;
        (0..of).map(move |number| Hospital { number, of })
    }

    /// Rule 1, and the counters of a kind.
    async fn counters(&self, kind: Kind, ledger: &Ledger) -> Result<Vec<u32>> {
        let keys: Vec<Key> = self.hospitals().map(|at| at.counter(kind)).collect();
        let found = self.read(&keys).await?;
        let counters = found.into_iter().map(numbers::read).collect::<Result<Vec<u32>>>()?;
        let all: u64 = counters.iter().copied().map(u64::from).sum();
        let done = |index: &usize| ledger.done.get(*index).copied().unwrap_or(0);
        let created: u64 = creators(kind).iter().map(done).sum();
        let expected = u64::from(self.plan.count(kind)) + created;
        if all == expected {
            return Ok(counters);
        }
        let name = kind.name();
        broken(format!("counters: {all} {name} objects were numbered, and there are {expected}"))
    }

    /// The ids below the counters, in their order.
    pub fn ids<'a>(&'a self, kind: Kind, counters: &'a Counters) -> Numbers<'a> {
        let counters = counters.get(&(kind as u8)).map_or(&[][..], Vec::as_slice);
        let most = counters.iter().copied().max().unwrap_or(0);
        Box::new((0..most).flat_map(move |number| {
            let given = self.hospitals().zip(counters).filter(move |(_, next)| number < **next);
            given.map(move |(at, _)| at.id(number))
        }))
    }

    /// Rule 2 below the counters.
    async fn objects(&self, kind: Kind, counters: &Counters) -> Result<()> {
        let mut ids = self.ids(kind, counters);
        while let Some(ids) = part(&mut ids) {
            self.existing(kind, ids).await?;
        }
        Ok(())
    }

    /// Rule 2 at the counters.
    async fn next_objects(&self, kind: Kind, counters: &Counters) -> Result<()> {
        let counters = counters.get(&(kind as u8)).map_or(&[][..], Vec::as_slice);
        let next: Vec<u32> =
            self.hospitals().zip(counters).map(|(at, next)| at.id(*next)).collect();
        let keys: Vec<Key> = next.iter().map(|id| kind.key(*id)).collect();
        let found = self.read(&keys).await?;
        match next.iter().zip(found).find(|(_, record)| record.is_some()) {
            None => Ok(()),
            Some((id, _)) => {
                let name = kind.name();
                broken(format!("objects: {name} {id} exists, and no counter has given it out"))
            }
        }
    }

    /// Rule 3.
    async fn interactions(&self) -> Result<()> {
        let mut drugs = 0..self.plan.drugs;
        while let Some(drugs) = part(&mut drugs) {
            let pairs = self.pairs(drugs).await?;
            let others = pairs.iter().map(|(_, other)| *other).collect::<BTreeSet<u32>>();
            let back = self.pairs(others.into_iter().collect()).await?;
            let one_sided = |(a, b): &&(u32, u32)| a == b || !back.contains(&(*b, *a));
            if let Some((a, b)) = pairs.iter().find(one_sided) {
                return broken(format!(
                    "interactions: drug {a} has one with {b}, and {b} none with {a}"
                ));
            }
        }
        Ok(())
    }

    /// These drugs, each with each that it interacts with.
    async fn pairs(&self, drugs: Vec<u32>) -> Result<BTreeSet<(u32, u32)>> {
        let keys: Vec<Key> = drugs.iter().copied().map(interactions).collect();
        let mut pairs = BTreeSet::new();
        for (drug, list) in drugs.into_iter().zip(self.read(&keys).await?) {
            let missing = || Error::broken(format!("interactions: drug {drug} has no list"));
            let others = drugs::read(Some(list.ok_or_else(missing)?))?;
            pairs.extend(others.into_iter().map(|other| (drug, other)));
        }
        Ok(pairs)
    }
}

/// The next that are looked at together, if there are any.
pub(super) fn part<T>(all: &mut (impl Iterator<Item = T> + ?Sized)) -> Option<Vec<T>> {
    let part: Vec<T> = all.take(PART).collect();
    (!part.is_empty()).then_some(part)
}

pub(super) fn broken<T>(what: String) -> Result<T> {
    Err(Error::Broken(what))
}
