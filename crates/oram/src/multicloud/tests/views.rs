//! What one cloud sees, held to the rules.

use fogbank_mix::message::{Carry, Commit, Fetch, Look, Place, Source, Sources};
use fogbank_mix::{Generation, Marks};

use super::*;

/// A volume of two partitions, asked for `accesses` blocks: some again and again, with so many
/// messages under way, if it `overlaps`, that lists are out while it is read. From time to time
/// nothing is under way, and then `looks` is called.
pub fn plays(
    canary: Canary,
    accesses: u32,
    overlaps: bool,
    mut looks: impl FnMut(&mut World),
) -> World {
    let mut world = World::with(played(), 5, canary);
    for access in 0..accesses {
        let (block, draw) = asked(access);
        let mut goes_on = world.arrive(block, Access::Read);
        let is_quiet = !overlaps || access.is_multiple_of(8);
        match is_quiet {
            true => goes_on = goes_on.and_then(|()| world.settle()),
            false => {
                for _ in 0..draw % 9 {
                    goes_on = goes_on.and_then(|()| world.deliver().map(|_| ()));
                }
            }
        }
        if goes_on.is_err() {
            break; // what was seen until then counts
        }
        if is_quiet {
            looks(&mut world);
        }
    }
    world
}

/// The block that an access asks for, and a number to draw more from.
pub fn asked(access: u32) -> (u32, u32) {
    let draw = access.wrapping_mul(2_654_435_761) >> 7;
    (if draw.is_multiple_of(3) { draw % 4 } else { draw % 40 }, draw)
}

/// Of two partitions.
pub fn played() -> MulticloudSettings {
    settings(40, 16, layout(40, 2, 4, 40, 1))
}

/// The rules for what a holder is named, over all that it has seen; the first that is broken. And
/// by how many standard deviations the cells of reads lie before the middle of those that were
/// left.
pub fn rules(world: &World) -> (Option<&'static str>, f64) {
    let (mut broken, mut excess, mut variance) = (None, 0.0, 0.0);
    let shape = world.shape;
    for seen in &world.seen {
        let mut lists: HashMap<u16, (Generation, Sources, Marks)> = HashMap::new();
        let (mut reads, mut read) = (HashSet::new(), HashSet::new());
        for message in seen {
            let Message::ToHolder(partition, message) = message else { continue };
            match message {
                ToHolder::Carry(Carry { generation, sources, list, .. })
                | ToHolder::Fetch(Fetch { generation, sources, list, .. }) => {
                    for (source, marks) in by_source(&shape, sources, list) {
                        if marks.count() != shape.quota(source.level) {
                            broken.get_or_insert("a list is its quota of every level");
                        }
                    }
                    lists.insert(*partition, (*generation, sources.clone(), list.clone()));
                }
                ToHolder::Commit(Commit { generation, .. }) => {
                    lists.retain(|of, list| (of, list.0) != (partition, *generation));
                }
                ToHolder::Look(Look { read: number, places, .. }) if reads.insert(*number) => {
                    for Place { level, generation, place } in places {
                        let cells = shape.size(*level, generation.count());
                        let list = lists.get(partition).and_then(|(_, sources, list)| {
                            let all = by_source(&shape, sources, list);
                            let is_it = |of: &Source| of.generation == *generation;
                            all.into_iter().find(|(of, _)| is_it(of)).map(|(_, marks)| marks)
                        });
                        let may = |cell: &u32| {
                            list.as_ref().is_none_or(|list| list.has(*cell))
                                && !read.contains(&(*partition, *generation, *cell))
                        };
                        if !may(place) {
                            broken.get_or_insert("while a list is out its unread cells are read");
                        }
                        let left = (0..cells).filter(may).count() as f64;
                        let before = (0..*place).filter(may).count() as f64;
                        excess += (before + 0.5) / left - 0.5;
                        variance += (1.0 - 1.0 / (left * left)) / 12.0;
                        read.insert((*partition, *generation, *place));
                    }
                }
                _ => {}
            }
        }
    }
    (broken, excess / f64::sqrt(variance))
}

fn by_source(shape: &Shape, sources: &Sources, list: &Marks) -> Vec<(Source, Marks)> {
    let mut first = 0;
    let of = |source: &Source| {
        let cells = shape.size(source.level, source.generation.count());
        let marks = MulticloudPlane::marks_of(list, first, cells);
        first += cells;
        (source.clone(), marks)
    };
    sources.0.iter().map(of).collect()
}

/// By which what is left to chance stays below, in standard deviations.
pub const CHANCE: f64 = 4.5;

#[test]
fn what_a_holder_is_named_keeps_the_rules() {
    for overlaps in [false, true] {
        let world = plays(Canary::default(), 3_000, overlaps, |_| {});
        let (broken, excess) = rules(&world);
        assert_eq!(broken, None);
        assert!(excess.abs() < CHANCE, "{excess}");
    }
}
