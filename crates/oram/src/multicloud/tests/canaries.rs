//! What the tests beside this find if the client leaks: no check counts until it was seen to fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::deaths::{
    CLIENT, CLOUDS, Dead, WITH_CLIENT, die_at_every_message, dies_at_every_effect,
    dies_while_much_is_under_way,
};
use super::game::{Asked, FIRST_CELL, FIRST_NAMED, INDEX, INDEX_0, ORDER, game};
use super::lies::{Lie, Outcome, lies, named, outcome, tells};
use super::views::{CHANCE, plays, rules};
use super::*;
use crate::multicloud::canary::Leak;

/// How a run ends in which every access is asked for while others are under way.
fn run(leak: Leak) -> std::thread::Result<()> {
    catch_unwind(AssertUnwindSafe(|| {
        let settings = settings(20, 16, layout(20, 2, 4, 16, 1));
        let mut world = World::with(settings, 3, Canary::new(leak));
        for access in 0..600u32 {
            world.arrive(access * 7 % 20, Access::Read).unwrap();
            match access % 5 {
                0 => world.settle().unwrap(),
                few => (0..few).for_each(|_| _ = world.deliver().unwrap()),
            }
        }
        world.settle().unwrap();
    }))
}

/// A pad that covers two cells, an entry that follows its message, a commit that comes too early.
#[test]
fn what_breaks_a_rule_is_seen_in_any_run() {
    for (leak, rule) in [
        (Leak::ReadPadTwice, "a pad covers two cells"),
        (Leak::CarryPadTwice, "a pad covers two cells"),
        (Leak::EntryLate, "the journal does not name"),
        (Leak::AnswerEarly, "an answer leaves before"),
    ] {
        let ended = run(leak).err().unwrap_or_else(|| panic!("{leak:?} was not seen"));
        let text = words_of(&*ended);
        assert!(text.contains(rule), "{leak:?}: {text}");
    }
}

/// What a test has panicked with.
fn words_of(ended: &(dyn std::any::Any + Send)) -> String {
    let text = ended.downcast_ref::<String>().cloned();
    text.or_else(|| ended.downcast_ref::<&str>().map(|text| (*text).into())).unwrap_or_default()
}

/// A check that looks at too little, or at the point of who sends, tells a liar what was wanted.
#[test]
fn a_weaker_check_tells_a_liar_what_was_wanted() {
    for leak in [
        Leak::WantedChecked,
        Leak::DummyUnchecked,
        Leak::AnswerAtOwnPoint,
        Leak::RefreshAtOwnPoint,
        Leak::OnePoint,
        Leak::MovedTrusted,
        Leak::LevelTrusted,
    ] {
        let told = lies().into_iter().any(|(_, lie)| tells(lie, || Canary::new(leak)));
        assert!(told, "{leak:?}");
    }
}

/// Without the seal of records, or signatures of proofs, another cloud is named than has lied.
#[test]
fn a_weaker_proof_names_another() {
    for (leak, begins) in [
        (Leak::SealIgnored, "S1 job records: a bit"),
        (Leak::ProofBelieved, "S2 answer: another digest, and another proof"),
    ] {
        let is_it = |(name, _): &(String, Box<Lie>)| name.starts_with(begins);
        let (name, lie) = lies().into_iter().find(is_it).unwrap();
        let lie = std::rc::Rc::from(lie);
        let names_another = [6, 13, 22].into_iter().any(|since| {
            match outcome(&lie, Canary::new(leak), (None, since), (false, true)) {
                Some(Outcome::Stopped(told, _)) => !told.contains(named(&name)),
                _ => false,
            }
        });
        assert!(names_another, "{leak:?}");
    }
}

/// What a holder is named that it should not be, by the rule.
#[test]
fn what_a_holder_should_not_be_named_is_seen() {
    for (leak, rule) in
        [(Leak::OutsideList, "while a list is out"), (Leak::RefreshOfReals, "its quota")]
    {
        let world = plays(Canary::new(leak), 3_000, true, |_| {});
        let (broken, _) = rules(&world);
        assert!(broken.is_some_and(|broken| broken.contains(rule)), "{leak:?}: {broken:?}");
    }
    let world = plays(Canary::new(Leak::FirstDummy), 3_000, false, |_| {});
    let (_, excess) = rules(&world);
    assert!(excess < -CHANCE, "{excess}");
}

#[test]
fn a_guesser_is_lifted_above_chance() {
    for (leak, guesser) in [
        (Leak::WantedFirst, FIRST_NAMED),
        (Leak::WantedFirst, ORDER),
        (Leak::FirstDummy, FIRST_CELL),
        (Leak::ConstantIndex, INDEX),
        (Leak::ConstantIndex, INDEX_0),
    ] {
        for (asked, accesses) in [(Asked::Plane, 8_000), (Asked::Engine, 20_000)] {
            let [leaking, _] = game(asked, Canary::new(leak), accesses, 0);
            for cloud in [0, 1] {
                let score = leaking.scores(cloud)[guesser];
                assert!(score > 2.0 * CHANCE, "{asked:?}, {leak:?}: {score} at cloud {cloud}");
            }
        }
    }
}

/// A second attempt with what was asked for since, a commit under a read: deaths show them.
#[test]
fn what_deaths_show() {
    for (leak, words) in [
        (
            Leak::TakenAgain,
            &["a block is in two places", "left == right", "a block is in a cell that is not read"]
                [..],
        ),
        (
            Leak::CommitAtOnce,
            &[
                "a level that is to be read is not here",
                "a level that is not there",
                "is not filled",
                "the last job is not committed when the next begins",
            ],
        ),
    ] {
        let seen = (0..40).find_map(|seed| {
            let dies = || dies_while_much_is_under_way(seed, Canary::new(leak));
            catch_unwind(AssertUnwindSafe(dies)).err()
        });
        let text = words_of(&*seen.unwrap_or_else(|| panic!("{leak:?} was not seen")));
        assert!(words.iter().any(|of| text.contains(of)), "{leak:?}: {text}");
    }
}

/// What is done again otherwise than it was, by whoever dies where: between two effects, or at a
/// message.
#[test]
fn what_every_death_shows() {
    let at_effects: Vec<Dead> = [CLIENT, WITH_CLIENT[2]].into();
    let at_messages: Vec<Dead> = CLOUDS.into_iter().chain(WITH_CLIENT).collect();
    for (leak, words) in [
        (Leak::SameAttempt, &["an order twice"][..]),
        (Leak::RepeatedOtherwise, &["a read differs", "the journal does not name"]),
    ] {
        let shows = |dead: Dead, dies: &dyn Fn()| {
            let seen = catch_unwind(AssertUnwindSafe(dies)).err();
            let text =
                words_of(&*seen.unwrap_or_else(|| panic!("{leak:?} was not seen, {dead:?}")));
            assert!(words.iter().any(|of| text.contains(of)), "{leak:?}, {dead:?}: {text}");
        };
        for dead in &at_effects {
            shows(*dead, &|| dies_at_every_effect(*dead, true, || Canary::new(leak)));
        }
        for dead in &at_messages {
            shows(*dead, &|| die_at_every_message(*dead, || Canary::new(leak)));
        }
    }
}

/// The index that the shuffler is told: by how many cells there were, how often each.
fn indices(canary: Canary) -> Vec<Vec<u64>> {
    let mut world = World::with(settings(40, 16, layout(40, 2, 4, 40, 1)), 5, canary);
    for access in 0..4_000u32 {
        // One block again and again: mostly none of the cells is wanted.
        world.arrive(if access % 3 == 0 { access * 7 % 40 } else { 0 }, Access::Read).unwrap();
        world.settle().unwrap();
    }
    let mut counts = vec![Vec::new(); 8];
    for message in world.seen.iter().flatten() {
        if let Message::ToShuffler(_, ToShuffler::Want(want)) = message {
            let of: &mut Vec<u64> = &mut counts[usize::from(want.cells)];
            of.resize(usize::from(want.cells), 0);
            of[usize::from(want.index)] += 1;
        }
    }
    counts
}

/// By how many standard deviations the chi-square of these counts is above what a uniform law
/// gives.
fn excess(counts: &[Vec<u64>]) -> f64 {
    let (mut sum, mut freedom) = (0.0, 0.0);
    for of in counts.iter().filter(|of| of.len() > 1 && of.iter().sum::<u64>() > 100) {
        let each = of.iter().sum::<u64>() as f64 / of.len() as f64;
        sum += of.iter().map(|count| (*count as f64 - each).powi(2) / each).sum::<f64>();
        freedom += of.len() as f64 - 1.0;
    }
    assert!(freedom > 0.0, "nothing to count");
    (sum - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn the_index_that_the_shuffler_is_told_is_uniform() {
    let honest = excess(&indices(Canary::default()));
    assert!(honest < 6.0, "{honest}");
    for leak in [Leak::WantedFirst, Leak::ConstantIndex] {
        assert!(excess(&indices(Canary::new(leak))) > 6.0, "{leak:?}");
    }
}

/// However long chains are, walking them takes the same: a block asked for often has a short one.
#[test]
fn every_chain_takes_the_same_work() {
    let works = |canary| {
        let mut world = World::with(settings(20, 16, layout(20, 2, 4, 16, 1)), 3, canary);
        for access in 0..600u32 {
            world.arrive(access * access % 20, Access::Read).unwrap();
            world.settle().unwrap();
        }
        world.works.unwrap()
    };
    let (least, most) = works(Canary::default());
    assert!(least == most && most.covers == 2 * 2, "{least:?} {most:?}");
    let (least, most) = works(Canary::new(Leak::WalksShort));
    assert!(least < most, "{least:?} {most:?}");
}
