//! Several journal records under way at once: they land in any order, some too late, some never.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_durable::{
    BegunRecord, Blob, Checkpoint, Cut, Error, PutRecord, Section, Suspicion, Vault,
};
use fogbank_env::{Clock, Mutex, Nanos, Purpose, Randomness, SystemClock};
use fogbank_store::{
    Call, Delay, Fault, FaultRule, Faulty, Link, MemoryStore, Operation, PutCondition, Reply,
    Store, StoreError, store_by_calls,
};
use world::World;

const AT_ONCE: u8 = 4;

fn world() -> World {
    World { cuts: true, at_once: AT_ONCE.into(), ..World::default() }
}

fn begin(vault: &mut Vault, numbers: std::ops::Range<u8>) -> Vec<Option<BegunRecord>> {
    numbers.map(|number| Some(vault.begin_record(&[number]).unwrap())).collect()
}

async fn opened(world: &World) -> (Vault, Vec<u8>) {
    let (vault, recovered) = world.open(world.healthy()).await.unwrap();
    (vault, recovered.journal.iter().map(|record| record[0]).collect())
}

/// Of four records under way those of `landed` are there; of those that follow each other from the
/// first, `counted` count. Another opening finds the latter, at least, and all that follow each
/// other. What lands after it is in nobody's way and never counts.
async fn overtaken(landed: u8, counted: usize) {
    let world = world();
    let (mut old, _) = opened(&world).await;
    old.append(&[100]).await.unwrap();
    let mut begun = begin(&mut old, 0..AT_ONCE);
    let mut put: Vec<PutRecord> = Vec::new();
    for (number, record) in (0..AT_ONCE).zip(&mut begun).rev().filter(|(n, _)| landed & 1 << n != 0)
    {
        put.push(record.take().unwrap().put().await.unwrap_or_else(|e| panic!("{number} {e}")));
    }
    put.reverse();
    let late = put.split_off(counted);
    old.count(put).await.unwrap();
    // Another opens the store and goes on; what is late comes then.
    let (mut new, journal) = opened(&world).await;
    let found = landed.trailing_ones() as u8;
    let mut expected: Vec<u8> = [100].into_iter().chain(0..found).collect();
    assert_eq!(journal, expected, "{landed:b} {counted}");
    new.append(&[50]).await.unwrap();
    expected.push(50);
    let mut later = late;
    for record in begun.into_iter().flatten() {
        later.push(record.put().await.unwrap());
    }
    let fenced = old.count(later).await;
    assert!(matches!(fenced, Err(Error::Fenced | Error::Bug(_))), "{landed:b} {fenced:?}");
    for record in begin(&mut new, 51..54).into_iter().flatten() {
        let put = record.put().await.unwrap();
        new.count(vec![put]).await.unwrap();
    }
    expected.extend(51..54);
    let (third, journal) = opened(&world).await;
    assert_eq!(journal, expected, "{landed:b} {counted}");
    third.close(Section::each(Vec::new())).await.unwrap();
    let (_, journal) = opened(&world).await;
    assert_eq!(journal, [0; 0]);
}

#[tokio::test]
async fn what_lands_in_any_order_counts_as_far_as_it_has_no_gap() {
    for landed in 0..1_u8 << AT_ONCE {
        for counted in 0..=landed.trailing_ones() as usize {
            overtaken(landed, counted).await;
        }
    }
}

#[tokio::test]
async fn a_record_counts_after_all_before_it() {
    let world = world();
    let (mut vault, _) = opened(&world).await;
    let mut begun = begin(&mut vault, 0..2);
    let second = begun.pop().flatten().unwrap().put().await.unwrap();
    assert!(matches!(vault.count(vec![second]).await, Err(Error::Bug(_))));
}

/// Those that the register knows of may not be missing; of those that it does not, any may.
#[tokio::test]
async fn a_cloud_that_hides_what_counts_has_lied() {
    for hidden in 0..4 {
        let world = world();
        let (mut vault, _) = opened(&world).await;
        let mut put = Vec::new();
        for record in begin(&mut vault, 0..4).into_iter().flatten() {
            put.push(record.put().await.unwrap());
        }
        put.truncate(2);
        vault.count(put).await.unwrap();
        let names = world.names().await;
        let name = names.iter().filter(|name| name.starts_with("journal/")).nth(hidden).unwrap();
        world.cloud.blob_delete(&[name]).await.unwrap();
        match world.open(world.healthy()).await {
            Ok((_, recovered)) => {
                assert_eq!((recovered.journal.len(), hidden >= 2), (hidden, true))
            }
            Err(error) => assert!(hidden < 2 && matches!(error, Error::CloudLied(_)), "{error}"),
        }
    }
}

/// A journal that goes on further than anybody can have written is a lie.
#[tokio::test]
async fn a_journal_is_not_longer_than_what_was_under_way() {
    let world = World { at_once: u32::from(AT_ONCE) + 1, ..world() };
    let (mut vault, _) = opened(&world).await;
    let begun = begin(&mut vault, 0..AT_ONCE + 1);
    for record in begun.into_iter().flatten() {
        record.put().await.unwrap();
    }
    assert!(matches!(vault.begin_record(&[0]), Err(Error::Bug(_))));
    let world = World { at_once: AT_ONCE.into(), ..world };
    assert!(matches!(world.open(world.healthy()).await, Err(Error::CloudLied(_))));
}

/// A checkpoint of nothing, and its cut.
async fn cut(vault: &mut Vault) -> (Cut, Checkpoint) {
    let (cut, writer) = (vault.cut(), vault.checkpoint_writer().unwrap());
    (cut, writer.write(Section::each(Vec::new())).await.unwrap())
}

#[tokio::test]
async fn a_store_is_not_closed_while_records_are_under_way() {
    let world = world();
    let (mut vault, _) = opened(&world).await;
    let _begun = begin(&mut vault, 0..1);
    assert!(matches!(vault.close(Section::each(Vec::new())).await, Err(Error::Bug(_))));
}

#[tokio::test]
async fn a_checkpoint_is_adopted_when_all_records_before_its_cut_count() {
    let world = world();
    let (mut vault, _) = opened(&world).await;
    let before = begin(&mut vault, 0..1).pop().flatten().unwrap();
    let (cut, checkpoint) = cut(&mut vault).await;
    let _put = before.put().await.unwrap();
    assert!(!vault.covers(&cut));
    assert!(matches!(vault.begin_adoption(cut, checkpoint), Err(Error::Bug(_))));
}

/// Three records around a commit that adopts a checkpoint: some land before it, some of those count
/// before it. Wherever the proxy stops, the next opening finds all that landed behind the cut.
async fn adopted_among(lands: usize, counts: usize, ends: bool) {
    let world = world();
    let (mut vault, _) = opened(&world).await;
    vault.append(&[100]).await.unwrap();
    let (cut, checkpoint) = cut(&mut vault).await;
    let mut put = Vec::new();
    for record in begin(&mut vault, 0..lands as u8).into_iter().flatten() {
        put.push(record.put().await.unwrap());
    }
    let adoption = vault.begin_adoption(cut, checkpoint).unwrap();
    let late = put.split_off(counts);
    vault.count(put).await.unwrap();
    let adoption = adoption.put().await.unwrap();
    let mut expected: Vec<u8> = (0..lands as u8).collect();
    if ends {
        vault.end_adoption(adoption).await.unwrap();
        vault.count(late).await.unwrap();
        vault.take_superseded().delete().await.unwrap();
        vault.append(&[50]).await.unwrap();
        expected.push(50);
    }
    let (last, journal) = opened(&world).await;
    assert_eq!(journal, expected, "{lands} {counts} {ends}");
    assert!(vault.append(&[9]).await.is_err(), "overtaken");
    let names = world.names().await;
    let records = names.iter().filter(|name| name.starts_with("journal/")).count();
    assert_eq!(records, journal.len() + 1, "with the takeover, and without what is superseded");
    last.close(Section::each(Vec::new())).await.unwrap();
    assert_eq!(opened(&world).await.1, [0; 0]);
}

#[tokio::test]
async fn a_commit_lands_among_records_and_nothing_waits_for_it() {
    for lands in 0..=3 {
        for counts in 0..=lands {
            adopted_among(lands, counts, false).await;
            adopted_among(lands, counts, true).await;
        }
    }
}

/// However many checkpoints the new proxy has adopted, the old one finds its next place taken, and
/// its own commit record displaced.
#[tokio::test]
async fn an_old_proxy_is_fenced_behind_checkpoints_of_a_new_one() {
    let world = world();
    let (mut old, _) = opened(&world).await;
    let (at, checkpoint) = cut(&mut old).await;
    let adoption = old.begin_adoption(at, checkpoint).unwrap();
    let record = begin(&mut old, 0..1).pop().flatten().unwrap();
    let (mut new, _) = opened(&world).await;
    for number in 1..4 {
        new.append(&[number]).await.unwrap();
        let (at, checkpoint) = cut(&mut new).await;
        new.adopt(at, checkpoint).await.unwrap();
        new.take_superseded().delete().await.unwrap();
    }
    let put = record.put().await.unwrap();
    assert!(matches!(old.count(vec![put]).await, Err(Error::Fenced)));
    drop(adoption);
    let (at, checkpoint) = cut(&mut new).await;
    let adoption = new.begin_adoption(at, checkpoint).unwrap();
    let (newest, _) = opened(&world).await;
    let put = adoption.put().await.unwrap();
    assert!(matches!(new.end_adoption(put).await, Err(Error::Fenced)));
    newest.close(Section::each(Vec::new())).await.unwrap();
}

/// It reads the commit record and the journal; then the other adopts a checkpoint and deletes what
/// that superseded. So its takeover record finds a free place, and its claim the newer commit.
#[tokio::test]
async fn an_opening_looks_again_where_records_were_superseded_meanwhile() {
    let world = world();
    let (mut old, _) = opened(&world).await;
    old.append(&[1]).await.unwrap();
    let old = Arc::new(tokio::sync::Mutex::new(old));
    let store = Arc::new(Meanwhile { inner: world.cloud.clone(), old: old.clone() });
    let (new, recovered) = world.open(store).await.unwrap();
    assert_eq!(recovered.journal, [[9]]);
    assert!(matches!(old.lock().await.append(&[0]).await, Err(Error::Fenced)));
    new.close(Section::each(Vec::new())).await.unwrap();
}

/// A cloud at which, before the first takeover record is put, `old` goes on.
struct Meanwhile<S> {
    inner: S,
    old: Arc<tokio::sync::Mutex<Vault>>,
}

impl<S: Store> Meanwhile<S> {
    async fn call(&self, call: Call<'_>) -> std::result::Result<Reply, StoreError> {
        if matches!(&call, Call::BlobPut(name, ..) if name.starts_with("journal/")) {
            let mut old = self.old.lock().await;
            if old.place() == 1 {
                for number in 2..9 {
                    old.append(&[number]).await.unwrap();
                }
                let (cut, checkpoint) = cut(&mut old).await;
                old.adopt(cut, checkpoint).await.unwrap();
                old.take_superseded().delete().await.unwrap();
                old.append(&[9]).await.unwrap();
            }
        }
        call.perform(&self.inner).await
    }
}

store_by_calls!(Meanwhile);

#[tokio::test]
async fn an_adoption_that_is_given_up_stops_the_vault() {
    let world = world();
    let (mut vault, _) = opened(&world).await;
    let (cut, checkpoint) = cut(&mut vault).await;
    drop(vault.begin_adoption(cut, checkpoint).unwrap());
    assert!(matches!(vault.append(&[1]).await, Err(Error::Stopped)));
}

/// A put that was given up, by whoever waited for it or since it failed: nothing behind its place
/// would ever count.
#[tokio::test(start_paused = true)]
async fn a_record_given_up_stops_its_vault() {
    for way in ["never put", "dropped midway", "failed"] {
        let world = world();
        drop(opened(&world).await);
        let far = far(&world);
        let (mut vault, _) = world.open(far.clone()).await.unwrap();
        let mut begun = begin(&mut vault, 0..2);
        let first = begun[0].take().unwrap().put().await.unwrap();
        let second = begun[1].take().unwrap();
        match way {
            "never put" => drop(second),
            "dropped midway" => {
                let soon = tokio::time::timeout(RTT / 4, second.put()).await;
                assert!(soon.is_err());
            }
            _ => {
                far.add(FaultRule::nth(Some(Operation::BlobPut), 1, Fault::Down));
                assert!(second.put().await.is_err());
                far.heal();
            }
        }
        let refused = vault.begin_record(&[7]).err();
        assert!(matches!(refused, Some(Error::Stopped)), "{way}: {refused:?}");
        assert!(matches!(vault.count(vec![first]).await, Err(Error::Stopped)), "{way}");
    }
}

/// Names of records are known before they are read, so a round trip brings as many as may have been
/// under way.
#[tokio::test(start_paused = true)]
async fn a_journal_is_read_as_many_records_at_once_as_may_have_been_under_way() {
    const RECORDS: u8 = 40;
    for at_once in [1, 4, 8] {
        let world = World { at_once, ..world() };
        let (mut vault, _) = opened(&world).await;
        for number in 0..RECORDS {
            vault.append(&[number]).await.unwrap();
        }
        let (far, clock) = (far(&world), SystemClock::new());
        let asked: Arc<Mutex<Vec<Nanos>>> = Arc::default();
        let (watch, began) = (asked.clone(), clock.now());
        far.on_call(move |call, _| {
            if matches!(call, Call::BlobGet(name) if name.starts_with("journal/")) {
                watch.lock().push(clock.now() - began);
            }
            None
        });
        let (_, recovered) = world.open(far).await.unwrap();
        assert_eq!(recovered.journal.len(), usize::from(RECORDS));
        let mut calls = asked.lock().clone();
        // Those that left together: round trips, each with what was in flight in it.
        let all = calls.len() as u32;
        calls.dedup();
        let trips = u32::from(RECORDS) / at_once + 1;
        assert_eq!((calls.len() as u32, all), (trips, trips * at_once), "{at_once}");
    }
}

/// However many are read at once: what is missing or spoiled in the middle is found out, and said
/// of the record that it is.
#[tokio::test]
async fn a_journal_is_held_together_however_it_is_read() {
    const RECORDS: u8 = 11;
    for (at, spoils) in (0..RECORDS).flat_map(|at| [(at, false), (at, true)]) {
        let world = world();
        let (mut vault, _) = opened(&world).await;
        for number in 0..RECORDS {
            vault.append(&[number]).await.unwrap();
        }
        let names = world.names().await;
        let mut records = names.iter().filter(|name| name.starts_with("journal/"));
        let name = records.nth(usize::from(at)).unwrap();
        if spoils {
            let (data, _) = world.cloud.blob_get(name).await.unwrap().unwrap();
            let mut data = data.to_vec();
            *data.last_mut().unwrap() ^= 1;
            let put = world.cloud.blob_put(name, Bytes::from(data), PutCondition::Always);
            put.await.unwrap();
        } else {
            world.cloud.blob_delete(&[name]).await.unwrap();
        }
        let told = world.open(world.healthy()).await.unwrap_err();
        let Error::CloudLied(told) = told else { panic!("{at} {spoils}: {told}") };
        let place = name.rsplit_once('-').map(|(_, place)| u64::from_str_radix(place, 16).unwrap());
        let named = match told {
            Suspicion::Journal(Blob::Journal { place, .. }) if spoils => Some(place),
            Suspicion::JournalCut(Blob::Journal { place, .. }) if !spoils => Some(place),
            _ => None,
        };
        assert_eq!(named, place, "{at} {spoils}: {told:?}");
    }
}

const RTT: Duration = Duration::from_millis(40);

/// The cloud of `world` at a distance.
fn far(world: &World) -> Arc<Faulty<Delay<Arc<MemoryStore>>>> {
    let jitter = Randomness::repeatable(1).stream(Purpose::Faults);
    let link = Link { round_trip: RTT, ..Link::instant() };
    let clock = Arc::new(SystemClock::new());
    Arc::new(Faulty::new(Delay::new(world.cloud.clone(), clock, link, jitter)))
}
