//! The auditor over traces of `partition`: exact where the trace is predicted, silent where nothing
//! leaks, and loud by the right name where something does.
#![allow(clippy::unwrap_used)] // helpers of tests, too

mod canaries;
#[path = "../changes/mod.rs"]
mod changes;
mod exact;
mod histories;
mod lives;
mod messages;
mod rules;
mod simulated;
mod spoiled;
#[path = "../volumes/mod.rs"]
mod volumes;
