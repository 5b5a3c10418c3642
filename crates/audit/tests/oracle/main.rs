//! The oracle over traces of the real engine, honest ones and spoiled ones.
#![allow(clippy::unwrap_used)] // helpers of tests, too

mod canary;
mod drive;
mod honest;
mod speed;
