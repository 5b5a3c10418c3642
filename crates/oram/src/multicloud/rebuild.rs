//! The list of a rebuild of the top: of each level its quota of unread cells, all that hold blocks
//! among them, filled up by uniform unread dummies.
//!
//! It follows from the state when the job first begins, and is the same on every attempt. It goes
//! to the holder as marks, in storage order: an order that depended on what is real would tell it.

use fogbank_mix::message::Sources;
use fogbank_mix::{Generation, Marks, Order, Seed};
use fogbank_seal::SeedFor;

use super::chain;
use super::plane::MulticloudPlane;
use crate::{Error, Result};

impl MulticloudPlane {
    /// The list of the rebuild of `partition` that `generation` begins.
    pub(super) fn list(
        &self,
        partition: u16,
        generation: Generation,
        sources: &Sources,
    ) -> Result<Marks> {
        let (shape, count) = (&self.shape, generation.count());
        let mut list = Marks::none(chain::cells(shape, sources) as usize);
        let mut first = 0;
        for source in &sources.0 {
            let held = self.pyramids[usize::from(partition)].level(source.level)?;
            held.reals().for_each(|(cell, _)| list.set(first + cell));
            let mut quota = shape.quota(source.level);
            if shape.refreshes(count) && self.canary.fetches_reals() {
                quota = held.blocks();
            }
            let lacks = quota.checked_sub(held.blocks()).filter(|n| *n <= held.free().count());
            let lacks = lacks.ok_or_else(|| Error::Bug("a quota cannot be met".into()))?;
            let seed = Seed::new(self.keys.seed(SeedFor::List(partition, source.level, count)));
            let order = Order::new(&seed, held.free().count()).list();
            for (_, cell) in order.iter().zip(held.free().iter()).filter(|(at, _)| **at < lacks) {
                list.set(first + cell);
            }
            first += held.cells();
        }
        Ok(list)
    }
}
