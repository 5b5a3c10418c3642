//! The public configuration of a volume: what was typed, checked, as it stands in the commit record.

use std::time::Duration;

use fogbank_oram::immediate::{LinkRate, Rate};
use serde::{Deserialize, Serialize};

use super::ring::RingVolume;
use super::tao::TaoVolume;
use crate::args::{FlowArgs, VolumeEngine, VolumeShapeArgs};
use crate::error::{Error, Result};
use crate::object_default::interval_for;

/// Blocks of this size or more hold nothing that a file system would want of one.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// What the commit record says of a volume. Public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "volume", rename_all = "lowercase")]
pub enum VolumeConfig {
    /// Every access is served as it comes.
    Tao(TaoVolume),
    /// Epochs.
    Ring(RingVolume),
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
        refuse_flags_of_the_other(args)?;
        let config = match args.engine {
            VolumeEngine::Tao => Self::Tao(TaoVolume::new(args, blocks)),
            VolumeEngine::Ring => Self::Ring(RingVolume::new(args, blocks)?),
        };
        config.check()?;
        Ok(config)
    }

    /// Of a new volume at `url`: where requests are charged for, epochs come as often as a month of them
    /// costs little, unless it was said how often.
    ///
    /// # Errors
    /// As [`VolumeConfig::new`].
    pub fn new_at(args: &VolumeShapeArgs, url: &str) -> Result<Self> {
        let mut config = Self::new(args)?;
        if let (Self::Ring(volume), None) = (&mut config, args.interval_ms) {
            volume.epochs.interval_ms = interval_for(&volume.epochs, url)?;
        }
        Ok(config)
    }

    /// Blocks.
    pub fn blocks(&self) -> u32 {
        match self {
            Self::Tao(volume) => volume.blocks,
            Self::Ring(volume) => volume.blocks,
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        match self {
            Self::Tao(volume) => volume.block_bytes,
            Self::Ring(volume) => volume.epochs.value_size,
        }
    }

    /// Bytes of the volume.
    pub fn bytes(&self) -> u64 {
        u64::from(self.blocks()) * self.block_bytes() as u64
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
            match is_of_volume(bytes) {
                true => Error::Usage(format!("this volume was made by another version: {e}")),
                false => Error::Usage(
                    "this store holds keys and values, it is no volume; serve it with fogbank serve".into(),
                ),
            }
        })?;
        config.check()?;
        Ok(config)
    }

    /// What is read is only claimed, and sizes follow from it.
    fn check(&self) -> Result<()> {
        match self {
            Self::Tao(volume) => Ok(volume.settings(Flow::default()).geometry().map(drop)?),
            Self::Ring(volume) => volume.check(),
        }
    }
}

/// Whether a commit record's configuration claims to be that of a volume.
pub(crate) fn is_of_volume(config: &[u8]) -> bool {
    let found: Option<serde_json::Value> = serde_json::from_slice(config).ok();
    found.is_some_and(|found| found.get("volume").is_some())
}

/// Flags that would do nothing are refused.
fn refuse_flags_of_the_other(args: &VolumeShapeArgs) -> Result<()> {
    let of_tao = [
        ("--write-back-every", args.write_back_every.is_some()),
        ("--quantum-us", args.quantum_us.is_some()),
    ];
    let of_ring = [
        ("--interval-ms", args.interval_ms.is_some()),
        ("--read-batches", args.read_batches.is_some()),
        ("--batch", args.batch.is_some()),
        ("--write-batch", args.write_batch.is_some()),
    ];
    let (others, engine) = match args.engine {
        VolumeEngine::Tao => (&of_ring[..], "ring"),
        VolumeEngine::Ring => (&of_tao[..], "tao"),
    };
    match others.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Error::Usage(format!(
            "{flag} is for volumes of the engine {engine}; leave it out, or say --engine {engine}"
        ))),
    }
}

/// What is decided whenever a volume is served: how its messages leave. Public.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// A fixed rate, if there is one.
    pub rate: Option<Rate>,
    /// What the link carries.
    pub pace: LinkRate,
    /// Bytes of write-backs under way at once.
    pub write_behind: Option<u64>,
    /// How long a volume of epochs goes on without a client; for ever if it is not said.
    pub rest_after: Option<Duration>,
}

impl Flow {
    /// What was asked for.
    ///
    /// # Errors
    /// [`Error::Usage`] for what is outside the limits.
    pub fn of(args: &FlowArgs) -> Result<Self> {
        let write_behind = args.write_behind.map(|bytes| bytes.as_u64());
        if write_behind.is_some_and(|bytes| !(1..=WRITE_BEHIND_MAX).contains(&bytes)) {
            let most = bytesize::ByteSize(WRITE_BEHIND_MAX);
            return Err(Error::Usage(format!("--write-behind: 1 B to {most}")));
        }
        let rate = args.fixed_rate.map(|per_s| fixed_rate(per_s, args.tick_ms)).transpose()?;
        Ok(Self { rate, pace: args.pace.pace()?, write_behind, rest_after: None })
    }

    /// The flag that was given, if any was.
    pub(super) fn flag(&self) -> Option<&'static str> {
        let flags = [
            (self.rate.is_some(), "--fixed-rate"),
            (self.pace.up_bytes_per_s.is_some(), "--send-mb-s"),
            (self.pace.down_bytes_per_s.is_some(), "--receive-mb-s"),
            (self.write_behind.is_some(), "--write-behind"),
        ];
        flags.into_iter().find_map(|(given, flag)| given.then_some(flag))
    }
}

/// More bytes of write-backs under way help nobody.
pub const WRITE_BEHIND_MAX: u64 = 256 << 20;

fn fixed_rate(per_s: u64, tick_ms: u64) -> Result<Rate> {
    let per_tick = per_s.checked_mul(tick_ms).filter(|thousandths| *thousandths > 0);
    let Some(accesses) = per_tick.filter(|n| n.is_multiple_of(1000)).map(|n| n / 1000) else {
        return Err(Error::Usage(format!(
            "--fixed-rate {per_s} is no whole number of accesses every --tick-ms {tick_ms}; change one of \
             the two, the rate to a multiple of {}",
            1000 / greatest_common_divisor(tick_ms.max(1), 1000)
        )));
    };
    let interval = tick_ms.checked_mul(1_000_000);
    let interval =
        interval.ok_or_else(|| Error::Usage(format!("--tick-ms {tick_ms} is too long")))?;
    Ok(Rate { interval, accesses: accesses as usize })
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use bytesize::ByteSize;

    use super::*;
    use crate::args::ShapeArgs;
    use crate::config::StoreConfig;
    use crate::link::PaceArgs;

    fn shape(engine: VolumeEngine, size: u64, block: u64) -> VolumeShapeArgs {
        VolumeShapeArgs {
            size: ByteSize(size),
            block: ByteSize(block),
            engine,
            cache: ByteSize::mib(1),
            write_back_every: None,
            quantum_us: None,
            interval_ms: None,
            read_batches: None,
            batch: None,
            write_batch: None,
        }
    }

    const ENGINES: [VolumeEngine; 2] = [VolumeEngine::Tao, VolumeEngine::Ring];

    #[test]
    fn what_was_typed_comes_back() {
        for engine in ENGINES {
            let config = VolumeConfig::new(&shape(engine, 1 << 30, 4096)).unwrap();
            assert_eq!(VolumeConfig::decode(&config.encode()).unwrap(), config);
            assert_eq!((config.bytes(), config.blocks()), (1 << 30, 1 << 18));
        }
    }

    /// What stands in the commit records of volumes that were made before there was a choice.
    #[test]
    fn a_volume_of_before_is_one_of_tao() {
        let record = br#"{"volume":"tao","blocks":256,"block_bytes":4096,"bucket_blocks":4,"cache":1048576,"write_back_every":40,"quantum_us":1000}"#;
        let config = VolumeConfig::decode(record).unwrap();
        assert_eq!(config, VolumeConfig::new(&shape(VolumeEngine::Tao, 1 << 20, 4096)).unwrap());
        assert_eq!(config.encode(), record);
    }

    #[test]
    fn sizes_that_are_none_are_refused() {
        for (size, block) in
            [(0, 4096), (4097, 4096), (1 << 20, 3000), (1 << 20, 256), (1 << 50, 512)]
        {
            for engine in ENGINES {
                let refused = VolumeConfig::new(&shape(engine, size, block));
                assert!(matches!(refused, Err(Error::Usage(_))), "{size} {block}");
            }
        }
    }

    #[test]
    fn long_blocks_are_for_tao() {
        for (block, fits) in [(64 << 10, true), (128 << 10, false)] {
            VolumeConfig::new(&shape(VolumeEngine::Tao, 1 << 20, block)).unwrap();
            let config = VolumeConfig::new(&shape(VolumeEngine::Ring, 1 << 20, block));
            assert_eq!(config.is_ok(), fits, "{block}");
        }
    }

    #[test]
    fn flags_that_would_do_nothing_are_refused() {
        for edit in [
            (|args| (args.engine, args.quantum_us) = (VolumeEngine::Ring, Some(1)))
                as fn(&mut VolumeShapeArgs),
            |args| (args.engine, args.write_back_every) = (VolumeEngine::Ring, Some(40)),
            |args| args.interval_ms = Some(50),
            |args| args.read_batches = Some(1),
            |args| args.batch = Some(1),
            |args| args.write_batch = Some(1),
        ] {
            let mut args = shape(VolumeEngine::Tao, 1 << 20, 4096);
            edit(&mut args);
            let told = VolumeConfig::new(&args).unwrap_err().to_string();
            assert!(told.contains("is for volumes of the engine"), "{told}");
        }
    }

    #[test]
    fn epochs_come_seldom_where_each_is_charged_for() {
        let interval_ms = |url, said| {
            let args =
                VolumeShapeArgs { interval_ms: said, ..shape(VolumeEngine::Ring, 1 << 30, 4096) };
            let VolumeConfig::Ring(volume) = VolumeConfig::new_at(&args, url).unwrap() else {
                unreachable!()
            };
            volume.epochs.interval_ms
        };
        let usual = interval_ms("file:///x", None);
        assert!(interval_ms("s3://b", None) > 10 * usual);
        assert_eq!(interval_ms("s3://b", Some(50)), 50);
    }

    #[test]
    fn a_volume_and_a_store_of_keys_are_told_apart() {
        let said = |error: Error| error.to_string();
        for engine in ENGINES {
            let volume = VolumeConfig::new(&shape(engine, 1 << 20, 4096)).unwrap().encode();
            let told = said(StoreConfig::decode(&volume).unwrap_err());
            assert!(told.contains("fogbank volume serve"), "{told}");
        }
        let keys = StoreConfig::derive(&ShapeArgs::default(), false).unwrap().encode();
        assert!(said(VolumeConfig::decode(&keys).unwrap_err()).contains("fogbank serve"));
        assert!(
            said(VolumeConfig::decode(b"{\"volume\":\"other\"}").unwrap_err())
                .contains("another version")
        );
    }

    #[test]
    fn a_rate_fits_into_its_ticks() {
        let rate = fixed_rate;
        assert_eq!(rate(1000, 10).unwrap(), Rate { interval: 10_000_000, accesses: 10 });
        for (per_s, tick_ms) in
            [(0, 10), (10, 0), (1, 10), (150, 10), (u64::MAX, 10), (1, 18_000_000_000_000_000_000)]
        {
            assert!(rate(per_s, tick_ms).is_err(), "{per_s} {tick_ms}");
        }
        for (send_mb_s, receive_mb_s, write_behind) in
            [(Some(0.0), None, None), (None, Some(-1.0), None), (None, None, Some(0))]
        {
            let write_behind = write_behind.map(ByteSize);
            let pace = PaceArgs { send_mb_s, receive_mb_s };
            let args = FlowArgs { fixed_rate: None, tick_ms: 10, pace, write_behind };
            assert!(Flow::of(&args).is_err(), "{args:?}");
        }
    }
}
