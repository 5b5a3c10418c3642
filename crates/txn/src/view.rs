//! What a program sees while it runs: the newest state and its own writes.
//!
//! Nothing a run does is visible before it has ended well: writes, dependencies, marks, predicate
//! reads and watches are gathered in the [`Run`] and applied together, or forgotten when the
//! program pauses. A run that only finds out what a program will read (because an earlier program
//! of its session has not run yet) is a *probe* and is always forgotten.
//!
//! A run that writes more than a program may is refused at once.

use std::collections::BTreeSet;

use bytes::Bytes;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::core::Core;
use crate::delta::SLOT_BYTES;
use crate::directory::Entry;
use crate::error::{Bound, Error, Pause};
use crate::footprint::Trail;
use crate::key::{Key, KeyRange};
use crate::mvtso::Write;
use crate::predicate::Sight;
use crate::quota::{Claim, Demand, Verdict};
use crate::record::{Record, Stat};
use crate::row::{Found, Row};
use crate::rows::RowId;
use crate::version::{Body, Change, Ts};
use crate::watch::{Target, Watch};

/// What a program's step comes to.
type Step<T> = std::result::Result<T, Pause>;

/// The work of one run of one program.
#[derive(Default)]
pub(crate) struct Run {
    /// Tells this run's marks on rows from those of others.
    pub id: u32,
    /// The timestamp it gets if it ends now.
    pub ts: Ts,
    /// Whether somebody with an older timestamp may still write: then reads are recorded.
    pub records_reads: bool,
    /// Wall clock when the program began.
    pub began_ms: u64,
    /// Its writes, one a row.
    pub writes: Vec<Write>,
    /// Unsettled transactions it has read from.
    pub depends_on: BTreeSet<Ts>,
    /// What it takes alone.
    pub need: Demand,
    /// Records it has touched and names it has gone through.
    pub steps: usize,
    /// By how much its own writes change the counts of groups.
    members: HashMap<Key, i64>,
    /// Rows it has read.
    pub marks: Vec<RowId>,
    /// Ranges it has read.
    pub predicates: Vec<(KeyRange, Sight)>,
    /// What it watches from now on.
    pub watching: Vec<(Watch, Target)>,
    /// Ranges of which nobody asks for a key before all in them has gone.
    pub forgets: Vec<KeyRange>,
    /// Rows it needs that are not here.
    pub wanted: SmallVec<[RowId; 4]>,
    /// Records it has read.
    pub read: Vec<RowId>,
    /// Blocks of those that were not written in this epoch.
    pub blocks: usize,
    /// What it has fetched, if anybody wants to know: then nothing else is here.
    pub trail: Option<Trail<Key>>,
}

impl Run {
    /// Starts the next run.
    pub(crate) fn start(&mut self, ts: Ts, records_reads: bool) {
        self.id = self.id.wrapping_add(1).max(1);
        self.ts = ts;
        self.records_reads = records_reads;
        (self.blocks, self.need, self.steps) = (0, Demand::default(), 0);
        self.members.clear();
        self.writes.clear();
        self.depends_on.clear();
        self.marks.clear();
        self.predicates.clear();
        self.watching.clear();
        self.forgets.clear();
        self.read.clear();
        self.wanted.clear();
    }

    fn depend(&mut self, row: &Row) {
        row.unsettled_writers(row.newest(), 0, |writer| {
            self.depends_on.insert(writer);
        });
    }

    fn own<'a>(&'a self, row: &Row) -> Option<&'a Change> {
        let (run, index) = row.written_by_run;
        if run != self.id {
            return None;
        }
        self.writes.get(index as usize).map(|write| &write.change)
    }

    /// Length and attribute that this run sees.
    fn stat(&self, row: &Row) -> Option<Stat> {
        match self.own(row) {
            Some(Change { body: Body::Gone, .. }) => None,
            Some(change) => Some(Stat { len: change.len, attr: change.attr }),
            None => row.stat_at(row.newest()),
        }
    }
}

/// The newest state, including what transactions before it have written and not yet committed, and
/// the program's own writes.
pub struct View<'a> {
    core: &'a mut Core,
    run: &'a mut Run,
}

impl<'a> View<'a> {
    pub(crate) fn new(core: &'a mut Core, run: &'a mut Run) -> Self {
        Self { core, run }
    }

    /// Wall clock in milliseconds, fixed for one run.
    pub fn now_ms(&self) -> u64 {
        self.core.now_ms
    }

    /// The same when the program began, if that has taken it several epochs: a deadline that counts
    /// from then is the same in all of its runs.
    pub fn began_ms(&self) -> u64 {
        self.run.began_ms
    }

    /// The program's place in the serial order, if this run counts: epoch and timestamp. For
    /// checkers of histories; it must not decide what the program does.
    pub fn stamp(&self) -> (u64, u64) {
        (self.core.epoch, u64::from(self.run.ts))
    }

    /// Hint: these records will be needed. If the program then pauses, all that are not here join
    /// one batch.
    pub fn want(&mut self, keys: &[Key]) {
        for key in keys {
            let id = self.touch(key);
            let row = self.core.mvtso.rows.get(id);
            let found = row.read_at(row.newest());
            if self.run.own(row).is_none()
                && (found == Found::NeedsBase || self.is_cold(row, &found))
            {
                self.miss(id);
            }
        }
    }

    /// The record, if there is one.
    pub fn get(&mut self, key: &Key) -> Step<Option<Record>> {
        self.step(1)?;
        let id = self.touch(key);
        let row = self.core.mvtso.rows.get(id);
        let own_attr = match self.run.own(row) {
            Some(Change { body: Body::Value(value), attr, .. }) => {
                return Ok(Some(Record { value: value.clone(), attr: *attr }));
            }
            Some(Change { body: Body::Gone, .. }) => return Ok(None),
            own => own.map(|change| change.attr),
        };
        let found = row.read_at(row.newest());
        let cold = self.is_cold(row, &found);
        self.count_blocks(id)?;
        match found {
            Found::NeedsBase => {
                self.miss(id);
                Err(Pause::Missing)
            }
            Found::Here(_) if cold => {
                self.miss(id);
                Err(Pause::Missing)
            }
            Found::NotACounter => {
                self.saw(id);
                Err(Pause::Refused(Error::NotACounter))
            }
            Found::Absent => {
                self.saw(id);
                Ok(None)
            }
            Found::Here(record) => {
                self.saw(id);
                Ok(Some(Record { attr: own_attr.unwrap_or(record.attr), ..record }))
            }
        }
    }

    /// The records, in the order asked; all that are not here join one batch.
    pub fn get_many(&mut self, keys: &[Key]) -> Step<Vec<Option<Record>>> {
        let mut records = Vec::with_capacity(keys.len());
        let mut missing = false;
        for key in keys {
            match self.get(key) {
                Ok(record) => records.push(record),
                Err(Pause::Missing) => missing = true,
                Err(refused) => return Err(refused),
            }
        }
        if missing { Err(Pause::Missing) } else { Ok(records) }
    }

    /// Length and attribute, from the directory: no round.
    pub fn stat(&mut self, key: &Key) -> Step<Option<Stat>> {
        self.step(1)?;
        let id = self.touch(key);
        if self.run.own(self.core.mvtso.rows.get(id)).is_none() {
            self.saw(id);
        }
        Ok(self.run.stat(self.core.mvtso.rows.get(id)))
    }

    /// At most `limit` keys of a range from its start, or from its end: no round.
    pub fn scan(
        &mut self,
        range: &KeyRange,
        limit: usize,
        reverse: bool,
    ) -> Step<Vec<(Key, Stat)>> {
        let (mut found, mut seen) = (Vec::new(), 1);
        let seen_max = self.core.limits.steps_max.saturating_sub(self.run.steps);
        let rows = &self.core.mvtso.rows;
        let mut merged = rows.merged(&self.core.directory, range, reverse);
        while found.len() < limit && seen <= seen_max {
            let Some((key, entry, row)) = merged.next() else { break };
            seen += 1;
            let stat = match row {
                None => entry.map(Entry::stat),
                Some(&id) => {
                    self.run.depend(rows.get(id));
                    self.run.stat(rows.get(id))
                }
            };
            found.extend(stat.map(|stat| (key.clone(), stat)));
        }
        drop(merged);
        self.step(seen)?;
        if self.run.records_reads {
            let last = found.last().filter(|_| found.len() == limit).map(|(key, _)| key);
            self.run.predicates.push((range.up_to(last, reverse), Sight::Stats));
        }
        Ok(found)
    }

    /// How many members a group has, from the directory: no round.
    pub fn count(&mut self, group: &[u8]) -> Step<u64> {
        self.step(1)?;
        let name = Key::new(group, &[]);
        let mut count = self.run.members.get(&name).copied().unwrap_or_default();
        if let Some(writes) = self.core.mvtso.rows.group(&name) {
            count += writes.newest;
            self.run.depends_on.extend(writes.unsettled_writers());
        }
        if self.run.records_reads {
            self.run.predicates.push((KeyRange::group(group), Sight::Membership));
        }
        Ok(self.core.directory.count(&name).saturating_add_signed(count))
    }

    /// Writes a record.
    pub fn put(&mut self, key: &Key, value: Bytes, attr: u64) -> Step<()> {
        self.core.limits.check(key, value.len()).map_err(Pause::Refused)?;
        let id = self.touch(key);
        self.write(id, Change::put(value, attr), false)
    }

    /// Writes a record without a value whose writing lets more be deleted than it takes: it may
    /// have the room that a full store holds back for such.
    pub fn put_making_room(&mut self, key: &Key, attr: u64) -> Step<()> {
        self.core.limits.check(key, 0).map_err(Pause::Refused)?;
        let id = self.touch(key);
        self.write(id, Change::put(Bytes::new(), attr), true)
    }

    /// Whether these records, put so, find room, or will without anybody deleting anything: if not,
    /// what they are to let go has to be deleted one by one, which takes no room.
    pub fn may_make_room(&mut self, keys: &[Key]) -> bool {
        let put = Change::put(Bytes::new(), 0);
        let ids: Vec<RowId> = keys.iter().map(|key| self.touch(key)).collect();
        let mvtso = &self.core.mvtso;
        let need = ids.iter().map(|&id| mvtso.need(mvtso.rows.get(id), &put));
        let more = need.fold(self.run.need, |sum, need| sum + need);
        let claim = Claim { more, making_room: more, eldest: true };
        mvtso.gives_up() || mvtso.quota.judge(claim) != Verdict::NoSpace
    }

    /// Changes the attribute alone: no round. False if there is no such record.
    pub fn set_attr(&mut self, key: &Key, attr: u64) -> Step<bool> {
        let Some(stat) = self.stat(key)? else { return Ok(false) };
        let id = self.touch(key);
        let change = match self.run.own(self.core.mvtso.rows.get(id)) {
            Some(own) => Change { attr, ..own.clone() },
            None => Change::attr(attr, stat.len),
        };
        self.write(id, change, false)?;
        Ok(true)
    }

    /// Deletes a record: no round. Whether it was there.
    pub fn delete(&mut self, key: &Key) -> Step<bool> {
        if self.stat(key)?.is_none() {
            return Ok(false);
        }
        let id = self.touch(key);
        self.write(id, Change::delete(), false)?;
        Ok(true)
    }

    /// Says that nobody asks for a key of this range before all that is in it has gone, as later
    /// programs see. What the store holds of it goes in the epochs after this, many records at
    /// once, and takes one of their write slots.
    pub fn forget(&mut self, range: &KeyRange) -> Step<()> {
        self.step(1)?;
        let is_written = self.core.mvtso.rows.written_in(range).next().is_some();
        if is_written || self.core.directory.range(range, false).next().is_some() {
            self.run.forgets.push(range.clone());
        }
        Ok(())
    }

    /// An empty watch set. What is entered in it counts from this program's timestamp on.
    pub fn watch(&mut self) -> Watch {
        Watch::default()
    }

    /// Watches a key.
    pub fn watch_key(&mut self, watch: &Watch, key: &Key) {
        self.run.watching.push((watch.clone(), Target::Key(key.clone())));
    }

    /// Watches a range.
    pub fn watch_range(&mut self, watch: &Watch, range: &KeyRange) {
        self.run.watching.push((watch.clone(), Target::Range(range.clone())));
    }

    /// Whether anything watched has been written since it was. If that was a write that may still
    /// be taken back, the answer depends on it.
    pub fn changed(&mut self, watch: &Watch) -> bool {
        if watch.is_changed() {
            return true;
        }
        let epoch = self.core.epoch;
        watch.watched().into_iter().any(|watched| {
            let since = if watched.epoch == epoch { watched.ts } else { 0 };
            match &watched.target {
                Target::Key(key) => self.key_changed(key, since),
                Target::Range(range) => self.range_changed(range, since),
            }
        })
    }

    fn key_changed(&mut self, key: &Key, since: Ts) -> bool {
        let id = self.touch(key);
        self.saw(id);
        let newest = self.core.mvtso.rows.get(id).newest_write();
        newest.is_some_and(|ts| ts > since)
    }

    fn range_changed(&mut self, range: &KeyRange, since: Ts) -> bool {
        if self.run.records_reads {
            self.run.predicates.push((range.clone(), Sight::Writes));
        }
        let rows = &self.core.mvtso.rows;
        let newer = |row: &&Row| row.newest_write().is_some_and(|ts| ts > since);
        let changed = rows.written_in(range).map(|id| rows.get(id)).find(newer);
        changed.inspect(|row| self.run.depend(row)).is_some()
    }

    fn touch(&mut self, key: &Key) -> RowId {
        self.core.mvtso.rows.touch(&self.core.directory, key)
    }

    /// A row's newest state was read.
    fn saw(&mut self, id: RowId) {
        if self.run.records_reads {
            self.run.marks.push(id);
        }
        self.run.depend(self.core.mvtso.rows.get(id));
    }

    /// Whether a record that is here counts as one that has to be fetched: somebody wants to know
    /// what the program asks for, and it has not asked for this one before.
    fn is_cold(&self, row: &Row, found: &Found) -> bool {
        let here = matches!(found, Found::Here(_));
        here && self.run.trail.as_ref().is_some_and(|trail| !trail.knows(&row.key))
    }

    /// A row is needed and not here.
    fn miss(&mut self, id: RowId) {
        let row = self.core.mvtso.rows.get_mut(id);
        if let Some(trail) = &mut self.run.trail {
            trail.ask(row.key.clone(), row.stat_at(row.newest()).map_or(0, |stat| stat.len));
        }
        if row.wanted_by_run != self.run.id {
            row.wanted_by_run = self.run.id;
            self.run.wanted.push(id);
        }
    }

    /// Accounts for a record read, here or not; refuses what is more than a program may read.
    fn count_blocks(&mut self, id: RowId) -> Step<()> {
        let row = self.core.mvtso.rows.get_mut(id);
        if row.read_by_run == self.run.id {
            return Ok(());
        }
        row.read_by_run = self.run.id;
        self.run.read.push(id);
        if row.newest() > 0 {
            return Ok(());
        }
        self.run.blocks += row.base_blocks();
        let limit = self.core.limits.blocks_gathered_max;
        if self.run.blocks > limit {
            let needed = self.run.blocks;
            self.saw(id);
            return Err(Pause::Refused(Error::TooLarge { what: Bound::Reads, needed, limit }));
        }
        Ok(())
    }

    /// Accounts for work that the program does itself on what it has read, in steps: touching a
    /// record is one.
    pub fn spend(&mut self, steps: usize) -> Step<()> {
        self.step(steps)
    }

    /// Accounts for work; refuses what is more than a program may do.
    fn step(&mut self, steps: usize) -> Step<()> {
        self.core.work(steps);
        self.run.steps = self.run.steps.saturating_add(steps);
        let (needed, limit) = (self.run.steps, self.core.limits.steps_max);
        if needed > limit {
            return Err(Pause::Refused(Error::TooLarge { what: Bound::Steps, needed, limit }));
        }
        Ok(())
    }

    /// Notes a write; refuses what takes more slots than a program may have.
    fn write(&mut self, id: RowId, change: Change, makes_room: bool) -> Step<()> {
        self.step(1)?;
        let mvtso = &mut self.core.mvtso;
        mvtso.rows.index(id);
        let row = mvtso.rows.get(id);
        let was = self.run.stat(row).is_some();
        let (run, index) = row.written_by_run;
        let own = (run == self.run.id).then(|| self.run.writes.get(index as usize)).flatten();
        self.run.need -= own.map_or_else(Demand::default, |own| mvtso.need(row, &own.change));
        self.run.need += mvtso.need(row, &change);
        let is_first = own.is_none();
        match self.run.writes.get_mut(index as usize).filter(|_| !is_first) {
            Some(write) => {
                write.change = change;
                write.makes_room &= makes_room;
            }
            None => {
                let row = mvtso.rows.get_mut(id);
                row.written_by_run = (self.run.id, self.run.writes.len() as u32);
                self.run.writes.push(Write { row: id, change, makes_room });
            }
        }
        let row = self.core.mvtso.rows.get(id);
        let members = i64::from(self.run.stat(row).is_some()) - i64::from(was);
        if members != 0 {
            *self.run.members.entry(row.key.group_key()).or_default() += members;
        }
        let needed = self.run.need.bytes.div_ceil(SLOT_BYTES);
        let limit = self.core.limits.records_staged_max;
        if needed > limit {
            let what = Bound::Writes;
            return Err(Pause::Refused(Error::TooLarge { what, needed, limit }));
        }
        Ok(())
    }
}
