//! Pads: the key stream of AES-256-CTR, its key the seed, its counter from the index.
//!
//! Pad i covers one cell and begins at block i (cell bytes / 16) of the stream. Whoever has the
//! seed makes any of them. That no pad covers two plaintexts is the client's care: it never gives a
//! seed for two purposes.

use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use zeroize::Zeroizing;

/// What a party is given to make pads, or an order, of. Erased when dropped, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed(Zeroizing<[u8; 32]>);

impl Seed {
    /// That of these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// As it stands in a message.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// Bytes of a block of the cipher.
pub(crate) const BLOCK_BYTES: usize = 16;

/// The key stream of a seed.
pub(crate) struct KeyStream(EncryptingKey);

impl KeyStream {
    pub fn new(seed: &Seed) -> Self {
        let key = UnboundCipherKey::new(&AES_256, seed.bytes()).and_then(EncryptingKey::ctr);
        Self(key.expect("an AES-256 key has 32 bytes"))
    }

    /// XORs the stream from block `counter` on into `bytes`.
    pub fn xor(&self, counter: u128, bytes: &mut [u8]) {
        let iv = FixedLength::from(counter.to_be_bytes());
        let done = self.0.less_safe_encrypt(bytes, EncryptionContext::Iv128(iv));
        done.expect("CTR takes bytes of any length");
    }
}

/// The pads of one seed, for cells of one length.
pub struct Pads {
    stream: KeyStream,
    blocks: u128,
}

impl Pads {
    /// Those of `seed`, for cells of so many bytes.
    pub fn new(seed: &Seed, cell_bytes: usize) -> Self {
        Self { stream: KeyStream::new(seed), blocks: cell_bytes.div_ceil(BLOCK_BYTES) as u128 }
    }

    /// XORs pad `index` into `cell`: what covers it and what takes the cover off.
    pub fn xor(&self, index: u32, cell: &mut [u8]) {
        self.stream.xor(u128::from(index) * self.blocks, cell);
    }
}

impl std::fmt::Debug for Pads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pads(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST SP 800-38A, F.5.5: CTR-AES256, first and fourth block.
    #[test]
    fn the_stream_is_the_published_one() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
                .collect()
        };
        let key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
        let stream = KeyStream::new(&Seed::new(hex(key).try_into().unwrap()));
        let first =
            u128::from_be_bytes(hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff").try_into().unwrap());
        for (at, plain, sealed) in [
            (0, "6bc1bee22e409f96e93d7e117393172a", "601ec313775789a5b7a7f504bbf3d228"),
            (3, "f69f2445df4f9b17ad2b417be66c3710", "dfc9c58db67aada613c2dd08457941a6"),
        ] {
            let mut bytes = hex(plain);
            stream.xor(first + at, &mut bytes);
            assert_eq!(bytes, hex(sealed));
        }
    }

    #[test]
    fn pads_lie_side_by_side_and_come_off_again() {
        let (each, seed) = (48, Seed::new([3; 32]));
        let pads = Pads::new(&seed, each);
        let mut row = vec![0; 4 * each];
        KeyStream::new(&seed).xor(0, &mut row);
        for (index, pad) in (0..).zip(row.chunks_exact(each)) {
            let mut cell = vec![9; each];
            pads.xor(index, &mut cell);
            let covered: Vec<u8> = pad.iter().map(|byte| byte ^ 9).collect();
            assert_eq!(cell, covered);
            pads.xor(index, &mut cell);
            assert_eq!(cell, vec![9; each]);
        }
    }
}
