//! What one program or transaction may ask for, as it follows from settings and shape.

use fogbank_oram::BatchShape;

use crate::checkpoint::VALUE_BYTES_MAX;
use crate::delta::KEY_BYTES_A_SLOT;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::settings::Settings;

/// Steps of a program beside two for each record of the capacity.
const STEPS_MAX: usize = 1 << 20;

/// What one program or transaction may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Blocks of one read batch.
    pub blocks_per_batch: usize,
    /// Blocks one transaction may read, and a program within an epoch: all read batches of one.
    pub blocks_read_max: usize,
    /// Blocks one program may read, over as many epochs as that takes.
    pub blocks_gathered_max: usize,
    /// Records one transaction may read, if each holds one block.
    pub records_read_max: usize,
    /// Records one transaction may change, and a program within an epoch, if each holds at most one
    /// block.
    pub records_written_max: usize,
    /// The same for one program, over as many epochs as that takes.
    pub records_staged_max: usize,
    /// Records one program may touch and names it may go through: twice all that the store can
    /// hold, and a million.
    pub steps_max: usize,
    /// Bytes of a block; a longer value takes several.
    pub block_bytes: usize,
    /// Bytes of the longest value.
    pub value_bytes_max: usize,
    /// Bytes of the longest key, encoded.
    pub key_bytes_max: usize,
}

impl Limits {
    /// Those of epochs with these settings and this shape.
    pub fn of(settings: &Settings, shape: &BatchShape) -> Self {
        let blocks_read_max = settings.read_batches.saturating_mul(shape.read_batch);
        // All blocks of a value are read by one batch.
        let blocks_of_value = shape.read_batch.min(shape.write_batch);
        let value_bytes = blocks_of_value.saturating_mul(shape.value_bytes).min(VALUE_BYTES_MAX);
        // A key has to fit the delta of one epoch.
        let delta = shape.write_batch.saturating_mul(KEY_BYTES_A_SLOT);
        Self {
            blocks_per_batch: shape.read_batch,
            blocks_read_max,
            blocks_gathered_max: blocks_read_max
                .max(settings.gathered_bytes_max / shape.value_bytes.max(1)),
            records_read_max: blocks_read_max,
            records_written_max: shape.write_batch,
            records_staged_max: shape
                .write_batch
                .max(settings.gathered_bytes_max / shape.value_bytes.max(1)),
            steps_max: STEPS_MAX.saturating_add((shape.capacity as usize).saturating_mul(2)),
            block_bytes: shape.value_bytes,
            value_bytes_max: value_bytes.min(settings.value_bytes_max),
            key_bytes_max: settings.key_bytes_max.min(delta).min(usize::from(u16::MAX)),
        }
    }

    /// Checks the lengths of a key and of a value.
    pub(crate) fn check(&self, key: &Key, value_bytes: usize) -> Result<()> {
        let (key_limit, value_limit) = (self.key_bytes_max, self.value_bytes_max);
        match key.encoded_len() {
            bytes if bytes > key_limit => Err(Error::KeyTooLong { bytes, limit: key_limit }),
            _ if value_bytes > value_limit => {
                Err(Error::ValueTooLong { bytes: value_bytes, limit: value_limit })
            }
            _ => Ok(()),
        }
    }
}
