//! The transaction layer without time, I/O or async: what the shell locks and asks.
//!
//! One epoch in steps:
//!
//! 1. It opens as soon as the writes of the one before are collected. Programs and transactions
//!    may begin; what they read of the store waits for a batch.
//! 2. R times: a batch is frozen ([`Core::freeze`]), sent by the driver, and its values delivered
//!    ([`Core::deliver`]); programs that waited for them run, each at a new newest timestamp.
//!    Further batches may be frozen before the values of one have come; they come in the same
//!    order.
//! 3. It closes ([`Core::close_epoch`]): what is not settled is dropped, the last settled version
//!    of every record becomes the write batch, the directory takes the new state. If the clerk came
//!    too late for that ([`Core::miss_close`]), it goes on for another round of batches.
//! 4. Once the engine has committed ([`Core::committed`]), recycled addresses are free and the
//!    answers of the epoch leave.
//!
//! The next epoch runs on the state of one that is not durable yet. That is safe: its answers leave
//! after the earlier one's commit, and if that fails nothing is answered at all.
//!
//! What the cloud sees depends on none of this: the driver makes R reads, one write and one commit
//! whatever the core says, and whether it says anything in time.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fogbank_env::{Purpose, Randomness};
use fogbank_oram::{Address, BatchShape};

use crate::addresses::Addresses;
use crate::batcher::{Batch, Batcher};
use crate::delta::{Delta, SLOT_BYTES, bytes_of_number};
use crate::directory::{Blocks, Directory};
use crate::error::{Error, Result};
use crate::footprint::Observer;
use crate::handover::Written;
use crate::key::KeyRange;
use crate::limits::Limits;
use crate::mvtso::{Answer, Mvtso};
use crate::program::Submission;
use crate::quota::{Demand, Quota, held_back};
use crate::record::{Record, Stat};
use crate::row::{Load, ProgramId, Row};
use crate::schedule::{Schedule, Stage};
use crate::settings::Settings;
use crate::staging::{Staging, Turn, Writes};
use crate::version::Body;
use crate::view::Run;
use crate::watch::Watches;

/// Records and blocks that an epoch forgets for each slot of its write batch, less what it changes
/// one by one: that takes less time than writing them.
const FORGOTTEN_A_SLOT: usize = 4;
/// Records of a stage that counts which an epoch makes entries of, for each slot of its write
/// batch, less what it changes.
const ABSORBED_A_SLOT: usize = 2;
/// Of so many batches the large program has one to itself, and half of the others: a long value may
/// need more than half.
const WHOLE_EVERY: u64 = 7;
/// How many programs of the most steps fill an epoch.
const PROGRAMS_OF_AN_EPOCH: u64 = 4;

/// The state of the transaction layer.
pub(crate) struct Core {
    /// Bounds for programs and transactions.
    pub limits: Limits,
    /// Wall clock, as last told by the shell.
    pub now_ms: u64,
    /// The open epoch.
    pub epoch: u64,
    /// What is committed. The driver holds it as well, but for the time in which an epoch closes.
    pub directory: Arc<Directory>,
    /// Transactions of the open epoch.
    pub mvtso: Mvtso,
    /// Reads of the open epoch.
    pub batcher: Batcher,
    /// Programs not answered yet.
    pub schedule: Schedule,
    /// Watched keys and ranges.
    pub watches: Watches,
    /// Programs refused, to be answered outside the lock.
    pub refused: Vec<Refused>,
    /// No program or transaction is admitted any more.
    pub closing: bool,
    /// An ask of the driver was missed: no program is begun until one has been filled.
    pub hushed: bool,
    /// The last epoch that admitted anything has closed.
    pub drained: bool,
    /// No epochs run for now, and why.
    pub resting: Option<Error>,
    /// Nothing runs any more, and why.
    pub stopped: Option<Error>,
    /// For whom the open epoch has begun with values.
    carries_for: Option<ProgramId>,
    /// Batches frozen in the open epoch, and in all.
    pub batches_frozen: usize,
    batches: u64,
    /// First attempts of interactive transactions so far.
    pub ages: u64,
    /// Is told what programs have asked for.
    pub observer: Option<Arc<dyn Observer>>,
    /// The run under way or last run, kept for its buffers.
    pub run: Run,
    /// Units of work since somebody last asked, and in this epoch.
    units: Units,
    /// The program that changes more than an epoch writes.
    pub staging: Staging,
    /// The first delta drops what those of earlier openings have left staged.
    is_new: bool,
    addresses: Addresses,
    /// Those of records that the closing epoch removes whose program puts others there.
    reusable: Vec<Address>,
    /// Ranges of which nobody asks for a key before all in them has gone.
    forgotten: VecDeque<KeyRange>,
    settings: Settings,
    pub(crate) shape: BatchShape,
    /// Batches that were frozen and not delivered, the oldest first.
    under_way: VecDeque<Batch>,
}

/// Who is to be answered when a closed epoch is durable.
pub(crate) struct Unanswered {
    /// Programs.
    pub programs: Vec<Box<dyn Submission>>,
    /// Interactive commits.
    pub committed: Vec<Answer>,
    /// What the epoch had in memory: much, so it goes where nobody waits for that.
    pub _remains: Box<(Mvtso, Turn)>,
}

/// A program that is not carried out, and why.
pub(crate) struct Refused {
    /// The program.
    pub body: Box<dyn Submission>,
    /// Why.
    pub error: Error,
}

impl Refused {
    /// Tells it.
    pub(crate) fn answer(self) {
        self.body.answer(Err(self.error));
    }
}

/// Work done for clients: a unit is a record touched or a name gone through.
#[derive(Default)]
struct Units {
    uncounted: u64,
    epoch: u64,
}

impl Core {
    /// The state before the first epoch.
    pub(crate) fn new(
        settings: Settings,
        shape: BatchShape,
        directory: Directory,
        random: &Randomness,
    ) -> Self {
        let held = directory.iter().flat_map(|(_, entry)| directory.blocks(entry));
        let stream = random.stream(Purpose::Allocation);
        let addresses = Addresses::new(shape.capacity, held, stream);
        let mut core = Self {
            limits: Limits::of(&settings, &shape),
            now_ms: 0,
            epoch: 0,
            directory: Arc::new(directory),
            mvtso: Mvtso::default(),
            batcher: Batcher::default(),
            schedule: Schedule::default(),
            watches: Watches::default(),
            refused: Vec::new(),
            closing: false,
            drained: false,
            hushed: false,
            resting: None,
            stopped: None,
            carries_for: None,
            batches_frozen: 0,
            batches: 0,
            ages: 0,
            observer: None,
            run: Run::default(),
            units: Units::default(),
            staging: Staging::default(),
            is_new: true,
            addresses,
            reusable: Vec::new(),
            forgotten: VecDeque::new(),
            settings,
            shape,
            under_way: VecDeque::new(),
        };
        core.open_epoch();
        core
    }

    /// Batches of the open epoch that can still take reads.
    pub(crate) fn batches_left(&self) -> usize {
        self.settings.read_batches - self.batches_frozen
    }

    /// Freezes the next batch; its addresses, to be sent.
    pub(crate) fn freeze(&mut self) -> Vec<Address> {
        self.hushed = false;
        self.batches += 1;
        let is_large = self.schedule.reading_eldest().is_some_and(|entry| entry.is_large);
        let size = self.shape.read_batch;
        let hinted = match self.batches.is_multiple_of(WHOLE_EVERY) {
            _ if !is_large => 0,
            true => size,
            false => size.div_ceil(2),
        };
        let mut batch = self.batcher.freeze(&mut self.mvtso.rows, size, hinted);
        self.batches_frozen += 1;
        let addresses = std::mem::take(&mut batch.addresses);
        self.under_way.push_back(batch);
        addresses
    }

    /// Takes the values of the oldest batch under way. Programs that waited become ready.
    pub(crate) fn deliver(&mut self, values: Vec<Option<Bytes>>) -> Result<()> {
        let mut values = values.into_iter();
        for id in self.under_way.pop_front().unwrap_or_default().rows {
            let row = self.mvtso.rows.get_mut(id);
            let Some(base) = &row.base else { continue };
            let blocks: Option<Vec<Bytes>> = values.by_ref().take(base.blocks.len()).collect();
            let value = blocks.and_then(|b| join(&b, base.blocks.len(), base.stat.len as usize));
            let missing = || Error::fault("a block of the directory holds nothing");
            row.load = Load::Here(value.ok_or_else(missing)?);
            for program in std::mem::take(&mut row.waiting) {
                if let Some(entry) = self.schedule.get_mut(program) {
                    entry.missing = entry.missing.saturating_sub(1);
                    self.schedule.ready_if_first(program);
                }
            }
        }
        Ok(())
    }

    /// A batch was due, and has left as padding: nobody came to freeze it.
    pub(crate) fn miss_batch(&mut self) {
        self.hushed = true;
        self.batches_frozen += 1;
        self.under_way.push_back(Batch::default());
    }

    /// Closes the epoch and opens the next. What it has written is handed over first: the driver
    /// waits for that, and for nothing of what follows.
    pub(crate) fn close_epoch(
        &mut self,
        last: bool,
        hand_over: impl FnOnce(Written),
    ) -> Unanswered {
        self.hushed = false;
        let mut mvtso = std::mem::take(&mut self.mvtso);
        let (writes, delta, turn) = self.collect(&mvtso);
        hand_over(Written { writes, delta, directory: self.directory.clone() });
        turn.dropped.all_blocks().for_each(|address| self.addresses.give_up(address));
        self.tell_watches(&mvtso, &turn);
        let programs = self.settled_programs(&mvtso);
        let outcomes = mvtso.expire();
        for (_, answer, error) in outcomes.lost {
            // The owner may have gone.
            let _ = answer.send(Err(error));
        }
        let committed = outcomes.committed.into_iter().map(|(_, answer)| answer).collect();
        // What the eldest has read it need not read again.
        let (oldest, before) = (self.schedule.oldest(), self.carries_for);
        self.carries_for = oldest.map(|(program, _)| program);
        let carried = oldest.map(|(program, entry)| {
            let read = entry.awaits.iter().chain(&entry.reads).copied();
            mvtso.rows.carry_on(&self.directory, read, before == Some(program))
        });
        self.schedule.open_epoch();
        self.drained = last;
        self.epoch += 1;
        self.open_epoch();
        self.mvtso.rows.begin_with(carried.unwrap_or_default());
        Unanswered { programs, committed, _remains: Box::new((mvtso, turn)) }
    }

    /// The epoch was to close, and an empty one has been written in its place: it goes on, with as
    /// many batches as an epoch has.
    pub(crate) fn miss_close(&mut self, last: bool) {
        self.hushed = true;
        self.drained = last;
        self.batches_frozen = 0;
    }

    /// The epoch closed last is durable.
    pub(crate) fn committed(&mut self) {
        self.addresses.committed();
        let limit = self.space();
        self.mvtso.quota.set_space(limit, self.addresses.pending_count());
    }

    /// No epochs run for now: whoever waits is told why.
    pub(crate) fn rest(&mut self, error: Error) {
        self.turn_away(&error);
        self.resting = Some(error);
    }

    /// Ends everything: whoever waits is told why.
    pub(crate) fn stop(&mut self, error: Error) {
        self.turn_away(&error);
        self.under_way.clear();
        self.stopped = Some(error);
    }

    fn turn_away(&mut self, error: &Error) {
        let outcomes = self.mvtso.expire();
        let lost = outcomes.lost.into_iter().map(|(_, answer, _)| answer);
        for answer in lost.chain(outcomes.committed.into_iter().map(|(_, answer)| answer)) {
            let _ = answer.send(Err(error.clone()));
        }
        let programs = self.schedule.take_all();
        let refused = programs.into_iter().map(|body| Refused { body, error: error.clone() });
        self.refused.extend(refused);
        // Timestamps begin anew: nobody who still holds one may meet another who has it.
        self.epoch += 1;
        self.open_epoch();
    }

    /// Why nothing is admitted.
    pub(crate) fn refusal(&self) -> Option<Error> {
        // Who closes what has stopped takes nothing of the reason away.
        let closed = || self.closing.then_some(Error::Closed);
        self.stopped.clone().or_else(closed).or_else(|| self.resting.clone())
    }

    fn open_epoch(&mut self) {
        let held_back = held_back(self.shape.capacity as usize, self.settings.key_budget_bytes);
        let quota = Quota::new(self.space(), held_back, self.addresses.pending_count());
        let gives_up = self.frees_later();
        self.mvtso = Mvtso::new(quota, self.shape.value_bytes, gives_up);
        self.mvtso.is_staging = self.staging.is_under_way();
        self.units.epoch = 0;
        self.batcher = Batcher::default();
        self.batches_frozen = 0;
        if let Some(eldest) = self.schedule.eldest {
            let bytes = self.schedule.get_mut(eldest).map_or(0, |entry| entry.bytes);
            self.mvtso.quota.hold_for_eldest(self.share_of_eldest(bytes));
        }
    }

    /// Accounts for work.
    pub(crate) fn work(&mut self, units: usize) {
        let units = (units as u64).min(self.limits.steps_max as u64); // more is refused
        self.units.uncounted += units;
        self.units.epoch += units;
    }

    /// Units of work since this was last asked.
    pub(crate) fn take_units(&mut self) -> u64 {
        std::mem::take(&mut self.units.uncounted)
    }

    /// Whether the epoch has done as much as one is to do, so that the rest is for the next.
    pub(crate) fn has_worked_enough(&self) -> bool {
        self.units.epoch >= (self.limits.steps_max as u64).saturating_mul(PROGRAMS_OF_AN_EPOCH)
    }

    /// What the writes of an epoch may take at most.
    fn space(&self) -> Demand {
        let capacity = self.shape.capacity as usize;
        let key_budget = capacity.saturating_mul(self.settings.key_budget_bytes);
        // What is being forgotten gets on, whoever writes; and so does who needs all of it.
        let is_kept = self.epoch.is_multiple_of(2);
        let forgotten = self.forgotten.front().filter(|_| is_kept);
        let forgotten = forgotten.map_or(0, |range| bytes_of_number(range.start()));
        let (keys, key_bytes) = self.directory.stage().beside();
        Demand {
            bytes: self.delta_bytes().saturating_sub(forgotten),
            blocks: self.addresses.free_count(),
            keys: capacity.saturating_sub(self.directory.len() + keys),
            key_bytes: key_budget.saturating_sub(self.directory.key_bytes() + key_bytes),
        }
    }

    /// What the changes of an epoch may take of its delta.
    pub(crate) fn delta_bytes(&self) -> usize {
        self.shape.write_batch.saturating_mul(SLOT_BYTES)
    }

    /// Bytes of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.shape.value_bytes.max(1)
    }

    /// Whether later epochs will have more room, though nobody deletes anything.
    pub(crate) fn frees_later(&self) -> bool {
        !self.forgotten.is_empty() || self.directory.stage().is_counted()
    }

    /// Whether so many records of one block each can be there at once, with keys of `key_bytes`.
    pub(crate) fn can_hold(&self, records: u32, key_bytes: usize) -> bool {
        let capacity = self.shape.capacity as usize;
        let held_back = held_back(capacity, self.settings.key_budget_bytes);
        let key_budget = capacity.saturating_mul(self.settings.key_budget_bytes);
        let records = records as usize;
        records + held_back.keys <= capacity
            && records.saturating_mul(key_bytes) + held_back.key_bytes <= key_budget
            && self.limits.value_bytes_max >= self.shape.value_bytes
    }

    /// The programs that are part of the epoch.
    fn settled_programs(&mut self, mvtso: &Mvtso) -> Vec<Box<dyn Submission>> {
        let mut bodies = Vec::with_capacity(self.schedule.done.len());
        for program in std::mem::take(&mut self.schedule.done) {
            let Some(entry) = self.schedule.get_mut(program) else { continue };
            let Stage::Done(ts) = entry.stage else { continue };
            if !mvtso.is_unsettled(ts) {
                for range in std::mem::take(&mut entry.forgets) {
                    // What has just gone may be used again: then this range is not to be removed
                    // anew.
                    let is_there = self.directory.range(&range, false).next().is_some();
                    if is_there && !self.forgotten.contains(&range) {
                        self.forgotten.push_back(range);
                    }
                }
                bodies.extend(self.schedule.take(program).and_then(|entry| entry.body));
            } else if !self.schedule.undo(program) {
                self.give_up(program);
            }
        }
        bodies
    }

    /// The write batch: what is staged, the last settled version of every record, then addresses to
    /// empty.
    fn collect(&mut self, mvtso: &Mvtso) -> (Writes, Delta, Turn) {
        let mut writes = Vec::with_capacity(self.shape.write_batch);
        let is_new = std::mem::take(&mut self.is_new);
        let mut delta = if is_new { Delta::dropping() } else { Delta::default() };
        // While an epoch closes the driver has let go of it; were it not so, this would copy it.
        let mut directory = std::mem::take(&mut self.directory);
        let entries = Arc::make_mut(&mut directory);
        let turn = self.turn_stage(mvtso, entries, &mut writes, &mut delta);
        // Before others come to where they were.
        for row in mvtso.rows.changed().filter(|row| row.is_reused) {
            let blocks = entries.get(&row.key).map(|entry| entries.blocks(entry));
            self.reusable.extend(blocks.into_iter().flatten());
            self.remove(entries, row, Some(Blocks::new()), &mut delta);
        }
        for row in mvtso.rows.changed() {
            let Some(last) = row.last_settled().filter(|last| !last.change.is_staged) else {
                continue;
            };
            // With a mark, what counts now may be other than what the epoch began with.
            let base = match turn.marked {
                _ if row.is_reused => None,
                Some(_) => entries.get(&row.key).map(|entry| entries.blocks(entry)),
                None => row.base.as_ref().map(|base| base.blocks.clone()),
            };
            match (&last.change.body, row.settled_value().into_record()) {
                (Body::Gone, _) | (_, Ok(None)) => self.remove(entries, row, base, &mut delta),
                (Body::Kept, _) if base.is_some() && row.only_attr_settled() => {
                    let stat = Stat { len: last.change.len, attr: last.change.attr };
                    entries.put(&row.key, stat, &base.unwrap_or_default());
                    delta.attribute(&row.key, stat.attr);
                }
                (_, Ok(Some(record))) => {
                    let blocks = base.unwrap_or_default();
                    self.store(entries, (row, blocks), record, &mut writes, &mut delta);
                }
                // Excluded: a sum settles only after its base has come and is a counter.
                (_, Err(_)) => {}
            }
        }
        for address in std::mem::take(&mut self.reusable) {
            self.addresses.give_up(address);
        }
        let bytes = self.delta_bytes().saturating_sub(mvtso.quota.bytes_used() + turn.bytes);
        if turn.marked.is_none() {
            self.absorb(entries, delta.len());
        }
        self.remove_forgotten(entries, bytes, &mut delta);
        entries.take_orphans().into_iter().for_each(|address| self.addresses.give_up(address));
        self.directory = directory;
        let room = self.shape.write_batch.saturating_sub(writes.len());
        writes.extend(self.addresses.freed().take(room).map(|address| (address, None)));
        (writes, delta, turn)
    }

    /// Makes some of what is staged and counts entries.
    fn absorb(&mut self, directory: &mut Directory, changed: usize) {
        let left = self.shape.write_batch.saturating_mul(ABSORBED_A_SLOT);
        directory.absorb_some(left.saturating_sub(changed));
    }

    /// Removes some of the records that nobody will ask for any more: as many as an epoch may take
    /// time for.
    fn remove_forgotten(&mut self, directory: &mut Directory, mut bytes: usize, delta: &mut Delta) {
        let left = self.shape.write_batch.saturating_mul(FORGOTTEN_A_SLOT);
        let mut left = left.saturating_sub(delta.len());
        while let Some(range) = self.forgotten.front() {
            let needed = bytes_of_number(range.start());
            if left == 0 || needed > bytes {
                return;
            }
            let (gone, blocks) = directory.remove_some(range, left);
            left = left.saturating_sub(gone + blocks.len());
            blocks.into_iter().for_each(|address| self.addresses.give_up(address));
            if gone > 0 {
                delta.forgotten(range.start(), gone);
                bytes -= needed;
            }
            // What is empty must not stay: whoever sees that may write there next.
            if directory.range(range, false).next().is_none() {
                self.forgotten.pop_front();
            }
        }
    }

    /// Tells whoever watches what the epoch has changed.
    fn tell_watches(&mut self, mvtso: &Mvtso, turn: &Turn) {
        if self.watches.is_empty() {
            return;
        }
        if let Some(ts) = turn.marked {
            let keys = self.directory.stage().keys();
            keys.for_each(|key| self.watches.tell(key, self.epoch, ts));
        }
        for row in mvtso.rows.changed() {
            if let Some(last) = row.last_settled() {
                self.watches.tell(&row.key, self.epoch, last.ts);
            }
        }
    }

    fn remove(
        &mut self,
        directory: &mut Directory,
        row: &Row,
        base: Option<Blocks>,
        delta: &mut Delta,
    ) {
        if let Some(blocks) = base {
            blocks.into_iter().for_each(|address| self.addresses.give_up(address));
            directory.remove(&row.key);
            delta.removed(&row.key);
        }
    }

    /// Puts a record into the blocks that it has, new ones as needed, and gives up what is left
    /// over.
    fn store(
        &mut self,
        directory: &mut Directory,
        (row, mut blocks): (&Row, Blocks),
        record: Record,
        writes: &mut Writes,
        delta: &mut Delta,
    ) {
        self.lay_out(&record.value, &mut blocks, writes);
        let stat = Stat { len: record.value.len() as u32, attr: record.attr };
        directory.put(&row.key, stat, &blocks);
        delta.put(&row.key, stat, &blocks);
    }

    /// Writes a value into blocks: those that there are, and new ones as needed.
    pub(crate) fn lay_out(&mut self, value: &Bytes, blocks: &mut Blocks, writes: &mut Writes) {
        let block_bytes = self.block_bytes();
        let count = value.len().div_ceil(block_bytes);
        while blocks.len() > count {
            self.addresses.give_up(blocks[blocks.len() - 1]);
            blocks.pop();
        }
        while blocks.len() < count {
            // The quota has reserved it. Were it not so, the engine would refuse this address and
            // nothing of the epoch would be committed: better than a record without all its blocks.
            let address = self.reusable.pop().or_else(|| self.addresses.take());
            blocks.push(address.unwrap_or(Address(u32::MAX)));
        }
        let len = value.len();
        for (address, start) in blocks.iter().zip((0..len).step_by(block_bytes)) {
            let chunk = value.slice(start..len.min(start + block_bytes));
            // A whole block is not copied: while an epoch closes, its work has to fit the slack.
            let whole = chunk.len() == block_bytes;
            writes.push((*address, Some(if whole { chunk } else { pad(&chunk, block_bytes) })));
        }
    }
}

/// The value of `len` bytes that `count` blocks hold.
pub(crate) fn join(blocks: &[Bytes], count: usize, len: usize) -> Option<Bytes> {
    if blocks.len() != count {
        return None;
    }
    if let [only] = blocks {
        return (only.len() >= len).then(|| only.slice(..len));
    }
    let mut value = BytesMut::with_capacity(blocks.iter().map(Bytes::len).sum());
    blocks.iter().for_each(|block| value.extend_from_slice(block));
    (value.len() >= len).then(|| value.freeze().slice(..len))
}

/// A chunk at the size of a block.
pub(crate) fn pad(chunk: &[u8], block_bytes: usize) -> Bytes {
    let mut block = BytesMut::with_capacity(block_bytes);
    block.extend_from_slice(chunk);
    block.resize(block_bytes, 0);
    block.freeze()
}
