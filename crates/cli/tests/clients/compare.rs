//! When two replies say the same.

use crate::resp::Frame;

/// What of a reply must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every byte.
    Exact,
    /// The elements in any order.
    Unordered,
    /// Fields and values, pairs in any order.
    UnorderedPairs,
    /// A number, but for this much: two servers do not read the clock at the same instant.
    Near(i64),
    /// The kind of frame and how many elements; which ones is the server's free choice.
    Shape,
}

/// Whether `ours` says what `theirs` says. Errors must always agree to the letter.
pub fn same(mode: Mode, ours: &Frame, theirs: &Frame) -> bool {
    if matches!(ours, Frame::Error(_)) || matches!(theirs, Frame::Error(_)) {
        return ours == theirs;
    }
    match (mode, ours, theirs) {
        (Mode::Near(by), Frame::Integer(a), Frame::Integer(b)) => {
            a == b || (*a >= 0 && *b >= 0 && a.abs_diff(*b) <= by as u64)
        }
        (Mode::Unordered, Frame::Array(a), Frame::Array(b))
        | (Mode::Unordered, Frame::Set(a), Frame::Set(b)) => sorted(a) == sorted(b),
        (Mode::UnorderedPairs, Frame::Array(a), Frame::Array(b)) => {
            a.len() == b.len() && sorted(&in_pairs(a)) == sorted(&in_pairs(b))
        }
        (Mode::UnorderedPairs, Frame::Map(a), Frame::Map(b)) => sorted(a) == sorted(b),
        (Mode::Shape, Frame::Array(a), Frame::Array(b)) => a.len() == b.len(),
        (Mode::Shape, Frame::Bulk(_), Frame::Bulk(_)) => true,
        _ => ours == theirs,
    }
}

/// Whether the replies of a whole transaction agree, given how each of its commands compares.
pub fn same_all(modes: &[Mode], ours: &Frame, theirs: &Frame) -> bool {
    match (ours, theirs) {
        (Frame::Array(a), Frame::Array(b)) => {
            let every =
                || modes.iter().zip(a.iter().zip(b)).all(|(mode, (a, b))| same(*mode, a, b));
            a.len() == b.len() && a.len() == modes.len() && every()
        }
        _ => ours == theirs,
    }
}

fn sorted<T: Ord + Clone>(all: &[T]) -> Vec<T> {
    let mut all = all.to_vec();
    all.sort();
    all
}

fn in_pairs(flat: &[Frame]) -> Vec<&[Frame]> {
    flat.chunks(2).collect()
}
