//! All partitions: orders, jobs, commits. What a cut copies.

use std::collections::VecDeque;

use fogbank_store::ChunkName;

use super::layout::{Layout, is_new, name, version};
use super::pyramid::{Job, Level, Phase, Pyramid};

/// Accesses from one order in turn to the next.
const TURN_EVERY: u8 = 4;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub layout: Layout,
    pub pyramids: Vec<Pyramid>,
    pub turn: (u32, u8),
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
        let pyramid = |p| Pyramid::new(&layout, layout.first_orders(p), version);
        Self {
            layout,
            pyramids: (0..layout.partitions).map(pyramid).collect(),
            turn: (0, 0),
            ready: VecDeque::new(),
            open_orders: 0,
            open_cells: 0,
            dead: VecDeque::new(),
            dropped: 0,
            since_cut: 0,
        }
    }

    pub fn of(&self, partition: u32) -> &Pyramid {
        &self.pyramids[partition as usize]
    }

    pub fn of_mut(&mut self, partition: u32) -> &mut Pyramid {
        &mut self.pyramids[partition as usize]
    }

    /// An access to `partition` was cut: the other one to which it gives an order, if any.
    pub fn give_orders(&mut self, partition: u32) -> Option<u32> {
        self.of_mut(partition).given += 1;
        self.open_orders += 1;
        self.turn.1 += 1;
        if self.turn.1 < TURN_EVERY {
            return None;
        }
        let also = self.turn.0;
        self.turn = ((also + 1) % self.layout.partitions, 0);
        self.of_mut(also).given += 1;
        self.open_orders += 1;
        Some(also)
    }

    /// An order is durable.
    pub fn order_is_durable(&mut self, partition: u32) {
        self.of_mut(partition).sure += 1;
        self.settle(partition);
    }

    fn settle(&mut self, partition: u32) {
        let layout = self.layout;
        let pyramid = self.of_mut(partition);
        let settled = pyramid.settle(&layout);
        let is_ready = pyramid.job.is_none() && layout.needs_job(pyramid.sure, pyramid.done);
        let becomes = is_ready && !std::mem::replace(&mut pyramid.is_ready, is_ready);
        self.open_orders -= settled;
        if becomes {
            self.ready.push_back(partition);
        }
    }

    /// Begins a job of every partition that is ready, as far as the budget goes.
    pub fn begin_jobs(&mut self, (jobs_max, cells_max, opening): (usize, u64, u32)) -> Vec<u32> {
        let mut begun = Vec::new();
        while begun.len() < jobs_max
            && self.open_cells < cells_max
            && let Some(partition) = self.ready.pop_front()
        {
            let until = self.of_mut(partition).sure;
            self.begin(partition, until, opening);
            begun.push(partition);
        }
        begun
    }

    fn begin(&mut self, partition: u32, until: u64, opening: u32) {
        let layout = self.layout;
        let pyramid = self.of_mut(partition);
        pyramid.is_ready = false;
        let (sources, destinations) = layout.job(until, pyramid.done);
        let quotas: u64 = sources.iter().map(|level| u64::from(layout.quota(*level))).sum();
        let cells: u64 = destinations.iter().map(|level| u64::from(layout.cells(*level))).sum();
        let rest = |level: u8| {
            let held = pyramid.levels[usize::from(level)].as_mut()?;
            let left = held.left.replace(0).unwrap_or(layout.quota(level));
            Some((level, left))
        };
        let sources = sources.into_iter().filter_map(rest).collect();
        pyramid.job = Some(Job {
            until,
            version: version(opening, until),
            sources,
            destinations,
            cost: quotas + cells,
            early: Vec::new(),
            step: Phase::Reading,
            order: (0, 0),
            came: (0, 0, 0),
            windows: Vec::new(),
            under_way: 0,
            sent: 0,
            nth: 0,
        });
        self.open_cells += quotas + cells;
    }

    /// A commit is durable: what its job has written, as `version`, takes the place of what it has read.
    pub fn commit(&mut self, (partition, version): (u32, u64)) {
        let layout = self.layout;
        let pyramid = &mut self.pyramids[partition as usize];
        let Some(job) = pyramid.job.take() else { return };
        for (level, _) in &job.sources {
            if let Some(gone) = pyramid.levels[usize::from(*level)].take() {
                self.dead.push_back(name(partition, *level, gone.version));
            }
        }
        for level in job.destinations {
            let made = Level::new(version, layout.cells(level));
            pyramid.levels[usize::from(level)] = Some(made);
        }
        self.open_orders -= job.until - pyramid.done;
        self.open_cells -= job.cost;
        pyramid.done = job.until;
        self.settle(partition);
    }

    /// Whether this is the generation that a level has now.
    pub fn is_current(&self, of: &ChunkName) -> bool {
        let level = of.array.0.checked_sub(1).map(usize::from);
        let pyramid = self.pyramids.get(of.chunk as usize);
        let held =
            pyramid.zip(level).and_then(|(pyramid, level)| pyramid.levels.get(level)?.as_ref());
        held.is_some_and(|held| held.version == of.version)
    }

    /// How many generations count and were written.
    pub fn current(&self) -> u64 {
        let levels = self.pyramids.iter().flat_map(|pyramid| pyramid.levels.iter().flatten());
        levels.filter(|held| !is_new(&name(0, 0, held.version))).count() as u64
    }
}
