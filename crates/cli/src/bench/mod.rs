//! Measuring: what an engine does, beside the bound of the machine it runs on.

mod bound;
mod engine;
mod raw;

pub use engine::run as run_engine;
