//! The state of the baseline: MVTSO over an epoch that never ends, so what no transaction can want
//! any more is let go of one by one.
//!
//! A row is *held* by every transaction that has touched it, by a message that fetches it, and by a
//! transaction that has ended while an older one is active. Invariants: a row that is held by
//! nobody is not kept; the directory has the newest settled version of every record that has no
//! row.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use fogbank_store::{Cell, CellReads, ChunkName, ChunkWrite};
use hashbrown::HashMap;
use smallvec::SmallVec;
use tokio::sync::Semaphore;

use super::ground::{Ground, value_of};
use crate::directory::{Blocks, Directory};
use crate::error::{Error, Result};
use crate::key::{Key, KeyRange};
use crate::mvtso::{Answer, Mvtso};
use crate::quota::{Demand, Quota};
use crate::reads::ReadOutcome;
use crate::record::Stat;
use crate::retry_locks::ConflictKey;
use crate::row::{Found, Load};
use crate::rows::RowId;
use crate::version::{Body, Change, Ts};

/// Versions of a row above which the old ones among them are made one.
const VERSIONS_KEPT: usize = 8;
/// Superseded blocks that are deleted in one message.
const GARBAGE_A_MESSAGE: usize = 512;
/// Transactions from one clearing of what scans have seen to the next.
const CLEAR_EVERY: u32 = 256;

/// Something that happens once, and that many may wait for.
#[derive(Clone)]
pub(super) struct Event(Arc<Semaphore>);

impl Event {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// It has happened.
    pub(super) fn pass(&self) {
        self.0.close();
    }

    /// Completes when it has happened.
    pub(super) async fn passed(self) {
        // There never is a permit: this ends by being closed.
        let _closed = self.0.acquire().await;
    }
}

/// Records to fetch in one message.
pub(super) struct Fetch {
    /// What to read.
    pub reads: CellReads,
    /// Passes when they are here.
    pub event: Event,
    rows: Vec<RowId>,
    /// Whose it is, and its number among all.
    of: (Ts, u64),
}

/// What a read comes to.
pub(super) enum Ask {
    /// The records.
    Here(Vec<Option<Bytes>>),
    /// Some are not here.
    Fetch {
        /// Those nobody fetches yet.
        fetch: Option<Fetch>,
        /// Those that others fetch.
        others: Vec<Event>,
    },
}

/// What a settled transaction leaves to be stored.
pub(super) struct Job {
    /// Which one.
    pub ts: Ts,
    /// What it has written.
    pub writes: Vec<ChunkWrite>,
    /// What has to be stored before it is answered: what it has read from.
    pub after: Vec<Event>,
    /// Passes when all that is so.
    pub event: Event,
    /// Where its outcome goes.
    pub answer: Answer,
}

/// A transaction that has not been released.
#[derive(Default)]
struct Held {
    rows: SmallVec<[RowId; 16]>,
    written: SmallVec<[RowId; 8]>,
    /// Writers it has read from that had not been stored.
    read_from: SmallVec<[Ts; 4]>,
    garbage: Vec<ChunkName>,
    requested: bool,
}

/// Everything in the proxy's memory.
pub(super) struct Table {
    mvtso: Mvtso,
    directory: Directory,
    ground: Ground,
    held: HashMap<Ts, Held>,
    holders: Vec<u32>,
    fetching: HashMap<RowId, Event>,
    /// Messages under way: what lies at the places that they read must stay.
    under_way: BTreeSet<(Ts, u64)>,
    fetches: u64,
    /// Settled and not stored.
    storing: HashMap<Ts, Event>,
    /// Ended, and not older than every active one.
    ended: BTreeMap<Ts, Held>,
    garbage: Vec<ChunkName>,
    failed: Option<Error>,
}

impl Table {
    /// Without records.
    pub(super) fn new(ground: Ground) -> Self {
        let most = usize::MAX / 4;
        let space = Demand { bytes: most, blocks: most, keys: most, key_bytes: most };
        Self {
            mvtso: Mvtso::new(Quota::new(space, Demand::default(), 0), usize::MAX, false),
            directory: Directory::default(),
            ground,
            held: HashMap::new(),
            holders: Vec::new(),
            fetching: HashMap::new(),
            under_way: BTreeSet::new(),
            fetches: 0,
            storing: HashMap::new(),
            ended: BTreeMap::new(),
            garbage: Vec::new(),
            failed: None,
        }
    }

    /// Takes in a record that is there from the beginning.
    pub(super) fn load(&mut self, key: &Key, value: &Bytes) -> Result<Vec<ChunkWrite>> {
        let (blocks, writes) = self.ground.take(value)?;
        self.directory.put(key, Stat { len: value.len() as u32, attr: 0 }, &blocks);
        Ok(writes)
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self) -> Ts {
        let ts = self.mvtso.begin();
        self.held.insert(ts, Held::default());
        if ts.is_multiple_of(CLEAR_EVERY) {
            self.mvtso.predicates.forget_before(self.horizon());
        }
        ts
    }

    /// Reads records, or says what has to be fetched.
    pub(super) fn read(&mut self, ts: Ts, keys: &[Key]) -> Result<Ask> {
        self.check(ts)?;
        let ids: SmallVec<[RowId; 16]> = keys.iter().map(|key| self.touch(ts, key)).collect();
        let missing = match self.mvtso.see_records(ts, &ids)? {
            ReadOutcome::All(records) => {
                self.note_writers(ts, &ids);
                let value = |record: Option<crate::Record>| record.map(|record| record.value);
                return Ok(Ask::Here(records.into_iter().map(value).collect()));
            }
            ReadOutcome::Missing(missing) => missing,
        };
        let others = missing.iter().filter_map(|id| self.fetching.get(id).cloned()).collect();
        let fetch = self.fetch(ts, missing);
        Ok(Ask::Fetch { fetch, others })
    }

    /// A transaction that has waited moves to the present, if it can.
    pub(super) fn catch_up(&mut self, ts: Ts) -> Ts {
        let now = self.mvtso.move_to_present(ts);
        if now != ts
            && let Some(held) = self.held.remove(&ts)
        {
            self.held.insert(now, held);
        }
        now
    }

    /// Begins to fetch records without having seen them.
    pub(super) fn prefetch(&mut self, ts: Ts, keys: &[Key]) -> Result<Option<Fetch>> {
        self.check(ts)?;
        let ids: SmallVec<[RowId; 16]> = keys.iter().map(|key| self.touch(ts, key)).collect();
        let row_needs_base = |id: &RowId| {
            let row = self.mvtso.rows.get(*id);
            row.read_at(row.visible(ts)) == Found::NeedsBase
        };
        let missing: Vec<RowId> = ids.into_iter().filter(row_needs_base).collect();
        Ok(self.fetch(ts, missing))
    }

    /// Keys of a range.
    pub(super) fn scan(&mut self, ts: Ts, range: &KeyRange, limit: usize) -> Result<Vec<Key>> {
        self.check(ts)?;
        let what = (range, limit, false);
        let found = self.mvtso.see_keys(&self.directory, ts, what);
        Ok(found.into_iter().map(|(key, _)| key).collect())
    }

    /// Writes a record.
    pub(super) fn write(&mut self, ts: Ts, key: &Key, change: Change) -> Result<()> {
        self.check(ts)?;
        let id = self.touch(ts, key);
        if let Err(error) = self.mvtso.write(ts, id, change) {
            self.mvtso.abort(ts, error.clone());
            return Err(error);
        }
        if let Some(held) = self.held.get_mut(&ts)
            && !held.written.contains(&id)
        {
            held.written.push(id);
        }
        Ok(())
    }

    /// Asks for the end of a transaction.
    pub(super) fn request(&mut self, ts: Ts, answer: Answer) -> Result<()> {
        self.check(ts)?;
        if let Some(held) = self.held.get_mut(&ts) {
            held.requested = true;
        }
        self.mvtso.request(ts, answer);
        Ok(())
    }

    /// Where a transaction has lost.
    pub(super) fn lost(&self, ts: Ts) -> Option<ConflictKey> {
        self.mvtso.txn(ts).and_then(|txn| txn.lost)
    }

    /// Takes back what a transaction has written, and asks for its end if it has read anything.
    /// Whether it has.
    pub(super) fn end_in_error(&mut self, ts: Ts, answer: Answer) -> Result<bool> {
        self.check(ts)?;
        self.mvtso.take_back(ts);
        let reads = self.mvtso.txn(ts).is_some_and(|txn| txn.has_read);
        if reads {
            self.request(ts, answer)?;
        }
        Ok(reads)
    }

    /// A handle has gone: what has not asked for its end aborts.
    pub(super) fn leave(&mut self, ts: Ts) {
        if self.held.get(&ts).is_some_and(|held| !held.requested) {
            self.mvtso.abort(ts, Error::Ended);
            self.mvtso.forget(ts);
            self.end(ts);
        }
    }

    /// Transactions that have settled, in that order.
    pub(super) fn take_settled(&mut self) -> Vec<Job> {
        let settled = std::mem::take(&mut self.mvtso.outcomes.committed);
        settled.into_iter().map(|(ts, answer)| self.job(ts, answer)).collect()
    }

    /// Transactions that have lost after they had asked for their end.
    pub(super) fn take_lost(&mut self) -> Vec<(Answer, Error)> {
        let lost = std::mem::take(&mut self.mvtso.outcomes.lost);
        let told = lost.into_iter().map(|(ts, answer, error)| {
            self.mvtso.forget(ts);
            self.end(ts);
            (answer, error)
        });
        told.collect()
    }

    /// What was fetched is here.
    pub(super) fn deliver(&mut self, fetch: Fetch, cells: Result<Vec<Cell>>) {
        self.under_way.remove(&fetch.of);
        let mut cells = match cells {
            Ok(cells) => cells.into_iter(),
            Err(error) => return self.fail(&error),
        };
        for id in fetch.rows {
            self.fetching.remove(&id);
            let row = self.mvtso.rows.get_mut(id);
            if let Some(base) = &row.base {
                let value = value_of(&mut cells, base.blocks.len(), base.stat.len as usize);
                match value {
                    Some(value) => row.load = Load::Here(value),
                    None => self.failed = Some(Error::fault("a record is not where it was put")),
                }
            }
            self.let_go(id);
        }
    }

    /// What a transaction has written is stored, and so is what it has read from.
    pub(super) fn stored(&mut self, ts: Ts, outcome: Result<()>) -> Result<()> {
        if let Err(error) = &outcome {
            self.fail(error);
        }
        self.storing.remove(&ts);
        self.end(ts);
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// What may be deleted, if it is worth a message.
    pub(super) fn take_garbage(&mut self) -> Option<Vec<ChunkName>> {
        let enough = self.garbage.len() >= GARBAGE_A_MESSAGE;
        enough.then(|| std::mem::take(&mut self.garbage))
    }

    /// Nothing is done any more.
    pub(super) fn fail(&mut self, error: &Error) {
        self.failed.get_or_insert_with(|| error.clone());
        self.fetching.clear();
    }

    /// Rows that are kept.
    #[cfg(test)]
    pub(super) fn rows(&self) -> usize {
        self.mvtso.rows.len()
    }

    fn check(&self, ts: Ts) -> Result<()> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => self.mvtso.check_active(ts),
        }
    }

    /// The row of a key, held by a transaction.
    fn touch(&mut self, ts: Ts, key: &Key) -> RowId {
        let id = self.mvtso.touch(&self.directory, key);
        if let Some(held) = self.held.get_mut(&ts) {
            held.rows.push(id);
            self.hold(id);
        }
        id
    }

    fn hold(&mut self, id: RowId) {
        let index = id as usize;
        if self.holders.len() <= index {
            self.holders.resize(index + 1, 0);
        }
        self.holders[index] += 1;
    }

    fn let_go(&mut self, id: RowId) {
        let holders = &mut self.holders[id as usize];
        *holders -= 1;
        if *holders == 0 {
            self.mvtso.forget_row(id);
        } else if self.mvtso.rows.get(id).newest() > VERSIONS_KEPT
            && !self.fetching.contains_key(&id)
        {
            let horizon = self.horizon();
            self.mvtso.rows.get_mut(id).settle_into_base(horizon);
        }
    }

    /// Those of `missing` that nobody fetches yet become one message.
    fn fetch(&mut self, ts: Ts, missing: impl IntoIterator<Item = RowId>) -> Option<Fetch> {
        let (mut reads, mut rows, event) = (CellReads::default(), Vec::new(), Event::new());
        for id in missing {
            let row = self.mvtso.rows.get_mut(id);
            let Some(base) = row.base.as_ref().filter(|_| row.load == Load::Cold) else { continue };
            self.ground.ask(&base.blocks, &mut reads);
            row.load = Load::InFlight;
            self.fetching.insert(id, event.clone());
            self.hold(id);
            rows.push(id);
        }
        if rows.is_empty() {
            return None;
        }
        self.fetches += 1;
        let of = (ts, self.fetches);
        self.under_way.insert(of);
        Some(Fetch { reads, event, rows, of })
    }

    /// Notes whose unstored writes a transaction has read.
    fn note_writers(&mut self, ts: Ts, ids: &[RowId]) {
        let Some(held) = self.held.get_mut(&ts) else { return };
        for &id in ids {
            let row = self.mvtso.rows.get(id);
            let Some(writer) = row.writer_at(row.visible(ts)).filter(|w| *w != ts) else {
                continue;
            };
            let stored = !self.storing.contains_key(&writer) && !self.mvtso.is_unsettled(writer);
            if !stored && !held.read_from.contains(&writer) {
                held.read_from.push(writer);
            }
        }
    }

    /// Gives what a settled transaction has written its places.
    fn job(&mut self, ts: Ts, answer: Answer) -> Job {
        let (written, read_from) = match self.held.get_mut(&ts) {
            Some(held) => (std::mem::take(&mut held.written), std::mem::take(&mut held.read_from)),
            None => Default::default(),
        };
        let (mut writes, mut garbage) = (Vec::new(), Vec::new());
        for id in written {
            if let Err(error) = self.place(ts, id, &mut writes, &mut garbage) {
                self.fail(&error);
            }
        }
        if let Some(held) = self.held.get_mut(&ts) {
            held.garbage = garbage;
        }
        let after = read_from.iter().filter_map(|w| self.storing.get(w).cloned()).collect();
        let event = Event::new();
        self.storing.insert(ts, event.clone());
        Job { ts, writes, after, event, answer }
    }

    /// The newest settled version of a row goes into the directory; an older one is of no use to
    /// anybody.
    fn place(
        &mut self,
        ts: Ts,
        id: RowId,
        writes: &mut Vec<ChunkWrite>,
        garbage: &mut Vec<ChunkName>,
    ) -> Result<()> {
        let row = self.mvtso.rows.get(id);
        if row.is_superseded(ts) {
            return Ok(());
        }
        let before = self.directory.get(&row.key).map(|entry| self.directory.blocks(entry));
        match row.own(ts).map(|change| (&change.body, change.len)) {
            Some((Body::Value(value), len)) => {
                let (blocks, chunks): (Blocks, _) = self.ground.take(value)?;
                writes.extend(chunks);
                self.directory.put(&row.key, Stat { len, attr: 0 }, &blocks);
            }
            Some((Body::Gone, _)) => drop(self.directory.remove(&row.key)),
            _ => return Ok(()), // taken back
        }
        if let Some(before) = before {
            garbage.extend(self.ground.names(&before));
        }
        Ok(())
    }

    /// A transaction is over; it is released once no older one is active.
    fn end(&mut self, ts: Ts) {
        let Some(held) = self.held.remove(&ts) else { return };
        self.ended.insert(ts, held);
        let horizon = self.horizon();
        while let Some(first) = self.ended.first_entry().filter(|first| *first.key() < horizon) {
            let held = first.remove();
            self.ground.give_up(&held.garbage);
            self.garbage.extend(held.garbage);
            held.rows.into_iter().for_each(|id| self.let_go(id));
        }
    }

    /// No transaction older than this reads any more, and no message of one is under way.
    fn horizon(&self) -> Ts {
        let oldest = self.mvtso.oldest_active().unwrap_or(Ts::MAX);
        self.under_way.first().map_or(oldest, |(ts, _)| oldest.min(*ts))
    }
}
