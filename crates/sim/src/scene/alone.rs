//! The engine alone, called as the transaction layer calls it: R read batches, a write batch and a
//! commit an epoch, each at the next point of the grid that is not past. For runs so long that
//! clients would take most of the time.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Clock, Nanos, Purpose, Stream};
use fogbank_oram::ring::RingEngine;
use fogbank_oram::{Address, BatchEngine, Result};

use super::canary::Canary;
use super::stage::Stage;
use super::vault::key_ring;
use super::workload::Keys;
use super::{Intensity, Scene, SceneError, SecretFigures, Shape, Workload};

/// Plays a scene of the engine alone.
pub(super) async fn play(
    scene: &Scene,
    stage: &Stage<'_>,
) -> std::result::Result<(Option<String>, SecretFigures), SceneError> {
    let engine = stage.engine(scene, Arc::new(key_ring(&stage.random)?), &[]).await?;
    let grid = Grid::new(&scene.shape, stage.clock.clone());
    let asked = Asked::new(scene, stage.random.split(0).stream(Purpose::Workload));
    let mut driver = Driver { engine, grid, asked, secret: SecretFigures::default() };
    let stopped = driver.epochs(scene).await.err().map(|error| error.to_string());
    Ok((stopped, driver.secret))
}

struct Driver {
    engine: RingEngine,
    grid: Grid,
    asked: Asked,
    secret: SecretFigures,
}

impl Driver {
    async fn epochs(&mut self, scene: &Scene) -> Result<()> {
        for _ in 0..scene.epochs {
            for _ in 0..scene.shape.read_batches {
                let addresses = self.asked.reads();
                self.secret.reads += addresses.len() as u64;
                self.grid.wait().await;
                self.engine.read_batch(&addresses).await?;
            }
            let writes = self.asked.writes();
            self.secret.writes += writes.len() as u64;
            self.grid.wait().await;
            self.engine.write_batch(writes).await?;
            self.engine.commit().await?;
        }
        Ok(())
    }
}

/// The points of the grid, as the transaction layer takes them.
struct Grid {
    clock: Arc<dyn Clock>,
    origin: Nanos,
    interval: Nanos,
    slack: Nanos,
    next: u64,
}

impl Grid {
    fn new(shape: &Shape, clock: Arc<dyn Clock>) -> Self {
        let interval = shape.interval.as_nanos() as Nanos;
        let slack = shape.proxy_settings().slack.as_nanos() as Nanos;
        let origin = clock.now().next_multiple_of(interval);
        Self { clock, origin, interval, slack, next: 1 }
    }

    /// Waits for the moment to send at the next point that is not past.
    async fn wait(&mut self) {
        let reached = self.clock.now().saturating_sub(self.origin).div_ceil(self.interval);
        let index = self.next.max(reached);
        self.next = index + 1;
        self.clock.sleep_until(self.origin + index * self.interval + self.slack).await;
    }
}

/// What is asked of the engine.
struct Asked {
    workload: Workload,
    keys: Keys,
    stream: Stream,
    reads: usize,
    writes: usize,
    value: Bytes,
    /// Addresses that are still to be filled before the workload begins.
    unfilled: std::ops::Range<u32>,
    write_batch: usize,
    /// Whether one batch may ask for an address twice: what engine canaries about that are handed.
    repeats: bool,
}

impl Asked {
    fn new(scene: &Scene, stream: Stream) -> Self {
        let shape = scene.shape.batch;
        let (reads, writes) = match scene.intensity {
            Intensity::Light => (1, 1),
            Intensity::Saturated => (shape.read_batch, shape.write_batch),
        };
        // Half of all addresses hold nothing if that is what is asked for.
        let filled = match scene.workload {
            Workload::AllAbsent => shape.capacity / 2,
            _ => shape.capacity,
        };
        Self {
            workload: scene.workload,
            keys: Keys::new(scene.workload, filled, 0),
            stream,
            reads,
            writes,
            value: Bytes::from(vec![1; shape.value_bytes]),
            unfilled: 0..if scene.workload.is_filled() { filled } else { 0 },
            write_batch: shape.write_batch,
            repeats: matches!(
                scene.canary,
                Some(Canary::DuplicatesRead | Canary::DuplicatesOmitted)
            ),
        }
    }

    /// The addresses of a read batch, each once unless a canary wants it otherwise.
    fn reads(&mut self) -> Vec<Address> {
        let idle = matches!(self.workload, Workload::Idle | Workload::AllWrites);
        if idle || !self.unfilled.is_empty() {
            return Vec::new();
        }
        if self.repeats {
            return (0..self.reads).map(|_| Address(self.keys.next(&mut self.stream))).collect();
        }
        self.distinct(self.reads)
    }

    /// The writes of a write batch.
    fn writes(&mut self) -> Vec<(Address, Option<Bytes>)> {
        let filling: Vec<u32> = self.unfilled.by_ref().take(self.write_batch).collect();
        let addresses = match self.workload {
            _ if !filling.is_empty() => filling.into_iter().map(Address).collect(),
            Workload::AllWrites => self.distinct(self.writes),
            // Every other slot, so that the write batch is neither empty nor full.
            _ if self.workload.updates() => self.distinct(self.writes.div_ceil(2)),
            _ => Vec::new(),
        };
        addresses.into_iter().map(|address| (address, Some(self.value.clone()))).collect()
    }

    /// `count` draws, those of one batch that repeat another left out.
    fn distinct(&mut self, count: usize) -> Vec<Address> {
        let mut drawn: Vec<Address> = Vec::with_capacity(count);
        for _ in 0..count {
            let address = Address(self.keys.next(&mut self.stream));
            if !drawn.contains(&address) {
                drawn.push(address);
            }
        }
        drawn
    }
}
