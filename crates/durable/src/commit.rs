//! The commit record: the one blob that says what a store is and which state of it counts.
//!
//! Layout, little-endian (also in `docs/format.md`):
//! ```text
//! public   8 magic "fogcomm1" | 2 format | 16 store id | 8 sequence | 1 state (1 claimed, 2 running, 3 closed)
//!          4 n, n configuration | 4 m, 16*m salts of openings 1..=m
//! sealed   32 digest of the previous record | 8 epoch
//!          full checkpoint: 8 epoch | 4 opening | 8 sequence | 4 pieces | 32 digest
//!          last delta: 4 opening | 4 pieces | 32 digest
//!          8 place from which the last commit superseded records
//!          journal of the open epoch: 8 place it starts from | 32 digest there (0: of this record)
//!          8 place it reached | 32 digest there
//!          16 tag
//! ```
//! Sealed by the last opening's blob key, nonce (kind 1, sequence), bound to the public part.

use std::ops::Range;

use fogbank_seal::{BlobPlace, Digest, IncarnationKeys, KeyRing, MasterKey, Salt, StoreId, digest};

use crate::container::{ContainerName, Kind};
use crate::error::Suspicion;
use crate::section::{SectionReader, SectionWriter};
use crate::{Error, Result};

pub(crate) const COMMIT_BLOB: &str = "commit";
pub(crate) const KIND_COMMIT: u8 = 1;
const MAGIC: &[u8; 8] = b"fogcomm1";
const FORMAT: u16 = 4;
const SALT_BYTES: u64 = size_of::<Salt>() as u64;
const NO_DIGEST: Digest = [0; 32];
const PLAIN_BYTES: usize = (32 + 8) + (8 + 4 + 8 + 4 + 32) + (4 + 4 + 32) + 8 + 2 * (8 + 32);
const SEALED_BYTES: usize = PLAIN_BYTES + fogbank_seal::TAG_BYTES;

/// What the last proxy said of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A proxy has claimed a store that was created or closed before; it has committed no epoch
    /// yet.
    Claimed = 1,
    /// Epochs were committed, or begun, since it was created or closed last.
    Running = 2,
    /// The checkpoint holds everything.
    Closed = 3,
}

/// A place in the journal of an epoch: how many records come before it, and the digest of the last
/// of them (at place 0, of the commit record that began the epoch).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogEnd {
    pub place: u64,
    pub digest: Digest,
}

/// The part of a commit record that anybody can read; trusted only once the whole verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicPart {
    pub store: StoreId,
    pub sequence: u64,
    pub state: State,
    pub config: Vec<u8>,
    pub salts: Vec<Salt>,
}

/// A whole commit record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommitRecord {
    pub public: PublicPart,
    pub previous: Digest,
    /// Epochs committed so far.
    pub epoch: u64,
    /// The newest full checkpoint and the epoch at whose end it was taken.
    pub full: Option<ContainerName>,
    pub full_epoch: u64,
    /// The delta of `epoch`, unless the full checkpoint is of that epoch. It names the one before.
    pub delta: Option<ContainerName>,
    /// What the open epoch's journal starts from: how far the newest full checkpoint goes, if it
    /// was cut since the epoch began; `None`: from this record.
    pub log_start: Option<LogEnd>,
    /// How far the journal reached when this record was put.
    pub log: Option<LogEnd>,
    /// The place from which the last commit has superseded records: of the open epoch up to
    /// `log_start`; if that is its beginning, of the epoch before to its end.
    pub superseded_from: u64,
}

impl PublicPart {
    fn encode(&self) -> Vec<u8> {
        let mut w = SectionWriter::default();
        w.raw(MAGIC).u16(FORMAT).raw(&self.store.0).u64(self.sequence).u8(self.state as u8);
        w.bytes(&self.config).u32(self.salts.len() as u32);
        for salt in &self.salts {
            w.raw(&salt.0);
        }
        w.0
    }

    /// Splits a record into its public part and the sealed rest. Nothing is trusted yet.
    pub(crate) fn decode(record: &[u8]) -> Result<(Self, &[u8], &[u8])> {
        let mut r = SectionReader(record);
        let lied = |_| Error::CloudLied(Suspicion::Commit);
        if r.raw(8).map_err(lied)? != MAGIC {
            return Err(Error::CloudLied(Suspicion::Commit));
        }
        let found = r.u16().map_err(lied)?;
        if found != FORMAT {
            return Err(Error::Format { found, known: FORMAT });
        }
        let part = Self::decode_fields(&mut r).map_err(lied)?;
        let part = part.ok_or(Error::CloudLied(Suspicion::Commit))?;
        let (public, sealed) = record.split_at(record.len() - r.0.len());
        Ok((part, public, sealed))
    }

    fn decode_fields(r: &mut SectionReader<'_>) -> Result<Option<Self>> {
        let id = |bytes: &[u8]| {
            let mut out = [0; 16];
            out.copy_from_slice(bytes);
            out
        };
        let store = StoreId(id(r.raw(16)?));
        let sequence = r.u64()?;
        let state = match r.u8()? {
            1 => State::Claimed,
            2 => State::Running,
            3 => State::Closed,
            _ => return Ok(None),
        };
        let config = r.bytes()?.to_vec();
        let count = r.u32()? as usize;
        let salts = r.raw(count.saturating_mul(16))?.chunks_exact(16).map(|s| Salt(id(s)));
        let salts = salts.collect();
        Ok(Some(Self { store, sequence, state, config, salts }))
    }
}

/// Bytes of the commit record of a store with a configuration of `config_bytes`, opened `openings`
/// times.
pub fn commit_bytes(config_bytes: usize, openings: u32) -> u64 {
    let (head, lengths) = (MAGIC.len() + 2 + 16 + 8 + 1, 4 + 4);
    (head + lengths + config_bytes + SEALED_BYTES) as u64 + SALT_BYTES * u64::from(openings)
}

impl CommitRecord {
    /// The first record of a store.
    pub(crate) fn first(store: StoreId, config: Vec<u8>, salt: Salt) -> Self {
        let salts = vec![salt];
        let public = PublicPart { store, sequence: 1, state: State::Claimed, config, salts };
        let (full, delta, log_start, log) = (None, None, None, None);
        let (previous, epoch, full_epoch, superseded_from) = (NO_DIGEST, 0, 0, 0);
        Self { public, previous, epoch, full, full_epoch, delta, log_start, log, superseded_from }
    }

    /// A record that follows this one, whose digest is `digest`, within the same epoch: nothing but
    /// number, chain and the start of the journal differs.
    pub(crate) fn next(&self, digest: Digest) -> Self {
        let mut record = self.clone();
        record.public.sequence += 1;
        record.previous = digest;
        record.log_start = Some(self.log_start(digest));
        record
    }

    /// A record that follows this one and commits the open epoch.
    pub(crate) fn next_epoch(&self, digest: Digest) -> Self {
        let superseded_from = self.log_start(digest).place;
        let (epoch, log_start, log) = (self.epoch + 1, None, None);
        Self { epoch, log_start, log, superseded_from, ..self.next(digest) }
    }

    /// A record that follows this one and adopts `full`, which covers the open epoch's journal up
    /// to `start`; the journal has reached `log`, and goes on.
    pub(crate) fn next_start(
        &self,
        digest: Digest,
        full: ContainerName,
        (start, log): (LogEnd, LogEnd),
    ) -> Self {
        let superseded_from = self.log_start(digest).place;
        let (full, full_epoch, delta) = (Some(full), self.epoch, None);
        let (log_start, log) = (Some(start), Some(log));
        Self { full, full_epoch, delta, log_start, log, superseded_from, ..self.next(digest) }
    }

    /// The epoch and the places of the records that the last commit superseded.
    pub(crate) fn superseded(&self) -> (u64, Range<u64>) {
        match self.log_start {
            Some(LogEnd { place: start @ 1.., .. }) => {
                (self.epoch + 1, self.superseded_from..start)
            }
            _ => (self.epoch, self.superseded_from..u64::MAX),
        }
    }

    /// Where the open epoch's journal begins, if this record's digest is `digest`.
    pub(crate) fn log_start(&self, digest: Digest) -> LogEnd {
        self.log_start.unwrap_or(LogEnd { place: 0, digest })
    }

    /// How far the journal reaches at least.
    pub(crate) fn log_end(&self, digest: Digest) -> LogEnd {
        self.log.unwrap_or(self.log_start(digest))
    }

    /// The number of the last opening.
    pub(crate) fn opening(&self) -> u32 {
        self.public.salts.len() as u32
    }

    /// Seals the record by the current keys of `keys`; with it comes its digest for the register.
    pub(crate) fn seal(&self, keys: &KeyRing) -> (Vec<u8>, Digest) {
        let mut record = self.public.encode();
        let sealed = keys.current().1.blobs().seal(self.place(), &record, self.encode_secret());
        record.extend_from_slice(&sealed);
        let digest = digest(&[&record]);
        (record, digest)
    }

    fn encode_secret(&self) -> Vec<u8> {
        let full = self.full.unwrap_or(ContainerName::none(Kind::Full));
        let delta = self.delta.unwrap_or(ContainerName::none(Kind::Delta));
        let none = LogEnd { place: 0, digest: NO_DIGEST };
        let (start, log) = (self.log_start.unwrap_or(none), self.log.unwrap_or(none));
        let mut w = SectionWriter::default();
        w.raw(&self.previous).u64(self.epoch);
        w.u64(self.full_epoch).u32(full.opening).u64(full.number).u32(full.pieces);
        w.raw(&full.digest);
        w.u32(delta.opening).u32(delta.pieces).raw(&delta.digest);
        w.u64(self.superseded_from);
        w.u64(start.place).raw(&start.digest).u64(log.place).raw(&log.digest);
        w.0
    }

    fn decode_secret(public: PublicPart, plaintext: &[u8]) -> Result<Self> {
        let mut r = SectionReader(plaintext);
        let (previous, epoch, full_epoch) = (r.digest()?, r.u64()?, r.u64()?);
        let (opening, number, pieces) = (r.u32()?, r.u64()?, r.u32()?);
        let full = ContainerName { kind: Kind::Full, opening, number, pieces, digest: r.digest()? };
        let (opening, pieces, number) = (r.u32()?, r.u32()?, epoch);
        let delta =
            ContainerName { kind: Kind::Delta, opening, number, pieces, digest: r.digest()? };
        let superseded_from = r.u64()?;
        let mut end = || {
            let end = LogEnd { place: r.u64()?, digest: r.digest()? };
            Ok::<_, Error>((end.digest != NO_DIGEST).then_some(end))
        };
        let (log_start, log) = (end()?, end()?);
        let (full, delta) = (full.there(), delta.there());
        Ok(Self {
            public,
            previous,
            epoch,
            full,
            full_epoch,
            delta,
            log_start,
            log,
            superseded_from,
        })
    }

    /// Whether `there`, which the cloud shows in place of this record, was put by a later opening
    /// of this store: it is by somebody who has the key and names this opening's salt, which was
    /// drawn at random when it began, and one more. So it is no older record.
    pub(crate) fn is_succeeded_by(&self, there: &[u8], keys: &KeyRing) -> bool {
        let Ok((public, bound, sealed)) = PublicPart::decode(there) else { return false };
        let (ours, theirs) = (&self.public.salts, &public.salts);
        let later = theirs.len() > ours.len() && theirs.starts_with(ours);
        let Some(last) = theirs.last().filter(|_| later && public.store == self.public.store)
        else {
            return false;
        };
        let place = BlobPlace { kind: KIND_COMMIT, piece: 0, sequence: public.sequence };
        keys.of_salt(*last).blobs().open(place, bound, sealed).is_ok()
    }

    fn place(&self) -> BlobPlace {
        BlobPlace { kind: KIND_COMMIT, piece: 0, sequence: self.public.sequence }
    }

    /// Opens a record by `master`; returns it with the keys it names and its digest.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it does not verify: also when the key is not this store's.
    pub(crate) fn open(record: &[u8], master: &MasterKey) -> Result<(Self, KeyRing, Digest)> {
        let lied = || Error::CloudLied(Suspicion::Commit);
        let (public, bound, sealed) = PublicPart::decode(record)?;
        // Until the record has verified, its count of salts is a claim: one key has to do.
        let last = public.salts.last().ok_or_else(lied)?;
        let place = BlobPlace { kind: KIND_COMMIT, piece: 0, sequence: public.sequence };
        let opened =
            IncarnationKeys::derive(master, public.store, *last).blobs().open(place, bound, sealed);
        let plaintext = opened.map_err(|_| lied())?;
        let keys = KeyRing::derive(master, public.store, &public.salts).ok_or_else(lied)?;
        Ok((Self::decode_secret(public, &plaintext)?, keys, digest(&[record])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A forged record of 8 MB made the proxy derive half a million keys, 660 MB of them, before it
    /// found out that the record does not verify.
    #[test]
    fn a_forged_count_of_salts_costs_one_key() {
        let salts = vec![Salt([9; 16]); 1 << 22];
        let (store, config) = (StoreId([1; 16]), Vec::new());
        let public = PublicPart { store, sequence: 1, state: State::Closed, config, salts };
        let mut forged = public.encode();
        forged.extend([0; SEALED_BYTES]);
        let opened = CommitRecord::open(&forged, &MasterKey::from_bytes(&mut [7; 32]));
        assert!(matches!(opened, Err(Error::CloudLied(Suspicion::Commit))));
    }

    #[test]
    fn a_record_comes_back_as_it_was_sealed() {
        let (store, salt) = (StoreId([1; 16]), Salt([2; 16]));
        let master = MasterKey::from_bytes(&mut [7; 32]);
        let keys = KeyRing::derive(&master, store, &[salt]).unwrap();
        let first = CommitRecord::first(store, b"config".to_vec(), salt);
        let mut second = first.next_epoch([3; 32]);
        let name =
            |kind, number| ContainerName { kind, opening: 1, number, pieces: 4, digest: [5; 32] };
        second.delta = Some(name(Kind::Delta, 1));
        let end = |place| LogEnd { place, digest: [place as u8; 32] };
        let third = second.next_start([6; 32], name(Kind::Full, 9), (end(4), end(6)));
        assert_eq!((third.log_start(NO_DIGEST), third.log_end(NO_DIGEST)), (end(4), end(6)));
        assert_eq!(third.next_epoch([7; 32]).superseded_from, 4);
        for record in [first, second, third] {
            let (sealed, digest) = record.seal(&keys);
            assert_eq!(sealed.len() as u64, commit_bytes(6, 1));
            let (opened, _, seen) = CommitRecord::open(&sealed, &master).unwrap();
            assert_eq!((opened, seen), (record, digest));
        }
    }
}
