//! The order in which blocks are placed on a path: those that may go deepest first, which is what
//! every bound on the stash assumes.

use super::StashedBlock;
use crate::tree::Tree;

/// More than a tree can have levels.
const LEVELS_MAX: usize = 32;

/// Blocks in the order in which an eviction places them: those that may go deepest first.
#[derive(Debug, Default)]
pub struct Queue {
    blocks: Vec<StashedBlock>,
    able: [usize; LEVELS_MAX], // by level: how many may go there or deeper
    next: usize,
}

impl Queue {
    /// Queues `blocks` for the path to `leaf`.
    pub fn fill(&mut self, tree: Tree, leaf: u32, blocks: &[StashedBlock]) {
        let depth = |held: &StashedBlock| usize::from(tree.meeting_level(leaf, held.leaf));
        self.next = 0;
        self.able = [0; LEVELS_MAX];
        blocks.iter().for_each(|held| self.able[depth(held)] += 1);
        for level in (0..LEVELS_MAX - 1).rev() {
            self.able[level] += self.able[level + 1];
        }
        let mut at = self.able;
        self.blocks.clear();
        self.blocks.extend_from_slice(blocks); // for its length; every element is overwritten
        for held in blocks {
            let deeper = &mut at[depth(held) + 1];
            self.blocks[*deeper] = *held;
            *deeper += 1;
        }
    }

    /// The next block, if it may go to `level`.
    pub fn head(&self, level: u8) -> Option<StashedBlock> {
        (self.next < self.able[usize::from(level)]).then(|| self.blocks[self.next])
    }

    /// The block that [`Queue::head`] gave has been placed.
    pub fn advance(&mut self) {
        self.next += 1;
    }

    /// What has not been placed.
    pub fn rest(&self) -> &[StashedBlock] {
        &self.blocks[self.next..]
    }
}
