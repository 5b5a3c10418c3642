//! What one cloud does for the other in `multicloud`, without a key of any user.
//!
//! Two clouds that do not collude shuffle for each other. For one half of the partitions the first
//! is the *holder* (S1), which stores cells and reads them out, and the second the *shuffler* (S2),
//! which puts them into a secret order; for the other half it is the other way round.
//!
//! | module | one line |
//! |---|---|
//! | [`Cells`] | equal cells in one buffer |
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
mod order;
mod pad;
mod sum;

pub use cells::Cells;
pub use order::Order;
pub use pad::{Pads, Seed};
pub use sum::{About, Point, Sum, digest};
