//! Programs that change more than an epoch writes: 16 slots here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use fogbank_txn::{Bound, Error, Key, KeyRange, Lack, Pause, View};
use tokio::task::JoinHandle;

use crate::support::{Setup, World, bytes, increment, key, keys};

async fn filled(records: u32) -> World {
    let world = Setup { capacity: 2_000, ..Setup::default() }.start().await;
    world.fill(&keys(records), b"old").await;
    world
}

fn other(n: u32) -> Key {
    Key::new(b"h", &n.to_be_bytes())
}

/// Every record of `g` becomes one of `h` with the same value.
fn moves(view: &mut View<'_>) -> Result<usize, fogbank_txn::Pause> {
    let found = view.scan(&KeyRange::group(b"g"), usize::MAX, false)?;
    let keys: Vec<Key> = found.into_iter().map(|(key, _)| key).collect();
    let records = view.get_many(&keys)?;
    for (key, record) in keys.iter().zip(records) {
        let Some(record) = record else { continue };
        view.put(&Key::new(b"h", key.member()), record.value, record.attr + 1)?;
        view.delete(key)?;
    }
    Ok(keys.len())
}

/// How many there are in each group, once counted and once gone through.
fn look(view: &mut View<'_>) -> Result<(u64, u64), fogbank_txn::Pause> {
    let counted = (view.count(b"g")?, view.count(b"h")?);
    let g = view.scan(&KeyRange::group(b"g"), usize::MAX, false)?.len();
    let h = view.scan(&KeyRange::group(b"h"), usize::MAX, true)?.len();
    assert_eq!(counted, (g as u64, h as u64));
    Ok(counted)
}

#[tokio::test(start_paused = true)]
async fn readers_see_all_of_a_large_program_or_nothing() {
    let world = filled(300).await;
    let (session, reader) = (world.proxy.session(), world.proxy.session());
    let began = world.proxy.epoch();
    let moved = tokio::spawn(session.submit(moves));
    let mut looks = 0;
    loop {
        let seen = reader.submit(look).await.unwrap();
        if seen == (0, 300) {
            break;
        }
        assert_eq!(seen, (300, 0));
        looks += 1;
    }
    assert_eq!(moved.await.unwrap(), Ok(300));
    assert!(looks > 10, "others are answered meanwhile: {looks}");
    // Half of the slots for the puts, and a third of a slot for each removal.
    let epochs = world.proxy.epoch() - began;
    assert!((300 / 16..80).contains(&epochs), "{epochs}");
    for n in [0, 150, 299] {
        assert_eq!(world.get(&other(n)).await, Some(bytes("old")));
        assert_eq!(world.get(&key(n)).await, None);
    }
    // It is all part of the directory now, and its old blocks are free: 1,700 more, and no more.
    for _ in 0..60 {
        world.next_epoch().await;
    }
    assert_eq!(session.submit(look).await.unwrap(), (0, 300));
    world.fill(&(1_000..2_600).map(key).collect::<Vec<_>>(), b"new").await;
    assert_eq!(session.submit(look).await.unwrap(), (1_600, 300));
}

/// Clients that write beside a staged program.
struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<u64>>,
}

impl Writers {
    /// Six that go through the numbers below `below`, each in an order of its own, and do with one
    /// after the other what `write` does, which says what it has added.
    fn start(
        world: &World,
        below: u32,
        write: impl Fn(&mut View<'_>, u32) -> Result<u64, Pause> + Clone + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = |first: u32| {
            let (session, stop, write) = (world.proxy.session(), stop.clone(), write.clone());
            tokio::spawn(async move {
                let (mut n, mut sum) = (first, 0);
                while !stop.load(Ordering::Relaxed) {
                    n = (n * 7 + 13) % below;
                    let write = write.clone();
                    sum += session.submit(move |view: &mut View<'_>| write(view, n)).await.unwrap();
                }
                sum
            })
        };
        let tasks = (0..6).map(|number| writer(number * 31)).collect();
        Self { stop, tasks }
    }

    /// Ends them; what they have added.
    async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = 0;
        for task in self.tasks {
            sum += task.await.unwrap();
        }
        sum
    }
}

/// Increments go to whichever group a record is in; records come and go. No increment is lost.
#[tokio::test(start_paused = true)]
async fn what_others_write_meanwhile_goes_along() {
    let world = Setup { capacity: 2_000, ..Setup::default() }.start().await;
    world.fill(&keys(120), b"0").await;
    // Some of them are new.
    let writers = Writers::start(&world, 130, |view, n| {
        let there = if view.stat(&other(n))?.is_some() { other(n) } else { key(n) };
        fogbank_txn::Program::run(&mut increment(there), view)?;
        Ok(1)
    });
    let session = world.proxy.session();
    let moved = session.submit(moves).await.unwrap();
    assert!(moved >= 120, "{moved}");
    for _ in 0..5 {
        world.next_epoch().await;
    }
    let sum = writers.stop().await;
    let mut total = 0;
    for n in 0..130 {
        for key in [key(n), other(n)] {
            let value = world.get(&key).await.unwrap_or_default();
            total += std::str::from_utf8(&value).unwrap().parse::<u64>().unwrap_or_default();
        }
    }
    assert_eq!(total, sum);
}

/// Written, deleted and given another attribute behind it, in the epoch in which it ends.
#[tokio::test(start_paused = true)]
async fn what_follows_in_the_same_epoch_stands_on_it() {
    for kind in 0..4 {
        let world = filled(100).await;
        let session = world.proxy.session();
        let large = session.submit(moves);
        // Of the same session: it takes effect next, in the same epoch if that has room.
        let after = session.submit(move |view: &mut View<'_>| match kind {
            0 => view.put(&other(5), bytes("a longer value than before"), 7),
            1 => view.delete(&other(5)).map(drop),
            2 => view.set_attr(&other(5), 7).map(drop),
            _ => view.put(&key(5), bytes("again"), 7),
        });
        assert_eq!(large.await, Ok(100));
        after.await.unwrap();
        for _ in 0..40 {
            world.next_epoch().await;
        }
        let seen = session.submit(move |view: &mut View<'_>| {
            let (there, moved) = (view.get(&key(5))?, view.get(&other(5))?);
            let shown = |r: Option<fogbank_txn::Record>| r.map(|r| (r.value, r.attr));
            Ok((shown(there), shown(moved)))
        });
        let seen = seen.await.unwrap();
        let moved = Some((bytes("old"), 1));
        assert_eq!(
            seen,
            match kind {
                0 => (None, Some((bytes("a longer value than before"), 7))),
                1 => (None, None),
                2 => (None, Some((bytes("old"), 7))),
                _ => (Some((bytes("again"), 7)), moved),
            }
        );
        world.fill(&(1_000..2_800).map(key).collect::<Vec<_>>(), b"new").await;
    }
}

/// It has read from a transaction that is taken back when all is staged and in place.
#[tokio::test(start_paused = true)]
async fn one_that_has_read_what_never_was_runs_again() {
    let world = filled(100).await;
    let session = world.proxy.session();
    let flag = Key::new(b"flag", b"");
    let (seen, of) = (flag.clone(), Arc::new(AtomicU64::new(0)));
    let runs = of.clone();
    let large = tokio::spawn(session.submit(move |view: &mut View<'_>| {
        runs.fetch_add(1, Ordering::Relaxed);
        let is_there = view.stat(&seen)?.is_some();
        Ok((moves(view)?, is_there))
    }));
    for _ in 0..40 {
        let txn = world.proxy.begin();
        if txn.put(&flag, bytes("perhaps"), 0).await.is_ok() {
            world.sleep_ms(25).await;
        }
        txn.abort();
    }
    assert_eq!(large.await.unwrap(), Ok((100, false)));
    assert!(of.load(Ordering::Relaxed) > 5);
    assert_eq!(session.submit(look).await.unwrap(), (0, 100));
}

#[tokio::test(start_paused = true)]
async fn one_whose_client_goes_leaves_nothing_behind() {
    let world = filled(400).await;
    let session = world.proxy.session();
    let moved = session.submit(moves);
    for _ in 0..12 {
        world.next_epoch().await;
    }
    drop((session, moved));
    let session = world.proxy.session();
    assert_eq!(session.submit(look).await.unwrap(), (400, 0));
    for _ in 0..2 {
        world.next_epoch().await;
    }
    // Every address is free that was.
    world.fill(&(1_000..1_800).map(key).collect::<Vec<_>>(), &[7; 2 * 16]).await;
    assert_eq!(session.submit(look).await.unwrap(), (1_200, 0));
    // And the next one finds the stage free.
    let deleted = session
        .submit(|view: &mut View<'_>| (0..300).try_for_each(|n| view.delete(&key(n)).map(drop)));
    deleted.await.unwrap();
    assert_eq!(session.submit(look).await.unwrap(), (900, 0));
}

/// A full store takes what only removes.
#[tokio::test(start_paused = true)]
async fn a_full_store_is_emptied_by_one_program() {
    let world = Setup { capacity: 600, ..Setup::default() }.start().await;
    world.fill(&keys(560), b"old").await;
    let session = world.proxy.session();
    let more = session.submit(|view: &mut View<'_>| {
        (0..100).try_for_each(|n| view.put(&other(n), bytes("v"), 0))
    });
    // Three find room, and 37 blocks more: what is held back are records without any.
    let lack = Lack { blocks: 60, records: 97, key_bytes: 0, is_staged: false };
    assert_eq!(more.await, Err(Error::NoRoom(lack)));
    let keeps = "what it replaces keeps its room until all of it is written";
    let lack = Lack { is_staged: true, ..lack };
    assert_eq!(lack.to_string(), format!("60 blocks of values and 97 records; {keeps}"));
    let deleted = session
        .submit(|view: &mut View<'_>| (0..500).try_for_each(|n| view.delete(&key(n)).map(drop)));
    deleted.await.unwrap();
    // What finds no room until it is given back waits for that.
    world.fill(&(0..480).map(other).collect::<Vec<_>>(), b"new").await;
    assert_eq!(session.submit(look).await.unwrap(), (60, 480));
}

#[tokio::test(start_paused = true)]
async fn there_is_a_limit_and_it_is_told() {
    let mut setup = Setup { capacity: 2_000, ..Setup::default() };
    setup.settings.gathered_bytes_max = 16 * 100;
    let world = setup.start().await;
    let session = world.proxy.session();
    let puts = |of: u32| {
        move |view: &mut View<'_>| (0..of).try_for_each(|n| view.put(&key(n), bytes("v"), 0))
    };
    let limit = world.proxy.limits().records_staged_max;
    assert_eq!(limit, 100);
    let told = Error::TooLarge { what: Bound::Writes, needed: 101, limit };
    assert_eq!(session.submit(puts(500)).await, Err(told));
    assert_eq!(session.submit(puts(100)).await, Ok(()));
    assert_eq!(session.submit(look).await.unwrap(), (100, 0));
}

/// Long values, some of which take more than half of an epoch.
#[tokio::test(start_paused = true)]
async fn long_values_are_staged_when_an_epoch_is_whole() {
    let world = Setup { capacity: 2_000, ..Setup::default() }.start().await;
    let session = world.proxy.session();
    let long = |n: u32| Bytes::from(vec![n as u8; 16 * 3 * (n as usize % 3)]);
    let put = session.submit(move |view: &mut View<'_>| {
        (0..30).try_for_each(|n| view.put(&key(n), long(n), n.into()))
    });
    put.await.unwrap();
    for n in 0..30 {
        assert_eq!(world.get(&key(n)).await, Some(long(n)));
    }
}

/// Gives every record of `g` this attribute; how many there are.
fn marks(attr: u64) -> impl fogbank_txn::Program<Reply = usize> {
    move |view: &mut View<'_>| {
        let found = view.scan(&KeyRange::group(b"g"), usize::MAX, false)?;
        for (key, _) in &found {
            view.set_attr(key, attr)?;
        }
        Ok(found.len())
    }
}

/// The attributes that there are in `g`, each once.
fn attributes(view: &mut View<'_>) -> Result<BTreeSet<u64>, fogbank_txn::Pause> {
    let found = view.scan(&KeyRange::group(b"g"), usize::MAX, false)?;
    Ok(found.into_iter().map(|(_, stat)| stat.attr).collect())
}

/// On a store that is full, too: it takes no room.
#[tokio::test(start_paused = true)]
async fn attributes_alone_are_staged_and_values_stay() {
    let world = Setup { capacity: 600, ..Setup::default() }.start().await;
    world.fill(&keys(560), b"old").await;
    let (session, reader) = (world.proxy.session(), world.proxy.session());
    for attr in [7, 9] {
        let (before, began) = (reader.submit(attributes).await.unwrap(), world.proxy.epoch());
        let marked = tokio::spawn(session.submit(marks(attr)));
        loop {
            let seen = reader.submit(attributes).await.unwrap();
            if seen == BTreeSet::from([attr]) {
                break;
            }
            assert_eq!(seen, before);
        }
        assert_eq!(marked.await.unwrap(), Ok(560));
        let epochs = world.proxy.epoch() - began;
        assert!((560 / 3 / 16..40).contains(&epochs), "{epochs}");
    }
    for n in [0, 300, 559] {
        assert_eq!(world.get(&key(n)).await, Some(bytes("old")));
    }
    // Every block is where it was: what is deleted gives its room back.
    let some = |view: &mut View<'_>| (0..300).try_for_each(|n| view.delete(&key(n)).map(drop));
    session.submit(some).await.unwrap();
    world.fill(&(0..280).map(other).collect::<Vec<_>>(), b"new").await;
    assert_eq!(session.submit(look).await.unwrap(), (260, 280));
}

/// Others give records other values meanwhile, remove some and make new ones.
#[tokio::test(start_paused = true)]
async fn attributes_go_along_with_values_that_change_meanwhile() {
    let world = Setup { capacity: 2_000, ..Setup::default() }.start().await;
    world.fill(&keys(200), b"0").await;
    let writers = Writers::start(&world, 200, |view, n| match (n, view.get(&key(n))?) {
        (0..20, Some(record)) => {
            view.delete(&key(n))?;
            view.put(&other(n), record.value, record.attr)?;
            Ok(0)
        }
        (0..20, None) => Ok(0),
        (_, record) => {
            let record = record.unwrap();
            let old = std::str::from_utf8(&record.value).unwrap();
            let new = old.parse::<u64>().unwrap() + 1;
            view.put(&key(n), bytes(&new.to_string()), record.attr)?;
            Ok(1)
        }
    });
    let session = world.proxy.session();
    for attr in 1..6 {
        let marked = session.submit(marks(attr)).await.unwrap();
        assert!(marked >= 180, "{marked}");
        assert_eq!(session.submit(attributes).await.unwrap(), BTreeSet::from([attr]));
    }
    let sum = writers.stop().await;
    let mut total = 0;
    for n in 20..200 {
        let value = world.get(&key(n)).await.unwrap();
        total += std::str::from_utf8(&value).unwrap().parse::<u64>().unwrap();
    }
    assert_eq!(total, sum);
    assert!(total > 100, "{total}");
}

/// Records that come and go within one program leave nothing, so there is no end of them.
#[tokio::test(start_paused = true)]
async fn what_comes_and_goes_in_one_program_takes_nothing() {
    let world = filled(100).await;
    let session = world.proxy.session();
    let passing = session.submit(|view: &mut View<'_>| {
        (0..400).try_for_each(|n| {
            view.put(&other(n), bytes("v"), 0)?;
            view.delete(&other(n)).map(drop)
        })
    });
    passing.await.unwrap();
    assert_eq!(session.submit(look).await.unwrap(), (100, 0));
}

/// Nobody else writes: then it has all of every epoch, three removals for each of 16 slots.
#[tokio::test(start_paused = true)]
async fn what_only_removes_takes_what_the_epochs_have_left() {
    let world = filled(960).await;
    let session = world.proxy.session();
    world.next_epoch().await;
    let began = world.proxy.epoch();
    let all = |view: &mut View<'_>| (0..960).try_for_each(|n| view.delete(&key(n)).map(drop));
    session.submit(all).await.unwrap();
    let epochs = world.proxy.epoch() - began;
    assert!((20..24).contains(&epochs), "{epochs}");
    assert_eq!(session.submit(look).await.unwrap(), (0, 0));
}
