//! Paths: which level two of them share, and the order in which evictions visit them.

use super::Tree;

impl Tree {
    /// The deepest level at which the paths to two leaves meet.
    pub const fn meeting_level(&self, a: u32, b: u32) -> u8 {
        self.leaf_level - (u32::BITS - (a ^ b).leading_zeros()) as u8
    }

    /// The leaf of eviction number `eviction`: reverse lexicographic order.
    ///
    /// Consecutive evictions alternate between subtrees, and a bucket at level `i` is visited
    /// exactly every 2^i of them.
    pub const fn eviction_leaf(&self, eviction: u64) -> u32 {
        if self.leaf_level == 0 {
            return 0;
        }
        (eviction as u32).reverse_bits() >> (u32::BITS - self.leaf_level as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_meet_where_their_buckets_are_the_same() {
        let tree = Tree::new(5);
        for a in 0..tree.leaves() {
            for b in 0..tree.leaves() {
                let shared = (0..tree.levels())
                    .filter(|level| tree.bucket(*level, a) == tree.bucket(*level, b))
                    .max();
                assert_eq!(Some(tree.meeting_level(a, b)), shared);
            }
        }
    }

    #[test]
    fn evictions_visit_a_bucket_at_level_i_every_2_to_the_i() {
        let tree = Tree::new(4);
        for level in 0..tree.levels() {
            let period = 1u64 << level;
            for first in 0..32 {
                let mut visited: Vec<_> = (first..first + period)
                    .map(|g| tree.index(level, tree.eviction_leaf(g)))
                    .collect();
                visited.sort_unstable();
                assert!(visited.into_iter().eq(0..1 << level));
            }
        }
        let order: Vec<_> = (0..4).map(|g| Tree::new(2).eviction_leaf(g)).collect();
        assert_eq!(order, [0, 2, 1, 3]);
        assert_eq!(Tree::new(0).eviction_leaf(7), 0);
    }
}
