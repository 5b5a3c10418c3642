//! What the user decides about a `tao` store: fixed when it is created, but for what is under way,
//! rate and pace.

use fogbank_durable::{Piecing, VaultSettings};

use super::{journal, state};
use crate::geometry::{BucketShape, Geometry};
use crate::immediate::{ShellSettings, Traffic, parts_max};
use crate::memory::{BESIDE_A_VALUE, ProxyMemory, SEALED_PIECES_BYTES};
use crate::{Error, ImmediateShape, Result};

/// Beside a checkpoint records leave, so its pieces take their time.
pub(super) const PIECES: Piecing = Piecing::usual(1);

/// Accesses that go into one journal record at most, of small blocks.
const GROUP_MAX: usize = 256;

/// A checkpoint takes about one part in so many of what accesses send.
const CHECKPOINT_SHARE: u64 = 20;
/// Accesses after which a checkpoint is written whatever it costs: a recovery reads that many paths
/// again, and those that came while it was being written.
const REPLAYED_MAX: u64 = 1 << 13;

/// Of the position map, a block; of the versions, a bucket.
const POSITION_BYTES: f64 = 8.0;
const VERSION_BYTES: f64 = 8.0;

/// Settings of a [`super::TaoEngine`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaoSettings {
    /// What every engine of this kind is told.
    pub shell: ShellSettings,
    /// Z: blocks a bucket holds.
    pub bucket_blocks: u16,
    /// Memory for the top of the tree kept in the proxy, in bytes.
    pub cache_bytes: u64,
    /// k: paths from one write-back to the next.
    pub write_back_every: u32,
    /// The number of the store's array, part of every nonce.
    pub array: u8,
}

impl TaoSettings {
    /// The paper's: Z = 4, k = 40, no cache.
    pub fn new(shape: ImmediateShape) -> Self {
        Self {
            shell: ShellSettings::new(shape),
            bucket_blocks: 4,
            cache_bytes: 0,
            write_back_every: 40,
            array: 1,
        }
    }

    /// The same with another shell.
    pub fn with_shell(mut self, change: impl FnOnce(&mut ShellSettings)) -> Self {
        change(&mut self.shell);
        self
    }

    /// The same with about so many bytes of write-backs under way at once, four buckets at least:
    /// more than the link carries until they have been acknowledged, or it stands idle.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn with_write_behind(self, bytes: usize) -> Result<Self> {
        let bucket_bytes = self.geometry()?.chunk_bytes();
        let shell = self.shell.clone().with_write_behind(bytes, bucket_bytes);
        Ok(Self { shell, ..self })
    }

    /// The checked geometry these settings lead to.
    ///
    /// # Errors
    /// [`Error::Caller`] for settings outside the limits.
    pub fn geometry(&self) -> Result<Geometry> {
        if self.write_back_every == 0 {
            return Err(Error::Caller("k is at least one".into()));
        }
        self.shell.check(self.group_max())?;
        let ImmediateShape { capacity, value_bytes } = self.shell.shape;
        let bucket = BucketShape::path(self.bucket_blocks);
        let geometry = Geometry::new(capacity, value_bytes, bucket, self.cache_bytes)?;
        Ok(geometry.with_paths_held_back(self.shell.under_way_max))
    }

    /// Accesses that go into one journal record at most: fewer of large blocks.
    pub fn group_max(&self) -> usize {
        parts_max(journal::entry_bytes(self.shell.shape.value_bytes), GROUP_MAX)
    }

    /// Write-backs that have not been acknowledged, at most: as many as hold what may be under way
    /// twice over. When there are so many, further accesses wait; so a cloud that acknowledges none
    /// fills no memory.
    pub fn write_backs_max(&self) -> usize {
        2 + (2 * self.shell.under_way_max).div_ceil(self.write_back_every.max(1) as usize)
    }

    /// What the store's vault is opened with.
    pub fn vault(&self) -> VaultSettings {
        VaultSettings {
            record_bytes: journal::entry_bytes(self.shell.shape.value_bytes),
            record_parts_max: self.group_max(),
            records_at_once: self.shell.records_at_once as u32,
            full_every: 1,
            pieces: PIECES,
            journal_is_near: false,
        }
    }

    /// What an access moves at most, all in all, once every bucket has been written: the union of
    /// the paths of a write-back is a little less.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn traffic(&self) -> Result<Traffic> {
        let geometry = self.geometry()?;
        let path = geometry.path_bytes() as f64;
        let record = journal::entry_bytes(self.shell.shape.value_bytes) as f64;
        let checkpoint = checkpoint_bytes(&geometry) as f64;
        let up_bytes = path + record + checkpoint / self.checkpoint_every()? as f64;
        Ok(Traffic { up_bytes, down_bytes: path })
    }

    /// Bytes that buckets and checkpoints take in the cloud at most, once every bucket has been
    /// written: what a newer version has taken the place of stays until a checkpoint refers to it
    /// no more, so for up to two intervals between checkpoints and what is under way; and a
    /// recovery writes as much anew before it deletes.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn storage_bytes_max(&self) -> Result<u64> {
        let geometry = self.geometry()?;
        let write_backs = 4 * self.write_backs_a_checkpoint()? + self.write_backs_max() as u64;
        let superseded = write_backs * u64::from(self.write_back_every) * geometry.path_bytes();
        Ok(geometry.storage_bytes() + superseded + 2 * checkpoint_bytes(&geometry))
    }

    /// What is kept in memory once every bucket has been written, with as much under way as may be.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn memory(&self) -> Result<ProxyMemory> {
        let geometry = self.geometry()?;
        let state = POSITION_BYTES * f64::from(geometry.capacity)
            + VERSION_BYTES * f64::from(geometry.stored_buckets());
        // Stash and cached top; a path under way or not yet acknowledged brings half its slots
        // filled.
        let (value, stash) =
            (self.shell.shape.value_bytes as f64 + BESIDE_A_VALUE, geometry.stash_blocks_max());
        let paths = self.shell.under_way_max as f64
            + self.write_backs_max() as f64 * f64::from(self.write_back_every);
        let values = f64::from(stash) * value + paths * geometry.path_bytes() as f64 / 2.0;
        // All sections are made at the cut.
        let lengths = state::checkpoint_lengths(&geometry);
        let checkpoint = lengths.iter().sum::<usize>() as f64 + SEALED_PIECES_BYTES;
        // Its sections are here while the state is made of them.
        let opening = state + checkpoint_bytes(&geometry) as f64;
        let parts = 2.0 * self.checkpoint_every()? as f64;
        let journal = parts * journal::entry_bytes(self.shell.shape.value_bytes) as f64;
        Ok(ProxyMemory { state, values, checkpoint, opening, journal })
    }

    /// Accesses from one checkpoint to the next.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn checkpoint_every(&self) -> Result<u64> {
        Ok(self.write_backs_a_checkpoint()? * u64::from(self.write_back_every))
    }

    /// Bytes of a checkpoint.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn checkpoint_bytes(&self) -> Result<u64> {
        Ok(checkpoint_bytes(&self.geometry()?))
    }

    /// s: write-backs from one checkpoint to the next, so many that a checkpoint takes about a
    /// twentieth of what they and the journal send, but no more than a recovery can bear. Public.
    ///
    /// # Errors
    /// As for [`TaoSettings::geometry`].
    pub fn write_backs_a_checkpoint(&self) -> Result<u64> {
        let geometry = self.geometry()?;
        let access =
            geometry.path_bytes() + journal::entry_bytes(self.shell.shape.value_bytes) as u64;
        let share = CHECKPOINT_SHARE * checkpoint_bytes(&geometry);
        let accesses = (share / access).min(REPLAYED_MAX);
        Ok(accesses.div_ceil(u64::from(self.write_back_every)).max(1))
    }
}

fn checkpoint_bytes(geometry: &Geometry) -> u64 {
    PIECES.checkpoint(state::checkpoint_lengths(geometry)).total_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let cut = (settings.shell.window_bytes, settings.shell.windows);
            let bucket_bytes = settings.geometry().unwrap().chunk_bytes();
            assert_eq!(cut, (buckets * bucket_bytes, windows), "{value_bytes} {behind}");
        }
        assert!(TaoSettings::new(shape(0)).with_write_behind(1).is_err());
    }
}
