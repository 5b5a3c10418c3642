//! The secret order of the slots of a bucket image.
//!
//! The order is a function of (key, array, chunk, tick), so it needs no place in a checkpoint and a
//! recovered proxy finds the same "next unread dummy" again. Each (array, chunk) is a ChaCha stream
//! and each tick owns 2^16 blocks of it. The first half is the order's: enough for the 2^16 cells a
//! chunk may have. The second half is for draws, 8 words for each: an engine that keeps no order
//! draws which cell is next.

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use zeroize::Zeroizing;

/// Derives slot orders of one incarnation.
pub struct PermutationKey(Zeroizing<[u8; 32]>);

/// Uniform numbers that follow from a key: of a place ([`PermutationKey::draws`]), or of an
/// [`crate::OrderKey`].
pub struct Draws(pub(crate) ChaCha12Rng);

/// Words of a stream that a tick owns, as a power of two, those before its draws, and those of a
/// draw.
const TICK_WORDS: u32 = 16 + 4;
const ORDER_WORDS: u128 = 1 << 19;
const DRAW_WORDS: u128 = 8;

impl PermutationKey {
    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        Self(Zeroizing::new(*bytes))
    }

    /// Fills `order` with a uniform permutation of `0..order.len()`: the same one for the same
    /// place, independent of all others. Work depends on the length alone, but for the rare
    /// rejected draw (below one in 2^16).
    pub fn order(&self, array: u8, chunk: u32, tick: u64, order: &mut [u16]) {
        let mut stream = self.stream(array, chunk);
        stream.set_word_pos(u128::from(tick) << TICK_WORDS);
        for (i, slot) in order.iter_mut().enumerate() {
            *slot = i as u16;
        }
        for i in (1..order.len()).rev() {
            order.swap(i, below(&mut stream, i as u32 + 1) as usize);
        }
    }

    /// The draws for a place, from the `nth` on: the same for the same, independent of those for
    /// all other places and of the order. A draw apart has 8 words to itself; who takes several
    /// from one `nth` takes the words of the following as well.
    pub fn draws(&self, array: u8, chunk: u32, tick: u64, nth: u16) -> Draws {
        let mut stream = self.stream(array, chunk);
        let own = ORDER_WORDS + u128::from(nth) * DRAW_WORDS;
        stream.set_word_pos((u128::from(tick) << TICK_WORDS) + own);
        Draws(stream)
    }

    fn stream(&self, array: u8, chunk: u32) -> ChaCha12Rng {
        let mut stream = ChaCha12Rng::from_seed(*self.0);
        stream.set_stream((u64::from(array) << 32) | u64::from(chunk));
        stream
    }
}

impl Draws {
    /// The next one, below `bound`, which is above 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        below(&mut self.0, bound)
    }
}

impl std::fmt::Debug for Draws {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Draws(..)")
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
