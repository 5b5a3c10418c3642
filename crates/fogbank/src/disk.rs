//! A disk that is open. Whoever serves it need not know whether it is a volume or a site's.

use std::any::Any;
use std::sync::Arc;

use fogbank_env::Clock;
use fogbank_oram::ImmediateEngine;

use crate::error::Result;
use crate::volume::Stopped;

/// See the module.
pub struct Disk {
    engine: Arc<dyn ImmediateEngine>,
    clock: Arc<dyn Clock>,
    /// What is held as long as it is open.
    _held: Box<dyn Any + Send + Sync>,
}

impl Disk {
    pub(crate) fn new(
        engine: Arc<dyn ImmediateEngine>,
        clock: Arc<dyn Clock>,
        held: impl Any + Send + Sync,
    ) -> Self {
        Self { engine, clock, _held: Box::new(held) }
    }

    /// The engine.
    pub fn engine(&self) -> Arc<dyn ImmediateEngine> {
        self.engine.clone()
    }

    /// The clock everything runs by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Bytes of the disk.
    pub fn bytes(&self) -> u64 {
        let shape = self.engine.shape();
        u64::from(shape.capacity) * shape.value_bytes as u64
    }

    /// Completes when the engine has stopped by itself, with the reason.
    pub fn stopped(&self) -> Stopped {
        let engine = self.engine();
        Box::pin(async move { engine.stopped().await })
    }

    /// Answers what was submitted and closes it: when this has returned, everything acknowledged is
    /// kept.
    ///
    /// # Errors
    /// Whatever has stopped the engine.
    pub async fn close(self) -> Result<()> {
        Ok(self.engine.close().await?)
    }
}
