//! A volume that nobody has filled, beside two clouds that have what is imagined: no check tells
//! it from one that was filled, and one changed bit of it is a lie.

use fogbank_mix::{Elsewhere, Generation, Shelved};
use fogbank_store::{ChunkWrite, Store};

use super::data::{beside_a_map, is_consistent};
use super::*;
use crate::Error;
use crate::multicloud::Imagined;
use crate::position::Home;

/// What a test may change of what clouds have, by partition, level and what it is.
type Change<'a> = &'a dyn Fn(u16, u8, Part, &mut Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Cells,
    Records,
    Kept,
}

/// What shufflers keep, as a test has changed it.
struct Kept(HashMap<(u16, Generation), Cells>);

impl Elsewhere for Kept {
    fn level(&self, partition: u16, _: u8, generation: Generation) -> Option<Cells> {
        self.0.get(&(partition, generation)).cloned()
    }
}

/// An imagined volume. Its shufflers have lost what they kept, or all of it is there.
fn world(settings: MulticloudSettings, seed: u64, is_kept: bool, change: Change<'_>) -> World {
    let mut world = World::new(settings.clone(), seed);
    let (shape, keys, random) = (world.shape, keys(seed), Randomness::repeatable(seed));
    let imagined = Imagined::new(&settings, keys.clone()).unwrap();
    let mut elsewhere = HashMap::new();
    for partition in shape.all() {
        let store = &world.stores[usize::from(partition % 2)];
        for (level, generation) in imagined.levels(partition) {
            let cells = imagined.cells(partition, generation).unwrap();
            // One by one they are the same.
            let records = imagined.records(partition, generation).unwrap();
            for (place, cell) in (0..).zip(cells.iter()) {
                let one = imagined.cell(partition, generation, place).unwrap();
                assert_eq!((&one.0[..], one.1), (cell, records[place as usize]));
            }
            assert!(imagined.cell(partition, generation, cells.len() as u32).is_err());
            let put = |part: Part, mut bytes: Vec<u8>| {
                change(partition, level, part, &mut bytes);
                let of_records = part == Part::Records;
                let chunk = Shelved { partition, generation, of_records }.name(&shape);
                now(store.write_chunks(vec![ChunkWrite { chunk, data: bytes.into() }])).unwrap();
            };
            put(Part::Cells, cells.into_bytes());
            put(Part::Records, records.concat());
            let mut kept = imagined.level(partition, level, generation).unwrap().into_bytes();
            change(partition, level, Part::Kept, &mut kept);
            let kept = Cells::of(kept, shape.cell_bytes()).unwrap();
            elsewhere.insert((partition, generation), kept);
        }
    }
    let elsewhere: Option<Arc<dyn Elsewhere>> = is_kept.then(|| Arc::new(Kept(elsewhere)) as _);
    world.plane = MulticloudPlane::imagined(settings, keys, &random).unwrap();
    for cloud in [0, 1] {
        let (at, point) = (usize::from(cloud), world.plane.point(cloud));
        world.shufflers[at] = Shuffler::new(shape, &point).beside(elsewhere.clone());
        world.holders[at] = holder(shape, &point, &world.stores[at]);
    }
    // The journal of what never was.
    for (partition, pyramid) in (0..).zip(&world.plane.pyramids) {
        world.written.push(Entry::Commit(partition, pyramid.last.unwrap()));
    }
    let effects = world.plane.repeat().unwrap();
    world.do_all(effects);
    world.settle().unwrap();
    is_consistent(&world.plane);
    world
}

fn small() -> MulticloudSettings {
    settings(40, 8, layout(40, 4, 4, 34, 1))
}

/// One of which jobs below the top read levels that are imagined.
fn larger() -> MulticloudSettings {
    settings(90, 16, layout(90, 8, 4, 30, 0))
}

#[test]
fn every_block_holds_zeros_before_any_was_written() {
    for is_kept in [false, true] {
        let mut world = world(small(), 3, is_kept, &|_, _, _, _| {});
        let in_cells = |block| matches!(world.plane.positions.get(block).1, Home::Level { .. });
        assert!((0..40).all(in_cells));
        for block in 0..40 {
            world.arrive(block, Access::Read).unwrap();
            world.settle().unwrap();
        }
        assert!(world.answers.len() == 40 && world.answers.iter().all(|a| a.1[..] == [0; 8]));
    }
}

/// Through jobs of every level, rebuilds of all tops, and refreshes.
#[test]
fn values_hold_beside_a_map_from_an_imagined_volume_on() {
    for (number, is_kept) in [(0, true), (1, false), (2, true)] {
        let settings = if number == 0 { small() } else { larger() };
        let world = world(settings, number, is_kept, &|_, _, _, _| {});
        let starts: Vec<u64> = world.plane.pyramids.iter().map(|p| p.given % 8).collect();
        assert!(starts.iter().any(|start| *start != starts[0]), "they are spread");
        let shape = world.shape;
        let world = beside_a_map(world, 1_200, 8);
        let done = |what: &dyn Fn(u64) -> bool| {
            world.entries().filter(|e| matches!(e, Entry::Commit(_, g) if what(g.count()))).count()
        };
        for level in shape.stored_levels() {
            assert!(done(&|count| shape.written(count) == level) > 8, "level {level}");
        }
        assert!(done(&|count| shape.refreshes(count)) > 4);
        // What a shuffler has not kept is handed over.
        let mut seen = world.seen.iter().flatten();
        let is_handed = seen.any(|at| matches!(at, Message::Across(_, Across::Handed(_))));
        assert_eq!(is_handed, !is_kept);
    }
}

/// The canary: whatever part of what is imagined is changed in one bit, a check fails.
#[test]
fn one_bit_of_what_is_imagined_is_a_lie() {
    for part in [Part::Cells, Part::Records, Part::Kept] {
        // Of every cell: some are never read.
        let changes = |_: u16, _: u8, of: Part, bytes: &mut Vec<u8>| {
            let each = if of == Part::Records { 16 } else { 16 + 16 };
            if of == part {
                bytes.chunks_exact_mut(each).for_each(|one| one[3] ^= 1);
            }
        };
        let mut world = world(larger(), 3, true, &changes);
        let told = (0..400u32).find_map(|access| {
            let asked = world.arrive(access * 7 % 90, Access::Read);
            asked.and_then(|()| world.settle()).err()
        });
        let told = told.unwrap_or_else(|| panic!("{part:?} was not seen"));
        assert!(matches!(told, Error::CloudLied(_)), "{part:?}: {told:?}");
    }
}
