//! Several journal records under way at once: they land in any order, some too late, some never.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use fogbank_durable::{BegunRecord, Error, PutRecord, Section, Vault};
use fogbank_store::Store;
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
/// first, `counted` count. Another opening finds the latter, at least, and all that follow each other.
/// What lands after it is in nobody's way and never counts.
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

#[tokio::test]
async fn nothing_is_committed_while_records_are_under_way() {
    let world = world();
    let (mut vault, _) = opened(&world).await;
    let cut = vault.cut();
    let checkpoint = vault.checkpoint_writer().unwrap().write(Section::each(Vec::new())).await;
    let begun = begin(&mut vault, 0..1).pop().flatten().unwrap();
    let refused = vault.adopt(cut, checkpoint.unwrap()).await;
    assert!(matches!(refused, Err(Error::Bug(_))));
    drop(begun);
}
