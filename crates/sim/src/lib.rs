//! Whole-proxy checks: what clients may observe, and runs that try to observe something else.

pub mod history;
pub mod model;
