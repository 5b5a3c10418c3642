//! Position maps: which leaf or partition a block is mapped to, and where it is now.

mod flat;
mod homes;

pub use flat::{FlatPositions, Location};
pub use homes::{Home, POSITION_BYTES, Positions};
