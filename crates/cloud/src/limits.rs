//! What the numbers may be that are typed to the server.

use std::ops::RangeInclusive;

use bytesize::ByteSize;

/// Memory.
pub const MEMORY: RangeInclusive<ByteSize> = ByteSize(0)..=ByteSize(1 << 50);
/// Calls a second of a tenant.
pub const RATE: RangeInclusive<u64> = 1..=1_000_000_000;
/// Calls of a tenant at once.
pub const CALLS: RangeInclusive<usize> = 1..=1 << 20;
/// Bytes of requests of a tenant that are being received.
pub const REQUESTS: RangeInclusive<ByteSize> = ByteSize(1 << 20)..=ByteSize(1 << 40);
/// Memory for the work of all tenants.
pub const WORK_MEMORY: RangeInclusive<ByteSize> = ByteSize(512 << 20)..=ByteSize(1 << 50);
/// Connections at once.
pub const CONNECTIONS: RangeInclusive<usize> = 16..=1 << 20;
/// Bytes that a tenant may keep.
pub const QUOTA: RangeInclusive<ByteSize> = ByteSize(0)..=ByteSize(1 << 60);
/// Arrays that a tenant may keep.
pub const ARRAYS: RangeInclusive<usize> = 0..=1 << 20;
/// Bytes of a cell that is measured with.
pub const CELL: RangeInclusive<ByteSize> = ByteSize(1)..=ByteSize(1 << 20);
/// Payload of a batch.
pub const BATCH: RangeInclusive<ByteSize> = ByteSize(1 << 20)..=ByteSize(256 << 20);
/// Payload of a measurement.
pub const TOTAL: RangeInclusive<ByteSize> = ByteSize(1)..=ByteSize(1 << 40);
/// Batches at a time.
pub const STREAMS: RangeInclusive<usize> = 1..=16;
/// Measurements of each kind.
pub const ROUNDS: RangeInclusive<usize> = 1..=1_000;
