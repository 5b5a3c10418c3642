//! What one cloud does for the other in `multicloud`, without a key of any user.
//!
//! Two clouds that do not collude shuffle for each other. For one half of the partitions the first
//! is the *holder* (S1), which stores cells and reads them out, and the second the *shuffler* (S2),
//! which puts them into a secret order; for the other half it is the other way round. A
//! message goes in, messages come out; the holder keeps its levels in a store.
//!
//! | module | one line |
//! |---|---|
//! | [`Shape`] | the public arithmetic of levels and jobs |
//! | [`message`] | every message, byte for byte |
//! | [`Holder`] | stores levels, reads cells out under pads |
//! | `shelf` | where its levels lie in a store |
//! | [`Shuffler`] | makes levels, passes one cell of a read on |
//! | [`KeptShelf`], [`KeptRoom`] | where a shuffler keeps levels: in its store, or in memory |
//! | `reads` | what is known of reads at a shuffler |
//! | [`session`] | what a client and a cloud have with each other while a link holds |
//! | `seen` | how far a client's journal had gone, as this cloud has seen it |
//! | [`signed`] | signatures under what one cloud sends the other |
//! | [`traced`] | what comes to a cloud, as records of a trace |
//! | [`server`] | a cloud: both roles, over a store and beside the other cloud |
//! | [`Cells`], [`Marks`] | equal cells in one buffer, a bit for each |
//! | [`Pads`] | what covers a cell on its way, and at rest: from a seed |
//! | [`Order`] | the secret order of a level: from a seed, one place at a time or all |
//! | [`Point`] | sums of cells that the client compares, and digests of them |
//!
//! # What a cloud learns here
//!
//! Seeds that the client gives it, each for one purpose, and a point of its own. Whoever has a seed
//! makes every pad, or the whole order, of it: so the holder is given none of an order, and the
//! shuffler none of what covers a cell on its way from the holder.

mod cells;
mod holder;
mod kept;
mod marks;
pub mod message;
mod order;
mod pad;
mod reads;
mod seen;
pub mod server;
pub mod session;
mod shape;
mod shelf;
mod shuffler;
pub mod signed;
mod sum;
pub mod traced;
mod wire;

#[cfg(test)]
mod tests;

pub use cells::Cells;
pub use holder::{Holder, HolderSends};
pub use kept::{KeptLevel, KeptRoom, KeptShelf, ToStore};
pub use marks::Marks;
pub use order::Order;
pub use pad::{Pads, Seed};
pub use shape::{Generation, PARTITIONS_MAX, Shape};
pub use shelf::Shelved;
pub use shuffler::{Elsewhere, Shuffler, ShufflerSends};
pub use sum::{About, Point, Sum, digest};

/// Errors of a cloud, by blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The client asks for what it cannot have.
    #[error("wrong use: {0}")]
    Client(&'static str),
    /// The client asks for what this cloud has acknowledged, and it is not here: it was lost, or
    /// what was here before was put back.
    #[error("it lacks what it has acknowledged: that was lost, or an older state put back: {0}")]
    Lacks(&'static str),
    /// Whoever is at the other end of a link sent what does not fit.
    #[error("the other side does not keep to the protocol: {0}")]
    Other(&'static str),
    /// What has to be kept cannot be now: what it is kept in does not answer, or is full.
    #[error("what the cloud keeps its cells in: {0}")]
    Absent(String),
    /// What has to be kept may not be: its operator has to allow it.
    #[error("what the cloud keeps its cells in: {0}")]
    Refused(String),
    /// What was kept is not there any more, or is something else.
    #[error("what the cloud keeps its cells in: {0}")]
    Lost(String),
    /// An invariant of ours does not hold.
    #[error("internal fault: {0}")]
    Bug(&'static str),
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;
