//! Orders: every access gives its partition one, and every fourth access gives one to the next
//! partition in turn. They are carried out by jobs, several at once if several wait.
//!
//! A job is due by durable orders only: if those of a record that is then lost counted, the next
//! record would show by its jobs which partition the lost access had asked (protocol, section 1.9).
//! Orders that touch only levels of the proxy need no job.

use super::codec::Asked;
use super::journal::{Commit, Part};
use super::plane::PartitionPlane;
use super::reader::AccessPart;
use crate::{Error, Result};

/// What a record brings about when it counts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Effects {
    /// Jobs that are done.
    pub commits: Vec<Commit>,
    /// The partitions that get an order.
    pub orders: Vec<u32>,
}

impl Effects {
    /// Of the record of these parts.
    pub fn of(parts: &[Part]) -> Self {
        let mut effects = Self::default();
        for part in parts {
            match part {
                Part::Commit(commit) => effects.commits.push(*commit),
                Part::Job(_) => {}
                Part::Access(access) => {
                    effects.orders.extend([Some(access.partition), access.also].iter().flatten());
                }
            }
        }
        effects
    }
}

impl PartitionPlane {
    /// The orders that an access to `partition` gives; the second partition, if there is one.
    pub(super) fn give_orders(&mut self, partition: u32) -> Option<u32> {
        self.give(partition);
        let also = self.turn.of_access(self.layout.partitions);
        also.into_iter().for_each(|also| self.give(also));
        also
    }

    fn give(&mut self, partition: u32) {
        self.pyramids[partition as usize].given += 1;
        self.open_orders += 1;
    }

    /// Whoever keeps a trace learns which accesses of a message that leaves now read nothing.
    pub fn tell_silent(&self, asked: &Asked) {
        let (Some(silent), Asked::Accesses(parts)) = (&self.silent, asked) else { return };
        let is_told = |part: &AccessPart| !(part.is_duplicate && self.canary.omits_duplicates());
        for (nth, part) in (0..).zip(parts) {
            if part.cells.is_empty() && is_told(part) {
                silent(nth, part.partition);
            }
        }
    }

    /// The oldest record that does not count yet does.
    ///
    /// # Errors
    /// As for [`PartitionPlane::commit`].
    pub fn count_oldest(&mut self) -> Result<()> {
        let effects = self.uncounted.pop_front();
        self.take_effect(effects.ok_or_else(|| Error::Bug("no record counts".into()))?)
    }

    /// A record and all records before it are durable: its commits take effect, its orders count.
    ///
    /// # Errors
    /// As for [`PartitionPlane::commit`].
    pub fn take_effect(&mut self, effects: Effects) -> Result<()> {
        let Effects { commits, orders } = effects;
        commits.into_iter().try_for_each(|commit| self.commit(commit))?;
        self.orders_are_durable(&orders);
        Ok(())
    }

    /// These partitions have an order each that counts.
    pub fn orders_are_durable(&mut self, partitions: &[u32]) {
        for partition in partitions {
            self.pyramids[*partition as usize].sure += 1;
            self.settle(*partition);
        }
    }

    /// Carries out what stays within the proxy, and queues the partition if it needs a job.
    pub(super) fn settle(&mut self, partition: u32) {
        let pyramid = &mut self.pyramids[partition as usize];
        self.open_orders -= pyramid.settle(&self.layout);
        if pyramid.may_begin(&self.layout) && !pyramid.is_ready {
            pyramid.is_ready = true;
            self.ready.push_back(partition);
        }
    }
}
