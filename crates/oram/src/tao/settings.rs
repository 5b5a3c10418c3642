//! What the user decides about a `tao` store: fixed when it is created, but for what is under way, rate and pace.

use std::time::Duration;

use fogbank_durable::{Piecing, VaultSettings};
use fogbank_env::Nanos;

use super::{journal, state};
use crate::geometry::{BucketShape, Geometry};
use crate::{Error, ImmediateShape, Result};

/// Accesses that go into one journal record at most, of small blocks.
const GROUP_MAX: usize = 256;
/// About how long a record may become: what comes behind one waits for it.
const RECORD_BYTES_MAX: usize = 2 << 20;

/// Messages in which a write-back leaves: larger ones cost no less a byte, and what comes behind one waits.
const WINDOW_BYTES_MAX: usize = 256 << 10;
/// About as many of them are under way, or a message that ends would leave a hole.
const WINDOWS: usize = 32;
/// Never fewer, however large a bucket is: each waits for a round trip.
const WINDOWS_MIN: usize = 4;

/// Beside a checkpoint records leave, so its pieces take their time.
pub(super) const PIECES: Piecing = Piecing::usual(1);

/// A checkpoint takes about one part in so many of what accesses send.
const CHECKPOINT_SHARE: u64 = 20;
/// Accesses after which a checkpoint is written whatever it costs: a recovery reads that many paths
/// again, and those that came while it was being written.
const REPLAYED_MAX: u64 = 1 << 13;

/// A fixed rate: so many accesses at every point of a grid, whatever was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// From one point to the next.
    pub interval: Nanos,
    /// Accesses at each: 1 to [`TaoSettings::group_max`].
    pub accesses: usize,
}

/// What the link carries each way, in bytes a second: write-backs leave, and paths are asked for, no faster,
/// so that small messages do not wait in the link behind them. `None` where the link never fills.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkRate {
    /// Towards the cloud.
    pub up_bytes_per_s: Option<u64>,
    /// From the cloud.
    pub down_bytes_per_s: Option<u64>,
}

/// Settings of a [`super::TaoEngine`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaoSettings {
    /// Capacity and block size.
    pub shape: ImmediateShape,
    /// Z: blocks a bucket holds.
    pub bucket_blocks: u16,
    /// Memory for the top of the tree kept in the proxy, in bytes.
    pub cache_bytes: u64,
    /// k: paths from one write-back to the next.
    pub write_back_every: u32,
    /// The number of the store's array, part of every nonce.
    pub array: u8,
    /// Paths under way at once; further accesses wait their turn.
    pub under_way_max: usize,
    /// About how many bytes of a write-back go into one message: what comes behind one waits for it.
    pub window_bytes: usize,
    /// How many such messages are under way at once.
    pub windows: usize,
    /// Whatever leaves does so at multiples of this, so that its moment does not tell how long the proxy
    /// worked; zero lets everything leave as soon as it can. The vault has to be opened on a store that
    /// keeps to the same points ([`fogbank_store::GridStore`]).
    pub quantum: Duration,
    /// A fixed rate; `None` serves every access as it comes.
    pub rate: Option<Rate>,
    /// What the link carries. Needs a quantum.
    pub pace: LinkRate,
}

/// Bytes that an access moves, averaged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// Towards the store: write-backs, journal and checkpoints.
    pub up_bytes: f64,
    /// From the store: paths.
    pub down_bytes: f64,
}

impl TaoSettings {
    /// The paper's: Z = 4, k = 40, no cache.
    pub fn new(shape: ImmediateShape) -> Self {
        Self {
            shape,
            bucket_blocks: 4,
            cache_bytes: 0,
            write_back_every: 40,
            array: 1,
            under_way_max: 64,
            window_bytes: WINDOW_BYTES_MAX,
            windows: WINDOWS,
            quantum: Duration::ZERO,
            rate: None,
            pace: LinkRate::default(),
        }
    }

    /// The same with about so many bytes of write-backs under way at once, four buckets at least: more than
    /// the link carries until they have been acknowledged, or it stands idle.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn with_write_behind(self, bytes: usize) -> Result<Self> {
        let bucket_bytes = self.geometry()?.chunk_bytes();
        let buckets = (bytes / WINDOWS).min(WINDOW_BYTES_MAX) / bucket_bytes;
        let window_bytes = buckets.max(1) * bucket_bytes;
        Ok(Self { window_bytes, windows: bytes.div_ceil(window_bytes).max(WINDOWS_MIN), ..self })
    }

    /// The checked geometry these settings lead to.
    ///
    /// # Errors
    /// [`Error::Caller`] for settings outside the limits.
    pub fn geometry(&self) -> Result<Geometry> {
        let most = self.group_max().min(self.under_way_max);
        let quantum = self.quantum.as_nanos() as Nanos;
        let counts = |rate: Rate| rate.interval > 0 && (1..=most).contains(&rate.accesses);
        let least = self.under_way_max.min(self.write_back_every as usize);
        if least == 0 || !self.rate.is_none_or(counts) {
            return Err(Error::Caller(format!(
                "k and paths under way are at least one; a fixed rate has 1 to {most} accesses at every point"
            )));
        }
        let LinkRate { up_bytes_per_s, down_bytes_per_s } = self.pace;
        let rates = [up_bytes_per_s, down_bytes_per_s];
        if rates.contains(&Some(0)) || (quantum == 0 && rates.iter().any(Option::is_some)) {
            let words = "a pace is at least a byte a second and needs a quantum";
            return Err(Error::Caller(words.into()));
        }
        let fits = |rate: Rate| quantum == 0 || rate.interval.is_multiple_of(quantum);
        if !self.rate.is_none_or(fits) {
            let words = "the interval of a fixed rate is a multiple of the quantum";
            return Err(Error::Caller(words.into()));
        }
        let ImmediateShape { capacity, value_bytes } = self.shape;
        let bucket = BucketShape::path(self.bucket_blocks);
        let geometry = Geometry::new(capacity, value_bytes, bucket, self.cache_bytes)?;
        Ok(geometry.with_paths_held_back(self.under_way_max))
    }

    /// Accesses that go into one journal record at most: fewer of large blocks.
    pub fn group_max(&self) -> usize {
        let fit = RECORD_BYTES_MAX / journal::entry_bytes(self.shape.value_bytes);
        fit.clamp(1, GROUP_MAX)
    }

    /// Write-backs that have not been acknowledged, at most: as many as hold what may be under way twice
    /// over. When there are so many, further accesses wait; so a cloud that acknowledges none fills no memory.
    pub fn write_backs_max(&self) -> usize {
        2 + (2 * self.under_way_max).div_ceil(self.write_back_every.max(1) as usize)
    }

    /// What the store's vault is opened with.
    pub fn vault(&self) -> VaultSettings {
        VaultSettings {
            record_bytes: journal::entry_bytes(self.shape.value_bytes),
            record_parts_max: self.group_max().max(2), // one that never cuts has one part
            full_every: 1,
            pieces: PIECES,
        }
    }

    /// What an access moves at most, all in all, once every bucket has been written: the union of the
    /// paths of a write-back is a little less.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn traffic(&self) -> Result<Traffic> {
        let geometry = self.geometry()?;
        let path = geometry.path_bytes() as f64;
        let record = journal::entry_bytes(self.shape.value_bytes) as f64;
        let checkpoint =
            PIECES.checkpoint(state::checkpoint_lengths(&geometry)).total_bytes() as f64;
        let accesses = self.write_backs_a_checkpoint()? * u64::from(self.write_back_every);
        let up_bytes = path + record + checkpoint / accesses as f64;
        Ok(Traffic { up_bytes, down_bytes: path })
    }

    /// Bytes that buckets and checkpoints take in the cloud at most, once every bucket has been written: what a
    /// newer version has taken the place of stays until a checkpoint refers to it no more, so for up to two
    /// intervals between checkpoints and what is under way; and a recovery writes as much anew before it deletes.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn storage_bytes_max(&self) -> Result<u64> {
        let geometry = self.geometry()?;
        let write_backs = 4 * self.write_backs_a_checkpoint()? + self.write_backs_max() as u64;
        let superseded = write_backs * u64::from(self.write_back_every) * geometry.path_bytes();
        let checkpoint = PIECES.checkpoint(state::checkpoint_lengths(&geometry)).total_bytes();
        Ok(geometry.storage_bytes() + superseded + 2 * checkpoint)
    }

    /// s: write-backs from one checkpoint to the next, so many that a checkpoint takes about a
    /// twentieth of what they and the journal send, but no more than a recovery can bear. Public.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn write_backs_a_checkpoint(&self) -> Result<u64> {
        let geometry = self.geometry()?;
        let checkpoint = PIECES.checkpoint(state::checkpoint_lengths(&geometry)).total_bytes();
        let access = geometry.path_bytes() + journal::entry_bytes(self.shape.value_bytes) as u64;
        let accesses = (CHECKPOINT_SHARE * checkpoint / access).min(REPLAYED_MAX);
        Ok(accesses.div_ceil(u64::from(self.write_back_every)).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_needs_a_quantum_and_a_rate() {
        let shape = ImmediateShape { capacity: 16, value_bytes: 16 };
        let of = |down_bytes_per_s, quantum_ms| {
            let pace = LinkRate { down_bytes_per_s, ..LinkRate::default() };
            let quantum = Duration::from_millis(quantum_ms);
            TaoSettings { pace, quantum, ..TaoSettings::new(shape) }.geometry().is_ok()
        };
        assert_eq!([of(None, 0), of(Some(1), 1)], [true, true]);
        assert_eq!([of(Some(1), 0), of(Some(0), 1)], [false, false]);
    }

    /// Messages of a few buckets, so many that they come to the bytes asked for.
    #[test]
    fn what_is_under_way_is_cut_into_messages() {
        let shape = |value_bytes| ImmediateShape { capacity: 1 << 12, value_bytes };
        for (value_bytes, behind, buckets, windows) in [
            (4096, 220 << 10, 1, 14),
            (4096, 1 << 20, 1, 64),
            (4096, 8 << 20, 15, 34),
            (4096, 64 << 20, 15, 272),
            (4096, 1, 1, 4),
            (1 << 20, 8 << 20, 1, 4),
        ] {
            let settings = TaoSettings::new(shape(value_bytes)).with_write_behind(behind).unwrap();
            let cut = (settings.window_bytes, settings.windows);
            let bucket_bytes = settings.geometry().unwrap().chunk_bytes();
            assert_eq!(cut, (buckets * bucket_bytes, windows), "{value_bytes} {behind}");
        }
        assert!(TaoSettings::new(shape(0)).with_write_behind(1).is_err());
    }
}
