//! A server and its clients over real sockets and real TLS.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod bucket;
mod crowd;
mod fixture;
#[path = "../../../peer/tests/hand_clock/mod.rs"]
mod hand_clock;
mod honest;
mod hostile;
mod liar;
mod log;
mod mixing;
#[path = "../../../objects/tests/server/mod.rs"]
mod object_server;
mod raw;
#[path = "../relay/mod.rs"]
mod relay;
