//! What the writes of an epoch may take, reserved when they are made.
//!
//! Reserving at the write is what keeps the write batch from ever overflowing: at the end of the
//! epoch whatever is settled fits, so the shape needs no exception. A record reserves the most that
//! any of its versions may come to cost; taking a version back (an abort, a vanished client, a
//! savepoint) releases it at once.
//!
//! A little room is held back for records whose writing lets others go (a flush, the deletion of a
//! large collection, a deadline): otherwise a full store could not be emptied, or not at once.
//!
//! The eldest waiting program may hold a share that others do not see: that is how a large program
//! gets through when small ones would fill every epoch.
//!
//! What the cloud sees: nothing. A full quota aborts or delays; the batch has its size anyway.

use std::ops::{Add, AddAssign, Sub, SubAssign};

use crate::error::Lack;

/// What a write costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Demand {
    /// Bytes of the directory's delta, in which a block of the write batch is a slot.
    pub bytes: usize,
    /// Free addresses.
    pub blocks: usize,
    /// New keys.
    pub keys: usize,
    /// Bytes of new keys.
    pub key_bytes: usize,
}

impl Demand {
    /// The most of both, in each part.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            blocks: self.blocks.max(other.blocks),
            keys: self.keys.max(other.keys),
            key_bytes: self.key_bytes.max(other.key_bytes),
        }
    }

    fn grows(&self) -> bool {
        self.blocks + self.keys + self.key_bytes > 0
    }

    fn within(&self, limit: &Self) -> bool {
        self.blocks <= limit.blocks && self.keys <= limit.keys && self.key_bytes <= limit.key_bytes
    }
}

impl Add for Demand {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            blocks: self.blocks + other.blocks,
            keys: self.keys + other.keys,
            key_bytes: self.key_bytes + other.key_bytes,
        }
    }
}

impl Sub for Demand {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            blocks: self.blocks.saturating_sub(other.blocks),
            keys: self.keys.saturating_sub(other.keys),
            key_bytes: self.key_bytes.saturating_sub(other.key_bytes),
        }
    }
}

impl AddAssign for Demand {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Demand {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// What is held back, in a store of `capacity`, for records that make room. They have no value.
pub(crate) fn held_back(capacity: usize, key_budget_bytes: usize) -> Demand {
    let keys = (capacity / HELD_BACK_SHARE).clamp(1, HELD_BACK_MAX).min(capacity.saturating_sub(1));
    Demand { keys, key_bytes: keys.saturating_mul(key_budget_bytes), ..Demand::default() }
}

/// The capacity of a store that can be filled with `records` of one block each.
pub(crate) fn capacity_for(records: u32) -> u32 {
    let more = records.div_ceil(HELD_BACK_SHARE as u32 - 1).clamp(1, HELD_BACK_MAX as u32);
    records.saturating_add(more)
}

/// One key of so many is held back, one at least, up to a number.
const HELD_BACK_SHARE: usize = 16;
const HELD_BACK_MAX: usize = 64;

/// What a writer wants more than it has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Claim {
    /// All of it.
    pub more: Demand,
    /// What of it is for records that make room.
    pub making_room: Demand,
    /// Whether it is the eldest program, which may use what is held for it.
    pub eldest: bool,
}

/// Whether a write fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does.
    Fits,
    /// Not in this epoch.
    NotNow,
    /// The store is full.
    NoSpace,
}

/// The account of one epoch.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    limit: Demand,
    held_back: Demand,
    used: Demand,
    held_for_eldest: usize,
    /// Addresses that become free in a later epoch.
    blocks_pending: usize,
}

impl Quota {
    /// The account of an epoch that opens with `limit`, of which all that make no room leave
    /// `held_back`.
    pub(crate) fn new(limit: Demand, held_back: Demand, blocks_pending: usize) -> Self {
        let (used, held_for_eldest) = (Demand::default(), 0);
        Self { limit, held_back, used, held_for_eldest, blocks_pending }
    }

    /// Whether what is claimed fits.
    pub(crate) fn judge(&self, claim: Claim) -> Verdict {
        let held = if claim.eldest { 0 } else { self.held_for_eldest };
        let total = self.used + claim.more;
        if !self.has_space(&claim, self.limit) {
            // Addresses on their way back make it a matter of time.
            let later = Demand { blocks: self.limit.blocks + self.blocks_pending, ..self.limit };
            let later = self.has_space(&claim, later);
            return if later { Verdict::NotNow } else { Verdict::NoSpace };
        }
        if total.bytes + held > self.limit.bytes { Verdict::NotNow } else { Verdict::Fits }
    }

    /// What there is no room for of what is claimed.
    pub(crate) fn lack(&self, claim: Claim) -> Lack {
        let others = claim.more - claim.making_room;
        let of_all = self.used + claim.more - self.limit;
        let of_others = self.used + others - (self.limit - self.held_back);
        let Demand { blocks, keys, key_bytes, .. } = of_all.max(of_others);
        Lack { blocks, records: keys, key_bytes, is_staged: false }
    }

    fn has_space(&self, claim: &Claim, limit: Demand) -> bool {
        let others = claim.more - claim.making_room;
        let within = |need: Demand, limit| !need.grows() || (self.used + need).within(&limit);
        within(claim.more, limit) && within(others, limit - self.held_back)
    }

    /// Addresses have become free.
    pub(crate) fn set_space(&mut self, limit: Demand, blocks_pending: usize) {
        self.limit = limit;
        self.blocks_pending = blocks_pending;
    }

    /// Reserves.
    pub(crate) fn take(&mut self, need: Demand) {
        self.used += need;
    }

    /// Releases.
    pub(crate) fn release(&mut self, need: Demand) {
        self.used -= need;
    }

    /// Bytes of the delta that are taken.
    pub(crate) fn bytes_used(&self) -> usize {
        self.used.bytes
    }

    /// Bytes of the delta that nobody has taken.
    pub(crate) fn bytes_left(&self) -> usize {
        self.limit.bytes.saturating_sub(self.used.bytes)
    }

    /// Holds `bytes` of the delta back for the eldest program, at most all.
    pub(crate) fn hold_for_eldest(&mut self, bytes: usize) {
        self.held_for_eldest = bytes.min(self.limit.bytes);
    }

    /// Whether `bytes` of a program that is not the eldest are out of reach.
    pub(crate) fn is_short_of(&self, bytes: usize) -> bool {
        self.used.bytes + self.held_for_eldest + bytes > self.limit.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capacity_for_records_leaves_what_is_held_back() {
        for records in (0..3_000).chain([1 << 20, (1 << 31) + 7]) {
            let room = |capacity: u32| {
                let capacity = capacity as usize;
                capacity.saturating_sub(held_back(capacity, 0).keys) >= records as usize
            };
            let capacity = capacity_for(records);
            assert!(room(capacity), "{records}");
            assert!(capacity - records < 2 || !room(capacity - 2), "{records} in {capacity}");
        }
    }
}
