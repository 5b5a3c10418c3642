//! Measuring: what an engine does, beside the bound of the machine it runs on.

mod bound;
mod engine;

pub use engine::run as run_engine;
