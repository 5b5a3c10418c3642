//! Shapes of the trees of Ring ORAM and Path ORAM, and the models behind them.
//!
//! Names of the paper: Z = [`BucketShape::reals`], S = [`BucketShape::dummies`], A =
//! [`BucketShape::evict_every`], L = [`Geometry::leaf_level`] (the root is level 0), N = capacity.
//!
//! The model:
//! - **Height.** `N <= A * 2^(L-1)`, so that a leaf bucket expects at most A/2 blocks.
//! - **Stash.** With that load, a Chernoff bound and a count of subtrees give, for the residue left
//!   by an eviction, `Pr[residue > R] <= (A/2Z)^R * e^-q / (1 - e^-q)` where
//!   `q = Z ln(2Z/A) + A/2 - Z - ln 4`; nothing is proven unless q > 0. Just before an eviction the
//!   stash holds up to A - 1 fresh blocks more.
//! - **Dummies.** S minimises the offline cost `(2Z + S)(1 + Pr[Poisson(A) > S]) / A`: an eviction
//!   reads Z and writes Z + S slots, and a bucket read more than S times between two evictions is
//!   reshuffled early at the same price.
//! - **Tree top.** If the levels above t are kept in the proxy without a bound on each bucket,
//!   their blocks together with the stash number at most `Z * (2^t - 1) + R + A - 1` with the same
//!   probability: run the ordinary scheme beside it on the same leaves. Every eviction can place at
//!   level t and below whatever the ordinary one can, because it sees a superset of the candidates
//!   and the same buckets; so what it holds above is at most what the ordinary scheme holds in its
//!   stash and in the 2^t - 1 buckets above level t.
//!
//! A Path ORAM bucket ([`BucketShape::path`]) has no dummies of its own and is read and rewritten
//! whole by every access on its path: S = 0 and A = 1. There the height is the least with `N <= Z *
//! 2^L`, and how large the stash gets is measured, not proven, for the Z that anybody uses.
//!
//! Paper: Ring ORAM section 5 (as cited by Obladi section 7); Obladi section 10 for 100/196/168.

use fogbank_store::{ArrayShape, ChunkName};

use crate::{BatchShape, Error, Result, tree::Tree};

/// Bytes in front of a value in the plaintext of a cell: the block's id.
pub const BLOCK_ID_BYTES: usize = 8;

/// Largest capacity: leaves and block ids have to fit 32 bits with room for marks.
pub const CAPACITY_MAX: u32 = 1 << 30;

/// Largest value, so that no single cell is out of proportion.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Largest bucket image that [`BucketShape::choose`] picks.
const CHUNK_BYTES_MAX: usize = 32 << 20;

/// Most slots a block of capacity that [`BucketShape::choose`] spends on storage.
const SLOTS_PER_BLOCK_MAX: u64 = 16;

/// Evictions in the lifetime of a store for which the stash bound holds, as a power of two.
const LIFETIME_EVICTIONS_LOG2: f64 = 30.0;

/// Z, S and A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BucketShape {
    /// Z: blocks a bucket can hold.
    pub reals: u16,
    /// S: reads a bucket version can serve before it is reshuffled.
    pub dummies: u16,
    /// A: accesses from one eviction to the next.
    pub evict_every: u16,
}

impl BucketShape {
    /// Obladi's shape (section 10): the cheapest per access, for stores of some thousand blocks up.
    pub const OBLADI: Self = Self::new(100, 196, 168);

    /// Shapes with the largest A for which the stash bound is proven, and the best S for it.
    pub const PROVEN: [Self; 5] = [
        Self::new(4, 5, 3),
        Self::new(8, 12, 8),
        Self::new(16, 28, 20),
        Self::new(32, 59, 46),
        Self::OBLADI,
    ];

    /// A bucket of Path ORAM that holds `reals` blocks.
    pub const fn path(reals: u16) -> Self {
        Self::new(reals, 0, 1)
    }

    /// Whether this is a bucket of Path ORAM.
    pub fn is_path(&self) -> bool {
        self.dummies == 0
    }

    /// Z, S and A in the order in which papers quote them.
    pub const fn new(reals: u16, dummies: u16, evict_every: u16) -> Self {
        Self { reals, dummies, evict_every }
    }

    /// The proven shape that moves the fewest cells for `shape` and epochs of `accesses_per_epoch`
    /// batch slots, the padded stash of each epoch's checkpoint included.
    ///
    /// Shapes that would spend more than 16 slots a block or images above 32 MiB are left out: that
    /// is what gives small stores and stores of large values small buckets.
    pub fn choose(shape: &BatchShape, accesses_per_epoch: usize) -> Self {
        let cost = |bucket: &Self| {
            let tree = Tree::new(bucket.leaf_level(shape.capacity));
            let stash = bucket.stash_blocks_max(shape.capacity, 128.0);
            bucket.slots_per_access(tree) + stash as f64 / accesses_per_epoch.max(1) as f64
        };
        let affordable = |bucket: &&Self| {
            let tree = Tree::new(bucket.leaf_level(shape.capacity));
            let slots = tree.buckets() * u64::from(bucket.slots());
            slots <= SLOTS_PER_BLOCK_MAX * u64::from(shape.capacity)
                && usize::from(bucket.slots()) * cell_bytes(shape.value_bytes) <= CHUNK_BYTES_MAX
        };
        let cheapest =
            Self::PROVEN.iter().filter(affordable).min_by(|a, b| cost(a).total_cmp(&cost(b)));
        *cheapest.unwrap_or(&Self::PROVEN[0])
    }

    /// Z + S.
    pub fn slots(&self) -> u16 {
        self.reals + self.dummies
    }

    /// L: the least for which `capacity <= A * 2^(L-1)`, or for Path ORAM `capacity <= Z * 2^L`.
    pub fn leaf_level(&self, capacity: u32) -> u8 {
        let (unit, blocks) = match self.is_path() {
            true => (self.reals, u64::from(capacity)),
            false => (self.evict_every, 2 * u64::from(capacity)),
        };
        let mut level = 0;
        while (u64::from(unit.max(1)) << level) < blocks {
            level += 1;
        }
        level
    }

    /// q of the stash bound; the bound is proven if it is positive.
    pub fn stash_exponent(&self) -> f64 {
        stash_exponent(f64::from(self.reals), f64::from(self.evict_every))
    }

    /// R: the residue after an eviction that is exceeded with probability below `2^-bits`; `None`
    /// if nothing is known for this shape.
    pub fn residue_max(&self, bits: f64) -> Option<u32> {
        if self.is_path() {
            return path_residue_max(self.reals, bits);
        }
        let q = self.stash_exponent();
        if q <= 0.0 {
            return None;
        }
        let slope = (2.0 * f64::from(self.reals) / f64::from(self.evict_every)).log2();
        let offset = (1.0 / q.exp_m1()).log2();
        Some(((bits + offset) / slope).ceil() as u32)
    }

    /// Blocks the stash may hold at any time in 2^30 evictions but for a chance of `2^-bits`:
    /// the residue and A - 1 fresh ones, and never more than there are blocks.
    pub fn stash_blocks_max(&self, capacity: u32, bits: f64) -> u32 {
        match self.residue_max(bits + LIFETIME_EVICTIONS_LOG2) {
            Some(residue) => capacity.min(residue + u32::from(self.evict_every) - 1),
            None => capacity,
        }
    }

    /// Expected slots read and written offline a level and access: eviction and early reshuffle.
    pub fn offline_slots_per_level(&self) -> f64 {
        offline_slots(f64::from(self.reals), self.dummies, f64::from(self.evict_every))
    }

    /// Slots an access moves without epochs, cache or XOR, early reshuffles not counted.
    pub fn slots_per_access(&self, tree: Tree) -> f64 {
        let levels = f64::from(tree.levels());
        let rewritten = f64::from(2 * self.reals + self.dummies);
        levels + rewritten * levels / f64::from(self.evict_every)
    }

    /// The largest A for which the stash bound is proven with buckets of `reals`.
    pub fn largest_proven_rate(reals: u16) -> u16 {
        let proven = |a: &u16| stash_exponent(f64::from(reals), f64::from(*a)) > 0.0;
        (1..2 * reals).rev().find(proven).unwrap_or(1)
    }

    /// S*: the number of dummies that minimises the offline cost. At least A: below that a bucket
    /// is reshuffled more than once between two evictions, which the model does not count.
    pub fn best_dummies(reals: u16, evict_every: u16) -> u16 {
        let cost = |s: &u16| offline_slots(f64::from(reals), *s, f64::from(evict_every));
        (evict_every..4 * evict_every + 8).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(1)
    }
}

/// What Path ORAM's stash holds beside the path in hand: see [`PATH_RESIDUES`].
fn path_residue_max(reals: u16, bits: f64) -> Option<u32> {
    let (_, offset, slope) = PATH_RESIDUES.iter().find(|(z, ..)| *z == reals)?;
    Some((offset + slope * bits).ceil() as u32)
}

/// By Z: blocks at 2^0 and blocks for every further bit, of a line above what was measured.
const PATH_RESIDUES: [(u16, f64, f64); 3] = [(4, 5.0, 1.22), (5, -3.0, 0.875), (6, -6.0, 0.757)];

fn stash_exponent(z: f64, a: f64) -> f64 {
    z * (2.0 * z / a).ln() + a / 2.0 - z - 4f64.ln()
}

fn offline_slots(z: f64, s: u16, a: f64) -> f64 {
    (2.0 * z + f64::from(s)) * (1.0 + poisson_above(a, s)) / a
}

/// Pr[Poisson(mean) > k].
fn poisson_above(mean: f64, k: u16) -> f64 {
    let mut log_term = -mean;
    let mut below = log_term.exp();
    for i in 1..=u32::from(k) {
        log_term += mean.ln() - f64::from(i).ln();
        below += log_term.exp();
    }
    (1.0 - below).max(0.0)
}

/// Bytes of a sealed cell of a value: id, value, tag.
pub fn cell_bytes(value_bytes: usize) -> usize {
    BLOCK_ID_BYTES + value_bytes + fogbank_seal::TAG_BYTES
}

/// A checked shape of one store: every derived number fits its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// N.
    pub capacity: u32,
    /// Bytes of every value.
    pub value_bytes: usize,
    /// Z, S and A.
    pub bucket: BucketShape,
    /// The tree, levels 0 to L.
    pub tree: Tree,
    /// t: the levels above it are kept in the proxy.
    pub cached_levels: u8,
    /// Blocks that may wait in the stash beyond what evictions leave there, since a cloud may hold
    /// the paths back along which they would go down; none in an engine that waits for all of a
    /// batch.
    pub held_back_max: u32,
}

impl Geometry {
    /// Checks the parameters and derives the tree and the cached top.
    ///
    /// `cache_bytes` is what the values in the cached top may take at most; the last three levels
    /// are never cached.
    ///
    /// # Errors
    /// [`Error::Caller`] for a shape outside the limits.
    pub fn new(
        capacity: u32,
        value_bytes: usize,
        bucket: BucketShape,
        cache_bytes: u64,
    ) -> Result<Self> {
        let least = bucket.leaf_level(capacity);
        Self::with_leaf_level(capacity, value_bytes, bucket, cache_bytes, least)
    }

    /// As [`Geometry::new`] with L given: a higher tree than the model asks for wastes cells, a
    /// lower one loses the stash bound and is refused.
    ///
    /// # Errors
    /// [`Error::Caller`] for a shape outside the limits.
    pub fn with_leaf_level(
        capacity: u32,
        value_bytes: usize,
        bucket: BucketShape,
        cache_bytes: u64,
        leaf_level: u8,
    ) -> Result<Self> {
        check((1..=CAPACITY_MAX).contains(&capacity), "capacity outside 1..=2^30")?;
        check((1..=VALUE_BYTES_MAX).contains(&value_bytes), "value size outside 1 B..=16 MiB")?;
        check((1..=1024).contains(&bucket.reals), "Z outside 1..=1024")?;
        check(bucket.dummies <= 4096, "S outside 0..=4096")?;
        check(bucket.dummies > 0 || bucket.evict_every == 1, "S outside 1..=4096")?;
        check((1..=4096).contains(&bucket.evict_every), "A outside 1..=4096")?;
        check(leaf_level >= bucket.leaf_level(capacity), "L is below what capacity and A ask for")?;
        check(leaf_level <= 28, "the tree would have more than 29 levels")?;
        let tree = Tree::new(leaf_level);
        let cached_levels = cached_levels(tree, bucket, value_bytes, cache_bytes);
        Ok(Self { capacity, value_bytes, bucket, tree, cached_levels, held_back_max: 0 })
    }

    /// L.
    pub fn leaf_level(&self) -> u8 {
        self.tree.leaf_level()
    }

    /// Levels of a path that live in the cloud: L + 1 - t.
    pub fn stored_levels(&self) -> u8 {
        self.tree.levels() - self.cached_levels
    }

    /// Buckets that live in the cloud.
    pub fn stored_buckets(&self) -> u32 {
        (self.tree.buckets() - (1u64 << self.cached_levels) + 1) as u32
    }

    /// The chunk that holds the bucket at `level` (not a cached one) on the path to `leaf`.
    pub fn chunk(&self, level: u8, leaf: u32) -> u32 {
        (1 << level) - (1 << self.cached_levels) + self.tree.index(level, leaf)
    }

    /// The chunks of the stored buckets on the path to `leaf`, from the top down.
    pub fn chunks_to(&self, leaf: u32) -> impl Iterator<Item = u32> + use<> {
        let geometry = *self;
        (self.cached_levels..self.tree.levels()).map(move |level| geometry.chunk(level, leaf))
    }

    /// The level of a chunk.
    pub fn level_of(&self, chunk: u32) -> u8 {
        (chunk + (1 << self.cached_levels)).ilog2() as u8
    }

    /// Bytes of a cell's plaintext: id and value.
    pub fn plaintext_bytes(&self) -> usize {
        BLOCK_ID_BYTES + self.value_bytes
    }

    /// Bytes of a sealed cell.
    pub fn cell_bytes(&self) -> usize {
        cell_bytes(self.value_bytes)
    }

    /// Bytes of a bucket image.
    pub fn chunk_bytes(&self) -> usize {
        self.cell_bytes() * usize::from(self.bucket.slots())
    }

    /// Bytes of the buckets of a path that live in the cloud.
    pub fn path_bytes(&self) -> u64 {
        u64::from(self.stored_levels()) * self.chunk_bytes() as u64
    }

    /// The shape of the store's array.
    pub fn array_shape(&self) -> ArrayShape {
        ArrayShape {
            chunks: self.stored_buckets(),
            cells_per_chunk: self.bucket.slots(),
            cell_bytes: self.cell_bytes() as u32,
        }
    }

    /// Blocks that stash and cached top may hold together but for a chance of 2^-128: the length a
    /// checkpoint pads them to.
    pub fn stash_blocks_max(&self) -> u32 {
        let top = u64::from(self.bucket.reals) * ((1u64 << self.cached_levels) - 1);
        let stash = u64::from(self.bucket.stash_blocks_max(self.capacity, 128.0));
        (top + stash + u64::from(self.held_back_max)).min(u64::from(self.capacity)) as u32
    }

    /// The same for an engine under a cloud that may hold `paths` back at once.
    pub(crate) fn with_paths_held_back(self, paths: usize) -> Self {
        Self { held_back_max: held_back_blocks(paths, 128.0 + LIFETIME_EVICTIONS_LOG2), ..self }
    }

    /// Bytes of all slots if every bucket has been written.
    pub fn storage_bytes(&self) -> u64 {
        u64::from(self.stored_buckets()) * self.chunk_bytes() as u64
    }
}

/// Blocks that wait above `paths` which a cloud holds back, but for a chance of `2^-bits`. It may
/// hold those of one part of the tree; from one of them to the next the number of blocks that are
/// mapped there is geometric with mean one, and Chernoff's bound holds for the sum.
fn held_back_blocks(paths: usize, bits: f64) -> u32 {
    let paths = paths as f64;
    let bits_of = |blocks: f64| {
        let each = blocks / paths;
        paths * (each * each.log2() - (1.0 + each) * ((1.0 + each) / 2.0).log2())
    };
    let mut blocks = paths;
    while blocks < f64::from(u32::MAX) && bits_of(blocks) < bits {
        blocks = (blocks * 1.01).ceil();
    }
    blocks as u32
}

/// A chunk version's number: which opening sealed it, and in which write-back.
pub(crate) fn version(opening: u32, tick: u64) -> u64 {
    (u64::from(opening) << fogbank_seal::TICK_BITS) | tick
}

/// The opening that sealed a chunk version.
pub(crate) fn opening_of(name: &ChunkName) -> u32 {
    (name.version >> fogbank_seal::TICK_BITS) as u32
}

/// The write-back that sealed a chunk version.
pub(crate) fn tick_of(name: &ChunkName) -> u64 {
    name.version & ((1 << fogbank_seal::TICK_BITS) - 1)
}

fn cached_levels(tree: Tree, bucket: BucketShape, value_bytes: usize, cache_bytes: u64) -> u8 {
    let bytes = |t: u8| u64::from(bucket.reals) * ((1u64 << t) - 1) * value_bytes as u64;
    let most = tree.levels().saturating_sub(3);
    (0..=most).rev().find(|t| bytes(*t) <= cache_bytes).unwrap_or(0)
}

fn check(holds: bool, otherwise: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Caller(otherwise.into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, published: f64, tolerance: f64) {
        assert!((value - published).abs() <= tolerance, "{value} is not {published}");
    }

    /// Against the tail itself: the number of failures before so many successes, each as likely.
    #[test]
    fn blocks_above_held_back_paths_are_bounded_and_not_by_much() {
        let tail_bits = |paths: u32, above: u32| {
            let mut log2 = -f64::from(paths); // of the chance of no block at all
            let mut tail = 0.0;
            for blocks in 0..above + 2_000 {
                tail += if blocks > above { log2.exp2() } else { 0.0 };
                log2 += (f64::from(blocks + paths) / f64::from(blocks + 1)).log2() - 1.0;
            }
            -tail.log2()
        };
        for paths in [1, 8, 64, 256] {
            let bound = held_back_blocks(paths as usize, 158.0);
            let bits = tail_bits(paths, bound);
            assert!((158.0..180.0).contains(&bits), "{paths} paths, {bound} blocks: 2^-{bits}");
        }
    }

    #[test]
    fn largest_rates_are_the_published_pairs() {
        for (z, a) in [(4, 3), (8, 8), (16, 20), (32, 46), (100, 168)] {
            assert_eq!(BucketShape::largest_proven_rate(z), a);
        }
        assert!(BucketShape::new(100, 196, 169).stash_exponent() < 0.0);
        assert!(BucketShape::new(16, 25, 23).residue_max(80.0).is_none());
    }

    #[test]
    fn best_dummies_are_the_published_ones() {
        for (z, a, s) in [(8, 8, 12), (16, 20, 28), (16, 23, 31), (32, 46, 59), (100, 168, 197)] {
            assert_eq!(BucketShape::best_dummies(z, a), s);
        }
        assert!((5..=6).contains(&BucketShape::best_dummies(4, 3)));
        let best = offline_slots(100.0, 197, 168.0);
        near(BucketShape::OBLADI.offline_slots_per_level() / best, 1.0, 2e-4);
    }

    #[test]
    fn offline_cost_and_storage_are_the_published_ones() {
        let rows = [
            (BucketShape::new(4, 5, 3), 4.70, 12.0),
            (BucketShape::new(8, 12, 8), 3.72, 10.0),
            (BucketShape::new(16, 28, 20), 3.10, 8.8),
            (BucketShape::new(16, 31, 23), 2.86, 8.2),
            (BucketShape::new(16, 25, 23), 3.20, 7.1),
            (BucketShape::new(32, 59, 46), 2.75, 7.9),
            (BucketShape::OBLADI, 2.39, 7.0),
        ];
        for (shape, offline, storage) in rows {
            near(shape.offline_slots_per_level(), offline, 0.02);
            let at_full_load = f64::from(shape.slots()) / f64::from(shape.evict_every) * 4.0;
            near(at_full_load, storage, 0.06);
        }
    }

    #[test]
    fn proven_residues_are_the_published_ones() {
        let rows = [(4, 3, 60, 94), (8, 8, 83, 131), (16, 20, 123, 193), (32, 46, 173, 274)];
        for (z, a, r80, r128) in rows.into_iter().chain([(100, 168, 336, 527)]) {
            let shape = BucketShape::new(z, a, a);
            assert_eq!(
                (shape.residue_max(80.0), shape.residue_max(128.0)),
                (Some(r80), Some(r128))
            );
        }
        let slope = |z: f64, a: f64| (2.0 * z / a).log2();
        for (z, a, bits) in
            [(4., 3., 1.42), (8., 8., 1.0), (16., 20., 0.68), (32., 46., 0.48), (100., 168., 0.25)]
        {
            near(slope(z, a), bits, 0.005);
        }
    }

    #[test]
    fn sizes_are_the_published_ones() {
        let (small, middle) = (BucketShape::new(4, 5, 3), BucketShape::new(16, 28, 20));
        let rows: [(u32, BucketShape, u8, u64, u64, f64, f64); 10] = [
            (10_000, BucketShape::OBLADI, 7, 255, 75_480, 26.9, 28.0),
            (100_000, BucketShape::OBLADI, 11, 4_095, 1_212_120, 40.3, 42.0),
            (1_000_000, BucketShape::OBLADI, 14, 32_767, 9_699_032, 50.4, 53.0),
            (10_000_000, BucketShape::OBLADI, 17, 262_143, 77_594_328, 60.4, 63.0),
            (10_000, middle, 10, 2_047, 90_068, 44.0, 46.0),
            (100_000, middle, 14, 32_767, 1_441_748, 60.0, 63.0),
            (1_000_000, middle, 17, 262_143, 11_534_292, 72.0, 75.0),
            (10_000, small, 13, 16_383, 147_447, 75.0, 78.0),
            (100_000, small, 17, 262_143, 2_359_287, 96.0, 101.0),
            (1_000_000, small, 20, 2_097_151, 18_874_359, 112.0, 117.0),
        ];
        for (n, bucket, leaf_level, buckets, slots, per_access, kilobytes) in rows {
            let geometry = Geometry::new(n, 1024, bucket, 0).unwrap();
            assert_eq!((geometry.leaf_level(), geometry.tree.buckets()), (leaf_level, buckets));
            assert_eq!(buckets * u64::from(bucket.slots()), slots);
            let moved = bucket.slots_per_access(geometry.tree);
            near(moved, per_access, 0.5);
            near(moved * geometry.cell_bytes() as f64 / 1000.0, kilobytes, 1.0);
        }
    }

    #[test]
    fn small_stores_get_small_buckets() {
        let chosen = |capacity, value_bytes, accesses| {
            let shape = BatchShape { capacity, value_bytes, read_batch: 1, write_batch: 1 };
            BucketShape::choose(&shape, accesses).reals
        };
        assert_eq!(chosen(1, 1, 2), 4);
        assert_eq!(chosen(10, 100, 2), 32);
        assert_eq!(chosen(100_000, 1024, 4_500), 100);
        assert!(chosen(100_000, 1024, 2) <= 8, "a stash padded for 100/168 outweighs two accesses");
        assert!(chosen(100_000, 1 << 20, 4_500) < 32, "an image of 100/196 would have 296 MiB");
    }

    #[test]
    fn the_cache_leaves_the_last_three_levels() {
        let cached = |bytes| Geometry::new(100_000, 1024, BucketShape::OBLADI, bytes).unwrap();
        assert_eq!(cached(0).cached_levels, 0);
        assert_eq!(cached(100 * 1032).cached_levels, 1);
        assert_eq!(cached(32 << 20).cached_levels, 8);
        assert_eq!(cached(u64::MAX).cached_levels, 9);
        let geometry = cached(32 << 20);
        assert_eq!(geometry.chunk(8, 0), 0);
        assert_eq!(geometry.chunk(11, 2047), geometry.stored_buckets() - 1);
        assert_eq!(geometry.level_of(geometry.chunk(9, 700)), 9);
    }

    #[test]
    fn shapes_outside_the_limits_are_refused() {
        let make = |n, v, z, s, a| Geometry::new(n, v, BucketShape::new(z, s, a), 0);
        assert!(make(1, 1, 4, 5, 3).is_ok());
        for bad in [
            make(0, 1, 4, 5, 3),
            make(CAPACITY_MAX + 1, 1, 4, 5, 3),
            make(1, 0, 4, 5, 3),
            make(1, VALUE_BYTES_MAX + 1, 4, 5, 3),
            make(1, 1, 0, 5, 3),
            make(1, 1, 4, 0, 3),
            make(1, 1, 4, 5, 0),
            make(CAPACITY_MAX, 1, 1, 1, 1),
        ] {
            assert!(matches!(bad, Err(Error::Caller(_))));
        }
    }
}
