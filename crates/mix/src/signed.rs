//! Signatures under what one cloud sends the other: whoever has received it can show it to the
//! client, and the sender cannot say that it was another.
//!
//! 1. A cloud has a key of its own, made at its first start. The client notes both when it makes
//!    the volume, and tells each cloud that of the other.
//! 2. Every batch of cells is signed (Ed25519) over SHA-256 of the volume, what it is about, and
//!    the cells. A cloud takes none that is not signed, so one that acts on a batch can show it.
//! 3. When a check fails the client asks for the batch, and looks at it itself.

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::message::{Across, Back, Blinded, Handed, Level, Moved};
use crate::{Cells, Seed};

/// What stands under a batch.
pub type Signature = [u8; 64];

/// By which a signature is known.
pub type PublicKey = [u8; 32];

/// Where there is no signature yet.
pub const UNSIGNED: Signature = [0; 64];

/// What signs for a cloud.
pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// The one of this secret.
    ///
    /// # Panics
    /// Never: 32 bytes are a key.
    pub fn new(secret: &Seed) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(secret.bytes());
        Self(pair.expect("an Ed25519 key has 32 bytes"))
    }

    /// By which its signatures are known.
    pub fn key(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        key
    }

    fn sign(&self, name: &[u8]) -> Signature {
        let mut signature = UNSIGNED;
        signature.copy_from_slice(self.0.sign(name).as_ref());
        signature
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer(..)")
    }
}

/// Cells that one cloud sends the other, and what they are.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Which.
    pub what: What,
    /// All of them, in their order.
    pub cells: &'a Cells,
}

/// What a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The cells of a read.
    Blinded(u64),
    /// Those that the job of a partition carries.
    Moved(u16, u64),
    /// All that it reads, as it is stored.
    Handed(u16, u64),
    /// A new level of a partition.
    Level(u16, u8, u64),
}

impl Batch<'_> {
    fn name(&self, volume: u64) -> [u8; 32] {
        let (kind, partition, level, number) = match self.what {
            What::Blinded(read) => (0u8, 0, 0, read),
            What::Moved(partition, job) => (1, partition, 0, job),
            What::Handed(partition, job) => (2, partition, 0, job),
            What::Level(partition, level, job) => (3, partition, level, job),
        };
        let mut context = Context::new(&SHA256);
        context.update(b"fogbank mix batch 1");
        context.update(&volume.to_be_bytes());
        context.update(&[kind, level]);
        context.update(&partition.to_be_bytes());
        context.update(&number.to_be_bytes());
        context.update(self.cells.bytes());
        let mut name = [0; 32];
        name.copy_from_slice(context.finish().as_ref());
        name
    }

    /// Whether whoever has this key has signed it, for this volume.
    pub fn is_signed(&self, volume: u64, key: &PublicKey, signature: &Signature) -> bool {
        UnparsedPublicKey::new(&ED25519, key).verify(&self.name(volume), signature).is_ok()
    }
}

/// By whom batches of a volume are signed, and who signs those of the other cloud.
#[derive(Debug, Clone)]
pub struct Signing {
    /// The volume.
    pub volume: u64,
    /// Of this cloud.
    pub own: std::sync::Arc<Signer>,
    /// Of the other.
    pub other: PublicKey,
}

impl Signing {
    /// Signs what leaves.
    pub fn sign(&self, message: &mut impl Signed) {
        let signature = self.own.sign(&message.batch().name(self.volume));
        *message.signature_mut() = signature;
    }

    /// Whether what comes was signed by the other cloud.
    pub fn is_theirs(&self, message: &impl Signed) -> bool {
        message.batch().is_signed(self.volume, &self.other, message.signature())
    }
}

/// A message with a batch.
pub trait Signed {
    /// What is signed.
    fn batch(&self) -> Batch<'_>;
    /// What stands under it.
    fn signature(&self) -> &Signature;
    /// The same, to be written.
    fn signature_mut(&mut self) -> &mut Signature;
}

impl Signed for Across {
    fn batch(&self) -> Batch<'_> {
        match self {
            Self::Blinded(Blinded { read, cells, .. }) => {
                Batch { what: What::Blinded(*read), cells }
            }
            Self::Moved(Moved { partition, generation, cells, .. }) => {
                Batch { what: What::Moved(*partition, generation.0), cells }
            }
            Self::Handed(Handed { partition, generation, cells, .. }) => {
                Batch { what: What::Handed(*partition, generation.0), cells }
            }
        }
    }

    fn signature(&self) -> &Signature {
        let (Self::Blinded(Blinded { signature, .. })
        | Self::Moved(Moved { signature, .. })
        | Self::Handed(Handed { signature, .. })) = self;
        signature
    }

    fn signature_mut(&mut self) -> &mut Signature {
        let (Self::Blinded(Blinded { signature, .. })
        | Self::Moved(Moved { signature, .. })
        | Self::Handed(Handed { signature, .. })) = self;
        signature
    }
}

impl Signed for Back {
    fn batch(&self) -> Batch<'_> {
        let Self::Level(Level { partition, level, generation, cells, .. }) = self;
        Batch { what: What::Level(*partition, *level, generation.0), cells }
    }

    fn signature(&self) -> &Signature {
        let Self::Level(Level { signature, .. }) = self;
        signature
    }

    fn signature_mut(&mut self) -> &mut Signature {
        let Self::Level(Level { signature, .. }) = self;
        signature
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Nothing else has the same signature: another volume, kind, number, order of cells, signer.
    #[test]
    fn a_signature_is_about_one_batch() {
        let signer = |of| Arc::new(Signer::new(&Seed::new([of; 32])));
        let (own, other) = (signer(1), signer(2));
        let signing =
            |volume, own: &Arc<Signer>| Signing { volume, own: own.clone(), other: [0; 32] };
        let cells = |order: [u8; 2]| Cells::of(order.map(|byte| [byte; 16]).concat(), 16).unwrap();
        let batch = |read, order| -> Across {
            Blinded { read, signature: UNSIGNED, cells: cells(order) }.into()
        };
        let mut signed = batch(7, [1, 2]);
        signing(5, &own).sign(&mut signed);
        let signature = *signed.signature();
        let holds = |volume, key, batch: &Across| batch.batch().is_signed(volume, &key, &signature);
        assert!(holds(5, own.key(), &signed));
        assert!(!holds(6, own.key(), &signed));
        assert!(!holds(5, other.key(), &signed));
        assert!(!holds(5, own.key(), &batch(8, [1, 2])));
        assert!(!holds(5, own.key(), &batch(7, [2, 1])));
        let number = crate::Generation(7);
        let moved =
            Moved { partition: 0, generation: number, signature: UNSIGNED, cells: cells([1, 2]) };
        assert!(!holds(5, own.key(), &moved.into()));
        let theirs = |key| Signing { other: key, ..signing(5, &other) };
        assert!(theirs(own.key()).is_theirs(&signed) && !theirs(other.key()).is_theirs(&signed));
    }
}
