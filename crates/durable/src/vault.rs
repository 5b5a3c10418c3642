//! A store that this process has opened: the journal, epoch commits and the close.
//!
//! An epoch, in the order that nothing may change:
//!
//! 1. before each batch: its record is put behind the last one, durable, the register bumped; only
//!    then may the batch's reads leave;
//! 2. at the end, after the engine's images are durable: the delta (a full checkpoint instead where
//!    one is due), durable, then the commit record if unchanged, durable, then the register; only
//!    then may the epoch's answers leave;
//! 3. then what the commit superseded is deleted, by name.
//!
//! Several records may be under way at once ([`Vault::begin_record`]): each names the one before
//! it, and counts when all before it do ([`Vault::count`]). A put that failed or was abandoned
//! leaves a gap, behind which nothing counts: that stops the vault as any failure does.
//!
//! An engine that serves accesses as they come has no moment at which it could wait for a
//! checkpoint, or for a commit. It cuts instead ([`Vault::cut`]):
//!
//! 1. The checkpoint is written beside further journal records ([`CheckpointWriter`]).
//! 2. It is adopted ([`Vault::begin_adoption`]): a commit record says how far the checkpoint goes,
//!    and that the journal, which is one and goes on, starts there. Records are put and count
//!    meanwhile.
//! 3. Once the register knows the commit ([`Vault::end_adoption`]) the records before the cut are
//!    superseded. So an epoch of such an engine lasts until it closes the store.
//!
//! Whoever finds that another has put something in its way is fenced, but only on proof: the
//! register says so, or what stands there is sealed by the key and names what this opening put, so
//! that it is younger than that. Everything else that stands there, nothing among it, is a cloud
//! that lied.
//!
//! After any failure, or a call that was abandoned midway, every further call fails: what the cloud
//! has then is found out by opening again.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use fogbank_seal::{Digest, KeyRing};
use fogbank_store::{BlobTag, PutCondition, Store};

use crate::commit::{COMMIT_BLOB, CommitRecord, LogEnd, State};
use crate::container::{self, ContainerName, Kind};
use crate::error::Suspicion;
use crate::journal::{Entry, Journalled, Log, Rules, Writer, record_name};
use crate::link::{self, LINK_TAG};
use crate::put::{Put, put};
use crate::sweep::delete;
use crate::{Error, Register, RegisterValue, Result, Section, Sections};

/// Public numbers of a store that follow from its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VaultSettings {
    /// Records given to [`Vault::append`] are padded to the next multiple of this.
    pub record_bytes: usize,
    /// How many times as long one may be: 1 if all have one length.
    pub record_parts_max: usize,
    /// Records under way at most; at least 1. Never changed in the life of a store.
    pub records_at_once: u32,
    /// From one full checkpoint to the next, in epochs; at least 1. See [`crate::full_every`].
    pub full_every: u64,
    /// How checkpoints and deltas are cut into pieces.
    pub pieces: Piecing,
    /// Whether the journal lies on the trusted disk, where nobody sees it read twice: then an
    /// opening keeps nothing of it, and [`Vault::journalled`] reads it again.
    pub journal_is_near: bool,
}

/// How checkpoints and deltas are cut into pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piecing {
    /// Bytes of the contents of all pieces but the last; at least 1.
    pub bytes: usize,
    /// Pieces under way at once; at least 1.
    pub at_once: usize,
}

impl Piecing {
    /// Of a mebibyte each: what making one takes fits the room before it leaves.
    pub const fn usual(at_once: usize) -> Self {
        Self { bytes: 1 << 20, at_once }
    }
}

impl VaultSettings {
    pub(crate) fn rules(&self) -> Rules {
        let (part_bytes, parts_max) = (self.record_bytes, self.record_parts_max);
        Rules { part_bytes, parts_max, at_once: self.records_at_once.max(1) }
    }
}

/// A journal record that has its place, and is not in the cloud yet.
#[must_use = "a record that is not put leaves a gap behind which nothing counts"]
pub struct BegunRecord {
    store: Arc<dyn Store>,
    name: String,
    sealed: Bytes,
    before: LogEnd,
    end: LogEnd,
    pending: Pending,
}

/// A put that has to come to its end. Given up, it stops its vault: what comes behind a gap in the
/// journal never counts, and nobody knows what became of a commit.
struct Pending {
    is_done: bool,
    was_given_up: Arc<AtomicBool>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_done {
            self.was_given_up.store(true, Ordering::Release);
        }
    }
}

/// A journal record that was put.
#[derive(Debug)]
pub struct PutRecord {
    before: LogEnd,
    end: LogEnd,
    put: Put,
}

impl BegunRecord {
    /// Puts it; done when it is durable. It counts with [`Vault::count`].
    ///
    /// # Errors
    /// [`Error::Absent`] and the like.
    pub async fn put(self) -> Result<PutRecord> {
        let Self { store, name, sealed, before, end, mut pending } = self;
        let put = put(&*store, &name, sealed, PutCondition::IfAbsent).await?;
        pending.is_done = true;
        Ok(PutRecord { before, end, put })
    }
}

/// A commit record that adopts a checkpoint, and is not in the cloud yet.
#[must_use = "a vault whose adoption is given up has stopped"]
pub struct BegunAdoption {
    store: Arc<dyn Store>,
    tag: BlobTag,
    sealed: Bytes,
    record: CommitRecord,
    digest: Digest,
    pending: Pending,
}

/// A commit record that was put.
#[derive(Debug)]
pub struct PutAdoption {
    record: CommitRecord,
    digest: Digest,
    put: Put,
}

impl BegunAdoption {
    /// Puts it; done when it is durable. It counts with [`Vault::end_adoption`].
    ///
    /// # Errors
    /// [`Error::Absent`] and the like.
    pub async fn put(self) -> Result<PutAdoption> {
        let Self { store, tag, sealed, record, digest, mut pending } = self;
        let put = put(&*store, COMMIT_BLOB, sealed, PutCondition::IfUnchanged(tag)).await?;
        pending.is_done = true;
        Ok(PutAdoption { record, digest, put })
    }
}

/// A moment in the journal.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// The number of the commit record that may adopt its checkpoint.
    number: u64,
    end: LogEnd,
}

/// Writes one full checkpoint while the vault goes on journalling.
pub struct CheckpointWriter {
    store: Arc<dyn Store>,
    keys: Arc<KeyRing>,
    number: u64,
    pieces: Piecing,
}

/// A full checkpoint that is durable and that no commit record names yet.
#[derive(Debug)]
pub struct Checkpoint(ContainerName);

/// Names of blobs that nothing refers to any more.
pub struct Superseded {
    store: Arc<dyn Store>,
    names: Vec<String>,
}

impl CheckpointWriter {
    /// Writes `sections`.
    ///
    /// # Errors
    /// As for a commit; whatever a section cannot be made for.
    pub async fn write(self, sections: Sections<'_>) -> Result<Checkpoint> {
        let (number, pieces) = ((Kind::Full, self.number), self.pieces);
        container::write(&self.store, &self.keys, number, pieces, sections).await.map(Checkpoint)
    }
}

impl Superseded {
    /// Deletes them.
    ///
    /// # Errors
    /// [`Error::Absent`] and the like; what is left is swept when the store is opened again.
    pub async fn delete(self) -> Result<()> {
        delete(&*self.store, &self.names).await
    }
}

/// Whether a vault still answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    /// A call failed, or has not come to its end.
    Stopped,
    /// Another proxy has overtaken this one.
    Fenced,
}

/// A store that this process has opened: holds its keys and its place in the chain of commits.
pub struct Vault {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) register: Arc<dyn Register>,
    pub(crate) settings: VaultSettings,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) record: CommitRecord,
    pub(crate) digest: Digest,
    pub(crate) tag: BlobTag,
    /// What the register holds.
    pub(crate) known: RegisterValue,
    /// What it may hold as well, while it is being bumped.
    pub(crate) bumping: Option<RegisterValue>,
    /// Where the journal that this opening found starts and ends.
    pub(crate) journalled: [LogEnd; 2],
    /// How far the journal of the open epoch goes: all before is durable.
    pub(crate) log: LogEnd,
    /// How far it will go with what is under way.
    pub(crate) ahead: LogEnd,
    /// Places of takeover records in it, from where it starts.
    pub(crate) takeovers: Vec<u64>,
    /// The deltas since the full checkpoint, oldest first.
    pub(crate) deltas: Vec<ContainerName>,
    /// Whether a checkpoint's writer has been given out and the checkpoint not adopted.
    pub(crate) writing: bool,
    /// Names of what the last commits superseded.
    pub(crate) superseded: Vec<String>,
    pub(crate) health: Health,
    /// Whether a record under way, or an adoption, was given up.
    pub(crate) was_given_up: Arc<AtomicBool>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("sequence", &self.record.public.sequence).finish()
    }
}

impl Vault {
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
        self.record.opening()
    }

    /// Epochs committed so far, each close counted as one: public.
    pub fn epoch(&self) -> u64 {
        self.record.epoch
    }

    /// Places in the journal of the open epoch that were taken, by takeovers too: public.
    pub fn place(&self) -> u64 {
        self.log.place
    }

    /// The engine's records that this opening found ([`crate::Recovered::records`]), read once more
    /// and verified again. Nothing may have been adopted since.
    pub fn journalled(&self) -> Journalled {
        let [start, until] = self.journalled;
        let at = (self.store.clone(), self.keys.clone());
        let from = (self.record.epoch + 1, start);
        Journalled::new(Log::new(at, from, self.settings.rules(), true), until)
    }

    /// Whether the next [`Vault::commit_epoch`] has to be given a full checkpoint: public.
    pub fn full_is_due(&self) -> bool {
        self.record.epoch + 1 >= self.record.full_epoch + self.settings.full_every.max(1)
    }

    /// Journals what is about to be read. Only when this has returned may the reads leave.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another proxy has taken the place, [`Error::Bug`] if the record is
    /// longer than the settings say.
    pub async fn append(&mut self, record: &[u8]) -> Result<()> {
        let begun = self.begin_record(record)?;
        self.begin()?;
        let appended = match begun.put().await {
            Ok(put) => self.count_all(vec![put]).await,
            Err(error) => Err(error),
        };
        self.end(appended)
    }

    /// Gives a record the next place, behind those that are under way. Whoever calls this puts it
    /// ([`BegunRecord::put`]), at most [`VaultSettings::records_at_once`] at once, and hands over
    /// what came of it in their order ([`Vault::count`]).
    ///
    /// # Errors
    /// [`Error::Bug`] if the record is longer than the settings say.
    pub fn begin_record(&mut self, record: &[u8]) -> Result<BegunRecord> {
        self.begin()?;
        let before = self.ahead;
        if before.place >= self.log.place + u64::from(self.writer().rules.at_once) {
            return self.end(Err(Error::Bug("too many records under way".into())));
        }
        let next = self.writer().next(before, &Entry::Batch(record.to_vec()));
        let (sealed, end) = self.end(next)?;
        self.ahead = end;
        let name = record_name(self.record.epoch + 1, before.place);
        let (store, pending) = (self.store.clone(), self.pending());
        Ok(BegunRecord { store, name, sealed, before, end, pending })
    }

    fn pending(&self) -> Pending {
        Pending { is_done: false, was_given_up: self.was_given_up.clone() }
    }

    /// Records that were put count, once this has returned, in their order, and the register knows
    /// the last. Only then may the reads of any of them leave.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another proxy has taken a place; [`Error::Bug`] if they are not the
    /// next.
    pub async fn count(&mut self, records: Vec<PutRecord>) -> Result<()> {
        self.begin()?;
        let counted = self.count_all(records).await;
        self.end(counted)
    }

    /// Commits the open epoch: `delta` is what it changed, `full` everything, given when
    /// [`Vault::full_is_due`] says so; then the delta is not written. Only when this has returned
    /// may the epoch's answers leave.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another proxy has opened the store since: then nothing of the epoch
    /// counts. [`Error::Bug`] if a section is longer than its public length.
    pub async fn commit_epoch(
        &mut self,
        delta: &[Section],
        full: Option<Sections<'_>>,
    ) -> Result<()> {
        self.begin()?;
        let committed = match full {
            _ if full.is_some() != self.full_is_due() => {
                Err(Error::Bug("a full checkpoint when it is due and only then".into()))
            }
            Some(full) => self.commit_full(full, State::Running).await,
            None => self.commit_delta(delta).await,
        };
        self.end(committed)
    }

    /// Deletes what the commits so far have superseded: journal records, deltas and full
    /// checkpoints.
    ///
    /// # Errors
    /// [`Error::Absent`] and the like; what is left is swept when the store is opened again.
    pub async fn collect(&mut self) -> Result<()> {
        self.begin()?;
        let deleted = delete(&*self.store, &self.superseded).await;
        self.superseded.clear();
        self.end(deleted)
    }

    /// Where the journal ends now: what a checkpoint of the engine's state at this moment covers.
    /// Records under way are before it.
    pub fn cut(&self) -> Cut {
        Cut { number: self.record.public.sequence + 1, end: self.ahead }
    }

    /// Writes the checkpoint of a cut. Its number is that of the next commit, which has to adopt
    /// it: no number is ever given to two checkpoints of one opening, for it is part of the nonces.
    ///
    /// # Errors
    /// [`Error::Bug`] if there is a writer already.
    pub fn checkpoint_writer(&mut self) -> Result<CheckpointWriter> {
        if std::mem::replace(&mut self.writing, true) {
            return Err(Error::Bug("two checkpoints at once".into()));
        }
        let (store, keys) = (self.store.clone(), self.keys.clone());
        let (number, pieces) = (self.record.public.sequence + 1, self.settings.pieces);
        Ok(CheckpointWriter { store, keys, number, pieces })
    }

    /// Whether all records before `cut` count, as they have to before its checkpoint is adopted.
    pub fn covers(&self, cut: &Cut) -> bool {
        self.log.place >= cut.end.place
    }

    /// Commits `checkpoint`, which holds everything up to `cut`; further records may have been
    /// journalled since. Everything that the checkpoint refers to has to be durable. Whoever calls
    /// this puts it ([`BegunAdoption::put`]) and hands over what came of it
    /// ([`Vault::end_adoption`]) before any other commit; records are put and counted meanwhile.
    ///
    /// # Errors
    /// [`Error::Bug`] if another commit came between, or a record before the cut does not count.
    pub fn begin_adoption(&mut self, cut: Cut, checkpoint: Checkpoint) -> Result<BegunAdoption> {
        self.begin()?;
        let (ends, full) = ((cut.end, self.log), checkpoint.0);
        let mut record = self.record.next_start(self.digest, full, ends);
        let follows = [cut.number, full.number] == [record.public.sequence; 2];
        self.end(match follows && self.covers(&cut) {
            true => Ok(()),
            false => Err(Error::Bug("a checkpoint that cannot be adopted now".into())),
        })?;
        record.public.state = State::Running;
        let (sealed, digest) = record.seal(&self.keys);
        let (store, tag, pending) = (self.store.clone(), self.tag.clone(), self.pending());
        Ok(BegunAdoption { store, tag, sealed: Bytes::from(sealed), record, digest, pending })
    }

    /// The checkpoint counts once this has returned, and the register knows it.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another proxy has opened the store since.
    pub async fn end_adoption(&mut self, adoption: PutAdoption) -> Result<()> {
        self.begin()?;
        let adopted = self.adopted(adoption).await;
        self.end(adopted)
    }

    /// Both at once, where nothing is put meanwhile.
    ///
    /// # Errors
    /// As [`Vault::begin_adoption`] and [`Vault::end_adoption`].
    pub async fn adopt(&mut self, cut: Cut, checkpoint: Checkpoint) -> Result<()> {
        let put = self.begin_adoption(cut, checkpoint)?.put().await?;
        self.end_adoption(put).await
    }

    /// Whether a put of a record, or of a commit record, has failed or was given up: nothing more
    /// is put.
    pub fn was_given_up(&self) -> bool {
        self.was_given_up.load(Ordering::Acquire)
    }

    /// What the commits so far have superseded, to be deleted while the vault goes on. It has to be
    /// gone before the next adoption begins: an opening looks for what the last commit left, and
    /// for no more.
    pub fn take_superseded(&mut self) -> Superseded {
        Superseded { store: self.store.clone(), names: std::mem::take(&mut self.superseded) }
    }

    /// Writes `sections` as a full checkpoint and closes the store. Only when this has returned may
    /// the process say that everything is kept.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another proxy has opened the store since: then nothing of ours counts.
    pub async fn close(mut self, sections: Sections<'_>) -> Result<()> {
        let checkpoint = self.checkpoint_writer()?.write(sections).await?;
        self.close_over(checkpoint).await?.delete().await
    }

    /// The same over a checkpoint that is written, of the state now. What it supersedes is the
    /// caller's to delete.
    ///
    /// # Errors
    /// As [`Vault::close`]; [`Error::Bug`] if the checkpoint is of another moment.
    pub async fn close_over(mut self, checkpoint: Checkpoint) -> Result<Superseded> {
        self.begin()?;
        self.commit_over_full(checkpoint.0, State::Closed).await?;
        Ok(self.take_superseded())
    }

    /// Whether the register says that another proxy has opened the store since. Asks the trusted
    /// side only, also after a failure: it tells a cloud that lied from one that another proxy has
    /// changed.
    pub async fn is_overtaken(&self) -> bool {
        let ours = |held: Option<RegisterValue>| {
            held == Some(self.known) || (held.is_some() && held == self.bumping)
        };
        self.register.read().await.is_ok_and(|held| !ours(held))
    }

    /// Why something that this proxy put is not there as it left it. What the cloud shows there
    /// `proves` that another proxy came, or the register says so; a cloud that says so by itself
    /// has lied.
    async fn displaced(&self, proves: bool, otherwise: Suspicion) -> Error {
        if proves || self.is_overtaken().await {
            return Error::Fenced;
        }
        Error::CloudLied(otherwise)
    }

    /// Refuses if an earlier call failed or was abandoned; until [`Vault::end`] this one counts as
    /// such.
    fn begin(&mut self) -> Result<()> {
        match self.health {
            Health::Well if self.was_given_up.load(Ordering::Acquire) => {
                return Err(Error::Stopped);
            }
            Health::Well => self.health = Health::Stopped,
            Health::Stopped => return Err(Error::Stopped),
            Health::Fenced => return Err(Error::Fenced),
        }
        Ok(())
    }

    fn end<T>(&mut self, result: Result<T>) -> Result<T> {
        self.health = match result {
            Ok(_) => Health::Well,
            Err(Error::Fenced) => Health::Fenced,
            Err(_) => Health::Stopped,
        };
        result
    }

    async fn count_all(&mut self, records: Vec<PutRecord>) -> Result<()> {
        let mut log = self.log;
        for PutRecord { before, end, put } in records {
            if before != log {
                return Err(Error::Bug("a record out of its order".into()));
            }
            if let Put::Theirs(there) = put {
                let proves = there.is_some_and(|there| self.writer().is_takeover(before, &there));
                return Err(self.displaced(proves, Suspicion::Place).await);
            }
            log = end;
        }
        self.bump(register_value(&self.record, self.digest, log)).await?;
        self.log = log;
        Ok(())
    }

    async fn bump(&mut self, value: RegisterValue) -> Result<()> {
        self.bumping = Some(value);
        self.register.write(Some(self.known), value).await?;
        (self.known, self.bumping) = (value, None);
        Ok(())
    }

    fn writer(&self) -> Writer<'_> {
        let (epoch, rules) = (self.record.epoch + 1, self.settings.rules());
        Writer { store: &*self.store, keys: &self.keys, epoch, rules }
    }

    async fn adopted(&mut self, adoption: PutAdoption) -> Result<()> {
        let PutAdoption { record, digest, put } = adoption;
        if record.previous != self.digest {
            return Err(Error::Bug("another commit came before an adoption".into()));
        }
        let (old_full, from, log) = (self.record.full, record.superseded_from, self.log);
        self.published(record, digest, put, log).await?;
        self.writing = false;
        let start = self.record.log_start(digest).place;
        self.supersede(self.record.epoch + 1, from..start);
        self.takeovers.retain(|place| *place >= start);
        self.supersede_containers(old_full);
        Ok(())
    }

    async fn commit_full(&mut self, sections: Sections<'_>, state: State) -> Result<()> {
        if self.writing {
            return Err(Error::Bug("two checkpoints at once".into()));
        }
        let number = (Kind::Full, self.record.public.sequence + 1);
        let pieces = self.settings.pieces;
        let full = container::write(&self.store, &self.keys, number, pieces, sections).await?;
        self.commit_over_full(full, state).await
    }

    /// Ends the epoch with a full checkpoint that is durable.
    async fn commit_over_full(&mut self, full: ContainerName, state: State) -> Result<()> {
        let mut record = self.record.next_epoch(self.digest);
        if full.number != record.public.sequence {
            return Err(Error::Bug("a checkpoint of another moment".into()));
        }
        (record.full, record.full_epoch, record.delta) = (Some(full), record.epoch, None);
        record.public.state = state;
        self.commit_over(record).await
    }

    /// Puts a record with a new full checkpoint: the old one is superseded, and all deltas.
    async fn commit_over(&mut self, record: CommitRecord) -> Result<()> {
        let old_full = self.record.full;
        self.commit(record).await?;
        self.supersede_containers(old_full);
        Ok(())
    }

    /// A new full checkpoint counts in place of `old` and of all deltas.
    fn supersede_containers(&mut self, old: Option<ContainerName>) {
        let old = self.deltas.drain(..).chain(old);
        self.superseded.extend(old.flat_map(|c| c.piece_names().collect::<Vec<_>>()));
    }

    async fn commit_delta(&mut self, delta: &[Section]) -> Result<()> {
        // The number of its record may have been given out.
        if self.writing {
            return Err(Error::Bug("a delta beside a checkpoint".into()));
        }
        if delta.iter().any(|section| section.tag == LINK_TAG) {
            return Err(Error::Bug(format!("section {LINK_TAG} is the link's")));
        }
        let mut record = self.record.next_epoch(self.digest);
        let link = std::iter::once(link::encode(self.record.delta));
        let linked = Box::new(link.chain(delta.iter().cloned()).map(Ok));
        let number = (Kind::Delta, record.epoch);
        let pieces = self.settings.pieces;
        let name = container::write(&self.store, &self.keys, number, pieces, linked).await?;
        record.delta = Some(name);
        record.public.state = State::Running;
        self.commit(record).await?;
        self.deltas.push(name);
        Ok(())
    }

    /// Puts the record that ends the epoch; its journal is superseded, but for takeovers.
    async fn commit(&mut self, record: CommitRecord) -> Result<()> {
        if self.ahead != self.log {
            return Err(Error::Bug("a commit while records are under way".into()));
        }
        let (places, epoch) = (record.superseded_from..self.log.place, record.epoch);
        let (bytes, digest) = record.seal(&self.keys);
        let condition = PutCondition::IfUnchanged(self.tag.clone());
        let put = put(&*self.store, COMMIT_BLOB, Bytes::from(bytes), condition).await?;
        let log = record.log_end(digest);
        self.published(record, digest, put, log).await?;
        (self.log, self.ahead) = (log, log);
        self.supersede(epoch, places);
        self.takeovers.clear();
        Ok(())
    }

    fn supersede(&mut self, epoch: u64, places: Range<u64>) {
        let places = places.filter(|place| !self.takeovers.contains(place));
        self.superseded.extend(places.map(|place| record_name(epoch, place)));
    }

    /// A commit record was put in place of ours: the register is bumped, and then it counts. The
    /// journal goes as far as `log`.
    async fn published(
        &mut self,
        record: CommitRecord,
        digest: Digest,
        put: Put,
        log: LogEnd,
    ) -> Result<()> {
        let tag = match put {
            Put::Ours(tag) => tag,
            Put::Theirs(there) => {
                let ours = &self.record;
                let proves = there.is_some_and(|there| ours.is_succeeded_by(&there, &self.keys));
                return Err(self.displaced(proves, Suspicion::CommitReplaced).await);
            }
        };
        self.bump(register_value(&record, digest, log)).await?;
        (self.record, self.digest, self.tag) = (record, digest, tag);
        Ok(())
    }
}

/// What the register holds when `record` is the newest and the journal goes as far as `end`.
pub(crate) fn register_value(record: &CommitRecord, commit: Digest, end: LogEnd) -> RegisterValue {
    RegisterValue {
        store: record.public.store,
        opening: record.opening(),
        sequence: record.public.sequence,
        commit,
        epoch: record.epoch,
        place: end.place,
        journal: end.digest,
    }
}
