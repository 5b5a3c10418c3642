//! A transaction of a file with its records drawn: step after step, each in one round.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_txn::Key;

use super::meaning::Group;
use super::record::{Row, key, missing};
use crate::database::{Effect, Error, Procedure, Result, Statements};

/// Group and number.
type Place = (usize, u32);

/// One step.
pub(super) struct Drawn {
    pub reads: Vec<Place>,
    /// With what they are filled.
    pub updates: Vec<(Place, Bytes)>,
    /// Overwritten and inserted ones.
    pub writes: Vec<(Place, Bytes)>,
    /// Group, first number, and how many at most.
    pub scan: Option<(usize, u32, usize)>,
}

/// A transaction.
pub(super) struct Steps {
    pub kind: usize,
    pub groups: Arc<[Group]>,
    pub steps: Vec<Drawn>,
}

#[async_trait]
impl Procedure for Steps {
    fn kind(&self) -> usize {
        self.kind
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let mut updates = 0;
        for step in &self.steps {
            if let Some(scan) = step.scan {
                self.scan(on, scan).await?;
            }
            updates += self.step(on, step).await?;
        }
        Ok(Effect { done: true, sum: updates })
    }
}

impl Steps {
    /// One step without its scan; how many updates that count it made.
    async fn step(&self, on: &dyn Statements, step: &Drawn) -> Result<i64> {
        let mut rows = self.read(on, step).await?;
        let mut updates = 0;
        for (place, filling) in &step.updates {
            // One that is not inserted yet is not updated.
            let Some(row) = rows.get_mut(place) else { continue };
            row.update(filling.clone());
            updates += i64::from(!self.group(place.0)?.overwritten);
        }
        let updated: BTreeMap<Place, Bytes> = (step.updates.iter())
            .filter_map(|(place, _)| rows.get(place).map(|row| (*place, row.record())))
            .collect();
        let written = (step.writes.iter())
            .map(|(place, filling)| (*place, Row::new(*place, filling.clone()).record()));
        for (place, record) in updated.into_iter().chain(written) {
            on.put(&self.key(place)?, record).await?;
        }
        Ok(updates)
    }

    /// What is read, alone or to be updated, in one round.
    async fn read(&self, on: &dyn Statements, step: &Drawn) -> Result<BTreeMap<Place, Row>> {
        let updated = step.updates.iter().map(|(place, _)| *place);
        let mut places: Vec<Place> = step.reads.iter().copied().chain(updated).collect();
        places.sort_unstable();
        places.dedup();
        let mut rows = BTreeMap::new();
        if places.is_empty() {
            return Ok(rows);
        }
        let keys: Vec<Key> = places.iter().map(|place| self.key(*place)).collect::<Result<_>>()?;
        let found = on.get_many(&keys).await?;
        for (place, record) in places.into_iter().zip(found) {
            let group = self.group(place.0)?;
            match record {
                Some(record) => drop(rows.insert(place, Row::of(place, record)?)),
                // Drawn by somebody, who has not inserted it yet.
                None if place.1 >= group.count => (),
                None => return Err(missing(group, place.1)),
            }
        }
        Ok(rows)
    }

    /// Reads records in their order. Those that were there at first have no gaps.
    async fn scan(
        &self,
        on: &dyn Statements,
        (group, from, limit): (usize, u32, usize),
    ) -> Result<()> {
        let found = on.scan(&self.key((group, from))?, limit).await?;
        let first = self.group(group)?.count;
        if found.len() < (first.saturating_sub(from) as usize).min(limit) || found.len() > limit {
            let found = found.len();
            let what = format!("a scan of {limit} from {from} has come to {found} records");
            return Err(Error::broken(what));
        }
        for (number, (_, record)) in (from..first).zip(&found) {
            Row::of((group, number), record.clone())?;
        }
        Ok(())
    }

    fn key(&self, (group, number): Place) -> Result<Key> {
        self.group(group).map(|group| key(group, number))
    }

    fn group(&self, index: usize) -> Result<&Group> {
        self.groups.get(index).ok_or_else(|| Error::broken("a group that is not in the file"))
    }
}
