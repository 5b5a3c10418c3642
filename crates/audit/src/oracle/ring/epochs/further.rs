//! A message may be of a later batch than the first one that it can be of: how far it may reach.

use crate::Observer;
use crate::oracle::fault::Step;
use crate::oracle::ring::RingConfig;
use crate::oracle::ring::pace::Pace;
use crate::oracle::ring::reads::{Reads, Where};

/// What may be reached from a batch that shows an eviction which does not fall due in it.
pub(super) struct Further {
    batches: u32,
    accesses: u64,
    writes: u64,
    prefetch: bool,
    /// Whether the batch may turn out to be a later one.
    movable: bool,
    /// Whether the message may turn out to be of the next batch.
    splittable: bool,
    epoch: u64,
    pub batch: u32,
    pub fetched: bool,
    /// Whether there are paths that were not taken yet.
    paths: bool,
}

impl Further {
    pub fn of(config: &RingConfig, pace: &Pace, first_window: bool) -> Self {
        let unsaid = !pace.tells_batches() && config.vault.is_none();
        Self {
            batches: config.read_batches,
            accesses: config.read_batch.into(),
            writes: config.write_batch.into(),
            prefetch: config.prefetch,
            movable: first_window && unsaid,
            splittable: !first_window && unsaid,
            epoch: 0,
            batch: 0,
            fetched: false,
            paths: false,
        }
    }

    pub fn at(&mut self, epoch: u64, batch: u32, fetched: bool, paths: bool) {
        (self.epoch, self.batch, self.fetched, self.paths) = (epoch, batch, fetched, paths);
    }

    pub fn reach(&mut self, reads: &mut Reads, out: &mut dyn Observer) -> Step<bool> {
        if self.batch >= self.batches {
            return Ok(false);
        }
        if self.batch + 1 < self.batches {
            if self.movable {
                reads.shift(self.accesses, self.accesses)?;
                self.batch += 1;
                let batch = self.epoch * u64::from(self.batches) + u64::from(self.batch);
                reads.place = Where { epoch: self.epoch, batch };
            }
            if self.splittable {
                reads.split(self.accesses)?;
                self.batch += 1;
                (self.movable, self.splittable) = (true, false);
                return Ok(true);
            }
            return Ok(self.movable);
        }
        if self.prefetch && !self.fetched {
            reads.exhaust(out)?;
            reads.fetch_ahead(self.writes);
            self.fetched = true;
            return Ok(reads.anything_due());
        }
        let of_writes = (self.movable && reads.shown() == 0)
            || (self.splittable && reads.shown_by_message() == 0);
        if of_writes && !self.paths {
            reads.exhaust(out)?;
            self.batch = self.batches;
            reads.begin_writes(self.writes, out);
            return Ok(reads.anything_due());
        }
        Ok(false)
    }
}
