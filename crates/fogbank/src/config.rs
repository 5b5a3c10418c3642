//! What the command line means: flags, environment and file become one checked configuration.
//!
//! A flag goes before the environment (clap does that), both before the TOML file, all of them
//! before what the store was created with, and that before the preset. A store keeps the public
//! configuration it was created with in its commit record; whatever is given later must agree.

use std::time::Duration;

use bytesize::ByteSize;
use fogbank_oram::BatchShape;
use fogbank_oram::geometry::{BucketShape, Geometry};
use fogbank_oram::ring::{RingSettings, WINDOWS};
use serde::{Deserialize, Serialize};

use crate::args::{ShapeArgs, Xor};
use crate::engines::ring;
use crate::error::{Error, Result};
use crate::limits::{self, EPOCH_READS_MAX};
use crate::link::LinkArgs;
use crate::plan::Plan;
use crate::plan::time::Machine;
use crate::site::SiteShape;

/// The public configuration of a store, fixed at its creation. Everything in it is known to the
/// cloud.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreConfig {
    /// The engine.
    pub engine: String,
    /// Blocks.
    pub capacity: u32,
    /// Bytes of a value.
    pub value_size: usize,
    /// R.
    pub read_batches: usize,
    /// Read batches under way at once.
    #[serde(default = "one_in_flight")]
    pub in_flight: usize,
    /// Messages of a batch, or of a commit, under way at once.
    #[serde(default = "usual_windows")]
    pub windows: usize,
    /// Reads of a batch.
    pub batch: usize,
    /// Writes of an epoch.
    pub write_batch: usize,
    /// Distance of the points of the grid; 0 is back to back.
    pub interval_ms: u64,
    /// Memory for the top of the tree.
    pub cache: u64,
    /// Z.
    pub bucket_reals: u16,
    /// S.
    pub bucket_dummies: u16,
    /// A.
    pub evict_every: u16,
    /// L.
    pub leaf_level: u8,
    /// Whether a path read is one XORed cell.
    pub xor: bool,
    /// Bytes of the directory's room a block of capacity.
    pub key_budget: usize,
}

impl StoreConfig {
    /// What an epoch does and how long it takes, in words: its batches and its commit begin at
    /// points of the grid, of which `interval_ms` is the distance.
    pub fn epochs(&self) -> String {
        let Self { read_batches, batch, write_batch, .. } = self;
        let when = match self.epoch_ms() {
            0 => "back to back".into(),
            ms => format!("one every {ms} ms"),
        };
        format!("epochs of {read_batches} x {batch} reads and {write_batch} writes, {when}")
    }

    /// Milliseconds of an epoch if the store is near; 0 if epochs run back to back. `plan` knows
    /// what distance adds.
    pub fn epoch_ms(&self) -> u64 {
        let least = (self.read_batches as u64 + 1).saturating_mul(self.interval_ms);
        if least == 0 {
            return 0;
        }
        // A commit of many pieces takes more than one interval.
        let near = Plan::of(self, &LinkArgs::of_round_trip(0.0), &Machine::IDEAL);
        near.map_or(least, |plan| (plan.epoch.total_s * 1e3).round() as u64)
    }

    /// Seconds that epochs still run when the store is closed.
    pub fn closing_s(&self) -> u64 {
        (CLOSING_EPOCHS as u64 + 1) * self.epoch_ms() / 1_000
    }

    /// The configuration of a new store: what is given, the rest derived.
    ///
    /// # Errors
    /// [`Error::Usage`] naming what is out of its limits.
    pub fn derive(args: &ShapeArgs, xor_offered: bool) -> Result<Self> {
        Self::derive_at(args, xor_offered, false)
    }

    /// The same for a store that may lie `across_a_link`: there, combined cells save what it
    /// carries.
    ///
    /// # Errors
    /// As [`StoreConfig::derive`].
    pub fn derive_at(args: &ShapeArgs, xor_offered: bool, across_a_link: bool) -> Result<Self> {
        let preset = args.preset.unwrap_or_default().shape();
        let shape = BatchShape {
            capacity: args.capacity.unwrap_or(preset.capacity),
            value_bytes: args.value_size.unwrap_or(preset.value_size).as_u64() as usize,
            read_batch: args.batch.unwrap_or(preset.batch),
            write_batch: args.write_batch.unwrap_or(preset.write_batch),
        };
        let read_batches = args.read_batches.unwrap_or(preset.read_batches);
        // The buckets follow from these.
        check_blocks(shape.capacity, shape.value_bytes)?;
        check_epoch(read_batches, shape.read_batch, shape.write_batch)?;
        let bucket = bucket_shape(args, &shape, read_batches)?;
        let least = bucket.leaf_level(shape.capacity);
        let config = Self {
            engine: ring::NAME.into(),
            capacity: shape.capacity,
            value_size: shape.value_bytes,
            read_batches,
            in_flight: args.in_flight.unwrap_or(one_in_flight()),
            windows: args.windows.unwrap_or(WINDOWS),
            batch: shape.read_batch,
            write_batch: shape.write_batch,
            interval_ms: args.interval_ms.unwrap_or(preset.interval_ms),
            cache: args.cache.unwrap_or(preset.cache).as_u64(),
            bucket_reals: bucket.reals,
            bucket_dummies: bucket.dummies,
            evict_every: bucket.evict_every,
            leaf_level: args.leaf_level.map_or(least, |level| level.min(255) as u8),
            xor: xor(args.xor, xor_offered, across_a_link)?,
            key_budget: 64,
        };
        config.check()?;
        Ok(config)
    }

    /// All of it as flags: whatever a new store would derive otherwise is given.
    pub fn shape(&self) -> ShapeArgs {
        ShapeArgs {
            preset: None,
            capacity: Some(self.capacity),
            value_size: Some(ByteSize::b(self.value_size as u64)),
            read_batches: Some(self.read_batches),
            in_flight: Some(self.in_flight),
            windows: Some(self.windows),
            batch: Some(self.batch),
            write_batch: Some(self.write_batch),
            interval_ms: Some(self.interval_ms),
            cache: Some(ByteSize::b(self.cache)),
            bucket_reals: Some(self.bucket_reals),
            bucket_dummies: Some(self.bucket_dummies),
            evict_every: Some(self.evict_every.into()),
            leaf_level: Some(self.leaf_level.into()),
            xor: Some(if self.xor { Xor::On } else { Xor::Off }),
        }
    }

    /// The same for another capacity: what was derived from it is derived anew, what was chosen
    /// stays.
    ///
    /// # Errors
    /// [`Error::Usage`] if the capacity is out of its limits.
    pub fn with_capacity(&self, capacity: u32) -> Result<Self> {
        let derived = |capacity| {
            let shape = BatchShape { capacity, ..self.ring_settings().shape };
            bucket_shape(&ShapeArgs::default(), &shape, self.read_batches)
        };
        let before = BucketShape::new(self.bucket_reals, self.bucket_dummies, self.evict_every);
        let bucket = if derived(self.capacity)? == before { derived(capacity)? } else { before };
        let higher = self.leaf_level.saturating_sub(before.leaf_level(self.capacity));
        let config = Self {
            capacity,
            bucket_reals: bucket.reals,
            bucket_dummies: bucket.dummies,
            evict_every: bucket.evict_every,
            leaf_level: bucket.leaf_level(capacity).saturating_add(higher),
            ..self.clone()
        };
        config.check()?;
        Ok(config)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.engine != ring::NAME {
            let engine = &self.engine;
            return Err(Error::Usage(format!(
                "this store was made by another version of fogbank: there is no engine {engine}"
            )));
        }
        check_blocks(self.capacity, self.value_size)?;
        check_epoch(self.read_batches, self.batch, self.write_batch)?;
        limits::check("--in-flight", self.in_flight, 1..=self.read_batches)?;
        limits::check("--windows", self.windows, limits::WINDOWS)?;
        limits::check("--interval-ms", self.interval_ms, limits::INTERVAL_MS)?;
        check_epoch_ms(self)?;
        limits::check("--bucket-reals", self.bucket_reals, limits::BUCKET_REALS)?;
        limits::check("--bucket-dummies", self.bucket_dummies, limits::BUCKET_DUMMIES)?;
        limits::check("--evict-every", self.evict_every.into(), limits::EVICT_EVERY)?;
        self.check_leaf_level()?;
        self.geometry().map(drop)
    }

    /// A higher tree than the model asks for wastes cells, a lower one loses the stash bound.
    fn check_leaf_level(&self) -> Result<()> {
        let bucket = BucketShape::new(self.bucket_reals, self.bucket_dummies, self.evict_every);
        let (least, most) = (bucket.leaf_level(self.capacity).into(), *limits::LEAF_LEVEL.end());
        if least > most {
            return Err(Error::Usage(format!(
                "--capacity {} with --evict-every {} takes more than {} levels; give fewer \
                 records, or evict less often",
                self.capacity,
                self.evict_every,
                most + 1
            )));
        }
        limits::check("--leaf-level", self.leaf_level.into(), least..=most)
    }

    /// Refuses what nobody can write to.
    pub(crate) fn check_served(&self) -> Result<()> {
        limits::check("--write-batch", self.write_batch, limits::WRITE_BATCH_SERVED)
    }

    /// Holds `args` against the configuration of an existing store.
    ///
    /// # Errors
    /// [`Error::Usage`] naming every setting that differs, with both values.
    pub fn agree(&self, args: &ShapeArgs) -> Result<()> {
        let preset = args.preset.map_or_else(String::new, |preset| {
            let settings = preset.settings().flags().join(" ");
            format!(" (--preset {} stands for {settings})", preset.name())
        });
        let args = &args.clone().spelled_out();
        let mut differing = Vec::new();
        let mut compare = |flag: &str, created: u64, asked: Option<u64>| {
            if let Some(asked) = asked.filter(|asked| *asked != created) {
                differing.push(format!("{flag} {asked} (created with {created})"));
            }
        };
        compare("--capacity", self.capacity.into(), args.capacity.map(u64::from));
        compare("--value-size", self.value_size as u64, args.value_size.map(|v| v.as_u64()));
        compare("--read-batches", self.read_batches as u64, args.read_batches.map(|v| v as u64));
        compare("--in-flight", self.in_flight as u64, args.in_flight.map(|v| v as u64));
        compare("--windows", self.windows as u64, args.windows.map(|v| v as u64));
        compare("--batch", self.batch as u64, args.batch.map(|v| v as u64));
        compare("--write-batch", self.write_batch as u64, args.write_batch.map(|v| v as u64));
        compare("--interval-ms", self.interval_ms, args.interval_ms);
        compare("--cache", self.cache, args.cache.map(|v| v.as_u64()));
        compare("--bucket-reals", self.bucket_reals.into(), args.bucket_reals.map(u64::from));
        compare("--bucket-dummies", self.bucket_dummies.into(), args.bucket_dummies.map(u64::from));
        compare("--evict-every", self.evict_every.into(), args.evict_every.map(u64::from));
        compare("--leaf-level", self.leaf_level.into(), args.leaf_level.map(u64::from));
        if args.xor.is_some_and(|asked| asked != Xor::Auto && (asked == Xor::On) != self.xor) {
            differing.push("--xor".into());
        }
        if differing.is_empty() {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "this store was created with other settings: {}{preset}. Leave them out, or choose \
             another --data directory for a new store",
            differing.join(", ")
        )))
    }

    /// The geometry of the tree.
    ///
    /// # Errors
    /// [`Error::Usage`] if the shape is out of the engine's limits.
    pub fn geometry(&self) -> Result<Geometry> {
        let bucket = BucketShape::new(self.bucket_reals, self.bucket_dummies, self.evict_every);
        let (blocks, bytes) = (self.capacity, self.value_size);
        Geometry::with_leaf_level(blocks, bytes, bucket, self.cache, self.leaf_level)
            .map_err(|e| Error::Usage(e.to_string()))
    }

    /// Cells an epoch would move at the most if nothing were held until its end: every access reads
    /// a path and pays its share of evictions and early reshuffles. The schedule of full
    /// checkpoints follows from it; what is really moved says [`crate::traffic`].
    pub fn cells_per_epoch(&self) -> f64 {
        let bucket = BucketShape::new(self.bucket_reals, self.bucket_dummies, self.evict_every);
        let stored = f64::from(self.geometry().map_or(0, |g| g.stored_levels()));
        let reads = (self.read_batches * self.batch) as f64;
        let path = if self.xor { 1.0 } else { stored };
        let accesses = reads + self.write_batch as f64;
        reads * path + accesses * stored * bucket.offline_slots_per_level()
    }

    /// Bytes of a sealed cell.
    pub fn cell_bytes(&self) -> usize {
        fogbank_oram::geometry::cell_bytes(self.value_size)
    }

    /// What the engine is made with.
    pub fn ring_settings(&self) -> RingSettings {
        let shape = BatchShape {
            capacity: self.capacity,
            value_bytes: self.value_size,
            read_batch: self.batch,
            write_batch: self.write_batch,
        };
        let mut settings = RingSettings::new(shape, self.read_batches);
        settings.bucket =
            Some(BucketShape::new(self.bucket_reals, self.bucket_dummies, self.evict_every));
        settings.leaf_level = Some(self.leaf_level);
        settings.cache_bytes = self.cache;
        settings.xor = self.xor;
        settings.windows = self.windows;
        // What a recovery needs: the log of every epoch, and the buckets of the epoch before.
        settings.log_epochs = true;
        settings.keep_superseded = true;
        settings
    }

    /// The unit of the times at which messages leave: the interval, or the smallest part of it,
    /// down to a tenth, that leaves room for the work before a message.
    pub fn departure_quantum(&self) -> Duration {
        Duration::from_millis(self.interval_ms) / self.parts()
    }

    /// How many parts an interval has: in ten a commit ends before the next point. Whole ones, so
    /// that a reply is never handed over just before a point.
    fn parts(&self) -> u32 {
        let interval = Duration::from_millis(self.interval_ms);
        let room = fogbank_txn::Settings::quantum_for(&self.ring_settings().shape);
        // A message of images, or an image that is longer, is sealed in a quantum and a half.
        let room = room.max(self.sealing_of_an_image());
        let whole = |parts: &u32| interval.as_nanos().is_multiple_of(u128::from(*parts));
        (2..=10).rev().filter(whole).find(|parts| interval / *parts >= room).unwrap_or(1)
    }

    /// What sealing an image takes on a core that is free: 300 microseconds and 1.5 ns a byte, of
    /// which 1 ns is the cipher's.
    fn sealing_of_an_image(&self) -> Duration {
        let bytes = self.geometry().map_or(0, |geometry| geometry.chunk_bytes());
        Duration::from_micros(300) + Duration::from_nanos(bytes as u64 * 3 / 2)
    }

    /// What the epochs run by.
    pub fn proxy_settings(&self) -> fogbank_txn::Settings {
        fogbank_txn::Settings {
            read_batches: self.read_batches,
            in_flight: self.in_flight,
            interval: Duration::from_millis(self.interval_ms),
            slack: fogbank_txn::Settings::slack_for(&self.ring_settings().shape),
            closing_epochs: CLOSING_EPOCHS,
            key_budget_bytes: self.key_budget,
            ..fogbank_txn::Settings::default()
        }
    }

    /// The JSON that stands in the commit record.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads what [`StoreConfig::encode`] wrote.
    ///
    /// # Errors
    /// [`Error::Usage`] if this program does not know some setting in it.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let config: Self = serde_json::from_slice(bytes).map_err(|e| {
            Error::Usage(match crate::volume::is_of_volume(bytes) {
                true => {
                    "this is a volume, a disk and no store of keys and values: fogbank volume serve, fogbank mount".into()
                }
                false if SiteShape::of(bytes).is_some() => {
                    "this is of a site, which many clients share: fogbank site restore".into()
                }
                false => format!("this store was made by another version of fogbank: {e}"),
            })
        })?;
        // It is only claimed, and sizes follow from it.
        config.check()?;
        Ok(config)
    }
}

fn usual_windows() -> usize {
    WINDOWS
}

/// What stores have that were created before there was a choice.
fn one_in_flight() -> usize {
    1
}

fn bucket_shape(args: &ShapeArgs, shape: &BatchShape, read_batches: usize) -> Result<BucketShape> {
    let accesses = read_batches * shape.read_batch + shape.write_batch;
    let chosen = BucketShape::choose(shape, accesses);
    let Some(reals) = args.bucket_reals else {
        let dummies = args.bucket_dummies.unwrap_or(chosen.dummies);
        return Ok(BucketShape::new(chosen.reals, dummies, rate(args, chosen.evict_every)?));
    };
    limits::check("--bucket-reals", reals, limits::BUCKET_REALS)?;
    let evict_every = rate(args, BucketShape::largest_proven_rate(reals))?;
    let published =
        BucketShape::PROVEN.iter().find(|b| (b.reals, b.evict_every) == (reals, evict_every));
    let best =
        || published.map_or_else(|| BucketShape::best_dummies(reals, evict_every), |b| b.dummies);
    Ok(BucketShape::new(reals, args.bucket_dummies.unwrap_or_else(best), evict_every))
}

fn rate(args: &ShapeArgs, otherwise: u16) -> Result<u16> {
    let Some(asked) = args.evict_every else { return Ok(otherwise) };
    limits::check("--evict-every", asked, limits::EVICT_EVERY)?;
    Ok(asked as u16)
}

fn xor(asked: Option<Xor>, offered: bool, across_a_link: bool) -> Result<bool> {
    match asked.unwrap_or(Xor::Auto) {
        // An embedded store has no link whose bytes it could save.
        Xor::Auto => Ok(offered && across_a_link),
        Xor::Off => Ok(false),
        Xor::On if offered => Ok(true),
        Xor::On => Err(Error::Usage("--xor on: this store does not combine cells".into())),
    }
}

/// Epochs that a store still runs for what was accepted when it is told to stop. Public: as many
/// whether anybody waits or not.
const CLOSING_EPOCHS: usize = 4;

fn check_blocks(capacity: u32, value_bytes: usize) -> Result<()> {
    limits::check("--capacity", capacity, limits::CAPACITY)?;
    limits::check("--value-size", ByteSize::b(value_bytes as u64), limits::VALUE_SIZE)
}

/// What an epoch reads and writes.
fn check_epoch(read_batches: usize, batch: usize, write_batch: usize) -> Result<()> {
    limits::check("--read-batches", read_batches, limits::READ_BATCHES)?;
    limits::check("--batch", batch, limits::BATCH)?;
    limits::check("--write-batch", write_batch, limits::WRITE_BATCH)?;
    if read_batches * batch > EPOCH_READS_MAX {
        return Err(Error::Usage(format!(
            "--read-batches {read_batches} of --batch {batch} are more than {EPOCH_READS_MAX} \
             reads an epoch; give fewer or smaller batches"
        )));
    }
    Ok(())
}

/// How long an epoch may take: a stop waits for some.
fn check_epoch_ms(config: &StoreConfig) -> Result<()> {
    if config.epoch_ms() <= limits::EPOCH_MS_MAX {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--read-batches {} at --interval-ms {} make epochs of more than two hours; give fewer \
         batches, or a shorter interval",
        config.read_batches, config.interval_ms
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    fn derive(edit: impl FnOnce(&mut ShapeArgs)) -> Result<StoreConfig> {
        let mut args = ShapeArgs::default();
        edit(&mut args);
        StoreConfig::derive(&args, false)
    }

    #[test]
    fn small_stores_get_small_buckets() {
        let reals = |capacity| derive(|a| a.capacity = Some(capacity)).unwrap().bucket_reals;
        assert!(reals(1) <= 4);
        assert!(reals(10) <= 32);
    }

    #[test]
    fn between_two_points_an_image_can_be_sealed() {
        let of = |kib| {
            derive(|a| {
                (a.value_size, a.interval_ms) = (Some(bytesize::ByteSize::kib(kib)), Some(60));
            })
            .unwrap()
        };
        for kib in [1, 16, 256] {
            let config = of(kib);
            assert!(config.departure_quantum() >= config.sealing_of_an_image(), "{kib}");
        }
        assert!(of(256).departure_quantum() > of(1).departure_quantum());
    }

    #[test]
    fn a_store_keeps_its_configuration_and_names_what_differs() {
        let config = derive(|a| a.capacity = Some(5_000)).unwrap();
        assert_eq!(StoreConfig::decode(&config.encode()).unwrap(), config);
        config.agree(&ShapeArgs::default()).unwrap();
        config.agree(&ShapeArgs { capacity: Some(5_000), ..Default::default() }).unwrap();
        let other = ShapeArgs { capacity: Some(6_000), batch: Some(1), ..Default::default() };
        let told = config.agree(&other).unwrap_err().to_string();
        for part in ["--capacity 6000 (created with 5000)", "--batch 1", "--data"] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn a_store_of_an_engine_that_is_not_known_is_refused() {
        let config = StoreConfig { engine: "other".into(), ..derive(|_| ()).unwrap() };
        let told = StoreConfig::decode(&config.encode()).unwrap_err().to_string();
        assert!(told.contains("another version") && told.contains("engine other"), "{told}");
    }

    #[test]
    fn a_preset_is_what_is_not_given_and_must_agree_as_if_it_were() {
        let busy = ShapeArgs { preset: Some(Preset::Busy), ..Default::default() };
        let few = ShapeArgs { capacity: Some(5_000), ..busy.clone() };
        let config = StoreConfig::derive(&few, false).unwrap();
        assert_eq!((config.capacity, config.batch), (5_000, Preset::Busy.shape().batch));
        config.agree(&few).unwrap();
        config.agree(&ShapeArgs::default()).unwrap();
        let told = config.agree(&busy).unwrap_err().to_string();
        for part in ["--capacity 1000000 (created with 5000)", "--preset busy stands for"] {
            assert!(told.contains(part), "{told}");
        }
        let small = ShapeArgs { preset: Some(Preset::Small), ..few };
        assert!(config.agree(&small).unwrap_err().to_string().contains("--batch"));
    }

    #[test]
    fn a_shape_that_leaves_nothing_open_gives_the_same_configuration() {
        for (capacity, xor) in [(10, Xor::Off), (500_000, Xor::On)] {
            let args = ShapeArgs { capacity: Some(capacity), xor: Some(xor), ..Default::default() };
            let mut config = StoreConfig::derive(&args, true).unwrap();
            assert_eq!(StoreConfig::derive(&config.shape(), true).unwrap(), config);
            (config.cache, config.leaf_level) = (0, config.leaf_level + 1);
            assert_eq!(StoreConfig::derive(&config.shape(), true).unwrap(), config);
        }
    }

    #[test]
    fn another_capacity_keeps_what_was_chosen() {
        let small = derive(|a| a.capacity = Some(10)).unwrap();
        let large = derive(|a| a.capacity = Some(500_000)).unwrap();
        assert_ne!(small.bucket_reals, large.bucket_reals);
        assert_eq!(small.with_capacity(500_000).unwrap(), large);
        assert_eq!(large.with_capacity(10).unwrap(), small);
        let chosen = |capacity| {
            derive(|a| (a.capacity, a.bucket_reals) = (Some(capacity), Some(4))).unwrap()
        };
        assert_eq!(chosen(500).with_capacity(500_000).unwrap(), chosen(500_000));
        let capacity = small.with_capacity(0).unwrap_err().to_string();
        assert!(capacity.contains("capacity"), "{capacity}");
    }

    #[test]
    fn cells_are_combined_where_a_link_lies_between_unless_said_otherwise() {
        let combined = |asked, offered, link| {
            let args = ShapeArgs { xor: asked, ..ShapeArgs::default() };
            StoreConfig::derive_at(&args, offered, link).map(|config| config.xor).ok()
        };
        for asked in [None, Some(Xor::Auto)] {
            assert_eq!(combined(asked, true, true), Some(true));
            assert_eq!(combined(asked, false, true), Some(false));
            assert_eq!(combined(asked, true, false), Some(false));
        }
        assert_eq!(combined(Some(Xor::Off), true, true), Some(false));
        assert_eq!(combined(Some(Xor::On), true, false), Some(true));
        assert_eq!(combined(Some(Xor::On), false, true), None);
    }

    #[test]
    fn what_is_out_of_its_limits_is_named() {
        for (edit, part) in [
            ((|a| a.capacity = Some(0)) as fn(&mut ShapeArgs), "--capacity 0 is outside"),
            (|a| a.value_size = Some(ByteSize::gib(1)), "--value-size"),
            (|a| a.batch = Some(0), "--batch"),
            (|a| a.read_batches = Some(0), "--read-batches"),
            (|a| a.bucket_reals = Some(0), "--bucket-reals"),
            (|a| a.evict_every = Some(70_000), "--evict-every"),
            (|a| a.leaf_level = Some(2), "--leaf-level 2 is outside"),
            (|a| a.xor = Some(Xor::On), "--xor"),
            (|a| a.interval_ms = Some(u64::MAX), "--interval-ms"),
        ] {
            let told = derive(edit).unwrap_err().to_string();
            assert!(told.contains(part), "{told}");
        }
    }

    /// The slack was two milliseconds whatever the batches: too short for the collection of large
    /// ones, so that a full write batch made a send late and an empty one did not.
    #[test]
    fn the_slack_grows_with_the_batches() {
        let slack = |batch, write_batch| {
            let config = derive(|a| (a.batch, a.write_batch) = (Some(batch), Some(write_batch)));
            config.unwrap().proxy_settings().slack
        };
        assert_eq!(slack(1000, 16), Duration::from_micros(7_500));
        assert_eq!(slack(16, 2000), Duration::from_micros(12_500));
    }
}
