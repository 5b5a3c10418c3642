//! The public configuration of a volume: what was typed, checked, as it stands in the commit record.

use std::time::Duration;

use fogbank_oram::ImmediateShape;
use fogbank_oram::tao::{Rate, TaoSettings};
use serde::{Deserialize, Serialize};

use crate::args::{FixedRateArgs, VolumeEngine, VolumeShapeArgs};
use crate::error::{Error, Result};

/// Blocks of this size or more hold nothing that a file system would want of one.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// What the commit record says of a volume. Public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// Which engine.
    pub volume: VolumeEngine,
    /// Blocks.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Z.
    pub bucket_blocks: u16,
    /// Memory of the proxy for the top of the tree, in bytes.
    pub cache: u64,
    /// k.
    pub write_back_every: u32,
    /// Messages leave at multiples of so many microseconds; 0: as soon as they can.
    pub quantum_us: u64,
}

impl VolumeConfig {
    /// Of a new volume.
    ///
    /// # Errors
    /// [`Error::Usage`] for a shape outside the limits.
    pub fn new(args: &VolumeShapeArgs) -> Result<Self> {
        let (size, block) = (args.size.as_u64(), args.block.as_u64());
        if !block.is_power_of_two() || !(512..=BLOCK_BYTES_MAX).contains(&block) {
            return Err(Error::Usage(format!(
                "--block {block}: blocks have 512 B to 1 MiB, and a power of two; 4KiB suits file systems"
            )));
        }
        if size == 0 || !size.is_multiple_of(block) {
            return Err(Error::Usage(format!(
                "--size {size} is no whole number of blocks of {block} bytes"
            )));
        }
        let blocks = u32::try_from(size / block);
        let blocks = blocks.map_err(|_| Error::Usage("--size: too many blocks".into()))?;
        let config = Self {
            volume: args.engine,
            blocks,
            block_bytes: block as usize,
            bucket_blocks: 4,
            cache: args.cache.as_u64(),
            write_back_every: args.write_back_every,
            quantum_us: args.quantum_us,
        };
        config.settings(None).geometry()?;
        Ok(config)
    }

    /// What the engine is made with.
    pub fn settings(&self, rate: Option<Rate>) -> TaoSettings {
        let shape = ImmediateShape { capacity: self.blocks, value_bytes: self.block_bytes };
        TaoSettings {
            bucket_blocks: self.bucket_blocks,
            cache_bytes: self.cache,
            write_back_every: self.write_back_every,
            under_way_max: 256,
            quantum: Duration::from_micros(self.quantum_us),
            rate,
            ..TaoSettings::new(shape)
        }
    }

    /// Bytes of the volume.
    pub fn bytes(&self) -> u64 {
        u64::from(self.blocks) * self.block_bytes as u64
    }

    /// The configuration as it stands in the commit record.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads what [`VolumeConfig::encode`] wrote.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no volume, or one that this program does not know.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let config: Self = serde_json::from_slice(bytes).map_err(|e| {
            let found: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
            match found.is_some_and(|found| found.get("volume").is_some()) {
                true => Error::Usage(format!("this volume was made by another version: {e}")),
                false => Error::Usage(
                    "this store holds keys and values, it is no volume; serve it with fogbank serve".into(),
                ),
            }
        })?;
        config.settings(None).geometry()?;
        Ok(config)
    }
}

/// The most that leave at one point of a fixed rate.
const RATE_ACCESSES_MAX: u64 = 64;

/// The rate that was asked for.
///
/// # Errors
/// [`Error::Usage`] for a rate outside the limits.
pub fn fixed_rate(args: &FixedRateArgs) -> Result<Option<Rate>> {
    let Some(per_s) = args.fixed_rate else { return Ok(None) };
    let most = RATE_ACCESSES_MAX;
    let accesses = per_s.saturating_mul(args.tick_ms) / 1000;
    let whole = per_s.saturating_mul(args.tick_ms).is_multiple_of(1000);
    if !whole || !(1..=most).contains(&accesses) {
        return Err(Error::Usage(format!(
            "--fixed-rate {per_s} is no whole number of accesses, 1 to {most}, every --tick-ms {}; change \
             one of the two",
            args.tick_ms
        )));
    }
    Ok(Some(Rate { interval: args.tick_ms * 1_000_000, accesses: accesses as usize }))
}

#[cfg(test)]
mod tests {
    use bytesize::ByteSize;

    use super::*;
    use crate::args::ShapeArgs;
    use crate::config::StoreConfig;

    fn shape(size: u64, block: u64) -> VolumeShapeArgs {
        VolumeShapeArgs {
            size: ByteSize(size),
            block: ByteSize(block),
            engine: VolumeEngine::Tao,
            cache: ByteSize::mib(1),
            write_back_every: 40,
            quantum_us: 1000,
        }
    }

    #[test]
    fn what_was_typed_comes_back() {
        let config = VolumeConfig::new(&shape(1 << 30, 4096)).unwrap();
        assert_eq!(VolumeConfig::decode(&config.encode()).unwrap(), config);
        assert_eq!((config.bytes(), config.blocks), (1 << 30, 1 << 18));
    }

    #[test]
    fn sizes_that_are_none_are_refused() {
        for (size, block) in
            [(0, 4096), (4097, 4096), (1 << 20, 3000), (1 << 20, 256), (1 << 50, 512)]
        {
            let refused = VolumeConfig::new(&shape(size, block));
            assert!(matches!(refused, Err(Error::Usage(_))), "{size} {block}");
        }
    }

    #[test]
    fn a_volume_and_a_store_of_keys_are_told_apart() {
        let said = |error: Error| error.to_string();
        let volume = VolumeConfig::new(&shape(1 << 20, 4096)).unwrap().encode();
        assert!(said(StoreConfig::decode(&volume).unwrap_err()).contains("fogbank volume serve"));
        let keys = StoreConfig::derive(&ShapeArgs::default(), false).unwrap().encode();
        assert!(said(VolumeConfig::decode(&keys).unwrap_err()).contains("fogbank serve"));
        assert!(
            said(VolumeConfig::decode(b"{\"volume\":\"other\"}").unwrap_err())
                .contains("another version")
        );
    }

    #[test]
    fn a_rate_fits_into_its_ticks() {
        let rate = |per_s, tick_ms| fixed_rate(&FixedRateArgs { fixed_rate: Some(per_s), tick_ms });
        assert_eq!(rate(1000, 10).unwrap(), Some(Rate { interval: 10_000_000, accesses: 10 }));
        for (per_s, tick_ms) in
            [(0, 10), (10, 0), (100_000, 10), (1, 10), (150, 10), (u64::MAX, 10)]
        {
            assert!(rate(per_s, tick_ms).is_err(), "{per_s} {tick_ms}");
        }
    }
}
