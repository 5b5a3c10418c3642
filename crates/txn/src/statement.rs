//! Statements of interactive transactions, one step at a time.
//!
//! A statement either is done, or must wait for the next beat (a batch has arrived, an epoch has
//! begun) and be tried again, or fails; a failure that ends the transaction has aborted it already.
//! Values are taken and marked in the step that returns them, all of a statement at once, so what
//! a statement returns is one state.
//!
//! A transaction needs no row cache of its own: what it has read stays in the row, and because the
//! read is marked nobody can put another version under it. Reading it again costs nothing.

use std::collections::BTreeSet;

use crate::batcher::Asker;
use crate::core::Core;
use crate::error::{Bound, Error, Result};
use crate::key::{Key, KeyRange};
use crate::mvtso::{Answer, State};
use crate::predicate::Sight;
use crate::reads::ReadOutcome;
use crate::record::{Record, Stat};
use crate::retry_locks::ConflictKey;
use crate::row::{Found, Load};
use crate::rows::RowId;
use crate::version::{Body, Change, Ts};

/// What a step comes to.
pub(crate) enum Step<T> {
    /// The statement is done.
    Done(T),
    /// Try again after the next beat.
    Wait,
}

/// A transaction's place in an epoch, kept by its handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The epoch it is bound to.
    pub epoch: u64,
    /// Its timestamp.
    pub ts: Ts,
    /// Orders its reads among those of others: when its first attempt began.
    pub age: u64,
    /// Batches it has waited for.
    pub rounds: u32,
    /// The last of them.
    pub last_round: Option<usize>,
}

impl Core {
    /// Begins: takes a timestamp in the open epoch, if that can still serve reads.
    pub(crate) fn begin(&mut self, age: Option<u64>) -> Result<Step<Place>> {
        if let Some(error) = self.stopped.clone().or_else(|| self.refusal()) {
            return Err(error);
        }
        if self.batches_left() == 0 {
            return Ok(Step::Wait);
        }
        let age = age.unwrap_or_else(|| {
            self.ages += 1;
            self.ages
        });
        let ts = self.mvtso.begin();
        Ok(Step::Done(Place { epoch: self.epoch, ts, age, rounds: 0, last_round: None }))
    }

    /// A transaction that has waited moves to the present, if it can.
    pub(crate) fn catch_up(&mut self, place: &mut Place) {
        if place.epoch == self.epoch {
            place.ts = self.mvtso.move_to_present(place.ts);
        }
    }

    /// Fails unless the transaction can take statements.
    pub(crate) fn check_active(&self, place: &Place) -> Result<()> {
        if let Some(error) = self.stopped.as_ref().or(self.resting.as_ref()) {
            return Err(error.clone());
        }
        if place.epoch != self.epoch {
            return Err(Error::EpochOver);
        }
        self.mvtso.check_active(place.ts)
    }

    /// Reads records, all of them in one round.
    pub(crate) fn read(
        &mut self,
        place: &mut Place,
        keys: &[Key],
    ) -> Result<Step<Vec<Option<Record>>>> {
        self.check_active(place)?;
        let ids: Vec<RowId> = keys.iter().map(|key| self.touch(key)).collect();
        match self.mvtso.see_records(place.ts, &ids)? {
            ReadOutcome::All(records) => Ok(Step::Done(records)),
            ReadOutcome::Missing(missing) => {
                self.wait_for_rows(place, missing).map(|()| Step::Wait)
            }
        }
    }

    /// Length and attribute, from the directory.
    pub(crate) fn stat(&mut self, place: &Place, key: &Key) -> Result<Option<Stat>> {
        self.check_active(place)?;
        let id = self.touch(key);
        Ok(self.mvtso.see_stat(place.ts, id))
    }

    /// Keys of a range, from the directory.
    pub(crate) fn scan_keys(
        &mut self,
        place: &Place,
        range: &KeyRange,
        limit: usize,
        reverse: bool,
    ) -> Result<Vec<(Key, Stat)>> {
        self.check_active(place)?;
        let what = (range, limit, reverse);
        Ok(self.mvtso.see_keys(&self.directory, place.ts, what))
    }

    /// How many members a group has, from the directory.
    pub(crate) fn count(&mut self, place: &Place, group: &[u8]) -> Result<u64> {
        self.check_active(place)?;
        let (mut count, mut writers) = (0_i64, Vec::new());
        let range = KeyRange::group(group);
        for id in self.mvtso.rows.written_in(&range) {
            let row = self.mvtso.rows.get(id);
            let position = row.visible(place.ts);
            row.unsettled_writers(position, place.ts, |ts| writers.push(ts));
            count += i64::from(row.stat_at(position).is_some()) - i64::from(row.base.is_some());
        }
        self.mvtso.predicates.record(&range, Sight::Membership, place.ts);
        self.mvtso.depend(place.ts, writers);
        self.mvtso.scanned(place.ts);
        Ok(self.directory.count(&Key::new(group, &[])).saturating_add_signed(count))
    }

    /// Writes a record.
    pub(crate) fn write(&mut self, place: &Place, key: &Key, change: Change) -> Result<()> {
        self.check_active(place)?;
        self.limits.check(key, change.len as usize)?;
        let id = self.touch(key);
        let result = self.mvtso.write(place.ts, id, change);
        result.map_err(|error| self.fail(place, error))
    }

    /// Deletes a record; whether it was there.
    pub(crate) fn delete(&mut self, place: &Place, key: &Key) -> Result<bool> {
        if self.stat(place, key)?.is_none() {
            return Ok(false);
        }
        self.write(place, key, Change::delete()).map(|()| true)
    }

    /// Writes a record unless there is one; whether it did.
    pub(crate) fn insert_if_absent(
        &mut self,
        place: &Place,
        key: &Key,
        change: Change,
    ) -> Result<bool> {
        if self.stat(place, key)?.is_some() {
            return Ok(false);
        }
        self.write(place, key, change).map(|()| true)
    }

    /// Changes the attribute alone; whether the record is there.
    pub(crate) fn set_attr(
        &mut self,
        place: &mut Place,
        key: &Key,
        attr: u64,
    ) -> Result<Step<bool>> {
        let Some(stat) = self.stat(place, key)? else { return Ok(Step::Done(false)) };
        let id = self.touch(key);
        let change = match self.mvtso.rows.get(id).own(place.ts) {
            Some(Change { body: Body::Sum(_), .. }) => {
                let Some(record) = self.read_one(place, key)? else { return Ok(Step::Wait) };
                let Some(record) = record else { return Ok(Step::Done(false)) };
                Change::put(record.value, attr)
            }
            Some(own) => Change { attr, ..own.clone() },
            None => Change::attr(attr, stat.len),
        };
        self.write(place, key, change).map(|()| Step::Done(true))
    }

    /// Adds to a counter without reading it. Its value is asked for in the background and must be
    /// here before the commit.
    pub(crate) fn add(&mut self, place: &mut Place, key: &Key, delta: i64) -> Result<Step<()>> {
        self.check_active(place)?;
        let id = self.touch(key);
        let change = match self.mvtso.rows.get(id).own(place.ts) {
            None => Change::add(delta),
            Some(Change { body: Body::Sum(before), .. }) => Change::add(before.wrapping_add(delta)),
            // Over a write of its own that is not a sum it has nothing to commute with.
            Some(_) => {
                let Some(record) = self.read_one(place, key)? else { return Ok(Step::Wait) };
                let (value, attr) = match &record {
                    Some(record) => (crate::row::decode_counter(&record.value), record.attr),
                    None => (Some(0), 0),
                };
                let value = value.ok_or(Error::NotACounter)?.wrapping_add(delta);
                Change::put(crate::row::encode_counter(value), attr)
            }
        };
        let sum = matches!(change.body, Body::Sum(_));
        self.write(place, key, change)?;
        if sum {
            self.ask_for_ground(place, id)?;
        }
        Ok(Step::Done(()))
    }

    /// Records that may fill padding. Outside the read set.
    pub(crate) fn prefetch(&mut self, place: &Place, keys: &[Key]) -> Result<()> {
        self.check_active(place)?;
        for key in keys {
            let id = self.touch(key);
            self.batcher.hint(&mut self.mvtso.rows, id);
        }
        Ok(())
    }

    /// How many writes stand, to come back to.
    pub(crate) fn savepoint(&self, place: &Place) -> Result<usize> {
        self.check_active(place)?;
        Ok(self.mvtso.txn(place.ts).map_or(0, |txn| txn.undo.len()))
    }

    /// Takes back the writes after the first `keep`.
    pub(crate) fn roll_back(&mut self, place: &Place, keep: usize) -> Result<()> {
        self.check_active(place)?;
        let result = self.mvtso.roll_back(place.ts, keep);
        result.map_err(|error| self.fail(place, error))
    }

    /// Asks for the end. `Done` once the request stands: `answer` then has the outcome when the
    /// epoch is over.
    pub(crate) fn request_commit(
        &mut self,
        place: &mut Place,
        answer: &mut Option<Answer>,
    ) -> Result<Step<()>> {
        self.check_active(place)?;
        let sums = self.mvtso.txn(place.ts).map(|txn| txn.sums.clone()).unwrap_or_default();
        let missing: BTreeSet<RowId> =
            sums.iter().copied().filter(|&id| self.needs_base(place.ts, id)).collect();
        if !missing.is_empty() {
            return self.wait_for_rows(place, missing).map(|()| Step::Wait);
        }
        for id in sums {
            self.check_counter(place, id)?;
        }
        if let Some(answer) = answer.take() {
            self.mvtso.request(place.ts, answer);
        }
        Ok(Step::Done(()))
    }

    /// Aborts; nothing happens if it has ended.
    pub(crate) fn abort(&mut self, place: &Place) {
        if place.epoch == self.epoch
            && self.mvtso.txn(place.ts).is_some_and(|txn| txn.state == State::Active)
        {
            self.mvtso.abort(place.ts, Error::Ended);
            self.clean_up();
        }
    }

    /// The body of a transaction has gone wrong: takes back what it has written. If it has read
    /// anything it asks for its commit, which tells whether that counts. Whether it has.
    pub(crate) fn end_in_error(&mut self, place: &Place, answer: Answer) -> Result<bool> {
        self.check_active(place)?;
        self.mvtso.take_back(place.ts);
        let reads = self.mvtso.txn(place.ts).is_some_and(|txn| txn.has_read);
        if reads {
            self.mvtso.request(place.ts, answer);
        }
        self.clean_up();
        Ok(reads)
    }

    /// Where a transaction has lost, if it has in this epoch.
    pub(crate) fn lost(&self, place: &Place) -> Option<ConflictKey> {
        let txn = self.mvtso.txn(place.ts).filter(|_| place.epoch == self.epoch);
        txn.and_then(|txn| txn.lost)
    }

    /// Forgets an aborted transaction whose handle has gone.
    pub(crate) fn forget(&mut self, place: &Place) {
        if place.epoch == self.epoch {
            self.mvtso.forget(place.ts);
        }
    }

    /// Aborts because of `error` and returns it.
    fn fail(&mut self, place: &Place, error: Error) -> Error {
        self.mvtso.abort(place.ts, error.clone());
        self.clean_up();
        error
    }

    /// One record; `None` if it must be waited for.
    fn read_one(&mut self, place: &mut Place, key: &Key) -> Result<Option<Option<Record>>> {
        match self.read(place, std::slice::from_ref(key))? {
            Step::Done(records) => Ok(Some(records.into_iter().next().flatten())),
            Step::Wait => Ok(None),
        }
    }

    /// Asks for rows that are not here, unless no batch of the epoch can bring them any more.
    fn wait_for_rows(&mut self, place: &mut Place, missing: BTreeSet<RowId>) -> Result<()> {
        let blocks: usize = missing.iter().map(|&id| self.mvtso.rows.get(id).base_blocks()).sum();
        let limit = self.limits.blocks_read_max;
        if blocks > limit {
            let error = Error::TooLarge { what: Bound::Reads, needed: blocks, limit };
            return Err(self.fail(place, error));
        }
        for &id in &missing {
            let in_flight = self.mvtso.rows.get(id).load == Load::InFlight;
            if !in_flight && self.batches_left() == 0 {
                return Err(self.fail(place, Error::BatchFull));
            }
            self.ask(place, id);
            let round = if in_flight { self.batches_frozen - 1 } else { self.batches_frozen };
            if place.last_round != Some(round) {
                place.last_round = Some(round);
                place.rounds += 1;
            }
        }
        Ok(())
    }

    /// Asks for a row once.
    fn ask(&mut self, place: &Place, id: RowId) {
        let Some(txn) = self.mvtso.txn_mut(place.ts) else { return };
        if txn.awaits.insert(id) {
            let asker = Asker::Interactive { age: place.age };
            self.batcher.ask(&mut self.mvtso.rows, id, asker);
        }
    }

    /// A sum will need the value it stands on before the commit.
    fn ask_for_ground(&mut self, place: &Place, id: RowId) -> Result<()> {
        if let Some(txn) = self.mvtso.txn_mut(place.ts)
            && !txn.sums.contains(&id)
        {
            txn.sums.push(id);
        }
        if !self.needs_base(place.ts, id) {
            return Ok(());
        }
        if self.mvtso.rows.get(id).load != Load::InFlight && self.batches_left() == 0 {
            return Err(self.fail(place, Error::BatchFull));
        }
        self.ask(place, id);
        Ok(())
    }

    fn needs_base(&self, ts: Ts, id: RowId) -> bool {
        let row = self.mvtso.rows.get(id);
        row.read_at(row.visible(ts)) == Found::NeedsBase
    }

    /// At the commit of a sum: what it stands on is a counter and stays one.
    fn check_counter(&mut self, place: &Place, id: RowId) -> Result<()> {
        let row = self.mvtso.rows.get_mut(id);
        if !matches!(row.own(place.ts), Some(Change { body: Body::Sum(_), .. })) {
            return Ok(());
        }
        let position = row.visible(place.ts);
        if row.read_at(position) == Found::NotACounter {
            return Err(self.fail(place, Error::NotACounter));
        }
        row.mark_counter(place.ts);
        let ground = row.unsettled_ground(position, place.ts);
        self.mvtso.depend(place.ts, ground);
        Ok(())
    }

    fn touch(&mut self, key: &Key) -> RowId {
        self.mvtso.touch(&self.directory, key)
    }
}
