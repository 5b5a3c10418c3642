//! A fixed hasher for maps keyed by places.
//!
//! Fixed, so that a run repeats from its seed down to the order in which maps are walked; fast,
//! because one lookup a cell read is on the hot path. Not hardened against chosen keys: places are
//! chosen by the proxy, and a proxy that attacks its own hash map hurts only itself.

use std::hash::{BuildHasherDefault, Hasher};

/// A map with the fixed hasher.
pub type PlaceMap<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<PlaceHasher>>;

/// Folded multiplication: both halves of a 128-bit product, xored.
#[derive(Debug, Clone, Copy)]
pub struct PlaceHasher(u64);

impl PlaceHasher {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ SEED;
    }
}

impl Default for PlaceHasher {
    fn default() -> Self {
        Self(SEED)
    }
}

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut lane = [0; 8];
            lane.copy_from_slice(word);
            self.mix(u64::from_le_bytes(lane));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut lane = [0; 8];
            lane[..rest.len()].copy_from_slice(rest);
            lane[7] = rest.len() as u8; // at most 7 bytes are left, so this one is free
            self.mix(u64::from_le_bytes(lane));
        }
    }

    fn write_u16(&mut self, word: u16) {
        self.mix(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }
}

const SEED: u64 = 0x243f_6a88_85a3_08d3; // digits of pi: no structure, nothing hidden
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 over the golden ratio, odd
