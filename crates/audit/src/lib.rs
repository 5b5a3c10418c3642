//! The adversary at the cloud: what can be learned from a trace, and nothing but a trace.
//!
//! 1. [`oracle`]: replays the public state machine of an engine. Fed with the public configuration,
//!    the clock, openings and crashes, it predicts every record; what differs is a [`Breach`].
//! 2. [`statistics`]: what the oracle leaves free (leaves, slots, ciphertexts, times) has to be
//!    distributed as public randomness would be. Every test tells its power.
//! 3. [`distinguish`]: a classifier that is trained to tell two histories apart, and how well it
//!    does on runs that it never saw.
//! 4. [`report`]: findings as text, JSON, and a page for people.
//!
//! This crate knows traces and public configuration. It cannot name a key or an engine: it depends
//! on neither crate, and `scripts/check-edges.sh` holds that.

mod audit;
pub mod distinguish;
mod engine;
mod finding;
mod observation;
pub mod oracle;
pub mod report;
pub mod statistics;
mod whole;

pub use audit::{AuditError, Auditing, Given, Options, audit};
pub use finding::{Breach, Finding, Verdict};
pub use observation::{Observation, Observer};
