//! With one partition nothing is left to chance but places: whatever is asked, the list of calls is
//! the same.

use fogbank_env::{Purpose, Randomness};
use rand_core::Rng;

use super::{Harness, Seen, write};
use crate::Access;
use crate::partition::layout::Layout;

const ACCESSES: u32 = 200;

/// Which block the n-th access asks for, and what for.
type Asked = fn(u32) -> (u32, Access);

/// The calls of a run under an adversary whose choices follow from how many calls there were.
fn calls(layout: Layout, seed: u64, asked: Asked) -> Vec<Seen> {
    let mut harness = Harness::new(layout, seed).with_budgets(40, 100);
    let mut adversary = Randomness::repeatable(seed).stream(Purpose::Faults);
    for access in 0..ACCESSES {
        let (block, access) = asked(access);
        harness.arrive(block % layout.blocks, access);
        if adversary.next_u32().is_multiple_of(2) {
            harness.cut();
        }
        for _ in 0..adversary.next_u32() % 6 {
            if harness.under_way() > 0 {
                let at = adversary.next_u32() as usize % harness.under_way();
                harness.reply(at);
            }
        }
        let answered = harness.answers.len() as u64;
        harness.trace.push(("answered", answered, vec![]));
    }
    harness.settle();
    harness.trace
}

#[test]
fn with_one_partition_the_calls_are_the_same_whatever_is_asked() {
    for seed in 0..40 {
        let layout = Layout {
            blocks: 256,
            partitions: 1,
            levels: [4, 5, 6][seed as usize % 3],
            // In half of them the top overflows.
            top_blocks: [300, 40][seed as usize / 3 % 2],
            kept_levels: (seed % 2) as u8,
            segment_cells: 100,
        };
        let all_differ = calls(layout, seed, |at| (at, Access::Read));
        let workloads: [(&str, Asked); 6] = [
            ("scan", |at| (at % 12, Access::Read)),
            ("one hot block", |_| (0, Access::Read)),
            ("all writes", |at| (at * 3, write(at.into()))),
            ("hot write", |at| (1, write(at.into()))),
            ("pairs", |at| (at / 2, if at % 2 == 0 { Access::Read } else { write(1) })),
            ("few", |at| (at * at % 5, Access::Read)),
        ];
        for (name, asked) in workloads {
            let seen = calls(layout, seed, asked);
            let differs = seen.iter().zip(&all_differ).position(|(one, other)| one != other);
            assert_eq!((differs, seen.len()), (None, all_differ.len()), "{name}, seed {seed}");
        }
    }
}
