//! Interactive transactions.
//!
//! A transaction belongs to the epoch of its first statement and ends with it: whoever has not
//! asked for the commit by then is aborted ([`Error::EpochOver`]). An error that
//! [`Error::is_retryable`] has aborted the transaction; begin another, or let
//! [`crate::Proxy::transact`] do it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use fogbank_env::Mutex;
use tokio::sync::oneshot;

use crate::core::Core;
use crate::error::{Error, Result, unanswered};
use crate::key::{Key, KeyRange};
use crate::record::{Record, Stat};
use crate::retry_locks::ConflictKey;
use crate::shared::Shared;
use crate::statement::{Place, Step};
use crate::version::Change;

/// An interactive transaction. Clones are handles to the same one; when the last is dropped before
/// the commit was asked for, it aborts and releases what it reserved.
#[derive(Clone)]
pub struct Transaction(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    age: Option<u64>,
    place: Mutex<Option<Place>>,
    given_up: AtomicBool,
    /// Whether its commit was asked for and it is not known to have lost.
    asked: AtomicBool,
}

/// A point within a transaction to come back to.
#[derive(Debug, Clone, Copy)]
pub struct Savepoint {
    writes: usize,
}

impl Transaction {
    /// A transaction that has not begun; `age` is that of its first attempt.
    pub(crate) fn new(shared: Arc<Shared>, age: Option<u64>) -> Self {
        let place = Mutex::new(None);
        let (given_up, asked) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(Handle { shared, age, place, given_up, asked }))
    }

    /// The record, if there is one. A round, unless the epoch has it already.
    pub async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let records = self.get_many(std::slice::from_ref(key)).await?;
        Ok(records.into_iter().next().flatten())
    }

    /// The records in the order asked, all in one round.
    pub async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Record>>> {
        self.step(|core, place| core.read(place, keys)).await
    }

    /// Whether there is a record: no round.
    pub async fn exists(&self, key: &Key) -> Result<bool> {
        Ok(self.stat(key).await?.is_some())
    }

    /// Length and attribute: no round.
    pub async fn stat(&self, key: &Key) -> Result<Option<Stat>> {
        self.step(|core, place| core.stat(place, key).map(Step::Done)).await
    }

    /// At most `limit` records of a range from its start, or from its end: one round.
    pub async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        reverse: bool,
    ) -> Result<Vec<(Key, Record)>> {
        let found = self.scan_keys(range, limit, reverse).await?;
        let keys: Vec<Key> = found.into_iter().map(|(key, _)| key).collect();
        let records = self.get_many(&keys).await?;
        Ok(keys.into_iter().zip(records).filter_map(|(k, r)| r.map(|r| (k, r))).collect())
    }

    /// At most `limit` keys of a range from its start, or from its end: no round, and protected
    /// against phantoms.
    pub async fn scan_keys(
        &self,
        range: &KeyRange,
        limit: usize,
        reverse: bool,
    ) -> Result<Vec<(Key, Stat)>> {
        self.step(|core, place| core.scan_keys(place, range, limit, reverse).map(Step::Done)).await
    }

    /// How many members a group has: no round, and protected against phantoms.
    pub async fn count(&self, group: &[u8]) -> Result<u64> {
        self.step(|core, place| core.count(place, group).map(Step::Done)).await
    }

    /// Writes a record.
    pub async fn put(&self, key: &Key, value: Bytes, attr: u64) -> Result<()> {
        self.step(|core, place| {
            core.write(place, key, Change::put(value.clone(), attr)).map(Step::Done)
        })
        .await
    }

    /// Writes a record unless there is one; whether it did. No round.
    pub async fn insert_if_absent(&self, key: &Key, value: Bytes, attr: u64) -> Result<bool> {
        self.step(|core, place| {
            let change = Change::put(value.clone(), attr);
            core.insert_if_absent(place, key, change).map(Step::Done)
        })
        .await
    }

    /// Changes the attribute alone; whether the record is there. No round.
    pub async fn set_attr(&self, key: &Key, attr: u64) -> Result<bool> {
        self.step(|core, place| core.set_attr(place, key, attr)).await
    }

    /// Deletes a record; whether it was there. No round.
    pub async fn delete(&self, key: &Key) -> Result<bool> {
        self.step(|core, place| core.delete(place, key).map(Step::Done)).await
    }

    /// Adds to a counter: eight bytes, little-endian, an absent one counting as zero. Additions of
    /// several transactions commute: none of them reads, so none aborts another. The counter's
    /// value is fetched in the background and awaited by the commit.
    pub async fn add(&self, key: &Key, delta: i64) -> Result<()> {
        self.step(|core, place| core.add(place, key, delta)).await
    }

    /// Hints that these records may be needed: they fill padding of the coming batches, at the cost
    /// of nobody, and are not part of what the transaction has read.
    pub async fn prefetch(&self, keys: &[Key]) -> Result<()> {
        self.step(|core, place| core.prefetch(place, keys).map(Step::Done)).await
    }

    /// A point to come back to with [`Transaction::rollback_to`].
    pub fn savepoint(&self) -> Result<Savepoint> {
        let place = self.0.place.lock();
        let writes = match &*place {
            Some(place) => self.0.shared.with(|core| core.savepoint(place))?,
            None => 0,
        };
        Ok(Savepoint { writes })
    }

    /// Takes back the writes made since `savepoint`. What was read stays read.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        match &*self.0.place.lock() {
            Some(place) => self.0.shared.with(|core| core.roll_back(place, savepoint.writes)),
            None => Ok(()),
        }
    }

    /// Whether it can no longer commit: an early sign, at no cost.
    pub fn is_doomed(&self) -> bool {
        let place = self.0.place.lock();
        place.as_ref().is_some_and(|place| {
            let active = self.0.shared.with(|core| core.check_active(place));
            !matches!(active, Ok(()) | Err(Error::Ended)) || self.has_given_up()
        })
    }

    /// Batches it has waited for so far.
    pub fn rounds(&self) -> u32 {
        self.0.place.lock().as_ref().map_or(0, |place| place.rounds)
    }

    /// Its place in the serial order, once it has begun: epoch and timestamp, which is final when
    /// its commit was asked for. For checkers of histories.
    pub fn stamp(&self) -> Option<(u64, u64)> {
        self.0.place.lock().as_ref().map(|place| (place.epoch, u64::from(place.ts)))
    }

    /// Asks for the commit and waits until the epoch is over and durable. After that it has ended,
    /// unless it had not begun.
    pub async fn commit(&self) -> Result<()> {
        if self.0.place.lock().is_none() {
            return if self.has_given_up() { Err(Error::Ended) } else { Ok(()) };
        }
        let (sender, outcome) = oneshot::channel();
        let (mut sender, asked) = (Some(sender), &self.0.asked);
        self.step(|core, place| {
            let step = core.request_commit(place, &mut sender)?;
            asked.store(matches!(step, Step::Done(())), Ordering::Relaxed);
            Ok(step)
        })
        .await?;
        let outcome = outcome.await.unwrap_or_else(|_| Err(unanswered()));
        if outcome.as_ref().is_err_and(Error::is_retryable) {
            asked.store(false, Ordering::Relaxed);
        }
        outcome
    }

    /// Aborts.
    pub fn abort(&self) {
        self.0.given_up.store(true, Ordering::Relaxed);
        if let Some(place) = &*self.0.place.lock() {
            self.0.shared.with(|core| core.abort(place));
        }
    }

    /// Where it has lost, as long as its epoch lasts.
    pub(crate) fn lost(&self) -> Option<ConflictKey> {
        let lost = |place: &Place| self.0.shared.with(|core| core.lost(place));
        self.0.place.lock().as_ref().and_then(lost)
    }

    /// Takes back all that it has written, and if it has read anything waits until that is durable,
    /// as a commit does.
    pub(crate) async fn end_in_error(&self) -> Result<()> {
        let (sender, outcome) = oneshot::channel();
        let reads = match &*self.0.place.lock() {
            Some(place) => self.0.shared.with(|core| core.end_in_error(place, sender))?,
            None => false,
        };
        if reads { outcome.await.unwrap_or_else(|_| Err(unanswered())) } else { Ok(()) }
    }

    /// Whether it has committed, or may have.
    pub(crate) fn has_asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Whether its owner has aborted it.
    pub(crate) fn has_given_up(&self) -> bool {
        self.0.given_up.load(Ordering::Relaxed)
    }

    /// When its first attempt began, in the order of all.
    pub(crate) fn age(&self) -> Option<u64> {
        self.0.place.lock().as_ref().map(|place| place.age).or(self.0.age)
    }

    /// Tries a step at every beat until it is done, beginning first if need be.
    async fn step<T: Send>(
        &self,
        mut step: impl FnMut(&mut Core, &mut Place) -> Result<Step<T>> + Send,
    ) -> Result<T> {
        let mut has_waited = false;
        loop {
            let beat = self.0.shared.next_beat();
            if let Step::Done(result) = self.0.try_step(has_waited, &mut step)? {
                return Ok(result);
            }
            beat.await;
            has_waited = true;
        }
    }
}

impl Handle {
    fn try_step<T>(
        &self,
        has_waited: bool,
        step: &mut impl FnMut(&mut Core, &mut Place) -> Result<Step<T>>,
    ) -> Result<Step<T>> {
        if self.given_up.load(Ordering::Relaxed) || self.asked.load(Ordering::Relaxed) {
            return Err(Error::Ended);
        }
        let mut bound = self.place.lock();
        self.shared.with(|core| {
            if bound.is_none() {
                match core.begin(self.age)? {
                    Step::Done(place) => *bound = Some(place),
                    Step::Wait => return Ok(Step::Wait),
                }
            }
            let place = bound.as_mut().ok_or(Error::Ended)?;
            if has_waited {
                core.catch_up(place);
            }
            step(core, place)
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let place = self.place.get_mut();
        if let Some(place) = place.take() {
            self.shared.with(|core| {
                core.abort(&place);
                core.forget(&place);
            });
        }
    }
}
