//! Each lie of a cloud at each message, for every level of the wanted block: the same check stops it
//! after the same message, whatever was wanted, and nothing is answered of it.
//!
//! A liar knows its own point. What its own sum does not see it finds by solving for it.

use fogbank_mix::message::{FromHolder, FromShuffler};
use fogbank_mix::{Generation, Pads, Seed};

use super::deaths::{ends_well, history, small};
use super::*;
use crate::position::Home;

/// One lie: told once, to the first message that it fits after it is armed.
pub type Lie = dyn Fn(&mut Message, &[Seed; 2]) -> bool;

fn flip(cell: &mut [u8]) {
    cell[5] ^= 0x40;
}

/// Swaps two cells, or changes the only one.
fn swap(cells: &mut Cells) {
    let other = cells.get(1).map(<[u8]>::to_vec);
    match other {
        Some(other) => {
            let first = cells.get(0).unwrap().to_vec();
            cells.get_mut(0).unwrap().copy_from_slice(&other);
            cells.get_mut(1).unwrap().copy_from_slice(&first);
        }
        None => flip(cells.get_mut(0).unwrap()),
    }
}

/// The product in GF(2^128); bit i is the coefficient of x^i.
fn product(mut a: u128, mut b: u128) -> u128 {
    let mut sum = 0;
    while b != 0 {
        sum ^= if b & 1 == 1 { a } else { 0 };
        b >>= 1;
        a = (a << 1) ^ if a >> 127 == 1 { 0x87 } else { 0 };
    }
    sum
}

/// A secret point as who was told it reckons it.
fn point(of: &Seed) -> u128 {
    let mut block = [0; 16];
    Pads::new(of, 16).xor(0, &mut block);
    u128::from_be_bytes(block).reverse_bits()
}

/// Changes a cell so that no sum at these points sees it: the coefficients of a polynomial that is
/// zero there.
pub fn unseen(cell: &mut [u8], points: &[&Seed]) {
    let mut coefficients = vec![1u128];
    for of in points {
        let h = point(of);
        let mut next = vec![0; coefficients.len() + 1];
        for (at, coefficient) in coefficients.iter().enumerate() {
            next[at] ^= coefficient;
            next[at + 1] ^= product(*coefficient, h);
        }
        coefficients = next;
    }
    for (block, coefficient) in cell.chunks_exact_mut(16).zip(coefficients) {
        let change = coefficient.reverse_bits().to_be_bytes();
        block.iter_mut().zip(change).for_each(|(byte, change)| *byte ^= change);
    }
}

/// The message, if it is of the kind that the lie is about.
macro_rules! of {
    ($message:ident, $link:ident, $kind:ident) => {
        match $message {
            Message::$link(_, $link::$kind(message)) => message,
            _ => return false,
        }
    };
}

fn holder_of(message: &Message) -> usize {
    usize::from(message.partition() % 2)
}

/// Every lie, by name.
pub fn lies() -> Vec<(String, Box<Lie>)> {
    let mut lies: Vec<(String, Box<Lie>)> = Vec::new();
    let mut add = |name: &str, lie: Box<Lie>| lies.push((name.into(), lie));
    for cell in 0..3 {
        add(
            &format!("S1 blinded: a bit of cell {cell}"),
            Box::new(move |message, _| {
                let cells = &mut of!(message, Across, Blinded).cells;
                let cell = cell % cells.len();
                flip(cells.get_mut(cell).unwrap());
                true
            }),
        );
        add(
            &format!("S1 records: a bit of record {cell}"),
            Box::new(move |message, _| {
                let records = &mut of!(message, FromHolder, Records).records;
                let at = cell % records.len();
                records[at][3] ^= 1;
                true
            }),
        );
        add(
            &format!("S1 refresh: what point 1 does not see in cell {cell}"),
            Box::new(move |message, points| {
                let own = &points[holder_of(message)];
                let cells = &mut of!(message, FromHolder, Fetched).cells;
                unseen(cells.get_mut(cell).unwrap(), &[own]);
                true
            }),
        );
    }
    add(
        "S1 blinded: two cells swapped",
        Box::new(|message, _| {
            swap(&mut of!(message, Across, Blinded).cells);
            true
        }),
    );
    add(
        "S1 blinded: one cell less",
        Box::new(|message, _| {
            let cells = &mut of!(message, Across, Blinded).cells;
            let mut fewer = Cells::new(cells.cell_bytes());
            cells.iter().skip(1).for_each(|cell| fewer.push(cell));
            *cells = fewer;
            true
        }),
    );
    add(
        "S1 blinded: what point 1 does not see",
        Box::new(|message, points| {
            let own = &points[holder_of(message)];
            unseen(of!(message, Across, Blinded).cells.get_mut(0).unwrap(), &[own]);
            true
        }),
    );
    add(
        "S1 records: one less",
        Box::new(|message, _| {
            of!(message, FromHolder, Records).records.pop();
            true
        }),
    );
    add(
        "S2 answer: a bit of the cell",
        Box::new(|message, _| {
            flip(of!(message, FromShuffler, Answer).cells.get_mut(0).unwrap());
            true
        }),
    );
    add(
        "S2 answer: what point 2 does not see",
        Box::new(|message, points| {
            let own = &points[1 - holder_of(message)];
            unseen(of!(message, FromShuffler, Answer).cells.get_mut(0).unwrap(), &[own]);
            true
        }),
    );
    add(
        "S2 answer: another digest",
        Box::new(|message, _| {
            of!(message, FromShuffler, Answer).digest[0] ^= 1;
            true
        }),
    );
    add(
        "S2 level: two cells swapped",
        Box::new(|message, _| {
            swap(&mut of!(message, Back, Level).cells);
            true
        }),
    );
    add(
        "S2 level: a bit of a cell",
        Box::new(|message, _| {
            flip(of!(message, Back, Level).cells.get_mut(1).unwrap());
            true
        }),
    );
    add(
        "S2 level: what point 2 does not see",
        Box::new(|message, points| {
            let own = &points[1 - holder_of(message)];
            unseen(of!(message, Back, Level).cells.get_mut(1).unwrap(), &[own]);
            true
        }),
    );
    add(
        "S1 level digest: another",
        Box::new(|message, _| {
            of!(message, FromHolder, LevelDigest).digest[7] ^= 1;
            true
        }),
    );
    add(
        "S2 moved digest: another",
        Box::new(|message, _| {
            of!(message, FromShuffler, MovedDigest).digest[7] ^= 1;
            true
        }),
    );
    add(
        "S1 job records: a bit of one",
        Box::new(|message, _| {
            let record = of!(message, FromHolder, JobRecords).records.first_mut();
            record.map(|record| record[9] ^= 1).is_some() // a job may read nothing
        }),
    );
    add(
        "S1 moved: a bit of a cell",
        Box::new(|message, _| {
            flip(of!(message, Across, Moved).cells.get_mut(0).unwrap());
            true
        }),
    );
    add(
        "S1 moved: two cells swapped",
        Box::new(|message, _| {
            swap(&mut of!(message, Across, Moved).cells);
            true
        }),
    );
    add(
        "S1 handed: a bit of a cell",
        Box::new(|message, _| {
            flip(of!(message, Across, Handed).cells.get_mut(0).unwrap());
            true
        }),
    );
    add(
        "S1 refresh: a bit of a cell",
        Box::new(|message, _| {
            flip(of!(message, FromHolder, Fetched).cells.get_mut(1).unwrap());
            true
        }),
    );
    add(
        "S1 stored: of records not sent",
        Box::new(|message, _| {
            let Message::FromHolder(_, told @ FromHolder::LevelDigest(_)) = message else {
                return false;
            };
            let FromHolder::LevelDigest(level) = &*told else { return false };
            let (partition, generation) = (level.partition, level.generation);
            *told = fogbank_mix::message::Stored { partition, generation }.into();
            true
        }),
    );
    lies
}

/// What came of a lie.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// No message that it fits to.
    NotTold,
    /// The client stopped: in which words, and when so many effects and messages had been.
    Stopped(String, u64),
    /// Nobody noticed while the history lasted.
    Unnoticed,
}

const BLOCKS: u32 = 9;

/// After `since` accesses a block of the wanted level is asked for, and the lie is told; `None` if
/// there is no such block. The coins are the same for every level.
pub fn outcome(
    lie: &std::rc::Rc<Lie>,
    canary: Canary,
    (wanted, since): (Option<u8>, u32),
    loses: bool,
) -> Option<Outcome> {
    let settings = MulticloudSettings {
        extra: 0,
        refresh_every: 2,
        ..settings(BLOCKS, 64, layout(BLOCKS, 1, 4, 12, 1))
    };
    let mut world = World::with(settings, 8, canary);
    world.is_strange = true;
    for k in 0..since {
        world.arrive(k % BLOCKS, Access::Read).unwrap();
        world.settle().unwrap();
    }
    let level = |block: &u32| match world.plane.positions.get(*block).1 {
        Home::Level { level, .. } => Some(level),
        _ => None,
    };
    let block = (0..BLOCKS).find(|block| level(block) == wanted)?;
    if loses {
        world.cloud_restarts(1).unwrap();
        world.settle().unwrap();
    }
    let points = [0, 1].map(|cloud| world.plane.point(cloud));
    let (told, lie) = (std::rc::Rc::new(std::cell::Cell::new(false)), lie.clone());
    let was_told = told.clone();
    world.fate = Box::new(move |mut message| {
        if !was_told.get() {
            was_told.set(lie(&mut message, &points));
        }
        Some(message)
    });
    let had = world.answers.len() as u64;
    for k in 0..24 {
        let block = if k == 0 { block } else { k * 4 % BLOCKS };
        let come = world.arrive(block, Access::Read).and_then(|()| world.settle());
        if let Err(error) = come {
            assert!(matches!(error, crate::Error::CloudLied(_)), "{error}");
            assert!(
                matches!(world.plane.repeat(), Err(crate::Error::CloudLied(_))),
                "it is silent"
            );
            return Some(Outcome::Stopped(error.to_string(), world.steps));
        }
        if world.answers.len() as u64 <= had + u64::from(k) {
            return Some(Outcome::Stopped("it waits".into(), world.steps));
        }
    }
    Some(if told.get() { Outcome::Unnoticed } else { Outcome::NotTold })
}

/// Whether the lie is told without being noticed, or is noticed in different ways, by what was wanted.
#[cfg(feature = "canaries")]
pub fn tells(lie: Box<Lie>, canary: impl Fn() -> Canary) -> bool {
    let lie = std::rc::Rc::from(lie);
    [(6, false), (13, false), (22, false), (6, true), (13, true), (22, true)].into_iter().any(
        |(since, loses)| {
            let of = |wanted| outcome(&lie, canary(), (wanted, since), loses);
            let all: Vec<_> =
                [None, Some(1), Some(2), Some(3)].into_iter().filter_map(of).collect();
            all.iter().any(|outcome| *outcome != all[0] || *outcome == Outcome::Unnoticed)
        },
    )
}

/// A lie is stopped by one check after one message for every wanted level, and never used.
#[test]
fn every_lie_is_stopped_and_the_same_whatever_is_wanted() {
    for (name, lie) in lies() {
        let lie = std::rc::Rc::from(lie);
        let mut told = 0;
        for (since, loses) in [6, 13, 22].into_iter().flat_map(|s| [(s, false), (s, true)]) {
            let of = |wanted| outcome(&lie, Canary::default(), (wanted, since), loses);
            let all: Vec<_> =
                [None, Some(1), Some(2), Some(3)].into_iter().filter_map(of).collect();
            assert!(all.len() > 1, "after {since}: {all:?}");
            assert!(all.iter().all(|outcome| *outcome == all[0]), "{name} after {since}: {all:?}");
            assert_ne!(all[0], Outcome::Unnoticed, "{name} after {since}");
            told += u32::from(all[0] != Outcome::NotTold);
        }
        assert!(told > 0, "{name} was never told");
    }
}

/// What a liar may send that nobody asked for, by name: made of a message that came, after it.
fn additions() -> Vec<(&'static str, super::Added)> {
    fn level(message: &Message, generation: impl Fn(Generation) -> Generation) -> Vec<Message> {
        let Message::Back(partition, Back::Level(level)) = message else { return Vec::new() };
        let mut level = level.clone();
        level.cells.get_mut(0).into_iter().for_each(flip);
        level.generation = generation(level.generation);
        vec![Message::Back(*partition, level.into())]
    }
    fn attempt(of: Generation, more: u16) -> Generation {
        Generation::new(of.count(), of.attempt() + more)
    }
    let mut old: Vec<Message> = Vec::new();
    let again = |cells: &mut Cells| cells.get_mut(0).into_iter().for_each(flip);
    vec![
        ("S2 level: again", Box::new(|message| level(message, |of| of))),
        (
            "S2 level: under a later attempt",
            Box::new(|message| level(message, |of| attempt(of, 1))),
        ),
        (
            "S2 level: under one much later",
            Box::new(|message| level(message, |of| attempt(of, 99))),
        ),
        (
            "S2 level: every old one, behind every message",
            Box::new(move |message| {
                old.extend(level(message, |of| attempt(of, 3)));
                old.extend(level(message, |of| of));
                old.clone()
            }),
        ),
        (
            "S1 blinded: again",
            Box::new(move |message| {
                let Message::Across(partition, Across::Blinded(blinded)) = message else {
                    return Vec::new();
                };
                let mut blinded = blinded.clone();
                again(&mut blinded.cells);
                vec![Message::Across(*partition, blinded.into())]
            }),
        ),
        (
            "S1 moved: again, and for a job to come",
            Box::new(move |message| {
                let Message::Across(partition, Across::Moved(moved)) = message else {
                    return Vec::new();
                };
                let mut moved = moved.clone();
                again(&mut moved.cells);
                let twice = Message::Across(*partition, moved.clone().into());
                moved.generation = Generation::new(moved.generation.count() + 4, 0);
                vec![twice, Message::Across(*partition, moved.into())]
            }),
        ),
    ]
}

/// Whatever is added, before a commit, after it or behind a start of the cloud that did not lie:
/// either all goes on, or the client stops. What was acknowledged is there afterwards.
#[test]
fn nothing_that_is_added_loses_what_was_acknowledged() {
    for (name, mut lie) in additions() {
        let mut world = small(4, Canary::default());
        world.is_strange = true;
        let count = std::rc::Rc::new(std::cell::Cell::new(0));
        let counted = count.clone();
        world.added = Box::new(move |message| {
            let added = lie(message);
            counted.set(counted.get() + added.len());
            added
        });
        for (at, (block, access)) in history().into_iter().enumerate() {
            let mut come = world.arrive(block, access).and_then(|()| world.settle());
            if at % 5 == 4 && come.is_ok() {
                // A cloud, which holds every other partition, starts again.
                come = world.cloud_restarts((at / 5 % 2) as u8).and_then(|()| world.settle());
            }
            if let Err(error) = come {
                assert!(matches!(error, crate::Error::CloudLied(_)), "{name}: {error}");
                break;
            }
        }
        assert!(count.get() > 0, "{name} was not told");
        world.added = Box::new(|_| Vec::new());
        world.recover();
        world.settle().unwrap();
        ends_well(&mut world, &history());
    }
}
