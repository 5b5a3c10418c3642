//! A volume of the engine `ring`: the epochs of a store of keys, whose records are the blocks.
//!
//! Epochs run whether there is work or not, so neither how much is asked for nor when is seen. An access
//! waits for the end of its epoch. Journal, commits, recovery and pace are those of any store: see `open`,
//! and `fogbank_txn::Ticker` for what makes accesses of it.

use std::sync::Arc;

use bytesize::ByteSize;
use fogbank_txn::{BLOCK_KEY_BYTES, Ticker};
use serde::{Deserialize, Serialize};

use super::Volume;
use super::config::VolumeConfig;
use crate::OpenOptions;
use crate::args::{ShapeArgs, VolumeShapeArgs};
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::open::Sides;

/// An access depends on no other, so one batch brings all that an epoch reads, and soonest.
const READ_BATCHES: usize = 1;
/// Blocks cost ten to twenty times their size, all day: a shape for trying things out.
const BATCH: usize = 32;
const WRITE_BATCH: usize = 32;
const INTERVAL_MS: u64 = 100;

/// The slack before a message is reckoned by the block of a batch, whatever its size: copying more than so many
/// bytes of each would outlast it, and the message would leave at a later point.
const BLOCK_BYTES_MAX: u64 = 64 << 10;

/// What the commit record says of it. Public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingVolume {
    /// Blocks.
    pub blocks: u32,
    /// The store of which it is made.
    pub epochs: StoreConfig,
}

impl RingVolume {
    /// Of a new volume of so many blocks.
    ///
    /// # Errors
    /// [`Error::Usage`] naming what is out of its limits.
    pub(super) fn new(args: &VolumeShapeArgs, blocks: u32) -> Result<Self> {
        if args.block.as_u64() > BLOCK_BYTES_MAX {
            return Err(Error::Usage(format!(
                "--block {}: blocks of the engine ring have at most 64 KiB",
                args.block
            )));
        }
        let shape = ShapeArgs {
            capacity: Some(Ticker::capacity_for(blocks)),
            value_size: Some(ByteSize(args.block.as_u64())),
            read_batches: Some(args.read_batches.unwrap_or(READ_BATCHES)),
            batch: Some(args.batch.unwrap_or(BATCH)),
            write_batch: Some(args.write_batch.unwrap_or(WRITE_BATCH)),
            interval_ms: Some(args.interval_ms.unwrap_or(INTERVAL_MS)),
            cache: Some(args.cache),
            ..ShapeArgs::default()
        };
        let epochs = StoreConfig::derive(&shape, false)?;
        Ok(Self { blocks, epochs: StoreConfig { key_budget: BLOCK_KEY_BYTES, ..epochs } })
    }

    /// For a store that combines cells, across a link: what that saves is bytes of the link.
    pub(super) fn combining(&self, cells: bool) -> Self {
        Self { epochs: StoreConfig { xor: cells, ..self.epochs.clone() }, ..self.clone() }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.epochs.write_batch == 0 {
            return Err(Error::Usage("--write-batch 0: a disk takes writes".into()));
        }
        self.epochs.check()?;
        self.epochs.geometry().map(drop)
    }
}

/// Opens the volume, however it was left.
pub(super) async fn open(
    options: OpenOptions,
    sides: Sides,
    volume: &RingVolume,
) -> Result<Volume> {
    let config = VolumeConfig::Ring(volume.clone());
    let clock = sides.clock.clone();
    let opened = options.open_as(sides, volume.epochs.clone(), config.encode());
    let opened = opened.await?;
    let ticker = Ticker::new(opened.proxy(), volume.blocks)?.with_vault(opened.keeping.clone());
    let recovered = opened.recovered();
    Ok(Volume {
        engine: Arc::new(ticker),
        config,
        clock,
        replayed: recovered.epochs_replayed + recovered.batches_repeated,
        register: opened.register().to_owned(),
        _lock: opened._lock,
    })
}
