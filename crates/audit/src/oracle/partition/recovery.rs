//! Recovery: what a checkpoint lacks is read again, then what the records since it name.
//!
//! 1. The state is that of the checkpoint, and of what was under way when it was cut. The cells of
//!    quotas that were read by then are read again: a message a partition, so many at once.
//! 2. Every record is cut again, one by one: the same jobs, the same accesses, the same cells, all
//!    at once. What was not seen before the stop is seen now. Before each, the records take effect
//!    that had when it was cut in life.
//! 3. Then there is a checkpoint; a new store has one before it serves, too. When the store is
//!    swept jobs without a commit write, as this opening's.

use std::collections::VecDeque;

use fogbank_env::Nanos;

use super::accesses::Shown;
use super::job::Phase;
use super::layout::version;
use super::pyramid::Pyramid;
use super::state::State;
use super::{CellSeen, Own, Partition};
use crate::oracle::fault::{Step, fault};
use crate::oracle::immediate::{Immediate, Stage};

/// Messages under way at once that read what a checkpoint lacks.
const MESSAGES_AT_ONCE: usize = 32;

/// What a record brings about when it counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Effects {
    /// Partitions and generations.
    pub commits: Vec<(u32, u64)>,
    /// The partitions that get an order.
    pub orders: Vec<u32>,
}

/// What a record has beside accesses.
#[derive(Debug, Clone, Default)]
pub(super) struct Brings {
    /// Partitions and generations.
    pub commits: Vec<(u32, u64)>,
    /// Partitions, and orders carried out when they are done.
    pub jobs: VecDeque<(u32, u64)>,
}

/// What the traces tell of a record.
#[derive(Debug, Default)]
pub(super) struct Journalled {
    pub brings: Brings,
    pub accesses: usize,
    /// Records before it that did not count when it was cut.
    pub behind: usize,
    /// In the order in which it was seen.
    pub shown: Vec<Shown>,
}

/// A cut, and later its checkpoint.
#[derive(Debug, Clone, Default)]
pub(super) struct Saved {
    /// Which cut it is, the first access that it does not comprise, and how many generations had
    /// died.
    pub nth: u64,
    pub until: u64,
    /// The last record that counted then.
    pub counted: u64,
    pub mark: u64,
    /// Known when all records are shown that count.
    pub state: Option<State>,
    /// Known when all are shown that were cut before.
    pub pyramids: Option<Vec<Pyramid>>,
    /// What records under way bring about, by number.
    pub uncounted: Vec<(u64, Effects)>,
}

/// What is read again.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// Of partitions, the cells that the checkpoint lacks: in the messages at hand, and further
    /// ones.
    pub lacking: VecDeque<(u32, Vec<CellSeen>)>,
    further: VecDeque<(u32, Vec<CellSeen>)>,
    names: std::vec::IntoIter<String>,
    /// Of records that do not count yet.
    pub uncounted: VecDeque<Effects>,
    /// Whether messages or a record are at hand, and what of that has not come.
    pub is_at_hand: bool,
    pub under_way: usize,
}

impl Immediate<Partition> {
    /// The store is open: its state is that of the newest checkpoint.
    pub(super) fn begin_replay(&mut self) {
        let plane = &mut self.plane;
        let is_new = plane.saved.is_none();
        let names = self.chain.journalled();
        plane.restore();
        let was_open = plane.state.is_open() || !plane.now.replay.uncounted.is_empty();
        if is_new || was_open || !names.is_empty() {
            plane.now.replay.names = names.into_iter();
            self.stage = Stage::Replaying;
            self.next_again();
            self.goes_on();
        } else {
            self.stage = Stage::SweepList;
        }
    }

    /// The next messages are at hand, or the next record is cut again; or all have been.
    fn next_again(&mut self) {
        let (at, plane) = (self.at, &mut self.plane);
        let replay = &mut plane.now.replay;
        let many = replay.further.len().min(MESSAGES_AT_ONCE);
        replay.lacking = replay.further.drain(..many).collect();
        if many == 0 {
            plane.jobs_have_come();
            let replay = &mut plane.now.replay;
            let Some(name) = replay.names.next() else {
                self.stage = Stage::Recovering;
                self.cut_due = true;
                plane.count_again(0);
                return self.cut_if_due();
            };
            plane.replay_record(&name);
            plane.now.replay.is_at_hand = true;
            plane.record_counts(&name, at);
        }
        plane.now.replay.is_at_hand = true;
        // Also what reads nothing takes until the next point.
        plane.now.replay.under_way = plane.now.timers.len();
        if plane.config.quantum_ns > 0 {
            plane.now.replay.under_way += 1;
            plane.now.timers.push((at + plane.config.quantum_ns, Own::Nothing));
        }
    }

    /// If all that is at hand has come, what is next is at hand.
    pub(super) fn goes_on(&mut self) {
        while self.stage == Stage::Replaying && self.plane.is_over() {
            self.plane.now.first += self.plane.now.accesses.len() as u64;
            self.plane.now.accesses.clear();
            self.plane.now.replay.is_at_hand = false;
            self.next_again();
        }
    }
}

impl Partition {
    /// Takes up the state of the newest checkpoint; that of a new store if there is none.
    fn restore(&mut self) {
        let (opening, layout) = (self.opening, self.state.layout);
        let Saved { state, pyramids, uncounted, .. } = self.saved.clone().unwrap_or_default();
        self.state = state.unwrap_or_else(|| State::new(layout, opening)).restored();
        self.pyramids = pyramids.unwrap_or_else(|| super::new_pyramids(&layout, opening));
        let lacking = (0..).zip(&self.pyramids).map(|(p, pyramid)| (p, pyramid.lacking(p)));
        let further = lacking.filter(|(_, cells)| !cells.is_empty()).collect();
        let uncounted = uncounted.into_iter().map(|(_, effects)| effects).collect();
        self.now.replay = Replay { further, uncounted, ..Replay::default() };
    }

    /// A message reads again what the checkpoint lacks of `partition`.
    pub(super) fn read_lacking(&mut self, partition: u32, cells: &[CellSeen]) -> Step<Own> {
        let due = self.now.replay.lacking.pop_front().map(|(_, cells)| cells).unwrap_or_default();
        if due != cells {
            let same = due.iter().zip(cells).take_while(|(a, b)| a == b).count();
            let words = |of: &[CellSeen]| format!("{} cells, then {:x?}", of.len(), of.get(same));
            return fault("replay-identical", words(&due), words(cells));
        }
        Ok(Own::Lacking(partition))
    }

    /// What the jobs of a checkpoint have read is here.
    fn jobs_have_come(&mut self) {
        let jobs = self.state.partitions.iter_mut().filter_map(|counters| counters.job.as_mut());
        jobs.filter(|job| job.step == Phase::Reading).for_each(|job| job.step = Phase::Come);
    }

    /// A record is cut again.
    fn replay_record(&mut self, name: &str) {
        let Some(known) = self.journal.get(name) else { return };
        let (brings, accesses, behind) = (known.brings.clone(), known.accesses, known.behind);
        self.count_again(behind);
        for (partition, until) in &brings.jobs {
            self.state.begin(*partition, *until, self.opening);
        }
        self.cut_record(name, brings, (accesses, 0));
    }

    /// Records take effect, until so many do not yet.
    fn count_again(&mut self, behind: usize) {
        while self.now.replay.uncounted.len() > behind
            && let Some(effects) = self.now.replay.uncounted.pop_front()
        {
            self.bring_about(effects);
        }
    }

    fn is_over(&self) -> bool {
        self.now.replay.is_at_hand && self.now.replay.under_way == 0 && self.next_due().is_none()
    }

    /// Jobs without a commit write what they have to, as this opening's.
    pub(super) fn write_again(&mut self, at: Nanos) {
        let opening = self.opening;
        for counters in &mut self.state.partitions {
            if let Some(job) = &mut counters.job {
                (job.step, job.version) = (Phase::Come, version(opening, job.until));
                job.came = (at, 0, 0);
                job.early.clear();
            }
        }
        self.jobs_are_whole();
    }
}
