//! Saving, restoring in a new opening, and reading again exactly what was read before.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::Randomness;

use super::cloud::{Cloud, Seen};
use super::{Journal, below, engine, keys, saved, settings, workload};
use crate::ring::{RingEngine, RingSettings};
use crate::{Address, BatchEngine, Error, RecoverableEngine, Section};

const CAPACITY: u32 = 150;

fn value(address: u32, generation: u32) -> Bytes {
    Bytes::from([address.to_le_bytes(), generation.to_le_bytes(), [7; 4]].concat().repeat(2))
}

async fn write_all(engine: &mut RingEngine, generation: u32) {
    for first in (0..CAPACITY).step_by(5) {
        let some = |a: u32| (!a.is_multiple_of(11)).then(|| value(a, generation));
        let writes = (first..first + 5).map(|a| (Address(a), some(a))).collect();
        engine.write_batch(writes).await.unwrap();
        engine.read_batch(&[Address(first)]).await.unwrap();
        engine.commit().await.unwrap();
    }
}

async fn check_all(engine: &mut RingEngine, generation: u32) {
    for address in 0..CAPACITY {
        let expected = (address % 11 != 0).then(|| value(address, generation));
        assert_eq!(engine.read_batch(&[Address(address)]).await.unwrap(), [expected]);
        if address.is_multiple_of(10) {
            engine.commit().await.unwrap();
        }
    }
    engine.commit().await.unwrap();
}

fn all_settings() -> [RingSettings; 4] {
    let plain = RingSettings { keep_superseded: true, ..settings(CAPACITY, (4, 5, 3)) };
    let cached = RingSettings { cache_bytes: 3 * 4 * 32, ..plain.clone() };
    let xor = RingSettings { xor: true, ..plain.clone() };
    let ahead = RingSettings { prefetch: true, read_batches: 3, ..plain.clone() };
    [plain, cached, xor, ahead]
}

fn restore(
    cloud: &Arc<Cloud>,
    settings: &RingSettings,
    opening: u8,
    sections: &[Section],
) -> crate::Result<RingEngine> {
    let randomness = Randomness::repeatable(100 + u64::from(opening));
    RingEngine::restore(cloud.clone(), keys(opening), settings.clone(), &randomness, sections)
}

#[tokio::test]
async fn what_was_saved_goes_on_in_later_openings() {
    for settings in all_settings() {
        let cloud = Arc::new(Cloud::that_xors());
        let mut engine = engine(&cloud, settings.clone(), 21).await;
        write_all(&mut engine, 1).await;
        for opening in 2..5 {
            let sections = saved(&mut engine);
            assert!(sections.iter().all(|section| section.data.len() <= section.padded_len));
            engine = restore(&cloud, &settings, opening, &sections).unwrap();
            engine.sweep().await.unwrap();
            check_all(&mut engine, u32::from(opening) - 1).await;
            write_all(&mut engine, u32::from(opening)).await;
            check_all(&mut engine, u32::from(opening)).await;
            engine.collect().await.unwrap();
            let (before, current) = (cloud.chunks(), engine.geometry().stored_buckets());
            assert!(before.len() as u32 <= current, "one version a bucket is kept");
            engine.sweep().await.unwrap();
            assert_eq!(cloud.chunks(), before);
        }
    }
}

#[tokio::test]
async fn padded_lengths_are_public() {
    let cloud = Arc::new(Cloud::default());
    let mut engine = engine(&cloud, settings(CAPACITY, (4, 5, 3)), 21).await;
    let lengths = |engine: &mut RingEngine| {
        saved(engine).iter().map(|s| (s.tag, s.padded_len)).collect::<Vec<_>>()
    };
    let empty = lengths(&mut engine);
    write_all(&mut engine, 1).await;
    assert_eq!(lengths(&mut engine), empty);
}

#[tokio::test]
async fn a_checkpoint_is_refused_where_it_does_not_belong() {
    let cloud = Arc::new(Cloud::default());
    let settings = settings(CAPACITY, (4, 5, 3));
    let mut engine = engine(&cloud, settings.clone(), 21).await;
    write_all(&mut engine, 1).await;
    engine.read_batch(&[]).await.unwrap();
    assert!(matches!(engine.save(), Err(Error::Caller(_))), "an epoch is open");
    engine.commit().await.unwrap();
    let sections = saved(&mut engine);
    let refused = |settings: &RingSettings, opening, sections: &[Section]| {
        restore(&cloud, settings, opening, sections).unwrap_err()
    };
    assert!(matches!(refused(&settings, 1, &sections), Error::Caller(_)), "keys would repeat");
    let mut other = settings.clone();
    other.shape.capacity -= 1;
    assert!(matches!(refused(&other, 2, &sections), Error::Caller(_)));
    for section in 0..sections.len() {
        let mut torn = sections.clone();
        torn[section].data.pop();
        assert!(matches!(refused(&settings, 2, &torn), Error::Bug(_) | Error::Caller(_)));
        torn.remove(section);
        assert!(matches!(refused(&settings, 2, &torn), Error::Bug(_)));
    }
}

/// Reads and writes of one epoch, with the same address in several batches.
async fn one_epoch(engine: &mut RingEngine) {
    let mut random = workload(31);
    for _ in 0..3 {
        let mut addresses = vec![Address(1), Address(2)];
        addresses.extend((0..5).map(|i| Address(10 + i * 20 + below(&mut random, 20))));
        engine.read_batch(&addresses).await.unwrap();
    }
    engine.write_batch(vec![(Address(1), Some(value(1, 99))), (Address(30), None)]).await.unwrap();
}

#[tokio::test]
async fn a_replay_reads_the_same_cells_and_no_others() {
    for settings in all_settings() {
        let (cloud, journal) = (Arc::new(Cloud::that_xors()), Journal::default());
        let mut engine = engine(&cloud, settings.clone(), 21).await;
        write_all(&mut engine, 1).await;
        engine.collect().await.unwrap();
        let sections = saved(&mut engine);
        engine.set_journal(Box::new(journal.clone()));
        cloud.take_seen();
        one_epoch(&mut engine).await;
        let (seen, records) = (cloud.take_seen(), journal.take());
        assert_eq!(records.len(), 4);
        let read_calls = seen.iter().filter(|seen| matches!(seen, Seen::Read(_))).count();
        assert_eq!(read_calls, if settings.prefetch { 3 } else { 4 });
        for lost in 0..=records.len() {
            let mut again = restore(&cloud, &settings, 2 + lost as u8, &sections).unwrap();
            cloud.take_seen();
            let mut reads = Vec::new();
            for record in &records[..lost] {
                again.replay(record).await.unwrap();
                reads.extend(cloud.take_seen());
            }
            assert_eq!(reads[..], seen[..reads.len()], "the replay reads what was read");
            assert!(lost < records.len() || reads.len() == seen.len());
            check_after_replay(again).await;
        }
    }
}

async fn check_after_replay(mut engine: RingEngine) {
    let mut copy = Vec::new();
    for address in 0..CAPACITY {
        copy.extend(engine.read_batch(&[Address(address)]).await.unwrap());
    }
    let expected: Vec<_> =
        (0..CAPACITY).map(|a| (!a.is_multiple_of(11)).then(|| value(a, 1))).collect();
    assert_eq!(copy, expected, "the aborted epoch left no trace in the data");
}

#[tokio::test]
async fn what_a_dead_proxy_wrote_is_swept() {
    let [settings, ..] = all_settings();
    let cloud = Arc::new(Cloud::default());
    let mut engine = engine(&cloud, settings.clone(), 21).await;
    write_all(&mut engine, 1).await;
    engine.collect().await.unwrap();
    let (sections, kept) = (saved(&mut engine), cloud.chunks());
    one_epoch(&mut engine).await;
    engine.commit().await.unwrap();
    assert_ne!(cloud.chunks(), kept);
    let mut again = restore(&cloud, &settings, 2, &sections).unwrap();
    again.sweep().await.unwrap();
    assert_eq!(cloud.chunks(), kept);
    check_all(&mut again, 1).await;
}

#[tokio::test]
async fn superseded_versions_go_once_their_successors_are_durable() {
    let cloud = Arc::new(Cloud::default());
    let settings = settings(CAPACITY, (4, 5, 3));
    let mut engine = engine(&cloud, settings, 21).await;
    write_all(&mut engine, 1).await;
    let seen = cloud.take_seen();
    for (at, event) in seen.iter().enumerate() {
        if let Seen::Delete(_) = event {
            assert_eq!(seen[at - 1], Seen::Barrier);
            assert!(matches!(seen[at - 2], Seen::Write(_)));
        }
    }
    assert!(cloud.chunks().len() as u32 <= engine.geometry().stored_buckets());
}

/// A proxy that was held between its claim and its sweep, while another took the store over and
/// went on: it does not know it yet, and what is not of its own past is not its to delete.
#[tokio::test]
async fn an_opening_that_was_overtaken_sweeps_nothing_of_the_one_after_it() {
    let cloud = Arc::new(Cloud::default());
    let settings = RingSettings { keep_superseded: true, ..settings(CAPACITY, (4, 5, 3)) };
    let mut first = engine(&cloud, settings.clone(), 21).await;
    write_all(&mut first, 1).await;
    first.collect().await.unwrap();
    let sections = saved(&mut first);
    let mut held = restore(&cloud, &settings, 2, &sections).unwrap();
    let mut newer = restore(&cloud, &settings, 3, &sections).unwrap();
    newer.sweep().await.unwrap();
    write_all(&mut newer, 2).await;
    let before = cloud.chunks();
    held.sweep().await.unwrap();
    assert_eq!(cloud.chunks(), before);
}

/// A list may leave names out (`Store::list_chunks`), those of what is left over first if the cloud
/// likes. As long as it is longer than what counts, an opening sweeps some of it and the next one
/// goes on.
#[tokio::test]
async fn what_a_list_left_out_later_openings_sweep() {
    let cloud = Arc::new(Cloud::default());
    let settings = RingSettings { keep_superseded: true, ..settings(CAPACITY, (4, 5, 3)) };
    let mut first = engine(&cloud, settings.clone(), 21).await;
    write_all(&mut first, 1).await;
    let sections = saved(&mut first); // and it stops before it has deleted anything
    let counts = cloud.chunks().iter().map(|name| name.chunk).collect::<BTreeSet<_>>().len();
    let before = cloud.chunks().len();
    assert!(before > 3 * counts, "{before} versions of {counts} buckets");
    // The canary: what counts and no more.
    cloud.list_at_most(counts);
    restore(&cloud, &settings, 2, &sections).unwrap().sweep().await.unwrap();
    assert_eq!(cloud.chunks().len(), before);

    let more = counts / 4;
    cloud.list_at_most(counts + more);
    let (mut opening, mut left) = (2, before);
    let mut last = loop {
        opening += 1;
        let mut engine = restore(&cloud, &settings, opening, &sections).unwrap();
        engine.sweep().await.unwrap();
        let now = cloud.chunks().len();
        assert_eq!(now, counts.max(left - more), "opening {opening}");
        left = now;
        if left == counts {
            break engine;
        }
    };
    assert!(opening > 5, "one list had everything");
    check_all(&mut last, 1).await;
}
