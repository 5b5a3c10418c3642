//! Multiversion timestamp ordering within one epoch.
//!
//! 1. A transaction takes its timestamp at its first statement and a version of every record it
//!    writes becomes visible at once (Obladi, section 6.1).
//! 2. A read sees the last version not above its timestamp, marks it, and depends on its writer
//!    while that one may still abort.
//! 3. A write that follows a version read by a later timestamp aborts its transaction; so does one
//!    that contradicts a predicate read, or that finds the quota full.
//! 4. A transaction whose end was asked for *settles* once everything it depends on has: nothing
//!    but the loss of the whole epoch can undo it then.
//! 5. An abort takes its versions back and aborts every dependant. Programs among them are not
//!    failed but run again.
//! 6. When the epoch ends, whatever is not settled is not part of it. That is a filter at the
//!    collection of writes, O(1) a transaction: the end of an epoch does not wait for undos.
//!
//! Invariants: dependencies go from later to earlier timestamps, so settling never deadlocks; a
//! transaction that is not in the table and not active is settled; the reservations of all rows add
//! up to what the quota has given out.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::delta::{bytes_of_number, bytes_of_put, bytes_of_removal};
use crate::error::{Error, Lack, Result};
use crate::predicate::Predicates;
use crate::quota::{Claim, Demand, Quota, Verdict};
use crate::record::Stat;
use crate::retry_locks::ConflictKey;
use crate::row::{Load, ProgramId, Row};
use crate::rows::{RowId, Rows};
use crate::version::{Body, Change, Ts, Version};

/// Where the outcome of a commit goes.
pub(crate) type Answer = oneshot::Sender<Result<()>>;

/// Records that a transaction may read and still move: going through them holds up everybody.
const READS_NOTED_MAX: usize = 512;

/// How far a transaction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Statements may come.
    Active,
    /// Its end was asked for; it waits for what it depends on.
    Requested,
    /// It will not commit.
    Aborted(Error),
}

/// A transaction that may still abort.
#[derive(Debug)]
pub(crate) struct Txn {
    /// How far it is.
    pub state: State,
    /// The program, if it is one.
    pub program: Option<ProgramId>,
    /// Rows it has written.
    pub writes: SmallVec<[RowId; 4]>,
    /// Rows whose base it waits for.
    pub awaits: BTreeSet<RowId>,
    /// What rows held of its own before each write, newest last.
    pub undo: Vec<(RowId, Option<Change>)>,
    /// Rows it has added to, whose base must be here before it can commit.
    pub sums: SmallVec<[RowId; 2]>,
    /// Rows it has read and who wrote what it saw: 0 for the base.
    pub reads: SmallVec<[(RowId, Ts); 8]>,
    /// It has seen something.
    pub has_read: bool,
    /// It has seen more than a few single records.
    pub has_scanned: bool,
    /// Who may still abort of those it has read from.
    pub reads_from: BTreeSet<Ts>,
    /// Who has read from it while it may still abort.
    pub dependants: SmallVec<[Ts; 4]>,
    /// Where it has lost, or what it had read from.
    pub lost: Option<ConflictKey>,
    answer: Option<Answer>,
}

impl Txn {
    fn new(state: State, program: Option<ProgramId>) -> Self {
        Self {
            state,
            program,
            writes: SmallVec::new(),
            awaits: BTreeSet::new(),
            undo: Vec::new(),
            sums: SmallVec::new(),
            reads: SmallVec::new(),
            has_read: false,
            has_scanned: false,
            reads_from: BTreeSet::new(),
            dependants: SmallVec::new(),
            lost: None,
            answer: None,
        }
    }

    /// Notes what it has read, for as long as it may move.
    pub(crate) fn note_read(&mut self, id: RowId, writer: Ts, is_whole: bool) {
        self.has_read = true;
        if !is_whole || self.reads.len() >= READS_NOTED_MAX {
            self.stays();
        } else if self.has_only_read() && !self.reads.contains(&(id, writer)) {
            self.reads.push((id, writer));
        }
    }

    /// It keeps its timestamp.
    pub(crate) fn stays(&mut self) {
        (self.has_read, self.has_scanned) = (true, true);
        self.reads = SmallVec::new();
    }

    /// Whether reads of single records are all that it has done.
    pub(crate) fn has_only_read(&self) -> bool {
        self.state == State::Active
            && !self.has_scanned
            && self.undo.is_empty()
            && self.writes.is_empty()
            && self.dependants.is_empty()
    }
}

/// A write of a program, applied when its run has ended well.
pub(crate) struct Write {
    /// The row.
    pub row: RowId,
    /// What is written.
    pub change: Change,
    /// Whether that lets other records go.
    pub makes_room: bool,
}

/// What an epoch's end hands over.
#[derive(Default)]
pub(crate) struct Outcomes {
    /// Commits to confirm once they are durable, in the order in which they settled.
    pub committed: Vec<(Ts, Answer)>,
    /// Transactions that lost.
    pub lost: Vec<(Ts, Answer, Error)>,
}

/// The transactions of one epoch.
#[derive(Default)]
pub(crate) struct Mvtso {
    /// The records they touch.
    pub rows: Rows,
    /// What they may write.
    pub quota: Quota,
    /// What their scans saw.
    pub predicates: Predicates,
    /// Programs to run again because something they read was taken back.
    pub redo: Vec<ProgramId>,
    /// Commits to confirm and to deny.
    pub outcomes: Outcomes,
    /// Rows that aborted transactions waited for.
    pub abandoned: Vec<RowId>,
    /// Transactions aborted by others or by the quota in this epoch.
    pub aborts: u64,
    txns: BTreeMap<Ts, Txn>,
    active: BTreeSet<Ts>,
    last_ts: Ts,
    /// Something was deleted in this epoch, or is being forgotten.
    gives_up: bool,
    /// Whether the eldest program stages: then it may give up room as well.
    pub is_staging: bool,
    block_bytes: usize,
}

impl Mvtso {
    /// An epoch without transactions; whether what it lacks room for may find it in a later one.
    pub(crate) fn new(quota: Quota, block_bytes: usize, gives_up: bool) -> Self {
        Self { quota, block_bytes, gives_up, ..Self::default() }
    }

    /// Begins an interactive transaction.
    pub(crate) fn begin(&mut self) -> Ts {
        self.last_ts += 1;
        self.txns.insert(self.last_ts, Txn::new(State::Active, None));
        self.active.insert(self.last_ts);
        self.last_ts
    }

    /// The timestamp a program gets if it ends now.
    pub(crate) fn next_ts(&self) -> Ts {
        self.last_ts + 1
    }

    /// The last timestamp that was given.
    pub(crate) fn newest_ts(&self) -> Ts {
        self.last_ts
    }

    /// Gives an active transaction the next timestamp in place of its own.
    pub(crate) fn renumber(&mut self, ts: Ts) -> Option<Ts> {
        let txn = self.txns.remove(&ts)?;
        self.last_ts += 1;
        self.active.remove(&ts);
        self.active.insert(self.last_ts);
        self.txns.insert(self.last_ts, txn);
        Some(self.last_ts)
    }

    /// The newest transaction that may still read older versions.
    pub(crate) fn newest_active(&self) -> Option<Ts> {
        self.active.last().copied()
    }

    /// The oldest transaction that may still read.
    pub(crate) fn oldest_active(&self) -> Option<Ts> {
        self.active.first().copied()
    }

    /// Forgets a row and what it reserves.
    pub(crate) fn forget_row(&mut self, id: RowId) {
        self.quota.release(self.rows.get(id).reserved);
        self.rows.forget(id);
    }

    /// Whether some active transaction is not waiting for a batch.
    pub(crate) fn is_anybody_busy(&self) -> bool {
        let waits = |id: &RowId| !matches!(self.rows.get(*id).load, Load::Here(_));
        self.active.iter().any(|ts| !self.txns.get(ts).is_some_and(|t| t.awaits.iter().any(waits)))
    }

    /// A transaction that may still abort or has aborted.
    pub(crate) fn txn(&self, ts: Ts) -> Option<&Txn> {
        self.txns.get(&ts)
    }

    /// A transaction that may still abort or has aborted.
    pub(crate) fn txn_mut(&mut self, ts: Ts) -> Option<&mut Txn> {
        self.txns.get_mut(&ts)
    }

    /// Whether a writer may still abort.
    pub(crate) fn is_unsettled(&self, ts: Ts) -> bool {
        self.txns.contains_key(&ts)
    }

    /// `reader` has seen the version of every one of `writers` that is not settled.
    pub(crate) fn depend(&mut self, reader: Ts, writers: impl IntoIterator<Item = Ts>) {
        for writer in writers {
            if writer == reader || !self.txns.contains_key(&writer) {
                continue;
            }
            let Some(txn) = self.txns.get_mut(&reader) else { continue };
            if !txn.reads_from.insert(writer) {
                continue;
            }
            if let Some(txn) = self.txns.get_mut(&writer) {
                txn.dependants.push(reader);
            }
        }
    }

    /// A write of an interactive transaction. On an error the caller aborts it.
    pub(crate) fn write(&mut self, ts: Ts, id: RowId, change: Change) -> Result<()> {
        let row = self.rows.get(id);
        let position = row.visible(ts);
        let (before, after) = (row.stat_at(position), stat_after(row, position, &change));
        if row.is_too_late(ts, &change) || self.predicates.contradicts(&row.key, ts, before, after)
        {
            return Err(self.loses_at(ts, id));
        }
        self.reserve(id, &change)?;
        let earlier = self.rows.get(id).own(ts).cloned();
        self.rows.insert(id, ts, change);
        if let Some(txn) = self.txns.get_mut(&ts) {
            if earlier.is_none() && !txn.writes.contains(&id) {
                txn.writes.push(id);
            }
            txn.undo.push((id, earlier));
        }
        Ok(())
    }

    fn loses_at(&mut self, ts: Ts, id: RowId) -> Error {
        let rivals = ConflictKey::of(&self.rows.get(id).key);
        if let Some(txn) = self.txns.get_mut(&ts) {
            txn.lost = Some(rivals);
        }
        Error::Conflict
    }

    /// Takes back all that an active transaction has written, and aborts whoever has read that;
    /// what it has read itself stays read. Cannot lose, as going back to a savepoint can.
    pub(crate) fn take_back(&mut self, ts: Ts) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        let (mut rows, dependants) =
            (std::mem::take(&mut txn.writes), std::mem::take(&mut txn.dependants));
        txn.undo.clear();
        txn.sums.clear();
        if txn.has_read {
            txn.stays(); // what it read after a write was not noted
        }
        self.abandoned.extend(std::mem::take(&mut txn.awaits));
        let rivals = rows.first().map(|id| ConflictKey::of(&self.rows.get(*id).key));
        for reader in dependants {
            if let Some(reader) = self.txns.get_mut(&reader) {
                reader.lost = reader.lost.or(rivals);
            }
            self.abort(reader, Error::Conflict);
        }
        rows.sort_unstable();
        rows.dedup();
        for id in rows {
            self.rows.withdraw(id, |writer| writer == ts);
            self.release(id);
        }
    }

    /// Takes writes of `ts` back until only the first `keep` stand.
    pub(crate) fn roll_back(&mut self, ts: Ts, keep: usize) -> Result<()> {
        loop {
            let Some(txn) = self.txns.get_mut(&ts).filter(|txn| txn.undo.len() > keep) else {
                return Ok(());
            };
            let Some((id, earlier)) = txn.undo.pop() else { return Ok(()) };
            let row = self.rows.get(id);
            let now = row.stat_at(row.visible(ts));
            let then = match &earlier {
                Some(change) => stat_after(row, row.visible(ts), change),
                None => row.stat_at(row.visible(ts - 1)),
            };
            let ground = earlier.clone().unwrap_or_else(Change::delete);
            if row.is_too_late(ts, &ground) || self.predicates.contradicts(&row.key, ts, now, then)
            {
                return Err(self.loses_at(ts, id));
            }
            match earlier {
                Some(change) => self.rows.insert(id, ts, change),
                None => self.rows.remove(id, ts),
            }
            self.release(id);
        }
    }

    /// Ends a program's run at the newest timestamp with all its writes, or says why not. It takes
    /// something `beside` them.
    pub(crate) fn finish_program(
        &mut self,
        program: ProgramId,
        writes: &mut Vec<Write>,
        depends_on: &BTreeSet<Ts>,
        eldest: bool,
        beside: Demand,
    ) -> std::result::Result<Ts, Refusal> {
        let settled = !depends_on.iter().any(|&w| self.is_unsettled(w));
        self.reserve_all(writes, eldest, beside, settled)?;
        self.last_ts += 1;
        let ts = self.last_ts;
        let newest_active = self.newest_active();
        let mut rows = SmallVec::new();
        for write in writes.drain(..) {
            let version = Version::new(ts, settled, write.change);
            self.rows.append(write.row, version, newest_active);
            if !settled {
                rows.push(write.row);
            }
        }
        if !settled {
            let mut txn = Txn::new(State::Requested, Some(program));
            txn.writes = rows;
            self.txns.insert(ts, txn);
            self.depend(ts, depends_on.iter().copied());
        }
        Ok(ts)
    }

    /// Room will be made in later epochs.
    pub(crate) fn makes_room(&mut self) {
        self.gives_up = true;
    }

    /// Whether there will be more room.
    pub(crate) fn gives_up(&self) -> bool {
        self.gives_up
    }

    /// Asks for the end of an interactive transaction. The answer comes when the epoch is over.
    pub(crate) fn request(&mut self, ts: Ts, answer: Answer) {
        self.active.remove(&ts);
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        txn.state = State::Requested;
        txn.answer = Some(answer);
        if txn.reads_from.is_empty() {
            self.settle(ts);
        }
    }

    /// Aborts a transaction and everything that has read from it. Each row it concerns is gone
    /// through once, however many transactions fall together.
    pub(crate) fn abort(&mut self, ts: Ts, error: Error) {
        let (mut fallen, mut rows) = (Vec::new(), Vec::new());
        let mut work = vec![(ts, error)];
        let lost = self.txn(ts).and_then(|txn| txn.lost);
        while let Some((ts, error)) = work.pop() {
            let Some(txn) = self.txns.get_mut(&ts) else { continue };
            if matches!(txn.state, State::Aborted(_)) {
                continue;
            }
            fallen.push(ts);
            txn.lost = txn.lost.or(lost);
            rows.append(&mut txn.writes.to_vec());
            let dependants = std::mem::take(&mut txn.dependants);
            work.extend(dependants.into_iter().map(|d| (d, Error::Conflict)));
            self.fell(ts, error);
        }
        self.aborts += fallen.len() as u64;
        fallen.sort_unstable();
        rows.sort_unstable();
        rows.dedup();
        for id in rows {
            self.rows.withdraw(id, |ts| fallen.binary_search(&ts).is_ok());
            self.release(id);
        }
    }

    /// One transaction falls: a program will run again, an owner is told.
    fn fell(&mut self, ts: Ts, error: Error) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        self.abandoned.extend(std::mem::take(&mut txn.awaits));
        if let Some(program) = txn.program {
            self.txns.remove(&ts);
            self.redo.push(program);
            return;
        }
        txn.state = State::Aborted(error.clone());
        txn.undo = Vec::new();
        txn.writes.clear();
        let answer = txn.answer.take();
        self.outcomes.lost.extend(answer.map(|answer| (ts, answer, error)));
        self.active.remove(&ts);
    }

    /// Forgets an aborted transaction whose owner has gone.
    pub(crate) fn forget(&mut self, ts: Ts) {
        if matches!(self.txns.get(&ts), Some(txn) if matches!(txn.state, State::Aborted(_))) {
            self.txns.remove(&ts);
        }
    }

    /// The epoch ends: what is not settled is not part of it.
    pub(crate) fn expire(&mut self) -> Outcomes {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for (ts, txn) in std::mem::take(&mut self.txns) {
            outcomes.lost.extend(txn.answer.map(|answer| (ts, answer, Error::EpochOver)));
        }
        outcomes
    }

    /// What one change to a row costs.
    pub(crate) fn need(&self, row: &Row, change: &Change) -> Demand {
        need(row, change, self.block_bytes)
    }

    fn settle(&mut self, ts: Ts) {
        let mut work = vec![ts];
        while let Some(ts) = work.pop() {
            let Some(txn) = self.txns.remove(&ts) else { continue };
            for id in txn.writes {
                if self.rows.get(id).own(ts).is_some() {
                    self.rows.settle(id, ts);
                }
            }
            self.outcomes.committed.extend(txn.answer.map(|answer| (ts, answer)));
            for dependant in txn.dependants {
                let Some(reader) = self.txns.get_mut(&dependant) else { continue };
                reader.reads_from.remove(&ts);
                if reader.state == State::Requested && reader.reads_from.is_empty() {
                    work.push(dependant);
                }
            }
        }
    }

    fn reserve(&mut self, id: RowId, change: &Change) -> Result<()> {
        let row = self.rows.get(id);
        let wanted = row.reserved.max(self.need(row, change));
        let more = wanted - row.reserved;
        match self.quota.judge(Claim { more, ..Claim::default() }) {
            Verdict::Fits => {
                self.quota.take(more);
                self.gives_up |= change.body == Body::Gone;
                self.rows.get_mut(id).reserved = wanted;
                Ok(())
            }
            Verdict::NotNow => Err(Error::BatchFull),
            Verdict::NoSpace => Err(Error::OutOfSpace),
        }
    }

    fn reserve_all(
        &mut self,
        writes: &[Write],
        eldest: bool,
        beside: Demand,
        settled: bool,
    ) -> std::result::Result<(), Refusal> {
        let mut claim = Claim { eldest, more: beside, ..Claim::default() };
        let mut alone = 0;
        for write in writes {
            let row = self.rows.get(write.row);
            let need = self.need(row, &write.change);
            let more = row.reserved.max(need) - row.reserved;
            claim.more += more;
            claim.making_room += if write.makes_room { more } else { Demand::default() };
            alone += need.bytes;
        }
        let mut verdict = self.quota.judge(claim);
        if verdict == Verdict::NoSpace && settled {
            verdict = self.reuse(writes, &mut claim);
        }
        match verdict {
            Verdict::Fits => {}
            Verdict::NotNow => return Err(Refusal::NotNow { bytes: alone }),
            // What this epoch gives up will be free in a later one.
            Verdict::NoSpace if self.gives_up || (self.is_staging && !eldest) => {
                return Err(Refusal::NotNow { bytes: alone });
            }
            Verdict::NoSpace => return Err(Refusal::NoSpace(self.quota.lack(claim))),
        }
        self.quota.take(claim.more);
        self.gives_up |= writes.iter().any(|write| write.change.body == Body::Gone);
        for write in writes {
            let wanted = {
                let row = self.rows.get(write.row);
                row.reserved.max(self.need(row, &write.change))
            };
            self.rows.get_mut(write.row).reserved = wanted;
        }
        Ok(())
    }

    /// On a full store a program whose writes stand has for what it puts what it removes itself:
    /// what it then claims, and whether that fits. Nobody else has to do with those records in this
    /// epoch, and who writes them later in it claims all that a new record takes.
    fn reuse(&mut self, writes: &[Write], claim: &mut Claim) -> Verdict {
        let is_removed = |write: &&Write| {
            let row = self.rows.get(write.row);
            let is_gone = write.change.body == Body::Gone && !write.change.is_staged;
            is_gone && row.base.is_some() && row.is_untouched()
        };
        let removed: Vec<RowId> = writes.iter().filter(is_removed).map(|w| w.row).collect();
        let gives = removed.iter().map(|&id| self.rows.get(id)).map(|row| Demand {
            blocks: row.base_blocks(),
            keys: 1,
            key_bytes: row.key.encoded_len(),
            bytes: 0,
        });
        let gives = gives.fold(Demand::default(), |sum, gives| sum + gives);
        let with = Claim { more: claim.more - gives, ..*claim };
        let verdict = self.quota.judge(with);
        *claim = with;
        if verdict == Verdict::Fits {
            removed.into_iter().for_each(|id| self.rows.get_mut(id).is_reused = true);
        }
        verdict
    }

    /// Lowers a row's reservation to what its remaining versions cost.
    fn release(&mut self, id: RowId) {
        let row = self.rows.get(id);
        // What a rollback can bring back is needed as well.
        let writers = row.writers().filter_map(|ts| self.txns.get(&ts));
        let undone = writers.flat_map(|txn| &txn.undo);
        let kept = undone.filter(|(of, _)| *of == id).filter_map(|(_, change)| change.as_ref());
        let all = row.changes().chain(kept);
        let still = all.fold(Demand::default(), |n, c| n.max(self.need(row, c)));
        self.quota.release(row.reserved - still);
        self.rows.get_mut(id).reserved = still;
    }
}

/// Why a program that ran to its end did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The quota of this epoch is full; alone it would take this many bytes of the delta.
    NotNow {
        /// Bytes it takes if nobody else has written the same rows.
        bytes: usize,
    },
    /// The store is full: what it lacks.
    NoSpace(Lack),
}

/// Length and attribute that a reader sees after `change` is put on `position`.
fn stat_after(row: &Row, position: usize, change: &Change) -> Option<Stat> {
    match change.body {
        Body::Gone => None,
        Body::Sum(_) => {
            let attr = row.stat_at(position).map_or(0, |stat| stat.attr);
            Some(Stat { len: change.len, attr })
        }
        _ => Some(Stat { len: change.len, attr: change.attr }),
    }
}

/// What a change costs over the committed record.
fn need(row: &Row, change: &Change, block_bytes: usize) -> Demand {
    // What goes without having been there is nowhere noted.
    let was_never = change.body == Body::Gone && row.base.is_none() && !row.has_staged();
    if change.is_staged || was_never {
        return Demand::default();
    }
    let chunks = match change.body {
        Body::Value(_) | Body::Sum(_) => (change.len as usize).div_ceil(block_bytes.max(1)),
        Body::Kept | Body::Gone => 0,
    };
    let inserts = (row.base.is_none() || row.is_reused) && change.body != Body::Gone;
    let bytes = match change.body {
        Body::Value(_) | Body::Sum(_) => bytes_of_put(&row.key, chunks),
        Body::Kept => bytes_of_number(&row.key),
        Body::Gone => bytes_of_removal(&row.key),
    };
    let removed = inserts && row.is_reused;
    let bytes = bytes + if removed { bytes_of_removal(&row.key) } else { 0 };
    Demand {
        bytes,
        blocks: chunks.saturating_sub(row.blocks_to_replace(block_bytes)),
        keys: usize::from(inserts),
        key_bytes: if inserts { row.key.encoded_len() } else { 0 },
    }
}
