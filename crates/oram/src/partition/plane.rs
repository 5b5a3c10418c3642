//! What the engine knows, and the steps that change it. None of them waits for anything.
//!
//! The steps are those of the protocol: an access is cut and picks its cells (`reader`), orders go
//! to partitions (`orders`), jobs rewrite partitions (`job`). Here: what has come, and the end of
//! an access.
//!
//! # Invariants
//! - A block is in one level, one stash or one job of its partition, or under way.
//! - The value of a block is in memory unless its cell is unread in a level.
//! - Accesses end in the order of their numbers.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_seal::KeyRing;
use fogbank_store::ChunkName;
use hashbrown::HashMap;
use rand_core::Rng;

use super::Silent;
use super::canary::Canary;
use super::job::Image;
use super::layout::Layout;
use super::level::{Draws, Level, Taken};
use super::orders::Effects;
use super::pyramid::Pyramid;
use super::pyramids::Pyramids;
use super::saved;
use super::settings::PartitionSettings;
use super::state::Cutting;
use super::stats::Stats;
use crate::geometry::version;
use crate::immediate::sequencer::Number;
use crate::position::Home;
use crate::turn::Turn;
use crate::{Access, Error, Result};

/// The cell of a message: where it is, and what has to be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Its level.
    pub level: u8,
    /// Its place in the level.
    pub place: u16,
    /// The generation of the level.
    pub version: u64,
    /// The live block that it holds; of a dummy nothing is wanted.
    pub block: Option<u32>,
}

/// What the job of a partition is to write.
#[derive(Debug)]
pub struct Images {
    /// The partition.
    pub partition: u32,
    /// From the lowest level.
    pub images: Vec<Image>,
}

/// An access from its cut to its end.
#[derive(Debug)]
pub(super) struct UnderWay {
    /// The block, if anybody asked for one.
    pub block: Option<u32>,
    pub access: Access,
    pub partition: u32,
    /// Where the block goes, if this is its last access.
    pub to: u32,
    /// Whether its own cells have come.
    pub has_come: bool,
    /// The job of the partition when it was cut, by its orders: its cells have to come, too.
    pub awaits: Option<u64>,
}

/// See the module.
pub struct PartitionPlane {
    pub(super) layout: Layout,
    pub(super) value_bytes: usize,
    pub(super) keys: Arc<KeyRing>,
    /// The partition of every block; of one under way, that in which it was. Where in it a block
    /// is, it knows ([`Pyramid::find`]).
    pub(super) positions: Box<[u16]>,
    pub(super) pyramids: Pyramids,
    /// By block, for those whose cell is not unread in a level.
    pub(super) values: HashMap<u32, Bytes>,
    /// By block that is under way: its accesses that have not ended.
    pub(super) waiting: HashMap<u32, u32>,
    /// Accesses under way, by number.
    pub(super) accesses: VecDeque<UnderWay>,
    /// The number of the first of them.
    pub(super) first: Number,
    /// The partition of the next order that no access gives, and the accesses since the last.
    pub(super) turn: Turn,
    /// Partitions that wait for a job, in the order in which they became ready.
    pub(super) ready: VecDeque<u32>,
    /// Orders given and not carried out. Public.
    pub(super) open_orders: u64,
    /// Cells of jobs that have begun and have not been committed. Public.
    pub(super) open_cells: u64,
    /// Of records that do not count yet, oldest first.
    pub(super) uncounted: VecDeque<Effects>,
    /// Partitions whose jobs have written everything, durably.
    pub(super) written: VecDeque<u32>,
    /// Generations that a later one has taken the place of, and how many were taken from the front.
    pub(super) dead: VecDeque<ChunkName>,
    pub(super) dropped: u64,
    /// D, K, E and accesses under way, at most.
    pub(super) orders_max: u64,
    pub(super) cells_max: u64,
    pub(super) checkpoint_every: u64,
    pub(super) under_way_max: usize,
    /// Jobs, and commits, that a record has at most.
    pub(super) jobs_max: usize,
    /// Accesses since the last cut.
    pub(super) since_cut: u64,
    /// The cut whose values are not all known yet, or were not handed over.
    pub(super) cutting: Option<Cutting>,
    /// What a checkpoint has room for: blocks with values, bytes of what does not count yet, and of
    /// partitions.
    pub(super) saved_blocks_max: usize,
    pub(super) uncounted_bytes: usize,
    pub(super) saved_bytes: usize,
    /// Whether its positions were drawn now, and stand in no checkpoint.
    pub(super) is_new: bool,
    pub(super) stats: Stats,
    /// Who is told of accesses that read nothing.
    pub(super) silent: Option<Arc<Silent>>,
    /// What it leaks: nothing, but in tests.
    pub(super) canary: Canary,
    partitions_drawn: Stream,
    decoys: Stream,
}

impl PartitionPlane {
    /// Of a store in which nothing is yet: see [`PartitionPlane::fill`].
    pub fn new(settings: &PartitionSettings, keys: Arc<KeyRing>, random: &Randomness) -> Self {
        let layout = settings.layout;
        let pyramids = (0..layout.partitions).map(|_| Pyramid::new(&layout, 0));
        Self {
            positions: vec![0; layout.blocks as usize].into(),
            pyramids: Pyramids::of(pyramids.collect()),
            values: HashMap::default(),
            waiting: HashMap::default(),
            accesses: VecDeque::new(),
            first: 0,
            turn: Turn::default(),
            ready: VecDeque::new(),
            open_orders: 0,
            open_cells: 0,
            uncounted: VecDeque::new(),
            written: VecDeque::new(),
            dead: VecDeque::new(),
            dropped: 0,
            orders_max: settings.orders_max(),
            cells_max: settings.job_cells_max(),
            checkpoint_every: settings.checkpoint_every,
            under_way_max: settings.shell.under_way_max,
            jobs_max: settings.jobs_max(),
            since_cut: 0,
            cutting: None,
            saved_blocks_max: settings.saved_blocks_max(),
            uncounted_bytes: settings.uncounted_bytes(),
            saved_bytes: saved::bytes_max(settings),
            is_new: false,
            stats: Stats::default(),
            silent: None,
            canary: Canary::default(),
            value_bytes: settings.shell.shape.value_bytes,
            partitions_drawn: random.stream(Purpose::Leaves),
            decoys: random.stream(Purpose::Padding),
            layout,
            keys,
        }
    }

    /// Makes it that of a new store, all of whose blocks hold zeros: nothing of it is in the cloud.
    ///
    /// # Errors
    /// [`Error::Bug`] if no opening would have made it.
    pub fn fill(mut self) -> Result<Self> {
        for (partition, pyramid) in (0..).zip(self.pyramids.all()) {
            *pyramid = Pyramid::new(&self.layout, self.layout.first_orders(partition));
        }
        self.place_all()?;
        self.is_new = true;
        Ok(self)
    }

    /// Every block goes to the top of a partition drawn for it; those too many, to its stash.
    fn place_all(&mut self) -> Result<()> {
        let (zeros, layout) = (Bytes::from(vec![0; self.value_bytes]), self.layout);
        // Counted first: lists that grow would take twice as much.
        let mut counts = vec![0_usize; layout.partitions as usize];
        for block in 0..layout.blocks {
            let partition = self.draw_partition();
            counts[partition as usize] += 1;
            self.set_partition(block, partition);
        }
        let room = usize::from(layout.top_blocks);
        let mut tops: Vec<Vec<u32>> =
            counts.into_iter().map(|count| Vec::with_capacity(count.min(room))).collect();
        for (block, partition) in (0..).zip(&self.positions) {
            let at = usize::from(*partition);
            match tops[at].len() < room {
                true => tops[at].push(block),
                false => {
                    self.pyramids[at].stash.push_back(block);
                    self.values.insert(block, zeros.clone());
                }
            }
        }
        let first = version(self.keys.current().0, 0);
        for (partition, mut live) in (0..).zip(tops) {
            for level in layout.filled(self.pyramids[partition as usize].done) {
                let plan =
                    if level == layout.top() { std::mem::take(&mut live) } else { Vec::new() };
                let made = self.made(partition, level, first, &plan)?;
                self.pyramids[partition as usize].levels[usize::from(level)] = Some(made);
            }
        }
        Ok(())
    }

    /// The level of this plan in a generation.
    pub(super) fn made(
        &self,
        partition: u32,
        level: u8,
        version: u64,
        plan: &[u32],
    ) -> Result<Level> {
        let draws = Draws::of((&self.keys, &self.canary), (partition, level, version))?;
        Ok(Level::new(version, plan, &draws.order(self.layout.cells(level))))
    }

    /// The partition of `block`, and where in it the block is unless it is under way.
    pub(super) fn home(&self, block: u32) -> (u32, Option<Home>) {
        let partition = self.positions[block as usize];
        (partition.into(), self.pyramids[usize::from(partition)].find(block))
    }

    /// `block` is in this partition from now on.
    pub(super) fn set_partition(&mut self, block: u32, partition: u32) {
        // There are no more than 2^16.
        self.positions[block as usize] = partition as u16;
    }

    /// What is open follows from the counters; partitions that wait for a job do so by their
    /// number.
    pub(super) fn count_open(&mut self) {
        self.open_orders = self.pyramids.iter().map(|pyramid| pyramid.given - pyramid.done).sum();
        let jobs = self.pyramids.iter().filter_map(|pyramid| pyramid.job.as_ref());
        self.open_cells = jobs.map(|job| job.cost).sum();
        for (partition, pyramid) in (0..).zip(self.pyramids.all()) {
            pyramid.is_ready = pyramid.may_begin(&self.layout);
            self.ready.extend(pyramid.is_ready.then_some(partition));
        }
    }

    /// The cells of access `number` have come: the live ones, by block.
    pub fn cells_came(&mut self, number: Number, live: impl IntoIterator<Item = (u32, Bytes)>) {
        self.take_values(live);
        if let Some(access) = self.under_way(number) {
            access.has_come = true;
        }
    }

    /// Values that have come are in memory from now on.
    pub(super) fn take_values(&mut self, live: impl IntoIterator<Item = (u32, Bytes)>) {
        self.values.extend(live);
        let most = &mut self.stats.secret.blocks_max;
        *most = (*most).max(self.values.len());
    }

    /// Ends the next access if it may end, and gives its number and its block as it is then.
    ///
    /// Its own cells have come, those of a job of its partition cut before it, and all accesses
    /// before it have ended: so its moment is one that the cloud knows.
    ///
    /// # Errors
    /// [`Error::Bug`] if the block has not come.
    pub fn end_next(&mut self) -> Result<Option<(Number, Bytes)>> {
        self.look_at_cut()?;
        let Some(access) = self.accesses.front().filter(|access| self.may_end(access)) else {
            return Ok(None);
        };
        // That may copy the partition for a checkpoint: so it is touched whether a block goes
        // there, a later access keeps the block, or there is none.
        _ = &mut self.pyramids[access.to as usize];
        let Some(block) = access.block else {
            self.retire();
            return Ok(Some((self.first - 1, Bytes::new())));
        };
        let value = self.values.get_mut(&block);
        let value = value.ok_or_else(|| Error::Bug("the block has not come".into()))?;
        let after = access.access.applied_to(value);
        let before = std::mem::replace(value, after.clone());
        let (answer, to) = (access.access.answer(before, after), access.to);
        let left = self.waiting.get_mut(&block).map_or(0, |left| {
            *left -= 1;
            *left
        });
        if left == 0 {
            // Nobody asks for it any more: it waits in the stash of its new partition for a job.
            self.waiting.remove(&block);
            self.pyramids[to as usize].stash.push_back(block);
            self.set_partition(block, to);
        }
        self.retire();
        Ok(Some((self.first - 1, answer)))
    }

    fn may_end(&self, access: &UnderWay) -> bool {
        let job = self.pyramids[access.partition as usize].job.as_ref();
        let is_awaited = job.is_some_and(|job| Some(job.until) == access.awaits && !job.has_come());
        let is_here = || access.block.is_none_or(|block| self.values.contains_key(&block));
        let has_come = access.has_come || (self.canary.answers_hits() && is_here());
        has_come && (!is_awaited || (self.canary.awaits_no_job() && is_here()))
    }

    fn retire(&mut self) {
        self.accesses.pop_front();
        self.first += 1;
    }

    /// The access of this number, if it has not ended.
    pub(super) fn under_way(&mut self, number: Number) -> Option<&mut UnderWay> {
        let at = number.checked_sub(self.first)?;
        self.accesses.get_mut(at as usize)
    }

    /// The message's cells of what was `taken` of a level.
    pub(super) fn cells(
        &self,
        partition: u32,
        level: u8,
        taken: impl IntoIterator<Item = Taken>,
    ) -> Result<Vec<Cell>> {
        let held = self.pyramids[partition as usize].levels.get(usize::from(level));
        let version = held.and_then(Option::as_ref).ok_or_else(not_filled)?.version;
        let cell = |Taken { place, block }| Cell { level, place, version, block };
        Ok(taken.into_iter().map(cell).collect())
    }

    /// A partition for a block that is asked for: uniform.
    pub(super) fn draw_partition(&mut self) -> u32 {
        self.partitions_drawn.next_u32() & (self.layout.partitions - 1)
    }

    /// A partition to be shown by an access that brings no block: uniform.
    pub(super) fn draw_decoy(&mut self) -> u32 {
        self.decoys.next_u32() & (self.layout.partitions - 1)
    }
}

pub(super) fn not_filled() -> Error {
    Error::Bug("a level is not filled".into())
}
