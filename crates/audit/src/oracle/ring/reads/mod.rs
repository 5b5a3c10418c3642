//! What the read batches and the write batch of an epoch may ask for, entry by entry.
//!
//! The trace does not name the leaves; they follow from what is shown, see [`super`]. An entry of
//! one cell belongs to a path, one of Z cells retires a bucket. Entries of Z cells have to be those
//! that are *due*: of an eviction, of a reshuffle, or fetched ahead. If none is due yet, the next
//! eviction that shows anything is brought about by as many paths as it takes that show nothing.

mod due;

use std::collections::VecDeque;

use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_store::trace::ChunkCells;

use self::due::Due;
use super::buckets::{Bucket, Buckets};
use super::fault::{Step, Summary, fault};
use crate::{Observation, Observer};

/// A chunk version and the cells asked of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub chunk: u32,
    pub version: u64,
    pub cells: &'a [u16],
}

/// Which message a path stands in, for the observers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Where {
    pub epoch: u64,
    /// The running number of the read batch.
    pub batch: u64,
}

/// The accesses of the open epoch and the buckets they leave behind.
pub(super) struct Reads {
    pub buckets: Buckets,
    evict_every: u64,
    /// Accesses, evictions and the like so far.
    pub tally: Summary,
    /// Accesses of the open batch that are still to come.
    left: u64,
    /// The same before the open message.
    left_before: u64,
    /// Whether the accesses of the open batch read paths.
    paths: bool,
    /// Paths of the open batch that were shown.
    shown: u64,
    /// The deepest bucket so far of the path that is being read.
    last: Option<u32>,
    /// Buckets that served their S-th read to the last path, from the root, if nothing was read
    /// since.
    full: Vec<u32>,
    due: VecDeque<(u32, Due)>,
    /// Buckets rewritten in the open epoch.
    pub images: Vec<u32>,
    /// Versions that those replace, in the order in which they were retired.
    pub superseded: Vec<(u32, u64)>,
    /// Whether a reshuffle has changed what paths show since the count was exact.
    uncertain: bool,
    /// Counts the points at which it is known how many paths came before.
    stretch: u64,
    random: Stream,
    ranks: Vec<u16>,
    pub place: Where,
}

impl Reads {
    pub fn new(buckets: Buckets, evict_every: u16) -> Self {
        Self {
            buckets,
            evict_every: evict_every.into(),
            tally: Summary::default(),
            left: 0,
            left_before: 0,
            paths: false,
            shown: 0,
            last: None,
            full: Vec::new(),
            due: VecDeque::new(),
            images: Vec::new(),
            superseded: Vec::new(),
            uncertain: false,
            stretch: 0,
            random: completion(0),
            ranks: Vec::new(),
            place: Where::default(),
        }
    }

    /// Another seed for what completes leaves.
    pub fn seed(&mut self, seed: u64) {
        self.random = completion(seed);
    }

    /// A read batch of `accesses` paths begins.
    pub fn begin_paths(&mut self, accesses: u64) {
        (self.left, self.paths, self.shown, self.uncertain) = (accesses, true, 0, false);
        self.tally.read_batches += 1;
        self.stretch += 1;
    }

    /// A write batch of `accesses` slots begins: nothing in it has to be waited for.
    pub fn begin_writes(&mut self, accesses: u64, out: &mut dyn Observer) {
        (self.left, self.paths, self.shown) = (accesses, false, 0);
        while self.left > 0 {
            self.count(out);
        }
    }

    /// Paths of the open batch that were shown so far.
    pub fn shown(&self) -> u64 {
        self.shown + u64::from(self.last.is_some())
    }

    /// Whether nothing has to be read before the next path, and there may be one.
    pub fn is_free(&self) -> bool {
        self.due.is_empty() && self.full.is_empty() && self.paths && self.left > 0
    }

    /// Whether `chunk` is the next bucket of the path that is being read.
    pub fn continues_at(&self, chunk: u32) -> bool {
        let known = self.buckets.get(chunk).is_some();
        self.last.is_some() && known && self.buckets.live_above(chunk) == self.last
    }

    /// Whether a message can be a further one of the open batch, if that has shown all it must.
    pub fn may_go_on(&self, reads: &[ChunkCells]) -> bool {
        let known = |read: &&ChunkCells| self.buckets.get(read.chunk.chunk).is_some();
        let begins = |read: &&ChunkCells| {
            read.cells.len() == 1 && self.buckets.live_above(read.chunk.chunk).is_none()
        };
        let must = self.last.is_some() || !self.due.is_empty() || !self.full.is_empty();
        let paths = reads.iter().filter(known).filter(begins).count() as u64;
        let retires = reads.first().is_some_and(|read| read.cells.len() > 1);
        let due = self.next_visible().map(|(_, chunk)| chunk);
        let fits = !retires || due == reads.first().map(|read| read.chunk.chunk);
        must || (paths <= self.left && fits)
    }

    /// Whether the open batch lacks what it has to show.
    pub fn is_open(&self) -> bool {
        self.last.is_some() || !self.due.is_empty() || !self.full.is_empty() || self.left > 0
    }

    /// The open batch ends: what was not shown are paths that show nothing.
    pub fn finish(&mut self, out: &mut dyn Observer) -> Step {
        self.end_path(out)?;
        self.settle_full();
        self.check_nothing_due()?;
        self.check_may_pass(self.left)?;
        if let Some((_, chunk)) = self.next_visible() {
            return fault("eviction-due", format!("a read of bucket {chunk}"), "the batch ends");
        }
        self.pass(self.left, out)
    }

    fn check_nothing_due(&self) -> Step {
        match self.due.front() {
            None => Ok(()),
            Some((chunk, due)) => {
                fault(due.rule(), format!("a read of bucket {chunk}"), "the batch ends")
            }
        }
    }
}

/// Messages of the open batch.
impl Reads {
    /// What was shown of the open batch is of the next one: `silent` paths that show nothing came
    /// before it, and `accesses` more may come.
    pub fn shift(&mut self, silent: u64, accesses: u64) -> Step {
        self.left += accesses;
        self.tally.read_batches += 1;
        match self.next_visible() {
            Some((before, chunk)) if before < silent => {
                fault("eviction-due", format!("a read of bucket {chunk}"), "a later batch")
            }
            _ => Ok(()),
        }
    }

    /// A message begins.
    pub fn begin_message(&mut self) {
        self.left_before = self.left;
    }

    /// Paths that the open message has shown.
    pub fn shown_by_message(&self) -> u64 {
        self.left_before - self.left
    }

    /// The open message is not a further one of the open batch but the first of the next.
    pub fn split(&mut self, accesses: u64) -> Step {
        self.shift(self.left_before, accesses)?;
        self.left_before += accesses;
        Ok(())
    }

    /// The rest of the open batch shows nothing, so far as it has to.
    pub fn exhaust(&mut self, out: &mut dyn Observer) -> Step {
        self.pass(self.left, out)
    }

    fn stored(&self, entry: &Entry<'_>) -> Step<Bucket> {
        match self.buckets.get(entry.chunk) {
            None => fault("stored-only", "a bucket of the array", named(entry)),
            Some(bucket) if bucket.version == 0 => {
                fault("stored-only", "a bucket that was written", named(entry))
            }
            Some(bucket) => Ok(*bucket),
        }
    }
}

/// Paths.
impl Reads {
    /// One cell of a path.
    pub fn path_cell(&mut self, entry: Entry<'_>, cell: u16, out: &mut dyn Observer) -> Step {
        let bucket = self.stored(&entry)?;
        if bucket.image {
            return fault("image-unread", "no read of a bucket that is rewritten", named(&entry));
        }
        let above = self.buckets.live_above(entry.chunk);
        if self.last.is_none() || above != self.last {
            self.end_path(out)?;
            self.check_path_may_begin(&entry, above)?;
        }
        check_version(bucket.version, &entry)?;
        if bucket.reads >= self.buckets.shape.dummies {
            let most = self.buckets.shape.dummies;
            return fault("reads-per-version", format!("at most {most} reads"), named(&entry));
        }
        let reads = bucket.reads + 1;
        let Some(place) = self.buckets.read(entry.chunk, cell) else {
            return fault("slot-once", "a cell that was not read before", named(&entry));
        };
        self.tally.cells_read += 1;
        self.last = Some(entry.chunk);
        if reads == self.buckets.shape.dummies {
            self.full.push(entry.chunk);
        }
        out.observe(&Observation::PathCell {
            chunk: entry.chunk,
            level: self.buckets.shape.level(entry.chunk),
            version: entry.version,
            nth: place.nth,
            cell,
            unread: place.unread,
            rank: place.rank,
        });
        Ok(())
    }

    fn check_path_may_begin(&self, entry: &Entry<'_>, above: Option<u32>) -> Step {
        if let Some((chunk, due)) = self.due.front() {
            return fault(due.rule(), format!("a read of bucket {chunk}"), named(entry));
        }
        if let Some(chunk) = self.full.last() {
            let again = self.full.contains(&entry.chunk);
            let rule = if again { "reads-per-version" } else { "reshuffle-due" };
            return fault(rule, format!("the reshuffle of bucket {chunk}"), named(entry));
        }
        if let Some(above) = above {
            return fault("path-consistent", format!("bucket {above} before it"), named(entry));
        }
        match (self.paths, self.left) {
            (true, 0) => fault("full-batch", "no further path", named(entry)),
            (true, _) => Ok(()),
            (false, _) => fault("batches-per-epoch", "no path in a write batch", named(entry)),
        }
    }

    /// The path that is being read, if one is, has no further bucket.
    pub fn end_path(&mut self, out: &mut dyn Observer) -> Step {
        let Some(last) = self.last.take() else { return Ok(()) };
        let fitting = self.buckets.open_below(last);
        if fitting == 0 {
            return fault(
                "path-consistent",
                "the path goes on",
                format!("it ends at bucket {last}"),
            );
        }
        let leaf = self.buckets.draw_below(last, &mut self.random);
        self.note_path(leaf, (true, fitting == 1), out);
        self.shown += 1;
        self.count(out);
        Ok(())
    }

    /// `accesses` paths, or slots of a write batch, that show nothing.
    fn pass(&mut self, accesses: u64, out: &mut dyn Observer) -> Step {
        self.check_may_pass(accesses)?;
        for _ in 0..accesses {
            if self.paths {
                let leaf = self.buckets.draw(&mut self.random);
                self.tally.silent_paths += 1;
                self.tally.guessed_paths += u64::from(self.uncertain);
                self.note_path(leaf, (false, false), out);
            }
            self.count(out);
        }
        Ok(())
    }

    /// Whether so many accesses can show nothing.
    fn check_may_pass(&self, accesses: u64) -> Step {
        if self.paths && accesses > 0 && self.buckets.open() == 0 {
            let expected = format!("{accesses} paths more");
            return fault("full-batch", expected, "every path would show something");
        }
        Ok(())
    }

    fn note_path(&mut self, leaf: u32, (shown, whole): (bool, bool), out: &mut dyn Observer) {
        let Where { epoch, batch } = self.place;
        let (access, stretch) = (self.tally.accesses, self.stretch);
        out.observe(&Observation::Path { epoch, batch, access, leaf, whole, shown, stretch });
    }
}

fn check_version(version: u64, entry: &Entry<'_>) -> Step {
    if version == entry.version {
        return Ok(());
    }
    fault("current-version", format!("version {version:#x}"), named(entry))
}

pub(super) fn named(entry: &Entry<'_>) -> String {
    format!("bucket {} version {:#x}", entry.chunk, entry.version)
}

/// The stream that completes leaves: given, so that one trace always gives one result.
fn completion(seed: u64) -> Stream {
    Randomness::repeatable(COMPLETION_SEED).split(seed).stream(Purpose::Padding)
}

const COMPLETION_SEED: u64 = 0x6c65_6176_6573;
