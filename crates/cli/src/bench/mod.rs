//! Measuring: what an engine does, beside the bound of the machine it runs on.

mod app;
pub mod bound;
mod chart;
mod counted;
mod driver;
mod durable;
mod engine;
mod groups;
mod paper;
mod raw;
mod recovery;
mod tao;

#[cfg(test)]
pub use self::{counted::Counted, driver::Driver, durable::Durable};
pub use app::{Ground, Setting, run as run_app};
pub use engine::run as run_engine;
pub use paper::run as run_paper;
pub use recovery::run as run_recovery;
pub use tao::run as run_tao;
