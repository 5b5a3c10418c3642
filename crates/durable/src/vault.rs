//! Creating, opening and closing a store.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness};
use fogbank_seal::{Digest, KeyRing, MasterKey, Salt, StoreId};
use fogbank_store::{BlobTag, PutCondition, PutOutcome, Store};

use crate::commit::{COMMIT_BLOB, CheckpointName, CommitRecord, PublicPart, State};
use crate::container;
use crate::{Error, Register, RegisterValue, Result, Section};

/// A store that this process has opened: holds its keys and its place in the chain of commits.
pub struct Vault {
    store: Arc<dyn Store>,
    register: Arc<dyn Register>,
    keys: Arc<KeyRing>,
    record: CommitRecord,
    digest: Digest,
    tag: BlobTag,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("sequence", &self.record.public.sequence).finish()
    }
}

/// What an opened store held: the sections given to [`Vault::close`]; none if it was never closed.
pub type Restored = Vec<Section>;

impl Vault {
    /// The public configuration of the store, as its commit record claims it; `None` if there is no
    /// store. Authentic only once [`Vault::open`] has succeeded.
    ///
    /// # Errors
    /// [`Error::Absent`], [`Error::CloudLied`] or [`Error::Format`].
    pub async fn claimed_config(store: &dyn Store) -> Result<Option<Vec<u8>>> {
        match store.blob_get(COMMIT_BLOB).await? {
            None => Ok(None),
            Some((record, _)) => Ok(Some(PublicPart::decode(&record)?.0.config)),
        }
    }

    /// Makes a new store with the public configuration `config` and claims it.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one, [`Error::CloudEmpty`] if only the register knows one.
    pub async fn create(
        store: Arc<dyn Store>,
        register: Arc<dyn Register>,
        master: &MasterKey,
        config: Vec<u8>,
        random: &Randomness,
    ) -> Result<Self> {
        if register.read()?.is_some() {
            return Err(Error::CloudEmpty);
        }
        let mut stream = random.stream(Purpose::Incarnation);
        let id = StoreId::draw(&mut stream);
        let salts = vec![Salt::draw(&mut stream)];
        let keys = key_ring(master, id, &salts)?;
        let public = PublicPart { store: id, sequence: 1, state: State::Claimed, config, salts };
        let record = CommitRecord { public, previous: [0; 32], checkpoint: None };
        let (tag, digest) =
            publish(&*store, &*register, &keys, &record, PutCondition::IfAbsent, Error::Exists)
                .await?;
        Ok(Self { store, register, keys: Arc::new(keys), record, digest, tag })
    }

    /// Opens the store: verifies the newest commit record against the register, claims the store
    /// (before anything else is read), and reads the checkpoint. If that fails midway, the store can
    /// be opened again. Before its arrays are touched, [`Vault::run`].
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::RegisterLost`], [`Error::NotClosed`], [`Error::CloudLied`],
    /// [`Error::Fenced`] if another proxy was faster.
    pub async fn open(
        store: Arc<dyn Store>,
        register: Arc<dyn Register>,
        master: &MasterKey,
        random: &Randomness,
    ) -> Result<(Self, Restored)> {
        let known = register.read()?;
        let Some((bytes, tag)) = store.blob_get(COMMIT_BLOB).await? else {
            return Err(if known.is_some() { Error::CloudEmpty } else { Error::NoStore });
        };
        let known = known.ok_or_else(|| Error::RegisterLost(register.place()))?;
        let (last, _, digest) = CommitRecord::open(&bytes, master)?;
        check_fresh(&last, digest, known)?;
        if last.public.state == State::Running {
            return Err(Error::NotClosed);
        }
        let (record, keys) = next_opening(&last, digest, master, random)?;
        let condition = PutCondition::IfUnchanged(tag);
        let (tag, digest) =
            publish(&*store, &*register, &keys, &record, condition, Error::Fenced).await?;
        let restored = match record.checkpoint {
            None => Vec::new(),
            Some(name) => read_checkpoint(&*store, &keys, name).await?,
        };
        Ok((Self { store, register, keys: Arc::new(keys), record, digest, tag }, restored))
    }

    /// Says that from here on the store's arrays are read and written: without a journal nobody but
    /// this proxy can go on until it closes the store.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another proxy has claimed the store since.
    pub async fn run(&mut self) -> Result<()> {
        let mut record = self.record.clone();
        record.public.sequence += 1;
        record.public.state = State::Running;
        record.previous = self.digest;
        let condition = PutCondition::IfUnchanged(self.tag.clone());
        let (store, register) = (&*self.store, &*self.register);
        (self.tag, self.digest) =
            publish(store, register, &self.keys, &record, condition, Error::Fenced).await?;
        self.record = record;
        Ok(())
    }

    /// The keys of all openings so far; the last is this one's.
    pub fn keys(&self) -> Arc<KeyRing> {
        self.keys.clone()
    }

    /// The authentic public configuration.
    pub fn config(&self) -> &[u8] {
        &self.record.public.config
    }

    /// How often the store was opened, this time included: public.
    pub fn openings(&self) -> u32 {
        self.record.public.salts.len() as u32
    }

    /// Writes `sections` as the newest checkpoint and closes the store. Only when this has returned
    /// may the process say that everything is kept.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another proxy has opened the store since: then nothing of ours counts.
    pub async fn close(self, sections: &[Section]) -> Result<()> {
        let (opening, keys) = self.keys.current();
        let sequence = self.record.public.sequence + 1;
        let (pieces, digest) =
            container::write(&*self.store, (opening, keys), sequence, sections).await?;
        let mut record = self.record.clone();
        record.public.sequence = sequence;
        record.public.state = State::Closed;
        record.previous = self.digest;
        let name = CheckpointName { opening, sequence, pieces, digest };
        record.checkpoint = Some(name);
        let condition = PutCondition::IfUnchanged(self.tag.clone());
        let (store, register) = (&*self.store, &*self.register);
        publish(store, register, &self.keys, &record, condition, Error::Fenced).await?;
        delete_other_checkpoints(&*self.store, name).await
    }
}

fn key_ring(master: &MasterKey, store: StoreId, salts: &[Salt]) -> Result<KeyRing> {
    KeyRing::derive(master, store, salts).ok_or_else(|| Error::Bug("no opening".into()))
}

/// The record is the one the register knows, or its successor by the one put that a stop may have
/// interrupted before the register was bumped.
fn check_fresh(record: &CommitRecord, digest: Digest, known: RegisterValue) -> Result<()> {
    let same = known == RegisterValue { sequence: record.public.sequence, digest };
    let successor = known.sequence + 1 == record.public.sequence && known.digest == record.previous;
    if same || successor { Ok(()) } else { Err(Error::CloudLied) }
}

fn next_opening(
    last: &CommitRecord,
    digest: Digest,
    master: &MasterKey,
    random: &Randomness,
) -> Result<(CommitRecord, KeyRing)> {
    let mut record = last.clone();
    record.previous = digest;
    record.public.sequence += 1;
    record.public.state = State::Claimed;
    record.public.salts.push(unused_salt(&record.public.salts, random));
    let keys = key_ring(master, record.public.store, &record.public.salts)?;
    Ok((record, keys))
}

/// A salt that no opening of this store has had, even if a test opens it twice from one seed.
fn unused_salt(used: &[Salt], random: &Randomness) -> Salt {
    let mut stream = random.stream(Purpose::Incarnation);
    loop {
        let salt = Salt::draw(&mut stream);
        if !used.contains(&salt) {
            return salt;
        }
    }
}

/// Puts a commit record and bumps the register: the order that makes the register never ahead of
/// the cloud by a record that the cloud does not have.
async fn publish(
    store: &dyn Store,
    register: &dyn Register,
    keys: &KeyRing,
    record: &CommitRecord,
    condition: PutCondition,
    failed: Error,
) -> Result<(BlobTag, Digest)> {
    let (bytes, digest) = record.seal(keys);
    let bytes = Bytes::from(bytes);
    let tag = match store.blob_put(COMMIT_BLOB, bytes.clone(), condition).await? {
        PutOutcome::Done(tag) => tag,
        // The reply to an earlier, identical attempt may have been lost: our own record is success.
        PutOutcome::ConditionFailed => match store.blob_get(COMMIT_BLOB).await? {
            Some((there, tag)) if there == bytes => tag,
            _ => return Err(failed),
        },
    };
    store.barrier().await?;
    register.write(RegisterValue { sequence: record.public.sequence, digest })?;
    Ok((tag, digest))
}

async fn read_checkpoint(
    store: &dyn Store,
    keys: &KeyRing,
    name: CheckpointName,
) -> Result<Vec<Section>> {
    let of = keys.of(name.opening).ok_or(Error::CloudLied)?;
    container::read(store, of, name).await
}

async fn delete_other_checkpoints(store: &dyn Store, kept: CheckpointName) -> Result<()> {
    let piece_name = |piece| container::piece_name(kept.opening, kept.sequence, piece);
    let keep: Vec<String> = (0..kept.pieces).map(piece_name).collect();
    let mut names = store.blob_list(container::PREFIX).await?;
    names.retain(|name| keep.binary_search(name).is_err());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(store.blob_delete(&names).await?)
}
