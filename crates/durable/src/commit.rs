//! The commit record: the one blob that says what a store is and which state of it counts.
//!
//! Layout, little-endian (also in `docs/format.md`):
//! ```text
//! public   8 magic "fogcomm1" | 2 format | 16 store id | 8 sequence | 1 state (1 claimed, 2 running, 3 closed)
//!          4 n, n configuration | 4 m, 16*m salts of openings 1..=m
//! sealed   32 digest of the previous record | 4 opening | 8 sequence | 4 pieces | 32 digest of the checkpoint
//!          16 tag
//! ```
//! Sealed by the last opening's blob key, nonce (kind 1, sequence), bound to the public part.

use fogbank_seal::{BlobPlace, Digest, IncarnationKeys, KeyRing, MasterKey, Salt, StoreId, digest};

use crate::section::{SectionReader, SectionWriter};
use crate::{Error, Result};

pub(crate) const COMMIT_BLOB: &str = "commit";
pub(crate) const KIND_COMMIT: u8 = 1;
const MAGIC: &[u8; 8] = b"fogcomm1";
const FORMAT: u16 = 1;
const SALT_BYTES: u64 = size_of::<Salt>() as u64;
const SEALED_BYTES: usize = 32 + 4 + 8 + 4 + 32 + fogbank_seal::TAG_BYTES;

/// What the last proxy said of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A proxy has claimed it and has read and written nothing but blobs: another may claim it.
    Claimed = 1,
    /// Its arrays are in use: what the cloud has seen read since is known to that proxy only.
    Running = 2,
    /// The checkpoint holds everything.
    Closed = 3,
}

/// Which checkpoint a record names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckpointName {
    /// The opening whose key sealed it.
    pub opening: u32,
    /// The number in its blobs' names.
    pub sequence: u64,
    /// How many pieces.
    pub pieces: u32,
    /// Digest of all sealed pieces in order.
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
    pub checkpoint: Option<CheckpointName>,
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
        let lied = |_| Error::CloudLied;
        if r.raw(8).map_err(lied)? != MAGIC {
            return Err(Error::CloudLied);
        }
        let found = r.u16().map_err(lied)?;
        if found != FORMAT {
            return Err(Error::Format { found, known: FORMAT });
        }
        let part = Self::decode_fields(&mut r).map_err(lied)?.ok_or(Error::CloudLied)?;
        if r.0.len() != SEALED_BYTES {
            return Err(Error::CloudLied);
        }
        let (public, sealed) = record.split_at(record.len() - SEALED_BYTES);
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
    /// Seals the record by the current keys of `keys`; with it comes its digest for the register.
    pub(crate) fn seal(&self, keys: &KeyRing) -> (Vec<u8>, Digest) {
        let mut record = self.public.encode();
        let none = CheckpointName { opening: 0, sequence: 0, pieces: 0, digest: [0; 32] };
        let name = self.checkpoint.unwrap_or(none);
        let mut w = SectionWriter::default();
        w.raw(&self.previous).u32(name.opening).u64(name.sequence).u32(name.pieces);
        w.raw(&name.digest);
        let sealed = keys.current().1.blobs().seal(self.place(), &record, w.0);
        record.extend_from_slice(&sealed);
        let digest = digest(&[&record]);
        (record, digest)
    }

    fn place(&self) -> BlobPlace {
        BlobPlace { kind: KIND_COMMIT, piece: 0, sequence: self.public.sequence }
    }

    /// Opens a record by `master`; returns it with the keys it names and its digest.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it does not verify: also when the key is not this store's.
    pub(crate) fn open(record: &[u8], master: &MasterKey) -> Result<(Self, KeyRing, Digest)> {
        let (public, bound, sealed) = PublicPart::decode(record)?;
        // Until the record has verified, its count of salts is a claim: one key has to do.
        let last = public.salts.last().ok_or(Error::CloudLied)?;
        let place = BlobPlace { kind: KIND_COMMIT, piece: 0, sequence: public.sequence };
        let opened =
            IncarnationKeys::derive(master, public.store, *last).blobs().open(place, bound, sealed);
        let plaintext = opened.map_err(|_| Error::CloudLied)?;
        let keys = KeyRing::derive(master, public.store, &public.salts).ok_or(Error::CloudLied)?;
        let mut r = SectionReader(&plaintext);
        let previous = read_digest(&mut r)?;
        let (opening, sequence, pieces) = (r.u32()?, r.u64()?, r.u32()?);
        let name = CheckpointName { opening, sequence, pieces, digest: read_digest(&mut r)? };
        let checkpoint = (opening != 0).then_some(name);
        Ok((Self { public, previous, checkpoint }, keys, digest(&[record])))
    }
}

fn read_digest(r: &mut SectionReader<'_>) -> Result<Digest> {
    let mut out = [0; 32];
    out.copy_from_slice(r.raw(32)?);
    Ok(out)
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
        assert!(matches!(opened, Err(Error::CloudLied)));
    }
}
