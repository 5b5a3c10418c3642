//! Whole-proxy checks: what clients may observe, and runs that try to observe something else.

mod client;
pub mod driver;
pub mod history;
#[cfg(feature = "canaries")]
pub mod lives;
pub mod memory;
pub mod model;
#[cfg(feature = "canaries")]
pub mod scene;
pub mod workload;
