//! `fogbank bench paper`: Obladi's figure of merit, how much faster a parallel engine is than the
//! canonical sequential one at the same distance from its store (sections 7 and 11 of the paper).
//!
//! Both engines are ours, have buckets of one shape and no journal, and run over stores in memory at the
//! far end of the same link:
//!
//! 1. *parallel*: epochs of R batches, a message a batch, buckets written once an epoch;
//! 2. *sequential*: one access at a time; every cell read and every bucket written is a round trip, and
//!    a bucket is written as soon as it is rewritten. Deletions and barriers cost it nothing.
//! 3. *sequential by paths*: the same, but what an access reads is one round trip, and so is what it
//!    writes.
//!
//! The sequential ones run for whole rounds of A accesses, so that each has its share of evictions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_oram::ring::RingEngine;
use fogbank_store::{
    Call, Cell, CellReads, Delay, Link, MemoryStore, Reply, Store, StoreError, store_by_calls,
};
use serde_json::json;

use super::driver::{Driver, default_shape};
use super::engine::keys;
use fogbank::Result;
use fogbank::args::{BenchPaperArgs, ShapeArgs};
use fogbank::config::StoreConfig;
use fogbank::link::LinkArgs;

/// Round trips of the paper's stores in milliseconds, and its speed-ups there.
const PAPER: [(&str, f64, f64); 3] =
    [("server", 0.3, 12.0), ("DynamoDB", 1.0 / 3.0, 51.0), ("WAN", 10.0, 510.0)];

/// Runs the benchmark and prints its figures.
///
/// # Errors
/// [`fogbank::Error::CheckFailed`] if a value read is not the one written.
pub async fn run(mut args: BenchPaperArgs) -> Result<()> {
    default_shape(&mut args.shape);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let randomness = Randomness::repeatable(args.seed);
    let parallel = StoreConfig::derive(&args.shape, false)?;
    let one = ShapeArgs {
        batch: Some(1),
        write_batch: Some(1),
        bucket_reals: Some(parallel.bucket_reals),
        bucket_dummies: Some(parallel.bucket_dummies),
        evict_every: Some(parallel.evict_every.into()),
        ..args.shape.clone()
    };
    let one = StoreConfig::derive(&one, false)?;
    eprintln!("loading two engines with {} records", parallel.capacity);
    let mut fast = Lane::load(&parallel, true, (&clock, &randomness)).await?;
    let mut slow = Lane::load(&one, false, (&clock, &randomness)).await?;
    let mut rows = Vec::new();
    for (name, rtt_ms, paper) in PAPER {
        eprintln!("measuring at {rtt_ms:.2} ms");
        let link = LinkArgs::of_round_trip(rtt_ms).link()?;
        let parallel = fast.accesses_per_s(link, false, args.seconds).await?;
        let [sequential, by_paths] =
            [slow.round_per_s(&one, link, true).await?, slow.round_per_s(&one, link, false).await?];
        println!(
            "{name:<9} {rtt_ms:>6.2} ms: {parallel:>9.0} accesses/s, one at a time {sequential:.1} \
             ({:.0}x; the paper: {paper:.0}x), by paths {by_paths:.1} ({:.0}x)",
            parallel / sequential,
            parallel / by_paths
        );
        rows.push(json!({
            "rtt_ms": rtt_ms,
            "accesses_per_s_parallel": parallel,
            "accesses_per_s_sequential": sequential,
            "accesses_per_s_by_paths": by_paths,
            "speed_up": parallel / sequential,
            "speed_up_over_paths": parallel / by_paths,
            "speed_up_of_paper": paper,
        }));
    }
    if args.json {
        println!(
            "{}",
            json!({ "capacity": parallel.capacity, "batch": parallel.batch, "links": rows })
        );
    }
    Ok(())
}

/// An engine over its own store at the far end of its own link.
struct Lane {
    driver: Driver,
    far: Arc<Delay<Arc<MemoryStore>>>,
    steps: Arc<StepByStep<Arc<Delay<Arc<MemoryStore>>>>>,
}

impl Lane {
    async fn load(
        config: &StoreConfig,
        buffered: bool,
        (clock, randomness): (&Arc<dyn Clock>, &Randomness),
    ) -> Result<Self> {
        let near = Arc::new(MemoryStore::new());
        let stream = randomness.stream(Purpose::Faults);
        let far = Delay::new(near.clone(), clock.clone(), Link::instant(), stream);
        let far = Arc::new(far);
        let steps = Arc::new(StepByStep { inner: far.clone(), near, is_on: false.into() });
        let mut settings = config.ring_settings();
        (settings.log_epochs, settings.keep_superseded) = (false, false);
        settings.epoch_buffer = buffered;
        let store: Arc<dyn Store> = if buffered { far.clone() } else { steps.clone() };
        let engine = RingEngine::create(store, keys()?, settings, randomness).await?;
        let mut driver = Driver::new(engine, None, config, (clock, randomness));
        driver.load().await?;
        driver.warm_up().await?;
        Ok(Self { driver, far, steps })
    }

    async fn accesses_per_s(&mut self, link: Link, steps: bool, seconds: f64) -> Result<f64> {
        self.steps.is_on.store(steps, Ordering::Relaxed);
        self.far.set_link(link);
        let measured = self.driver.measure(seconds).await?;
        Ok(measured.stats.accesses as f64 / measured.wall_s)
    }

    /// As many accesses as there are from one eviction to the next.
    async fn round_per_s(&mut self, config: &StoreConfig, link: Link, steps: bool) -> Result<f64> {
        self.steps.is_on.store(steps, Ordering::Relaxed);
        self.far.set_link(link);
        let an_epoch = config.read_batches + config.write_batch;
        let epochs = usize::from(config.evict_every).div_ceil(an_epoch);
        let measured = self.driver.measure_epochs(epochs as u64).await?;
        Ok(measured.stats.accesses as f64 / measured.wall_s)
    }
}

/// A store that is asked for one cell and given one bucket at a time while told to. What the canonical
/// engine would do in its own time costs nothing: barriers, and deletions, which go to `near`.
struct StepByStep<S> {
    inner: S,
    near: Arc<MemoryStore>,
    is_on: AtomicBool,
}

impl<S: Store> StepByStep<S> {
    async fn call(&self, call: Call<'_>) -> std::result::Result<Reply, StoreError> {
        match call {
            Call::Barrier => Ok(Reply::Done),
            Call::DeleteChunks(_) => call.perform(&self.near).await,
            Call::ReadCells(reads) if self.is_on.load(Ordering::Relaxed) => {
                let mut cells: Vec<Cell> = Vec::with_capacity(reads.cell_count());
                for read in reads.iter() {
                    for cell in read.cells {
                        let mut one = CellReads::default();
                        one.push(read.chunk, [*cell]);
                        cells.extend(self.inner.read_cells(&one).await?);
                    }
                }
                Ok(Reply::Cells(cells))
            }
            Call::WriteChunks(writes) if self.is_on.load(Ordering::Relaxed) => {
                for write in writes {
                    self.inner.write_chunks(vec![write]).await?;
                }
                Ok(Reply::Done)
            }
            call => call.perform(&self.inner).await,
        }
    }
}

store_by_calls!(StepByStep);
