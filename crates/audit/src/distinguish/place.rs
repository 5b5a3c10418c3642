//! Where a chunk lies, read as a node of a binary tree that is numbered level by level from 0.
//!
//! For an array that is no tree the same numbers are a coarse logarithmic position, which is as
//! good for telling two histories apart.

/// The level of a chunk: 0 is the root.
pub(super) fn level(chunk: u32) -> u32 {
    (u64::from(chunk) + 1).ilog2()
}

/// The place of a chunk within its level, between 0 and 1.
pub(super) fn fraction(chunk: u32) -> f64 {
    let width = 1u64 << level(chunk);
    ((u64::from(chunk) + 1 - width) as f64 + 0.5) / width as f64
}

/// The turn that the path to a chunk takes below level `at`: 0 left, 1 right; `None` if it ends
/// there.
pub(super) fn turn(chunk: u32, at: u32) -> Option<u8> {
    let below = level(chunk).checked_sub(at + 1)?;
    Some(((u64::from(chunk) + 1) >> below & 1) as u8)
}

/// Whether `above` lies on the path from the root to `chunk`, above it.
pub(super) fn descends(chunk: u32, above: u32) -> bool {
    let (here, there) = (level(chunk), level(above));
    here > there && (u64::from(chunk) + 1) >> (here - there) == u64::from(above) + 1
}

/// How many levels the paths to two chunks share.
pub(super) fn common_levels(a: u32, b: u32) -> u32 {
    let depth = level(a).min(level(b));
    let a = (u64::from(a) + 1) >> (level(a) - depth);
    let b = (u64::from(b) + 1) >> (level(b) - depth);
    depth + 1 - (u64::BITS - (a ^ b).leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_tree() {
        assert_eq!([0, 1, 2, 3, 6].map(level), [0, 1, 1, 2, 2]);
        assert_eq!([1, 2].map(fraction), [0.25, 0.75]);
        assert_eq!([turn(5, 0), turn(5, 1), turn(5, 2)], [Some(1), Some(0), None]);
        assert!(descends(5, 0) && descends(5, 2) && !descends(5, 1) && !descends(5, 5));
        assert_eq!([common_levels(3, 4), common_levels(3, 6), common_levels(5, 5)], [2, 1, 3]);
        assert_eq!(level(u32::MAX), 32);
    }
}
