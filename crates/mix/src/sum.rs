//! Sums of cells: linear under XOR, at a point that is secret.
//!
//! The sum of the blocks of 16 bytes X_1 .. X_n at point h is the first half of
//! X_1 h^(n+1) + X_2 h^n + .. + X_n h^2 over GF(2^128), so no power is below the second. With a
//! constant term a change in the half that is cut off would always pass.
//!
//! It is reckoned as the difference of two tags of AES-GCM, of the cell and of as many zeros, as
//! additional data under one nonce: the block of lengths and the mask of the nonce cancel. The
//! point is then AES(key, 0). A tag would tell the point; sums leave only sealed or hashed.
//!
//! Two cells that differ have one sum for a fraction of at most (n + 1) 2^-64 of the points.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{Context, SHA256};

use crate::pad::Seed;

/// The sum of a cell at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(pub u64);

impl std::ops::BitXor for Sum {
    type Output = Self;
    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl std::ops::BitXorAssign for Sum {
    fn bitxor_assign(&mut self, other: Self) {
        self.0 ^= other.0;
    }
}

/// A secret point, for cells of one length. It belongs to a cloud, not to a role: a cloud that knew
/// both points could spoil a cell without changing either sum.
pub struct Point {
    key: LessSafeKey,
    of_zeros: u64,
}

impl Point {
    /// The one that follows from `seed`.
    pub fn new(seed: &Seed, cell_bytes: usize) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, seed.bytes()).expect("an AES-256 key has 32 bytes");
        let mut point = Self { key: LessSafeKey::new(key), of_zeros: 0 };
        point.of_zeros = point.tag(&vec![0; cell_bytes]);
        point
    }

    /// The sum of `cell`.
    pub fn sum(&self, cell: &[u8]) -> Sum {
        Sum(self.tag(cell) ^ self.of_zeros)
    }

    fn tag(&self, cell: &[u8]) -> u64 {
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(cell), &mut []);
        let tag = tag.expect("AES-GCM takes additional data of any length");
        let half = tag.as_ref().first_chunk().expect("a tag has 16 bytes");
        u64::from_be_bytes(*half)
    }
}

impl std::fmt::Debug for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Point(..)")
    }
}

/// What a digest is about: a kind of message, and a read, or a job of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The cells of an answer.
    Read(u64),
    /// The cells that the holder moved or handed over for a job.
    Moved(u16, u64),
    /// The cells of a new level.
    Level(u16, u64),
}

/// SHA-256 of what it is about and of sums in order, 8 bytes each.
pub fn digest(about: About, sums: impl IntoIterator<Item = Sum>) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    let (label, partition, number) = match about {
        About::Read(number) => (0u8, 0, number),
        About::Moved(partition, job) => (1, partition, job),
        About::Level(partition, job) => (2, partition, job),
    };
    context.update(b"fogbank mix 1");
    context.update(&[label]);
    context.update(&partition.to_be_bytes());
    context.update(&number.to_be_bytes());
    sums.into_iter().for_each(|sum| context.update(&sum.0.to_be_bytes()));
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pad::KeyStream;

    /// The product in GF(2^128), as in the model: bit i is the coefficient of x^i.
    fn product(mut a: u128, mut b: u128) -> u128 {
        let mut sum = 0;
        while b != 0 {
            sum ^= if b & 1 == 1 { a } else { 0 };
            b >>= 1;
            a = a << 1 ^ if a >> 127 == 1 { 0x87 } else { 0 };
        }
        sum
    }

    /// A block as a polynomial: the first bit is the constant coefficient, as in GCM.
    fn block(bytes: &[u8]) -> u128 {
        u128::from_be_bytes(bytes.try_into().unwrap()).reverse_bits()
    }

    /// By Horner's rule, without a library; the lowest power is `last`.
    fn slow(cell: &[u8], point: u128, last: usize) -> Sum {
        let horner = |sum, bytes| product(sum, point) ^ block(bytes);
        let whole = cell.chunks_exact(16).fold(0, horner);
        let whole = (0..last).fold(whole, |sum, _| product(sum, point));
        Sum((whole.reverse_bits() >> 64) as u64)
    }

    fn point_of(seed: &Seed) -> u128 {
        let mut zeros = [0; 16];
        KeyStream::new(seed).xor(0, &mut zeros);
        block(&zeros)
    }

    fn noise(seed: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        KeyStream::new(&Seed::new([seed; 32])).xor(0, &mut bytes);
        bytes
    }

    /// The key of zeros has the point that GCM's test case 13 prints; the product is the model's.
    #[test]
    fn known_answers() {
        assert_eq!(
            point_of(&Seed::new([0; 32])).reverse_bits(),
            0xdc95c078a2408989ad48a21492842087
        );
        let (a, b) = (0x0123456789abcdeffedcba9876543210, 0xdeadbeefcafef00d1122334455667788);
        assert_eq!(product(a, b), MODEL_PRODUCT);
    }

    const MODEL_PRODUCT: u128 = 0x4453099330aabe8deba63ea2478736e7;

    #[test]
    fn it_is_the_polynomial_without_constant_and_linear_terms() {
        for (seed, length) in [(1, 16), (2, 32), (3, 4112)] {
            let (seed, cell) = (Seed::new([seed; 32]), noise(seed + 9, length));
            let sum = Point::new(&seed, length).sum(&cell);
            assert_eq!(sum, slow(&cell, point_of(&seed), 2));
            assert_ne!(sum, slow(&cell, point_of(&seed), 1));
        }
    }

    #[test]
    fn sums_are_linear_and_depend_on_places() {
        let point = Point::new(&Seed::new([5; 32]), 64);
        let (a, b) = (noise(1, 64), noise(2, 64));
        let both: Vec<u8> = a.iter().zip(&b).map(|(a, b)| a ^ b).collect();
        assert_eq!(point.sum(&both), point.sum(&a) ^ point.sum(&b));
        assert_eq!(point.sum(&[0; 64]), Sum(0));
        let mut swapped = a.clone();
        swapped.rotate_left(16);
        assert_ne!(point.sum(&swapped), point.sum(&a));
    }

    /// A bit of the last block, in the half that is cut off: with a constant term nobody sees it.
    #[test]
    fn a_change_in_the_half_cut_off_is_seen() {
        let mut unseen = 0;
        for seed in 0..50 {
            let (seed, cell) = (Seed::new([seed; 32]), noise(seed + 100, 80));
            let mut changed = cell.clone();
            changed[79] ^= 1;
            let point = Point::new(&seed, 80);
            assert_ne!(point.sum(&cell), point.sum(&changed));
            let h = point_of(&seed);
            unseen += u32::from(slow(&cell, h, 0) == slow(&changed, h, 0));
        }
        assert_eq!(unseen, 50, "the canary: a sum with a constant term sees none of them");
    }

    #[test]
    fn digests_tell_what_they_are_about_and_in_which_order() {
        let (a, b) = (Sum(1), Sum(2));
        let of = |about, sums: [Sum; 2]| digest(about, sums);
        let all = [
            of(About::Read(7), [a, b]),
            of(About::Read(7), [b, a]),
            of(About::Read(8), [a, b]),
            of(About::Moved(0, 7), [a, b]),
            of(About::Level(0, 7), [a, b]),
            of(About::Level(1, 7), [a, b]),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other != one));
        }
    }
}
