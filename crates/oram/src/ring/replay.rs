//! Committed epochs again, from their deltas: no I/O, no payloads but those of the stash.
//!
//! 1. Every slot of the access log is planned as it was, with the fresh leaf that the log gives.
//! 2. The images that come of it become the stored buckets, under the version that the delta names.
//!    The order of their slots follows from the key of that opening, place and tick.
//! 3. The blocks that the epoch left in the stash get their values.
//! 4. The counters, and the list of those blocks, have to be what the delta says.
//!
//! It runs before anything of the open epoch is repeated (`journal`).

use fogbank_env::compute;
use fogbank_seal::KeyRing;
use rayon::prelude::*;

use super::RingEngine;
use super::bucket::mark;
use super::delta::{Batch, Delta, End, ReadSlot, WriteSlot, entered};
use super::plan::{Planner, Request};
use crate::checkpoint::inconsistent;
use crate::geometry::version;
use crate::{Error, Result, Section};

impl RingEngine {
    /// See [`crate::RecoverableEngine::replay_epoch`].
    pub(super) fn repeat_epoch(&mut self, delta: &[Section]) -> Result<()> {
        if self.batches != 0 || !self.planner.images.is_empty() || self.epoch_is_logged() {
            return Err(Error::Caller("an epoch can be replayed between epochs only".into()));
        }
        let delta = Delta::decode(&self.planner.geometry, delta)?;
        if delta.end.opening >= self.keys.current().0 {
            return Err(Error::Caller("an epoch is replayed in a later opening only".into()));
        }
        self.begin()?;
        let result = compute(|| self.replay_decoded(&delta));
        self.finish(result)
    }

    fn epoch_is_logged(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.is_empty())
    }

    fn replay_decoded(&mut self, delta: &Delta<'_>) -> Result<()> {
        let tally = self.planner.tally;
        self.planner.replaying = true;
        for batch in &delta.batches {
            match batch {
                Batch::Reads(slots) => self.replay_reads(slots)?,
                Batch::Writes(slots) => self.replay_writes(slots)?,
            }
            self.planner.release_retired();
        }
        self.planner.replaying = false;
        self.planner.tally = tally; // nothing of it was seen in this opening
        self.batches = 0;
        self.settle_again(delta.end)?;
        self.fill_entered(delta)?;
        if self.end(delta.end.opening) != delta.end || self.planner.displaced != 0 {
            return Err(inconsistent());
        }
        Ok(())
    }

    fn replay_reads(&mut self, slots: &[ReadSlot]) -> Result<()> {
        self.batches += 1;
        for slot in slots {
            self.planner.forced_leaf = slot.fresh;
            let request = Request { block: slot.block, leaf: slot.leaf, reply: u32::MAX };
            let found = self.planner.access(&request).is_some();
            if found != slot.fresh.is_some() {
                return Err(inconsistent());
            }
        }
        self.prefetch_if_last();
        Ok(())
    }

    fn replay_writes(&mut self, slots: &[WriteSlot]) -> Result<()> {
        for slot in slots {
            match (slot.block, slot.fresh) {
                (mark::DUMMY, None) => {}
                (mark::DUMMY, Some(_)) => return Err(inconsistent()),
                (block, None) => self.planner.forget(block),
                (block, fresh) => {
                    let payload = self.planner.handles.claim();
                    self.planner.forced_leaf = fresh;
                    self.planner.put(block, payload);
                }
            }
            self.planner.count_access();
        }
        Ok(())
    }

    /// Makes the images the stored buckets again.
    fn settle_again(&mut self, end: End) -> Result<()> {
        let images = self.planner.images.by_chunk();
        if !images.is_empty() {
            self.tick += 1;
            let orders = draw_orders(&self.planner, &self.keys, &images, end)?;
            self.planner.settle(version(end.opening, end.tick), &images, &orders);
        }
        self.planner.superseded.clear();
        Ok(())
    }

    /// Fills the payloads of the blocks that the epoch left in the stash.
    fn fill_entered(&mut self, delta: &Delta<'_>) -> Result<()> {
        let held = entered(&self.planner, &delta.batches);
        if !held.iter().map(|held| held.block).eq(delta.entered.iter().map(|(block, _)| *block)) {
            return Err(inconsistent());
        }
        for (held, (block, value)) in held.iter().zip(&delta.entered) {
            self.slab.fill(held.payload, *block, value);
        }
        Ok(())
    }
}

/// The order of the slots of every image as it was drawn when the image was written.
fn draw_orders(planner: &Planner, keys: &KeyRing, images: &[u32], end: End) -> Result<Vec<u16>> {
    let Some(keys) = keys.of(end.opening) else {
        return Err(Error::Bug("a delta names an opening without a key".into()));
    };
    let (slots, array) = (usize::from(planner.geometry.bucket.slots()), planner.array.0 as u8);
    let mut orders = vec![0; images.len() * slots];
    images.par_iter().zip(orders.par_chunks_mut(slots)).for_each(|(image, order)| {
        keys.permutation().order(array, planner.images.chunk(*image), end.tick, order);
    });
    Ok(orders)
}
