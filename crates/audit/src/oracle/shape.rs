//! The public shape of a tree, and how its buckets are numbered.
//!
//! Buckets are numbered as the array does: level by level from the first stored one. The number
//! plus 2^t is the number of a heap whose root is 1.

use fogbank_env::Stream;
use rand_core::Rng;

/// The public shape of the stored part of the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// L.
    pub leaf_level: u8,
    /// t.
    pub cached_levels: u8,
    /// Z.
    pub reals: u16,
    /// S.
    pub dummies: u16,
}

impl Shape {
    pub fn slots(&self) -> u16 {
        self.reals + self.dummies
    }

    /// The heap number of chunk 0.
    pub fn first(&self) -> u32 {
        1 << self.cached_levels
    }

    /// Buckets in the cloud.
    pub fn buckets(&self) -> u32 {
        (2u32 << self.leaf_level) - self.first()
    }

    pub fn level(&self, chunk: u32) -> u8 {
        (chunk + self.first()).ilog2() as u8
    }

    /// The chunk at `level`, a stored one, on the path to `leaf`.
    pub fn chunk(&self, level: u8, leaf: u32) -> u32 {
        (1 << level) + (leaf >> (self.leaf_level - level)) - self.first()
    }

    /// The chunk above, if it is stored.
    pub fn parent(&self, chunk: u32) -> Option<u32> {
        (chunk >= self.first()).then(|| ((chunk + self.first()) >> 1) - self.first())
    }

    /// The chunk to the left below; the other one follows it.
    pub fn left(&self, chunk: u32) -> u32 {
        2 * chunk + self.first()
    }

    /// The stored part of the path to `leaf`, from the top.
    pub fn path(&self, leaf: u32) -> impl Iterator<Item = u32> + use<> {
        let shape = *self;
        (shape.cached_levels..=shape.leaf_level).map(move |level| shape.chunk(level, leaf))
    }

    /// The leaf that ends at `chunk`, one of the lowest.
    pub fn leaf(&self, chunk: u32) -> u32 {
        chunk + self.first() - (1 << self.leaf_level)
    }

    /// A uniform one of the leaves below `chunk`, itself included.
    pub fn draw_below(&self, chunk: u32, random: &mut Stream) -> u32 {
        let levels = self.leaf_level - self.level(chunk);
        let first = (chunk + self.first()) << levels;
        first + below(random, 1 << levels) - (1 << self.leaf_level)
    }

    /// The leaf of eviction number `eviction`: its low bits in reverse.
    pub fn eviction_leaf(&self, eviction: u64) -> u32 {
        match self.leaf_level {
            0 => 0,
            level => (eviction as u32).reverse_bits() >> (32 - u32::from(level)),
        }
    }
}

/// A uniform draw below `bound` (multiply-shift with rejection); 0 for 0.
pub(super) fn below(random: &mut Stream, bound: u32) -> u32 {
    if bound < 2 {
        return 0;
    }
    let threshold = bound.wrapping_neg() % bound;
    loop {
        let product = u64::from(random.next_u32()) * u64::from(bound);
        if product as u32 >= threshold {
            return (product >> 32) as u32;
        }
    }
}
