//! The journal: what is about to be read, one sealed record a batch.
//!
//! ```text
//! name     journal/EPOCH-PLACE, hexadecimal, 16 and 6 digits; put only if absent
//! public   1 kind (1 a batch, 2 a takeover) | 4 opening | 16 its salt
//! sealed   32 digest of the record before | 4 n, n bytes, zeros | 16 tag
//! ```
//! Sealed by the blob key of the opening that wrote it, nonce (kind 3, place and epoch), bound to
//! name and public part. The salt stands in it because a takeover record comes before the commit
//! record that makes its opening count. The first record of an epoch names the digest of the commit
//! record that ended the epoch before.
//!
//! Invariants
//! - A record's length says how many parts it has, and no more: one for every engine that reads in
//!   batches; as many as accesses go together for one that serves them as they come.
//! - One place is taken once: whoever finds it taken by another is fenced.
//! - Several records may be under way at once, so a place may be free and later ones taken. A
//!   takeover fills the first free place, and the journal goes on behind all that may have been
//!   under way: what comes there late is in nobody's way and never counts.
//! - A journal is read as many records at once as may be under way. So the cloud is asked for as
//!   many names behind its end: public, and nothing that it shows there is looked at.
//! - Of a journal that stays near, on the trusted disk, an opening keeps nothing in memory. Whoever
//!   replays it reads it once more ([`Journalled`]); a cloud would see it read twice.
//! - Batch records are deleted when a commit supersedes them, takeover records never: a proxy that
//!   was held for long must still find its next place taken.
//! - A batch record is by an opening whose salt stands in the commit record.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_seal::{BlobPlace, Digest, KeyRing, Salt, TAG_BYTES, digest};
use fogbank_store::{PutCondition, Store};
use futures_util::future::join_all;

use crate::commit::LogEnd;
use crate::error::{Blob, Suspicion, asked};
use crate::put::{Put, put};
use crate::section::{SectionReader, SectionWriter};
use crate::{Error, Result};

/// The prefix of all records' names.
pub(crate) const PREFIX: &str = "journal/";
const KIND_JOURNAL: u8 = 3;
const PUBLIC_BYTES: usize = 1 + 4 + 16;
const HEAD_BYTES: usize = 32 + 4;
const BATCH: u8 = 1;
const TAKEOVER: u8 = 2;
/// Place and epoch are part of a nonce: the low 24 bits of the place where a container has the
/// number of its piece, the others above the 40 of the epoch.
const PIECE_BITS: u32 = 24;
const EPOCH_BITS: u32 = 40;
const PLACES: u64 = 1 << (PIECE_BITS + u64::BITS - EPOCH_BITS);

/// Bytes of a journal record on the cloud, of which the engine's part takes `record_bytes`.
pub fn journal_bytes(record_bytes: usize) -> u64 {
    (PUBLIC_BYTES + HEAD_BYTES + record_bytes + TAG_BYTES) as u64
}

/// The name of the record at `place` of `epoch`.
pub(crate) fn record_name(epoch: u64, place: u64) -> String {
    format!("{PREFIX}{epoch:016x}-{place:06x}")
}

/// The prefix of the names of an epoch's records.
pub(crate) fn epoch_prefix(epoch: u64) -> String {
    format!("{PREFIX}{epoch:016x}-")
}

/// The place of the record of `epoch` that has this name.
pub(crate) fn place_of(epoch: u64, name: &str) -> Option<u64> {
    let place = u64::from_str_radix(name.strip_prefix(&epoch_prefix(epoch))?, 16).ok()?;
    (record_name(epoch, place) == name).then_some(place)
}

/// Whether a record says that it is of a batch: only its public part is looked at.
pub(crate) fn claims_batch(sealed: &[u8]) -> bool {
    sealed.first() == Some(&BATCH)
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A batch is about to be read.
    Batch(Vec<u8>),
    /// A new proxy takes over: whoever wrote before has no place any more.
    Takeover,
}

/// What became of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Appended {
    /// It is there, and the journal goes as far as this.
    At(LogEnd),
    /// The place is taken, as the cloud says, by this.
    Taken(Option<Bytes>),
}

/// Seals and puts records of one epoch.
pub(crate) struct Writer<'a> {
    pub store: &'a dyn Store,
    pub keys: &'a KeyRing,
    pub epoch: u64,
    pub rules: Rules,
}

/// What is public of an engine's records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// A record's length: whole parts, from one part up.
    pub part_bytes: usize,
    pub parts_max: usize,
    /// Records under way at most.
    pub at_once: u32,
}

impl Rules {
    /// The place behind an entry at `place`.
    fn behind(self, place: u64, entry: &Entry) -> u64 {
        match entry {
            Entry::Batch(_) => place + 1,
            Entry::Takeover => place + u64::from(self.at_once),
        }
    }

    /// What a record of `bytes` is padded to; `None` if it is too long.
    fn padded(self, bytes: usize) -> Option<usize> {
        let parts = bytes.div_ceil(self.part_bytes.max(1)).max(1);
        (parts <= self.parts_max).then_some(parts * self.part_bytes)
    }

    /// Whether a sealed record can have `bytes`.
    fn allow(self, bytes: usize) -> bool {
        (1..=self.parts_max).any(|parts| journal_bytes(parts * self.part_bytes) == bytes as u64)
    }
}

impl Writer<'_> {
    /// Puts `entry` behind `end` and returns the new end once it is durable.
    pub(crate) async fn append(&self, end: LogEnd, entry: &Entry) -> Result<Appended> {
        let (sealed, next) = self.next(end, entry)?;
        let name = record_name(self.epoch, end.place);
        match put(self.store, &name, sealed, PutCondition::IfAbsent).await? {
            Put::Theirs(there) => Ok(Appended::Taken(there)),
            Put::Ours(_) => Ok(Appended::At(next)),
        }
    }

    /// The record of `entry` behind `end`, and the end behind it.
    pub(crate) fn next(&self, end: LogEnd, entry: &Entry) -> Result<(Bytes, LogEnd)> {
        let sealed = Bytes::from(self.seal(end, entry)?);
        let place = self.rules.behind(end.place, entry);
        let digest = digest(&[&sealed]);
        Ok((sealed, LogEnd { place, digest }))
    }

    /// Whether `there`, which the cloud shows behind `end`, is a takeover record that names the
    /// record of `end`. If that is one of ours, only somebody who has the key and has seen it can
    /// have made this: no older record names it, so none can be shown instead.
    pub(crate) fn is_takeover(&self, end: LogEnd, there: &[u8]) -> bool {
        let Self { keys, epoch, rules, .. } = *self;
        let opened = open(keys, (epoch, rules), end, there);
        opened.is_ok_and(|opened| opened.kind == TAKEOVER)
    }

    fn seal(&self, end: LogEnd, entry: &Entry) -> Result<Vec<u8>> {
        let (kind, record): (u8, &[u8]) = match entry {
            Entry::Batch(record) => (BATCH, record),
            Entry::Takeover => (TAKEOVER, &[]),
        };
        let has_room = end.place < PLACES && self.epoch >> EPOCH_BITS == 0;
        let padded = self.rules.padded(record.len()).filter(|_| has_room);
        let padded = padded
            .ok_or_else(|| Error::Bug(format!("a journal record of {} bytes", record.len())))?;
        let (opening, keys) = self.keys.current();
        let salt = self.keys.salts().last().ok_or_else(|| Error::Bug("no opening".into()))?;
        let mut public = SectionWriter::default();
        public.u8(kind).u32(opening).raw(&salt.0);
        let mut w = SectionWriter::default();
        w.raw(&end.digest).bytes(record);
        w.0.resize(HEAD_BYTES + padded, 0);
        let bound = bound(self.epoch, end.place, &public.0);
        let sealed = keys.blobs().seal(blob_place(self.epoch, end.place), &bound, w.0);
        public.raw(&sealed);
        Ok(public.0)
    }
}

fn bound(epoch: u64, place: u64, public: &[u8]) -> Vec<u8> {
    let mut bound = record_name(epoch, place).into_bytes();
    bound.extend_from_slice(public);
    bound
}

fn blob_place(epoch: u64, place: u64) -> BlobPlace {
    let (piece, beyond) = (place as u32 & ((1 << PIECE_BITS) - 1), place >> PIECE_BITS);
    BlobPlace { kind: KIND_JOURNAL, piece, sequence: beyond << EPOCH_BITS | epoch }
}

/// The journal of one epoch, or its end, as read from the cloud, each record verified as it came.
/// What records say is kept until it is taken, if it is kept at all; else it takes no memory.
pub(crate) struct Log {
    store: Arc<dyn Store>,
    keys: Arc<KeyRing>,
    pub epoch: u64,
    pub rules: Rules,
    /// Whether what the engine's records say is kept.
    keeps: bool,
    /// Where the next record goes.
    end: LogEnd,
    /// Known places that it has not come through yet.
    awaited: Vec<LogEnd>,
    /// Places and salts of takeover records.
    takeovers: Vec<(u64, Salt)>,
    /// The engine's records, and how many there were.
    batches: VecDeque<Vec<u8>>,
    records: u64,
}

impl Log {
    /// The journal of an epoch from `start` on, of which nothing has been read yet.
    pub(crate) fn new(
        (store, keys): (Arc<dyn Store>, Arc<KeyRing>),
        (epoch, start): (u64, LogEnd),
        rules: Rules,
        keeps: bool,
    ) -> Self {
        Self {
            store,
            keys,
            epoch,
            rules,
            keeps,
            end: start,
            awaited: Vec::new(),
            takeovers: Vec::new(),
            batches: VecDeque::new(),
            records: 0,
        }
    }

    /// The same, that is to come through these places.
    pub(crate) fn through(mut self, places: &[LogEnd]) -> Self {
        self.awaited.extend(places.iter().filter(|place| **place != self.end));
        self
    }

    /// Reads all records there are from here on.
    pub(crate) async fn read_all(&mut self) -> Result<()> {
        while self.read_some(u64::MAX).await? {}
        Ok(())
    }

    /// Reads the next record; `false` if there is none.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is not one that belongs here.
    pub(crate) async fn read_next(&mut self) -> Result<bool> {
        self.read_some(self.end.place + 1).await
    }

    /// Reads the next records in one round trip, as many as may have been under way at once, and
    /// none from place `until` on; `false` once there is none. Their names are known; each is
    /// looked at behind the one before it, and what stands behind a free place is not looked at.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if one is none that belongs there.
    pub(crate) async fn read_some(&mut self, until: u64) -> Result<bool> {
        let from = self.end.place;
        let places = from..from.saturating_add(self.rules.at_once.into()).min(until);
        let names: Vec<String> =
            places.clone().map(|place| record_name(self.epoch, place)).collect();
        let found = join_all(names.iter().map(|name| self.store.blob_get(name))).await;
        for (place, found) in places.zip(found) {
            if place < self.end.place {
                continue; // in the room of a takeover: nobody reads what is there
            }
            let found = found.map_err(|e| asked(e, Suspicion::Journal(self.record(place))))?;
            let Some((sealed, _)) = found else { return Ok(false) };
            let (entry, salt) = self.open(self.end, &sealed)?;
            self.add(entry, salt, digest(&[&sealed]));
        }
        Ok(true)
    }

    /// Takes in the next record, which bears `salt` and has this digest.
    pub(crate) fn add(&mut self, entry: Entry, salt: Salt, digest: Digest) {
        let end = LogEnd { place: self.rules.behind(self.end.place, &entry), digest };
        match entry {
            Entry::Takeover => self.takeovers.push((self.end.place, salt)),
            Entry::Batch(record) => {
                self.records += 1;
                self.batches.extend(self.keeps.then_some(record));
            }
        }
        self.end = end;
        self.awaited.retain(|place| *place != end);
    }

    /// The record at `place`.
    pub(crate) fn record(&self, place: u64) -> Blob {
        Blob::Journal { epoch: self.epoch, place }
    }

    /// The record before `place`: a takeover takes as much room as records under way.
    pub(crate) fn before(&self, place: u64) -> Blob {
        let room = self.rules.behind(0, &Entry::Takeover);
        let takeover = self.takeovers().find(|takeover| takeover + room == place);
        self.record(takeover.unwrap_or(place.saturating_sub(1)))
    }

    /// Where the next record goes.
    pub(crate) fn end(&self) -> LogEnd {
        self.end
    }

    /// The first of the known places that it did not come through.
    pub(crate) fn missed(&self) -> Option<u64> {
        self.awaited.iter().map(|end| end.place).min()
    }

    /// The places of takeover records.
    pub(crate) fn takeovers(&self) -> impl Iterator<Item = u64> + '_ {
        self.takeovers.iter().map(|(place, _)| *place)
    }

    /// The salts of openings that have left no more than a takeover.
    pub(crate) fn salts(&self) -> impl Iterator<Item = &Salt> {
        self.takeovers.iter().map(|(_, salt)| salt)
    }

    /// How often anything was about to be read.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The engine's records that were kept, in order.
    pub(crate) fn batches(self) -> Vec<Vec<u8>> {
        self.batches.into()
    }

    fn open(&self, end: LogEnd, sealed: &[u8]) -> Result<(Entry, Salt)> {
        let opened = open(&self.keys, (self.epoch, self.rules), end, sealed)?;
        let Opened { kind, opening, salt, record } = opened;
        let claimed = self.keys.salts().nth((opening as usize).wrapping_sub(1)) == Some(salt);
        match kind {
            BATCH if claimed => Ok((Entry::Batch(record), salt)),
            TAKEOVER => Ok((Entry::Takeover, salt)),
            _ => Err(Error::CloudLied(Suspicion::Journal(self.record(end.place)))),
        }
    }
}

/// The engine's records of a journal that stays near, read once more: each is gone from here when
/// it has been taken, and no more are read ahead than may have been under way at once.
pub struct Journalled {
    log: Log,
    until: LogEnd,
}

impl Journalled {
    /// Those between the start of `log` and a place that it comes through.
    pub(crate) fn new(log: Log, until: LogEnd) -> Self {
        Self { log, until }
    }

    /// The next one.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is not what was there before.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        while self.log.batches.is_empty() && self.log.end != self.until {
            let place = self.log.end.place;
            if place >= self.until.place || !self.log.read_some(self.until.place).await? {
                return Err(Error::CloudLied(Suspicion::Journal(self.log.record(place))));
            }
        }
        Ok(self.log.batches.pop_front())
    }
}

/// A record that is by somebody who has the key, and that names the one before it.
struct Opened {
    kind: u8,
    opening: u32,
    salt: Salt,
    record: Vec<u8>,
}

/// Opens a record that stands behind `end`, whoever wrote it.
fn open(
    keys: &KeyRing,
    (epoch, rules): (u64, Rules),
    end: LogEnd,
    sealed: &[u8],
) -> Result<Opened> {
    let record = Blob::Journal { epoch, place: end.place };
    let lied = || Error::CloudLied(Suspicion::Journal(record));
    if !rules.allow(sealed.len()) {
        return Err(lied());
    }
    let (public, sealed) = sealed.split_at(PUBLIC_BYTES);
    let mut r = SectionReader(public);
    let (kind, opening, mut salt) = (r.u8()?, r.u32()?, Salt([0; 16]));
    salt.0.copy_from_slice(r.raw(16)?);
    let (place, bound) = (blob_place(epoch, end.place), bound(epoch, end.place, public));
    let opened = keys.of_salt(salt).blobs().open(place, &bound, sealed);
    let (previous, record) = parse(&opened.map_err(|_| lied())?)?;
    let names_it = previous == end.digest;
    names_it.then_some(Opened { kind, opening, salt, record }).ok_or_else(lied)
}

fn parse(plaintext: &[u8]) -> Result<(Digest, Vec<u8>)> {
    let mut r = SectionReader(plaintext);
    Ok((r.digest()?, r.bytes()?.to_vec()))
}

#[cfg(test)]
mod tests {
    use fogbank_seal::{MasterKey, StoreId};
    use fogbank_store::MemoryStore;

    use super::*;

    /// A record that is right in all but what comes before it: of a machine that was copied while
    /// it ran, say.
    #[tokio::test]
    async fn a_record_is_bound_to_the_one_before_and_to_its_length() {
        let (store, master) = (Arc::new(MemoryStore::new()), MasterKey::from_bytes(&mut [7; 32]));
        let keys = KeyRing::derive(&master, StoreId([1; 16]), &[Salt([2; 16])]).unwrap();
        let keys = Arc::new(keys);
        let rules = |part_bytes| Rules { part_bytes, parts_max: 1, at_once: 1 };
        let writer = Writer { store: &*store, keys: &keys, epoch: 1, rules: rules(9) };
        let (start, batch) =
            (LogEnd { place: 0, digest: [3; 32] }, Entry::Batch(b"batch".to_vec()));
        let at = async |end| match writer.append(end, &batch).await.unwrap() {
            Appended::At(end) => end,
            Appended::Taken(_) => panic!("nobody else is here"),
        };
        let end = at(start).await;
        at(LogEnd { digest: [4; 32], ..end }).await;
        let log = |part_bytes, start| {
            let at = (store.clone() as Arc<dyn Store>, keys.clone());
            Log::new(at, (1, start), rules(part_bytes), true)
        };
        let mut read = log(9, start);
        assert!(read.read_next().await.unwrap());
        assert_eq!((read.end(), &read.batches[0][..]), (end, &b"batch"[..]));
        let lied = |result| matches!(result, Err(Error::CloudLied(Suspicion::Journal(_))));
        assert!(lied(read.read_next().await));
        assert!(lied(log(10, start).read_next().await));
        assert!(lied(log(9, LogEnd { digest: [5; 32], ..start }).read_next().await));
    }
}
