//! What is measured of every figure alike, and the named settings of the papers: all of them are
//! here.
//!
//! | setting | what it is |
//! |---|---|
//! | `obladi-micro` | 100,000 objects in memory; batches of 1 to 2,000, epochs of 1 to 32 batches |
//! | `obladi-lan` | 0.3 ms between proxy and store |
//! | `obladi-wan` | 10 ms |
//! | `obladi-dynamo` | a read takes 1 ms, a write 3 ms |
//!
//! Those of TaoStore's paper (`tao-wan`, `tao-dc`, `tao-k`, `tao-cache`) are profiles of `bench
//! volume`.

use std::sync::Arc;

use crate::args::{BenchPaperArgs, ShapeArgs};
use fogbank::config::StoreConfig;
use fogbank::link::LinkArgs;
use fogbank::{Error, Result};
use fogbank_env::{Clock, Randomness, SystemClock};
use fogbank_terminal::bar;
use indicatif::ProgressBar;

use super::published::{DUMMY, DYNAMO, OfStore, SERVER, WAN};
use crate::bench::driver::default_shape;

/// Objects of the microbenchmarks.
pub const OBJECTS: u32 = 100_000;
/// Fewer make no tree.
const OBJECTS_MIN: u32 = 64;
/// Reads of a batch, and writes of an epoch, where neither is varied.
pub const BATCH: usize = 500;
/// Batches of an epoch where they are not varied.
pub const BATCHES: usize = 8;
/// Seconds of a round, and before it.
const SECONDS: f64 = 3.0;
const RAMP: f64 = 1.0;

/// A store of Obladi's paper.
pub struct Site {
    /// Its name there; ours for what there is a `dummy`, since cells are always verified.
    pub name: &'static str,
    /// The setting's.
    pub profile: &'static str,
    /// The way to it.
    pub link: LinkArgs,
    /// What the paper tells of it.
    pub told: OfStore,
}

/// All stores, by distance.
pub fn sites() -> [Site; 4] {
    let dynamo = LinkArgs { read_ms: 1.0, write_ms: 3.0, ..LinkArgs::default() };
    [
        Site { name: "memory", profile: "obladi-micro", link: LinkArgs::default(), told: DUMMY },
        lan(),
        Site { name: "dynamo", profile: "obladi-dynamo", link: dynamo, told: DYNAMO },
        wan(),
    ]
}

/// A server next to the proxy.
pub fn lan() -> Site {
    let link = LinkArgs::of_round_trip(0.3);
    Site { name: "server", profile: "obladi-lan", link, told: SERVER }
}

/// A server far from it.
pub fn wan() -> Site {
    let link = LinkArgs::of_round_trip(10.0);
    Site { name: "server WAN", profile: "obladi-wan", link, told: WAN }
}

impl Site {
    /// What stands below its bar.
    pub fn place(&self) -> String {
        match (self.link.rtt_ms, self.link.read_ms) {
            (0.0, 0.0) => self.name.into(),
            (0.0, read) => format!("{} ({read} and {} ms)", self.name, self.link.write_ms),
            (rtt, _) => format!("{} ({rtt} ms)", self.name),
        }
    }
}

/// All settings in words.
pub fn sites_words() -> String {
    let words = |site: Site| format!("{} is {}", site.name, site.profile);
    sites().map(words).join(", ")
}

/// How everything is measured.
#[derive(Clone)]
pub struct Ask {
    /// The share of the paper's sizes, if one was asked for.
    pub scale: Option<f64>,
    /// Seconds of a round.
    pub seconds: f64,
    /// Seconds before it.
    pub ramp: f64,
    /// Both, as far as they were typed.
    typed: (Option<f64>, Option<f64>),
    /// Rounds.
    pub rounds: usize,
    /// Of everything that is drawn.
    pub seed: u64,
    /// What was typed of the engine's shape.
    pub shape: ShapeArgs,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Ask {
    /// Of what was typed.
    ///
    /// # Errors
    /// [`Error::Usage`] for what cannot be measured.
    pub fn of(args: &BenchPaperArgs) -> Result<Self> {
        let usage = |words: String| Err(Error::Usage(words));
        if args.shape.read_batches.is_some() || args.shape.interval_ms.is_some() {
            return usage("each figure sets --read-batches and --interval-ms itself".into());
        }
        if args.shape.in_flight.is_some_and(|batches| batches > 1) {
            return usage(
                "some figures have epochs of one batch, so no more can be under way: leave --in-flight out".into(),
            );
        }
        let ask = Self {
            scale: args.scale,
            seconds: args.seconds.unwrap_or(SECONDS),
            ramp: args.ramp.unwrap_or(RAMP),
            typed: (args.seconds, args.ramp),
            rounds: args.rounds,
            seed: args.seed,
            shape: args.shape.clone(),
            clock: Arc::new(SystemClock::new()),
        };
        // What is wrong with a shape is said before the first figure has taken its time.
        ask.engine(ask.objects(OBJECTS, 1.0), 1, ask.batch(), ask.writes())?;
        Ok(ask)
    }

    /// The scale, of figures that usually have `usual`.
    pub fn scale_or(&self, usual: f64) -> f64 {
        self.scale.unwrap_or(usual)
    }

    /// The same for what takes longer, unless it was typed how long.
    pub fn lasting(&self, seconds: f64, ramp: f64) -> Self {
        let (typed, typed_ramp) = self.typed;
        Self { seconds: typed.unwrap_or(seconds), ramp: typed_ramp.unwrap_or(ramp), ..self.clone() }
    }

    /// Seconds of a round, of what is otherwise measured until it is done.
    pub fn seconds_typed(&self) -> Option<f64> {
        self.typed.0
    }

    /// The randomness of what has the number `part`.
    pub fn randomness(&self, part: u64) -> Randomness {
        Randomness::repeatable(self.seed).split(part)
    }

    /// How long and how often, in words.
    pub fn rounds_words(&self) -> String {
        format!("median of {} rounds of {} s after {} s", self.rounds, self.seconds, self.ramp)
    }

    /// Shows how far a figure is, of so many measurements.
    pub fn steps(&self, figure: &'static str, points: usize) -> ProgressBar {
        let steps = bar(format!("figure {figure}"));
        steps.set_length((points * self.rounds) as u64);
        steps.tick(); // engines are loaded first
        steps
    }

    /// The objects of the microbenchmarks.
    pub fn objects(&self, of_paper: u32, usual: f64) -> u32 {
        let scaled = (f64::from(of_paper) * self.scale_or(usual)).round() as u32;
        self.shape.capacity.unwrap_or(scaled).max(OBJECTS_MIN)
    }

    /// An engine of the microbenchmarks: epochs of so many batches of `batch` and `writes` writes,
    /// as large as the objects allow, since no epoch asks for one twice.
    ///
    /// # Errors
    /// [`Error::Usage`] for a shape outside the engine's limits.
    pub fn engine(
        &self,
        objects: u32,
        batches: usize,
        batch: usize,
        writes: usize,
    ) -> Result<StoreConfig> {
        StoreConfig::derive(&self.engine_shape(objects, batches, batch, writes), false)
    }

    /// Its shape.
    pub fn engine_shape(
        &self,
        objects: u32,
        batches: usize,
        batch: usize,
        writes: usize,
    ) -> ShapeArgs {
        let most = |asked: usize, parts: usize| asked.min(objects as usize / parts.max(1)).max(1);
        let mut shape = ShapeArgs {
            capacity: Some(objects),
            read_batches: Some(batches),
            batch: Some(most(batch, batches)),
            write_batch: Some(if writes == 0 { 0 } else { most(writes, 1) }),
            // No grid: what is measured is how fast one batch can follow the other.
            interval_ms: Some(0),
            ..self.shape.clone()
        };
        if shape.bucket_reals.is_none() {
            // The paper's Z with its S and A.
            shape.bucket_reals = Some(100);
            shape.bucket_dummies.get_or_insert(196);
            shape.evict_every.get_or_insert(168);
        }
        default_shape(&mut shape);
        shape
    }

    /// Reads of a batch where they are not varied.
    pub fn batch(&self) -> usize {
        self.shape.batch.unwrap_or(BATCH)
    }

    /// Writes of an epoch where they are not varied.
    pub fn writes(&self) -> usize {
        self.shape.write_batch.unwrap_or(BATCH)
    }

    /// An engine's shape in words.
    pub fn engine_words(&self, config: &StoreConfig) -> String {
        format!(
            "{} objects of {} B, Z = {}, S = {}, A = {}, cache {} B",
            config.capacity,
            config.value_size,
            config.bucket_reals,
            config.bucket_dummies,
            config.evict_every,
            config.cache
        )
    }

    /// What differs from the paper's 100,000 objects and batches of 500.
    pub fn engine_differs(&self, config: &StoreConfig) -> Vec<String> {
        let mut differs = Vec::new();
        if config.capacity != OBJECTS {
            differs.push(format!("{} objects instead of {OBJECTS}", config.capacity));
        }
        if config.read_batches > 1 && config.batch != BATCH {
            differs.push(format!("batches of {} instead of {BATCH}", config.batch));
        }
        if config.bucket_reals != 100 {
            differs.push(format!("buckets of Z = {} instead of 100", config.bucket_reals));
        }
        differs
    }
}
