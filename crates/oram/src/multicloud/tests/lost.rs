//! A shuffler that says it has lost what it holds. It gains nothing: it is handed all cells of the
//! levels, read or not, under pads that it made itself.

use std::cell::Cell;
use std::rc::Rc;

use fogbank_mix::message::Lost;

use super::deaths::{deep, ends_well, history};
use super::*;

/// Says so of this job.
fn says_lost(partition: u16, generation: fogbank_mix::Generation) -> Message {
    Message::FromShuffler(partition, Lost { partition, generation }.into())
}

/// It does nothing with what it is handed: the client waits, answers what needs no new level, and
/// tells of the link. Nothing is lost.
#[test]
fn who_holds_what_it_says_is_lost_only_makes_the_client_wait() {
    let mut world = deep(4, Canary::default());
    world.is_strange = true;
    let top = world.shape.top();
    world.added = Box::new(move |message| match message {
        Message::ToShuffler(partition, ToShuffler::Mix(mix)) => {
            let could_be = mix.level < top && !mix.sources.0.is_empty();
            could_be.then(|| says_lost(*partition, mix.generation)).into_iter().collect()
        }
        _ => Vec::new(),
    });
    for (block, access) in history() {
        world.arrive(block, access).unwrap();
        world.settle().unwrap();
    }
    let handed = |at: &&Message| matches!(at, Message::Across(_, Across::Handed(_)));
    assert!(world.seen.iter().flatten().any(|at| handed(&at)), "it was handed something");
    let path = world.plane.waits().map(|wait| wait.path.to_string());
    assert!(path.as_ref().is_some_and(|path| path.contains("link")), "{path:?}");
    world.added = Box::new(|_| Vec::new());
    world.recover();
    world.settle().unwrap();
    ends_well(&mut world, &history());
}

/// Of a job that reads nothing of what is kept, and twice of one, it is a lie.
#[test]
fn what_cannot_be_lost_is_the_lie_of_who_says_so() {
    for twice in [false, true] {
        let mut world = deep(4, Canary::default());
        world.is_strange = true;
        let (top, liar) = (world.shape.top(), Rc::new(Cell::new(None)));
        let lies = liar.clone();
        world.added = Box::new(move |message| match message {
            Message::ToShuffler(partition, ToShuffler::Mix(mix)) if lies.get().is_none() => {
                let could_be = mix.level < top && !mix.sources.0.is_empty();
                if could_be != twice {
                    return Vec::new();
                }
                lies.set(Some(usize::from(message.link().1)));
                vec![says_lost(*partition, mix.generation); if twice { 2 } else { 1 }]
            }
            _ => Vec::new(),
        });
        let told = history().into_iter().find_map(|(block, access)| {
            world.arrive(block, access).and_then(|()| world.settle()).err()
        });
        let (told, liar) = (told.expect("it is noticed"), liar.get().unwrap());
        let is_told = told.to_string().contains(crate::multicloud::witness::NAMES[liar]);
        assert!(is_told && matches!(told, crate::Error::CloudLied(_)), "{told}");
        let silent = world.plane.repeat();
        assert!(matches!(silent, Err(crate::Error::CloudLied(_))), "{silent:?}");
    }
}
