//! Opening a store: from a place and a shape to running epochs, and back to a closed store.
//!
//! 1. The trusted side: folder `DIR/proxy` (0700) and its lock, so that two processes of this
//!    machine do not meet at the store.
//! 2. The cloud side: the store at the URL, recorded if asked.
//! 3. What the store is, by a commit record that the key opens, is held against what was asked for,
//!    before anything changes: what a cloud shows and nothing vouches for is never told as
//!    somebody's mistake.
//! 4. Key, register and commit record: the vault is created or taken over, however it was left.
//! 5. Engine and directory are as the newest checkpoint has them, the epochs committed since are
//!    replayed, the open one is repeated and ended, and new ones start.
//!
//! Closing goes the other way: the epochs end, engine and directory become one checkpoint.
//! Everything that is sent leaves at points of a grid (`fogbank_store::OrderedGridStore`).

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use fogbank_durable::shared::Site;
use fogbank_durable::{Opening, Recovered, Register, Vault, VaultSettings};
use fogbank_env::{Clock, FolderLock, Metrics, Nanos, Purpose, Randomness, SystemClock, counted};
use fogbank_seal::MasterKey;
use fogbank_store::trace::TraceClock;
use fogbank_store::{OrderedGridStore, Store};
use fogbank_txn::{Components, Proxy, SharedVault, Uptime};
use rand_core::Rng;
use tokio::runtime::Handle;

use crate::args::ShapeArgs;
use crate::backup::check_second_store;
use crate::config::StoreConfig;
use crate::dashboard::{Live, Watched};
use crate::engines::ring;
use crate::error::{Error, Result};
use crate::fill::{MARKER, NOTED};
use crate::new_folder::NewFolders;
use crate::object_default::shape_for;
use crate::opened::{Opened, Recovery};
use crate::place::{Place, across_a_link, check_url, lock_trusted_side};
use crate::plan::Plan;
use crate::recording::Recording;
use crate::registers::{Holding, RegisterPlace};
use crate::side_check::check_apart;
use crate::stored::shown;
use crate::volume::SECOND_STORE_FLAG;

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
    accept_rollback_risk: bool,
    existing: bool,
    uptime: Option<Uptime>,
    on: Option<Arc<dyn Store>>,
    clients: Option<Handle>,
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
            accept_rollback_risk: false,
            existing: false,
            uptime: None,
            on: None,
            clients: None,
        }
    }

    /// The shape of a new store; must agree with an existing one.
    pub fn shape(mut self, shape: ShapeArgs) -> Self {
        self.shape = shape;
        self
    }

    /// Whether it does.
    pub(crate) fn records(&self) -> bool {
        self.record.is_some()
    }

    /// Writes a trace of everything the store sees to `path`.
    pub fn record(mut self, path: Option<PathBuf>) -> Self {
        self.record = path;
        self
    }

    /// When epochs run, once the store is open: always, unless this is called.
    pub fn uptime(mut self, uptime: Uptime) -> Self {
        self.uptime = Some(uptime);
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

    /// Goes on though the freshness register is lost: whatever the cloud shows is taken for the
    /// newest state. Only for an operator who has been told what that means.
    pub fn accept_rollback_risk(mut self, accept: bool) -> Self {
        self.accept_rollback_risk = accept;
        self
    }

    pub(crate) fn accepts_rollback_risk(&self) -> bool {
        self.accept_rollback_risk
    }

    /// Where what clients ask for runs, if not on the threads from which messages leave.
    pub fn clients(mut self, clients: Handle) -> Self {
        self.clients = Some(clients);
        self
    }

    /// The cloud side, in place of what the place's URL says.
    pub fn on(mut self, store: Arc<dyn Store>) -> Self {
        self.on = Some(store);
        self
    }

    pub(crate) fn across_a_link(&self) -> bool {
        self.on.is_none() && across_a_link(&self.place.store_url())
    }

    /// Whether the store combines cells for whoever asks for that, as far as is known before it is
    /// opened.
    pub(crate) fn combines(&self) -> bool {
        self.on.as_ref().map_or_else(|| self.across_a_link(), |store| store.xor().is_some())
    }

    /// Whether the cloud side is another than the place's URL says.
    pub(crate) fn is_on_another(&self) -> bool {
        self.on.is_some()
    }

    /// Refuses to make a store where there is none.
    pub fn existing(mut self) -> Self {
        self.existing = true;
        self
    }

    /// Opens the store, creating it if there is none, and starts its epochs.
    ///
    /// # Errors
    /// By blame, see [`Error`]; a store that cannot be opened is left as it was.
    pub async fn open(self) -> Result<Opened> {
        let folders = (!self.existing).then(|| NewFolders::of(&self.place));
        let (asking, asked) = (self.clone(), OnceLock::new());
        let opened = async {
            let sides = self.sides().await?;
            let _ = asked.set(sides.bare.clone());
            self.open_at(sides).await
        };
        NewFolders::kept_if_made(folders, opened, &asking, &asked).await
    }

    /// The same where both sides are there.
    pub(crate) async fn open_at(self, sides: Sides) -> Result<Opened> {
        let config = match &sides.claimed {
            Some(bytes) => {
                self.check_key()?;
                let config = StoreConfig::decode(bytes)?;
                check_second_store(bytes, SECOND_STORE_FLAG, self.place.second_store.as_deref())?;
                self.place.check_no_second_journal()?;
                config
            }
            None if self.existing => return Err(fogbank_durable::Error::NoStore.into()),
            None => {
                let config = self.new_config(sides.bare.xor().is_some())?;
                self.check_room(&config)?;
                config
            }
        };
        config.agree(&self.shape)?;
        let record = config.encode();
        self.open_as(sides, config, record).await
    }

    /// The configuration of a store that is made, whose cloud side combines cells or does not.
    pub(crate) fn new_config(&self, combines: bool) -> Result<StoreConfig> {
        let config = StoreConfig::derive_at(&self.new_shape()?, combines, self.across_a_link())?;
        config.check_served()?;
        Ok(config)
    }

    /// What the store is, or a new one would be made with, and whether there is one. What a new
    /// one's cloud side is nobody is asked. Opens and changes nothing.
    ///
    /// # Errors
    /// What [`OpenOptions::open`] would say of places and shape.
    pub async fn check(&self) -> Result<(StoreConfig, bool)> {
        self.check_places()?;
        if self.place.knows_a_store() && !self.place.in_memory() {
            let config = shown(&self.place).await?;
            config.agree(&self.shape)?;
            return Ok((config, true));
        }
        let config = self.new_config(self.combines())?;
        self.check_room(&config)?;
        Ok((config, false))
    }

    /// Refuses sides that are in each other's way.
    fn check_places(&self) -> Result<()> {
        let url = self.place.store_url();
        check_url(&url)?;
        if !self.place.in_memory() {
            self.place.check_sides()?;
        }
        check_apart("--data", Some(&self.place.trusted()), &url)?;
        check_apart("--record", self.record.as_deref(), &url)?;
        RegisterPlace::of(&self.place)?;
        self.record.as_deref().map_or(Ok(()), Recording::check)
    }

    /// Refuses to make a store that its disk does not hold when it is full.
    pub(crate) fn check_room(&self, config: &StoreConfig) -> Result<()> {
        match &self.on {
            Some(_) => Ok(()),
            None => self.place.check_room(Plan::storage_bytes_of(config)?, "--capacity"),
        }
    }

    /// Refuses to go by what a commit record claims where there is no key to open it.
    pub(crate) fn check_key(&self) -> Result<()> {
        let key = self.place.trusted().join("key");
        if key.exists() {
            return Ok(());
        }
        Err(Error::CannotUse(format!(
            "there is a store at {}, and the key file {} is missing: put back your copy of it, \
             without which \
             nobody can read the store, or choose another --store for a new one (nothing was \
             changed)",
            self.place.store_url(),
            key.display()
        )))
    }

    /// Starts the epochs of a store of which the commit record says `record`.
    pub(crate) async fn open_as(
        self,
        sides: Sides,
        config: StoreConfig,
        record: Vec<u8>,
    ) -> Result<Opened> {
        let Sides { lock, bare, clock, claimed } = sides;
        let pauses = !matches!(self.uptime, None | Some(Uptime::Always));
        let head = config.public(TraceClock::Real, pauses, record.len())?;
        let (store, recording) = Recording::start(self.record.as_deref(), bare, &head, &clock)?;
        let store = self.watched(store, &config);
        let store =
            Arc::new(OrderedGridStore::new(store, clock.clone(), config.departure_quantum()));
        let randomness = self.randomness()?;
        let kept = RegisterPlace::of(&self.place)?;
        let told = (record, config.vault_settings()?);
        let side = Side { clock: &clock, lock: &lock, randomness: &randomness, kept: &kept };
        let vault = self.vault(store.clone(), claimed.as_deref(), told, side, |register| register);
        let (vault, recovered) = vault.await?;
        let (keys, vault) = (vault.keys(), SharedVault::new(vault));
        let settings = config.ring_settings();
        let engine = ring::open(store, keys, settings, &randomness, &recovered).await?;
        let components = Components {
            clock: clock.clone(),
            random: randomness,
            metrics: self.metrics.clone(),
            clients: self.clients.clone(),
        };
        let proxy = Proxy::recover(
            config.proxy_settings(),
            engine,
            vault.clone(),
            components,
            &recovered,
            |done, of| tell(&recovered, done, of),
        );
        let proxy = proxy.await?;
        if let Some(uptime) = self.uptime {
            proxy.run_when(uptime);
        }
        let recovered = Recovery {
            epoch: recovered.epoch,
            epochs_replayed: recovered.deltas.len(),
            batches_repeated: recovered.journal.len(),
        };
        let metrics = self.metrics;
        let register = kept.describe();
        Ok(Opened {
            kept: !matches!(kept, RegisterPlace::Memory),
            proxy,
            vault,
            config,
            clock,
            metrics,
            recording,
            recovered,
            register,
            _lock: lock,
        })
    }

    /// Where a new store is to be filled; a marker, which holds the `note`, says that it is not
    /// whole yet. If the filling `goes_on`, the marker is there.
    pub(crate) async fn fill_target(&self, note: &[u8], goes_on: bool) -> Result<FillTarget> {
        self.place.check_lasts()?;
        let trusted = self.place.trusted();
        let marker = trusted.join(MARKER);
        if goes_on {
            // Below: what is there is what was begun.
        } else if marker.exists() {
            return Err(Error::Usage(format!(
                "{} holds a store that was not filled to its end: choose another --data and \
                 another --store for the new one; or {}",
                self.place.data.display(),
                self.place.way_to_whole()
            )));
        } else if let Some(file) =
            ["key", "register", "registers"].iter().find(|file| trusted.join(file).exists())
        {
            return Err(Error::Usage(format!(
                "{} belongs to a store already; choose another --data for the new one",
                trusted.join(file).display()
            )));
        }
        let clock = self.own_clock();
        let url = self.place.store_url();
        check_apart("--data", Some(&trusted), &url)?;
        let lock = self.lock(&clock).await?;
        let store = match &self.on {
            Some(store) => store.clone(),
            None => self.place.open_store(&clock).await.map_err(|e| self.place.in_the_way(e))?,
        };
        let claimed = self.config_shown(&*store, &clock).await?;
        if goes_on {
            if !marker.exists() {
                return Err(Error::Usage(format!(
                    "another process has filled {}",
                    trusted.display()
                )));
            }
            return Ok(FillTarget { store, clock, trusted, claimed, _lock: lock });
        }
        if claimed.is_some() {
            return Err(Error::Usage(format!(
                "there is a store at {url} already; choose another --store for the new one"
            )));
        }
        fogbank_env::write_secret(&marker, note)
            .map_err(|e| Error::CannotUse(format!("{}: {e}", marker.display())))?;
        Ok(FillTarget { store, clock, trusted, claimed, _lock: lock })
    }

    /// Takes the lock of the trusted side. Whoever dropped a store without closing it still ends an
    /// epoch or two: a moment's patience.
    async fn lock(&self, clock: &Arc<dyn Clock>) -> Result<Arc<FolderLock>> {
        if self.place.in_memory() {
            return Ok(Arc::new(FolderLock::of_no_folder()));
        }
        let (begun, mut told) = (clock.now(), false);
        loop {
            match lock_trusted_side(&self.place.trusted()) {
                Err(Error::CannotUse(_)) if clock.now() < begun + LOCK_PATIENCE_NANOS => {
                    if !told && clock.now() >= begun + LOCK_SILENCE_NANOS {
                        told = true;
                        let trusted = self.place.trusted();
                        let trusted = trusted.display();
                        tracing::warn!("another process uses {trusted}: waiting for its end");
                    }
                    clock.sleep_until(clock.now() + LOCK_LOOK_NANOS).await;
                }
                taken => return taken.map(Arc::new),
            }
        }
    }

    /// The shape that a new store is made with.
    pub(crate) fn new_shape(&self) -> Result<ShapeArgs> {
        shape_for(&self.shape, &self.place.store_url())
    }

    pub(crate) fn shape_args(&self) -> &ShapeArgs {
        &self.shape
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Outside the recorder, so that the trace is what leaves and nothing stands behind it.
    fn watched(&self, store: Arc<dyn Store>, config: &StoreConfig) -> Arc<dyn Store> {
        let Some(live) = &self.live else { return store };
        live.begin(config);
        Arc::new(Watched::new(store, live.clone()))
    }

    pub(crate) fn randomness(&self) -> Result<Randomness> {
        if let Some(given) = &self.randomness {
            return Ok(given.clone());
        }
        let seed = fogbank_seal::system_seed()
            .map_err(|_| Error::CannotUse("the system has no randomness to give".into()))?;
        Ok(Randomness::from_seed(seed))
    }

    /// The key, made for a new store, and the register at the place where it is kept.
    async fn register(
        &self,
        kept: &RegisterPlace,
        exists: bool,
        randomness: &Randomness,
        (clock, lock): (&Arc<dyn Clock>, &Arc<FolderLock>),
    ) -> Result<(MasterKey, Arc<dyn Register>)> {
        let mut stream = randomness.stream(Purpose::MasterKey);
        let may_create = !exists && !kept.knows_a_store().await?;
        let key = self.place.trusted().join("key");
        let master = match kept {
            // Goes with the process, as the store does: a file would say that there is a store.
            RegisterPlace::Memory => {
                let mut bytes = [0; 32];
                stream.fill_bytes(&mut bytes);
                MasterKey::from_bytes(&mut bytes)
            }
            _ => fogbank_seal::load_or_create(&key, &mut stream, may_create)
                .map_err(|e| Error::CannotUse(e.to_string()))?,
        };
        let register = kept.register(&master, randomness, clock)?;
        kept.note(&*register, !exists || self.accept_rollback_risk).await?;
        Ok((master, Arc::new(Holding { register, _lock: lock.clone() })))
    }

    /// Creates the vault of a new store, whose public configuration and settings are `told`, or
    /// takes over that of an existing one, which has `claimed` to be what it is. The register it
    /// goes by is what `of_register` makes of the one that is kept.
    pub(crate) async fn vault(
        &self,
        store: Arc<dyn Store>,
        claimed: Option<&[u8]>,
        (config, settings): (Vec<u8>, VaultSettings),
        side: Side<'_>,
        of_register: impl FnOnce(Arc<dyn Register>) -> Arc<dyn Register> + Send,
    ) -> Result<(Vault, Recovered)> {
        let Side { clock, lock, randomness, kept } = side;
        let register = self.register(kept, claimed.is_some(), randomness, (clock, lock));
        let (master, register) = register.await?;
        let register = of_register(register);
        let opening = Opening {
            store,
            register,
            master: &master,
            random: randomness,
            settings,
            accept_rollback_risk: self.accept_rollback_risk,
        };
        // The commit record is read twice, which a lying store may answer differently: what is gone
        // by here is held against the one that verifies, before anything is put.
        if let Some(claimed) = claimed {
            return Ok(opening.recover_claimed(claimed).await?);
        }
        Ok((opening.create(config).await?, Recovered::default()))
    }

    /// Both sides, and what the cloud shows as the configuration.
    pub(crate) async fn sides(&self) -> Result<Sides> {
        let clock = self.own_clock();
        let (lock, bare) = self.both_sides(&clock).await?;
        let claimed = self.config_shown(&*bare, &clock).await?;
        Ok(Sides { lock, bare, clock, claimed })
    }

    /// The configuration in the commit record, if there is one: by the key, where there is a key.
    /// Without one it is only claimed, and says no more than that there is a store.
    pub(crate) async fn config_shown(
        &self,
        store: &dyn Store,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Vec<u8>>> {
        let key = self.place.trusted().join("key");
        if self.place.in_memory() || !key.exists() {
            let shown = Vault::claimed_config(store).await;
            let shown = shown.map_err(|e| self.place.in_the_way(e.into()))?;
            if shown.is_none() && Site::is_begun(store).await.unwrap_or(false) {
                return Err(Error::Usage(format!(
                    "there is a site at {}, a disk that many clients share: its commands begin \
                     with fogbank site; for a store or a volume choose another --store",
                    self.place.store_url()
                )));
            }
            return Ok(shown);
        }
        let randomness = self.randomness()?;
        let mut unused = randomness.stream(Purpose::MasterKey);
        let master = fogbank_seal::load_or_create(&key, &mut unused, false)
            .map_err(|e| Error::CannotUse(e.to_string()))?;
        let register = RegisterPlace::of(&self.place)?.register(&master, &randomness, clock)?;
        Ok(Vault::config_by_key(store, &*register, &master).await?)
    }

    /// The clock to run by.
    pub(crate) fn own_clock(&self) -> Arc<dyn Clock> {
        self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::new()))
    }

    /// The lock of the trusted side, and the bare store.
    async fn both_sides(
        &self,
        clock: &Arc<dyn Clock>,
    ) -> Result<(Arc<FolderLock>, Arc<dyn Store>)> {
        if let Some(store) = self.on.clone() {
            self.place.check_whole()?;
            return Ok((self.lock(clock).await?, store));
        }
        self.check_places()?;
        let lock = self.lock(clock).await?;
        let bare = self.place.open_store(clock).await;
        Ok((lock, bare.map_err(|e| self.place.in_the_way(e))?))
    }
}

/// Both sides of a store.
pub(crate) struct Sides {
    pub lock: Arc<FolderLock>,
    pub bare: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    /// Its configuration, if there is a store: by the key, if there is one.
    pub claimed: Option<Vec<u8>>,
}

/// What the trusted side is opened with.
pub(crate) struct Side<'a> {
    pub clock: &'a Arc<dyn Clock>,
    pub lock: &'a Arc<FolderLock>,
    pub randomness: &'a Randomness,
    pub kept: &'a RegisterPlace,
}

/// Both sides of a store that is being filled.
pub(crate) struct FillTarget {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub trusted: PathBuf,
    /// What the cloud shows as its configuration, if a filling was begun there.
    pub claimed: Option<Vec<u8>>,
    _lock: Arc<FolderLock>,
}

impl FillTarget {
    /// Both sides, of a volume that is to be made here.
    pub fn sides(&self) -> Sides {
        let (lock, bare) = (self._lock.clone(), self.store.clone());
        Sides { lock, bare, clock: self.clock.clone(), claimed: self.claimed.clone() }
    }

    /// Notes something beside the marker.
    pub fn note(&self, name: &str, data: &[u8]) -> Result<()> {
        let file = self.trusted.join(name);
        fogbank_env::write_secret(&file, data)
            .map_err(|e| Error::CannotUse(format!("{}: {e}", file.display())))
    }

    /// Takes the marker away, and what was noted beside it.
    pub fn is_whole(&self) -> Result<()> {
        let _not_there = std::fs::remove_file(self.trusted.join(NOTED));
        let marker = self.trusted.join(MARKER);
        std::fs::remove_file(&marker)
            .map_err(|e| Error::CannotUse(format!("{}: {e}", marker.display())))
    }
}

/// Says how far the recovery is; nothing if there is hardly anything to do.
fn tell(recovered: &Recovered, done: usize, of: usize) {
    let (epochs, batches) = (recovered.deltas.len(), recovered.journal.len());
    if done == 0 && batches + epochs > 0 {
        let epochs = counted(epochs, "epoch", "epochs");
        let batches = counted(batches, "batch", "batches");
        tracing::info!(
            "the store was not closed; nothing acknowledged is lost: replaying its journal \
             ({epochs}, {batches})"
        );
    }
    if of > 100 && done > 0 && done.is_multiple_of(of / 10) {
        tracing::info!("{} % recovered", 100 * done / of);
    }
}

/// How long an opening waits for the lock of the trusted side, after how long it says so, and how
/// often it looks.
const LOCK_PATIENCE_NANOS: Nanos = 5_000_000_000;
const LOCK_SILENCE_NANOS: Nanos = 300_000_000;
const LOCK_LOOK_NANOS: Nanos = 20_000_000;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fogbank_store::{Lie, LieRule, MemoryStore, Operation, Tampering};

    use super::*;

    async fn open_on(folder: &Path, store: &Arc<Tampering<MemoryStore>>) -> Result<Opened> {
        OpenOptions::new(Place::local(folder)).on(store.clone()).open().await
    }

    /// The commit record was read twice: first to see what the store is, then to verify it. Whoever
    /// answered the first read with another configuration chose what the epochs ran by.
    #[tokio::test]
    async fn a_configuration_that_only_the_first_read_showed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Tampering::new(MemoryStore::new()));
        open_on(folder.path(), &store).await.unwrap().close().await.unwrap();
        let (record, _) = store.blob_get("commit").await.unwrap().unwrap();
        // One bit of the pace, and one of what the lengths of journal records follow from.
        for (field, digits) in [(&b"\"interval_ms\":"[..], 1), (b"\"batch\":", 2)] {
            let at = record.windows(field.len()).position(|w| w == field).unwrap() + field.len();
            let lie = Lie::FlipBit(8 * (at + digits - 1) + usize::from(digits == 1) * 2);
            let told = store.lies_told();
            let rule = LieRule { operation: Operation::BlobGet, nth: 1, lie, always: false };
            store.add(rule);
            let refused = open_on(folder.path(), &store).await.err();
            assert_eq!(store.lies_told(), told + 1);
            assert!(matches!(refused, Some(Error::CloudLied(_))), "{refused:?}");
            // Nothing was put: who is told the truth afterwards can go on.
            open_on(folder.path(), &store).await.unwrap().close().await.unwrap();
        }
    }
}
