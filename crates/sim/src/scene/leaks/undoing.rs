//! An engine that is handed its write batch only after the epoch's aborts were undone, each of
//! which takes its time: what Obladi's prototype does.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Gauge, Nanos};
use fogbank_oram::{Address, BatchEngine, BatchShape, Result, Section, Sections};

/// What undoing one transaction takes.
const UNDO: Duration = Duration::from_millis(1);

/// Waits before every write batch for as long as the aborts since the one before take.
pub struct Undoing {
    inner: Box<dyn BatchEngine>,
    clock: Arc<dyn Clock>,
    aborts: Gauge,
    undone: u64,
}

impl Undoing {
    pub fn new(inner: Box<dyn BatchEngine>, clock: Arc<dyn Clock>, aborts: Gauge) -> Self {
        Self { inner, clock, aborts, undone: 0 }
    }
}

#[async_trait]
impl BatchEngine for Undoing {
    fn shape(&self) -> BatchShape {
        self.inner.shape()
    }

    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>> {
        self.inner.read_batch(addresses).await
    }

    async fn start_read(&mut self, addresses: &[Address]) -> Result<()> {
        self.inner.start_read(addresses).await
    }

    async fn ready_to_start(&mut self) -> Result<()> {
        self.inner.ready_to_start().await
    }

    async fn finish_read(&mut self) -> Result<Vec<Option<Bytes>>> {
        self.inner.finish_read().await
    }

    async fn write_batch(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()> {
        let aborts = self.aborts.get();
        let work = (aborts - self.undone) * UNDO.as_nanos() as Nanos;
        self.undone = aborts;
        self.clock.sleep_until(self.clock.now() + work).await;
        self.inner.write_batch(writes).await
    }

    async fn commit(&mut self) -> Result<Vec<Section>> {
        self.inner.commit().await
    }

    async fn collect(&mut self) -> Result<()> {
        self.inner.collect().await
    }

    fn save(&mut self) -> Result<Sections<'_>> {
        self.inner.save()
    }
}
