//! Clients that look for anomalies: which transactions they run, from one seed.

pub mod encode;
mod interactive;
mod plan;
mod program;
mod record;

pub use interactive::Script;
pub use plan::{Knobs, Planned, Planner};
pub use program::Scripted;
pub use record::{Attempt, Recorder};
