//! What the numbers of a shape may be: for what is typed, and for a shape that comes from a file or
//! from a commit record.

use std::fmt::Display;
use std::ops::RangeInclusive;

use bytesize::ByteSize;
use fogbank_oram::geometry::{CAPACITY_MAX, VALUE_BYTES_MAX};

use crate::error::{Error, Result};

/// Records of a store.
pub const CAPACITY: RangeInclusive<u32> = 1..=CAPACITY_MAX;
/// Bytes of a value in a cell.
pub const VALUE_SIZE: RangeInclusive<ByteSize> = ByteSize(1)..=ByteSize(VALUE_BYTES_MAX as u64);
/// Read batches of an epoch.
pub const READ_BATCHES: RangeInclusive<usize> = 1..=1_000;
/// Messages under way at once.
pub const WINDOWS: RangeInclusive<usize> = 1..=64;
/// What a batch reads.
pub const BATCH: RangeInclusive<usize> = 1..=100_000;
/// What an epoch writes: nothing in an engine that is measured reading.
pub const WRITE_BATCH: RangeInclusive<usize> = 0..=100_000;
/// The same of a store that is served.
pub const WRITE_BATCH_SERVED: RangeInclusive<usize> = 1..=100_000;
/// What all batches of an epoch read together: for each the proxy keeps where it was read until the
/// epoch has ended, and a recovery reads all of it again.
pub const EPOCH_READS_MAX: usize = 1_000_000;
/// Milliseconds of an epoch at most: two of the longest intervals.
pub const EPOCH_MS_MAX: u64 = 2 * *INTERVAL_MS.end();
/// Milliseconds between batches.
pub const INTERVAL_MS: RangeInclusive<u64> = 0..=3_600_000;
/// Microseconds between the moments at which messages leave: with more than a second nothing would
/// seem to happen.
pub const QUANTUM_US: RangeInclusive<u64> = 0..=1_000_000;
/// Memory.
pub const MEMORY: RangeInclusive<ByteSize> = ByteSize(0)..=ByteSize(1 << 50);
/// Z.
pub const BUCKET_REALS: RangeInclusive<u16> = 1..=1024;
/// S.
pub const BUCKET_DUMMIES: RangeInclusive<u16> = 1..=4096;
/// A.
pub const EVICT_EVERY: RangeInclusive<u32> = 1..=4096;
/// L.
pub const LEAF_LEVEL: RangeInclusive<u32> = 0..=28;
/// Accesses a second.
pub const FIXED_RATE: RangeInclusive<u64> = 1..=1_000_000;
/// Milliseconds from one tick of a fixed rate to the next.
pub const TICK_MS: RangeInclusive<u64> = 1..=60_000;
/// Bytes of write-backs under way at once: more help nobody.
pub const WRITE_BEHIND: RangeInclusive<ByteSize> = ByteSize(1)..=ByteSize(256 << 20);
/// Milliseconds of a link: above it somebody has mistaken the unit.
pub const DELAY_MS: RangeInclusive<f64> = 0.0..=60_000.0;
/// MB (10^6 bytes) a second.
pub const MB_S: RangeInclusive<f64> = 0.001..=1e6;
/// A share of all.
pub const SHARE: RangeInclusive<f64> = 0.0..=1.0;
/// Clients of a server at once.
pub const CONNECTIONS: RangeInclusive<usize> = 1..=1_000_000;
/// Bytes of a disk: as many blocks as an address can name, of the largest that there are.
pub const DISK_SIZE: RangeInclusive<ByteSize> = ByteSize(512)..=ByteSize(1 << 52);
/// Bytes of a block of a disk.
pub const BLOCK_SIZE: RangeInclusive<ByteSize> = ByteSize(512)..=ByteSize(1 << 20);

/// Refuses what is outside `limits`, with the flag that sets it.
pub(crate) fn check<T: PartialOrd + Display>(
    flag: &str,
    value: T,
    limits: RangeInclusive<T>,
) -> Result<()> {
    if limits.contains(&value) {
        return Ok(());
    }
    let (least, most) = limits.into_inner();
    Err(Error::Usage(format!("{flag} {value} is outside {least} to {most}")))
}
