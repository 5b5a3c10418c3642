//! The messages of an epoch: R read batches, a write batch, the commit; which of them a message is.
//!
//! A batch that shows nothing sends nothing. In virtual time the grid tells which batch a message is
//! of. Otherwise it is taken for the first one it can be, and moved to a later one when it shows an
//! eviction that falls due only there: the number of accesses is exact at every eviction that shows
//! anything and at the commit, in between it is a lower bound. What is not shown changes nothing.

use fogbank_env::Nanos;
use fogbank_store::ChunkName;
use fogbank_store::trace::{ChunkCells, ChunkSeen, RingConfig};

use super::again::Again;
use super::buckets::{Buckets, Shape};
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
    pub(super) commit: Commit,
    pub(super) committing: bool,
    /// Images that were written.
    pub(super) written: usize,
    pub(super) tick: u64,
    pub(super) opening: u32,
    /// Whether the store keeps a journal.
    journalled: bool,
    pub again: Again,
    latest_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commit {
    Images,
    Barrier,
    /// With a journal: the vault's turn.
    Durable,
    Delete,
    /// Deletion between two epochs.
    Collect,
}

impl Epochs {
    pub fn new(config: RingConfig, pace: Pace, shape: Shape) -> Self {
        Self {
            reads: Reads::new(Buckets::new(shape), config.evict_every),
            journalled: is_journalled(&config),
            again: Again::default(),
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

    /// A proxy runs that has claimed the store as opening number `opening`.
    pub fn start(&mut self, opening: u32) {
        self.opening = opening;
        self.reads.superseded.clear();
        self.pace.start_epochs();
    }

    /// Whether nothing of the epoch was seen yet.
    pub fn is_between(&self) -> bool {
        self.batch == 0 && !self.open
    }

    /// Whether a message of cells that was lied about may be followed by the next window, which
    /// leaves while it is verified.
    pub fn window_is_full(&self) -> bool {
        self.open && self.window_full
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
        self.place(at, sibling, reads, out)?;
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
        self.place(at, sibling, reads, out)?;
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
        reads: &[ChunkCells],
        out: &mut dyn Observer,
    ) -> Step {
        if sibling {
            return self.departed(at, Cause { at, missed: 0 }, out);
        }
        if self.journalled {
            return self.place_recorded(at, out);
        }
        let cause = if self.open && self.window_full && self.goes_on(at, reads) {
            self.pace.further(at)?
        } else {
            if self.open {
                self.end_batch(out)?;
            }
            self.begin_batch(at, out)?
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
        let Cause { at: cause, missed } = cause;
        self.latest_ns = self.latest_ns.max(at.saturating_sub(cause));
        let (epoch, batch) = (self.epoch, self.batch);
        out.observe(&Observation::Departed { at, cause, missed, epoch, batch });
        Ok(())
    }

    /// Whether a message is another window of the open batch. Where time does not tell, and the batch
    /// may be complete or not, the message is one if it fits.
    fn goes_on(&self, at: Nanos, reads: &[ChunkCells]) -> bool {
        let fetches = self.config.prefetch && self.is_last_read() && !self.fetched;
        let incomplete = self.config.xor || self.reads.is_open() || fetches;
        incomplete
            && match self.pace.tells_batches() {
                true => self.pace.clone().further(at).is_ok(),
                false => self.config.xor || fetches || self.reads.may_go_on(reads),
            }
    }

    fn is_last_read(&self) -> bool {
        self.batch + 1 == self.config.read_batches
    }

    fn begin_batch(&mut self, at: Nanos, out: &mut dyn Observer) -> Step<Cause> {
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
        Ok(cause)
    }

    pub(super) fn open_batch(&mut self, out: &mut dyn Observer) {
        self.open = true;
        (self.windows, self.window_full, self.fetched) = (0, false, false);
        self.xor.clear();
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

/// The commit.
impl Epochs {
    /// Images are written.
    pub fn write(
        &mut self,
        writes: &[(ChunkName, ChunkSeen)],
        at: Nanos,
        out: &mut dyn Observer,
    ) -> Step {
        self.reach_commit(at, out)?;
        let left = self.reads.images.len() - self.written;
        let count = left.min(self.config.window_chunks as usize);
        if self.commit != Commit::Images || count != writes.len() || count == 0 {
            let expected = format!("{}, {count} of them", self.commit.words());
            return fault("images-written", expected, format!("{} images", writes.len()));
        }
        for (name, seen) in writes {
            self.write_image(*name, seen, out)?;
        }
        Ok(())
    }

    fn write_image(&mut self, name: ChunkName, seen: &ChunkSeen, out: &mut dyn Observer) -> Step {
        let version = self.version();
        let chunk = self.reads.images[self.written];
        if (name.array.0, name.chunk, name.version) != (self.config.array, chunk, version) {
            let expected = format!("bucket {chunk} version {version:#x}");
            return fault("images-written", expected, format!("{name:x?}"));
        }
        let slots = u64::from(self.reads.buckets.shape.slots());
        let bytes = slots * u64::from(self.config.cell_bytes);
        if seen.bytes != bytes {
            return fault("cell-size", format!("{bytes} bytes"), format!("{} bytes", seen.bytes));
        }
        // Without them replies could not be compared with what was written. Traces may leave out
        // those of replies only; one of a later opening may not know how long a cell is.
        let told = seen.fingerprints.len() as u64;
        if told != slots && (told != 1 || self.opening <= 1) {
            return fault("cell-size", format!("{slots} cells"), format!("{told} fingerprints"));
        }
        self.reads.buckets.write(chunk, version, &seen.fingerprints);
        self.reads.tally.images += 1;
        self.written += 1;
        let fingerprints = &seen.fingerprints[..];
        out.observe(&Observation::Image { chunk, version, fingerprints });
        Ok(())
    }

    /// The version that images are written under.
    pub(super) fn version(&self) -> u64 {
        (u64::from(self.opening) << TICK_BITS) | self.tick
    }

    /// A barrier.
    pub fn barrier(&mut self, at: Nanos, out: &mut dyn Observer) -> Step {
        self.reach_commit(at, out)?;
        if self.commit != Commit::Images || self.written < self.reads.images.len() {
            return fault(self.commit.rule(), self.commit.words(), "a barrier");
        }
        self.commit = Commit::Barrier;
        Ok(())
    }

    /// Superseded versions are deleted.
    pub fn delete(&mut self, names: &[ChunkName], at: Nanos, out: &mut dyn Observer) -> Step {
        let collects = self.config.keep_superseded && self.is_between();
        if self.commit != Commit::Delete && !collects {
            return fault("superseded-deleted", self.due().1, "a deletion");
        }
        let cause = if collects { self.pace.owners(at)? } else { self.pace.further(at)? };
        self.check_superseded(names)?;
        self.reads.superseded.clear();
        if collects {
            self.commit = Commit::Collect;
            return Ok(());
        }
        self.departed(at, cause, out)
    }

    /// Whether `names` are what the images replace, in the order in which it was retired.
    pub(super) fn check_superseded(&self, names: &[ChunkName]) -> Step {
        let array = self.config.array;
        let is = |(name, (chunk, version)): (&ChunkName, &(u32, u64))| {
            (name.array.0, name.chunk, name.version) == (array, *chunk, *version)
        };
        let superseded = &self.reads.superseded;
        let same = names.iter().zip(superseded).take_while(|pair| is(*pair)).count();
        if same == names.len() && same == superseded.len() {
            return Ok(());
        }
        let due = superseded.get(same).map(|(chunk, version)| {
            format!(
                "delete bucket {chunk} version {version:#x}, number {same} as they were retired"
            )
        });
        let seen = names.get(same).map(|name| format!("delete {name:x?}"));
        let ends = || format!("a call that ends after {same} versions");
        fault("superseded-deleted", due.unwrap_or_else(ends), seen.unwrap_or_else(ends))
    }

    /// The engine's last message has ended.
    pub fn message_ended(&mut self) {
        match self.commit {
            Commit::Barrier if self.journalled => self.commit = Commit::Durable,
            Commit::Barrier
                if !self.config.keep_superseded && !self.reads.superseded.is_empty() =>
            {
                self.commit = Commit::Delete;
            }
            Commit::Barrier => self.epoch_done(),
            Commit::Delete if self.reads.superseded.is_empty() => self.epoch_done(),
            Commit::Collect => self.commit = Commit::Images,
            Commit::Delete | Commit::Images | Commit::Durable => {}
        }
    }

    pub(super) fn epoch_done(&mut self) {
        self.epoch += 1;
        self.pace.epoch_done();
        self.batch = 0;
        self.written = 0;
        self.committing = false;
        self.reads.images.clear();
        self.commit = Commit::Images;
    }

    /// A message of the commit leaves; what was not seen of the batches before shows nothing.
    fn reach_commit(&mut self, at: Nanos, out: &mut dyn Observer) -> Step {
        if self.open {
            self.end_batch(out)?;
        }
        if self.journalled {
            self.check_complete()?;
        }
        while self.batch <= self.config.read_batches {
            self.pass_batch(out)?;
        }
        let first = !std::mem::replace(&mut self.committing, true);
        if first {
            self.begin_commit();
        }
        let free = first && self.config.interval_ns == 0;
        if first && !free && self.pace.is_early(at) {
            let seen = format!("it at {at} ns");
            return fault("images-written", "nothing of the commit before its time", seen);
        }
        let cause = if free { self.pace.owners(at)? } else { self.pace.further(at)? };
        self.departed(at, cause, out)
    }

    fn begin_commit(&mut self) {
        self.reads.images.sort_unstable();
        self.tick += u64::from(!self.reads.images.is_empty());
    }

    /// What has to come next, as rule and words, if the epoch is not over.
    pub fn due(&self) -> (&'static str, &'static str) {
        match self.batch > self.config.read_batches {
            true => (self.commit.rule(), self.commit.words()),
            false => ("blob-order", "the rest of the epoch"),
        }
    }
}

impl Commit {
    fn rule(self) -> &'static str {
        match self {
            Commit::Images => "images-written",
            Commit::Durable => "commit-order",
            Commit::Barrier | Commit::Delete | Commit::Collect => "superseded-deleted",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Commit::Images => "the images of the epoch",
            Commit::Durable => "the delta or the checkpoint of the epoch",
            Commit::Barrier | Commit::Delete | Commit::Collect => {
                "the deletion of what they replace"
            }
        }
    }
}

/// What may be reached from a batch that shows an eviction which does not fall due in it.
struct Further {
    batches: u32,
    accesses: u64,
    writes: u64,
    prefetch: bool,
    /// Whether the batch may turn out to be a later one.
    movable: bool,
    /// Whether the message may turn out to be of the next batch.
    splittable: bool,
    epoch: u64,
    batch: u32,
    fetched: bool,
    /// Whether there are paths that were not taken yet.
    paths: bool,
}

impl Further {
    fn of(config: &RingConfig, pace: &Pace, first_window: bool) -> Self {
        let unsaid = !pace.tells_batches() && !is_journalled(config);
        Self {
            batches: config.read_batches,
            accesses: config.read_batch.into(),
            writes: config.write_batch.into(),
            prefetch: config.prefetch,
            movable: first_window && unsaid,
            splittable: !first_window && unsaid,
            epoch: 0,
            batch: 0,
            fetched: false,
            paths: false,
        }
    }

    fn at(&mut self, epoch: u64, batch: u32, fetched: bool, paths: bool) {
        (self.epoch, self.batch, self.fetched, self.paths) = (epoch, batch, fetched, paths);
    }

    fn reach(&mut self, reads: &mut Reads, out: &mut dyn Observer) -> Step<bool> {
        if self.batch >= self.batches {
            return Ok(false);
        }
        if self.batch + 1 < self.batches {
            if self.movable {
                reads.shift(self.accesses, self.accesses)?;
                self.batch += 1;
                let batch = self.epoch * u64::from(self.batches) + u64::from(self.batch);
                reads.place = Where { epoch: self.epoch, batch };
            }
            if self.splittable {
                reads.split(self.accesses)?;
                self.batch += 1;
                (self.movable, self.splittable) = (true, false);
                return Ok(true);
            }
            return Ok(self.movable);
        }
        if self.prefetch && !self.fetched {
            reads.exhaust(out)?;
            reads.fetch_ahead(self.writes);
            self.fetched = true;
            return Ok(reads.anything_due());
        }
        let of_writes = (self.movable && reads.shown() == 0)
            || (self.splittable && reads.shown_by_message() == 0);
        if of_writes && !self.paths {
            reads.exhaust(out)?;
            self.batch = self.batches;
            reads.begin_writes(self.writes, out);
            return Ok(reads.anything_due());
        }
        Ok(false)
    }
}

/// Whether records say where batches begin.
fn is_journalled(config: &RingConfig) -> bool {
    config.vault.as_ref().is_some_and(|vault| vault.journal.is_some())
}

/// Versions are (opening, tick).
const TICK_BITS: u32 = 40;
