//! After a stop: the journal says what was, without I/O, and what was under way is done again.
//!
//! 1. Every entry counts as it did in life, and is forgotten: the journal may be longer than
//!    memory.
//! 2. The last commit of every partition is told again: both clouds may have missed it. It means
//!    nothing to whoever heard it. Where reads are under way that departed before, it is told when
//!    they have ended: they name what goes then.
//! 3. Every access without a result is repeated as it was: the same cells in the same order under
//!    the same pads, the same index.
//! 4. Every job without a commit begins again under the next attempt: the same list and what is
//!    left of the same blocks, but every seed is new.
//!
//! The same when a cloud has started again: it may have forgotten all that is not durable.

use std::sync::Arc;

use fogbank_env::Randomness;
use fogbank_seal::SplitKeys;

use super::canary::Canary;
use super::journal::Entry;
use super::plane::{Effect, MulticloudPlane};
use super::settings::MulticloudSettings;
use crate::{Result, Section};

impl MulticloudPlane {
    /// The client of this opening after a checkpoint, if there is one. It has to
    /// [take](Self::replay) what the journal says since, and then to [repeat](Self::repeat) what
    /// was under way.
    ///
    /// The randomness has to be fresh: what was drawn stands in the journal.
    ///
    /// # Errors
    /// As [`MulticloudPlane::new`]; [`crate::Error::Bug`] if the checkpoint contradicts itself.
    pub(super) fn recover(
        canary: Canary,
        settings: MulticloudSettings,
        (keys, random): (Arc<SplitKeys>, &Randomness),
        (sections, opening): (Vec<Section>, u32),
    ) -> Result<Self> {
        let mut plane = Self::new(settings, keys, random)?;
        plane.canary = canary;
        if !sections.is_empty() {
            plane.restore(sections, opening)?;
        }
        Ok(plane)
    }

    /// What the next entry of the journal says.
    ///
    /// # Errors
    /// [`crate::Error::Bug`] if it contradicts what was before.
    pub(super) fn replay(&mut self, entry: Entry) -> Result<()> {
        match entry {
            Entry::Access(entry) => {
                entry.block.into_iter().for_each(|b| *self.asked.entry(b).or_insert(0) += 1);
                self.access_departs(entry)
            }
            Entry::Result(number, value) => self.access_ends(number, value),
            Entry::Job(entry) => self.job_begins(entry),
            Entry::Commit(partition, generation) => self.job_is_done(partition, generation),
        }
    }

    /// Does again what was under way: after a recovery, or when a cloud has started again.
    ///
    /// # Errors
    /// As for any step.
    pub fn repeat(&mut self) -> Result<Vec<Effect>> {
        if let Some(asks) = self.ask_again() {
            return Ok(vec![asks]);
        }
        self.step(|plane, out| {
            plane.untold.clear();
            for partition in plane.shape.all() {
                match plane.pyramids[usize::from(partition)].old_reads {
                    0 => plane.tell_commit(partition, out),
                    _ => plane.untold.push(partition),
                }
            }
            // What came of one session is not held against what comes of another.
            let turns = plane.canary.repeats_otherwise();
            plane.accesses.iter_mut().for_each(|access| access.forget(turns));
            (0..plane.accesses.len()).for_each(|at| plane.ask_for_cells(at, out));
            plane.stored.clear();
            plane.shape.all().try_for_each(|partition| plane.begin_again(partition, out))
        })
    }
}
