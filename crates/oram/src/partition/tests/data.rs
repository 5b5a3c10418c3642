//! Every read sees what was written before it, whatever is delayed.

use std::collections::HashMap;

use fogbank_env::{Purpose, Randomness, Stream};
use rand_core::Rng;

use super::{Harness, write};
use crate::Access;
use crate::partition::layout::Layout;

/// Accesses as a test draws them, and what they have to be answered with.
struct Client {
    coins: Stream,
    blocks: u32,
    /// So many of the blocks are asked for.
    hot: u32,
    plain: HashMap<u32, u64>,
    wanted: Vec<u64>,
}

impl Client {
    fn new(blocks: u32, hot: u32, seed: u64) -> Self {
        let coins = Randomness::repeatable(seed).stream(Purpose::Workload);
        Self { coins, blocks, hot, plain: HashMap::new(), wanted: Vec::new() }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.coins.next_u32() % bound
    }

    fn next(&mut self) -> (u32, Access) {
        let (bound, writes) = (self.hot.min(self.blocks), self.below(2) == 0);
        let block = self.below(bound);
        let access = match writes {
            true => {
                let value = self.coins.next_u64();
                self.plain.insert(block, value);
                write(value)
            }
            false => Access::Read,
        };
        self.wanted.push(self.plain.get(&block).copied().unwrap_or(0));
        (block, access)
    }

    fn check(&self, harness: &Harness) {
        assert_eq!(harness.answers.len(), self.wanted.len(), "an access never ends");
        for ((number, value), (at, wanted)) in harness.answers.iter().zip((0..).zip(&self.wanted)) {
            let value = u64::from_le_bytes(value[..].try_into().unwrap());
            assert_eq!((*number, value), (at, *wanted));
        }
    }
}

/// Jobs and all are done before the next access.
#[test]
fn against_a_map_at_awkward_sizes() {
    for (blocks, kept_levels) in [(1, 0), (2, 3), (3, 0), (5, 1), (64, 0), (65, 2), (1_000, 3)] {
        let layout = Layout::new(blocks, kept_levels).unwrap();
        let mut harness = Harness::new(layout, u64::from(blocks));
        let mut client = Client::new(blocks, blocks, 1);
        for _ in 0..4 * layout.cycle() * u64::from(layout.partitions).min(8) {
            let (block, access) = client.next();
            harness.arrive(block, access);
            harness.settle();
        }
        client.check(&harness);
        assert_eq!(
            (harness.plane.open_orders == 0 || kept_levels > 0, harness.plane.open_cells),
            (true, 0)
        );
    }
}

/// Small partitions, whose tops take fewer blocks than there are: the rest waits in the stash.
fn crowded(partitions: u32, kept_levels: u8) -> Layout {
    Layout {
        blocks: 24 * partitions,
        partitions,
        levels: 5,
        top_blocks: 20,
        kept_levels,
        segment_cells: 7,
    }
}

/// The adversary answers in any order and lets many accesses come between.
#[test]
fn against_a_map_while_replies_are_late() {
    for seed in 0..120 {
        let (partitions, kept_levels) = ([1, 2, 4, 8][seed as usize % 4], (seed % 3) as u8);
        let layout = crowded(partitions, kept_levels);
        let (orders_max, cells_max) = [(u64::MAX, u64::MAX), (12, 60)][seed as usize % 2];
        let mut harness = Harness::new(layout, seed).with_budgets(orders_max, cells_max);
        let hot = [3, 10, u32::MAX][seed as usize / 4 % 3];
        let mut client = Client::new(layout.blocks, hot, seed);
        for _ in 0..1_200 {
            match client.below(4) {
                0 => {
                    let (block, access) = client.next();
                    harness.arrive(block, access);
                }
                1 => _ = harness.cut(),
                _ if harness.under_way() > 0 => {
                    let at = client.below(harness.under_way() as u32) as usize;
                    harness.reply(at);
                }
                _ => {}
            }
        }
        harness.settle();
        client.check(&harness);
    }
}
