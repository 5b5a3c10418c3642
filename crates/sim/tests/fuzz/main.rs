//! Fuzzing on stable Rust: what comes from outside is parsed or refused, never a panic.
//!
//! Each target runs for `FOGBANK_FUZZ_SECONDS` (20 unless set). A failure prints the seed that
//! repeats it (`BOLERO_RANDOM_SEED`) and a reduced input. Inputs that once failed are kept as
//! seeds in the target's file.

mod cells;
mod disks;
mod mutate;
mod requests;
mod storage;

use std::time::Duration;

/// How long each target runs.
fn duration() -> Duration {
    let seconds = std::env::var("FOGBANK_FUZZ_SECONDS");
    Duration::from_secs(seconds.map_or(20, |text| text.parse().expect("FOGBANK_FUZZ_SECONDS")))
}
