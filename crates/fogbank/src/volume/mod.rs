//! Volumes: disks of blocks on an engine that serves accesses as they come.
//!
//! 1. The trusted side and the store are opened as for any store (`open`); the commit record says that
//!    this is a volume, of which engine and of which shape.
//! 2. The engine recovers what was left and serves: `tao` as it is, the epochs of `ring` through a ticker.
//! 3. Closing answers what was submitted and writes the last checkpoint.
//!
//! What the cloud sees is the engine's: of `tao` how many accesses come and when, of `ring` epochs.

mod config;
mod ring;
mod tao;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use fogbank_env::{Clock, FolderLock};
use fogbank_oram::ImmediateEngine;
use fogbank_txn::Uptime;

pub(crate) use config::is_of_volume;
pub use config::{Flow, VolumeConfig, WRITE_BEHIND_MAX};
pub use ring::RingVolume;
pub use tao::TaoVolume;

use crate::error::{Error, Result};
use crate::open::Sides;
use crate::opened::Opened;
use crate::{OpenOptions, Place};

/// A volume that is open.
pub struct Volume {
    engine: Arc<dyn ImmediateEngine>,
    config: VolumeConfig,
    clock: Arc<dyn Clock>,
    replayed: usize,
    register: String,
    _lock: Arc<FolderLock>,
}

/// Why an engine has stopped by itself, once it has.
pub type Stopped = Pin<Box<dyn Future<Output = fogbank_oram::Error> + Send>>;

/// What is at a place: a store of keys and values, or a volume.
pub enum OpenedStore {
    /// Keys and values.
    Store(Box<Opened>),
    /// A disk.
    Volume(Volume),
}

impl OpenedStore {
    /// Opens what is there, however it was left.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open`] and [`Volume::open`].
    pub async fn open(options: OpenOptions) -> Result<Self> {
        let sides = options.sides().await?;
        match &sides.claimed {
            Some(bytes) if is_of_volume(bytes) => {
                Ok(Self::Volume(open_at(options, sides, None, Flow::default()).await?))
            }
            _ => Ok(Self::Store(Box::new(options.open_at(sides).await?))),
        }
    }
}

impl Volume {
    /// Makes a volume at `place`, and leaves it closed.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a store already; by blame, see [`Error`].
    pub async fn create(place: Place, config: &VolumeConfig) -> Result<()> {
        open(OpenOptions::new(place), Some(config), Flow::default()).await?.close().await
    }

    /// Opens the volume at `place`, however it was left, to be served with such a `flow`.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none; by blame, see [`Error`].
    pub async fn open(place: Place, flow: Flow) -> Result<Self> {
        open(OpenOptions::new(place), None, flow).await
    }

    /// The engine.
    pub fn engine(&self) -> Arc<dyn ImmediateEngine> {
        self.engine.clone()
    }

    /// Completes when the engine has stopped by itself, with the reason.
    pub fn stopped(&self) -> Stopped {
        let engine = self.engine();
        Box::pin(async move { engine.stopped().await })
    }

    /// The public configuration.
    pub fn config(&self) -> &VolumeConfig {
        &self.config
    }

    /// The clock everything runs by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Records that the journal held when it was opened, and epochs since the last checkpoint: none if it was
    /// closed.
    pub fn replayed(&self) -> usize {
        self.replayed
    }

    /// Where the freshness register is kept, for people.
    pub fn register(&self) -> &str {
        &self.register
    }

    /// Answers what was submitted and closes the volume: when this has returned, everything
    /// acknowledged is kept.
    ///
    /// # Errors
    /// Whatever has stopped the engine.
    pub async fn close(self) -> Result<()> {
        Ok(self.engine.close().await?)
    }
}

async fn open(options: OpenOptions, new: Option<&VolumeConfig>, flow: Flow) -> Result<Volume> {
    let trusted = options.place().trusted();
    if new.is_none() && !trusted.exists() {
        // Before a lock, or a store on a local disk, makes folders for somebody who mistyped.
        return Err(Error::Usage(format!(
            "there is no volume: {} does not exist; say another --data, or make one with fogbank volume create",
            trusted.display()
        )));
    }
    let sides = options.sides().await?;
    open_at(options, sides, new, flow).await
}

async fn open_at(
    options: OpenOptions,
    sides: Sides,
    new: Option<&VolumeConfig>,
    flow: Flow,
) -> Result<Volume> {
    let config = match (&sides.claimed, new) {
        (Some(_), Some(_)) => {
            return Err(Error::Usage(format!(
                "there is a store at {} already; choose another --store for the new volume",
                options.place().store_url()
            )));
        }
        (Some(bytes), None) => {
            options.check_key()?;
            VolumeConfig::decode(bytes)?
        }
        (None, Some(config)) => config.clone(),
        (None, None) => {
            return Err(Error::Usage(format!(
                "there is no volume at {}; make one with fogbank volume create",
                options.place().store_url()
            )));
        }
    };
    if let (VolumeConfig::Ring(_), Some(flag)) = (&config, flow.flag()) {
        return Err(Error::Usage(format!(
            "{flag}: the epochs of the engine ring have one rate and shape whatever is asked; leave it out"
        )));
    }
    if let (VolumeConfig::Tao(_), Some(_)) = (&config, flow.rest_after) {
        return Err(Error::Usage(
            "--rest-after: the engine tao sends nothing unless it is asked, or keeps a --fixed-rate; leave it out"
                .into(),
        ));
    }
    let options = match flow.rest_after {
        Some(linger) => options.uptime(Uptime::WhilePresent { linger }),
        None => options,
    };
    match &config {
        VolumeConfig::Tao(volume) => tao::open(options, sides, volume, flow).await,
        VolumeConfig::Ring(volume) if new.is_some() => {
            let combining = sides.bare.xor().is_some() && options.across_a_link();
            ring::open(options, sides, &volume.combining(combining)).await
        }
        VolumeConfig::Ring(volume) => ring::open(options, sides, volume).await,
    }
}
