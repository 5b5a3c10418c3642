//! The transaction layer over a map that checks the engine's contract, in virtual time.
#![allow(clippy::unwrap_used)] // helpers of tests, too

mod busy;
mod forgetting;
mod gathering;
mod interactive;
mod isolation;
mod observing;
mod overflow;
mod programs;
mod records;
mod room;
mod shape;
mod staging;
mod support;
mod ticker;
mod uptime;
