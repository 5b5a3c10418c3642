//! The hash of places: fixed where the proxy chooses them, keyed where somebody else does.
//!
//! *Fixed*, the default, so that a run repeats from its seed down to the order in which maps are
//! walked; fast, because one lookup a cell read is on the hot path. It is not hardened against
//! chosen keys: a proxy that attacks its own hash map hurts only itself. *Keyed* is SipHash under a
//! key drawn at random for the process, for a server whose clients choose the places: who does not
//! know the key cannot choose places that collide, and so make each lookup of a server walk through
//! all of them.

use std::hash::{BuildHasher, Hasher};

use rand_core::Rng;
use siphasher::sip::SipHasher13;

/// A map keyed by places; with the fixed hash unless made with another.
pub type PlaceMap<K, V> = hashbrown::HashMap<K, V, PlaceHashing>;

/// How places are hashed.
#[derive(Clone, Copy, Default)]
pub struct PlaceHashing(Option<[u64; 2]>);

impl PlaceHashing {
    /// Under a key drawn from `random`.
    pub fn keyed(random: &mut dyn Rng) -> Self {
        Self(Some([random.next_u64(), random.next_u64()]))
    }
}

impl std::fmt::Debug for PlaceHashing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "keyed" } else { "fixed" })
    }
}

impl BuildHasher for PlaceHashing {
    type Hasher = PlaceHasher;

    fn build_hasher(&self) -> PlaceHasher {
        match self.0 {
            None => PlaceHasher::Fixed(SEED),
            Some([one, two]) => PlaceHasher::Keyed(SipHasher13::new_with_keys(one, two)),
        }
    }
}

/// A hash being made.
#[derive(Debug, Clone)]
pub enum PlaceHasher {
    /// Folded multiplication: both halves of a 128-bit product, xored.
    Fixed(u64),
    /// Under a key.
    Keyed(SipHasher13),
}

fn mix(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word) * u128::from(MULTIPLIER);
    (product as u64) ^ ((product >> 64) as u64) ^ SEED
}

impl PlaceHasher {
    fn word(&mut self, word: u64) {
        match self {
            Self::Fixed(state) => *state = mix(*state, word),
            Self::Keyed(hasher) => hasher.write_u64(word),
        }
    }
}

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        match self {
            Self::Fixed(state) => *state,
            Self::Keyed(hasher) => hasher.finish(),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut lane = [0; 8];
            lane.copy_from_slice(word);
            self.word(u64::from_le_bytes(lane));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut lane = [0; 8];
            lane[..rest.len()].copy_from_slice(rest);
            lane[7] = rest.len() as u8; // at most 7 bytes are left, so this one is free
            self.word(u64::from_le_bytes(lane));
        }
    }

    fn write_u16(&mut self, word: u16) {
        self.word(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.word(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.word(word);
    }
}

const SEED: u64 = 0x243f_6a88_85a3_08d3; // digits of pi: no structure, nothing hidden
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 over the golden ratio, odd

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fogbank_env::{Purpose, Randomness};

    use super::*;

    /// Places that all have one fixed hash: after the chunk the state is known, and the version
    /// undoes it.
    fn colliding() -> impl Iterator<Item = (u32, u64)> {
        (0..10_000).map(|chunk| (chunk, mix(SEED, u64::from(chunk))))
    }

    fn hashes(hashing: PlaceHashing) -> usize {
        colliding().map(|place| hashing.hash_one(place)).collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn chosen_places_collide_under_the_fixed_hash_alone() {
        assert_eq!(hashes(PlaceHashing::default()), 1, "the canary: such places can be chosen");
        let keyed = |seed| {
            PlaceHashing::keyed(&mut Randomness::repeatable(seed).stream(Purpose::Incarnation))
        };
        assert_eq!(hashes(keyed(1)), 10_000);
        let other = |seed| keyed(seed).hash_one((1u32, 2u64));
        assert_eq!(other(1), other(1));
        assert_ne!(other(1), other(2), "each process has its own");
    }
}
