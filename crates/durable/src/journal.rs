//! The journal: what the open epoch is about to read, one sealed record a batch.
//!
//! ```text
//! name     journal/EPOCH-PLACE, hexadecimal, 16 and 6 digits; put only if absent
//! public   4 opening | 16 its salt
//! sealed   1 kind (1 a batch, 2 a takeover) | 32 digest of the record before | 4 n, n bytes, zeros | 16 tag
//! ```
//! Sealed by the blob key of the opening that wrote it, nonce (kind 3, place, epoch), bound to name
//! and public part. The salt stands in it because a takeover record comes before the commit record
//! that makes its opening count. The first record of an epoch names the digest of the commit record
//! that ended the epoch before.
//!
//! Invariants
//! - Every record of a store has one length.
//! - One place is taken once: whoever finds it taken by another is fenced.
//! - A batch record is by an opening whose salt stands in the commit record.

use bytes::Bytes;
use fogbank_seal::{
    BlobPlace, Digest, IncarnationKeys, KeyRing, MasterKey, Salt, TAG_BYTES, digest,
};
use fogbank_store::{PutCondition, Store};

use crate::commit::LogEnd;
use crate::error::Suspicion;
use crate::put::{Put, put};
use crate::section::{SectionReader, SectionWriter};
use crate::{Error, Result};

/// The prefix of all records' names.
pub(crate) const PREFIX: &str = "journal/";
const KIND_JOURNAL: u8 = 3;
const PUBLIC_BYTES: usize = 4 + 16;
const HEAD_BYTES: usize = 1 + 32 + 4;
/// A place is part of a nonce and has 24 bits there.
const PLACES: u32 = 1 << 24;

/// Bytes of every journal record of a store whose engine's longest has `record_bytes`.
pub fn journal_bytes(record_bytes: usize) -> u64 {
    (PUBLIC_BYTES + HEAD_BYTES + record_bytes + TAG_BYTES) as u64
}

/// The name of the record at `place` of `epoch`.
pub(crate) fn record_name(epoch: u64, place: u32) -> String {
    format!("{PREFIX}{epoch:016x}-{place:06x}")
}

/// The epoch in a record's name.
pub(crate) fn epoch_of(name: &str) -> Option<u64> {
    let (epoch, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    u64::from_str_radix(epoch, 16).ok()
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A batch is about to be read.
    Batch(Vec<u8>),
    /// A new proxy takes over: whoever wrote before has no place any more.
    Takeover,
}

/// Seals and puts records of one epoch.
pub(crate) struct Writer<'a> {
    pub store: &'a dyn Store,
    pub keys: &'a KeyRing,
    pub epoch: u64,
    pub record_bytes: usize,
}

impl Writer<'_> {
    /// Puts `entry` behind `end` and returns the new end once it is durable; `None` if the place is
    /// taken.
    pub(crate) async fn append(&self, end: LogEnd, entry: &Entry) -> Result<Option<LogEnd>> {
        let sealed = Bytes::from(self.seal(end, entry)?);
        let digest = digest(&[&sealed]);
        let name = record_name(self.epoch, end.place);
        match put(self.store, &name, sealed, PutCondition::IfAbsent).await? {
            Put::Theirs(_) => Ok(None),
            Put::Ours(_) => {
                self.store.barrier().await?;
                Ok(Some(LogEnd { place: end.place + 1, digest }))
            }
        }
    }

    fn seal(&self, end: LogEnd, entry: &Entry) -> Result<Vec<u8>> {
        let (kind, record): (u8, &[u8]) = match entry {
            Entry::Batch(record) => (1, record),
            Entry::Takeover => (2, &[]),
        };
        if record.len() > self.record_bytes || end.place >= PLACES {
            return Err(Error::Bug(format!("a journal record of {} bytes", record.len())));
        }
        let (opening, keys) = self.keys.current();
        let salt = self.keys.salts().last().ok_or_else(|| Error::Bug("no opening".into()))?;
        let mut public = SectionWriter::default();
        public.u32(opening).raw(&salt.0);
        let mut w = SectionWriter::default();
        w.u8(kind).raw(&end.digest).bytes(record);
        w.0.resize(HEAD_BYTES + self.record_bytes, 0);
        let bound = bound(self.epoch, end.place, &public.0);
        let sealed = keys.blobs().seal(blob_place(self.epoch, end.place), &bound, w.0);
        public.raw(&sealed);
        Ok(public.0)
    }
}

fn bound(epoch: u64, place: u32, public: &[u8]) -> Vec<u8> {
    let mut bound = record_name(epoch, place).into_bytes();
    bound.extend_from_slice(public);
    bound
}

fn blob_place(epoch: u64, place: u32) -> BlobPlace {
    BlobPlace { kind: KIND_JOURNAL, piece: place, sequence: epoch }
}

/// The journal of one epoch as read from the cloud, each record verified as it came.
pub(crate) struct Log<'a> {
    pub store: &'a dyn Store,
    pub master: &'a MasterKey,
    pub keys: &'a KeyRing,
    pub epoch: u64,
    pub record_bytes: usize,
    /// The digest at every place from 0: of the record before it.
    pub digests: Vec<Digest>,
    pub entries: Vec<Entry>,
    /// The salts that stand in the records.
    pub salts: Vec<Salt>,
}

impl Log<'_> {
    /// Reads all records there are from here on.
    pub(crate) async fn read_all(&mut self) -> Result<()> {
        while self.read_next().await? {}
        Ok(())
    }

    /// Reads the next record; `false` if there is none.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is not one that belongs here.
    pub(crate) async fn read_next(&mut self) -> Result<bool> {
        let end = self.end();
        let name = record_name(self.epoch, end.place);
        let Some((sealed, _)) = self.store.blob_get(&name).await? else { return Ok(false) };
        let (entry, salt) = self.open(end, &sealed)?;
        self.entries.push(entry);
        self.salts.push(salt);
        self.digests.push(digest(&[&sealed]));
        Ok(true)
    }

    /// Where the next record goes.
    pub(crate) fn end(&self) -> LogEnd {
        let digest = self.digests.last().copied().unwrap_or_default();
        LogEnd { place: self.entries.len() as u32, digest }
    }

    /// Whether the log went through `end`.
    pub(crate) fn passes(&self, end: LogEnd) -> bool {
        self.digests.get(end.place as usize) == Some(&end.digest)
    }

    /// Whether anything was about to be read.
    pub(crate) fn has_batches(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry, Entry::Batch(_)))
    }

    /// The engine's records, in order.
    pub(crate) fn batches(self) -> Vec<Vec<u8>> {
        let batches = self.entries.into_iter().filter_map(|entry| match entry {
            Entry::Batch(record) => Some(record),
            Entry::Takeover => None,
        });
        batches.collect()
    }

    fn open(&self, end: LogEnd, sealed: &[u8]) -> Result<(Entry, Salt)> {
        let lied = || Error::CloudLied(Suspicion::Journal);
        if sealed.len() as u64 != journal_bytes(self.record_bytes) {
            return Err(lied());
        }
        let (public, sealed) = sealed.split_at(PUBLIC_BYTES);
        let mut r = SectionReader(public);
        let (opening, mut salt) = (r.u32()?, Salt([0; 16]));
        salt.0.copy_from_slice(r.raw(16)?);
        let keys = IncarnationKeys::derive(self.master, self.keys.store(), salt);
        let (place, bound) =
            (blob_place(self.epoch, end.place), bound(self.epoch, end.place, public));
        let plaintext = keys.blobs().open(place, &bound, sealed).map_err(|_| lied())?;
        let (kind, previous, record) = parse(&plaintext)?;
        let claimed = self.keys.salts().nth((opening as usize).wrapping_sub(1)) == Some(salt);
        match kind {
            _ if previous != end.digest => Err(lied()),
            1 if claimed => Ok((Entry::Batch(record), salt)),
            2 => Ok((Entry::Takeover, salt)),
            _ => Err(lied()),
        }
    }
}

fn parse(plaintext: &[u8]) -> Result<(u8, Digest, Vec<u8>)> {
    let mut r = SectionReader(plaintext);
    Ok((r.u8()?, r.digest()?, r.bytes()?.to_vec()))
}
