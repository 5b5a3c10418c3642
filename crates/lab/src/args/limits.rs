//! What the numbers of a measurement may be.

use std::ops::RangeInclusive;

pub use fogbank::limits::*;

/// Seconds that are measured: a day at the most.
pub const SECONDS: RangeInclusive<f64> = 0.001..=86_400.0;
/// Seconds that are not.
pub const RAMP: RangeInclusive<f64> = 0.0..=86_400.0;
/// Times that something is measured.
pub const ROUNDS: RangeInclusive<usize> = 1..=1_000;
/// Clients of an application.
pub const CLIENTS: RangeInclusive<usize> = 1..=100_000;
/// Clients of a volume.
pub const VOLUME_CLIENTS: RangeInclusive<usize> = 1..=10_000;
/// Clients of a site.
pub const SITE_CLIENTS: RangeInclusive<usize> = 1..=1_000;
/// Transactions a second: whoever arrives waits in memory.
pub const RATE: RangeInclusive<f64> = 0.001..=200_000.0;
/// How many of what an application has.
pub const SCALE: RangeInclusive<u32> = 1..=u32::MAX;
/// A share of which none would be nothing.
pub const SHARE_OF_SOME: RangeInclusive<f64> = 0.000_001..=1.0;
/// k.
pub const WRITE_BACK_EVERY: RangeInclusive<u32> = 1..=u32::MAX;
/// Seeds.
pub const SEED: RangeInclusive<u64> = 0..=u64::MAX;
