//! A disk that is open. Whoever serves it need not know whether it is a volume or a site's.

use std::any::Any;
use std::sync::Arc;

use bytesize::ByteSize;
use fogbank_env::{Clock, counted};
use fogbank_oram::ImmediateEngine;

use crate::error::Result;
use crate::recording::Recording;
use crate::volume::Stopped;

/// How large a disk of so many bytes is, as a person reads it: "64.0 MiB in 16384 blocks of 4.0
/// KiB".
pub fn disk_size(bytes: u64, block_bytes: u64) -> String {
    let said = |bytes: u64| ByteSize::b(bytes).display().iec();
    let blocks = counted(bytes / block_bytes.max(1), "block", "blocks");
    format!("{} in {blocks} of {}", said(bytes), said(block_bytes))
}

/// See the module.
pub struct Disk {
    engine: Arc<dyn ImmediateEngine>,
    clock: Arc<dyn Clock>,
    recording: Option<Recording>,
    /// What is held as long as it is open.
    _held: Box<dyn Any + Send + Sync>,
}

impl Disk {
    pub(crate) fn new(
        engine: Arc<dyn ImmediateEngine>,
        clock: Arc<dyn Clock>,
        held: impl Any + Send + Sync,
    ) -> Self {
        Self { engine, clock, recording: None, _held: Box::new(held) }
    }

    /// The same that is recorded, if it is.
    pub(crate) fn recorded(self, recording: Option<Recording>) -> Self {
        Self { recording, ..self }
    }

    /// The engine.
    pub fn engine(&self) -> Arc<dyn ImmediateEngine> {
        self.engine.clone()
    }

    /// The clock everything runs by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// How large it is, see [`disk_size`].
    pub fn size(&self) -> String {
        let shape = self.engine.shape();
        let block = shape.value_bytes as u64;
        disk_size(u64::from(shape.capacity) * block, block)
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
    /// Whatever has stopped the engine; [`crate::Error::CannotUse`] if a trace of it is incomplete.
    pub async fn close(self) -> Result<()> {
        let closed = self.engine.close().await;
        let finished = self.recording.map_or(Ok(()), Recording::finish);
        closed?;
        finished
    }
}
