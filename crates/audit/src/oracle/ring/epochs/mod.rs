//! The messages of an epoch: R read batches, a write batch, the commit; which of them a message is.
//!
//! A batch that shows nothing sends nothing. In virtual time the grid tells which batch a message
//! is of. Otherwise it is taken for the first one it can be, and moved to a later one when it shows
//! an eviction that falls due only there: the number of accesses is exact at every eviction that
//! shows anything and at the commit, in between it is a lower bound. What is not shown changes
//! nothing.

mod commit;
mod further;
mod lanes;

use fogbank_env::Nanos;
use fogbank_store::ChunkName;
use fogbank_store::trace::ChunkCells;

pub(super) use self::commit::Commit;
use self::further::Further;
pub(super) use self::lanes::{Lane, Lanes};
use super::RingConfig;
use super::buckets::{Buckets, Shape};
use super::crash_replay::Again;
use super::fault::{Step, fault};
use super::pace::{Cause, Pace};
use super::reads::{Entry, Reads, Where};
use super::xor::XorBatch;
use crate::{Observation, Observer};

/// The engine's side of the oracle.
pub(super) struct Epochs {
    pub(super) config: RingConfig,
    pub reads: Reads,
    pub pace: Pace,
    pub epoch: u64,
    /// Which batch is due or open: 0 to R - 1 read, R writes, R + 1 is the commit.
    pub(super) batch: u32,
    /// Whether a message of it was seen, or its record.
    pub(super) open: bool,
    /// Messages of cells of it.
    pub(super) windows: u32,
    /// Whether the last of them was as long as one gets.
    pub(super) window_full: bool,
    /// Whether the open batch has fetched for the write batch.
    fetched: bool,
    /// When its first message left.
    pub(super) first_at: Nanos,
    pub(super) xor: XorBatch,
    /// What is under way.
    pub lanes: Lanes,
    pub(super) commit: Commit,
    pub(super) committing: bool,
    /// Images that were written.
    pub(super) written: usize,
    pub(super) tick: u64,
    pub(super) opening: u32,
    pub again: Again,
    latest_ns: u64,
}

impl Epochs {
    pub fn new(config: RingConfig, pace: Pace, shape: Shape) -> Self {
        Self {
            reads: Reads::new(Buckets::new(shape), config.evict_every),
            again: Again::default(),
            lanes: Lanes::new(&config),
            config,
            pace,
            epoch: 0,
            batch: 0,
            open: false,
            windows: 0,
            window_full: false,
            fetched: false,
            first_at: 0,
            xor: XorBatch::default(),
            commit: Commit::Images,
            committing: false,
            written: 0,
            tick: 0,
            opening: 1,
            latest_ns: 0,
        }
    }

    /// Whether nothing of the epoch was seen yet.
    pub fn is_between(&self) -> bool {
        self.batch == 0 && !self.open
    }

    /// Whether there is a journal, whose records say where batches begin.
    fn is_recorded(&self) -> bool {
        self.config.vault.is_some()
    }

    /// The latest departure after its point.
    pub fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// Whether both messages of a batch leave at once, and this is the second.
    pub fn is_sibling(&self, xors: bool, at: Nanos, alone: bool) -> bool {
        let seen = if xors { self.xor.seen_paths } else { self.xor.seen_cells };
        let other = if xors { self.xor.seen_cells } else { self.xor.seen_paths };
        let together = match self.pace.tells_batches() {
            true => at == self.first_at,
            false => !alone || xors,
        };
        self.config.xor && self.open && other && !seen && self.windows <= 1 && together
    }
}

/// Read batches and the write batch.
impl Epochs {
    /// Cells are asked for; `sibling` if together with the message before.
    pub fn read(
        &mut self,
        reads: &[ChunkCells],
        at: Nanos,
        sibling: bool,
        out: &mut dyn Observer,
    ) -> Step {
        self.end_path_before(reads.first(), out)?;
        self.place(at, sibling, (reads, true), out)?;
        self.windows += 1;
        self.reads.begin_message();
        let mut cells = 0;
        for read in reads {
            if cells >= self.config.window_cells as usize {
                let seen = format!("{} reads in one message", reads.len());
                return fault("full-window", "a new message", seen);
            }
            cells += read.cells.len();
            let entry = self.entry(read)?;
            match self.config.xor {
                true => self.xor.add_retired(entry),
                false => self.read_entry(entry, out)?,
            }
        }
        self.xor.seen_cells = true;
        self.window_full = cells >= self.config.window_cells as usize;
        self.end_if_complete(out)
    }

    /// Paths are asked for, each to be combined.
    pub fn read_paths(
        &mut self,
        reads: &[ChunkCells],
        ends: &[u32],
        at: Nanos,
        sibling: bool,
        out: &mut dyn Observer,
    ) -> Step {
        if !self.config.xor {
            return fault("unknown-operation", "no XOR", "read XOR");
        }
        let full = std::mem::take(&mut self.window_full);
        self.place(at, sibling, (reads, false), out)?;
        self.window_full = full && sibling;
        for read in reads {
            let entry = self.entry(read)?;
            let [cell] = *entry.cells else {
                return fault("path-consistent", "one cell a bucket", format!("{:?}", read.cells));
            };
            self.check_cell(cell)?;
            self.xor.add_path_cell(entry.chunk, entry.version, cell);
        }
        self.xor.set_ends(ends)?;
        self.xor.seen_paths = true;
        self.end_if_complete(out)
    }

    fn entry<'a>(&self, read: &'a ChunkCells) -> Step<Entry<'a>> {
        let ChunkName { array, chunk, version } = read.chunk;
        if array.0 != self.config.array || read.cells.is_empty() {
            return fault("stored-only", "cells of the tree's array", format!("{read:?}"));
        }
        Ok(Entry { chunk, version, cells: &read.cells })
    }

    /// Finds out which batch a message is of.
    fn place(
        &mut self,
        at: Nanos,
        sibling: bool,
        (reads, window): (&[ChunkCells], bool),
        out: &mut dyn Observer,
    ) -> Step {
        if sibling {
            return self.departed(at, Cause { at, missed: 0 }, out);
        }
        if self.is_recorded() {
            return self.place_recorded(at, window, out);
        }
        let goes_on = self.open && self.window_full && self.goes_on(at, reads);
        let further = if goes_on { self.lanes.window(&self.pace, at)? } else { None };
        let cause = if let Some(cause) = further {
            cause
        } else {
            if self.open {
                self.end_batch(out)?;
            }
            self.begin_batch(at, window, out)?
        };
        self.departed(at, cause, out)
    }

    /// A window may end within a path, or with it: what comes next tells.
    fn end_path_before(&mut self, next: Option<&ChunkCells>, out: &mut dyn Observer) -> Step {
        let goes_on = next
            .is_some_and(|next| next.cells.len() == 1 && self.reads.continues_at(next.chunk.chunk));
        if goes_on { Ok(()) } else { self.reads.end_path(out) }
    }

    pub(super) fn departed(&mut self, at: Nanos, cause: Cause, out: &mut dyn Observer) -> Step {
        self.departed_of(self.batch, at, cause, out)
    }

    /// A message of the commit that makes an epoch count has left.
    pub(in crate::oracle::ring) fn departed_to_commit(
        &mut self,
        at: Nanos,
        cause: Cause,
        out: &mut dyn Observer,
    ) -> Step {
        self.departed_of(self.config.read_batches + 2, at, cause, out)
    }

    /// A deletion has left: while clients go on by their answers.
    pub(in crate::oracle::ring) fn departed_to_delete(
        &mut self,
        at: Nanos,
        cause: Cause,
        out: &mut dyn Observer,
    ) -> Step {
        self.departed_of(self.config.read_batches + 3, at, cause, out)
    }

    fn departed_of(&mut self, batch: u32, at: Nanos, cause: Cause, out: &mut dyn Observer) -> Step {
        let Cause { at: cause, missed } = cause;
        self.latest_ns = self.latest_ns.max(at.saturating_sub(cause));
        let epoch = self.epoch;
        out.observe(&Observation::Departed { at, cause, missed, epoch, batch });
        Ok(())
    }

    /// Whether a message is another window of the open batch. Where time does not tell, and the
    /// batch may be complete or not, the message is one if it fits.
    fn goes_on(&self, at: Nanos, reads: &[ChunkCells]) -> bool {
        let fetches = self.config.prefetch && self.is_last_read() && !self.fetched;
        let incomplete = self.config.xor || self.reads.is_open() || fetches;
        incomplete
            && match self.pace.tells_batches() {
                true => self.lanes.fits(&self.pace, at),
                false => self.config.xor || fetches || self.reads.may_go_on(reads),
            }
    }

    fn is_last_read(&self) -> bool {
        self.batch + 1 == self.config.read_batches
    }

    fn begin_batch(&mut self, at: Nanos, window: bool, out: &mut dyn Observer) -> Step<Cause> {
        if self.committing {
            return fault(self.commit.rule(), self.commit.words(), "a read");
        }
        if self.batch > self.config.read_batches {
            return fault("batches-per-epoch", "the commit", "a read");
        }
        if self.pace.tells_batches() {
            let most = self.config.read_batches - self.batch;
            let silent = (0..=most).find(|silent| self.pace.departure_after(*silent) == at);
            for _ in 0..silent.unwrap_or(0) {
                self.pass_batch(out)?;
            }
        }
        let cause = self.pace.first(at)?;
        self.first_at = at;
        self.open_batch(out);
        self.lanes.first(at, cause, window);
        Ok(cause)
    }

    pub(super) fn open_batch(&mut self, out: &mut dyn Observer) {
        self.open = true;
        (self.windows, self.window_full, self.fetched) = (0, false, false);
        self.xor.clear();
        self.lanes.open(self.again.durable_at().unwrap_or(self.pace.ready()));
        self.reads.place = self.place_of_batch();
        match self.batch < self.config.read_batches {
            true => self.reads.begin_paths(self.config.read_batch.into()),
            false => self.reads.begin_writes(self.config.write_batch.into(), out),
        }
    }

    fn place_of_batch(&self) -> Where {
        let batch = self.epoch * u64::from(self.config.read_batches) + u64::from(self.batch);
        Where { epoch: self.epoch, batch }
    }

    /// A batch that shows nothing.
    fn pass_batch(&mut self, out: &mut dyn Observer) -> Step {
        self.open_batch(out);
        self.end_batch(out)?;
        self.pace.pass_batch();
        Ok(())
    }

    fn read_entry(&mut self, entry: Entry<'_>, out: &mut dyn Observer) -> Step {
        if let [cell] = *entry.cells {
            self.check_cell(cell)?;
            return self.reads.path_cell(entry, cell, out);
        }
        let mut further = Further::of(&self.config, &self.pace, self.windows == 1);
        further.at(self.epoch, self.batch, self.fetched, false);
        let retired = self.reads.retiring(entry, out, |reads, out| further.reach(reads, out));
        (self.batch, self.fetched) = (further.batch, further.fetched);
        retired
    }

    fn check_cell(&self, cell: u16) -> Step {
        let slots = self.reads.buckets.shape.slots();
        if cell < slots {
            return Ok(());
        }
        fault("slot-once", format!("one of {slots} cells"), format!("cell {cell}"))
    }

    /// Ends the batch with the message that makes it complete, so that a fault is found there.
    fn end_if_complete(&mut self, out: &mut dyn Observer) -> Step {
        let both = !self.config.xor || (self.xor.seen_cells && self.xor.seen_paths);
        if both && !self.window_full { self.end_batch(out) } else { Ok(()) }
    }

    pub(super) fn end_batch(&mut self, out: &mut dyn Observer) -> Step {
        if self.config.xor {
            self.replay_xor(out)?;
        }
        self.reads.finish(out)?;
        if self.config.prefetch && self.is_last_read() && !self.fetched {
            self.reads.fetch_ahead(self.config.write_batch.into());
            self.reads.finish(out)?;
        }
        self.open = false;
        self.window_full = false;
        self.batch += 1;
        Ok(())
    }

    fn replay_xor(&mut self, out: &mut dyn Observer) -> Step {
        let batch = std::mem::take(&mut self.xor);
        let mut further = Further::of(&self.config, &self.pace, true);
        further.at(self.epoch, self.batch, self.fetched, batch.has_paths());
        let replayed = batch.replay(&mut self.reads, out, |reads, out| further.reach(reads, out));
        (self.batch, self.fetched) = (further.batch, further.fetched);
        self.xor = batch;
        self.xor.clear();
        replayed
    }
}
