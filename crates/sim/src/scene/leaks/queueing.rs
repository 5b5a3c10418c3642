//! An engine that is called only when the work of clients is done: what a driver does that takes
//! the lock under which they work.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Clock;
use fogbank_oram::{Address, BatchEngine, BatchShape, Result, Section, Sections};

use crate::scene::working::Working;

/// Waits before every batch for clients.
pub struct Queueing {
    inner: Box<dyn BatchEngine>,
    clock: Arc<Working>,
}

impl Queueing {
    pub fn new(inner: Box<dyn BatchEngine>, clock: Arc<Working>) -> Self {
        Self { inner, clock }
    }
}

async fn queue(clock: &Working) {
    clock.sleep_until(clock.busy_until()).await;
}

#[async_trait]
impl BatchEngine for Queueing {
    fn shape(&self) -> BatchShape {
        self.inner.shape()
    }

    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>> {
        queue(&self.clock).await;
        self.inner.read_batch(addresses).await
    }

    async fn start_read(&mut self, addresses: &[Address]) -> Result<()> {
        queue(&self.clock).await;
        self.inner.start_read(addresses).await
    }

    async fn ready_to_start(&mut self) -> Result<()> {
        self.inner.ready_to_start().await
    }

    async fn finish_read(&mut self) -> Result<Vec<Option<Bytes>>> {
        self.inner.finish_read().await
    }

    async fn write_batch(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()> {
        queue(&self.clock).await;
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
