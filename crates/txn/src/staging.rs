//! Programs that change more than an epoch writes: over several, and all at once.
//!
//! 1. The eldest program runs to its end on the newest state, in every epoch, and its changes are
//!    held against the stage ([`crate::stage`]). What is not staged yet, or not so, is staged: as
//!    much as fits a share of the epoch, so that others keep theirs. What it does no more want is
//!    taken off. What of the epoch nobody else has taken when it closes is for removals of the
//!    rest.
//! 2. When the rest fits what the epoch has left the program ends there, at the newest timestamp
//!    like any other: the rest is written as usual, and the epoch's delta marks the stage.
//! 3. Should the program go (its client has gone, or the proxy), the next delta drops the stage.
//!
//! So readers see all of it or nothing, and so does whoever comes after a crash: a recovery drops
//! what is staged and not marked. Others write meanwhile what they like.
//!
//! Invariants: the stage is that of one program, and nothing is staged while one that counts is
//! still absorbed. With the mark, every change on the stage is one of the program's. A staged
//! change has its blocks, its keys and its bytes of the delta reserved in the epoch in which it is
//! staged.
//!
//! What the cloud sees: nothing. Deltas have one length, write batches one size, whatever is in
//! them.

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};

use crate::core::Core;
use crate::delta::{Delta, ENTRIES_A_SLOT, bytes_of_number, bytes_of_put, bytes_of_removal};
use crate::directory::{Blocks, Directory};
use crate::error::{Error, Lack};
use crate::key::Key;
use crate::mvtso::{Mvtso, Write};
use crate::quota::{Claim, Demand, Verdict};
use crate::record::Stat;
use crate::row::{ProgramId, Row};
use crate::schedule::Stage as Progress;
use crate::stage::{ATTRIBUTE_BYTES, Stage, Staged};
use crate::version::{Body, Change, Ts};
use crate::view::Run;

/// Of so many epochs the program may have one whole; of the others it has half.
const WHOLE_EVERY: u64 = 7;

/// Blocks to write, and where.
pub(crate) type Writes = Vec<(fogbank_oram::Address, Option<Bytes>)>;

/// What the core knows of the program that stages.
#[derive(Default)]
pub(crate) struct Staging {
    /// Which it is.
    program: Option<ProgramId>,
    /// The wall clock by which it counts.
    began_ms: u64,
    /// The values of the records that are staged.
    values: HashMap<Key, Bytes>,
    /// What the open epoch does to the stage.
    steps: Vec<Step>,
    /// What of it is taken off.
    leaving: HashSet<Key>,
    /// Removals that had no part in what the program may take of the open epoch.
    waiting: Vec<Key>,
    /// When the program has ended in the open epoch.
    ended: Option<Ts>,
}

/// What is done to the stage.
enum Step {
    Put(Key, u64, Bytes),
    Attribute(Key, u64),
    Removal(Key),
    Unstage(Key),
}

/// What has become of the stage when an epoch closed: to be told, and let go of, when the driver no
/// more waits for that.
#[derive(Default)]
pub(crate) struct Turn {
    /// When the program ended whose changes count now.
    pub marked: Option<Ts>,
    /// What was dropped.
    pub dropped: Stage,
    /// Bytes of the delta that were taken when the epoch closed.
    pub bytes: usize,
    _values: HashMap<Key, Bytes>,
}

/// How the changes of a run compare with the stage.
#[derive(Default)]
pub(crate) struct Held {
    /// What is staged and none of them.
    stale: Vec<Key>,
    /// Whether anything else is staged.
    is_of_use: bool,
}

impl Held {
    /// What it takes to end with what is staged.
    pub(crate) fn demand(&self) -> Demand {
        let stale = self.stale.iter().filter(|_| self.is_of_use);
        Demand { bytes: stale.map(bytes_of_removal).sum(), ..Demand::default() }
    }
}

impl Staging {
    /// When a program began, if it is the one that stages.
    pub(crate) fn began_ms(&self, program: ProgramId) -> Option<u64> {
        (self.program == Some(program)).then_some(self.began_ms)
    }

    /// Whether some program stages.
    pub(crate) fn is_under_way(&self) -> bool {
        self.program.is_some()
    }
}

impl Core {
    /// What the eldest program may take of the open epoch, in bytes of its delta, if it takes so
    /// many in all.
    pub(crate) fn share_of_eldest(&self, bytes: usize) -> usize {
        match self.delta_bytes() {
            all if bytes > all && !self.epoch.is_multiple_of(WHOLE_EVERY) => all / 2,
            all => bytes.min(all),
        }
    }

    /// Whether a run's changes are more than an epoch takes.
    pub(crate) fn takes_epochs(&self, run: &Run) -> bool {
        run.need.bytes > self.delta_bytes()
    }

    /// Says of every change of the eldest program's run whether it is staged already.
    pub(crate) fn hold_against_stage(&mut self, program: ProgramId, run: &mut Run) -> Held {
        let mut held = Held::default();
        if self.staging.program != Some(program) {
            return held;
        }
        let mut kept = HashSet::new();
        for write in &mut run.writes {
            let row = self.mvtso.rows.get(write.row);
            write.change.is_staged = self.is_staged(row, &write.change);
            if write.change.is_staged {
                kept.insert(&row.key);
            }
        }
        held.is_of_use = !kept.is_empty();
        let stage = self.directory.stage();
        if kept.len() < stage.len() {
            let stale = stage.keys().filter(|key| !kept.contains(key));
            let stale = stale.filter(|key| !self.staging.leaving.contains(*key));
            held.stale.extend(stale.cloned());
        }
        held
    }

    fn is_staged(&self, row: &Row, change: &Change) -> bool {
        let Some(staged) = self.directory.stage().get(&row.key) else { return false };
        if self.staging.leaving.contains(&row.key) {
            return false;
        }
        let stat = Stat { len: change.len, attr: change.attr };
        match (&change.body, staged) {
            (Body::Gone, Staged::Removal) => true,
            (Body::Value(value), Staged::Put(entry)) => {
                entry.stat() == stat && self.staging.values.get(&row.key) == Some(value)
            }
            // Over what this epoch has written, it has to be written with that.
            (Body::Kept, Staged::Attribute(entry)) => entry.stat() == stat && row.newest() == 0,
            _ => false,
        }
    }

    /// The program has ended: what it has staged counts with the open epoch, if it was of use.
    pub(crate) fn end_staging(&mut self, program: ProgramId, ts: Ts, held: Held) {
        if self.staging.program == Some(program) && held.is_of_use {
            self.take_off(held.stale);
            self.staging.ended = Some(ts);
            self.mvtso.makes_room();
        }
    }

    /// Stages what the open epoch takes of a run that needs more; the program waits for the next.
    pub(crate) fn stage(&mut self, program: ProgramId, run: &mut Run, held: Held) {
        let is_others = self.staging.program.is_some_and(|of| of != program);
        if !is_others && (self.directory.stage().is_empty() || self.staging.is_under_way()) {
            self.staging.program = Some(program);
            self.staging.began_ms = run.began_ms;
            self.mvtso.is_staging = true;
            if let Err(error) = self.stage_some(run, held.stale) {
                return self.end_refused(program, run, error);
            }
        }
        // What it has read goes over, and what is left of the epoch is for others.
        if let Some(entry) = self.schedule.get_mut(program) {
            entry.reads.clone_from(&run.read);
        }
        self.park(program, run.need.bytes);
        self.mvtso.quota.hold_for_eldest(0);
    }

    fn stage_some(&mut self, run: &Run, stale: Vec<Key>) -> Result<(), Error> {
        let mut left = self.share_of_eldest(run.need.bytes).min(self.mvtso.quota.bytes_left());
        let mut off = Vec::new();
        for key in stale {
            let bytes = bytes_of_removal(&key);
            if bytes > left {
                break;
            }
            left -= bytes;
            self.mvtso.quota.take(Demand { bytes, ..Demand::default() });
            off.push(key);
        }
        self.take_off(off);
        for (done, write) in run.writes.iter().enumerate() {
            let Some(step) = self.step_of(write) else { continue };
            let more = self.to_stage(&step);
            let is_mark = matches!(step, Step::Attribute(..));
            let making_room = if write.makes_room || is_mark { more } else { Demand::default() };
            match self.mvtso.quota.judge(Claim { more, making_room, eldest: true }) {
                Verdict::Fits if more.bytes <= left => {}
                Verdict::NoSpace if !self.mvtso.gives_up() => {
                    let rest = run.writes[done..].iter().filter_map(|write| self.step_of(write));
                    let more = rest.fold(Demand::default(), |sum, step| sum + self.to_stage(&step));
                    let claim = Claim { more, ..Claim::default() };
                    let lack = Lack { is_staged: true, ..self.mvtso.quota.lack(claim) };
                    return Err(Error::NoRoom(lack));
                }
                _ => {
                    self.staging.waiting = self.removals(&run.writes[done..]);
                    break;
                }
            }
            left -= more.bytes;
            self.mvtso.quota.take(more);
            self.staging.steps.push(step);
        }
        Ok(())
    }

    /// What is to be staged of a write.
    fn step_of(&self, write: &Write) -> Option<Step> {
        let (row, change) = (self.mvtso.rows.get(write.row), &write.change);
        match &change.body {
            _ if change.is_staged => None,
            Body::Value(v) => Some(Step::Put(row.key.clone(), change.attr, v.clone())),
            Body::Gone if row.base.is_some() => Some(Step::Removal(row.key.clone())),
            Body::Kept if row.newest() == 0 => Some(Step::Attribute(row.key.clone(), change.attr)),
            // Others have written it in this epoch; or there is nothing to write.
            _ => None,
        }
    }

    /// The records that are to be removed, as many as an epoch may.
    fn removals(&self, writes: &[Write]) -> Vec<Key> {
        let steps = writes.iter().filter_map(|write| self.step_of(write));
        let removals = steps.filter_map(|step| match step {
            Step::Removal(key) => Some(key),
            _ => None,
        });
        removals.take(self.shape.write_batch.saturating_mul(ENTRIES_A_SLOT)).collect()
    }

    fn to_stage(&self, step: &Step) -> Demand {
        match step {
            Step::Put(key, _, value) => {
                let blocks = value.len().div_ceil(self.block_bytes());
                let bytes = bytes_of_put(key, blocks);
                Demand { bytes, blocks, keys: 1, key_bytes: key.encoded_len() }
            }
            Step::Attribute(key, _) => {
                let bytes = bytes_of_number(key);
                Demand { bytes, key_bytes: ATTRIBUTE_BYTES, ..Demand::default() }
            }
            Step::Removal(key) | Step::Unstage(key) => {
                Demand { bytes: bytes_of_removal(key), ..Demand::default() }
            }
        }
    }

    fn take_off(&mut self, keys: Vec<Key>) {
        for key in keys {
            if self.staging.leaving.insert(key.clone()) {
                self.staging.steps.push(Step::Unstage(key));
            }
        }
    }

    /// Closing an epoch: what becomes of the stage, before anything else is written.
    pub(crate) fn turn_stage(
        &mut self,
        mvtso: &Mvtso,
        directory: &mut Directory,
        writes: &mut Writes,
        delta: &mut Delta,
    ) -> Turn {
        let Some(program) = self.staging.program else { return Turn::default() };
        let (ended, waiting) =
            (self.staging.ended.take(), std::mem::take(&mut self.staging.waiting));
        let progress = self.schedule.get_mut(program).map(|entry| entry.stage);
        if progress.is_none() {
            let Staging { values, .. } = std::mem::take(&mut self.staging);
            *delta = Delta::dropping();
            let dropped = directory.drop_staged();
            return Turn { dropped, _values: values, ..Turn::default() };
        }
        for step in std::mem::take(&mut self.staging.steps) {
            self.carry_out(step, directory, writes, delta);
        }
        self.staging.leaving.clear();
        let (left, mut bytes) = (mvtso.quota.bytes_left(), 0);
        for key in waiting {
            let more = bytes_of_removal(&key);
            if bytes + more > left || ended.is_some() {
                break;
            }
            bytes += more;
            self.carry_out(Step::Removal(key), directory, writes, delta);
        }
        let stands = |ts: &Ts| progress == Some(Progress::Done(*ts)) && !mvtso.is_unsettled(*ts);
        let Some(ts) = ended.filter(stands) else { return Turn { bytes, ..Turn::default() } };
        directory.count_staged();
        delta.mark();
        let Staging { values, .. } = std::mem::take(&mut self.staging);
        Turn { marked: Some(ts), _values: values, ..Turn::default() }
    }

    fn carry_out(
        &mut self,
        step: Step,
        directory: &mut Directory,
        writes: &mut Writes,
        delta: &mut Delta,
    ) {
        match step {
            Step::Put(key, attr, value) => {
                let stat = Stat { len: value.len() as u32, attr };
                let mut blocks = Blocks::new();
                self.lay_out(&value, &mut blocks, writes);
                directory.stage_put(&key, stat, &blocks);
                delta.staged_put(&key, stat, &blocks);
                self.staging.values.insert(key, value);
            }
            Step::Attribute(key, attr) => {
                if directory.stage_attribute(&key, attr) {
                    delta.staged_attribute(&key, attr);
                    self.staging.values.remove(&key);
                }
            }
            Step::Removal(key) => {
                if directory.stage_removal(&key) {
                    delta.staged_removal(&key);
                    self.staging.values.remove(&key);
                }
            }
            Step::Unstage(key) => {
                if directory.unstage(&key) {
                    delta.unstaged(&key);
                    self.staging.values.remove(&key);
                }
            }
        }
    }
}
