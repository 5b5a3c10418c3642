//! What one cloud sees, held to the rules, and to a game: from the whole view of one cloud guess the
//! level at which the wanted block lies.
//!
//! A guesser knows what is public, and learns from half of the reads how one thing more goes with the
//! answer: the order in which levels are named, where in them the cells lie, the index. Of the other
//! half it says with which probability each answer is right; its score is the logarithm of what it gave
//! to the truth. At chance it scores no better than from what is public alone.

use std::collections::BTreeMap;

use fogbank_mix::message::{Carry, Commit, Fetch, Look, Place, Source, Sources, Want};
use fogbank_mix::{Generation, Marks};

use super::*;
use crate::position::Home;

/// A volume of two partitions, asked for `accesses` blocks: some again and again, with so many
/// messages under way that lists are out while it is read. And the truth: of each read, by its
/// number, the level of the block that it brings.
pub fn plays(canary: Canary, accesses: u32, overlaps: bool) -> (World, Vec<Option<u8>>) {
    let mut world = World::with(settings(40, 16, layout(40, 2, 4, 40, 1)), 5, canary);
    let mut truth = Vec::new();
    for access in 0..accesses {
        let draw = access.wrapping_mul(2_654_435_761) >> 7;
        let block = if draw.is_multiple_of(3) { draw % 4 } else { draw % 40 };
        if !overlaps {
            truth.push(match world.plane.positions.get(block).1 {
                Home::Level { level, .. } => Some(level),
                _ => None,
            });
        }
        let mut goes_on = world.arrive(block, Access::Read);
        match overlaps && !access.is_multiple_of(8) {
            true => {
                for _ in 0..draw % 9 {
                    goes_on = goes_on.and_then(|()| world.deliver().map(|_| ()));
                }
            }
            false => goes_on = goes_on.and_then(|()| world.settle()),
        }
        if goes_on.is_err() {
            break; // what was seen until then counts
        }
    }
    (world, truth)
}

/// The rules for what a holder is named, over all that it has seen; the first that is broken. And by how
/// many standard deviations the cells of reads lie before the middle of those that were left.
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

/// What a guesser looks at, by the number of the read: the public facts, and the thing.
type Seen = BTreeMap<u64, (Vec<u64>, u64)>;

/// The reads that one role has seen, each with one thing of it.
fn looks(world: &World, thing: impl Fn(&Look) -> u64) -> Seen {
    let mut seen = Seen::new();
    for message in world.seen.iter().flatten() {
        if let Message::ToHolder(_, ToHolder::Look(look)) = message {
            let mut levels: Vec<u64> = look.places.iter().map(|at| at.level.into()).collect();
            levels.sort_unstable();
            seen.insert(look.read, (levels, thing(look)));
        }
    }
    seen
}

fn wants(world: &World, thing: impl Fn(&Want) -> u64) -> Seen {
    let mut seen = Seen::new();
    for message in world.seen.iter().flatten() {
        if let Message::ToShuffler(_, ToShuffler::Want(want)) = message {
            // How many there are says which levels, in a partition whose counters are public.
            seen.insert(want.read, (vec![want.cells.into()], thing(want)));
        }
    }
    seen
}

/// By how many standard deviations a guesser scores more with the thing than without.
fn advantage(seen: &Seen, truth: &[Option<u8>]) -> f64 {
    let answer = |read: &u64| truth[*read as usize];
    let (learnt, guessed): (Vec<_>, Vec<_>) = seen.iter().partition(|(read, _)| **read % 2 == 0);
    type Counts<K> = HashMap<K, HashMap<Option<u8>, f64>>;
    let (mut with, mut without) = (Counts::new(), Counts::new());
    for (read, (public, thing)) in learnt {
        *with.entry((public, thing)).or_default().entry(answer(read)).or_default() += 1.0;
        *without.entry(public).or_default().entry(answer(read)).or_default() += 1.0;
    }
    // Of so many answers, each seen once more than it was.
    let score = |counts: Option<&HashMap<Option<u8>, f64>>, answer| {
        let all: f64 = counts.map_or(0.0, |of| of.values().sum());
        let hits = counts.and_then(|of| of.get(&answer)).copied().unwrap_or(0.0);
        f64::ln((hits + 1.0) / (all + 5.0))
    };
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for (read, (public, thing)) in guessed {
        let answer = answer(read);
        let gain = score(with.get(&(public, thing)), answer) - score(without.get(public), answer);
        (sum, squares, count) = (sum + gain, squares + gain * gain, count + 1.0);
    }
    let variance: f64 = squares - sum * sum / count;
    if sum == 0.0 { 0.0 } else { sum / variance.sqrt() }
}

/// The best of all guessers, of either cloud.
pub fn best_guess(canary: Canary) -> f64 {
    let (world, truth) = plays(canary, 8_000, false);
    let shape = world.shape;
    let order = |look: &Look| look.places.iter().fold(0, |all, at| all * 16 + u64::from(at.level));
    let first = |look: &Look| look.places.first().map_or(99, |at| at.level.into());
    let half = |at: &Place| u64::from(2 * at.place >= shape.size(at.level, at.generation.count()));
    let halves = |look: &Look| {
        let of = |all, at: &Place| all + (half(at) << at.level);
        look.places.iter().fold(0, of)
    };
    let guessers = [
        advantage(&looks(&world, order), &truth),
        advantage(&looks(&world, first), &truth),
        advantage(&looks(&world, halves), &truth),
        advantage(&wants(&world, |want| want.index.into()), &truth),
        advantage(&wants(&world, |want| (want.index + 1 == want.cells).into()), &truth),
    ];
    guessers.into_iter().fold(f64::MIN, f64::max)
}

/// By which what is at chance stays below, and what is not is above.
pub const CHANCE: f64 = 4.5;

#[test]
fn what_a_holder_is_named_keeps_the_rules() {
    for overlaps in [false, true] {
        let (world, _) = plays(Canary::default(), 3_000, overlaps);
        let (broken, excess) = rules(&world);
        assert_eq!(broken, None);
        assert!(excess.abs() < CHANCE, "{excess}");
    }
}

#[test]
fn from_one_view_nobody_guesses_the_level() {
    let best = best_guess(Canary::default());
    assert!(best < CHANCE, "{best}");
}
