//! What a shuffler keeps of levels where memory has no room for them: in its store. Nothing that a
//! client gets depends on it, nothing stays there for ever, and a store that lies is caught.

use std::collections::BTreeMap;

use fogbank_env::Mutex;
use fogbank_mix::message::Handed;
use fogbank_store::{ArrayId, Call, ChunkName, Reply, StoreError, store_by_calls};

use super::data::beside_a_map;
use super::deaths::ends_well;
use super::*;
use crate::Error;

/// What a store does with the levels that a shuffler keeps in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    Keeps,
    /// One bit of every cell is another one when it is read.
    Spoils,
    /// Another version of what it is asked for, if it has one.
    IsOld,
    /// It has nothing of what was put.
    Loses,
    /// Puts nothing, and says so.
    IsFull,
    /// Says that it has deleted what it has not.
    Hoards,
}

struct Odd<S> {
    inner: S,
    habit: Habit,
    /// The first version of every chunk.
    first: Mutex<BTreeMap<(ArrayId, u32), Bytes>>,
}

impl<S: Store> Odd<S> {
    async fn call(&self, call: Call<'_>) -> fogbank_store::Result<Reply> {
        let of = |name: &ChunkName| name.array >= KEPT;
        match (&call, self.habit) {
            (Call::WriteChunks(writes), _) if writes.iter().any(|write| of(&write.chunk)) => {
                if self.habit == Habit::IsFull {
                    return Err(StoreError::Refused("it is full".into()));
                }
                for write in writes {
                    let at = (write.chunk.array, write.chunk.chunk);
                    self.first.lock().entry(at).or_insert_with(|| write.data.clone());
                }
                call.perform(&self.inner).await
            }
            (Call::DeleteChunks(names), Habit::Hoards) if names.iter().any(of) => Ok(Reply::Done),
            (Call::ReadChunks(names), _) if names.iter().any(of) => {
                let mut read = self.inner.read_chunks(names).await?;
                for (name, read) in names.iter().zip(&mut read) {
                    match self.habit {
                        Habit::Spoils => {
                            let mut bytes = read.take().unwrap().to_vec();
                            bytes.chunks_exact_mut(16 + 16).for_each(|cell| cell[3] ^= 1);
                            *read = Some(bytes.into());
                        }
                        Habit::IsOld => {
                            let first = self.first.lock();
                            *read = first.get(&(name.array, name.chunk)).cloned();
                        }
                        Habit::Loses => *read = None,
                        _ => {}
                    }
                }
                Ok(Reply::Chunks(read))
            }
            _ => call.perform(&self.inner).await,
        }
    }
}

store_by_calls!(Odd);

/// Arrays from here on are the shuffler's.
const KEPT: ArrayId = ArrayId(64);

/// What a level takes in memory, the largest that are kept.
const LEVEL_BYTES: u64 = 200;

fn world(habit: Habit, room: u64) -> (World, [Arc<Odd<MemoryStore>>; 2]) {
    let settings = settings(90, 16, layout(90, 8, 5, 30, 0));
    let mut world = World::new(settings, 4);
    let odds = [0, 1].map(|cloud| {
        let at = usize::from(cloud);
        world.rooms[at] = KeptRoom::new(room);
        gets(&mut world, cloud, habit)
    });
    (world, odds)
}

/// A cloud has another store, with nothing in it.
fn gets(world: &mut World, cloud: u8, habit: Habit) -> Arc<Odd<MemoryStore>> {
    let (inner, first) = (MemoryStore::new(), Mutex::default());
    let (odd, at) = (Arc::new(Odd { inner, habit, first }), usize::from(cloud));
    world.stores[at] = odd.clone();
    world.holders[at] = holder(world.shape, &world.plane.point(cloud), &world.stores[at]);
    world.opens(cloud);
    odd
}

/// Levels that lie in the stores.
fn stored(world: &World) -> usize {
    let levels = world.shape.stored_levels().map(|level| ArrayId(KEPT.0 + u16::from(level)));
    let of =
        |store: &Arc<dyn Store>, array| now(store.list_chunks(array)).map_or(0, |all| all.len());
    let all = levels.flat_map(|array| world.stores.iter().map(move |store| of(store, array)));
    all.sum()
}

/// Levels that a job below the top will read: what is kept, in memory or in a store.
fn due(world: &World) -> usize {
    let shape = world.shape;
    let due = |partition: u16| {
        let done = world.plane.pyramids[usize::from(partition)].done;
        let kept =
            |(level, count): &(u8, u64)| *level < shape.top() && !shape.has_spare(*level, *count);
        shape.filled(partition, done).filter(kept).count()
    };
    shape.all().map(due).sum()
}

fn handed(world: &World) -> usize {
    let is_handed = |at: &&Message| matches!(at, Message::Across(_, Across::Handed(Handed { .. })));
    world.seen.iter().flatten().filter(is_handed).count()
}

/// With room for all, for some and for none: values hold, no holder hands anything over, and a
/// store has what is due and no more.
#[test]
fn what_finds_no_room_comes_back_from_the_store() {
    for room in [u64::MAX, 2 * LEVEL_BYTES, 0] {
        let (world, odds) = world(Habit::Keeps, room);
        let world = beside_a_map(world, 1_500, 8);
        let (due, stored) = (due(&world), stored(&world));
        let puts: usize = odds.iter().map(|odd| odd.first.lock().len()).sum();
        match room {
            0 => assert!(due > 0 && stored == due, "{stored} of {due}"),
            u64::MAX => assert_eq!(puts, 0),
            _ => assert!(puts > 0 && stored <= due, "{stored} of {due}"),
        }
        assert_eq!(handed(&world), 0, "{room}");
        // What was taken is given back.
        let rooms = world.rooms.clone();
        assert!(room == 0 || rooms.iter().all(|of| of.left() <= room));
        drop(world);
        assert!(rooms.iter().all(|of| of.left() == room), "{room}");
    }
}

/// The canary of what was just looked at: a store that deletes nothing is seen.
#[test]
fn a_store_that_deletes_nothing_is_seen() {
    let world = beside_a_map(world(Habit::Hoards, 0).0, 600, 8);
    assert!(stored(&world) > 10 * due(&world), "{} of {}", stored(&world), due(&world));
}

/// A store that has lost what was kept, or has no room for it either: the holder hands it over.
#[test]
fn what_the_store_has_not_is_handed_over() {
    for habit in [Habit::Loses, Habit::IsFull] {
        let world = beside_a_map(world(habit, 0).0, 600, 8);
        assert!(handed(&world) > 20, "{habit:?}: {}", handed(&world));
        let is_kept = habit == Habit::Loses;
        assert_eq!(stored(&world), if is_kept { due(&world) } else { 0 });
    }
}

/// What a store has changed, or has of an older job, goes into a level that the client does not
/// take: that is the lie of the shuffler's cloud, and is told as its lie.
#[test]
fn a_store_that_lies_about_what_is_kept_is_its_clouds_lie() {
    for habit in [Habit::Spoils, Habit::IsOld] {
        for liar in [0, 1] {
            let (mut world, _) = world(Habit::Keeps, 0);
            world.is_strange = true;
            gets(&mut world, liar, habit);
            let told = (0..600u32).find_map(|access| {
                let asked = world.arrive(access * 7 % 90, Access::Read);
                asked.and_then(|()| world.settle()).err()
            });
            let told = told.unwrap_or_else(|| panic!("{habit:?} was not seen"));
            let name = ["the first cloud", "the second cloud"][usize::from(liar)];
            let is_told = matches!(told, Error::CloudLied(_)) && told.to_string().contains(name);
            assert!(is_told, "{habit:?} {liar}: {told}");
            let silent = world.plane.repeat();
            assert!(matches!(silent, Err(Error::CloudLied(_))), "{silent:?}");
        }
    }
}

/// A cloud that starts again has forgotten what it kept: it deletes it, is handed what it needs,
/// and keeps again what comes.
#[test]
fn a_start_leaves_nothing_behind() {
    let (mut world, _) = world(Habit::Keeps, 0);
    let asked: Vec<(u32, Access)> = (0..300).map(|k| (k * 7 % 90, Access::Read)).collect();
    let mut before = 0;
    for (at, (block, access)) in asked.iter().cloned().enumerate() {
        world.arrive(block, access).unwrap();
        if at % 60 == 59 {
            // In the middle of what is under way.
            (0..9).for_each(|_| _ = world.deliver().unwrap());
            before = before.max(stored(&world));
            for cloud in [0, 1] {
                world.is_strange = true;
                world.cloud_restarts(cloud).unwrap();
            }
            assert_eq!(stored(&world), 0);
        }
        world.settle().unwrap();
    }
    assert!(before > 4 && handed(&world) > 0, "{before}, {}", handed(&world));
    ends_well(&mut world, &asked);
    assert!(stored(&world) <= due(&world));
}
