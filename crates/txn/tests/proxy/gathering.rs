//! Programs that read more than the batches of one epoch bring.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use fogbank_txn::{Bound, Error, View};

use crate::support::{Setup, World, bytes, key, keys};

const RECORDS: u32 = 200;

async fn filled(setup: Setup) -> World {
    let world = setup.start().await;
    world.fill(&keys(RECORDS), b"0").await;
    world.next_epoch().await;
    world
}

fn values(records: Vec<Option<fogbank_txn::Record>>) -> Vec<Option<Bytes>> {
    records.into_iter().map(|record| record.map(|record| record.value)).collect()
}

/// Four records always have one value: the first and the last that are read, and two between them.
/// They are written in every epoch that the reads take.
#[tokio::test(start_paused = true)]
async fn what_several_epochs_have_read_is_of_one_instant() {
    let world = filled(Setup::default()).await;
    let same = [0, 70, 140, RECORDS - 1];
    let stop = Arc::new(AtomicBool::new(false));
    let (session, stopped) = (world.proxy.session(), stop.clone());
    let writer = tokio::spawn(async move {
        let mut rounds = 0_u32;
        while !stopped.load(Relaxed) {
            rounds += 1;
            let write = move |v: &mut View<'_>| {
                let value = bytes(&rounds.to_string());
                same.iter().try_for_each(|n| v.put(&key(*n), value.clone(), 0))
            };
            session.submit(write).await.unwrap();
        }
        rounds
    });
    world.sleep_ms(100).await;
    let (began, reader) = (world.proxy.epoch(), world.proxy.session());
    for _ in 0..3 {
        let read = reader.submit(|v: &mut View<'_>| v.get_many(&keys(RECORDS)));
        let read = values(read.await.unwrap());
        let seen: Vec<_> = same.iter().map(|n| read[*n as usize].clone().unwrap()).collect();
        assert!(seen.iter().all(|value| *value == seen[0] && *value != "0"), "{seen:?}");
        let others = (0..RECORDS).filter(|n| !same.contains(n));
        assert!(others.into_iter().all(|n| read[n as usize].as_deref() == Some(b"0")));
    }
    // 24 blocks an epoch; every second batch is for whoever reads that much.
    let epochs = world.proxy.epoch() - began;
    assert!((3 * 9..3 * 20).contains(&epochs), "{epochs}");
    stop.store(true, Relaxed);
    assert!(writer.await.unwrap() > 3 * 8, "the writer went on meanwhile");
}

/// One that is deleted meanwhile is absent, one that is made is there.
#[tokio::test(start_paused = true)]
async fn what_is_deleted_and_made_meanwhile_is_seen_as_it_is_in_the_end() {
    let world = filled(Setup::default()).await;
    let (reader, writer) = (world.proxy.session(), world.proxy.session());
    let read = reader.submit(|v: &mut View<'_>| v.get_many(&keys(RECORDS + 1)));
    for _ in 0..4 {
        world.next_epoch().await;
    }
    let change = |v: &mut View<'_>| {
        v.delete(&key(0))?;
        v.set_attr(&key(1), 7)?;
        v.put(&key(2), bytes("a value of more than one block"), 0)?;
        v.put(&key(RECORDS), bytes("made"), 0)
    };
    writer.submit(change).await.unwrap();
    let read = read.await.unwrap();
    assert_eq!((read[0].as_ref(), read[1].as_ref().unwrap().attr), (None, 7));
    let read = values(read);
    assert_eq!(read[1].as_deref(), Some(&b"0"[..]));
    assert_eq!(read[2].as_deref(), Some(&b"a value of more than one block"[..]));
    assert_eq!(read[RECORDS as usize].as_deref(), Some(&b"made"[..]));
}

/// Reads that each need what the one before has read: more of them than an epoch has batches.
#[tokio::test(start_paused = true)]
async fn a_chain_of_reads_goes_on_in_the_next_epoch() {
    let world = filled(Setup::default()).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let (session, counted) = (world.proxy.session(), runs.clone());
    let chain = session.submit(move |v: &mut View<'_>| {
        counted.fetch_add(1, Relaxed);
        (0..20).try_for_each(|n| v.get(&key(n)).map(drop))
    });
    chain.await.unwrap();
    assert!((20..=40).contains(&runs.load(Relaxed)), "{runs:?}");
    let read: usize = world.reads().iter().map(Vec::len).sum();
    assert_eq!(read, 20, "each once");
}

/// Nobody waits until it has ended.
#[tokio::test(start_paused = true)]
async fn others_get_their_batches_meanwhile() {
    let world = filled(Setup::default()).await;
    let (large, small) = (world.proxy.session(), world.proxy.session());
    let began = world.proxy.epoch();
    let mut reads: Vec<_> = (0..3)
        .map(|_| Box::pin(large.submit(|v: &mut View<'_>| v.get_many(&keys(RECORDS)))))
        .collect();
    for round in 0..8 {
        let get = |v: &mut View<'_>| v.get_many(&keys(RECORDS)[190..194]);
        small.submit(get).await.unwrap();
        let epochs = world.proxy.epoch() - began;
        assert!(epochs <= 2 * (round + 1), "{epochs} after {round}");
    }
    for read in &mut reads {
        assert_eq!(read.await.unwrap().len(), RECORDS as usize);
    }
    assert!(world.reads().iter().all(|batch| batch.len() <= 8));
}

#[tokio::test(start_paused = true)]
async fn more_than_the_memory_for_it_is_refused() {
    let mut setup = Setup::default();
    setup.settings.gathered_bytes_max = 100 * setup.value_bytes;
    let world = filled(setup).await;
    let session = world.proxy.session();
    let most = session.submit(|v: &mut View<'_>| v.get_many(&keys(100)));
    assert_eq!(most.await.unwrap().len(), 100);
    let more = session.submit(|v: &mut View<'_>| v.get_many(&keys(101)));
    let refused = more.await.map(drop);
    let error = Error::TooLarge { what: Bound::Reads, needed: 101, limit: 100 };
    assert_eq!(refused, Err(error));
}
