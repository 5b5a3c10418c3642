//! Volumes: disks of blocks on an engine that serves accesses as they come.
//!
//! 1. The trusted side and the store are opened as for any store (`open`); the commit record says
//!    that this is a volume, of which engine and of which shape.
//! 2. The engine recovers what was left and serves (`engines`).
//! 3. Closing answers what was submitted and writes the last checkpoint.
//!
//! What the cloud sees is the engine's.

mod config;
mod flags;
mod flow;
mod whole;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use fogbank_env::{Clock, FolderLock};
use fogbank_oram::ImmediateEngine;

pub use config::VolumeConfig;
pub use config::is_of_volume;
pub(crate) use config::{EncodeRecord, SECOND_STORE_FLAG, VolumeShape};
pub use flags::Flags;
pub(crate) use flags::{CACHE, CACHE_BYTES, Flag, QUANTUM_US};
pub use flow::Flow;
pub(crate) use flow::{OF_ACCESSES, OF_EPOCHS};

use crate::disk::Disk;
pub use crate::engines::VolumeEngine;
use crate::engines::VolumeOpening;
use crate::error::{Error, Result};
use crate::new_folder::NewFolders;
use crate::open::Sides;
use crate::opened::{AtRest, Opened};
use crate::recording::Recording;
use crate::{OpenOptions, Place};

/// A volume that is open.
pub struct Volume {
    pub(crate) engine: Arc<dyn ImmediateEngine>,
    pub(crate) config: VolumeConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) replayed: usize,
    pub(crate) register: String,
    pub(crate) recording: Option<Recording>,
    pub(crate) _lock: Arc<FolderLock>,
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
        let place = options.place().clone();
        let opened = async {
            let sides = options.sides().await?;
            Ok(match &sides.claimed {
                Some(bytes) if is_of_volume(bytes) => {
                    Self::Volume(open_at(options, sides, None, Flow::default()).await?)
                }
                _ => Self::Store(Box::new(options.open_at(sides).await?)),
            })
        };
        opened.await.map_err(|error| place.advised(error))
    }

    /// Serves nobody any more: what is there can be read from one end to the other, and closed.
    ///
    /// # Errors
    /// As [`Opened::rest`].
    pub async fn rest(self) -> Result<AtRest> {
        Ok(match self {
            Self::Store(opened) => AtRest::Store(Box::new(opened.rest().await?)),
            Self::Volume(volume) => AtRest::Volume(volume),
        })
    }
}

impl Volume {
    /// Makes a volume at `place`, and leaves it closed.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a store already; by blame, see [`Error`].
    pub async fn create(place: Place, config: &VolumeConfig) -> Result<()> {
        Self::create_with(OpenOptions::new(place), config).await
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub async fn create_with(options: OpenOptions, config: &VolumeConfig) -> Result<()> {
        open(options, Some(config), Flow::default()).await?.close().await
    }

    /// Opens the volume at `place`, however it was left, to be served with such a `flow`.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none; by blame, see [`Error`].
    pub async fn open(place: Place, flow: Flow) -> Result<Self> {
        Self::open_with(OpenOptions::new(place), flow).await
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub async fn open_with(options: OpenOptions, flow: Flow) -> Result<Self> {
        open(options, None, flow).await
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

    /// The volume as a disk.
    pub fn into_disk(self) -> Disk {
        Disk::new(self.engine, self.clock, self._lock).recorded(self.recording)
    }

    /// The public configuration.
    pub fn config(&self) -> &VolumeConfig {
        &self.config
    }

    /// The clock everything runs by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Records that the journal held when it was opened, and epochs since the last checkpoint: none
    /// if it was closed.
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
        let closed = self.engine.close().await;
        let finished = self.recording.map_or(Ok(()), Recording::finish);
        closed?;
        finished
    }
}

async fn open(options: OpenOptions, new: Option<&VolumeConfig>, flow: Flow) -> Result<Volume> {
    let trusted = options.place().trusted();
    if new.is_none() && !trusted.exists() {
        // Before a lock, or a store on a local disk, makes folders for somebody who mistyped.
        return Err(Error::Usage(format!(
            "there is no volume: {} does not exist; say another --data, or make one with fogbank \
             volume create",
            trusted.display()
        )));
    }
    if let Some(config) = new.filter(|_| options.records()) {
        config.engine().check_record()?;
    }
    let folders = new.map(|_| NewFolders::of(options.place()));
    let place = options.place().clone();
    let (asking, asked) = (options.clone(), OnceLock::new());
    let opened = async {
        let sides = options.sides().await?;
        let _ = asked.set(sides.bare.clone());
        open_at(options, sides, new, flow).await
    };
    let opened = NewFolders::kept_if_made(folders, opened, &asking, &asked).await;
    opened.map_err(|error| place.advised(error))
}

pub(crate) async fn open_at(
    options: OpenOptions,
    sides: Sides,
    new: Option<&VolumeConfig>,
    flow: Flow,
) -> Result<Volume> {
    let config = match (&sides.claimed, new) {
        (Some(_), Some(_)) => {
            let is_ours = match options.place().knows_a_store() {
                true => ", and its key is here: fogbank volume serve opens it, if it is a volume",
                false => "",
            };
            return Err(Error::Usage(format!(
                "there is a store at {} already{is_ours}; choose another --store for the new \
                 volume",
                options.place().store_url()
            )));
        }
        (Some(bytes), None) => {
            options.check_key()?;
            let config = VolumeConfig::decode(bytes)?;
            config.engine().check_given_second(options.place().second_store.as_deref())?;
            config
        }
        (None, Some(config)) => config.clone(),
        (None, None) => {
            return Err(Error::Usage(format!(
                "there is no volume at {}; make one with fogbank volume create",
                options.place().store_url()
            )));
        }
    };
    if !config.engine().has_two_clouds {
        options.place().check_no_second_journal()?;
    }
    config.engine().check_flow(&flow)?;
    if options.records() {
        config.engine().check_record()?;
    }
    let (tail, is_new) = (config.tail().clone(), new.is_some());
    tail.open(VolumeOpening { options, sides, config, flow, is_new }).await
}
