//! Figure 10a, Obladi's figure of merit: how much faster a parallel engine is than the canonical
//! sequential one at the same distance from its store (sections 7 and 11 of the paper).
//!
//! All engines are ours, have buckets of one shape and no journal, and run over stores in memory at
//! the far end of the same link:
//!
//! 1. *in epochs*: R batches, a message a batch, buckets written once an epoch: the product's way;
//! 2. *in parallel*: the same with epochs of one batch and no writes, so that little is gained but
//!    what a batch has in parallel: the nearest to the paper's engine of this figure, which holds
//!    nothing back, so its values stand here;
//! 3. *of one*: the same with batches of one, so that only the levels of a path are in parallel;
//! 4. *one at a time*: every cell read and every bucket written is a round trip, and a bucket is
//!    written as soon as it is rewritten. Deletions and barriers cost it nothing.
//! 5. *by paths*: the same, but what an access reads is one round trip, and so is what it writes.
//!
//! The sequential ones run for whole rounds of A accesses, so that each has its share of evictions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::args::PaperFigure;
use fogbank::Result;
use fogbank::config::StoreConfig;
use fogbank_process::say_error;
use fogbank_store::{Call, Cell, CellReads, MemoryStore, Reply, Store, StoreError, store_by_calls};

use super::ask::{Ask, BATCHES, OBJECTS, Site, sites, sites_words};
use super::figure::{Drawn, Figure, Panel, Spread};
use super::lane::{Buckets, Far, Lane, far};

const EPOCHS: &str = "in epochs";
const PARALLEL: &str = "in parallel";
const OF_ONE: &str = "in parallel, batches of one";
const SEQUENTIAL: &str = "one at a time";
const BY_PATHS: &str = "one at a time, by paths";

/// Measures the figure.
pub async fn figure(ask: &Ask) -> Result<Figure> {
    let objects = ask.objects(OBJECTS, 1.0);
    let epochs = ask.engine(objects, BATCHES, ask.batch(), ask.writes())?;
    let mut lanes = Lanes::load(&epochs, ask).await?;
    let below = "store";
    let mut rates = Panel::new("throughput", "accesses/s", below, Drawn::BarsByTens);
    let words = "times the accesses/s of one at a time";
    let mut gains = Panel::new("speed-up", words, below, Drawn::BarsByTens);
    let steps = ask.steps("10a", 5 * sites().len());
    for site in sites() {
        let [in_epochs, parallel, of_one, sequential, by_paths] =
            lanes.rounds(&site, ask, &steps).await?;
        let (place, told) = (site.place(), &site.told);
        rates.add(EPOCHS, &place, in_epochs, None);
        rates.add(PARALLEL, &place, parallel, told.parallel);
        rates.add(OF_ONE, &place, of_one, None);
        rates.add(SEQUENTIAL, &place, sequential, told.sequential);
        rates.add(BY_PATHS, &place, by_paths, None);
        gains.add(EPOCHS, &place, in_epochs.over(&sequential), None);
        gains.add(PARALLEL, &place, parallel.over(&sequential), told.speed_up);
        gains.add(OF_ONE, &place, of_one.over(&sequential), told.speed_up_of_one);
        gains.add(BY_PATHS, &place, by_paths.over(&sequential), None);
    }
    steps.finish_and_clear();
    let mut differs = ask.engine_differs(&epochs);
    differs.push(
        "the paper's engine holds no bucket back; that in parallel does until the end of its batch"
            .into(),
    );
    differs.push("memory stands for the paper's dummy: its cells are stored and verified".into());
    Ok(Figure {
        id: PaperFigure::Parallel,
        title: "Parallel and sequential engines by their distance from the store".into(),
        setting: format!(
            "{}; batches of {}, epochs of {} of them and {} writes; {}; {}",
            ask.engine_words(&epochs),
            epochs.batch,
            epochs.read_batches,
            epochs.write_batch,
            sites_words(),
            ask.rounds_words()
        ),
        differs,
        panels: vec![rates, gains],
    })
}

/// All engines at once, so that what disturbs one disturbs the others.
struct Lanes {
    in_epochs: Lane,
    parallel: Lane,
    of_one: Lane,
    sequential: Lane,
    /// Epochs from one eviction of the sequential engine to the next.
    cycle: u64,
    steps: Arc<StepByStep<Far>>,
}

impl Lanes {
    async fn load(epochs: &StoreConfig, ask: &Ask) -> Result<Self> {
        let objects = epochs.capacity;
        say_error!("loading four engines with {objects} records");
        let in_epochs = Lane::load(epochs, Buckets::Buffered, ask).await?;
        let parallel = ask.engine(objects, 1, ask.batch(), 0)?;
        let parallel = Lane::load(&parallel, Buckets::Buffered, ask).await?;
        let of_one = ask.engine(objects, 1, 1, 0)?;
        let of_one = Lane::load(&of_one, Buckets::Buffered, ask).await?;
        let one = ask.engine(objects, BATCHES, 1, 1)?;
        let (near, far) = far(ask);
        let steps = Arc::new(StepByStep { inner: far.clone(), near, is_on: false.into() });
        let shape = (&one, Buckets::WrittenThrough);
        let sequential = Lane::over(steps.clone(), far, shape, ask).await?;
        let cycle = usize::from(one.evict_every).div_ceil(one.read_batches + one.write_batch);
        Ok(Self { in_epochs, parallel, of_one, sequential, cycle: cycle as u64, steps })
    }

    /// All engines in turns, at one distance.
    async fn rounds(
        &mut self,
        site: &Site,
        ask: &Ask,
        bar: &indicatif::ProgressBar,
    ) -> Result<[Spread; 5]> {
        let mut rates: [Vec<f64>; 5] = Default::default();
        for _ in 0..ask.rounds {
            let lanes = [&mut self.in_epochs, &mut self.parallel, &mut self.of_one];
            for (lane, rates) in lanes.into_iter().zip(&mut rates) {
                rates.push(lane.round(&site.link, ask).await?.per_s);
                bar.inc(1);
            }
            for (steps, rates) in [true, false].into_iter().zip(&mut rates[3..]) {
                self.steps.is_on.store(steps, Ordering::Relaxed);
                rates.push(self.sequential.cycles(&site.link, self.cycle, ask).await?.per_s);
                bar.inc(1);
            }
        }
        Ok(rates.map(Spread::of))
    }
}

/// A store that is asked for one cell and given one bucket at a time while told to. What the
/// canonical engine would do in its own time costs nothing: barriers, and deletions, which go to
/// `near`.
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
