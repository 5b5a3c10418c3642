//! Each lie of a cloud at each message, for every level of the wanted block: the same check stops
//! it after the same message, whatever was wanted, and nothing is answered of it.
//!
//! A liar knows its own point. What its own sum does not see it finds by solving for it. It signs
//! what it changes. The name of a lie begins with the cloud that is to be told: S1 holds the only
//! partition, S2 shuffles it, and a lie of the *link* is one that nothing proves.

use fogbank_mix::message::{FromHolder, FromShuffler, Lost};
use fogbank_mix::signed::UNSIGNED;
use fogbank_mix::{Generation, Marks, Pads, Seed};

use super::deaths::{deep, ends_well, history, small};
use super::stale::{again, stale};
use super::*;
use crate::position::Home;

/// One lie: told once, to the first message that it fits after it is armed. Shown a message that is
/// lost it begins anew.
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
    // Of whom a cloud is asked for something else: what it would do if it did that by itself.
    add(
        "S1 look: another slot",
        Box::new(|message, _| {
            let place = &mut of!(message, ToHolder, Look).places[0].place;
            *place = if *place == 0 { 1 } else { 0 };
            true
        }),
    );
    add(
        "S1 look: another order",
        Box::new(|message, _| {
            let places = &mut of!(message, ToHolder, Look).places;
            places.reverse();
            places.len() > 1
        }),
    );
    add(
        "S1 look: other covers",
        Box::new(|message, _| {
            of!(message, ToHolder, Look).pads = Seed::new([9; 32]);
            true
        }),
    );
    add(
        "S2 want: another cell",
        Box::new(|message, _| {
            let want = of!(message, ToShuffler, Want);
            want.index = (want.index + 1) % want.cells;
            want.cells > 1
        }),
    );
    add(
        "S2 mix: another order",
        Box::new(|message, _| {
            of!(message, ToShuffler, Mix).order = Seed::new([9; 32]);
            true
        }),
    );
    add(
        "S2 mix: other covers",
        Box::new(|message, _| {
            of!(message, ToShuffler, Mix).pads = Seed::new([9; 32]);
            true
        }),
    );
    add(
        "S2 upload: a bit of a block",
        Box::new(|message, _| {
            flip(of!(message, ToShuffler, Upload).cells.get_mut(1).unwrap());
            true
        }),
    );
    add(
        "S2 strip: other covers",
        Box::new(|message, _| {
            of!(message, ToShuffler, Strip).pads[0] = Seed::new([9; 32]);
            true
        }),
    );
    add(
        "S1 carry: other cells",
        Box::new(|message, _| another(&mut of!(message, ToHolder, Carry).list)),
    );
    add(
        "S1 carry: other covers",
        Box::new(|message, _| {
            of!(message, ToHolder, Carry).pads = Seed::new([9; 32]);
            true
        }),
    );
    add(
        "S1 fetch: other cells",
        Box::new(|message, _| another(&mut of!(message, ToHolder, Fetch).list)),
    );
    add(
        "S1 stored: of other records",
        Box::new(|message, _| {
            let records = &mut of!(message, ToHolder, NewRecords).records;
            records.iter_mut().for_each(|record| record[0] ^= 1);
            true
        }),
    );
    let is_told = std::cell::Cell::new(false);
    add(
        "S2 answer: another digest, and another proof",
        Box::new(move |message, _| {
            match message {
                Message::Lost(_) => is_told.set(false),
                Message::FromShuffler(_, FromShuffler::Answer(answer)) if !is_told.get() => {
                    answer.digest[0] ^= 1;
                    is_told.set(true);
                }
                Message::FromShuffler(_, FromShuffler::Proof(proof)) => {
                    flip(proof.cells.get_mut(0).unwrap());
                    return true;
                }
                _ => {}
            }
            false
        }),
    );
    lies.extend(stale());
    lies.extend(again());
    lies.extend(withheld());
    lies.extend(miscounted());
    lies
}

/// Batches of another number of cells.
fn miscounted() -> Vec<(String, Box<Lie>)> {
    macro_rules! miscounted {
        ($lies:ident, $name:literal, $link:ident, $kind:ident) => {
            for (words, leaves_out, adds) in
                [("no cell", 999, 0), ("one cell less", 1, 0), ("cells more", 0, 2)]
            {
                let lie: Box<Lie> = Box::new(move |message, _| {
                    let cells = &mut of!(message, $link, $kind).cells;
                    let mut other = Cells::new(cells.cell_bytes());
                    cells.iter().skip(leaves_out).for_each(|cell| other.push(cell));
                    (0..adds).for_each(|_| _ = other.push_zeros());
                    *cells = other;
                    true
                });
                $lies.push((format!("{}: {words}", $name), lie));
            }
        };
    }
    let mut lies = Vec::new();
    miscounted!(lies, "S1 blinded", Across, Blinded);
    miscounted!(lies, "S1 moved", Across, Moved);
    miscounted!(lies, "S1 handed", Across, Handed);
    miscounted!(lies, "S2 level", Back, Level);
    miscounted!(lies, "S1 refresh", FromHolder, Fetched);
    miscounted!(lies, "S2 answer", FromShuffler, Answer);
    lies
}

/// Marks another cell in place of one.
fn another(list: &mut Marks) -> bool {
    let (Some(marked), Some(free)) = (list.iter().next(), (0..).find(|at| !list.has(*at))) else {
        return false;
    };
    list.clear(marked);
    list.set(free);
    true
}

/// Each message that never comes.
fn withheld() -> Vec<(String, Box<Lie>)> {
    macro_rules! withheld {
        ($name:literal, $link:ident, $kind:ident $(, $field:ident)?) => {{
            let lie: Box<Lie> = Box::new(|message, _| {
                let _of_this_kind = of!(message, $link, $kind);
                $(if _of_this_kind.$field.is_empty() {
                    return false; // a job may read nothing
                })?
                *message = Message::Lost(message.partition());
                true
            });
            ($name.to_owned(), lie)
        }};
    }
    vec![
        withheld!("link: blinded never comes", Across, Blinded),
        withheld!("link: moved never comes", Across, Moved),
        withheld!("link: handed never comes", Across, Handed),
        withheld!("link: level never comes", Back, Level),
        withheld!("link: lost never comes", FromShuffler, Lost),
        withheld!("link: answer never comes", FromShuffler, Answer),
        withheld!("link: moved digest never comes", FromShuffler, MovedDigest),
        withheld!("link: level digest never comes", FromHolder, LevelDigest),
        withheld!("S1 records never come", FromHolder, Records),
        withheld!("S1 job records never come", FromHolder, JobRecords, records),
        withheld!("S1 refresh never comes", FromHolder, Fetched),
        withheld!("S1 stored never comes", FromHolder, Stored),
    ]
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
    (loses, signs): (bool, bool),
) -> Option<Outcome> {
    let settings = MulticloudSettings {
        extra: 0,
        refresh_every: 2,
        ..settings(BLOCKS, 64, layout(BLOCKS, 1, 4, 12, 1))
    };
    let mut world = World::with(settings, 8, canary);
    (world.is_strange, world.signs) = (true, signs);
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
    lie(&mut Message::Lost(0), &points);
    let (told, lie) = (std::rc::Rc::new(std::cell::Cell::new(false)), lie.clone());
    let was_told = told.clone();
    world.fate = Box::new(move |mut message| {
        if !was_told.get() {
            was_told.set(lie(&mut message, &points));
        }
        Some(message).filter(|message| !matches!(message, Message::Lost(_)))
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
            let path = world.plane.waits().map(|wait| wait.path.to_string());
            return Some(Outcome::Stopped(path.unwrap_or_else(|| "it waits".into()), world.steps));
        }
    }
    // What is waited for when all else is done has not been taken for anything.
    let waits = world.plane.waits().filter(|_| told.get());
    Some(match waits {
        Some(wait) => Outcome::Stopped(wait.path.to_string(), world.steps),
        None if told.get() => Outcome::Unnoticed,
        None => Outcome::NotTold,
    })
}

/// Whether the lie is told without being noticed, or is noticed in different ways, by what was
/// wanted.
#[cfg(feature = "canaries")]
pub fn tells(lie: Box<Lie>, canary: impl Fn() -> Canary) -> bool {
    let lie = std::rc::Rc::from(lie);
    [(6, false), (13, false), (22, false), (6, true), (13, true), (22, true)].into_iter().any(
        |(since, loses)| {
            let of = |wanted| outcome(&lie, canary(), (wanted, since), (loses, true));
            let all: Vec<_> =
                [None, Some(1), Some(2), Some(3)].into_iter().filter_map(of).collect();
            all.iter().any(|outcome| *outcome != all[0] || *outcome == Outcome::Unnoticed)
        },
    )
}

/// What every outcome of a lie comes to that was told after some accesses, whatever was wanted, and
/// whether a cloud has lost what it kept; some were not told.
fn outcomes(name: &str, lie: Box<Lie>, signs: bool) -> Vec<String> {
    let (lie, mut words) = (std::rc::Rc::from(lie), Vec::new());
    for (since, loses) in [6, 13, 22].into_iter().flat_map(|s| [(s, false), (s, true)]) {
        let of = |wanted| outcome(&lie, Canary::default(), (wanted, since), (loses, signs));
        let all: Vec<_> = [None, Some(1), Some(2), Some(3)].into_iter().filter_map(of).collect();
        assert!(all.len() > 1, "after {since}: {all:?}");
        assert!(all.iter().all(|outcome| *outcome == all[0]), "{name} after {since}: {all:?}");
        match &all[0] {
            Outcome::Unnoticed => panic!("{name} after {since} is not noticed"),
            Outcome::Stopped(told, _) => words.push(told.clone()),
            Outcome::NotTold => {}
        }
    }
    assert!(!words.is_empty(), "{name} was never told");
    words
}

/// How whoever is to be told is called.
pub fn named(lie: &str) -> &'static str {
    match lie.split([' ', ':']).next() {
        Some("S1") => "the first cloud",
        Some("S2") => "the second cloud",
        _ => "the link between the two clouds",
    }
}

/// A lie is stopped by one check after one message for every wanted level, never used, and told of
/// whoever has lied.
#[test]
fn every_lie_is_stopped_and_the_same_whatever_is_wanted() {
    for (name, lie) in lies() {
        for told in outcomes(&name, lie, true) {
            assert!(told.contains(named(&name)), "{name}: {told}");
        }
    }
}

/// What a liar changes and does not sign goes no farther than the other cloud: nobody is told by
/// name but who is heard by the client itself.
#[test]
fn what_is_not_signed_is_told_as_the_link() {
    let between = ["S1 blinded", "S1 moved", "S1 handed", "S2 level"];
    let lies = lies().into_iter().filter(|(name, _)| between.iter().any(|of| name.starts_with(of)));
    let mut count = 0;
    for (name, lie) in lies {
        for told in outcomes(&name, lie, false) {
            assert!(told.contains("the link between the two clouds"), "{name}: {told}");
        }
        count += 1;
    }
    assert!(count > 8, "{count}");
}

/// Whoever has lied in a digest, and is asked for what was digested, lies again.
#[test]
fn a_false_proof_is_the_lie_of_who_shows_it() {
    type Proves = fn(&mut fogbank_mix::message::Proof);
    let changes: [(Proves, bool); 4] = [
        (|proof| flip(proof.cells.get_mut(0).unwrap()), true),
        (|proof| proof.signature[0] ^= 1, true),
        (|proof| proof.cells = Cells::new(proof.cells.cell_bytes()), true),
        (
            |proof| {
                proof.cells = Cells::new(proof.cells.cell_bytes());
                proof.signature = UNSIGNED;
            },
            false,
        ),
    ];
    for (digest, name) in [
        ("S2 answer: another digest", "the second cloud"),
        ("S2 moved digest: another", "the second cloud"),
        ("S1 level digest: another", "the first cloud"),
    ] {
        for (changes, is_named) in changes {
            let (_, lie) = lies().into_iter().find(|(name, _)| name == digest).unwrap();
            let first = std::cell::Cell::new(false);
            let twice: Box<Lie> = Box::new(move |message, points| {
                match message {
                    Message::Lost(_) => first.set(false),
                    Message::FromHolder(_, FromHolder::Proof(proof))
                    | Message::FromShuffler(_, FromShuffler::Proof(proof)) => {
                        changes(proof);
                        return true;
                    }
                    _ if !first.get() => first.set(lie(message, points)),
                    _ => {}
                }
                false
            });
            for told in outcomes(digest, twice, true) {
                let name = if is_named { name } else { "the link between the two clouds" };
                assert!(told.contains(name), "{digest}: {told}");
            }
        }
    }
}

/// A proof that never comes: nothing else leaves, and at last the link is told.
#[test]
fn while_a_proof_is_awaited_nothing_leaves() {
    let mut world = small(4, Canary::default());
    world.is_strange = true;
    let lied = std::cell::Cell::new(false);
    world.fate = Box::new(move |mut message| {
        match &mut message {
            Message::Across(_, Across::Blinded(blinded)) => {
                flip(blinded.cells.get_mut(0).unwrap());
                lied.set(true);
            }
            Message::FromShuffler(_, FromShuffler::Proof(_)) => return None,
            _ => {}
        }
        Some(message)
    });
    for (block, access) in history() {
        world.arrive(block, access).unwrap();
        world.settle().unwrap();
        if world.plane.is_accusing() {
            break;
        }
    }
    assert!(world.plane.is_accusing());
    let (steps, answers) = (world.steps, world.answers.len());
    for (block, access) in history() {
        world.arrive(block, access).unwrap();
        world.settle().unwrap();
    }
    assert_eq!((steps, answers), (world.steps, world.answers.len()), "nothing leaves");
    let asked = world.plane.repeat().unwrap();
    assert!(matches!(asked[..], [Effect::Shuffler(_, ToShuffler::ProveRead(_))]), "{asked:?}");
    let told = world.plane.unproved().unwrap().to_string();
    assert!(told.contains("the link between the two clouds"), "{told}");
    assert!(matches!(world.plane.repeat(), Err(crate::Error::CloudLied(_))));
}

/// A cloud that speaks in the place of the other is named.
#[test]
fn a_cloud_speaks_for_itself() {
    let mut world = small(4, Canary::default());
    world.arrive(0, Access::Read).unwrap();
    let mut random = history().into_iter();
    let read = loop {
        let last = world.seen.iter().flatten().last().cloned();
        if let Some(Message::ToHolder(partition, ToHolder::Look(look))) = last {
            break (usize::from(partition % 2), look.read);
        }
        if !world.deliver().unwrap() {
            let (block, access) = random.next().unwrap();
            world.arrive(block, access).unwrap();
        }
    };
    let (holder, read) = read;
    let records = fogbank_mix::message::Records { read, records: Vec::new() };
    let told = world.plane.holder_says(1 - holder, records.into()).unwrap_err().to_string();
    let name = ["the first cloud", "the second cloud"][1 - holder];
    assert!(told.contains(name) && told.contains("speaks for the other"), "{told}");
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
    fn lost(partition: u16, generation: Generation) -> Vec<Message> {
        vec![Message::FromShuffler(partition, Lost { partition, generation }.into())]
    }
    /// Each message of a cloud again, when so many more have come.
    fn again_after(count: usize) -> super::Added {
        let mut last = std::collections::VecDeque::new();
        Box::new(move |message| {
            if !matches!(message, Message::ToHolder(..) | Message::ToShuffler(..)) {
                last.push_back(message.clone());
            }
            (last.len() > count).then(|| last.pop_front()).flatten().into_iter().collect()
        })
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
        (
            "S2 lost: when its level is there",
            Box::new(|message| match message {
                Message::Back(partition, Back::Level(level)) => lost(*partition, level.generation),
                _ => Vec::new(),
            }),
        ),
        (
            "S2 lost: when its level was checked",
            Box::new(|message| match message {
                Message::ToHolder(partition, ToHolder::NewRecords(records)) => {
                    lost(*partition, records.generation)
                }
                _ => Vec::new(),
            }),
        ),
        ("all: again at once", again_after(0)),
        ("all: again a little later", again_after(5)),
        ("all: again much later", again_after(60)),
    ]
}

/// Whatever is added, before a commit, after it or behind a start of the cloud that did not lie:
/// either all goes on, or the client stops. What was acknowledged is there afterwards.
#[test]
fn nothing_that_is_added_loses_what_was_acknowledged() {
    for (name, mut lie) in additions() {
        let mut world = deep(4, Canary::default());
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
        // A level that came before its name is told when its attempt is: the next drops it.
        let is_lied = |world: &mut World| {
            world.recover();
            world.settle().is_err()
        };
        let stops = (0..3).take_while(|_| is_lied(&mut world)).count();
        assert!(stops < 3, "{name}: it does not go on");
        ends_well(&mut world, &history());
    }
}
