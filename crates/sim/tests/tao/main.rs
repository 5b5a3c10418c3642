//! The auditor over traces of `tao`: exact where the trace is predicted, silent where nothing
//! leaks, and loud by the right name where something does.
#![allow(clippy::unwrap_used)] // helpers of tests, too

mod canaries;
mod directions;
mod exact;
mod histories;
mod lives;
mod operations;

#[path = "../volumes/mod.rs"]
mod volumes;
