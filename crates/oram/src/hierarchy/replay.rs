//! The values of the window: what the log and the results of its places come to.
//!
//! 1. An address that stands in the window has the value it had there; one that does not takes its
//!    base from the result of its place.
//! 2. A write, or a swap that matches, then changes it.
//! 3. At a boundary the values of the epoch that ends are carried; those before it are dropped.
//!
//! # Invariant
//! When an epoch is replayed its values are what table (0, epoch) holds, and stay so until the
//! first place of the epoch after the next.
//!
//! Section 4 of the protocol (module).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::canary::Canary;
use super::schedule::Schedule;
use crate::Access;

/// Values by address, as far as results are there without a gap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replay {
    /// Places replayed.
    length: u64,
    /// At the end of the epoch before that of the last place replayed.
    before: BTreeMap<u32, Bytes>,
    /// Of the epoch of the last place replayed.
    now: BTreeMap<u32, Bytes>,
}

impl Replay {
    /// After `length` places, the last of an epoch, whose values these are.
    pub fn after(length: u64, values: BTreeMap<u32, Bytes>) -> Self {
        Self { length, before: BTreeMap::new(), now: values }
    }

    /// Places replayed so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The next place: what counts of its query, and its base. Returns the block before it, or
    /// `None` if it has no query.
    pub fn next(
        &mut self,
        schedule: &Schedule,
        query: Option<&(u32, Access)>,
        base: &Bytes,
        canary: &Canary,
    ) -> Option<Bytes> {
        if self.length > 0 && self.length.is_multiple_of(schedule.epoch.into()) {
            self.before = std::mem::take(&mut self.now);
            if canary.drops_carry() {
                self.before.clear();
            }
        }
        self.length += 1;
        let (address, access) = query?;
        let known = self.now.get(address).or_else(|| self.before.get(address));
        let value = known.unwrap_or(base).clone();
        let after = match access {
            // It was opened with its entry, and keeps no more than that in memory.
            Access::Write { offset: 0, bytes } if bytes.len() == value.len() => bytes.clone(),
            access => access.applied_to(&value),
        };
        self.now.insert(*address, after);
        Some(value)
    }

    /// All values that it knows, each as it is after the last place replayed.
    pub fn window(&self) -> impl Iterator<Item = (&u32, &Bytes)> {
        let is_newest = |(address, _): &(&u32, &Bytes)| !self.now.contains_key(*address);
        self.before.iter().filter(is_newest).chain(&self.now)
    }

    /// The values of `epoch` at its end, by address: what table (0, epoch) holds. `None` if it is
    /// not replayed yet, or no longer kept.
    pub fn of_epoch(&self, schedule: &Schedule, epoch: u64) -> Option<&BTreeMap<u32, Bytes>> {
        let (end, length) = (schedule.first_of(epoch + 1), u64::from(schedule.epoch));
        if self.length == end {
            Some(&self.now)
        } else if self.length > end && self.length <= end + length {
            Some(&self.before)
        } else {
            None
        }
    }
}
