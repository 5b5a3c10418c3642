//! What a recovery relies on, and what a plan promises.

use super::{Call, Harness};
use crate::immediate::plane::Plane;
use crate::partition::layout::Layout;
use crate::position::Home;
use crate::{Access, Error};

/// One partition all of whose levels are the cloud's.
fn one_partition() -> Layout {
    Layout {
        blocks: 64,
        partitions: 1,
        levels: 5,
        top_blocks: 70,
        kept_levels: 0,
        segment_cells: 7,
    }
}

/// Serves accesses to all blocks in turn, at once, until `is_there`.
fn serve_until(harness: &mut Harness, is_there: impl Fn(&Harness) -> bool) {
    let blocks = harness.layout.blocks;
    for block in (0..blocks).cycle().take(4 * blocks as usize) {
        if is_there(harness) {
            return;
        }
        harness.arrive(block, Access::Read);
        harness.settle();
    }
    panic!("it never comes to that");
}

/// A job that is open at a cut has written its levels, and what it read is there until a checkpoint
/// that knows them.
#[test]
fn what_open_jobs_read_and_write_is_within_the_plan() {
    let layout = one_partition();
    let mut harness = Harness::new(layout, 1);
    let stored = |harness: &Harness| harness.plane.pyramids[0].levels.iter().flatten().count();
    // Every level is filled and written: the next order has all of them rewritten.
    let is_full = |harness: &Harness| {
        let cells: usize = layout.stored_levels().map(|l| usize::from(layout.cells(l))).sum();
        stored(harness) == 5 && harness.stored_cells() == cells
    };
    serve_until(&mut harness, is_full);
    // The job reads all and writes the top; the cut comes before its commit.
    harness.arrive(0, Access::Read);
    while harness.plane.written.is_empty() {
        if harness.under_way() == 0 {
            assert!(harness.cut());
        }
        harness.reply(0);
    }
    harness.plane.cut().unwrap();
    let settings = crate::partition::PartitionSettings { checkpoint_every: 1, ..harness.settings };
    let levels: usize = layout.stored_levels().map(|l| usize::from(layout.cells(l))).sum();
    let top = usize::from(layout.cells(layout.top()));
    assert_eq!(harness.cells.values().map(Vec::len).sum::<usize>(), levels + top);
    let bytes = ((levels + top) * settings.cell_bytes()) as u64 + 2 * settings.checkpoint_bytes();
    assert!(bytes <= settings.storage_bytes_max());
}

/// Blocks whose values a checkpoint holds when a cloud has read for all jobs and writes for none,
/// until no more is cut, or so many accesses have come.
fn held_by_a_cut(orders_max: u64, accesses: u32) -> (usize, usize) {
    let layout = Layout::new(4_096, 2).unwrap();
    let mut harness = Harness::new(layout, 4).with_budgets(orders_max, u64::MAX);
    let is_held = |call: &Call| matches!(call, Call::Write(_));
    for access in 0..accesses {
        harness.arrive(access.wrapping_mul(7_919) % layout.blocks, Access::Read);
        harness.cut();
        while let Some(at) = harness.calls.iter().position(|call| !is_held(call)) {
            harness.reply(at);
        }
    }
    harness.plane.cut().unwrap();
    let held = harness.plane.cutting.as_ref().unwrap().values();
    (held, harness.settings.saved_blocks_max())
}

/// A checkpoint has room for all values that a cloud can make it hold, and for not much more. The
/// canary has no budget of orders.
#[test]
fn a_checkpoint_has_room_for_what_held_jobs_leave_outside() {
    let orders_max = Harness::new(Layout::new(4_096, 2).unwrap(), 4).settings.orders_max();
    let (held, room) = held_by_a_cut(orders_max, 4 * orders_max as u32);
    assert!(held <= room && held * 10 > room * 7, "{held} of {room}");
    let (held, room) = held_by_a_cut(u64::MAX, 4 * orders_max as u32);
    assert!(held > room, "{held} of {room}");
}

/// A block that a record lists, and that is elsewhere or listed twice: there would be two of it.
#[test]
fn a_job_takes_nothing_that_is_in_no_stash() {
    let is_stashed = |harness: &Harness| harness.plane.pyramids[0].stash.len() > 1;
    for (way, is_fine) in [(0, true), (1, false), (2, false)] {
        let mut harness = Harness::new(Layout { kept_levels: 2, ..one_partition() }, 2);
        serve_until(&mut harness, is_stashed);
        let plane = &mut harness.plane;
        let (until, stash) = (plane.pyramids[0].done + 4, &plane.pyramids[0].stash);
        let elsewhere = (0..64).find(|block| plane.home(*block).1 != Some(Home::Stash)).unwrap();
        let listed = [[stash[0], stash[1]], [stash[0], elsewhere], [stash[0]; 2]][way];
        let planned = plane.plan_job(0, until, listed.to_vec());
        match is_fine {
            true => assert_eq!(planned.unwrap().from_stash, listed),
            false => assert!(matches!(planned, Err(Error::Bug(_))), "{way}: {planned:?}"),
        }
    }
}

/// The first value that comes of a block is taken for the newest: levels are read from the lowest,
/// so none may be older than one above it.
#[test]
fn a_level_is_no_older_than_those_above_it() {
    let mut harness = Harness::new(one_partition(), 3);
    for block in (0..64).cycle().take(300) {
        harness.arrive(block, Access::Read);
        harness.settle();
        harness.plane.lacking(0).unwrap();
    }
    serve_until(&mut harness, |h| h.plane.pyramids[0].levels.iter().flatten().count() > 1);
    let mut held: Vec<_> = harness.plane.pyramids[0].levels.iter_mut().flatten().collect();
    let top = held.len() - 1;
    held[top].version = held[0].version + 1;
    let refused = harness.plane.lacking(0);
    assert!(matches!(refused, Err(Error::Bug(_))), "{refused:?}");
}
