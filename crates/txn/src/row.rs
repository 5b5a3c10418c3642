//! A record within one epoch: its committed base, its chain of versions, and who waits for it.
//!
//! Positions count from the base: 0 is what was committed before the epoch, `i` the i-th version.
//! A reader of timestamp `t` sees the last position whose timestamp is not above `t`.
//!
//! MVTSO rules kept here:
//!
//! 1. A read marks the version it saw with its timestamp (and, through sums, those below it).
//! 2. A write follows the version its writer sees. If that one was read by a later timestamp, the
//!    write comes too late.
//! 3. Sums commute: a sum reads nothing, so it marks nothing, and may slip under other sums. What
//!    it needs is that the number below stays a number: `counter_marker` guards that.
//! 4. Changing the attribute reads that the record is there, so it marks like a read.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::directory::Blocks;
use crate::error::Error;
use crate::key::Key;
use crate::quota::Demand;
use crate::record::{Record, Stat};
use crate::version::{Body, COUNTER_BYTES, Change, Ts, Version};

/// Number of a program, in the order of arrival.
pub(crate) type ProgramId = u64;

/// The committed record that an epoch starts from.
#[derive(Debug)]
pub(crate) struct Base {
    /// Length and attribute.
    pub stat: Stat,
    /// Where the value lies.
    pub blocks: Blocks,
}

/// Where the base value is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// In the store, not asked for.
    Cold,
    /// In the store; may fill padding.
    Hinted,
    /// Asked for, in no batch yet.
    Queued,
    /// In the batch that is under way.
    InFlight,
    /// Here (empty if there is no record).
    Here(Bytes),
}

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No such record.
    Absent,
    /// The record.
    Here(Record),
    /// The base value is not here.
    NeedsBase,
    /// A sum over something that is not a counter.
    NotACounter,
}

/// One record in one epoch.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its key.
    pub key: Key,
    /// The committed record.
    pub base: Option<Base>,
    /// The committed value.
    pub load: Load,
    /// Programs and transactions that wait for the base value.
    pub interest: u32,
    /// The programs among them.
    pub waiting: SmallVec<[ProgramId; 2]>,
    /// What its versions reserve of the epoch's quota.
    pub reserved: Demand,
    /// Whether the program that has removed it has its key and its blocks for what it puts.
    pub is_reused: bool,
    /// Whether the index of rows with writes has it.
    pub indexed: bool,
    /// Whether the list of rows that have had a version has it.
    pub changed: bool,
    /// The run that last wrote it, and where in that run's list.
    pub written_by_run: (u32, u32),
    /// The run that last read it.
    pub read_by_run: u32,
    /// The run that last found it missing.
    pub wanted_by_run: u32,
    versions: SmallVec<[Version; 1]>,
    base_marker: Ts,
    counter_marker: Ts,
}

impl Row {
    /// A row nobody has read or written.
    pub(crate) fn new(key: Key, base: Option<Base>) -> Self {
        let stored = base.as_ref().is_some_and(|b| !b.blocks.is_empty());
        let load = if stored { Load::Cold } else { Load::Here(Bytes::new()) };
        Self {
            key,
            base,
            load,
            interest: 0,
            waiting: SmallVec::new(),
            reserved: Demand::default(),
            is_reused: false,
            indexed: false,
            changed: false,
            written_by_run: (0, 0),
            read_by_run: 0,
            wanted_by_run: 0,
            versions: SmallVec::new(),
            base_marker: 0,
            counter_marker: 0,
        }
    }

    /// Whether nobody has written it in this epoch, nor reserved anything for it.
    pub(crate) fn is_untouched(&self) -> bool {
        self.versions.is_empty() && self.reserved == Demand::default()
    }

    /// Blocks of the base value.
    pub(crate) fn base_blocks(&self) -> usize {
        self.base.as_ref().map_or(0, |b| b.blocks.len())
    }

    /// The newest position.
    pub(crate) fn newest(&self) -> usize {
        self.versions.len()
    }

    /// The position a reader of `ts` sees.
    pub(crate) fn visible(&self, ts: Ts) -> usize {
        match self.versions.last() {
            Some(last) if last.ts > ts => self.versions.partition_point(|v| v.ts <= ts),
            _ => self.versions.len(),
        }
    }

    /// Length and attribute at a position.
    pub(crate) fn stat_at(&self, position: usize) -> Option<Stat> {
        let mut summed = false;
        for version in self.versions[..position].iter().rev() {
            let change = &version.change;
            match change.body {
                Body::Sum(_) => summed = true,
                Body::Gone => return summed.then_some(Stat { len: COUNTER_BYTES, attr: 0 }),
                Body::Value(_) | Body::Kept => {
                    let len = if summed { COUNTER_BYTES } else { change.len };
                    return Some(Stat { len, attr: change.attr });
                }
            }
        }
        match &self.base {
            Some(base) => {
                let len = if summed { COUNTER_BYTES } else { base.stat.len };
                Some(Stat { len, attr: base.stat.attr })
            }
            None => summed.then_some(Stat { len: COUNTER_BYTES, attr: 0 }),
        }
    }

    /// The record at a position.
    pub(crate) fn read_at(&self, position: usize) -> Found {
        self.fold(position, |_| true)
    }

    /// The record that the epoch leaves: what the settled versions make of the base.
    pub(crate) fn settled_value(&self) -> Found {
        self.fold(self.versions.len(), |v| v.settled)
    }

    /// The last write that stands, if any does.
    pub(crate) fn last_settled(&self) -> Option<&Version> {
        self.versions.iter().rfind(|v| v.settled)
    }

    /// Whether all that stands are new attributes over the base, or over what is staged.
    pub(crate) fn only_attr_settled(&self) -> bool {
        let settled = self.versions.iter().rev().filter(|v| v.settled);
        let mut over = settled.take_while(|v| !v.change.is_staged);
        over.all(|v| v.change.body == Body::Kept)
    }

    /// Whether the end of the epoch has something to write of it: all but what is staged.
    pub(crate) fn is_to_be_written(&self) -> bool {
        self.versions.iter().any(|v| !v.change.is_staged)
    }

    /// Whether something of it counts with the mark of the epoch.
    pub(crate) fn has_staged(&self) -> bool {
        self.versions.iter().any(|v| v.change.is_staged)
    }

    /// Blocks that a value written now may take the place of, whatever becomes of its epoch.
    pub(crate) fn blocks_to_replace(&self, block_bytes: usize) -> usize {
        if self.is_reused {
            return 0;
        }
        let staged = self.versions.iter().filter(|v| v.change.is_staged);
        let staged = staged.map(|v| (v.change.len as usize).div_ceil(block_bytes.max(1)));
        staged.fold(self.base_blocks(), usize::min)
    }

    /// Calls `sink` with every writer a read at `position` depends on, but for `own`.
    pub(crate) fn unsettled_writers(&self, position: usize, own: Ts, mut sink: impl FnMut(Ts)) {
        for version in self.versions[..position].iter().rev() {
            if !version.settled && version.ts != own {
                sink(version.ts);
            }
            if !matches!(version.change.body, Body::Sum(_)) {
                break;
            }
        }
    }

    /// The writer whose version a sum at `position` stands on, if it may still abort.
    pub(crate) fn unsettled_ground(&self, position: usize, own: Ts) -> Option<Ts> {
        let is_sum = |v: &&Version| matches!(v.change.body, Body::Sum(_));
        let ground = self.versions[..position].iter().rev().find(|v| !is_sum(v))?;
        (!ground.settled && ground.ts != own).then_some(ground.ts)
    }

    /// A reader of timestamp `ts` has seen `position`.
    pub(crate) fn mark(&mut self, position: usize, ts: Ts) {
        for version in self.versions[..position].iter_mut().rev() {
            version.marker = version.marker.max(ts);
            if !matches!(version.change.body, Body::Sum(_)) {
                return;
            }
        }
        self.base_marker = self.base_marker.max(ts);
    }

    /// A sum of timestamp `ts` has asked to commit: what is below must stay a counter.
    pub(crate) fn mark_counter(&mut self, ts: Ts) {
        self.counter_marker = self.counter_marker.max(ts);
    }

    /// Whether a write of timestamp `ts` comes too late.
    pub(crate) fn is_too_late(&self, ts: Ts, change: &Change) -> bool {
        let marker = match self.visible(ts) {
            0 => self.base_marker,
            position => self.versions[position - 1].marker,
        };
        let sum = matches!(change.body, Body::Sum(_));
        marker > ts || (!sum && self.counter_marker > ts)
    }

    /// What `ts` itself wrote here.
    pub(crate) fn own(&self, ts: Ts) -> Option<&Change> {
        let version = &self.versions.get(self.visible(ts).checked_sub(1)?)?;
        (version.ts == ts).then_some(&version.change)
    }

    /// Puts a write where its timestamp belongs, in the place of an earlier one of the same writer.
    pub(crate) fn insert(&mut self, ts: Ts, change: Change) {
        let position = self.visible(ts);
        match self.versions[..position].last_mut() {
            Some(own) if own.ts == ts => own.change = change,
            _ => self.versions.insert(position, Version::new(ts, false, change)),
        }
    }

    /// Appends a write of the newest timestamp. If it is settled and nobody can still want the
    /// version before it, it takes that one's place, so a hot key keeps a chain of one.
    pub(crate) fn append(&mut self, version: Version, newest_active: Option<Ts>) {
        let replaceable = |last: &Version| {
            last.settled
                && version.settled
                && !last.change.is_staged
                && newest_active.is_none_or(|active| active < last.ts)
        };
        let Some(last) = self.versions.last_mut().filter(|last| replaceable(last)) else {
            self.versions.push(version);
            return;
        };
        match (&version.change.body, &last.change.body) {
            (Body::Value(_) | Body::Gone, _) => *last = version,
            (Body::Kept, Body::Value(_) | Body::Kept) => {
                last.ts = version.ts;
                last.change.attr = version.change.attr;
            }
            _ => self.versions.push(version),
        }
    }

    /// Takes the write of `ts` back.
    pub(crate) fn remove(&mut self, ts: Ts) {
        if let Some(index) = self.versions.iter().rposition(|v| v.ts == ts) {
            self.versions.remove(index);
        }
    }

    /// Takes all writes of such writers back.
    pub(crate) fn withdraw(&mut self, writer: impl Fn(Ts) -> bool) {
        self.versions.retain(|v| !writer(v.ts));
    }

    /// Makes one base of the base and the settled whole values older than `before`, which nobody
    /// may still want apart.
    pub(crate) fn settle_into_base(&mut self, before: Ts) {
        let old = |v: &&Version| v.settled && v.ts < before;
        let whole = |v: &Version| matches!(v.change.body, Body::Value(_) | Body::Gone);
        let count = self.versions.iter().take_while(old).count();
        let Some(last) = self.versions[..count].iter().rposition(whole) else { return };
        let Version { marker, change, .. } = self.versions[last].clone();
        self.versions.drain(..=last);
        self.base_marker = self.base_marker.max(marker);
        (self.base, self.load) = match change.body {
            Body::Value(value) => {
                let stat = Stat { len: change.len, attr: change.attr };
                (Some(Base { stat, blocks: Blocks::new() }), Load::Here(value))
            }
            _ => (None, Load::Here(Bytes::new())),
        };
    }

    /// Who wrote what stands at a position; `None` for the base.
    pub(crate) fn writer_at(&self, position: usize) -> Option<Ts> {
        Some(self.versions.get(position.checked_sub(1)?)?.ts)
    }

    /// Whether what stands at a position needs nothing below it.
    pub(crate) fn is_whole_at(&self, position: usize) -> bool {
        let version = position.checked_sub(1).and_then(|index| self.versions.get(index));
        version.is_none_or(|v| matches!(v.change.body, Body::Value(_) | Body::Gone))
    }

    /// Whether a settled write newer than `ts` stands.
    pub(crate) fn is_superseded(&self, ts: Ts) -> bool {
        self.versions.iter().rev().take_while(|v| v.ts > ts).any(|v| v.settled)
    }

    /// The writer `ts` can no longer abort.
    pub(crate) fn settle(&mut self, ts: Ts) {
        let index = self.versions.partition_point(|v| v.ts < ts);
        if let Some(version) = self.versions.get_mut(index).filter(|v| v.ts == ts) {
            version.settled = true;
        }
    }

    /// All writes, for the account of what they reserve.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.versions.iter().map(|v| &v.change)
    }

    /// Whoever has written it and not taken that back.
    pub(crate) fn writers(&self) -> impl Iterator<Item = Ts> {
        self.versions.iter().map(|v| v.ts)
    }

    /// The timestamp of the newest write, settled or not.
    pub(crate) fn newest_write(&self) -> Option<Ts> {
        self.versions.last().map(|v| v.ts)
    }

    fn fold(&self, position: usize, counts: impl Fn(&Version) -> bool) -> Found {
        let (mut sum, mut attr) = (None, None);
        for version in self.versions[..position].iter().rev().filter(|v| counts(v)) {
            let change = &version.change;
            match &change.body {
                Body::Sum(delta) => sum = Some(delta.wrapping_add(sum.unwrap_or(0))),
                Body::Kept => attr = attr.or(Some(change.attr)),
                Body::Gone => return finish(None, sum, attr),
                Body::Value(value) => return finish(Some((value, change.attr)), sum, attr),
            }
        }
        match (&self.base, &self.load) {
            (None, _) => finish(None, sum, attr),
            (Some(base), Load::Here(value)) => finish(Some((value, base.stat.attr)), sum, attr),
            (Some(_), _) => Found::NeedsBase,
        }
    }
}

/// Applies what lies above a value to it.
fn finish(below: Option<(&Bytes, u64)>, sum: Option<i64>, attr: Option<u64>) -> Found {
    let attr = attr.or(below.map(|(_, attr)| attr)).unwrap_or(0);
    let value = match (below, sum) {
        (None, None) => return Found::Absent,
        (Some((value, _)), None) => value.clone(),
        (None, Some(sum)) => encode_counter(sum),
        (Some((value, _)), Some(sum)) => match decode_counter(value) {
            Some(number) => encode_counter(number.wrapping_add(sum)),
            None => return Found::NotACounter,
        },
    };
    Found::Here(Record { value, attr })
}

/// The number a counter's value holds.
pub(crate) fn decode_counter(value: &[u8]) -> Option<i64> {
    value.try_into().ok().map(i64::from_le_bytes)
}

/// The value of a counter.
pub(crate) fn encode_counter(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

impl Found {
    /// The record, for callers that have made sure the base is here.
    pub(crate) fn into_record(self) -> Result<Option<Record>, Error> {
        match self {
            Found::Here(record) => Ok(Some(record)),
            Found::Absent => Ok(None),
            Found::NotACounter => Err(Error::NotACounter),
            Found::NeedsBase => Err(Error::BatchFull),
        }
    }
}
