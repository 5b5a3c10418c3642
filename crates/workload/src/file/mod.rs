//! A workload that its user describes in a file (TOML), so that an application of one's own is
//! measured without a program for it. `examples/practice.toml` is one.
//!
//! 1. *Groups* of records: a name, how many there are at first, bytes of a value. Records of a
//!    group have numbers from 0 and lie in their order.
//! 2. *Transactions*: a name, what part of a hundred each is, and *steps*, one after the other.
//!    What stands in one step is asked for together; what follows from it is the next step. So the
//!    file says how deep reads depend on one another, which is what an epoch's read batches are
//!    for.
//! 3. A step has any of `read`; `update`, which reads a record and writes the same one; `write`,
//!    which overwrites one unread; `insert`, of the next number of a group; or it is one `scan` of
//!    records that follow each other.
//! 4. Which records: `uniform`, `zipfian` with `theta`, both of those there were at first; or
//!    `latest`, zipfian back from the newest. One that was drawn and is not inserted yet is read in
//!    vain, and not updated. The records of one access are distinct.
//!
//! A record carries its group, its number and a counter, which each update increments. Invariants,
//! held after each run: every record there was at first, and as many as transactions that have
//! committed inserted, are there and carry their own number; counters come to as many updates as
//! have committed. A group of which records are overwritten unread has lost its counters, so of
//! that one the first half alone holds.

mod description;
mod draws;
mod meaning;
mod procedure;
mod record;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_txn::{Footprint, Key};

use self::meaning::{Access, Group, Kind};
use self::procedure::{Drawn, Steps};
use self::record::Row;
use crate::chance;
use crate::database::{Database, Error, Procedure, Result};
use crate::workload::{Ledger, Records, Workload, read_all};

/// What is in records is the same in every run: it matters to nobody.
const SEED: u64 = 0x4649_4C45;

/// Why a file describes no workload. The text says where, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is no TOML, or has other fields than there are.
    #[error("{0}")]
    Syntax(String),
    /// What it says cannot be.
    #[error("line {line}: {what}")]
    Meaning {
        /// The line, from 1.
        line: usize,
        /// What is wrong there, and what to do.
        what: String,
    },
}

/// A workload as a file describes it.
#[derive(Debug)]
pub struct Described {
    name: String,
    groups: Arc<[Group]>,
    kinds: Vec<Kind>,
    /// Inserts that were drawn, by group.
    inserted: Vec<AtomicU32>,
}

impl Described {
    /// The workload that the text of a file describes.
    ///
    /// # Errors
    /// [`FileError`] for a text that describes none.
    pub fn parse(text: &str) -> std::result::Result<Self, FileError> {
        let description = description::Description::parse(text)?;
        let (name, groups, kinds) = meaning::of(description, text)?;
        let inserted = none(&groups);
        Ok(Self { name, groups: groups.into(), kinds, inserted })
    }

    /// Records there are at first.
    pub fn first_records(&self) -> u32 {
        self.groups.iter().fold(0, |all, group| all.saturating_add(group.count))
    }

    /// Whether there will be more of them.
    pub fn grows(&self) -> bool {
        self.kinds.iter().any(|kind| kind.steps.iter().any(|step| !step.inserts.is_empty()))
    }

    /// What transactions ask of a store, each with what part of a hundred it is: as the file says,
    /// without a run. Records that are not inserted yet count as if they were.
    pub fn footprints(&self) -> impl Iterator<Item = (u32, Footprint)> {
        self.kinds.iter().map(|kind| (kind.percent, self.footprint(kind)))
    }

    fn footprint(&self, kind: &Kind) -> Footprint {
        let mut footprint = Footprint::default();
        for step in &kind.steps {
            let fetched = step.reads.iter().chain(&step.updates).chain(&step.scan);
            let written = step.updates.iter().chain(&step.writes).chain(&step.inserts);
            let round: u32 = fetched.clone().map(|access| access.count).sum();
            footprint.rounds.extend((round > 0).then_some(round));
            footprint.written += written.clone().map(|access| access.count).sum::<u32>();
            for access in fetched.chain(written) {
                let bytes = self.groups.get(access.group).map_or(0, |group| group.bytes);
                footprint.value_bytes.extend((0..access.count).map(|_| bytes));
            }
        }
        footprint
    }

    /// The number that is next in a group, once all that was drawn has been performed.
    fn next(&self, group: usize) -> u32 {
        let first = self.groups.get(group).map_or(0, |group| group.count);
        let inserted = self.inserted.get(group).map_or(0, |n| n.load(Ordering::Relaxed));
        first.saturating_add(inserted)
    }

    /// Takes the next number of a group.
    fn take_next(&self, group: usize) -> u32 {
        let first = self.groups.get(group).map_or(0, |group| group.count);
        let before = self.inserted.get(group).map_or(0, |n| n.fetch_add(1, Ordering::Relaxed));
        first.saturating_add(before)
    }

    /// Distinct records of one access.
    fn numbers(&self, access: &Access, stream: &mut Stream) -> Vec<u32> {
        let first = self.groups.get(access.group).map_or(1, |group| group.count);
        draws::numbers(access, (first, self.next(access.group)), stream)
    }

    fn steps(&self, kind: &Kind, stream: &mut Stream) -> Vec<Drawn> {
        let mut drawn = Vec::with_capacity(kind.steps.len());
        for step in &kind.steps {
            let places = |accesses: &[Access], stream: &mut Stream| -> Vec<(usize, u32)> {
                let of = |access: &Access, stream: &mut Stream| -> Vec<(usize, u32)> {
                    let numbers = self.numbers(access, stream).into_iter();
                    numbers.map(|number| (access.group, number)).collect()
                };
                accesses.iter().flat_map(|access| of(access, stream)).collect()
            };
            let (reads, updates) = (places(&step.reads, stream), places(&step.updates, stream));
            let mut writes = places(&step.writes, stream);
            for insert in &step.inserts {
                writes.extend(
                    (0..insert.count).map(|_| (insert.group, self.take_next(insert.group))),
                );
            }
            let scan = step.scan.as_ref().map(|scan| {
                let one = Access { count: 1, ..scan.clone() };
                let from = self.numbers(&one, stream).first().copied().unwrap_or_default();
                (scan.group, from, scan.count as usize)
            });
            let fillings = |places: Vec<(usize, u32)>, stream: &mut Stream| {
                let fill = |(group, number): (usize, u32)| {
                    let bytes = self.groups.get(group).map_or(0, |group| group.bytes);
                    ((group, number), record::filling(bytes, stream))
                };
                places.into_iter().map(fill).collect()
            };
            let updates = fillings(updates, stream);
            drawn.push(Drawn { reads, updates, writes: fillings(writes, stream), scan });
        }
        drawn
    }

    /// Records that committed transactions have inserted into a group.
    fn inserts(&self, group: usize, ledger: &Ledger) -> u64 {
        let of = |(kind, done): (&Kind, &u64)| {
            let inserts = kind.steps.iter().flat_map(|step| &step.inserts);
            let a_time: u64 = (inserts.filter(|insert| insert.group == group))
                .map(|insert| u64::from(insert.count))
                .sum();
            a_time * done
        };
        self.kinds.iter().zip(&ledger.done).map(of).sum()
    }
}

/// No inserts of any group.
fn none(groups: &[Group]) -> Vec<AtomicU32> {
    groups.iter().map(|_| AtomicU32::new(0)).collect()
}

#[async_trait]
impl Workload for Described {
    fn name(&self) -> &str {
        &self.name
    }

    fn kinds(&self) -> Vec<(&str, u32)> {
        self.kinds.iter().map(|kind| (&*kind.name, kind.percent)).collect()
    }

    fn scanned_groups(&self) -> Vec<&[u8]> {
        let scanned = |(index, _): &(usize, &Group)| {
            let steps = self.kinds.iter().flat_map(|kind| &kind.steps);
            steps.filter_map(|step| step.scan.as_ref()).any(|scan| scan.group == *index)
        };
        let groups = self.groups.iter().enumerate().filter(scanned);
        groups.map(|(_, group)| group.name.as_bytes()).collect()
    }

    fn records(&self) -> Records<'_> {
        let mut stream = Randomness::repeatable(SEED).stream(Purpose::Workload);
        let places = (self.groups.iter().enumerate())
            .flat_map(|(index, group)| (0..group.count).map(move |number| (index, group, number)));
        Box::new(places.map(move |(index, group, number)| {
            let row = Row::new((index, number), record::filling(group.bytes, &mut stream));
            (record::key(group, number), row.record())
        }))
    }

    fn draw(&self, stream: &mut Stream) -> Box<dyn Procedure> {
        let kind = chance::kind(&self.kinds(), stream);
        let steps = self.kinds.get(kind).map(|of| self.steps(of, stream)).unwrap_or_default();
        Box::new(Steps { kind, groups: self.groups.clone(), steps })
    }

    fn fresh(&self) -> Arc<dyn Workload> {
        let (name, kinds) = (self.name.clone(), self.kinds.clone());
        Arc::new(Self { name, groups: self.groups.clone(), kinds, inserted: none(&self.groups) })
    }

    async fn check(&self, database: &dyn Database, ledger: &Ledger) -> Result<()> {
        let mut updates = 0_i64;
        for (index, group) in self.groups.iter().enumerate() {
            let (mut there, mut numbers) = (0_u64, 0..);
            let each = |_: &Key, found: Option<Bytes>| {
                let number = numbers.next().unwrap_or(u32::MAX);
                match found {
                    Some(record) => {
                        let row = Row::of((index, number), record)?;
                        there += 1;
                        updates += if group.overwritten { 0 } else { row.updates };
                        Ok(())
                    }
                    // Whoever has drawn it may have been given up.
                    None if number >= group.count => Ok(()),
                    None => Err(record::missing(group, number)),
                }
            };
            let keys = (0..self.next(index)).map(|number| record::key(group, number));
            read_all(database, keys, each).await?;
            let expected = u64::from(group.count) + self.inserts(index, ledger);
            if there != expected {
                let name = &group.name;
                let what = format!("{name}: there are {there} records, and have to be {expected}");
                return Err(Error::broken(what));
            }
        }
        if updates == ledger.sum {
            return Ok(());
        }
        let sum = ledger.sum;
        Err(Error::broken(format!("updates: records say {updates}, and {sum} were made")))
    }
}
