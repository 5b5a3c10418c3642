//! Volumes: disks of blocks on an engine that serves accesses as they come.
//!
//! 1. The trusted side and the store are opened as for any store (`open`); the commit record says that
//!    this is a volume, and of which shape.
//! 2. What the journal names is read again, a checkpoint written, and the engine serves.
//! 3. Closing answers what was submitted and writes the last checkpoint.
//!
//! Whatever leaves does so at points of a grid, so that its moment does not tell how long the proxy worked.

mod config;

use std::sync::Arc;

use fogbank_durable::Vault;
use fogbank_env::{Clock, FolderLock};
use fogbank_oram::tao::{Parts, Rate, TaoEngine};
use fogbank_store::{OnGrid, Points};

pub use config::{VolumeConfig, fixed_rate};

use crate::error::{Error, Result};
use crate::open::Side;
use crate::registers::RegisterPlace;
use crate::{OpenOptions, Place};

/// A volume that is open.
pub struct Volume {
    engine: Arc<TaoEngine>,
    config: VolumeConfig,
    clock: Arc<dyn Clock>,
    replayed: usize,
    register: String,
    _lock: Arc<FolderLock>,
}

impl Volume {
    /// Makes a volume at `place`, and leaves it closed.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a store already; by blame, see [`Error`].
    pub async fn create(place: Place, config: &VolumeConfig) -> Result<()> {
        open(OpenOptions::new(place), Some(config), None).await?.close().await
    }

    /// Opens the volume at `place`, however it was left; at a fixed `rate` if there is one.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none; by blame, see [`Error`].
    pub async fn open(place: Place, rate: Option<Rate>) -> Result<Self> {
        open(OpenOptions::new(place), None, rate).await
    }

    /// The engine.
    pub fn engine(&self) -> Arc<TaoEngine> {
        self.engine.clone()
    }

    /// The public configuration.
    pub fn config(&self) -> &VolumeConfig {
        &self.config
    }

    /// The clock everything runs by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Records that the journal held when it was opened: none if it was closed.
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

async fn open(
    options: OpenOptions,
    new: Option<&VolumeConfig>,
    rate: Option<Rate>,
) -> Result<Volume> {
    let clock = options.own_clock();
    let (lock, bare) = options.both_sides(&clock).await?;
    let claimed = Vault::claimed_config(&*bare).await?;
    let config = match (&claimed, new) {
        (Some(_), Some(_)) => {
            return Err(Error::Usage(format!(
                "there is a store at {} already; choose another --store for the new volume",
                options.place().store_url()
            )));
        }
        (Some(bytes), None) => VolumeConfig::decode(bytes)?,
        (None, Some(config)) => config.clone(),
        (None, None) => {
            return Err(Error::Usage(format!(
                "there is no volume at {}; make one with fogbank volume create",
                options.place().store_url()
            )));
        }
    };
    let settings = config.settings(rate);
    let randomness = options.randomness()?;
    let kept = RegisterPlace::of(options.place())?;
    let side = Side { clock: &clock, lock: &lock, randomness: &randomness, kept: &kept };
    let told = (config.encode(), settings.vault());
    let points = Points::new(clock.clone(), settings.quantum);
    let paced = Arc::new(OnGrid::new(bare.clone(), points.clone()));
    let (vault, recovered) = options.vault(paced, claimed.as_deref(), told, side).await?;
    let replayed = recovered.journal.len();
    let parts = Parts {
        store: bare,
        vault,
        recovered,
        random: &randomness,
        points,
        progress: &|done, of| {
            if of > 0 && done % 1024 == 0 {
                tracing::info!("the volume was not closed: {done} of {of} paths read again");
            }
        },
    };
    let engine = Arc::new(TaoEngine::open(settings, parts).await?);
    let register = kept.describe();
    Ok(Volume { engine, config, clock, replayed, register, _lock: lock })
}
