//! A store as its newest commit has it, read without taking it over.
//!
//! For a salvage: a store whose open epoch has to read lost cells again cannot be opened. And for a
//! look at one that another process serves ([`presence`]): then every read may be of another
//! moment, so nothing is blamed on the cloud before the register, which it cannot touch, says that
//! nothing has moved meanwhile.
//!
//! Invariant: nothing is sent that changes the store (`fogbank_store::Reading`).
//!
//! What the cloud sees: reads of the commit record, checkpoint and deltas, of each once; of a
//! salvage then those of a scan; of a look the lists of chunks and of journal records.

use std::collections::BTreeSet;
use std::sync::Arc;

use fogbank_durable::{Committed, JOURNAL_PREFIX, RegisterValue, Suspicion, missing_record};
use fogbank_env::{Clock, FolderLock, Purpose, Randomness, SystemClock};
use fogbank_oram::{RecoverableEngine, Scanned};
use fogbank_seal::MasterKey;
use fogbank_store::{ArrayId, ChunkName, OrderedGridStore, Reading, Store, StoreError};
use fogbank_txn::Moving;

use crate::backup::check_second_store;
use crate::config::StoreConfig;
use crate::engines::ring;
use crate::error::{Error, Result};
use crate::open::{OpenOptions, Sides};
use crate::place::Place;
use crate::registers::RegisterPlace;
use crate::volume::{SECOND_STORE_FLAG, is_of_volume};

/// How often a look begins again because the store moves on meanwhile.
const ATTEMPTS_MAX: u32 = 32;

/// A store as it was committed last.
pub struct Stored {
    config: StoreConfig,
    engine: Box<dyn RecoverableEngine>,
    directory: Moving,
    _lock: Arc<FolderLock>,
}

impl OpenOptions {
    /// Reads the newest commit of a store that nobody serves, and takes nothing over; `flag` asks
    /// for that.
    ///
    /// # Errors
    /// By blame, see [`Error`]: of a checkpoint or delta that does not verify, too, for without
    /// them no block can be found.
    pub async fn stored(self, flag: &str) -> Result<Stored> {
        let Sides { lock, bare, clock, claimed } = self.sides().await?;
        let claimed = claimed.ok_or(fogbank_durable::Error::NoStore)?;
        check_keys(self.place(), &claimed, flag)?;
        let asked = Asked::of(self.place(), bare, clock, &claimed, self.randomness()?)?;
        let committed = asked.committed().await?;
        let engine = asked.engine(&committed, true)?;
        let directory = Moving::recovered(&committed.recovered, &engine.shape())?;
        Ok(Stored { config: asked.config, engine, directory, _lock: lock })
    }
}

impl Stored {
    /// The public configuration.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// The directory of keys.
    pub fn directory(&mut self) -> &mut Moving {
        &mut self.directory
    }

    /// Reads every cell of the store and hands over what verifies.
    ///
    /// # Errors
    /// As `into` says; what the cloud is not to blame for, always.
    pub async fn scan(&mut self, into: &mut dyn Scanned) -> Result<()> {
        Ok(self.engine.scan(into).await?)
    }
}

/// What is known before anything is asked.
struct Asked {
    place: Place,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    random: Randomness,
    master: MasterKey,
    config: StoreConfig,
    claimed: Vec<u8>,
}

impl Asked {
    fn of(
        place: &Place,
        bare: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        claimed: &[u8],
        random: Randomness,
    ) -> Result<Self> {
        let config = StoreConfig::decode(claimed)?;
        let paced =
            OrderedGridStore::new(Reading::new(bare), clock.clone(), config.departure_quantum());
        let mut unused = random.stream(Purpose::MasterKey);
        let master = fogbank_seal::load_or_create(&place.trusted().join("key"), &mut unused, false)
            .map_err(|e| Error::CannotUse(e.to_string()))?;
        let (store, place, claimed) = (Arc::new(paced), place.clone(), claimed.to_vec());
        Ok(Self { place, store, clock, random, master, config, claimed })
    }

    /// The register as it is now: one that was read before may remember what it read.
    async fn register(&self) -> Result<Option<RegisterValue>> {
        let kept = RegisterPlace::of(&self.place)?;
        Ok(kept.register(&self.master, &self.random, &self.clock)?.read().await?)
    }

    async fn committed(&self) -> Result<Committed> {
        let kept = RegisterPlace::of(&self.place)?;
        let register = kept.register(&self.master, &self.random, &self.clock)?;
        let read = Committed::read(&*self.store, &*register, &self.master, &self.random);
        let committed = read.await?;
        // By what was claimed first we have only chosen when to ask.
        if committed.config != self.claimed {
            return Err(fogbank_durable::Error::CloudLied(Suspicion::Config).into());
        }
        Ok(committed)
    }

    /// As [`Asked::committed`] while the store may be served.
    async fn committed_meanwhile(&self) -> Result<Committed> {
        meanwhile(|| self.register(), || self.committed()).await
    }

    /// The engine at that commit; `blind` if its array may be gone.
    fn engine(&self, committed: &Committed, blind: bool) -> Result<Box<dyn RecoverableEngine>> {
        let (store, settings) = (self.store.clone(), self.config.ring_settings());
        ring::at(committed, store, settings, &self.random, blind)
    }

    /// How many journal records of the open epoch the register knows and the cloud has; `None` if
    /// epochs end too fast to say.
    async fn journal(&self) -> Result<Option<u64>> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(before) = self.register().await? else { return Ok(Some(0)) };
            let listed = self.store.blob_list(JOURNAL_PREFIX).await.map_err(blamed)?;
            let after = self.register().await?;
            let same = |after: RegisterValue| {
                (after.opening, after.epoch) == (before.opening, before.epoch)
            };
            if !after.is_some_and(same) {
                continue;
            }
            return match missing_record(&before, &listed) {
                None => Ok(Some(before.place)),
                Some(blob) => {
                    let cut = Suspicion::JournalCut(blob);
                    Err(fogbank_durable::Error::CloudLied(cut).into())
                }
            };
        }
        Ok(None)
    }
}

/// Reads what may move while it is read: a lie is one only if the register stood still meanwhile.
async fn meanwhile<T>(
    register: impl AsyncFn() -> Result<Option<RegisterValue>>,
    read: impl AsyncFn() -> Result<T>,
) -> Result<T> {
    let mut before = register().await?;
    for _ in 0..ATTEMPTS_MAX {
        match read().await {
            Err(error @ Error::CloudLied(_)) => {
                let now = register().await?;
                if now == before {
                    return Err(error);
                }
                before = now;
            }
            read => return read,
        }
    }
    Err(moves_on())
}

/// The configuration as the key and the register have it: what the cloud shows counts for nothing
/// before that, also for what is said about it.
async fn shown_meanwhile(
    place: &Place,
    bare: &dyn Store,
    clock: &Arc<dyn Clock>,
    random: &Randomness,
) -> Result<Vec<u8>> {
    let options = OpenOptions::new(place.clone());
    let key = place.trusted().join("key");
    if !key.exists() {
        let shown = options.config_shown(bare, clock).await?;
        return Ok(shown.ok_or(fogbank_durable::Error::NoStore)?);
    }
    let mut unused = random.stream(Purpose::MasterKey);
    let master = fogbank_seal::load_or_create(&key, &mut unused, false)
        .map_err(|e| Error::CannotUse(e.to_string()))?;
    let register = async || {
        let kept = RegisterPlace::of(place)?;
        Ok(kept.register(&master, random, clock)?.read().await?)
    };
    let shown = meanwhile(register, async || options.config_shown(bare, clock).await).await?;
    Ok(shown.ok_or(fogbank_durable::Error::NoStore)?)
}

/// What the store at `place` was made with, whoever serves it meanwhile.
pub(crate) async fn shown(place: &Place) -> Result<StoreConfig> {
    let seed = fogbank_seal::system_seed()
        .map_err(|_| Error::CannotUse("the system has no randomness to give".into()))?;
    let (clock, random) = (SystemClock::new(), Randomness::from_seed(seed));
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let bare = Reading::new(place.open_store(&clock).await?);
    let claimed = shown_meanwhile(place, &bare, &clock, &random).await?;
    OpenOptions::new(place.clone()).check_key()?;
    StoreConfig::decode(&claimed)
}

/// What a look at a store found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presence {
    /// Epochs committed.
    pub epoch: u64,
    /// Deltas since the full checkpoint: they and the checkpoint were read and verify.
    pub deltas: usize,
    /// Records of the open epoch's journal that are there; `None` if epochs end too fast to say.
    pub journal: Option<u64>,
    /// Buckets that are there under the version that counts.
    pub buckets: usize,
    /// Buckets that were written again meanwhile: of these nothing is known.
    pub rewritten: usize,
}

/// Looks whether everything that has to be at the store is there, whoever serves it meanwhile.
///
/// # Errors
/// [`Error::CloudLied`] if anything is missing; [`Error::Absent`] if the store moves on too fast.
pub async fn presence(place: &Place) -> Result<Presence> {
    if place.in_memory() {
        return Err(Error::Usage("a store in memory is its process's own".into()));
    }
    place.check_sides()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let bare = place.open_store(&clock).await?;
    presence_at(place, bare, clock).await
}

/// As [`presence`], at a store that is at hand.
///
/// # Errors
/// As [`presence`].
pub async fn presence_at(
    place: &Place,
    bare: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> Result<Presence> {
    let seed = fogbank_seal::system_seed()
        .map_err(|_| Error::CannotUse("the system has no randomness to give".into()))?;
    let random = Randomness::from_seed(seed);
    let claimed = shown_meanwhile(place, &*bare, &clock, &random).await?;
    check_keys(place, &claimed, "--presence")?;
    let asked = Asked::of(place, bare, clock, &claimed, random)?;
    let first = asked.committed_meanwhile().await?;
    let mut wanted: BTreeSet<ChunkName> =
        asked.engine(&first, false)?.written().into_iter().collect();
    let array = ArrayId(asked.config.ring_settings().array.into());
    let listed = asked.store.list_chunks(array).await.map_err(blamed)?;
    let there: BTreeSet<ChunkName> = listed.into_iter().collect();
    // A version that counted before and after the list was there throughout: what a commit
    // supersedes is deleted after it.
    let last = asked.committed_meanwhile().await?;
    let all = wanted.len();
    if last.sequence != first.sequence {
        let now: BTreeSet<ChunkName> = asked.engine(&last, false)?.written().into_iter().collect();
        wanted.retain(|name| now.contains(name));
    }
    let missing: Vec<&ChunkName> = wanted.difference(&there).collect();
    if let Some(name) = missing.first() {
        let first = fogbank_oram::Unverified::Chunk(**name);
        let what =
            format!("{} of {} buckets are not there, the first: {first}", missing.len(), all);
        return Err(blamed(StoreError::Misbehaved(what)));
    }
    let journal = asked.journal().await?;
    Ok(Presence {
        epoch: last.recovered.epoch,
        deltas: last.recovered.deltas.len(),
        journal,
        buckets: wanted.len(),
        rewritten: all - wanted.len(),
    })
}

/// Refuses what is no store of keys, of which alone these things can be asked.
fn check_keys(place: &Place, config: &[u8], flag: &str) -> Result<()> {
    if !is_of_volume(config) {
        place.check_no_second_journal()?;
        return check_second_store(config, SECOND_STORE_FLAG, place.second_store.as_deref());
    }
    Err(Error::Usage(format!(
        "{flag} is for stores of keys, and this is a volume: leave it out. While nobody serves a \
         volume, fogbank verify reads every block of it and fogbank backup copies all of it; what \
         the cloud has lost of it is in a backup alone (fogbank restore)"
    )))
}

/// An error of the store itself, by blame and with what can be done.
fn blamed(error: StoreError) -> Error {
    match error {
        StoreError::Misbehaved(what) | StoreError::NoArray(what) => {
            fogbank_oram::Error::CloudLied(fogbank_oram::Unverified::Reply(what)).into()
        }
        error => fogbank_durable::Error::from(error).into(),
    }
}

fn moves_on() -> Error {
    Error::Absent("the store moves on faster than it can be read; try again, or stop it".into())
}
