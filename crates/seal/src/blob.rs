//! Blobs: journal records, checkpoint pieces, commit records.
//!
//! Unlike a cell a blob has a name and a public header, both bound as additional data.

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};

use crate::{Forged, TAG_BYTES, cell::aes_256_gcm};

/// What numbers a blob within one incarnation: together the nonce, so never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobPlace {
    /// The kind of blob; kinds number their blobs independently.
    pub kind: u8,
    /// The piece of a blob written in several, below 2^24.
    pub piece: u32,
    /// The blob's number, rising within the incarnation.
    pub sequence: u64,
}

impl BlobPlace {
    fn nonce(&self) -> Nonce {
        debug_assert!(self.piece < 1 << 24, "a piece number has 24 bits");
        let mut bytes = [0; 12];
        bytes[0] = self.kind;
        bytes[1..4].copy_from_slice(&self.piece.to_le_bytes()[..3]);
        bytes[4..].copy_from_slice(&self.sequence.to_le_bytes());
        Nonce::assume_unique_for_key(bytes)
    }
}

/// Seals and opens blobs of one incarnation.
pub struct BlobKey(LessSafeKey);

impl BlobKey {
    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        Self(aes_256_gcm(bytes))
    }

    /// Seals `plaintext` in place and appends the tag. `bound` (name and public header) is
    /// authenticated with it.
    pub fn seal(&self, place: BlobPlace, bound: &[u8], mut plaintext: Vec<u8>) -> Vec<u8> {
        self.0
            .seal_in_place_append_tag(place.nonce(), Aad::from(bound), &mut plaintext)
            .expect("AES-GCM seals any blob below 64 GiB");
        plaintext
    }

    /// Opens what [`BlobKey::seal`] made for the same place and bound data.
    ///
    /// # Errors
    /// [`Forged`] for anything else.
    pub fn open(&self, place: BlobPlace, bound: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Forged> {
        let length = sealed.len().checked_sub(TAG_BYTES).ok_or(Forged)?;
        let (ciphertext, tag) = sealed.split_at(length);
        let mut plaintext = vec![0; length];
        self.0
            .open_separate_gather(place.nonce(), Aad::from(bound), ciphertext, tag, &mut plaintext)
            .map_err(|_| Forged)?;
        Ok(plaintext)
    }
}

impl std::fmt::Debug for BlobKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlobKey(..)")
    }
}
