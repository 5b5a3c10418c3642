//! Values, beside a plain map, while messages come in any order.

use super::*;

fn write(offset: u32, bytes: &[u8]) -> Access {
    Access::Write { offset, bytes: Bytes::copy_from_slice(bytes) }
}

/// Runs accesses beside a map, up to so many at once, and reads everything at the end.
pub fn beside_a_map(mut world: World, accesses: u32, at_once: u32) -> World {
    let (blocks, length) = (world.settings.layout.blocks, world.settings.shape.value_bytes);
    let mut map: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut due = VecDeque::new();
    let mut coins = world.choice;
    for k in 0..accesses + blocks {
        coins = coins.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (draw, is_last) = ((coins >> 33) as u32, k >= accesses);
        let block = match (is_last, draw % 3) {
            (true, _) => k - accesses,
            (_, 0) => draw / 3 % blocks,
            (_, 1) => draw / 3 % blocks.min(3), // asked for again and again
            (_, _) => k % blocks,
        };
        let value = map.entry(block).or_insert_with(|| vec![0; length]);
        if draw % 2 == 0 && !is_last {
            let offset = draw as usize / 7 % length;
            value[offset] = k as u8;
            world.arrive(block, write(offset as u32, &[k as u8])).unwrap();
        } else {
            world.arrive(block, Access::Read).unwrap();
        }
        due.push_back(value.clone());
        if (k + 1) % at_once == 0 {
            world.settle().unwrap();
        } else {
            (0..draw % 9).for_each(|_| _ = world.deliver().unwrap());
        }
    }
    world.settle().unwrap();
    assert_eq!(world.answers.len(), due.len());
    for ((_, value), due) in world.answers.iter().zip(due) {
        assert_eq!(value[..], due[..]);
    }
    is_consistent(&world.plane);
    world
}

/// A block is in one place, and no partition has more than its cells may hold.
pub fn is_consistent(plane: &MulticloudPlane) {
    use crate::position::Home;
    let mut places: HashMap<u32, u32> = HashMap::new();
    for (partition, pyramid) in plane.shape.all().zip(&plane.pyramids) {
        assert!(pyramid.blocks() <= u32::from(plane.shape.top_blocks));
        for block in &pyramid.stash {
            assert_eq!(plane.positions.get(*block), (partition, Home::Stash));
            *places.entry(*block).or_default() += 1;
        }
        for (level, held) in (0..).zip(&pyramid.levels) {
            for (cell, block) in held.iter().flat_map(|held| held.reals()) {
                let home = Home::Level { level, rank: cell as u16 };
                assert_eq!(plane.positions.get(block), (partition, home));
                *places.entry(block).or_default() += 1;
            }
        }
    }
    assert!(places.values().all(|places| *places == 1), "a block is in two places");
}

#[test]
fn values_hold_at_awkward_sizes_one_access_at_a_time() {
    for (blocks, partitions, levels, top, kept, value_bytes) in [
        (1, 1, 1, 1, 0, 1),
        (6, 1, 3, 6, 0, 16),
        (9, 1, 4, 12, 1, 5),
        (20, 2, 4, 20, 1, 33),
        (23, 3, 3, 20, 0, 8),
        (30, 4, 4, 30, 2, 8),
    ] {
        let settings = settings(blocks, value_bytes, layout(blocks, partitions, levels, top, kept));
        let world = beside_a_map(World::new(settings, 11), 900, 1);
        let jobs = world.entries().filter(|entry| matches!(entry, Entry::Commit(..))).count();
        assert!(jobs > 100, "{blocks} blocks: {jobs} jobs");
    }
}

#[test]
fn values_hold_with_many_accesses_under_way_in_any_order() {
    for seed in 0..6 {
        let settings = settings(40, 8, layout(40, 4, 4, 34, 1));
        beside_a_map(World::new(settings, seed), 1_500, 7 + seed as u32 * 8);
    }
}

/// The shape of a real one, small: the number of blocks decides.
#[test]
fn values_hold_in_a_usual_layout() {
    let shape = ImmediateShape { capacity: 600, value_bytes: 16 };
    let settings =
        MulticloudSettings { refresh_every: 2, ..MulticloudSettings::new(shape, 3).unwrap() };
    let world = beside_a_map(World::new(settings, 5), 6_000, 16);
    let shape = world.shape;
    let refreshed =
        |entry: &Entry| matches!(entry, Entry::Commit(_, g) if shape.refreshes(g.count()));
    assert!(world.entries().filter(refreshed).count() > 4);
}

/// As many partitions as there are numbers: new, imagined, saved and recovered.
#[test]
fn every_number_is_a_partition() {
    let settings = settings(70_000, 8, layout(70_000, 1 << 16, 4, 24, 0));
    let (keys, random) = (super::keys(4), Randomness::repeatable(4));
    let imagined = MulticloudPlane::imagined(settings.clone(), keys, &random).unwrap();
    assert_eq!(imagined.positions.get(65_535).0, 65_535);
    let mut world = World::new(settings, 4);
    let mut seen = 0;
    for number in 0..400u32 {
        let block = number % 200 * 349;
        let byte = write(0, &[number as u8 | 1]);
        world.arrive(block, if number < 200 { byte } else { Access::Read }).unwrap();
        world.settle().unwrap();
        let last = world.plane.pyramids.iter().rposition(|of| of.last.is_some());
        seen = seen.max(last.unwrap_or(0));
        if number % 100 == 50 {
            world.saves();
            world.recover();
            world.settle().unwrap();
        }
    }
    assert!(seen > 1 << 15, "{seen}");
    for (number, value) in world.answers.iter().filter(|(number, _)| *number >= 200) {
        assert_eq!(value[0], (*number - 200) as u8 | 1, "{number}");
    }
    assert_eq!(world.answers.len(), 400);
}

/// More partitions than the stash could hold: what is too much for a top waits.
#[test]
fn blocks_beyond_the_top_wait() {
    let settings = settings(40, 8, layout(40, 2, 3, 8, 0));
    let world = beside_a_map(World::new(settings, 3), 800, 1);
    let waiting: usize = world.plane.pyramids.iter().map(|p| p.stash.len()).sum();
    assert!(waiting >= 40 - 2 * 8, "{waiting}");
}
