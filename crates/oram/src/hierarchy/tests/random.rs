//! Long runs in orders drawn by a seed, beside a simulator that is given public data only.

use std::collections::BTreeSet;

use fogbank_env::{Purpose, Randomness, Stream};
use rand_core::Rng;

use super::*;

/// Draws of a test.
pub struct Dice(Stream);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Randomness::repeatable(seed).stream(Purpose::Workload))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }
}

/// Blocks of epochs of 8 places; and so few that entries come too late.
pub const USUAL: (u32, u32, u32) = (40, 8, 4);
pub const HASTY: (u32, u32, u32) = (3, 1, 1);

/// Three clients, `queries` each. With `one`, all ask for one address.
pub fn run(
    (blocks, epoch, draw): (u32, u32, u32),
    seed: u64,
    queries: usize,
    one: bool,
    canary: Canary,
) -> World {
    let mut dice = Dice::new(seed);
    let schedule = Schedule::new(blocks, epoch, 2, draw, true).unwrap();
    let mut query = || {
        let address = if one { 2 } else { dice.below(blocks as usize) as u32 };
        match dice.below(5) {
            0 => None,
            1 | 2 => write(address, dice.below(256) as u8),
            3 => Some((
                address,
                Access::Swap {
                    offset: 0,
                    expected: vec![1].into(),
                    bytes: vec![dice.below(2) as u8].into(),
                },
            )),
            _ => read(address),
        }
    };
    let programs = (0..3).map(|_| (0..queries).map(|_| query()).collect()).collect();
    let mut world = World::new(schedule, programs, canary);
    world.takeovers = queries as u32 / 2;
    let mut dice = Dice::new(seed + 1_000);
    while world.answered.iter().any(|answered| *answered < queries) {
        let steps = world.steps();
        world.step(steps[dice.below(steps.len())]);
    }
    world
}

/// A simulator that knows the schedule and how many queries there were: of every table of an epoch
/// a uniform slot that was not touched before.
fn simulate(schedule: &Schedule, places: u64, seed: u64) -> BTreeMap<(Table, u32), u64> {
    let (mut dice, mut touched) = (Dice::new(seed), BTreeMap::new());
    for place in 0..places {
        for table in schedule.tables(schedule.epoch_of(place)) {
            let slots = schedule.slots(table) as usize;
            let mut slot = dice.below(slots) as u32;
            while touched.contains_key(&(table, slot)) {
                slot = dice.below(slots) as u32;
            }
            touched.insert((table, slot), place);
        }
    }
    touched
}

/// Which tables each place has touched, and how often: what is left of a trace without slots.
fn shape(touched: &BTreeMap<(Table, u32), u64>) -> BTreeSet<(u64, Table)> {
    touched.iter().map(|((table, _), place)| (*place, *table)).collect()
}

/// By how many standard deviations touches lie in the front half of tables too often or too
/// rarely: under a uniform law about one.
fn front(touched: &BTreeMap<(Table, u32), u64>, schedule: &Schedule) -> f64 {
    let in_front = |((table, slot), _): &(&(Table, u32), &u64)| 2 * slot < schedule.slots(*table);
    let (count, found) = (touched.len() as f64, touched.iter().filter(in_front).count() as f64);
    (found - count / 2.0).abs() / (count / 4.0).sqrt()
}

#[test]
fn long_runs_are_linearizable_and_look_like_the_simulator() {
    for seed in 0..6 {
        let world = run(USUAL, seed, 60, seed % 2 == 0, Canary::default());
        let places: BTreeSet<u64> = world.server.touched.values().copied().collect();
        let simulated = simulate(&world.schedule, world.server.log.len() as u64, seed);
        let expected = shape(&simulated).into_iter().filter(|(place, _)| places.contains(place));
        assert_eq!(shape(&world.server.touched), expected.collect(), "seed {seed}");
        assert!(places.len() + 3 >= world.server.log.len(), "nearly every place is touched");
        assert!(front(&simulated, &world.schedule) < 5.0);
        assert!(front(&world.server.touched, &world.schedule) < 5.0, "seed {seed}");
    }
}

/// Voids keep their place and have no effect; the plain map leaves them out.
#[test]
fn an_entry_that_comes_too_late_has_no_effect() {
    let world = run(HASTY, 1, 60, false, Canary::default());
    let voids = (0..world.server.log.len() as u64).filter(|place| world.is_void(*place)).count();
    assert!(voids > 0, "{voids} of {}", world.server.log.len());
}
