//! The commit of an epoch, as far as the engine sends it: images, a barrier, the deletion of what
//! they replace.

use fogbank_env::Nanos;
use fogbank_store::ChunkName;
use fogbank_store::trace::ChunkSeen;

use super::Epochs;
use crate::oracle::fault::{Step, fault};
use crate::oracle::ring::pace::Cause;
use crate::{Observation, Observer};

/// What of the commit is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::oracle::ring) enum Commit {
    Images,
    Barrier,
    /// In a vault: its turn.
    Durable,
    Delete,
    /// Deletion between two epochs.
    Collect,
}

impl Epochs {
    /// Images are written.
    pub fn write(
        &mut self,
        writes: &[(ChunkName, ChunkSeen)],
        at: Nanos,
        out: &mut dyn Observer,
    ) -> Step {
        self.reach_images(at, out)?;
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
    pub(in crate::oracle::ring) fn version(&self) -> u64 {
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
        self.departed_to_delete(at, cause, out)
    }

    /// Whether `names` are what the images replace, in the order in which it was retired.
    pub(in crate::oracle::ring) fn check_superseded(&self, names: &[ChunkName]) -> Step {
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
            Commit::Barrier if self.is_recorded() => self.commit = Commit::Durable,
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

    pub(in crate::oracle::ring) fn epoch_done(&mut self) {
        self.epoch += 1;
        self.pace.epoch_done();
        self.batch = 0;
        self.written = 0;
        self.committing = false;
        self.reads.images.clear();
        self.commit = Commit::Images;
    }

    /// A message of the commit leaves; what was not seen of the batches before shows nothing.
    fn reach_commit(&mut self, at: Nanos, out: &mut dyn Observer) -> Step<Cause> {
        self.reach_commit_after(0, at, out)
    }

    /// The same where `points` of the grid pass before.
    fn reach_commit_after(
        &mut self,
        points: u32,
        at: Nanos,
        out: &mut dyn Observer,
    ) -> Step<Cause> {
        if self.open {
            self.end_batch(out)?;
        }
        if self.is_recorded() {
            self.check_complete()?;
        }
        while self.batch <= self.config.read_batches {
            self.pass_batch(out)?;
        }
        let first = !std::mem::replace(&mut self.committing, true);
        if first {
            self.begin_commit();
            self.pace.let_pass(points);
        }
        let free = first && self.config.interval_ns == 0;
        if first && !free && self.pace.is_early(at) {
            let seen = format!("it at {at} ns");
            return fault("images-written", "nothing of the commit before its time", seen);
        }
        let cause = if free { self.pace.owners(at)? } else { self.pace.further(at)? };
        self.departed(at, cause, out)?;
        Ok(cause)
    }

    /// The same, of images: some points later, and a few at a time.
    fn reach_images(&mut self, at: Nanos, out: &mut dyn Observer) -> Step {
        if self.committing
            && let Some(cause) = self.lanes.image(&self.pace, at)?
        {
            return self.departed(at, cause, out);
        }
        let cause = self.reach_commit_after(self.config.image_points, at, out)?;
        self.lanes.first_image(at, cause);
        Ok(())
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
    pub(super) fn rule(self) -> &'static str {
        match self {
            Commit::Images => "images-written",
            Commit::Durable => "commit-order",
            Commit::Barrier | Commit::Delete | Commit::Collect => "superseded-deleted",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Commit::Images => "the images of the epoch",
            Commit::Durable => "the delta or the checkpoint of the epoch",
            Commit::Barrier | Commit::Delete | Commit::Collect => {
                "the deletion of what they replace"
            }
        }
    }
}

/// Versions are (opening, tick).
const TICK_BITS: u32 = 40;
