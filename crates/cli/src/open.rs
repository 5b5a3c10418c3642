//! Opening a store: from a place and a shape to running epochs, and back to a closed store.
//!
//! 1. The trusted side: folder `DIR/proxy` (0700) and its lock, so that two processes of this
//!    machine do not meet at the store.
//! 2. The cloud side: the store at the URL, recorded if asked.
//! 3. What the store claims to be is held against what was asked for, before anything changes.
//! 4. Key, register and commit record: the vault is created or opened.
//! 5. Engine and directory are created or restored, and the epochs start; what the engine sends
//!    leaves at points of a grid (`fogbank_store::Paced`).
//!
//! Closing goes the other way: the epochs end, engine and directory become one checkpoint.

use std::fs::{DirBuilder, File, OpenOptions as FileOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank_durable::{FileRegister, MemoryRegister, Register, Section, Suspicion, Vault};
use fogbank_env::{Clock, Metrics, Purpose, Randomness, SystemClock};
use fogbank_oram::BatchEngine;
use fogbank_oram::ring::RingEngine;
use fogbank_store::{Paced, Store, StoreError};
use fogbank_txn::{Components, Proxy};

use crate::args::ShapeArgs;
use crate::config::{StoreConfig, split_sections};
use crate::dashboard::{Live, Watched};
use crate::error::{Error, Result};
use crate::recording::Recording;

/// Where the two sides of a store are.
#[derive(Debug, Clone)]
pub struct Place {
    /// The folder of the trusted side is `proxy` in here.
    pub data: PathBuf,
    /// The URL of the cloud side; `file://DATA/cloud` if not given.
    pub store: Option<String>,
}

impl Place {
    /// Both sides under one directory of this machine.
    pub fn local(data: impl Into<PathBuf>) -> Self {
        Self { data: data.into(), store: None }
    }

    /// The folder of the trusted side.
    pub fn trusted(&self) -> PathBuf {
        self.data.join("proxy")
    }

    /// The URL of the cloud side.
    pub fn store_url(&self) -> String {
        match &self.store {
            Some(url) => url.clone(),
            None => format!("file://{}", absolute(&self.data.join("cloud")).display()),
        }
    }

    /// A trusted side whose cloud folder is gone must not get an empty one in its place.
    fn check_sides(&self) -> Result<()> {
        let (cloud, trusted) = (self.data.join("cloud"), self.trusted());
        let known = ["key", "register"].iter().any(|file| trusted.join(file).exists());
        if self.store.is_some() || !known || cloud.exists() {
            return Ok(());
        }
        Err(Error::CannotUse(format!(
            "{} holds the trusted side of a store, and its cloud side {} is missing; put it back, \
             say where it is with --store, or choose another --data for a new store",
            trusted.display(),
            cloud.display()
        )))
    }

    fn in_memory(&self) -> bool {
        self.store.as_deref().is_some_and(|url| url.starts_with("memory:"))
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// How to open a store.
#[derive(Clone)]
pub struct OpenOptions {
    place: Place,
    shape: ShapeArgs,
    record: Option<PathBuf>,
    metrics: Metrics,
    live: Option<Arc<Live>>,
    clock: Option<Arc<dyn Clock>>,
    randomness: Option<Randomness>,
}

impl OpenOptions {
    /// The store at `place`, made with default settings if there is none.
    pub fn new(place: Place) -> Self {
        let metrics = Metrics::default();
        Self {
            place,
            shape: ShapeArgs::default(),
            record: None,
            metrics,
            live: None,
            clock: None,
            randomness: None,
        }
    }

    /// The shape of a new store; must agree with an existing one.
    pub fn shape(mut self, shape: ShapeArgs) -> Self {
        self.shape = shape;
        self
    }

    /// Writes a trace of everything the store sees to `path`.
    pub fn record(mut self, path: Option<PathBuf>) -> Self {
        self.record = path;
        self
    }

    /// Figures of the running proxy go here.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Tells the live view what passes to the store.
    pub fn live(mut self, live: Option<Arc<Live>>) -> Self {
        self.live = live;
        self
    }

    /// The clock everything runs by, if others are to run by it too; otherwise a new one.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Repeatable randomness, for tests. Never for a store that matters: whoever knows the seed
    /// knows the key.
    pub fn repeatable(mut self, seed: u64) -> Self {
        self.randomness = Some(Randomness::repeatable(seed));
        self
    }

    /// Opens the store, creating it if there is none, and starts its epochs.
    ///
    /// # Errors
    /// By blame, see [`Error`]; a store that cannot be opened is left as it was.
    pub async fn open(self) -> Result<Opened> {
        self.place.check_sides()?;
        let lock = lock_trusted_side(&self.place.trusted())?;
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::new()));
        let bare = open_store(&self.place.store_url(), &clock).await?;
        self.open_on(bare, lock, clock).await
    }

    async fn open_on(
        self,
        bare: Arc<dyn Store>,
        lock: File,
        clock: Arc<dyn Clock>,
    ) -> Result<Opened> {
        let claimed = Vault::claimed_config(&*bare).await?;
        let config = match &claimed {
            Some(bytes) => StoreConfig::decode(bytes)?,
            None => StoreConfig::derive(&self.shape, bare.xor().is_some())?,
        };
        config.agree(&self.shape)?;
        let (store, recording) = Recording::start(self.record.as_deref(), bare, &config, &clock)?;
        let store = self.watched(store, &config);
        let randomness = self.randomness()?;
        let (mut vault, restored) =
            self.vault(store.clone(), claimed.is_some(), &config, &randomness).await?;
        check_claim(claimed.as_deref(), &vault)?;
        let proxy =
            self.start(store, &mut vault, restored, &config, (clock.clone(), randomness)).await?;
        Ok(Opened { proxy, vault, config, clock, metrics: self.metrics, recording, _lock: lock })
    }

    /// Outside the recorder, so that the trace is what leaves and nothing stands behind it.
    fn watched(&self, store: Arc<dyn Store>, config: &StoreConfig) -> Arc<dyn Store> {
        let Some(live) = &self.live else { return store };
        live.begin(config);
        Arc::new(Watched::new(store, live.clone()))
    }

    fn randomness(&self) -> Result<Randomness> {
        if let Some(given) = &self.randomness {
            return Ok(given.clone());
        }
        let seed = fogbank_seal::system_seed()
            .map_err(|_| Error::CannotUse("the system has no randomness to give".into()))?;
        Ok(Randomness::from_seed(seed))
    }

    async fn vault(
        &self,
        store: Arc<dyn Store>,
        exists: bool,
        config: &StoreConfig,
        randomness: &Randomness,
    ) -> Result<(Vault, Vec<Section>)> {
        let trusted = self.place.trusted();
        let register: Arc<dyn Register> = if self.place.in_memory() {
            Arc::new(MemoryRegister::default())
        } else {
            Arc::new(FileRegister::new(&trusted.join("register")))
        };
        let mut stream = randomness.stream(Purpose::MasterKey);
        let may_create = !exists && register.read().await?.is_none();
        let master = fogbank_seal::load_or_create(&trusted.join("key"), &mut stream, may_create)
            .map_err(|e| Error::CannotUse(e.to_string()))?;
        if exists {
            let (vault, restored) = Vault::open(store, register, &master, randomness).await?;
            return Ok((vault, restored));
        }
        let vault = Vault::create(store, register, &master, config.encode(), randomness).await?;
        Ok((vault, Vec::new()))
    }

    async fn start(
        &self,
        store: Arc<dyn Store>,
        vault: &mut Vault,
        restored: Vec<Section>,
        config: &StoreConfig,
        (clock, random): (Arc<dyn Clock>, Randomness),
    ) -> Result<Proxy> {
        let settings = config.ring_settings();
        let (of_engine, of_proxy) = split_sections(restored);
        let paced = Paced::new(store, clock.clone(), config.departure_quantum());
        let store: Arc<dyn Store> = Arc::new(paced);
        let keys = vault.keys();
        let engine = if of_engine.is_empty() {
            RingEngine::create(store, keys, settings, &random).await?
        } else {
            RingEngine::restore(store, keys, settings, &random, &of_engine)?
        };
        let engine: Box<dyn BatchEngine> = Box::new(engine);
        vault.run().await?;
        let components = Components { clock, random, metrics: self.metrics.clone() };
        let of_proxy = (!of_proxy.is_empty()).then_some(&of_proxy[..]);
        Ok(Proxy::start(config.proxy_settings(), engine, components, of_proxy).await?)
    }
}

/// A store with its epochs running.
pub struct Opened {
    proxy: Proxy,
    vault: Vault,
    config: StoreConfig,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    recording: Option<Recording>,
    _lock: File,
}

impl Opened {
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
        let mut closed = self.proxy.close().await?;
        let mut sections = closed.engine.save()?;
        sections.append(&mut closed.sections);
        self.vault.close(&sections).await?;
        if let Some(recording) = self.recording {
            recording.finish()?;
        }
        Ok(())
    }
}

/// Opens the cloud side at `url`.
///
/// # Errors
/// [`Error::Usage`] for a URL this build does not know, [`Error::Absent`] if it does not answer.
pub async fn open_store(url: &str, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    fogbank_store::url::open(url, clock).await.map_err(|e| match e {
        StoreError::Absent(_) => Error::Absent(e.to_string()),
        StoreError::Misbehaved(_) => Error::CheckFailed(e.to_string()),
        StoreError::Caller(reason) => Error::Usage(reason),
    })
}

/// Holds the configuration that the store claimed against the one in the commit record that has
/// verified. They come from two reads of one blob, which a lying store may answer differently:
/// without this the cloud would choose the beat, the batches and the lengths of checkpoints.
fn check_claim(claimed: Option<&[u8]>, vault: &Vault) -> Result<()> {
    if claimed.is_none_or(|claimed| claimed == vault.config()) {
        return Ok(());
    }
    Err(fogbank_durable::Error::CloudLied(Suspicion::Config).into())
}

/// Makes the folder of the trusted side and takes its lock for as long as the file is held.
fn lock_trusted_side(folder: &Path) -> Result<File> {
    let fault = |e: std::io::Error| Error::CannotUse(format!("{}: {e}", folder.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fault)?;
    let mut options = FileOptions::new();
    let path = folder.join("lock");
    let file =
        options.write(true).create(true).truncate(false).mode(0o600).open(path).map_err(fault)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::CannotUse(format!(
            "another fogbank process is using {}; stop it first, or choose another --data",
            folder.display()
        ))),
        Err(std::fs::TryLockError::Error(e)) => Err(fault(e)),
    }
}

#[cfg(test)]
mod tests {
    use fogbank_store::{Lie, LieRule, MemoryStore, Operation, Tampering};

    use super::*;

    async fn open_on(folder: &Path, store: &Arc<Tampering<MemoryStore>>) -> Result<Opened> {
        let options = OpenOptions::new(Place::local(folder));
        let lock = lock_trusted_side(&options.place.trusted())?;
        options.open_on(store.clone(), lock, Arc::new(SystemClock::new())).await
    }

    /// The commit record was read twice: first to see what the store is, then to verify it. Whoever
    /// answered the first read with another configuration chose what the epochs ran by.
    #[tokio::test]
    async fn a_configuration_that_only_the_first_read_showed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Tampering::new(MemoryStore::new()));
        open_on(folder.path(), &store).await.unwrap().close().await.unwrap();
        let (record, _) = store.blob_get("commit").await.unwrap().unwrap();
        let beat = b"\"interval_ms\":";
        let at = record.windows(beat.len()).position(|w| w == beat).unwrap() + beat.len();
        // The bit that makes the 6 of the default 60 ms a 2.
        let lie = Lie::FlipBit(8 * at + 2);
        store.add(LieRule { operation: Operation::BlobGet, nth: 1, lie, always: false });
        let refused = open_on(folder.path(), &store).await.err();
        assert_eq!(store.lies_told(), 1);
        assert!(matches!(refused, Some(Error::CheckFailed(_))), "{refused:?}");
    }
}
