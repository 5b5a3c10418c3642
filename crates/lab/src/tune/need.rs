//! What an epoch has to hold, given what was seen of transactions and how many an epoch is to take.
//!
//! 1. R is the rounds that 99 of 100 transactions do not exceed, and one to spare: one that arrives
//!    when the first batch has just left is in time, and so is one whose reads did not fit a batch.
//! 2. A value that 99 of 100 do not exceed is one block; a block is a power of two. Longer ones
//!    take several, so figures below count records times the mean blocks of a value.
//! 3. Read batch. Arrivals spread over the epoch need R batches that together hold its reads: the
//!    mean and four standard deviations of a sum of Poisson many. Clients that wait are answered
//!    together at the end of an epoch and come back together, so a batch has to hold the reads of
//!    the fullest round of all of them; and never more than as many of the largest transactions as
//!    there are clients. A batch holds the widest round of one transaction in any case.
//! 4. Write batch: what all of them write, reckoned the same way; at least what the largest does.
//! 5. Batches, and capacity and interval after them, are rounded up to 1, 2 or 5 times a power of
//!    ten. These figures are public and somebody may know that they were chosen by a workload:
//!    rounded, they say little of it. R is not rounded: each batch more is an interval that every
//!    answer waits for.
//!
//! Reads of the same records by several transactions count each, though an epoch fetches a record
//! once: where few records are much asked for, batches are larger than they would have to be.

use super::seen::Seen;

/// Of those that have to fit.
const PERCENT: f64 = 99.0;
const ROUNDS_SPARE: u32 = 1;
const SIGMAS: f64 = 4.0;
const BATCH_MIN: f64 = 5.0;
const BLOCK_BYTES_MIN: u64 = 64;
const BLOCK_BYTES_MAX: u64 = 64 << 10;

/// How transactions come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// So many a second, spread over the epoch.
    PerS(f64),
    /// So many clients that wait, and come together.
    Clients(usize),
}

/// What an epoch has to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// R.
    pub read_batches: usize,
    /// Blocks of a read batch.
    pub batch: usize,
    /// Blocks of the write batch.
    pub write_batch: usize,
    /// Bytes of a block.
    pub value_bytes: u64,
}

impl Need {
    /// Of epochs of so many transactions on average; whether they come `together`.
    pub fn of(seen: &Seen, transactions: f64, together: bool) -> Self {
        let read_batches = seen.rounds_percentile(PERCENT).max(1) + ROUNDS_SPARE;
        let value_bytes = seen.value_percentile(PERCENT).next_power_of_two();
        let value_bytes = value_bytes.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        let (blocks, blocks_max) = seen.blocks(value_bytes);
        let spread = seen.in_epoch(seen.read, transactions, SIGMAS) / f64::from(read_batches);
        let writes = seen.in_epoch(seen.written, transactions, SIGMAS);
        let (reads, writes) = match together {
            true => {
                let at_most = |of: u32| transactions * f64::from(of);
                let round = seen.in_fullest_round(transactions, SIGMAS).min(at_most(seen.widest()));
                (
                    spread.max(round).min(at_most(seen.read.max)),
                    writes.min(at_most(seen.written.max)),
                )
            }
            false => (spread, writes),
        };
        let batch = |all: f64, largest: u32| {
            let blocks = (blocks * all.max(f64::from(largest))).max(blocks_max as f64);
            coarse(blocks.max(BATCH_MIN)) as usize
        };
        Self {
            read_batches: read_batches as usize,
            batch: batch(reads, seen.widest()),
            write_batch: batch(writes, seen.written.max),
            value_bytes,
        }
    }

    /// As much as either.
    pub fn max(self, other: Self) -> Self {
        Self {
            read_batches: self.read_batches.max(other.read_batches),
            batch: self.batch.max(other.batch),
            write_batch: self.write_batch.max(other.write_batch),
            value_bytes: self.value_bytes.max(other.value_bytes),
        }
    }
}

/// Records of a store that has to hold so many and as many again.
pub fn capacity(seen: &Seen, records: u64, value_bytes: u64) -> u32 {
    let (blocks, _) = seen.blocks(value_bytes);
    coarse((2.0 * records as f64 * blocks.max(1.0)).max(1_000.0)).min(f64::from(u32::MAX)) as u32
}

/// The next of 1, 2, 5, 10, 20, 50 and so on.
pub fn coarse(figure: f64) -> f64 {
    let mut step = 1.0_f64;
    while step.is_finite() {
        // What a sum of fractions misses by is not a reason for the next step.
        let fits = [1.0, 2.0, 5.0].into_iter().find(|part| part * step >= figure * (1.0 - 1e-9));
        match fits {
            Some(part) => return part * step,
            None => step *= 10.0,
        }
    }
    figure
}
