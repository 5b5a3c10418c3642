//! Real clients against the real binary: that it says what Redis says, that the tools people use
//! work with it, and that it comes back after a restart.
//!
//! `scripts/setup-tests.sh` installs what these tests need.
#![allow(clippy::disallowed_methods)] // real processes in real time

mod append_only;
mod cloud;
mod compare;
mod differential;
mod dump;
mod generator;
mod lying_cloud;
mod middle;
mod object_store;
mod python;
mod registers;
#[path = "../../../cloud/tests/relay/mod.rs"]
#[allow(clippy::unwrap_used)] // it is a test of another crate, too
mod relay;
mod resp;
mod restart;
mod rust_client;
mod schedule;
mod server;
mod templates;
mod tools;
