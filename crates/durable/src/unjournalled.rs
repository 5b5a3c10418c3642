//! A store without a journal: how it is created, opened and run until its engine keeps one.
//!
//! Nobody can say then what was read since the last checkpoint, so a store that was not closed is
//! refused. Nothing here reads or writes a journal or a delta.

use std::sync::Arc;

use fogbank_env::{Purpose, Randomness};
use fogbank_seal::{MasterKey, Salt, StoreId};
use fogbank_store::Store;

use crate::commit::{COMMIT_BLOB, CommitRecord, PublicPart, State};
use crate::container::{self, Kind};
use crate::freshness::Known;
use crate::opening::{claim, create_at, look, unused_salt};
use crate::vault::{Health, register_value};
use crate::{Error, Register, Result, Section, Vault, VaultSettings};

impl Vault {
    /// The public configuration of the store, as its commit record claims it; `None` if there is no
    /// store. Authentic only once the store is open.
    ///
    /// # Errors
    /// [`Error::Absent`], [`Error::CloudLied`] or [`Error::Format`].
    pub async fn claimed_config(store: &dyn Store) -> Result<Option<Vec<u8>>> {
        match store.blob_get(COMMIT_BLOB).await? {
            None => Ok(None),
            Some((record, _)) => Ok(Some(PublicPart::decode(&record)?.0.config)),
        }
    }

    /// Makes a new store that has no journal, and claims it.
    ///
    /// # Errors
    /// As [`crate::Opening::create`].
    pub async fn create(
        store: Arc<dyn Store>,
        register: Arc<dyn Register>,
        master: &MasterKey,
        config: Vec<u8>,
        random: &Randomness,
    ) -> Result<Self> {
        if register.read().await?.is_some() {
            return Err(Error::CloudEmpty);
        }
        let mut stream = random.stream(Purpose::Incarnation);
        let id = StoreId::draw(&mut stream);
        let record = CommitRecord::first(id, config, Salt::draw(&mut stream));
        let settings = VaultSettings::default();
        let vault = create_at(store, register, master, (None, record), settings).await?;
        Ok(Self { journalled: false, ..vault })
    }

    /// Opens a store that has no journal: verifies the newest commit record against the register,
    /// claims the store, and reads the checkpoint. If that fails midway, the store can be opened
    /// again. Before its arrays are touched, [`Vault::run`].
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::RegisterLost`], [`Error::NotClosed`], [`Error::CloudLied`],
    /// [`Error::Fenced`] if another proxy was faster.
    pub async fn open(
        store: Arc<dyn Store>,
        register: Arc<dyn Register>,
        master: &MasterKey,
        random: &Randomness,
    ) -> Result<(Self, Vec<Section>)> {
        let known = register.read().await?;
        let view = look(&*store, &*register, master, known, false).await?;
        Known::check(&view.record, view.digest, known)?;
        if view.record.public.state == State::Running {
            return Err(Error::NotClosed);
        }
        let mut stream = random.stream(Purpose::Incarnation);
        let salt = unused_salt(view.record.public.salts.iter(), &mut stream);
        let (record, keys) = claim(&view, salt, master)?;
        let settled = register_value(&view.record, view.digest, view.record.log_end(view.digest));
        register.write(known, settled).await?;
        let log = view.record.log_end(view.digest);
        let mut vault = Self {
            store,
            register,
            log,
            settings: VaultSettings::default(),
            keys: Arc::new(keys),
            record: view.record,
            digest: view.digest,
            tag: view.tag,
            known: settled,
            takeovers: Vec::new(),
            deltas: Vec::new(),
            superseded: Vec::new(),
            health: Health::Well,
            journalled: false,
        };
        vault.publish(record).await?;
        let restored = match vault.record.full {
            None => Vec::new(),
            Some(name) => container::read(&*vault.store, &vault.keys, name).await?,
        };
        Ok((vault, restored))
    }

    /// Says that from here on the store's arrays are read and written: without a journal nobody but
    /// this proxy can go on until it closes the store.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another proxy has claimed the store since.
    pub async fn run(&mut self) -> Result<()> {
        self.begin()?;
        let mut record = self.record.next(self.digest);
        record.public.state = State::Running;
        let published = self.publish(record).await;
        self.end(published)
    }

    /// Deletes every full checkpoint but the one that counts.
    pub(crate) async fn delete_other_checkpoints(&self) -> Result<()> {
        let keep: Vec<String> =
            self.record.full.iter().flat_map(|c| c.piece_names().collect::<Vec<_>>()).collect();
        let mut names = self.store.blob_list(Kind::Full.prefix()).await?;
        names.retain(|name| keep.binary_search(name).is_err());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(self.store.blob_delete(&names).await?)
    }
}
