//! Values of every length, deletes, attributes, scans and counts, and the directory's checkpoint.

use std::ops::Bound;

use bytes::Bytes;
use fogbank_txn::{Error, Key, KeyRange, Lack, Stat, View};

use crate::support::{Setup, bytes, key, keys};

#[tokio::test(start_paused = true)]
async fn values_of_every_length_come_back() {
    let world = Setup::default().start().await;
    let session = world.proxy.session();
    let value = |len: usize, salt: u8| -> Bytes {
        (0..len).map(|i| (i as u8).wrapping_mul(7) ^ salt).collect::<Vec<u8>>().into()
    };
    let lengths = [0, 1, 15, 16, 17, 31, 32, 33, 100, 128];
    // Grow, shrink and grow again: blocks are taken, given up and taken again.
    for round in 0..6_usize {
        for (n, _) in lengths.iter().enumerate() {
            let len = lengths[(n + round * 3) % lengths.len()];
            let put = value(len, round as u8);
            session
                .submit(move |v: &mut View<'_>| v.put(&key(n as u32), put.clone(), len as u64))
                .await
                .unwrap();
        }
        for (n, _) in lengths.iter().enumerate() {
            let len = lengths[(n + round * 3) % lengths.len()];
            let read = session.submit(move |v: &mut View<'_>| v.get(&key(n as u32))).await;
            let record = read.unwrap().unwrap();
            assert_eq!((record.value, record.attr), (value(len, round as u8), len as u64));
        }
    }
    let long = value(129, 0);
    let refused = session.submit(move |v: &mut View<'_>| v.put(&key(0), long.clone(), 0)).await;
    assert_eq!(refused, Err(Error::ValueTooLong { bytes: 129, limit: 128 }));
    let name = Key::new(b"g", &[7; 5000]);
    let refused = session.submit(move |v: &mut View<'_>| v.put(&name, Bytes::new(), 0)).await;
    assert_eq!(refused, Err(Error::KeyTooLong { bytes: 5_002, limit: 4_096 }));
}

#[tokio::test(start_paused = true)]
async fn absent_and_empty_records_need_no_block() {
    let world = Setup::default().start().await;
    assert_eq!(world.get(&key(1)).await, None);
    world.fill(&keys(3), b"").await;
    assert_eq!(world.get(&key(1)).await, Some(Bytes::new()));
    assert!(world.reads().iter().all(Vec::is_empty));
}

#[tokio::test(start_paused = true)]
async fn deleted_addresses_are_recycled_by_quota_and_a_full_store_says_so() {
    let setup = Setup { capacity: 9, ..Setup::default() };
    let world = setup.start().await;
    world.fill(&keys(8), b"x").await;
    let session = world.proxy.session();
    let put = |n: u32| move |v: &mut View<'_>| v.put(&key(n), bytes("y"), 0);
    let lack = Lack { records: 1, ..Lack::default() };
    assert_eq!(session.submit(put(8)).await, Err(Error::NoRoom(lack)));
    let gone = session.submit(|v: &mut View<'_>| v.delete(&key(0)));
    // Deleted in the same epoch: it will be free, only not now.
    let waits = session.submit(put(0));
    assert!(gone.await.unwrap());
    waits.await.unwrap();
    for round in 0..5 {
        let gone = session.submit(move |v: &mut View<'_>| v.delete(&key(round)));
        assert!(gone.await.unwrap());
        // The block is on its way back: the program waits for it rather than fail.
        session.submit(put(8 + round)).await.unwrap();
        let again = session.submit(move |v: &mut View<'_>| v.delete(&key(round)));
        assert!(!again.await.unwrap());
    }
    for n in 5..13 {
        assert!(world.get(&key(n)).await.is_some());
    }
    let emptied = {
        let record = world.record.lock();
        let empties = |c: &crate::support::Call| match c {
            crate::support::Call::Write(w) => w.iter().filter(|(_, full)| !full).count(),
            _ => 0,
        };
        record.calls.iter().map(|(_, call)| empties(call)).max().unwrap()
    };
    assert!(emptied <= world.setup.write_batch);
}

#[tokio::test(start_paused = true)]
async fn the_key_budget_bounds_the_directory() {
    let mut setup = Setup { capacity: 9, ..Setup::default() };
    setup.settings.key_budget_bytes = 8;
    let world = setup.start().await;
    let session = world.proxy.session();
    let put = |n: u8, len: usize| {
        let key = Key::new(b"g", &vec![n; len]);
        session.submit(move |v: &mut View<'_>| v.put(&key, Bytes::new(), 0))
    };
    put(1, 30).await.unwrap();
    assert!(matches!(put(2, 31).await, Err(Error::NoRoom(Lack { records: 0, key_bytes: 1, .. }))));
    put(2, 30).await.unwrap();
    assert!(matches!(put(3, 0).await, Err(Error::NoRoom(Lack { records: 0, key_bytes: 2, .. }))));
}

#[tokio::test(start_paused = true)]
async fn attributes_change_without_a_round() {
    let world = Setup::default().start().await;
    world.fill(&keys(1), b"v").await;
    let session = world.proxy.session();
    let set = session.submit(|v: &mut View<'_>| {
        assert!(!v.set_attr(&key(7), 1)?);
        assert!(v.set_attr(&key(0), 5)?);
        assert_eq!(v.stat(&key(0))?, Some(Stat { len: 1, attr: 5 }));
        v.set_attr(&key(0), 6)
    });
    assert!(set.await.unwrap());
    assert!(world.reads().iter().all(Vec::is_empty));
    let record = session.submit(|v: &mut View<'_>| v.get(&key(0))).await.unwrap().unwrap();
    assert_eq!((&record.value[..], record.attr), (&b"v"[..], 6));
    // A new attribute over a new value, in one program and over two.
    session.submit(|v: &mut View<'_>| v.put(&key(0), bytes("w"), 1)).await.unwrap();
    let value = session.submit(|v: &mut View<'_>| v.put(&key(0), bytes("z"), 1));
    let attr = session.submit(|v: &mut View<'_>| v.set_attr(&key(0), 9));
    value.await.unwrap();
    attr.await.unwrap();
    let record = session.submit(|v: &mut View<'_>| v.get(&key(0))).await.unwrap().unwrap();
    assert_eq!((&record.value[..], record.attr), (&b"z"[..], 9));
}

#[tokio::test(start_paused = true)]
async fn scans_and_counts_see_committed_uncommitted_and_own_writes() {
    let world = Setup::default().start().await;
    world.fill(&keys(6), b"v").await;
    let txn = world.proxy.begin();
    txn.delete(&key(1)).await.unwrap();
    txn.put(&key(10), bytes("w"), 0).await.unwrap();
    let session = world.proxy.session();
    let seen = session.submit(|v: &mut View<'_>| {
        v.delete(&key(2))?;
        v.put(&key(20), bytes("own"), 3)?;
        let all = v.scan(&KeyRange::group(b"g"), 100, false)?;
        let back = v.scan(&KeyRange::group(b"g"), 3, true)?;
        Ok((all, back, v.count(b"g")?, v.count(b"nobody")?))
    });
    txn.commit().await.unwrap();
    let (all, back, count, nobody) = seen.await.unwrap();
    let names = |found: &[(Key, Stat)]| found.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>();
    assert_eq!(names(&all), [0, 3, 4, 5, 10, 20].map(key));
    assert_eq!(names(&back), [20, 10, 5].map(key));
    assert_eq!((count, nobody), (6, 0));
    assert_eq!(all[5].1, Stat { len: 3, attr: 3 });
    world.next_epoch().await;
    let part = KeyRange::members(
        b"g",
        Bound::Excluded(&0_u32.to_be_bytes()),
        Bound::Included(&10_u32.to_be_bytes()),
    );
    let found = session.submit(move |v: &mut View<'_>| {
        Ok((v.scan(&part, 2, false)?, v.scan(&part, 9, true)?, v.count(b"g")?))
    });
    let (two, rest, count) = found.await.unwrap();
    assert_eq!(names(&two), [3, 4].map(key));
    assert_eq!(names(&rest), [10, 5, 4, 3].map(key));
    assert_eq!(count, 6);
}

#[tokio::test(start_paused = true)]
async fn a_closed_proxy_restores_from_its_sections() {
    let world = Setup::default().start().await;
    world.fill(&keys(9), b"seventeen bytes!!").await;
    let session = world.proxy.session();
    session.submit(|v: &mut View<'_>| v.set_attr(&key(3), 42)).await.unwrap();
    session.submit(|v: &mut View<'_>| v.delete(&key(4))).await.unwrap();
    let (record, clock, setup) = (world.record.clone(), world.clock.clone(), world.setup.clone());
    let mut closed = world.proxy.close().await.unwrap();
    let late = session.submit(|v: &mut View<'_>| v.get(&key(0))).await;
    assert_eq!(late, Err(Error::Closed));
    let sections: Vec<_> = closed.save().unwrap().map(Result::unwrap).collect();
    for section in &sections {
        assert!(section.data.len() <= section.padded_len);
    }
    let padded: Vec<_> = sections.iter().map(|s| s.padded_len).collect();
    assert_eq!(padded.iter().sum::<usize>(), 8 + 256 * (18 + 64));
    let broken: Vec<_> = (sections.iter().cloned())
        .map(|mut s| {
            s.data.truncate(s.data.len() / 2);
            s
        })
        .collect();
    let other = Setup::default().start().await.proxy.close().await.unwrap();
    let refused =
        setup.clone().start_over(other.engine, record.clone(), clock.clone(), Some(&broken));
    assert!(matches!(refused.await, Err(Error::BadCheckpoint(_))));
    let sections = Some(&sections[..]);
    let world = setup.start_over(closed.engine, record, clock, sections).await.unwrap();
    for n in 0..9 {
        let value = world.get(&key(n)).await;
        assert_eq!(value.is_some(), n != 4);
        assert!(n == 4 || value.unwrap() == "seventeen bytes!!");
    }
    let session = world.proxy.session();
    let stat = session.submit(|v: &mut View<'_>| Ok((v.stat(&key(3))?, v.count(b"g")?)));
    assert_eq!(stat.await.unwrap(), (Some(Stat { len: 17, attr: 42 }), 8));
    world.fill(&keys(20), b"more").await;
    assert_eq!(world.get(&key(4)).await.unwrap(), "more");
}

/// A full store needs no room for what a program puts in place of what it removes, and keeps none
/// of it for anybody else.
#[tokio::test(start_paused = true)]
async fn records_move_within_a_full_store() {
    let world = Setup { capacity: 34, ..Setup::default() }.start().await;
    world.fill(&keys(32), b"0123456789abcdef").await;
    let session = world.proxy.session();
    let moves = |from: u32, to: u32| {
        move |view: &mut View<'_>| {
            let Some(record) = view.get(&key(from))? else { return Ok(false) };
            view.delete(&key(from))?;
            view.put(&key(to), record.value, record.attr)?;
            Ok(true)
        }
    };
    let put = |n: u32| move |view: &mut View<'_>| view.put(&key(n), bytes("new"), 0);
    for round in 0..20 {
        let (from, to) = (round % 32, 100 + round);
        // One behind the other in the epoch; the key that has moved is new to whoever puts it
        // again.
        let there = session.submit(moves(from, to));
        let again = session.submit(put(from));
        let back = session.submit(moves(to, from));
        assert_eq!(there.await, Ok(true));
        match again.await {
            // If that has found room, it waited for what something else gave back: nothing did.
            Err(Error::NoRoom(lack)) => assert_eq!((lack.blocks, lack.records), (0, 1), "{round}"),
            other => panic!("{round}: {other:?}"),
        }
        assert_eq!(back.await, Ok(true));
    }
    for n in 0..32 {
        assert_eq!(world.get(&key(n)).await, Some(bytes("0123456789abcdef")), "{n}");
    }
    // Two for one is one too many.
    let doubles = session.submit(|view: &mut View<'_>| {
        view.delete(&key(0))?;
        (200..202).try_for_each(|n| view.put(&key(n), bytes("new"), 0))
    });
    assert!(matches!(doubles.await, Err(Error::NoRoom(Lack { records: 1, .. }))));
    assert_eq!(session.submit(moves(0, 300)).await, Ok(true));
}
