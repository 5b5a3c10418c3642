//! Numbering of buckets: level by level from the root, from left to right.

use super::Tree;

impl Tree {
    /// The index within `level` of the bucket on the path to `leaf`.
    pub const fn index(&self, level: u8, leaf: u32) -> u32 {
        leaf >> (self.leaf_level - level)
    }

    /// The number of the bucket at `level` on the path to `leaf`; the root is 0.
    pub const fn bucket(&self, level: u8, leaf: u32) -> u32 {
        (1 << level) - 1 + self.index(level, leaf)
    }

    /// The level of a bucket by its number.
    pub const fn level_of(&self, bucket: u32) -> u8 {
        (bucket + 1).ilog2() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_numbered_without_gaps() {
        let tree = Tree::new(4);
        let mut seen = vec![0; tree.buckets() as usize];
        for leaf in 0..tree.leaves() {
            for level in 0..tree.levels() {
                let bucket = tree.bucket(level, leaf);
                assert_eq!(tree.level_of(bucket), level);
                seen[bucket as usize] += 1;
            }
        }
        for (bucket, paths) in seen.into_iter().enumerate() {
            assert_eq!(paths, tree.leaves() >> tree.level_of(bucket as u32));
        }
    }

    #[test]
    fn a_tree_of_one_bucket() {
        let tree = Tree::new(0);
        assert_eq!((tree.leaves(), tree.levels(), tree.buckets()), (1, 1, 1));
        assert_eq!(tree.bucket(0, 0), 0);
    }
}
