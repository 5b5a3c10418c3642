//! Leaks made on purpose, so that whoever looks for leaks can be shown one.
//!
//! An honest rule of an engine that a canary may break asks [`Canary`] for its bound or its order. In
//! what ships `Canary` has no size and answers with the honest value at compile time; nothing of a
//! leak is left in the code. Under the feature `canaries`, which is for tests alone and which
//! `scripts/check-edges.sh` keeps out of the binary, an engine can be told to leak one thing.

#[cfg(not(feature = "canaries"))]
mod off;
#[cfg(feature = "canaries")]
mod on;
mod tao;

#[cfg(not(feature = "canaries"))]
pub(crate) use tao::TaoCanary;
#[cfg(feature = "canaries")]
pub use tao::{TaoCanary, TaoLeak};

#[cfg(not(feature = "canaries"))]
pub(crate) use off::{Canary, Trust};
#[cfg(feature = "canaries")]
pub use on::Canary;
#[cfg(feature = "canaries")]
pub(crate) use on::Trust;

/// What an engine leaks. Each names the rule it breaks.
#[cfg(feature = "canaries")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leak {
    /// A block that an eviction has left in the stash is served from there, and a uniform path read
    /// in place of its own. What was left could not go on the path evicted last, so the leaves that
    /// are still read lean towards it. Rule: a path read never depends on the stash. (The value is
    /// not delivered: for runs of the engine alone.)
    ResidueSkipsRead,
    /// The read that retires a bucket names the slots of its blocks first, then the dummies.
    /// Rule: by rising slot, whatever is in them.
    RealsFirst,
    /// A block that is written goes back to the leaf that its last read has shown, so that the next
    /// read repeats it. Rule: every write maps to a fresh leaf.
    NoRemapOnWrite,
    /// A bucket serves S + 1 reads where it has a dummy to spare. Rule: S.
    OneReadMore,
    /// A bucket is reshuffled after S - 1 reads. Rule: S.
    OneReadLess,
    /// All versions of a bucket have the same order of slots. Rule: a fresh one each.
    ReusedOrder,
    /// Dummies are read by rising slot. Rule: in the secret order.
    DummiesInOrder,
    /// That a dummy was read is forgotten, and its slot is read again. Rule: a slot once a version.
    SlotForgotten,
    /// Leaves are the low bits of a linear congruential generator. Rule: randomness fit for keys.
    CongruentialLeaves,
    /// Leaves are drawn modulo a number that their own does not divide. Rule: uniform.
    ModuloLeaves,
    /// An address that holds nothing reads no path. Rule: as many paths as the batch has slots.
    AbsentSkipsRead,
    /// Two requests for one address in a batch read the same path twice. Rule: distinct addresses.
    DuplicatesRead,
    /// The second request for an address in a batch is left out, not made a dummy. Rule: as many
    /// paths as the batch has slots.
    DuplicatesOmitted,
    /// A write batch counts as many accesses as it has writes. Rule: its fixed size.
    UnpaddedWrites,
    /// Dummies are used unverified. Rule: every cell is verified before any is used.
    DummiesUnverified,
    /// What is left of an XORed path on which nothing was sought is not compared with zero.
    /// Rule: every path is verified.
    XorUnchecked,
}
