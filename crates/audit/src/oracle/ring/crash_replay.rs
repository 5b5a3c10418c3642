//! The reads of the open epoch of an engine in a vault, and the same reads again.
//!
//! A proxy that goes on where another stopped repeats what the journal names: exactly the messages
//! that the cloud has seen in this epoch, cell by cell, before anything else. They were taken in
//! when they were first seen; so a repetition is held against them and changes nothing, and no
//! observer hears of it twice. When all have been repeated, the state is that of the stop.
//!
//! The journal also says where batches begin: what is read belongs to the batch recorded last.

use std::collections::BTreeSet;

use fogbank_env::Nanos;
use fogbank_store::ChunkName;
use fogbank_store::trace::Request;

use super::epochs::{Commit, Epochs};
use super::fault::{Step, fault};
use super::pace::Cause;
use crate::Observer;

/// What a vault adds to the state of an epoch.
#[derive(Debug, Default)]
pub(super) struct Again {
    messages: Vec<Message>,
    /// How many have been repeated; all unless a proxy recovers.
    repeated: usize,
    /// Whether the message at hand is new and leaves together with the one that comes again next.
    overtakes: bool,
    /// The message that was just repeated.
    last: Option<usize>,
    /// Whether the epoch is that of a proxy before.
    pub recovers: bool,
    /// Since when the record of a batch is durable that was not begun yet.
    recorded: Option<Nanos>,
    /// That of the batch that is beginning.
    durable_at: Option<Nanos>,
    /// The write-backs of committed epochs.
    tick: u64,
    /// Versions that nothing refers to and that may be there.
    orphans: BTreeSet<(u32, u64)>,
    deleting: Vec<(u32, u64)>,
    /// Versions that the sweep has listed.
    listed: u64,
}

#[derive(Debug)]
struct Message {
    request: Request,
    prints: Vec<u64>,
    /// Whether it left together with the one before.
    sibling: bool,
    /// The batch it is of.
    batch: u64,
}

impl Again {
    /// The message that has to be repeated next.
    fn next(&self) -> Option<&Message> {
        self.messages.get(self.repeated)
    }

    /// Of two messages that leave at once either may be the first.
    fn order_siblings(&mut self, request: &Request) {
        let at = self.repeated;
        if let Some([first, second]) = self.messages.get_mut(at..at + 2)
            && second.sibling
            && second.request == *request
        {
            std::mem::swap(first, second);
            (first.sibling, second.sibling) = (false, true);
        }
    }

    /// Remembers a message that was seen for the first time.
    pub fn note(&mut self, request: &Request, prints: &[u64], sibling: bool, batch: u64) {
        let (request, prints) = (request.clone(), prints.to_vec());
        let message = Message { request, prints, sibling, batch };
        if std::mem::take(&mut self.overtakes) {
            self.messages[self.repeated].sibling = true;
            self.messages.insert(self.repeated, message);
            self.repeated += 1;
            return;
        }
        self.messages.push(message);
        self.repeated = self.messages.len();
    }

    /// The record of a batch is durable.
    pub fn record_ended(&mut self, at: Nanos) {
        self.recorded = Some(at);
    }

    /// Whether the reads that come next are of a batch that has not begun.
    pub fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Since when the record of the batch that is beginning is durable.
    pub fn durable_at(&self) -> Option<Nanos> {
        self.durable_at
    }

    /// The batch of the message that has to be repeated next.
    pub fn batch(&self) -> Option<u64> {
        self.next().map(|next| next.batch)
    }

    /// The fingerprints of the message that was just repeated, if one was.
    pub fn prints(&mut self) -> Option<&[u64]> {
        self.last.take().map(|last| &self.messages[last].prints[..])
    }
}

/// Reads again.
impl Epochs {
    /// Whether a request is a message of before that leaves together with the one before it.
    pub fn repeats_sibling(&self) -> bool {
        self.again.repeated > 0 && self.again.next().is_some_and(|next| next.sibling)
    }

    /// Takes a read as one of before, if such are due; whether they are.
    pub fn repeat(&mut self, request: &Request, at: Nanos) -> Step<bool> {
        self.again.order_siblings(request);
        let Some(next) = self.again.next() else { return Ok(false) };
        let sibling = next.sibling && self.again.repeated > 0;
        if next.request != *request && self.is_missing_sibling(request) {
            self.pace.further(at)?;
            self.first_at = at;
            self.again.overtakes = true;
            return Ok(false);
        }
        if next.request != *request {
            return fault("replay-exact", words(&next.request), words(request));
        }
        let batch = next.batch;
        if !sibling {
            let window = matches!(request, Request::ReadCells { .. });
            self.lanes.turn_to(batch);
            self.place_window(self.pace.ready(), at, window)?;
        } else if at != self.first_at && self.pace.tells_batches() {
            return fault("on-grid", format!("{} ns", self.first_at), format!("{at} ns"));
        }
        self.again.last = Some(self.again.repeated);
        self.again.repeated += 1;
        Ok(true)
    }

    /// Whether a request is what should have left together with the last message of before, which a
    /// stop came in between: of two that leave at once either may be the first.
    fn is_missing_sibling(&self, request: &Request) -> bool {
        let last = self.again.repeated + 1 == self.again.messages.len();
        let missing = match request {
            Request::ReadXor { .. } => self.xor.seen_cells && !self.xor.seen_paths,
            _ => self.xor.seen_paths && !self.xor.seen_cells,
        };
        last && missing && self.config.xor && self.open && self.windows <= 1
    }

    /// Whether the message at hand is such a one.
    pub fn overtakes(&self) -> bool {
        self.again.overtakes
    }

    fn check_repeated(&self, seen: &str) -> Step {
        match self.again.next() {
            None => Ok(()),
            Some(next) => fault("replay-exact", words(&next.request), seen),
        }
    }
}

/// Batches that are recorded.
impl Epochs {
    /// The record of a batch is put.
    pub fn record(&mut self, at: Nanos, out: &mut dyn Observer) -> Step {
        self.check_repeated("a journal record")?;
        if self.open {
            self.end_batch(out)?;
        }
        if self.batch > self.config.read_batches {
            return fault("batches-per-epoch", "the commit", "a journal record");
        }
        let reads = 0 < self.batch && self.batch < self.config.read_batches;
        let cause = if self.again.recovers {
            self.pace.further(at)?
        } else if reads && self.config.in_flight > 1 {
            self.pace.first_after(self.lanes.room_at(), at)?
        } else {
            if self.config.pauses && self.begun() == 0 {
                self.pace.rest_until(at);
            }
            self.pace.first(at)?
        };
        self.departed(at, cause, out)
    }

    /// A read of the batch that was recorded last.
    pub fn place_recorded(&mut self, at: Nanos, window: bool, out: &mut dyn Observer) -> Step {
        let seen = self.xor.seen_cells || self.xor.seen_paths;
        if !self.open || (self.config.xor && seen && !self.window_full) {
            return fault("journal-before-read", "the record of a batch", "a read");
        }
        self.lanes.turn_to_last();
        let ready = if self.again.recovers { self.pace.ready() } else { self.lanes.recorded() };
        let cause = self.place_window(ready, at, window)?;
        self.departed(at, cause, out)
    }

    /// A message of the batch at hand, whose first one could leave at `ready`.
    fn place_window(&mut self, ready: Nanos, at: Nanos, window: bool) -> Step<Cause> {
        if let Some(cause) = self.lanes.window(&self.pace, at)? {
            return Ok(cause);
        }
        let cause = self.pace.after(ready, at)?;
        self.lanes.first(at, cause, window);
        self.first_at = at;
        Ok(cause)
    }

    /// Whether reads may leave while others are under way.
    pub fn may_read(&self) -> bool {
        match self.again.batch() {
            Some(batch) => self.lanes.reading() == batch && self.lanes.may_read(batch),
            None => self.again.is_recorded() || self.lanes.may_go_on(),
        }
    }

    /// Whether the record of a batch may leave while reads are under way.
    pub fn may_record(&self) -> bool {
        let reads = self.begun() + u32::from(self.again.is_recorded());
        reads < self.config.read_batches && !self.again.recovers && self.lanes.may_record()
    }

    /// The batch whose record is durable begins.
    pub fn begin_recorded(&mut self, out: &mut dyn Observer) {
        if let Some(at) = self.again.recorded.take() {
            self.again.durable_at = Some(at);
            self.open_batch(out);
            self.again.durable_at = None;
        }
    }

    /// Batches of the open epoch that have begun.
    pub fn begun(&self) -> u32 {
        self.batch + u32::from(self.open)
    }

    /// The commit may begin: every batch was recorded.
    pub fn check_complete(&self) -> Step {
        self.check_repeated("a commit")?;
        if self.batch > self.config.read_batches {
            return Ok(());
        }
        let rule = match self.again.recovers {
            true => "epoch-completed-after-crash",
            false => "batches-per-epoch",
        };
        let (batch, all) = (self.batch, self.config.read_batches + 1);
        fault(rule, format!("batch {batch} of {all}"), "the commit")
    }

    /// Whether the images of the epoch are durable.
    pub fn is_durable(&self) -> bool {
        self.commit == Commit::Durable
    }
}

/// Stops, commits, sweeps.
impl Epochs {
    /// A new proxy has seen that the open epoch is not committed, if one is open.
    pub fn reopen(&mut self) {
        let version = self.version();
        let written = self.reads.images[..self.written].iter().map(|chunk| (*chunk, version));
        self.again.orphans.extend(written);
        (self.written, self.committing, self.commit) = (0, false, Commit::Images);
        self.tick = self.again.tick;
        (self.again.repeated, self.again.last) = (0, None);
        if self.is_between() {
            let superseded = self.reads.superseded.drain(..);
            self.again.orphans.extend(superseded);
        }
    }

    /// The journal was read: it has so many batches.
    pub fn recover(&mut self, batches: u32) {
        self.again.recovers = batches > 0;
        self.again.recorded = (batches > self.begun()).then(|| self.pace.ready());
        self.lanes.restart();
    }

    /// The open epoch is committed.
    pub fn landed(&mut self) {
        self.epoch_done();
        (self.open, self.window_full) = (false, false);
        self.again.tick = self.tick;
        self.again.messages.clear();
        (self.again.repeated, self.again.recorded) = (0, None);
    }

    /// The store is claimed.
    pub fn claimed(&mut self, opening: u32) {
        self.opening = opening;
    }

    /// Epochs by the grid begin.
    pub fn go_on(&mut self) {
        self.again.recovers = false;
        self.pace.start_epochs();
    }

    /// What the commit replaced is deleted.
    pub fn collect(&mut self, names: &[ChunkName]) -> Step {
        self.check_superseded(names)?;
        self.again.deleting = std::mem::take(&mut self.reads.superseded);
        self.again.orphans.extend(&self.again.deleting);
        Ok(())
    }

    /// A deletion has ended.
    pub fn collected(&mut self) {
        for version in self.again.deleting.drain(..) {
            self.again.orphans.remove(&version);
        }
    }

    /// How many versions are left for a sweep that has listed so many; `None` if the cloud listed
    /// what cannot be.
    pub fn swept(&mut self, listed: u64) -> Option<u64> {
        self.again.listed = listed;
        let left = self.orphans_listed();
        if left == Some(0) {
            self.again.orphans.clear();
        }
        left
    }

    /// Whether only a lie of the cloud can have told the sweep to delete anything.
    pub fn may_delete_nothing(&self) -> bool {
        self.orphans_listed().is_none()
    }

    /// How many orphans were listed; `None` if the cloud listed what cannot be.
    fn orphans_listed(&self) -> Option<u64> {
        let count = self.again.listed.checked_sub(self.reads.buckets.written())?;
        (count <= self.again.orphans.len() as u64).then_some(count)
    }

    /// A sweep deletes: all that was listed and nothing refers to. If the list cannot be true the
    /// cloud has chosen the names, but none that counts.
    pub fn sweep(&mut self, names: &[ChunkName], at: Nanos) -> Step {
        self.pace.further(at)?;
        let Some(count) = self.orphans_listed() else {
            if let Some(name) = names.iter().find(|name| self.counts(name)) {
                let seen = format!("delete {name:x?}");
                return fault("superseded-deleted", "nothing that counts", seen);
            }
            self.again.deleting = names.iter().map(|name| (name.chunk, name.version)).collect();
            return Ok(());
        };
        let known = |name: &ChunkName| {
            let orphan = self.again.orphans.contains(&(name.chunk, name.version));
            name.array.0 == self.config.array && orphan
        };
        let expected =
            || format!("a deletion of {count} versions that nothing refers to, in order");
        if let Some(name) = names.iter().find(|name| !known(name)) {
            return fault("superseded-deleted", expected(), format!("delete {name:x?}"));
        }
        if names.len() as u64 != count || !names.is_sorted_by(|a, b| a < b) {
            let seen = format!("{} versions, {names:x?}", names.len());
            return fault("superseded-deleted", expected(), shortened(seen));
        }
        self.again.deleting = self.again.orphans.iter().copied().collect();
        Ok(())
    }

    fn counts(&self, name: &ChunkName) -> bool {
        let bucket = self.reads.buckets.get(name.chunk);
        name.array.0 == self.config.array && bucket.is_some_and(|b| b.version == name.version)
    }
}

fn words(request: &Request) -> String {
    shortened(format!("{request:x?}"))
}

fn shortened(mut words: String) -> String {
    words.truncate(WORDS_MAX);
    words
}

/// Longer messages are not written out: all of it is ASCII.
const WORDS_MAX: usize = 400;
