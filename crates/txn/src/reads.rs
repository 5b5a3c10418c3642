//! What a transaction sees of records, and what follows from having seen it: the reading half of
//! MVTSO.
//!
//! Whoever has seen a version has marked it, so that nobody can put another one under it, and
//! depends on its writer while that one may still abort. Values are taken and marked in one step,
//! all of a statement at once, so what a statement returns is one state.

use std::collections::BTreeSet;

use crate::directory::{Directory, Entry};
use crate::error::{Error, Result};
use crate::key::{Key, KeyRange};
use crate::mvtso::{Mvtso, State};
use crate::predicate::Sight;
use crate::record::{Record, Stat};
use crate::row::Found;
use crate::rows::RowId;
use crate::version::Ts;

/// What reading several records at once comes to.
pub(crate) enum ReadOutcome {
    /// All of them, in the order asked.
    All(Vec<Option<Record>>),
    /// These are not here; nothing has been seen.
    Missing(BTreeSet<RowId>),
}

impl Mvtso {
    /// The row of `key`.
    pub(crate) fn touch(&mut self, directory: &Directory, key: &Key) -> RowId {
        self.rows.touch(directory, key)
    }

    /// The records of rows, if all of them are here.
    pub(crate) fn see_records(&mut self, ts: Ts, ids: &[RowId]) -> Result<ReadOutcome> {
        let (mut records, mut missing) = (Vec::with_capacity(ids.len()), BTreeSet::new());
        for &id in ids {
            let row = self.rows.get(id);
            match row.read_at(row.visible(ts)) {
                Found::NeedsBase => drop(missing.insert(id)),
                found => records.push(found.into_record()),
            }
        }
        if !missing.is_empty() {
            return Ok(ReadOutcome::Missing(missing));
        }
        ids.iter().for_each(|&id| self.saw(ts, id));
        records.into_iter().collect::<Result<_>>().map(ReadOutcome::All)
    }

    /// Length and attribute of a row's record.
    pub(crate) fn see_stat(&mut self, ts: Ts, id: RowId) -> Option<Stat> {
        self.saw(ts, id);
        let row = self.rows.get(id);
        row.stat_at(row.visible(ts))
    }

    /// At most `limit` keys of a range, and that no others are there.
    pub(crate) fn see_keys(
        &mut self,
        directory: &Directory,
        ts: Ts,
        (range, limit, reverse): (&KeyRange, usize, bool),
    ) -> Vec<(Key, Stat)> {
        let (mut found, mut writers) = (Vec::new(), Vec::new());
        let rows = &self.rows;
        let mut merged = rows.merged(directory, range, reverse);
        while found.len() < limit {
            let Some((key, entry, row)) = merged.next() else { break };
            let stat = match row {
                None => entry.map(Entry::stat),
                Some(&id) => {
                    let row = rows.get(id);
                    let position = row.visible(ts);
                    row.unsettled_writers(position, ts, |writer| writers.push(writer));
                    row.stat_at(position)
                }
            };
            found.extend(stat.map(|stat| (key.clone(), stat)));
        }
        drop(merged);
        let last = found.last().filter(|_| found.len() == limit).map(|(key, _)| key);
        self.predicates.record(&range.up_to(last, reverse), Sight::Stats, ts);
        self.depend(ts, writers);
        self.scanned(ts);
        found
    }

    /// Marks what a transaction sees of a row and depends on its writers.
    pub(crate) fn saw(&mut self, ts: Ts, id: RowId) {
        let row = self.rows.get_mut(id);
        let position = row.visible(ts);
        row.mark(position, ts);
        let mut writers = smallvec::SmallVec::<[Ts; 2]>::new();
        row.unsettled_writers(position, ts, |writer| writers.push(writer));
        let (writer, is_whole) = (row.writer_at(position).unwrap_or(0), row.is_whole_at(position));
        self.depend(ts, writers);
        if let Some(txn) = self.txn_mut(ts) {
            txn.note_read(id, writer, is_whole);
        }
    }

    /// A transaction has seen more than single records, so it keeps its timestamp.
    pub(crate) fn scanned(&mut self, ts: Ts) {
        if let Some(txn) = self.txn_mut(ts) {
            txn.stays();
        }
    }

    /// Fails unless a transaction can take statements.
    pub(crate) fn check_active(&self, ts: Ts) -> Result<()> {
        match self.txn(ts).map(|txn| &txn.state) {
            Some(State::Active) => Ok(()),
            Some(State::Aborted(error)) => Err(error.clone()),
            Some(State::Requested) | None => Err(Error::Ended),
        }
    }
}
