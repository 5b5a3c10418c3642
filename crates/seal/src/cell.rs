//! Cells: fixed-size AEAD bound to place and version.
//!
//! Layout of a sealed cell: ciphertext, then the 16-byte tag of AES-256-GCM. The nonce is not
//! stored: it is the place, which both sides compute. There is no additional data because the
//! nonce already binds the place and the key binds store and incarnation.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes that sealing adds to a cell.
pub const TAG_BYTES: usize = 16;

/// Bits of a tick; the rest of a 64-bit version names the opening.
pub const TICK_BITS: u32 = 40;

/// A place of a cell and the tick of its write-back: together the nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The array (an engine's tree).
    pub array: u8,
    /// The chunk (bucket).
    pub chunk: u32,
    /// The cell (slot) within it.
    pub cell: u16,
    /// The write-back within this opening, below 2^40.
    pub tick: u64,
}

impl Place {
    fn nonce(&self) -> Nonce {
        debug_assert!(self.tick < 1 << TICK_BITS, "a tick has {TICK_BITS} bits");
        let mut bytes = [0; 12];
        bytes[0] = self.array;
        bytes[1..5].copy_from_slice(&self.chunk.to_le_bytes());
        bytes[5..7].copy_from_slice(&self.cell.to_le_bytes());
        bytes[7..12].copy_from_slice(&self.tick.to_le_bytes()[..5]);
        Nonce::assume_unique_for_key(bytes)
    }
}

/// What was to be opened is not what was sealed there. Says nothing about why, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("does not verify")]
pub struct Forged;

/// Seals and opens cells of one incarnation.
pub struct CellKey(LessSafeKey);

impl CellKey {
    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        Self(aes_256_gcm(bytes))
    }

    /// Seals in place: `cell` is the plaintext followed by [`TAG_BYTES`] bytes that receive the
    /// tag.
    ///
    /// # Panics
    /// If `cell` is shorter than a tag: a fault of the caller's layout, never of input.
    pub fn seal(&self, place: Place, cell: &mut [u8]) {
        let (plaintext, tag_out) = cell.split_at_mut(cell.len() - TAG_BYTES);
        let tag = self
            .0
            .seal_in_place_separate_tag(place.nonce(), Aad::empty(), plaintext)
            .expect("AES-GCM seals any cell below 64 GiB");
        tag_out.copy_from_slice(tag.as_ref());
    }

    /// Opens `cell` into `plaintext`, which is [`TAG_BYTES`] shorter.
    ///
    /// # Errors
    /// [`Forged`] if the cell was not sealed by this key at this place, or has another length;
    /// `plaintext` then holds nothing of use.
    pub fn open(&self, place: Place, cell: &[u8], plaintext: &mut [u8]) -> Result<(), Forged> {
        if cell.len() != plaintext.len() + TAG_BYTES {
            return Err(Forged);
        }
        let (ciphertext, tag) = cell.split_at(plaintext.len());
        self.0
            .open_separate_gather(place.nonce(), Aad::empty(), ciphertext, tag, plaintext)
            .map_err(|_| Forged)
    }
}

impl std::fmt::Debug for CellKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CellKey(..)")
    }
}

/// The AEAD of cells and blobs.
pub(crate) fn aes_256_gcm(bytes: &[u8; 32]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, bytes).expect("an AES-256 key has 32 bytes");
    LessSafeKey::new(key)
}
