//! Ranges of which nobody will ask for a key again.

use bytes::Bytes;
use fogbank_txn::{Key, KeyRange, View};

use crate::support::{Setup, bytes, key, keys};

/// Writers fill every write batch: the range goes all the same, and its blocks are free at once.
#[tokio::test(start_paused = true)]
async fn a_range_goes_while_others_write() {
    let setup = Setup { capacity: 400, ..Setup::default() };
    let world = setup.start().await;
    world.fill(&keys(350), b"old").await;
    let writers: Vec<_> = (0..40_u8)
        .map(|n| {
            let session = world.proxy.session();
            tokio::spawn(async move {
                for round in 0..40_u8 {
                    let put = move |v: &mut View<'_>| {
                        v.put(&Key::new(b"other", &[n % 15]), Bytes::from(vec![round]), 0)
                    };
                    session.submit(put).await.unwrap();
                }
            })
        })
        .collect();
    let (session, began) = (world.proxy.session(), world.proxy.epoch());
    let range = KeyRange::group(b"g");
    let forget = range.clone();
    session.submit(move |v: &mut View<'_>| v.forget(&forget)).await.unwrap();
    let mut left = world.proxy.records();
    while left > 15 {
        world.next_epoch().await;
        let now = world.proxy.records();
        assert!(left - now <= 16 * 4 / 2, "{left} then {now}");
        left = now;
    }
    let epochs = world.proxy.epoch() - began;
    assert!(epochs <= 2 * 350_u64.div_ceil(32) + 4, "{epochs}");
    for writer in writers {
        writer.await.unwrap();
    }
    let seen = session.submit(move |v: &mut View<'_>| v.scan(&range, 10, false)).await.unwrap();
    assert!(seen.is_empty());
    // Every block is there again.
    world.fill(&keys(350), b"new").await;
    assert_eq!(world.get(&key(349)).await, Some(bytes("new")));
}

/// Whoever sees that nothing is left may use the range again, however often it was forgotten
/// before.
#[tokio::test(start_paused = true)]
async fn a_range_that_has_gone_is_used_again() {
    // Some of them end where an epoch forgets no more.
    for records in [1, 31, 32, 33, 64, 96, 200] {
        used_again(records).await;
    }
}

async fn used_again(records: u32) {
    let world = Setup::default().start().await;
    world.fill(&keys(records), b"old").await;
    let session = world.proxy.session();
    let range = KeyRange::group(b"g");
    loop {
        let forget = range.clone();
        let uses = session.submit(move |v: &mut View<'_>| {
            if v.count(b"g")? > 0 {
                v.forget(&forget)?;
                return Ok(false);
            }
            v.put(&key(7), bytes("new"), 0)?;
            Ok(true)
        });
        if uses.await.unwrap() {
            break;
        }
    }
    for _ in 0..4 {
        world.next_epoch().await;
    }
    assert_eq!(world.get(&key(7)).await, Some(bytes("new")), "{records}");
    assert_eq!(world.proxy.records(), 1);
}

/// It takes all slots of an epoch, and others write meanwhile.
#[tokio::test(start_paused = true)]
async fn a_program_that_fills_the_write_batch_does_not_wait_for_what_is_forgotten() {
    let setup = Setup { capacity: 2_000, ..Setup::default() };
    let world = setup.start().await;
    world.fill(&keys(1_500), b"old").await;
    let (session, other) = (world.proxy.session(), world.proxy.session());
    let forget = |v: &mut View<'_>| v.forget(&KeyRange::group(b"g"));
    session.submit(forget).await.unwrap();
    let began = world.proxy.epoch();
    let large = session.submit(|v: &mut View<'_>| {
        (0..16).try_for_each(|n| v.put(&Key::new(b"large", &[n]), bytes("v"), 0))
    });
    let small = other.submit(|v: &mut View<'_>| v.put(&Key::new(b"small", b""), bytes("v"), 0));
    large.await.unwrap();
    small.await.unwrap();
    let epochs = world.proxy.epoch() - began;
    assert!(epochs <= 6 && world.proxy.records() > 1_000, "{epochs}");
}

/// Long values count with all their blocks: an epoch takes no longer over them.
#[tokio::test(start_paused = true)]
async fn long_values_are_forgotten_more_slowly() {
    let world = Setup { capacity: 1_000, ..Setup::default() }.start().await;
    let long = [b'x'; 16 * 8]; // eight blocks
    for some in keys(40).chunks(2) {
        let some = some.to_vec();
        let put = move |v: &mut View<'_>| {
            some.iter().try_for_each(|key| v.put(key, Bytes::copy_from_slice(&long), 0))
        };
        world.proxy.session().submit(put).await.unwrap();
    }
    let session = world.proxy.session();
    session.submit(|v: &mut View<'_>| v.forget(&KeyRange::group(b"g"))).await.unwrap();
    let mut left = world.proxy.records();
    while left > 0 {
        world.next_epoch().await;
        let now = world.proxy.records();
        assert!(left - now <= 8, "{left} then {now}"); // of nine each, until there are 64
        left = now;
    }
}

/// A run that was taken back, or refused, forgets nothing.
#[tokio::test(start_paused = true)]
async fn what_never_was_forgets_nothing() {
    let world = Setup::default().start().await;
    world.fill(&keys(20), b"v").await;
    let (other, session) = (world.proxy.begin(), world.proxy.session());
    other.put(&Key::new(b"flag", b""), bytes("perhaps"), 0).await.unwrap();
    let range = KeyRange::group(b"g");
    let forgets = session.submit(move |v: &mut View<'_>| {
        if v.stat(&Key::new(b"flag", b""))?.is_some() {
            v.forget(&range)?;
        }
        Ok(())
    });
    other.abort();
    forgets.await.unwrap();
    let range = KeyRange::group(b"g");
    let refused = session.submit(move |v: &mut View<'_>| -> Result<(), _> {
        v.forget(&range)?;
        Err(fogbank_txn::Pause::Refused(fogbank_txn::Error::NotACounter))
    });
    assert!(refused.await.is_err());
    for _ in 0..4 {
        world.next_epoch().await;
    }
    assert_eq!(world.proxy.records(), 20);
}
