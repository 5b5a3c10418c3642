//! Position maps: which leaf a block is mapped to, and where it is now.

mod flat;

pub use flat::{FlatPositions, Location};
