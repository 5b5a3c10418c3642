//! What decides about records: orders, jobs, commits, as of now. What a cut copies.
//!
//! All of it follows from counts and from the partitions of accesses whose records count. Which
//! cells were read is known later (`pyramid`): a record's accesses are seen when it counts, and
//! others are cut meanwhile.

use std::collections::VecDeque;

use fogbank_store::ChunkName;

use super::job::Job;
use super::layout::{Layout, is_new, name, version};

/// Accesses from one order in turn to the next.
const TURN_EVERY: u8 = 4;

/// The counters of a partition.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counters {
    pub done: u64,
    pub sure: u64,
    /// By level, the generation; 0 if it is not filled.
    versions: Vec<u64>,
    pub job: Option<Job>,
    is_ready: bool,
}

impl Counters {
    fn new(layout: &Layout, done: u64, version: u64) -> Self {
        let mut versions = vec![0; layout.levels.into()];
        layout.filled(done).for_each(|level| versions[usize::from(level)] = version);
        Self { done, sure: done, versions, job: None, is_ready: false }
    }

    fn may_begin(&self, layout: &Layout) -> bool {
        self.job.is_none() && layout.needs_job(self.sure, self.done)
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub layout: Layout,
    pub partitions: Vec<Counters>,
    turn: (u32, u8),
    /// Partitions that wait for a job, first ready first.
    pub ready: VecDeque<u32>,
    pub open_orders: u64,
    pub open_cells: u64,
    /// Generations that are dead, and how many were dropped before them.
    pub dead: VecDeque<ChunkName>,
    pub dropped: u64,
    /// Accesses since the last cut.
    pub since_cut: u64,
}

impl State {
    /// Of a new store, made by this opening.
    pub fn new(layout: Layout, opening: u32) -> Self {
        let version = version(opening, 0);
        let counters = |p| Counters::new(&layout, layout.first_orders(p), version);
        Self {
            layout,
            partitions: (0..layout.partitions).map(counters).collect(),
            turn: (0, 0),
            ready: VecDeque::new(),
            open_orders: 0,
            open_cells: 0,
            dead: VecDeque::new(),
            dropped: 0,
            since_cut: 0,
        }
    }

    /// That of a checkpoint, when a store is opened: partitions wait for jobs by their number.
    pub fn restored(&self) -> Self {
        let mut state = Self { dead: VecDeque::new(), dropped: 0, since_cut: 0, ..self.clone() };
        state.ready.clear();
        for (partition, counters) in (0..).zip(&mut state.partitions) {
            counters.is_ready = counters.may_begin(&self.layout);
            state.ready.extend(counters.is_ready.then_some(partition));
            if let Some(job) = &mut counters.job {
                *job = Job { cost: job.cost, ..Job::new(job.until, 0, job.destinations.clone()) };
            }
        }
        state
    }

    /// Whether an order or a job is open.
    pub fn is_open(&self) -> bool {
        self.open_orders > 0 || self.open_cells > 0
    }

    pub fn job(&self, partition: u32) -> Option<&Job> {
        self.partitions.get(partition as usize)?.job.as_ref()
    }

    pub fn job_mut(&mut self, partition: u32) -> Option<&mut Job> {
        self.partitions.get_mut(partition as usize)?.job.as_mut()
    }

    /// So many accesses are cut: of each, the partition in turn to which it gives an order, if any.
    pub fn cut(&mut self, accesses: usize) -> VecDeque<Option<u32>> {
        let mut also = VecDeque::with_capacity(accesses);
        for _ in 0..accesses {
            self.open_orders += 1;
            self.turn.1 += 1;
            let in_turn = (self.turn.1 == TURN_EVERY).then_some(self.turn.0);
            if let Some(partition) = in_turn {
                self.turn = ((partition + 1) % self.layout.partitions, 0);
                self.open_orders += 1;
            }
            also.push_back(in_turn);
        }
        self.since_cut += accesses as u64;
        also
    }

    /// An order counts.
    pub fn order_counts(&mut self, partition: u32) {
        self.partitions[partition as usize].sure += 1;
        self.settle(partition);
    }

    /// Orders that touch no stored level are carried out at once; others make a partition ready.
    fn settle(&mut self, partition: u32) {
        let layout = self.layout;
        let counters = &mut self.partitions[partition as usize];
        let is_settled = counters.job.is_none() && !layout.needs_job(counters.sure, counters.done);
        if is_settled {
            self.open_orders -= counters.sure - counters.done;
            counters.done = counters.sure;
        }
        if counters.may_begin(&layout) && !std::mem::replace(&mut counters.is_ready, true) {
            self.ready.push_back(partition);
        }
    }

    /// Begins a job of every partition that is ready, as far as the budget goes: partitions, and
    /// orders carried out when they are done.
    pub fn begin_jobs(
        &mut self,
        (jobs_max, cells_max, opening): (usize, u64, u32),
    ) -> VecDeque<(u32, u64)> {
        let mut begun = VecDeque::new();
        while begun.len() < jobs_max
            && self.open_cells < cells_max
            && let Some(partition) = self.ready.front().copied()
        {
            let until = self.partitions[partition as usize].sure;
            self.begin(partition, until, opening);
            begun.push_back((partition, until));
        }
        begun
    }

    /// Begins the job of `partition` up to `until` orders.
    pub fn begin(&mut self, partition: u32, until: u64, opening: u32) {
        let layout = self.layout;
        self.ready.retain(|ready| *ready != partition);
        let counters = &mut self.partitions[partition as usize];
        counters.is_ready = false;
        let (sources, destinations) = layout.job(until, counters.done);
        let quotas: u64 = sources.iter().map(|level| u64::from(layout.quota(*level))).sum();
        let cells: u64 = destinations.iter().map(|level| u64::from(layout.cells(*level))).sum();
        let job = Job::new(until, version(opening, until), destinations);
        counters.job = Some(Job { cost: quotas + cells, ..job });
        self.open_cells += quotas + cells;
    }

    /// A commit takes effect: what its job has written, as `version`, takes the place of what that
    /// has read.
    pub fn commit(&mut self, (partition, version): (u32, u64)) {
        let layout = self.layout;
        let counters = &mut self.partitions[partition as usize];
        let Some(job) = counters.job.take() else { return };
        let (sources, _) = layout.job(job.until, counters.done);
        for level in sources {
            let gone = std::mem::take(&mut counters.versions[usize::from(level)]);
            self.dead.extend(layout.chunks(partition, level, gone));
        }
        for level in job.destinations {
            counters.versions[usize::from(level)] = version;
        }
        self.open_orders -= job.until - counters.done;
        self.open_cells -= job.cost;
        counters.done = job.until;
        self.settle(partition);
    }

    /// Whether this is the generation that a level has now.
    pub fn is_current(&self, of: &ChunkName) -> bool {
        let held = self.layout.level_of(of).and_then(|(partition, level)| {
            self.partitions.get(partition as usize)?.versions.get(usize::from(level))
        });
        of.version != 0 && held == Some(&of.version)
    }

    /// How many chunks count and were written.
    pub fn current(&self) -> u64 {
        let levels = self.partitions.iter().flat_map(|counters| (0..).zip(&counters.versions));
        let is_written = |version: u64| version != 0 && !is_new(&name(0, 0, version));
        let written = levels.filter(|(_, version)| is_written(**version));
        written.map(|(level, _)| u64::from(self.layout.segments(level))).sum()
    }
}
