//! Deaths of the client between any two effects, of each cloud and of both at every message, and of
//! the client with them.
//!
//! Then: values hold; a read that is repeated is the same; no cell is shown for two reads; the list
//! of a job is the same on every attempt. That no pad covers two cells the ledger sees.

use std::collections::BTreeMap;

use super::data::is_consistent;
use super::*;

/// Blocks and what is written to them; with jobs of all kinds in it.
pub fn history() -> Vec<(u32, Access)> {
    (0..26u8)
        .map(|k| {
            let block = if k % 3 == 0 { 2 } else { u32::from(k) * 5 % 6 };
            let bytes = Bytes::copy_from_slice(&[k]);
            (block, if k % 2 == 0 { Access::Read } else { Access::Write { offset: 0, bytes } })
        })
        .collect()
}

pub fn small(seed: u64, canary: Canary) -> World {
    let mut settings = settings(6, 8, layout(6, 2, 3, 8, 1));
    settings.refresh_every = 2;
    World::with(settings, seed, canary)
}

/// With jobs below the top that read what a shuffler keeps, and that it may have lost.
pub fn deep(seed: u64, canary: Canary) -> World {
    let settings = settings(6, 8, layout(6, 2, 4, 12, 1));
    World::with(MulticloudSettings { refresh_every: 2, ..settings }, seed, canary)
}

/// Every access that the journal does not name is asked for again; then all results are as they
/// are to be, and so is what is read at the end.
pub fn ends_well(world: &mut World, asked: &[(u32, Access)]) {
    let blocks = world.settings.layout.blocks;
    let all = asked.iter().cloned().chain((0..blocks).map(|block| (block, Access::Read)));
    let named = world.entries().filter(|entry| matches!(entry, Entry::Access(_))).count();
    for (block, access) in all.clone().skip(named) {
        world.arrive(block, access).unwrap();
        world.settle().unwrap();
    }
    let zeros = Bytes::from(vec![0; world.settings.shape.value_bytes]);
    let mut map: HashMap<u32, Bytes> = HashMap::new();
    let mut due = BTreeMap::new();
    for (number, (block, access)) in (0..).zip(all) {
        let value = access.applied_to(map.get(&block).unwrap_or(&zeros));
        map.insert(block, value.clone());
        due.insert(number, value);
    }
    let results = world.entries().filter_map(|entry| match entry {
        Entry::Result(number, value) => Some((number, value)),
        _ => None,
    });
    assert_eq!(results.collect::<BTreeMap<_, _>>(), due);
    for (number, value) in &world.answers {
        assert_eq!(due[number], value);
    }
    is_consistent(&world.plane);
    audit(world);
}

/// What a holder must not see, over all that it has seen.
pub fn audit(world: &World) {
    for seen in &world.seen {
        let mut looks = HashMap::new();
        let mut lists = HashMap::new();
        let mut shown = HashMap::new();
        for message in seen {
            let Message::ToHolder(partition, message) = message else { continue };
            let list = match message {
                ToHolder::Look(look) => {
                    assert_eq!(looks.entry(look.read).or_insert(look), &look, "a read differs");
                    for at in &look.places {
                        let cell = (*partition, at.level, at.generation, at.place);
                        let read = *shown.entry(cell).or_insert(look.read);
                        assert_eq!(read, look.read, "a cell is shown for two reads");
                    }
                    continue;
                }
                ToHolder::Carry(carry) => (carry.generation.count(), &carry.list),
                ToHolder::Fetch(fetch) => (fetch.generation.count(), &fetch.list),
                _ => continue,
            };
            let (count, list) = list;
            assert_eq!(lists.entry((*partition, count)).or_insert(list), &list, "a list differs");
        }
    }
}

/// Who dies at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Dead {
    client: bool,
    clouds: &'static [u8],
}

pub const CLIENT: Dead = Dead { client: true, clouds: &[] };

/// The client with either cloud, and with both.
pub const WITH_CLIENT: [Dead; 3] = [
    Dead { clouds: &[0], ..CLIENT },
    Dead { clouds: &[1], ..CLIENT },
    Dead { clouds: &[0, 1], ..CLIENT },
];

/// Either cloud alone, and both.
pub const CLOUDS: [Dead; 3] = [
    Dead { client: false, clouds: &[0] },
    Dead { client: false, clouds: &[1] },
    Dead { client: false, clouds: &[0, 1] },
];

impl Dead {
    /// They are there again, and what is under way is done again.
    fn come_back(self, world: &mut World) {
        self.clouds.iter().for_each(|cloud| world.cloud_dies(*cloud));
        if self.client {
            return world.recover();
        }
        let effects = world.plane.repeat().unwrap();
        world.do_all(effects);
    }
}

/// Whether the journal has the access of this number: one that it has not is asked for again.
fn is_named(world: &World, number: u64) -> bool {
    world.entries().any(|entry| matches!(entry, Entry::Access(entry) if entry.number == number))
}

/// The client, which saves its state now and then, dies at the effect of this number, and others
/// with it. Returns how many effects there were.
fn dies_at_effect(dead: Dead, at: Option<u64>, saves: bool, canary: Canary) -> u64 {
    let mut world = if dead.clouds.is_empty() { small(1, canary) } else { deep(1, canary) };
    world.dies_at = at;
    for (number, (block, access)) in (0..).zip(history()) {
        world.arrive(block, access.clone()).unwrap();
        world.settle().unwrap();
        if world.is_dead {
            dead.come_back(&mut world);
            world.settle().unwrap();
            if !is_named(&world, number) {
                world.arrive(block, access).unwrap();
                world.settle().unwrap();
            }
        } else if saves && number % 5 == 0 {
            world.saves();
        }
    }
    let steps = world.steps;
    ends_well(&mut world, &history());
    steps
}

pub fn dies_at_every_effect(dead: Dead, saves: bool, canary: impl Fn() -> Canary) {
    let steps = dies_at_effect(dead, None, saves, canary());
    assert!(steps > 200, "{steps}");
    (1..=steps).for_each(|at| _ = dies_at_effect(dead, Some(at), saves, canary()));
}

#[test]
fn the_client_dies_between_any_two_effects() {
    for saves in [false, true] {
        dies_at_every_effect(CLIENT, saves, Canary::default);
    }
}

#[test]
fn all_three_die_between_any_two_effects() {
    dies_at_every_effect(WITH_CLIENT[2], true, Canary::default);
}

/// Some die when so many messages have come. Returns how many there were, and how often levels were
/// handed over.
fn die_at_message(dead: Dead, at: Option<u64>, canary: Canary) -> (u64, usize) {
    let mut world = deep(2, canary);
    let mut messages = 0;
    for (number, (block, access)) in (0..).zip(history()) {
        world.arrive(block, access.clone()).unwrap();
        while world.deliver().unwrap() {
            messages += 1;
            if Some(messages) == at {
                dead.come_back(&mut world);
                if !is_named(&world, number) {
                    world.arrive(block, access.clone()).unwrap();
                }
            }
        }
    }
    ends_well(&mut world, &history());
    let is_handed = |of: &&Message| matches!(of, Message::Across(_, Across::Handed(_)));
    (messages, world.seen.iter().flatten().filter(is_handed).count())
}

pub fn die_at_every_message(dead: Dead, canary: impl Fn() -> Canary) {
    let (messages, _) = die_at_message(dead, None, canary());
    let dies = |at| die_at_message(dead, Some(at), canary());
    let handed: usize = (1..=messages).map(|at| dies(at).1).sum();
    assert!(messages > 200 && handed > 20, "{dead:?}: {messages}, {handed}");
}

#[test]
fn a_cloud_dies_at_any_message() {
    CLOUDS[..2].iter().for_each(|dead| die_at_every_message(*dead, Canary::default));
}

#[test]
fn both_clouds_die_at_any_message() {
    die_at_every_message(CLOUDS[2], Canary::default);
}

#[test]
fn the_client_dies_with_clouds_at_any_message() {
    WITH_CLIENT.into_iter().for_each(|dead| die_at_every_message(dead, Canary::default));
}

/// Many accesses under way, blocks of a job asked for while it is; deaths again and again.
pub fn dies_while_much_is_under_way(seed: u64, canary: Canary) {
    let mut world = small(seed, canary);
    let mut coins = world.choice;
    let mut draw = |below: u64| {
        coins = coins.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (coins >> 33) % below
    };
    let mut asked = Vec::new();
    for k in 0..160u8 {
        let bytes = Bytes::copy_from_slice(&[k]);
        let access = Access::Write { offset: draw(8) as u32, bytes };
        let (block, access) = (draw(6) as u32, if draw(3) == 0 { Access::Read } else { access });
        asked.push((block, access.clone()));
        world.dies_at = (draw(12) == 0).then_some(world.steps + 1 + draw(6));
        world.arrive(block, access).unwrap();
        (0..draw(14)).for_each(|_| _ = world.deliver().unwrap());
        if world.is_dead {
            // Now and then with a cloud, or with both.
            let clouds: [&[u8]; 4] = [&[], &[0], &[1], &[0, 1]];
            let clouds = clouds[if draw(3) == 0 { 1 + draw(3) as usize } else { 0 }];
            Dead { client: true, clouds }.come_back(&mut world);
            let named = world.entries().filter(|entry| matches!(entry, Entry::Access(_))).count();
            for (block, access) in asked.clone().into_iter().skip(named) {
                world.arrive(block, access).unwrap();
            }
        } else if draw(8) == 0 {
            world.saves();
        } else if draw(20) == 0 {
            world.dies_at = None;
            let clouds: [&[u8]; 3] = [&[0], &[1], &[0, 1]];
            Dead { client: false, clouds: clouds[draw(3) as usize] }.come_back(&mut world);
        }
    }
    world.dies_at = None;
    world.settle().unwrap();
    ends_well(&mut world, &asked);
}

#[test]
fn deaths_while_much_is_under_way() {
    (0..40).for_each(|seed| dies_while_much_is_under_way(seed, Canary::default()));
}
