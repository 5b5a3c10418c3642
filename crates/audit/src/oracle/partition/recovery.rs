//! Recovery: what the records since the last checkpoint name is read again, record by record.
//!
//! 1. The state is that of the checkpoint. Every record is cut again: the same jobs, the same accesses,
//!    the same cells, all at once. What was not seen before the stop is seen now.
//! 2. When all of it has come accesses end, commits take effect and orders are durable.
//! 3. Then jobs without a commit write, as this opening's; records bring them to their end, and there is
//!    a checkpoint. A new store has one before it serves, too.

use super::accesses::Shown;
use super::layout::version;
use super::pyramid::Phase;
use super::state::State;
use super::{Own, Partition};
use crate::oracle::immediate::{Immediate, Stage};

/// What the traces tell of a record.
#[derive(Debug, Default)]
pub(super) struct Journalled {
    /// Partitions and generations.
    pub commits: Vec<(u32, u64)>,
    pub parts: usize,
    /// In the order in which it was seen.
    pub shown: Vec<Shown>,
}

/// The records that are read again.
#[derive(Debug, Default)]
pub(super) struct Replay {
    names: std::vec::IntoIter<String>,
    /// Whether the record at hand is one of them, and what of it has not come.
    pub is_at_hand: bool,
    pub under_way: usize,
}

impl Immediate<Partition> {
    /// The store is open: its state is that of the newest checkpoint.
    pub(super) fn begin_replay(&mut self) {
        let plane = &mut self.plane;
        let (opening, layout) = (plane.opening, plane.state.layout);
        let is_new = plane.saved.is_none();
        plane.state = plane.saved.clone().unwrap_or_else(|| State::new(layout, opening));
        let names = self.chain.journalled();
        if is_new || !names.is_empty() {
            plane.replay = Replay { names: names.into_iter(), ..Replay::default() };
            self.stage = Stage::Replaying;
            self.next_record_again();
            self.goes_on();
        } else {
            self.stage = Stage::SweepList;
        }
    }

    /// The next record is cut again; or all have been.
    fn next_record_again(&mut self) {
        let (at, plane) = (self.at, &mut self.plane);
        let Some(name) = plane.replay.names.next() else {
            self.stage = Stage::Recovering;
            self.cut_due = true;
            plane.write_again();
            return self.cut_if_due();
        };
        let known = plane.journal.get(&name);
        let known = known.map_or((Vec::new(), 0), |known| (known.commits.clone(), known.parts));
        let ((commits, parts), jobs) = (known, plane.begin_jobs());
        let accesses = parts.saturating_sub(commits.len() + jobs.len());
        plane.cut(&name, (commits, jobs), (accesses, 0));
        plane.replay.is_at_hand = true;
        plane.record_is_durable(at);
        // Also what reads nothing takes until the next point.
        plane.replay.under_way = plane.timers.len();
        if plane.config.quantum_ns > 0 {
            plane.replay.under_way += 1;
            plane.timers.push((at + plane.config.quantum_ns, Own::Nothing));
        }
    }

    /// If all of the record at hand has come, the next is at hand.
    pub(super) fn goes_on(&mut self) {
        while self.stage == Stage::Replaying && self.plane.is_over() {
            self.plane.first += self.plane.accesses.len() as u64;
            self.plane.accesses.clear();
            self.plane.replay.is_at_hand = false;
            self.plane.takes_effect();
            self.next_record_again();
        }
    }
}

impl Partition {
    fn is_over(&self) -> bool {
        self.replay.is_at_hand && self.replay.under_way == 0 && self.due.is_empty()
    }

    /// Jobs without a commit write what they have to, as this opening's.
    fn write_again(&mut self) {
        let opening = self.opening;
        for pyramid in &mut self.state.pyramids {
            if let Some(job) = &mut pyramid.job {
                (job.step, job.version) = (Phase::Come, version(opening, job.until));
                job.came = (0, 0, 0);
                job.early.clear();
            }
        }
        self.jobs_are_whole();
    }
}
