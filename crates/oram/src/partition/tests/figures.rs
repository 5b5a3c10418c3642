//! What an access costs, held against the table of the protocol.

use super::Harness;
use crate::Access;
use crate::partition::layout::Layout;

/// Cells read and written an access, journal not counted, over one rebuild of every top, when every
/// job is done at once; and the most blocks held.
fn cost(blocks: u32, kept_levels: u8) -> (f64, f64) {
    let layout = Layout::new(blocks, kept_levels).unwrap();
    let mut harness = Harness::new(layout, 1);
    let cycle = layout.cycle() * u64::from(layout.partitions) * 4 / 5;
    let mut accesses = (0..).map(|at: u64| (at * 7919 % u64::from(blocks)) as u32);
    for _ in 0..2 {
        (harness.cells_read, harness.cells_written) = (0, 0);
        for block in accesses.by_ref().take(cycle as usize) {
            harness.arrive(block, Access::Read);
            harness.settle();
            harness.answers.clear();
            harness.trace.clear();
        }
    }
    let accesses = cycle as f64;
    (harness.cells_read as f64 / accesses, harness.cells_written as f64 / accesses)
}

/// Section 2 of the protocol. What is written has one part of a record an access beside these.
fn check(blocks: u32, read: f64, written: f64) {
    let (found_read, found_written) = cost(blocks, 3);
    let is_near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.05;
    assert!(is_near(found_read, read), "{found_read} cells read an access, not {read}");
    let found = found_written + 1.0;
    assert!(is_near(found, written), "{found} cells written an access, not {written}");
}

#[test]
fn a_hundred_thousand_blocks_cost_what_the_table_says() {
    check(100_000, 9.2, 11.2);
}

#[test]
fn a_million_blocks_cost_what_the_table_says() {
    check(1_000_000, 10.5, 12.6);
}
