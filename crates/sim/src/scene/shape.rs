//! The public shape of a scene, as each layer wants to be told it.

use std::time::Duration;

use fogbank_durable::Piecing;
use fogbank_oram::BatchShape;
use fogbank_oram::geometry::BucketShape;
use fogbank_oram::ring::{EpochTiming, RingSettings, WINDOW_BYTES, WINDOWS};
use fogbank_store::trace::{PublicConfig, TraceClock, VaultConfig};
use fogbank_txn::Settings;

/// Departures are multiples of this part of the interval. The virtual clock keeps whole
/// milliseconds only, so that an eighth of 60 ms, which the command line would take, would never be
/// met.
const QUANTA_AN_INTERVAL: u32 = 6;

/// The public shape of a scene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Of batches.
    pub batch: BatchShape,
    /// R.
    pub read_batches: usize,
    /// Read batches under way at once.
    pub in_flight: usize,
    /// Bytes of a window, and how many are under way at once.
    pub windows: (usize, usize),
    /// Bytes of a piece of a checkpoint or a delta.
    pub piece_bytes: usize,
    /// Whether epochs run every other second only.
    pub pauses: bool,
    /// Z, S and A.
    pub bucket: BucketShape,
    /// Distance of the points of the grid; a multiple of 6 ms.
    pub interval: Duration,
    /// Memory for the top of the tree, in bytes.
    pub cache_bytes: u64,
    /// Whether a path read is one XORed cell.
    pub xor: bool,
    /// Whether the last read batch fetches for the evictions of the write batch.
    pub prefetch: bool,
}

impl Shape {
    /// Small buckets and batches, so that everything happens often: (4, 5, 3), N = 200, R = 2, 8
    /// reads a batch, 8 writes, 60 ms.
    pub fn small() -> Self {
        Self {
            batch: BatchShape { capacity: 200, value_bytes: 16, read_batch: 8, write_batch: 8 },
            read_batches: 2,
            in_flight: 1,
            windows: (WINDOW_BYTES, WINDOWS),
            piece_bytes: Piecing::usual(1).bytes,
            pauses: false,
            bucket: BucketShape::new(4, 5, 3),
            interval: Duration::from_millis(60),
            cache_bytes: 0,
            xor: false,
            prefetch: false,
        }
    }

    /// A tree so loaded that evictions leave much behind: (8, 16, 16), L = 3, N = 64. An epoch is
    /// as long as the distance of two evictions, so that every read batch follows one at once, when
    /// most is left, and nearly all of it are reads, which put more into the tree than padding
    /// does.
    pub fn stressed() -> Self {
        Self {
            batch: BatchShape { capacity: 64, value_bytes: 16, read_batch: 15, write_batch: 1 },
            read_batches: 1,
            bucket: BucketShape::new(8, 16, 16),
            ..Self::small()
        }
    }

    /// What the engine is told.
    pub fn ring_settings(&self) -> RingSettings {
        RingSettings {
            bucket: Some(self.bucket),
            cache_bytes: self.cache_bytes,
            xor: self.xor,
            prefetch: self.prefetch,
            window_bytes: self.windows.0,
            windows: self.windows.1,
            ..RingSettings::new(self.batch, self.read_batches)
        }
    }

    /// How checkpoints and deltas are cut.
    pub(crate) fn pieces(&self) -> Piecing {
        Piecing { bytes: self.piece_bytes, at_once: self.windows.1 }
    }

    /// Bytes of a sealed cell.
    pub(super) fn cell_bytes(&self) -> usize {
        fogbank_oram::geometry::cell_bytes(self.batch.value_bytes)
    }

    /// What the transaction layer is told.
    pub fn proxy_settings(&self) -> Settings {
        Settings {
            read_batches: self.read_batches,
            in_flight: self.in_flight,
            interval: self.interval,
            slack: Settings::slack_for(&self.batch),
            ..Settings::default()
        }
    }

    /// Departures are multiples of this.
    pub fn quantum(&self) -> Duration {
        self.interval / QUANTA_AN_INTERVAL
    }

    /// What the auditor is told.
    ///
    /// # Errors
    /// Those of [`RingSettings::geometry`].
    pub fn public(&self, vault: Option<VaultConfig>) -> fogbank_oram::Result<PublicConfig> {
        let mut settings = self.ring_settings();
        settings.keep_superseded = vault.is_some();
        let (slack, quantum) = (self.proxy_settings().slack, self.quantum());
        let (interval, in_flight, pauses) = (self.interval, self.in_flight, self.pauses);
        let pace = EpochTiming { interval, slack, quantum, in_flight, pauses };
        settings.public(TraceClock::Virtual, pace, vault)
    }
}
