//! The public configuration of a volume: what was typed, checked, as it stands in the commit
//! record.
//!
//! It is a head that all volumes share, and the tail of the volume's engine (see `engines`).

use std::sync::Arc;

use bytesize::ByteSize;
use fogbank_oram::ImmediateShape;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::flow::Flow;
use crate::args::VolumeShapeArgs;
use crate::disk::disk_size;
use crate::engines::{NewVolume, VolumeEngine, VolumeTail};
use crate::error::{Error, Result};
use crate::link::LinkArgs;
use crate::place::Place;
use crate::plan::lines::{Line, not_known};
use crate::plan::price::prices;
use crate::plan::volume::{VolumePlan, VolumeSite};

/// Blocks of this size or more hold nothing that a file system would want of one.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// What the commit record says of a volume. Public.
#[derive(Debug, Clone)]
pub struct VolumeConfig {
    engine: &'static VolumeEngine,
    shape: VolumeShape,
    tail: Arc<dyn VolumeTail>,
}

/// How large a volume is. Public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeShape {
    /// Blocks.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: usize,
}

impl VolumeShape {
    /// That of `size` bytes in blocks of `block`.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is none.
    pub fn new(size: u64, block: u64) -> Result<Self> {
        if !block.is_power_of_two() || !(512..=BLOCK_BYTES_MAX).contains(&block) {
            return Err(Error::Usage(format!(
                "--block {block}: blocks have 512 B to 1 MiB, and a power of two; 4KiB suits file \
                 systems"
            )));
        }
        if size == 0 || !size.is_multiple_of(block) {
            return Err(Error::Usage(format!(
                "--size {size} is no whole number of blocks of {block} bytes"
            )));
        }
        let blocks = u32::try_from(size / block).map_err(|_| {
            let said = |bytes: u64| ByteSize::b(bytes).display().iec();
            Error::Usage(format!(
                "--size {size}: in blocks of {} a volume is smaller than {}; choose a smaller \
                 --size, or a larger --block",
                said(block),
                said(block << 32)
            ))
        })?;
        Ok(Self { blocks, block_bytes: block as usize })
    }

    /// As engines know it that serve accesses as they come.
    pub(crate) fn of_accesses(self) -> ImmediateShape {
        ImmediateShape { capacity: self.blocks, value_bytes: self.block_bytes }
    }
}

/// With which most commands say where the second cloud is.
pub(crate) const SECOND_STORE_FLAG: &str = "--second-store";

impl VolumeConfig {
    /// Of a new volume at `url`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a shape outside the limits, or a flag that the engine does not know.
    pub fn new(args: &VolumeShapeArgs, url: &str) -> Result<Self> {
        let (engine, shape, flags) =
            (args.engine, VolumeShape::new(args.size.as_u64(), args.block.as_u64())?, &args.flags);
        let second_store = args.second_store.as_deref();
        engine.check_flags(flags)?;
        engine.check_second_store(SECOND_STORE_FLAG, second_store)?;
        let tail = (engine.new)(&NewVolume { shape, flags, url, second_store })?;
        tail.check(shape)?;
        Ok(Self { engine, shape, tail })
    }

    /// The same shape of a new volume at `url`, and in a second cloud if its engine needs one.
    pub(crate) fn placed(self, url: &str, second_store: Option<&str>) -> Result<Self> {
        self.engine.check_second_store(SECOND_STORE_FLAG, second_store)?;
        match self.tail.placed(url, second_store)? {
            Some(tail) => Ok(self.with_tail(tail)),
            None => Ok(self),
        }
    }

    /// The same with another tail of its engine.
    pub(crate) fn with_tail(self, tail: Arc<dyn VolumeTail>) -> Self {
        Self { tail, ..self }
    }

    /// The engine.
    pub fn engine(&self) -> &'static VolumeEngine {
        self.engine
    }

    pub(crate) fn tail(&self) -> &Arc<dyn VolumeTail> {
        &self.tail
    }

    pub(crate) fn shape(&self) -> VolumeShape {
        self.shape
    }

    /// Blocks.
    pub fn blocks(&self) -> u32 {
        self.shape.blocks
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.shape.block_bytes
    }

    /// Bytes of the volume.
    pub fn bytes(&self) -> u64 {
        u64::from(self.blocks()) * self.block_bytes() as u64
    }

    /// How large it is, see [`disk_size`].
    pub fn size(&self) -> String {
        disk_size(self.bytes(), self.block_bytes() as u64)
    }

    /// Says what leaves, in lines of a banner.
    ///
    /// # Errors
    /// [`Error::Usage`] if the shape is outside the engine's limits.
    pub fn traffic(&self, flow: Flow) -> Result<Vec<Line>> {
        self.tail.traffic(self.shape, flow)
    }

    /// Says what the volume costs at `url`, at list prices, in lines of a banner; or why that is
    /// not known.
    pub fn cost(&self, flow: Flow, url: &str) -> Vec<Line> {
        self.tail.cost(self.shape, flow, url).unwrap_or_else(not_known)
    }

    /// Refuses to make the volume in a folder of this machine that has not the room for all of it.
    ///
    /// # Errors
    /// [`Error::Usage`], with what is there.
    pub fn check_room(&self, place: &Place) -> Result<()> {
        let url = place.store_url();
        let (prices, link) = (prices(None, &url)?, LinkArgs::default());
        let site = VolumeSite { url: &url, prices: &prices, second_prices: None, link: &link };
        let bytes = self.plan(Flow::default(), &site)?.storage_bytes;
        place.check_room(bytes, "--size (or --sparse, if room comes later)")
    }

    /// What the volume will need at `site`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the shape is outside the engine's limits.
    pub fn plan(&self, flow: Flow, site: &VolumeSite<'_>) -> Result<VolumePlan> {
        self.tail.plan(self.shape, flow, site)
    }

    /// The configuration as it stands in the commit record.
    pub fn encode(&self) -> Vec<u8> {
        let VolumeShape { blocks, block_bytes } = self.shape;
        let block_bytes = self.tail.block_bytes().is_none().then_some(block_bytes);
        let volume = self.engine.name.to_owned();
        self.tail.encode(&Head { volume, blocks, block_bytes })
    }

    /// Reads what [`VolumeConfig::encode`] wrote.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no volume, or one that this program does not know.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let config = read(bytes).map_err(|why| {
            Error::Usage(match is_of_volume(bytes) {
                true => format!("this volume was made by another version: {why}"),
                false => {
                    "this store holds keys and values, it is no volume; serve it with fogbank serve"
                        .into()
                }
            })
        })?;
        config.tail.check(config.shape)?;
        Ok(config)
    }
}

fn read(bytes: &[u8]) -> std::result::Result<VolumeConfig, String> {
    let said = |e: serde_json::Error| e.to_string();
    let mut tail: Map<String, Value> = serde_json::from_slice(bytes).map_err(said)?;
    let head = HEAD.iter().filter_map(|field| tail.remove_entry(*field)).collect();
    let head: Head = serde_json::from_value(Value::Object(head)).map_err(said)?;
    let engine = VolumeEngine::named(&head.volume);
    let engine = engine.ok_or_else(|| format!("it knows no engine {}", head.volume))?;
    let tail = (engine.decode)(Value::Object(tail)).map_err(said)?;
    match (head.block_bytes, tail.block_bytes()) {
        (Some(block_bytes), None) | (None, Some(block_bytes)) => {
            let shape = VolumeShape { blocks: head.blocks, block_bytes };
            Ok(VolumeConfig { engine, shape, tail })
        }
        _ => Err("the size of a block is said twice, or not at all".into()),
    }
}

/// The head, as it stands in the commit record.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    volume: String,
    blocks: u32,
    /// `None` where the tail says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block_bytes: Option<usize>,
}

const HEAD: [&str; 3] = ["volume", "blocks", "block_bytes"];

/// Writes a commit record's configuration: the head, and `self` as the tail.
pub(crate) trait EncodeRecord {
    fn encode(&self, head: &Head) -> Vec<u8>;
}

impl<T: Serialize> EncodeRecord for T {
    fn encode(&self, head: &Head) -> Vec<u8> {
        #[derive(Serialize)]
        struct Record<'a, T> {
            #[serde(flatten)]
            head: &'a Head,
            #[serde(flatten)]
            tail: &'a T,
        }
        serde_json::to_vec(&Record { head, tail: self }).unwrap_or_default()
    }
}

/// Whether a commit record's configuration claims to be that of a volume.
pub fn is_of_volume(config: &[u8]) -> bool {
    let found: Option<Value> = serde_json::from_slice(config).ok();
    found.is_some_and(|found| found.get("volume").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ShapeArgs;
    use crate::config::StoreConfig;
    use crate::engines::VOLUME_ENGINES;
    use crate::volume::Flags;

    fn of(engine: &str, size: u64, block: u64, flags: Flags) -> Result<VolumeConfig> {
        let engine = VolumeEngine::named(engine).unwrap();
        let (size, block) = (ByteSize(size), ByteSize(block));
        let second_store = engine.has_two_clouds.then(|| "grpc://h:7/t".to_owned());
        let url = if engine.has_two_clouds { "grpc://h:6/t" } else { "file:///x" };
        VolumeConfig::new(&VolumeShapeArgs { size, block, engine, second_store, flags }, url)
    }

    fn usual(engine: &str, size: u64, block: u64) -> Result<VolumeConfig> {
        of(engine, size, block, Flags::default())
    }

    #[test]
    fn what_was_typed_comes_back() {
        for engine in VOLUME_ENGINES {
            let config = usual(engine.name, 1 << 30, 4096).unwrap();
            let again = VolumeConfig::decode(&config.encode()).unwrap();
            assert_eq!((again.bytes(), again.blocks()), (1 << 30, 1 << 18));
            assert_eq!(again.encode(), config.encode());
        }
    }

    /// What stands in the commit records of volumes that were made before heads and tails.
    #[test]
    fn a_volume_of_before_is_read_and_written_as_it_was() {
        let tao = r#"{"volume":"tao","blocks":256,"block_bytes":4096,"bucket_blocks":4,"cache":67108864,"write_back_every":40,"quantum_us":1000}"#;
        let ring = r#"{"volume":"ring","blocks":256,"epochs":{"engine":"ring","capacity":274,"value_size":4096,"read_batches":1,"in_flight":1,"windows":6,"batch":32,"write_batch":32,"interval_ms":100,"cache":67108864,"bucket_reals":100,"bucket_dummies":196,"evict_every":168,"leaf_level":2,"xor":false,"key_budget":5}}"#;
        for (engine, record) in [("tao", tao), ("ring", ring)] {
            let config = VolumeConfig::decode(record.as_bytes()).unwrap();
            assert_eq!(config.encode(), record.as_bytes());
            let made = usual(engine, 1 << 20, 4096).unwrap().encode();
            assert_eq!(String::from_utf8(made).unwrap(), record);
        }
    }

    #[test]
    fn a_record_with_a_field_too_many_or_too_few_is_refused() {
        let record = |tail: &str| {
            let head = r#"{"volume":"tao","blocks":256,"bucket_blocks":4,"cache":1048576"#;
            VolumeConfig::decode(
                format!("{head},\"write_back_every\":40,\"quantum_us\":1000{tail}}}").as_bytes(),
            )
        };
        record(r#","block_bytes":4096"#).unwrap();
        for wrong in ["", r#","block_bytes":4096,"colour":1"#] {
            let told = record(wrong).unwrap_err().to_string();
            assert!(told.contains("another version"), "{told}");
        }
    }

    #[test]
    fn sizes_that_are_none_are_refused() {
        for (size, block) in
            [(0, 4096), (4097, 4096), (1 << 20, 3000), (1 << 20, 256), (1 << 50, 512)]
        {
            for engine in VOLUME_ENGINES {
                let refused = usual(engine.name, size, block);
                assert!(matches!(refused, Err(Error::Usage(_))), "{size} {block}");
            }
        }
        let told = usual("tao", 1 << 50, 512).unwrap_err().to_string();
        assert!(told.contains("smaller than 2.0 TiB; choose a smaller --size"), "{told}");
    }

    #[test]
    fn flags_that_would_do_nothing_are_refused() {
        for engine in VOLUME_ENGINES {
            for flag in VOLUME_ENGINES.iter().flat_map(|engine| engine.flags.iter().copied()) {
                let given = of(engine.name, 1 << 20, 4096, Flags::default().with(flag, 40));
                assert_eq!(given.is_ok(), flag.is_in(engine.flags), "{} {flag:?}", engine.name);
                if let Err(refused) = given {
                    let told = refused.to_string();
                    assert!(told.contains("is for volumes of the engine"), "{told}");
                }
            }
        }
    }

    /// Two engines that know a flag read it alike.
    #[test]
    fn a_flag_is_one_whoever_knows_it() {
        let flags = || VOLUME_ENGINES.iter().flat_map(|engine| engine.flags.iter().copied());
        for flag in flags() {
            let mut namesakes = flags().filter(|other| other.name == flag.name);
            assert!(namesakes.all(|other| std::ptr::eq(other, flag)), "{flag:?}");
        }
    }

    #[test]
    fn a_volume_and_a_store_of_keys_are_told_apart() {
        let said = |error: Error| error.to_string();
        for engine in VOLUME_ENGINES {
            let volume = usual(engine.name, 1 << 20, 4096).unwrap().encode();
            let told = said(StoreConfig::decode(&volume).unwrap_err());
            assert!(told.contains("fogbank volume serve"), "{told}");
        }
        let keys = StoreConfig::derive(&ShapeArgs::default(), false).unwrap().encode();
        assert!(said(VolumeConfig::decode(&keys).unwrap_err()).contains("fogbank serve"));
        for unknown in [r#"{"volume":"other"}"#, r#"{"volume":"other","blocks":1}"#] {
            let told = said(VolumeConfig::decode(unknown.as_bytes()).unwrap_err());
            assert!(told.contains("another version"), "{told}");
        }
    }
}
