//! Measuring: what an engine does, beside the bound of the machine it runs on.

mod bound;
mod driver;
mod durable;
mod engine;
mod raw;
mod recovery;

pub use engine::run as run_engine;
pub use recovery::run as run_recovery;
