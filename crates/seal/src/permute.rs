//! The secret order of the slots of a bucket image.
//!
//! The order is a function of (key, array, chunk, tick), so it needs no place in a checkpoint and a
//! recovered proxy finds the same "next unread dummy" again. Each (array, chunk) is a ChaCha stream
//! and each tick owns 2^16 blocks of it: enough for the 2^16 cells a chunk may have.

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use zeroize::Zeroizing;

/// Derives slot orders of one incarnation.
pub struct PermutationKey(Zeroizing<[u8; 32]>);

impl PermutationKey {
    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        Self(Zeroizing::new(*bytes))
    }

    /// Fills `order` with a uniform permutation of `0..order.len()`: the same one for the same
    /// place, independent of all others. Work depends on the length alone, but for the rare
    /// rejected draw (below one in 2^16).
    pub fn order(&self, array: u8, chunk: u32, tick: u64, order: &mut [u16]) {
        let mut stream = ChaCha12Rng::from_seed(*self.0);
        stream.set_stream((u64::from(array) << 32) | u64::from(chunk));
        stream.set_word_pos(u128::from(tick) << (16 + 4));
        for (i, slot) in order.iter_mut().enumerate() {
            *slot = i as u16;
        }
        for i in (1..order.len()).rev() {
            order.swap(i, below(&mut stream, i as u32 + 1) as usize);
        }
    }
}

impl std::fmt::Debug for PermutationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PermutationKey(..)")
    }
}

/// A uniform draw below `bound` (Lemire's multiply-shift with rejection).
pub(crate) fn below(stream: &mut impl Rng, bound: u32) -> u32 {
    let mut product = u64::from(stream.next_u32()) * u64::from(bound);
    if (product as u32) < bound {
        let threshold = bound.wrapping_neg() % bound;
        while (product as u32) < threshold {
            product = u64::from(stream.next_u32()) * u64::from(bound);
        }
    }
    (product >> 32) as u32
}
