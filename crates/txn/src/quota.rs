//! What the writes of an epoch may take, reserved when they are made.
//!
//! Reserving at the write is what keeps the write batch from ever overflowing: at the end of the
//! epoch whatever is settled fits, so the shape needs no exception. A record reserves the most that
//! any of its versions may come to cost; taking a version back (an abort, a vanished client, a
//! savepoint) releases it at once.
//!
//! The eldest waiting program may hold a share that others do not see: that is how a large program
//! gets through when small ones would fill every epoch.
//!
//! What the cloud sees: nothing. A full quota aborts or delays; the batch has its size anyway.

use std::ops::{Add, AddAssign, Sub, SubAssign};

/// What a write costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Need {
    /// Slots of the write batch and of the directory's delta.
    pub slots: usize,
    /// Free addresses.
    pub blocks: usize,
    /// New keys.
    pub keys: usize,
    /// Bytes of new keys.
    pub key_bytes: usize,
}

impl Need {
    /// The most of both, in each part.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            slots: self.slots.max(other.slots),
            blocks: self.blocks.max(other.blocks),
            keys: self.keys.max(other.keys),
            key_bytes: self.key_bytes.max(other.key_bytes),
        }
    }

    fn within(&self, limit: &Self) -> bool {
        self.blocks <= limit.blocks && self.keys <= limit.keys && self.key_bytes <= limit.key_bytes
    }
}

impl Add for Need {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            slots: self.slots + other.slots,
            blocks: self.blocks + other.blocks,
            keys: self.keys + other.keys,
            key_bytes: self.key_bytes + other.key_bytes,
        }
    }
}

impl Sub for Need {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            slots: self.slots.saturating_sub(other.slots),
            blocks: self.blocks.saturating_sub(other.blocks),
            keys: self.keys.saturating_sub(other.keys),
            key_bytes: self.key_bytes.saturating_sub(other.key_bytes),
        }
    }
}

impl AddAssign for Need {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Need {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
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
    limit: Need,
    used: Need,
    held_for_eldest: usize,
    /// Addresses that become free in a later epoch.
    blocks_pending: usize,
}

impl Quota {
    /// The account of an epoch that opens with `limit`.
    pub(crate) fn new(limit: Need, blocks_pending: usize) -> Self {
        Self { limit, used: Need::default(), held_for_eldest: 0, blocks_pending }
    }

    /// Whether `more` fits for a writer; the eldest program may use what is held for it.
    pub(crate) fn judge(&self, more: Need, eldest: bool) -> Verdict {
        let held = if eldest { 0 } else { self.held_for_eldest };
        let total = self.used + more;
        let grows = more.blocks + more.keys > 0;
        if grows && !total.within(&self.limit) {
            // Addresses on their way back make it a matter of time.
            let later = Need { blocks: self.limit.blocks + self.blocks_pending, ..self.limit };
            return if total.within(&later) { Verdict::NotNow } else { Verdict::NoSpace };
        }
        if total.slots + held > self.limit.slots { Verdict::NotNow } else { Verdict::Fits }
    }

    /// Addresses have become free.
    pub(crate) fn set_space(&mut self, limit: Need, blocks_pending: usize) {
        self.limit = limit;
        self.blocks_pending = blocks_pending;
    }

    /// Reserves.
    pub(crate) fn take(&mut self, need: Need) {
        self.used += need;
    }

    /// Releases.
    pub(crate) fn release(&mut self, need: Need) {
        self.used -= need;
    }

    /// Holds `slots` back for the eldest program, at most all.
    pub(crate) fn hold_for_eldest(&mut self, slots: usize) {
        self.held_for_eldest = slots.min(self.limit.slots);
    }

    /// Whether `slots` of a program that is not the eldest are out of reach.
    pub(crate) fn is_short_of(&self, slots: usize) -> bool {
        self.used.slots + self.held_for_eldest + slots > self.limit.slots
    }
}
