//! What messages carry, counted, beside what is reckoned of it.

use super::*;
use crate::immediate::Traffic;

/// A checkpoint is as long as is reckoned, without values: positions, marks and lists.
#[test]
fn a_checkpoint_is_as_long_as_is_reckoned() {
    let blocks = 4_000;
    let mut settings = settings(blocks, 16, Layout::new(blocks, 1).unwrap());
    settings.refresh_every = 8;
    let values = settings.saved_blocks_max() as f64 * (4 + 16) as f64;
    let reckoned = settings.checkpoint_bytes().unwrap() as f64 - values;
    let mut world = World::new(settings, 5);
    for number in 0..40_000u32 {
        let write = Access::Write { offset: 0, bytes: Bytes::from_static(&[1; 16]) };
        world.arrive(number.wrapping_mul(2_654_435_761) % blocks, write).unwrap();
        world.settle().unwrap();
    }
    let flat = 1..=4;
    let sections = world.plane.save(1).unwrap().map(|section| section.unwrap());
    let saved: usize = sections.filter(|of| flat.contains(&of.tag)).map(|of| of.padded_len).sum();
    let part = saved as f64 / reckoned;
    assert!((0.7..1.1).contains(&part), "{saved} of {reckoned}");
}

/// Cells in the messages between the clouds, and bytes of the client's, for each access of a volume
/// in which every block was written, over whole cycles of refreshes.
#[test]
fn messages_carry_what_is_reckoned() {
    let blocks = 1_000;
    let mut settings = settings(blocks, 496, Layout::new(blocks, 1).unwrap());
    (settings.refresh_every, settings.checkpoint_every) = (2, u64::MAX);
    let reckoned = (settings.traffic().unwrap(), settings.cells_between().unwrap());
    let cell_bytes = settings.public().unwrap().cell_bytes() as f64;
    let mut world = World::new(settings, 9);
    let value = Bytes::from(vec![1; 496]);
    let access = |world: &mut World, number: u32| {
        let write = Access::Write { offset: 0, bytes: value.clone() };
        world.arrive(number.wrapping_mul(2_654_435_761) % blocks, write).unwrap();
        world.settle().unwrap();
    };
    for number in 0..12_000 {
        access(&mut world, number);
    }
    let before = world.bytes;
    let counted = 12_000;
    for number in 0..counted {
        access(&mut world, number * 7 + 1);
    }
    let [down, up, between] =
        [0, 1, 2].map(|link| (world.bytes[link] - before[link]) as f64 / f64::from(counted));
    let (Traffic { up_bytes, down_bytes }, cells) = reckoned;
    for (what, counted, reckoned) in
        [("down", down, down_bytes), ("up", up, up_bytes), ("between", between, cells * cell_bytes)]
    {
        assert!((counted / reckoned - 1.0).abs() < 0.06, "{what}: {counted}, not {reckoned}");
    }
}
