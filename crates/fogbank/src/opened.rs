//! A store that is open: while its epochs run, and when they have ended.

use std::sync::Arc;

use fogbank_env::{Clock, FolderLock, Metrics};
use fogbank_oram::{Scanned, Section};
use fogbank_txn::{Closed, Proxy, SharedVault};

use crate::config::StoreConfig;
use crate::error::Result;
use crate::recording::Recording;
use crate::volume::Volume;

/// What an opening found to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Epochs that were committed.
    pub epoch: u64,
    /// How many of them came after the last full checkpoint.
    pub epochs_replayed: usize,
    /// Batches of the epoch that was open: none if the store was closed.
    pub batches_repeated: usize,
}

/// A store with its epochs running.
pub struct Opened {
    pub(crate) kept: bool,
    pub(crate) proxy: Proxy,
    pub(crate) vault: SharedVault,
    pub(crate) config: StoreConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) recording: Option<Recording>,
    pub(crate) recovered: Recovery,
    pub(crate) register: String,
    pub(crate) _lock: Arc<FolderLock>,
}

impl Opened {
    /// What there was to recover.
    pub fn recovered(&self) -> Recovery {
        self.recovered
    }

    /// Where the freshness register is kept, for people.
    pub fn register(&self) -> &str {
        &self.register
    }

    /// Whether the store is there when the process has ended: one in memory is not.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Where transactions run.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// The public configuration.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// The clock everything runs by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Figures of the running proxy.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Ends the epochs and closes the store: when this has returned, everything committed is kept.
    ///
    /// # Errors
    /// By blame. After an error the store is not closed and the trusted side says why.
    pub async fn close(self) -> Result<()> {
        self.rest().await?.close().await
    }

    /// Ends the epochs: what is left can be read from one end to the other, and closed.
    ///
    /// # Errors
    /// As [`Opened::close`].
    pub async fn rest(self) -> Result<Resting> {
        let Self { proxy, vault, config, recording, _lock, .. } = self;
        let closed = proxy.close().await?;
        Ok(Resting { closed, vault, config, recording, _lock })
    }
}

/// A store whose epochs have ended and that is not closed yet.
pub struct Resting {
    closed: Closed,
    vault: SharedVault,
    config: StoreConfig,
    recording: Option<Recording>,
    _lock: Arc<FolderLock>,
}

impl Resting {
    /// The public configuration.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Reads and verifies every cell of the store, and hands over every block.
    ///
    /// # Errors
    /// [`crate::Error::CloudLied`] if anything is missing or does not verify.
    pub async fn scan(&mut self, into: &mut dyn Scanned) -> Result<()> {
        Ok(self.closed.engine.scan(into).await?)
    }

    /// The directory of keys, as sections of a checkpoint.
    pub fn directory(&self) -> impl Iterator<Item = Section> + Send + use<> {
        self.closed.directory()
    }

    /// Closes the store: when this has returned, everything committed is kept.
    ///
    /// # Errors
    /// As [`Opened::close`].
    pub async fn close(mut self) -> Result<()> {
        self.vault.close(self.closed.save()?).await?;
        if let Some(recording) = self.recording {
            recording.finish()?;
        }
        Ok(())
    }
}

/// What is at a place while nobody is served: a store of keys and values, or a volume.
pub enum AtRest {
    /// Keys and values.
    Store(Box<Resting>),
    /// A disk.
    Volume(Volume),
}

impl AtRest {
    /// The public configuration, as it stands in the commit record.
    pub fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Store(resting) => resting.config().encode(),
            Self::Volume(volume) => volume.config().encode(),
        }
    }

    /// Reads and verifies everything that is in use, and hands over every block.
    ///
    /// # Errors
    /// [`crate::Error::CloudLied`] if anything is missing or does not verify.
    pub async fn scan(&mut self, into: &mut dyn Scanned) -> Result<()> {
        match self {
            Self::Store(resting) => resting.scan(into).await,
            Self::Volume(volume) => volume.scan(into).await,
        }
    }

    /// Closes it: when this has returned, everything committed is kept.
    ///
    /// # Errors
    /// As [`Opened::close`].
    pub async fn close(self) -> Result<()> {
        match self {
            Self::Store(resting) => resting.close().await,
            Self::Volume(volume) => volume.close().await,
        }
    }
}
