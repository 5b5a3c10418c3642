//! All orders of the steps of two clients and a small table, beside a second world in which other
//! secrets are asked for: both must allow the same steps and show the server the same.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::*;

/// What a run over all orders came to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Explored {
    pub states: usize,
    pub steps: usize,
    /// Ends, all queries of living clients answered.
    pub ends: usize,
    /// Entries that came so late that they were void.
    pub voids: usize,
}

/// Places of an epoch, epochs of the past, slots that a builder has before it at once.
pub type At = (u32, u32, u32);

/// Tables are built by one piece.
pub use super::super::schedule::WHOLE;

/// Where two clients begin: the past that a third one has filled, before it left for good.
pub fn begin(
    (epoch, past, piece): At,
    secrets: u8,
    programs: [Vec<Query>; 2],
    canary: Canary,
) -> World {
    let schedule = Schedule::new(2 * epoch, epoch, 2, epoch, true).unwrap();
    let schedule = schedule.in_pieces(piece).unwrap();
    let asks = |n: u32| match (n + u32::from(secrets)) % 3 {
        0 => write(n * (1 + u32::from(secrets)) % (2 * epoch), n as u8),
        1 => None,
        _ => read(n % (2 * epoch)),
    };
    let [first, second] = programs;
    let filled = (0..past * epoch).map(asks).collect();
    let mut world = World::new(schedule, vec![vec![], vec![], filled], canary);
    world.settle();
    // What is left of the past is what anybody can do.
    while let Some(step) = world.steps().into_iter().rev().find(|step| !is_of_client(step)) {
        world.step(step);
    }
    world.is_dead[2] = true;
    world.pending[2].clear();
    (0..2).for_each(|c| world.sync(c));
    world.programs[0] = first;
    world.programs[1] = second;
    world
}

fn is_of_client(step: &Step) -> bool {
    !matches!(step, Step::Build(..) | Step::Close)
}

/// What tells two states apart: all else is a function of it.
fn name(world: &World) -> String {
    let clients = world.clients.iter().zip(&world.pending).map(|(client, pending)| {
        let follower = client.follower();
        let known: Vec<u64> =
            world.server.results.keys().copied().filter(|p| follower.has_result(*p)).collect();
        let replayed = follower.replay.length();
        (follower.length(), client.newest_superblock(), replayed, known, format!("{pending:?}"))
    });
    let log: Vec<_> = world.server.log.iter().map(|(e, _)| (e.session, e.turn, e.seen)).collect();
    let server = &world.server;
    format!(
        "{log:?} {:?} {:?} {} {:?} {:?} {:?} {:?} {} {} {:?}",
        server.results.keys(),
        (server.tables.keys(), server.pieces.keys()),
        server.superblock,
        server.touched,
        world.asked,
        world.answered,
        world.is_dead,
        world.takeovers,
        world.crashes,
        clients.collect::<Vec<_>>()
    )
}

/// All orders, in both worlds at once. Panics with what a rule was broken by.
pub fn explore(worlds: [World; 2]) -> Explored {
    let mut known: HashSet<String, BuildHasherDefault<DefaultHasher>> = HashSet::default();
    let (mut todo, mut explored) = (vec![worlds], Explored::default());
    while let Some([real, other]) = todo.pop() {
        if !known.insert(name(&real) + &name(&other)) {
            continue;
        }
        explored.states += 1;
        let steps = real.steps();
        assert_eq!(steps, other.steps(), "what can happen depends on secrets");
        if steps.iter().all(|step| matches!(step, Step::Crash(_))) {
            let is_done = |c: usize| real.is_dead[c] || real.answered[c] == real.programs[c].len();
            assert!((0..2).all(is_done), "a living client waits for ever");
            explored.ends += 1;
            let voids = (0..real.server.log.len() as u64).filter(|p| real.is_void(*p));
            explored.voids += voids.count();
        }
        for step in steps {
            let (mut next, mut beside) = (real.clone(), other.clone());
            let (seen, too) = (next.step(step), beside.step(step));
            assert_eq!(seen, too, "what the server sees depends on secrets");
            explored.steps += 1;
            todo.push([next, beside]);
        }
    }
    explored
}

fn both(at: At, of: [usize; 2], canary: fn() -> Canary) -> [World; 2] {
    let one = [vec![write(0, 7), read(1), write(1, 9)], vec![read(0), write(0, 8), read(0)]];
    let two = [vec![read(1), None, read(0)], vec![read(0), read(1), write(1, 3)]];
    let cut = |programs: [Vec<Query>; 2]| {
        let mut of = of.into_iter();
        programs.map(|program| program[..of.next().unwrap_or(0)].to_vec())
    };
    [begin(at, 0, cut(one), canary()), begin(at, 1, cut(two), canary())]
}

/// The worlds of a case: queries of each client, takeovers of the living, crashes.
pub fn case(
    at: At,
    of: [usize; 2],
    takeovers: u32,
    crashes: u32,
    canary: fn() -> Canary,
) -> [World; 2] {
    both(at, of, canary).map(|world| World { takeovers, crashes, ..world })
}

/// Two clients append, touch, publish, hear of each other late, build and close in every order;
/// one is taken over while it lives and wakes up at any moment, or stops for ever.
fn every_order(at: At, of: [usize; 2], takeovers: u32, crashes: u32) {
    let explored = explore(case(at, of, takeovers, crashes, Canary::default));
    println!("{at:?} {of:?} {takeovers} {crashes}: {explored:?}");
    assert!(explored.ends > 0);
}

#[test]
fn every_order_is_linearizable_and_shows_the_same() {
    every_order((2, 2, WHOLE), [1, 1], 0, 0);
    every_order((1, 2, WHOLE), [1, 1], 0, 1);
}

/// Builds go on in pieces, between all other steps, each done by whoever can.
#[test]
fn every_order_of_pieces_of_builds_too() {
    every_order((1, 2, 1), [1, 1], 0, 0);
}

#[test]
#[ignore = "long: half a million steps a case"]
fn every_order_of_larger_cases_too() {
    every_order((1, 2, WHOLE), [1, 1], 1, 0);
    every_order((2, 2, WHOLE), [1, 1], 1, 0);
    every_order((2, 3, WHOLE), [1, 1], 0, 1);
    every_order((1, 2, WHOLE), [1, 2], 0, 0);
    every_order((1, 2, 1), [1, 1], 0, 1);
    every_order((1, 2, 1), [1, 1], 1, 0);
}
