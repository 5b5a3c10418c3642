//! The key hierarchy: master key -> keys of one incarnation of one store.
//!
//! ```text
//! master (32 B, trusted side)
//!   └─ HKDF-SHA256(salt = store id ‖ incarnation salt, ikm = master)
//!        ├─ "cells"        AES-256-GCM
//!        ├─ "blobs"        AES-256-GCM
//!        └─ "permutation"  ChaCha12
//! ```
//! Store id and incarnation salts are public; they stand in the commit record.

use aws_lc_rs::hkdf;
use rand_core::Rng;
use zeroize::{Zeroize, Zeroizing};

use crate::{BlobKey, CellKey, PermutationKey, SplitKeys};

/// The user's master key.
pub struct MasterKey(Zeroizing<[u8; 32]>);

impl MasterKey {
    /// Whether the other is the same.
    pub fn is(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }

    /// Takes over key bytes and erases the caller's copy.
    pub fn from_bytes(bytes: &mut [u8; 32]) -> Self {
        let key = Self(Zeroizing::new(*bytes));
        bytes.zeroize();
        key
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn copy(&self) -> Self {
        Self(self.0.clone())
    }
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey(..)")
    }
}

/// Names a store; random, public, fixed at creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreId(pub [u8; 16]);

/// The salt of one opening of a store; random, public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub [u8; 16]);

impl StoreId {
    /// A fresh id.
    pub fn draw(stream: &mut impl Rng) -> Self {
        let mut bytes = [0; 16];
        stream.fill_bytes(&mut bytes);
        Self(bytes)
    }
}

impl Salt {
    /// A fresh salt.
    pub fn draw(stream: &mut impl Rng) -> Self {
        let mut bytes = [0; 16];
        stream.fill_bytes(&mut bytes);
        Self(bytes)
    }
}

/// The keys of one incarnation of the proxy.
#[derive(Debug)]
pub struct IncarnationKeys {
    cells: CellKey,
    blobs: BlobKey,
    permutation: PermutationKey,
}

impl IncarnationKeys {
    /// Derives the keys of the incarnation that drew `salt` on `store`.
    pub fn derive(master: &MasterKey, store: StoreId, salt: Salt) -> Self {
        let mut hkdf_salt = [0; 32];
        hkdf_salt[..16].copy_from_slice(&store.0);
        hkdf_salt[16..].copy_from_slice(&salt.0);
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, &hkdf_salt).extract(master.bytes());
        let key = |purpose: &[u8]| {
            let mut bytes = Zeroizing::new([0; 32]);
            root.expand(&[b"fogbank 1 ", purpose], hkdf::HKDF_SHA256)
                .and_then(|okm| okm.fill(&mut *bytes))
                .expect("HKDF-SHA256 yields 32 bytes");
            bytes
        };
        Self {
            cells: CellKey::new(&key(b"cells")),
            blobs: BlobKey::new(&key(b"blobs")),
            permutation: PermutationKey::new(&key(b"permutation")),
        }
    }

    /// The key of cells.
    pub fn cells(&self) -> &CellKey {
        &self.cells
    }

    /// The key of blobs.
    pub fn blobs(&self) -> &BlobKey {
        &self.blobs
    }

    /// The key of slot orders.
    pub fn permutation(&self) -> &PermutationKey {
        &self.permutation
    }
}

/// The keys of every opening of one store so far: old cells open with the key they were sealed by,
/// new ones are sealed by the last.
///
/// Openings are numbered from 1; a chunk version is `opening << 40 | tick`.
#[derive(Debug)]
pub struct KeyRing {
    store: StoreId,
    openings: Vec<(Salt, IncarnationKeys)>,
    master: MasterKey,
}

impl KeyRing {
    /// Derives the keys of openings `1..=salts.len()`; the last is the current one.
    ///
    /// Returns `None` without at least one salt.
    pub fn derive(master: &MasterKey, store: StoreId, salts: &[Salt]) -> Option<Self> {
        if salts.is_empty() {
            return None;
        }
        let openings =
            salts.iter().map(|s| (*s, IncarnationKeys::derive(master, store, *s))).collect();
        Some(Self { store, openings, master: master.copy() })
    }

    /// The keys of the opening that drew `salt`, in the ring or not: by them it is told whether
    /// what bears that salt is by somebody who has the key.
    pub fn of_salt(&self, salt: Salt) -> IncarnationKeys {
        IncarnationKeys::derive(&self.master, self.store, salt)
    }

    /// The keys of a volume in two clouds: the same in every opening.
    pub fn split(&self) -> SplitKeys {
        SplitKeys::derive(&self.master, self.store)
    }

    /// The store these keys belong to.
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// The number of the current opening and its keys.
    pub fn current(&self) -> (u32, &IncarnationKeys) {
        let last = self.openings.len();
        (last as u32, &self.openings[last - 1].1)
    }

    /// The keys of opening `number`, if there was one.
    pub fn of(&self, number: u32) -> Option<&IncarnationKeys> {
        let index = (number as usize).checked_sub(1)?;
        self.openings.get(index).map(|(_, keys)| keys)
    }

    /// The salts of all openings in order: public.
    pub fn salts(&self) -> impl Iterator<Item = Salt> {
        self.openings.iter().map(|(salt, _)| *salt)
    }
}
