//! Creating a store and taking one over, whoever used it before and however he stopped.
//!
//! 1. The register is read, then the commit record, which has to be the register's or its
//!    successor.
//! 2. The journal of the open epoch is read to its end, some records at once, and held against
//!    both. If either goes on further than the register, the register is bumped to where they end.
//! 3. A *takeover* record goes into the next free place of the journal. Whoever wrote the journal
//!    before meets it at his next record that would count, so the journal read is all that he will
//!    ever have read.
//! 4. The store is *claimed*: a commit record with a fresh salt, if nobody has put one since. If
//!    somebody has, all begins again, unless he took the place behind our takeover record: then we
//!    are overtaken. A cloud that says so and shows the same as before has lied.
//! 5. The register is bumped; full checkpoint and deltas are read and verified; what a stop left
//!    behind is deleted.
//!
//! A stop anywhere in this leaves a store that is opened in the same way: takeover records of
//! openings that never claimed the store are skipped.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_seal::{Digest, KeyRing, MasterKey, Salt, StoreId, digest};
use fogbank_store::{BlobTag, PutCondition, Store};

use crate::commit::{COMMIT_BLOB, CommitRecord, LogEnd, State};
use crate::container::{self, ContainerName};
use crate::error::{Suspicion, commit_asked};
use crate::freshness::Known;
use crate::journal::{Appended, Entry, Log, Writer};
use crate::put::{Put, put};
use crate::sweep::sweep;
use crate::vault::{Health, register_value};
use crate::{Error, Register, RegisterValue, Result, Section, Vault, VaultSettings, link};

/// How often an opening begins again because others change the store meanwhile.
const ATTEMPTS_MAX: u32 = 64;

/// What a store is opened with.
pub struct Opening<'a> {
    /// The cloud side.
    pub store: Arc<dyn Store>,
    /// The freshness register of the trusted side.
    pub register: Arc<dyn Register>,
    /// The user's key.
    pub master: &'a MasterKey,
    /// Where the salt of this opening comes from.
    pub random: &'a Randomness,
    /// Public numbers that follow from the store's configuration.
    pub settings: VaultSettings,
    /// Goes on though the register is lost: whatever the cloud shows is taken for the newest state.
    /// Never without an operator who has been told what that means.
    pub accept_rollback_risk: bool,
}

/// What a store held. Everything in it has been verified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The sections of the newest full checkpoint; none if there never was one.
    pub full: Vec<Section>,
    /// The deltas of the epochs committed since, oldest first.
    pub deltas: Vec<Vec<Section>>,
    /// The engine's records since then, oldest first: what the cloud may have seen read. None where
    /// the journal is near ([`VaultSettings::journal_is_near`]): then the vault reads them again.
    pub journal: Vec<Vec<u8>>,
    /// How many they are, wherever they are.
    pub records: u64,
    /// Epochs committed so far.
    pub epoch: u64,
}

/// How many records a journal has, and those that are kept.
type Journal = (u64, Vec<Vec<u8>>);

/// The commit record as it was when this opening looked, opened and held against the register.
pub(crate) struct View {
    pub record: CommitRecord,
    pub digest: Digest,
    pub keys: Arc<KeyRing>,
    pub tag: BlobTag,
    /// Bytes of the record.
    pub bytes: u64,
}

impl Opening<'_> {
    /// Makes a new store with the public configuration `config` and claims it.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one, [`Error::CloudEmpty`] if only the register knows one.
    pub async fn create(self, config: Vec<u8>) -> Result<Vault> {
        let mut stream = self.random.stream(Purpose::Incarnation);
        let drawn = StoreId::draw(&mut stream);
        // Before the store there is a register that says which one is being made: a stop in between
        // must not look like a lost register.
        let intent = match self.register.take().await? {
            None => {
                let intent = intent(drawn);
                self.register.write(None, intent).await?;
                intent
            }
            Some(known) if known.sequence == 0 => known,
            Some(_) => return Err(Error::CloudEmpty),
        };
        let record = CommitRecord::first(intent.store, config, Salt::draw(&mut stream));
        let (store, register) = (self.store, self.register);
        create_at(store, register, self.master, (Some(intent), record), self.settings).await
    }

    /// Takes the store over and reads what it held. If that fails midway, or this proxy stops, the
    /// store can be opened again.
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::CloudEmpty`], [`Error::RegisterLost`], [`Error::CloudLied`];
    /// [`Error::Fenced`] if another proxy was faster.
    pub async fn recover(self) -> Result<(Vault, Recovered)> {
        let (vault, journal) = self.take_over(None).await?;
        self.read(vault, journal).await
    }

    /// As [`Opening::recover`], for whoever has already gone by `config`, which is only claimed:
    /// unless it is the store's, nothing is put. A record of lengths that follow from another
    /// configuration could never be taken back.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if the configuration is another one, else as [`Opening::recover`].
    pub async fn recover_claimed(self, config: &[u8]) -> Result<(Vault, Recovered)> {
        let (vault, journal) = self.take_over(Some(config)).await?;
        self.read(vault, journal).await
    }

    /// Steps 1 to 4 and the register, again as long as others change the store meanwhile.
    async fn take_over(&self, config: Option<&[u8]>) -> Result<(Vault, Journal)> {
        let mut stream = self.random.stream(Purpose::Incarnation);
        let mut known = self.register.take().await?;
        let mut seen = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(config, &mut known, &mut stream, &mut seen).await {
                Ok(Some(taken)) => return Ok(taken),
                Ok(None) => known = self.register.take().await?,
                // What the cloud shows may have changed between two of our looks. Only the register
                // says whether it did: a cloud that lied hears nothing more.
                Err(error @ Error::CloudLied(_)) => {
                    let now = self.register.take().await?;
                    if now == known {
                        return Err(error);
                    }
                    known = now;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Fenced) // others are opening it again and again
    }

    /// One attempt; `None` if somebody changed the store meanwhile. `registered` is what the
    /// register holds as far as we know; `seen` is what it was, and the commit record, at earlier
    /// attempts.
    async fn attempt(
        &self,
        config: Option<&[u8]>,
        registered: &mut Option<RegisterValue>,
        stream: &mut Stream,
        seen: &mut Vec<(Digest, Option<RegisterValue>)>,
    ) -> Result<Option<(Vault, Journal)>> {
        let accept = self.accept_rollback_risk;
        let view = look(&*self.store, &*self.register, self.master, *registered, accept).await?;
        let places = Known::check(&view.record, view.digest, *registered)?;
        if seen.contains(&(view.digest, *registered)) {
            return Err(Error::CloudLied(Suspicion::Unchanged));
        }
        seen.push((view.digest, *registered));
        if config.is_some_and(|config| config != view.record.public.config) {
            return Err(Error::CloudLied(Suspicion::Config));
        }
        let mut log = self.log(&view).through(places.places());
        let start = log.end();
        log.read_all().await?;
        places.check_log(&log, log.rules.at_once.into())?;
        if !self.settle(&view, registered, &log).await? {
            return Ok(None);
        }
        let salt = unused_salt(view.record.public.salts.iter().chain(log.salts()), stream);
        let (mut record, keys) = claim(&view, salt, self.master)?;
        let Some(end) = self.take_place(&view, &keys, &mut log, registered).await? else {
            return Ok(None);
        };
        record.log = Some(end);
        if log.records() > 0 {
            record.public.state = State::Running;
        }
        let (bytes, digest) = record.seal(&keys);
        let condition = PutCondition::IfUnchanged(view.tag.clone());
        let tag = match put(&*self.store, COMMIT_BLOB, Bytes::from(bytes), condition).await? {
            Put::Ours(tag) => tag,
            Put::Theirs(there) => {
                log.add(Entry::Takeover, salt, end.digest);
                return self.overtaken(there, &record, &mut log).await.map(|()| None);
            }
        };
        let known = register_value(&record, digest, end);
        self.register.write(*registered, known).await?;
        let mut takeovers: Vec<u64> = log.takeovers().collect();
        takeovers.push(log.end().place);
        let (journalled, records) = ([start, log.end()], log.records());
        let journal = (records, log.batches());
        let vault = Vault {
            store: self.store.clone(),
            register: self.register.clone(),
            settings: self.settings,
            keys: Arc::new(keys),
            record,
            digest,
            tag,
            known,
            bumping: None,
            journalled,
            log: end,
            ahead: end,
            takeovers,
            deltas: Vec::new(),
            writing: false,
            superseded: Vec::new(),
            health: Health::Well,
            was_given_up: Arc::default(),
        };
        Ok(Some((vault, journal)))
    }

    fn log(&self, view: &View) -> Log {
        let at = (self.store.clone(), view.keys.clone());
        let from = (view.record.epoch + 1, view.record.log_start(view.digest));
        Log::new(at, from, self.settings.rules(), !self.settings.journal_is_near)
    }

    /// Bumps the register to the commit record and the end of the journal; `false` if somebody else
    /// bumped it meanwhile.
    async fn settle(
        &self,
        view: &View,
        registered: &mut Option<RegisterValue>,
        log: &Log,
    ) -> Result<bool> {
        let value = register_value(&view.record, view.digest, log.end());
        if *registered == Some(value) {
            return Ok(true);
        }
        match self.register.write(*registered, value).await {
            Ok(()) => *registered = Some(value),
            Err(Error::Fenced) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Puts the takeover record into the first free place. Records that come first are read on the
    /// way; `None` if the epoch ended meanwhile.
    async fn take_place(
        &self,
        view: &View,
        keys: &KeyRing,
        log: &mut Log,
        registered: &mut Option<RegisterValue>,
    ) -> Result<Option<LogEnd>> {
        let (epoch, rules) = (log.epoch, log.rules);
        let writer = Writer { store: &*self.store, keys, epoch, rules };
        loop {
            if let Appended::At(end) = writer.append(log.end(), &Entry::Takeover).await? {
                return Ok(Some(end));
            }
            if !log.read_next().await? || !self.settle(view, registered, log).await? {
                return Ok(None);
            }
        }
    }

    /// Somebody has put a commit record since we looked. If it is a claim whose journal holds our
    /// takeover record, he came after us; otherwise ours comes after his. That he did the journal
    /// shows, in which `log` ends with ours: the next record names it, so it is no older one.
    async fn overtaken(
        &self,
        there: Option<Bytes>,
        ours: &CommitRecord,
        log: &mut Log,
    ) -> Result<()> {
        let there = there.ok_or(Error::CloudLied(Suspicion::Commit))?;
        let (theirs, _, digest) = CommitRecord::open(&there, self.master)?;
        let theirs_end = theirs.log_end(digest);
        if theirs.epoch != ours.epoch || theirs_end.place <= log.end().place {
            return Ok(());
        }
        Err(if log.read_next().await? {
            Error::Fenced
        } else {
            Error::CloudLied(Suspicion::JournalCut(log.record(log.end().place)))
        })
    }

    async fn read(
        &self,
        mut vault: Vault,
        (records, journal): Journal,
    ) -> Result<(Vault, Recovered)> {
        let (store, keys) = (&*self.store, vault.keys.clone());
        let full = match vault.record.full {
            None => Vec::new(),
            Some(name) => container::read(store, &keys, name).await?,
        };
        let (deltas, names) = read_deltas(store, &keys, &vault.record).await?;
        vault.deltas = names;
        let kept: Vec<ContainerName> =
            vault.deltas.iter().copied().chain(vault.record.full).collect();
        sweep(store, &vault.record, &kept).await?;
        let epoch = vault.record.epoch;
        Ok((vault, Recovered { full, deltas, journal, records, epoch }))
    }
}

/// The deltas of the epochs since the full checkpoint, oldest first, and their names.
pub(crate) async fn read_deltas(
    store: &dyn Store,
    keys: &KeyRing,
    record: &CommitRecord,
) -> Result<(Vec<Vec<Section>>, Vec<ContainerName>)> {
    let (mut deltas, mut names, mut before) = (Vec::new(), Vec::new(), record.delta);
    for epoch in (record.full_epoch + 1..=record.epoch).rev() {
        let name = before.ok_or_else(|| Error::Bug(format!("no delta of epoch {epoch}")))?;
        let mut delta = container::read(store, keys, name).await?;
        before = link::take(&mut delta, epoch - 1)?;
        deltas.push(delta);
        names.push(name);
    }
    deltas.reverse();
    names.reverse();
    Ok((deltas, names))
}

/// What the register holds while `store` is being created.
fn intent(store: StoreId) -> RegisterValue {
    let (commit, journal) = ([0; 32], [0; 32]);
    RegisterValue { store, opening: 0, sequence: 0, commit, epoch: 0, place: 0, journal }
}

/// Reads the commit record and opens it; says what is missing.
pub(crate) async fn look(
    store: &dyn Store,
    register: &dyn Register,
    master: &MasterKey,
    known: Option<RegisterValue>,
    accept_rollback_risk: bool,
) -> Result<View> {
    let Some((bytes, tag)) = store.blob_get(COMMIT_BLOB).await.map_err(commit_asked)? else {
        let begun = known.is_some_and(|known| known.sequence > 0);
        return Err(if begun { Error::CloudEmpty } else { Error::NoStore });
    };
    if known.is_none() && !accept_rollback_risk {
        return Err(Error::RegisterLost(register.place()));
    }
    let opened = CommitRecord::open(&bytes, master);
    let (record, keys, digest) = opened.map_err(|error| unopened(error, &bytes, known))?;
    // A register left by an attempt to create another store here knows nothing of this one.
    let foreign = known.is_some_and(|k| k.sequence == 0 && k.store != record.public.store);
    if foreign {
        return Err(Error::RegisterLost(register.place()));
    }
    let bytes = bytes.len() as u64;
    Ok(View { record, digest, keys: Arc::new(keys), tag, bytes })
}

/// Why a commit record does not open. One that the register knows is genuine, though we cannot read
/// it; what nothing vouches for is the cloud's.
pub(crate) fn unopened(error: Error, bytes: &[u8], known: Option<RegisterValue>) -> Error {
    let genuine = known.is_some_and(|known| known.commit == digest(&[bytes]));
    match error {
        Error::CloudLied(_) if genuine => Error::CloudLied(Suspicion::WrongKey),
        Error::Format { found, .. } if !genuine => Error::CloudLied(Suspicion::Format(found)),
        error => error,
    }
}

fn claim(view: &View, salt: Salt, master: &MasterKey) -> Result<(CommitRecord, KeyRing)> {
    let mut record = view.record.next(view.digest);
    if record.public.state == State::Closed {
        record.public.state = State::Claimed;
    }
    record.public.salts.push(salt);
    let keys = key_ring(master, &record)?;
    Ok((record, keys))
}

pub(crate) fn key_ring(master: &MasterKey, record: &CommitRecord) -> Result<KeyRing> {
    let ring = KeyRing::derive(master, record.public.store, &record.public.salts);
    ring.ok_or_else(|| Error::Bug("no opening".into()))
}

/// A salt that no opening of this store has had, even if a test opens it twice from one seed.
pub(crate) fn unused_salt<'s>(used: impl Iterator<Item = &'s Salt>, stream: &mut Stream) -> Salt {
    let used: Vec<&Salt> = used.collect();
    loop {
        let salt = Salt::draw(stream);
        if !used.contains(&&salt) {
            return salt;
        }
    }
}

/// Puts the first commit record of a store and the register behind it.
async fn create_at(
    store: Arc<dyn Store>,
    register: Arc<dyn Register>,
    master: &MasterKey,
    (known, record): (Option<RegisterValue>, CommitRecord),
    settings: VaultSettings,
) -> Result<Vault> {
    let keys = key_ring(master, &record)?;
    let (bytes, digest) = record.seal(&keys);
    let put = put(&*store, COMMIT_BLOB, Bytes::from(bytes), PutCondition::IfAbsent).await?;
    let Put::Ours(tag) = put else { return Err(Error::Exists) };
    let log = record.log_end(digest);
    let value = register_value(&record, digest, log);
    register.write(known, value).await?;
    let (deltas, superseded) = (Vec::new(), Vec::new());
    let (keys, known, bumping, health) = (Arc::new(keys), value, None, Health::Well);
    Ok(Vault {
        store,
        register,
        settings,
        keys,
        record,
        digest,
        tag,
        known,
        bumping,
        journalled: [log; 2],
        log,
        ahead: log,
        takeovers: Vec::new(),
        deltas,
        writing: false,
        superseded,
        health,
        was_given_up: Arc::default(),
    })
}
