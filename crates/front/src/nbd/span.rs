//! A range of the disk, cut into pieces at the borders of blocks, and those into parts of blocks.

use std::ops::Range;

/// A range of the disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub length: u32,
}

/// What a span covers of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Which block.
    pub block: u64,
    /// Which bytes of it.
    pub bytes: Range<usize>,
}

impl Span {
    /// Whether it lies on a disk of `size` bytes.
    pub fn is_within(&self, size: u64) -> bool {
        self.offset.checked_add(u64::from(self.length)).is_some_and(|end| end <= size)
    }

    /// Blocks that it touches.
    pub fn blocks(&self, block_bytes: u64) -> u64 {
        if self.length == 0 {
            return 0;
        }
        let last = self.offset + u64::from(self.length) - 1;
        last / block_bytes - self.offset / block_bytes + 1
    }

    /// Spans that touch at most `blocks` blocks each, one behind the other; none if it is empty.
    pub fn pieces(self, block_bytes: u64, blocks: u32) -> impl Iterator<Item = Self> {
        self.cut(block_bytes.saturating_mul(u64::from(blocks)))
    }

    /// The parts of blocks it consists of, in order.
    pub fn parts(self, block_bytes: u64) -> impl Iterator<Item = Part> {
        self.cut(block_bytes).map(move |part| {
            let start = (part.offset % block_bytes) as usize;
            let bytes = start..start + part.length as usize;
            Part { block: part.offset / block_bytes, bytes }
        })
    }

    /// Spans that end at multiples of `stride`, the last of them where this does.
    fn cut(self, stride: u64) -> impl Iterator<Item = Self> {
        let mut rest = self;
        std::iter::from_fn(move || {
            if rest.length == 0 {
                return None;
            }
            let room = stride - rest.offset % stride;
            // It fits: it is no more than a length that does.
            let length = room.min(u64::from(rest.length)) as u32;
            let first = Self { offset: rest.offset, length };
            rest.offset = rest.offset.saturating_add(u64::from(length));
            rest.length -= length;
            Some(first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_span_has_no_parts() {
        let empty = Span { offset: 7, length: 0 };
        assert_eq!(
            (empty.pieces(4, 2).count(), empty.parts(4).count(), empty.blocks(4)),
            (0, 0, 0)
        );
        assert!(empty.is_within(7) && !empty.is_within(6));
        assert!(!Span { offset: u64::MAX, length: 1 }.is_within(u64::MAX));
    }

    proptest! {
        #[test]
        fn parts_are_the_span_and_pieces_are_short(
            offset in 0u64..5000, length in 0u32..5000, block in 1u64..700, blocks in 1u32..9,
        ) {
            let span = Span { offset, length };
            let mut at = offset;
            for piece in span.pieces(block, blocks) {
                prop_assert_eq!(piece.offset, at);
                prop_assert!(piece.blocks(block) <= u64::from(blocks));
                prop_assert_eq!(piece.parts(block).count() as u64, piece.blocks(block));
                for part in piece.parts(block) {
                    prop_assert_eq!(part.block * block + part.bytes.start as u64, at);
                    prop_assert!(!part.bytes.is_empty() && part.bytes.end <= block as usize);
                    at += part.bytes.len() as u64;
                }
            }
            prop_assert_eq!(at, offset + u64::from(length));
            prop_assert_eq!(span.parts(block).count() as u64, span.blocks(block));
        }
    }
}
