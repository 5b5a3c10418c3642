use std::collections::BTreeMap;

use bytes::Bytes;
use fogbank_txn::Key;

use super::drugs::interactions;
use super::lists::{LIST_MAX, List, Listing};
use super::numbers::{self, Hospital};
use super::rows::{Content, Episode, Patient, Prescription, Row};
use super::*;
use crate::database::Error;
use crate::serial::Serial;

type Table = BTreeMap<Key, Bytes>;

/// A database after `count` transactions of a small hospital.
async fn played(count: usize) -> (FreeHealth, Serial, Ledger) {
    let health = FreeHealth::small();
    let database = Serial::loaded(&health);
    let ledger = database.play(&health, count, 1).await;
    (health, database, ledger)
}

/// What the check says once the records are changed.
async fn said(change: impl FnOnce(&mut Table)) -> String {
    let (health, database, ledger) = played(600).await;
    health.check(&database, &ledger).await.unwrap();
    database.alter(change);
    let Err(Error::Broken(what)) = health.check(&database, &ledger).await else {
        panic!("the check has missed it");
    };
    what
}

fn change_row<R: Row>(table: &mut Table, id: u32, change: impl FnOnce(&mut R)) {
    let mut row = R::read(table[&R::key(id)].clone()).unwrap();
    change(&mut row);
    table.insert(R::key(id), row.record());
}

fn change_list(table: &mut Table, key: Key, change: impl FnOnce(&mut Vec<u32>)) {
    let mut list = List::read(table.get(&key).cloned()).unwrap();
    change(&mut list.ids);
    table.insert(key, list.record());
}

fn change_drugs(table: &mut Table, drug: u32, change: impl FnOnce(&mut Vec<u32>)) {
    let mut others = drugs::read(table.get(&interactions(drug)).cloned()).unwrap();
    change(&mut others);
    table.insert(interactions(drug), drugs::record(&others));
}

fn hospital() -> Hospital {
    Hospital { number: 1, of: FreeHealth::small().hospitals }
}

#[tokio::test]
async fn everything_happens_and_the_rules_hold() {
    let (health, database, ledger) = played(4_000).await;
    assert!(ledger.done.iter().all(|count| *count > 0), "{ledger:?}");
    let declining =
        ["add drug interaction", "remove drug interaction", "prescribe drug", "check login"];
    for ((name, _), declined) in KINDS.iter().zip(&ledger.declined) {
        assert_eq!(*declined > 0, declining.contains(name), "{name}: {declined}");
    }
    health.check(&database, &ledger).await.unwrap();
    // Some lists were full, so that ids have fallen out of them.
    let mut most = 0;
    database.alter(|table| {
        let len = |user| List::read(table.get(&Listing::EpisodesByUser.of(user)).cloned());
        most = (0..health.users).map(|user| len(user).unwrap().ids.len()).max().unwrap();
    });
    assert_eq!(most, LIST_MAX);
}

/// Patients who have fallen out of a list move to others, and leave lists that were full.
#[tokio::test]
async fn lists_that_were_full_may_have_room_again() {
    let health = FreeHealth { patients: 8, ..FreeHealth::small() };
    let database = Serial::loaded(&health);
    let ledger = database.play(&health, 25_000, 1).await;
    health.check(&database, &ledger).await.unwrap();
    let mut roomy = 0;
    let key = Listing::PatientsByBirth.of(0);
    database.alter(|table| {
        let lists = (0..2).map(|birth| table.get(&Listing::PatientsByBirth.of(birth)).cloned());
        let lists: Vec<List> = lists.map(|list| List::read(list).unwrap()).collect();
        assert!(lists.iter().any(|list| list.fallen > 0), "{lists:?}");
        roomy = lists.iter().filter(|list| list.fallen > 0 && list.ids.len() < LIST_MAX).count();
        // The canary: one that is lost, out of a list where others have fallen out.
        change_list(table, key, |ids| ids.truncate(50));
    });
    assert!(roomy > 0);
    let what = health.check(&database, &ledger).await.unwrap_err().to_string();
    assert!(what.contains("are in no PatientsByBirth"), "{what}");
}

#[tokio::test]
async fn sizes_may_be_odd() {
    let nothing = FreeHealth {
        hospitals: 0,
        users: 0,
        drugs: 0,
        interactions_per_drug: 0,
        patients: 0,
        episodes_per_patient: 0,
        prescriptions_per_patient: 0,
        history_per_patient: 0,
    };
    let uneven = FreeHealth {
        hospitals: 7,
        users: 3,
        drugs: 8,
        interactions_per_drug: 200,
        patients: 13,
        episodes_per_patient: 3,
        prescriptions_per_patient: 7,
        history_per_patient: 120,
    };
    for health in [nothing, uneven, FreeHealth::default()] {
        let database = Serial::loaded(&health);
        health.check(&database, &Ledger::new(KINDS.len())).await.unwrap();
        let ledger = database.play(&health, 300, 2).await;
        health.check(&database, &ledger).await.unwrap();
    }
}

#[test]
fn the_mix_is_whole_and_creators_are_who_they_have_to_be() {
    assert_eq!(KINDS.iter().map(|(_, part)| part).sum::<u32>(), 100);
    let names = |kind| creators(kind).iter().map(|index| KINDS[*index].0).collect::<Vec<_>>();
    assert_eq!(names(Kind::Patient), ["create patient"]);
    assert_eq!(names(Kind::Episode), ["create encounter"]);
    assert_eq!(names(Kind::Content), ["prescribe drug", "add episode content"]);
    assert_eq!(names(Kind::Prescription), ["prescribe drug"]);
    assert_eq!(names(Kind::History), ["save past medical history"]);
}

#[test]
fn initial_records_repeat_and_are_small() {
    let health = FreeHealth::default();
    let plan = Plan::of(&health);
    assert!(health.records().eq(health.records()));
    assert!(health.records().all(|(_, record)| record.len() <= 500));
    // Counters, users with their logins, drugs with their interactions, objects; then lists.
    let objects: usize = Kind::ALL.map(|kind| plan.count(kind) as usize).iter().sum();
    assert_eq!(objects, 100 + 1_000 + 1_500 + 500 + 500);
    let tables = 5 * 10 + 2 * 50 + 2 * 300 + objects;
    let lists = plan.names() + plan.births() + 3 * 50 + 1_000 + 3 * 100;
    assert_eq!(health.records().count(), tables + lists as usize);
    for drug in 0..health.drugs {
        assert!(plan.interactions(drug).len() >= 5);
    }
}

#[tokio::test]
async fn records_stay_small() {
    let (_, database, _) = played(4_000).await;
    database.alter(|table| assert!(table.values().all(|record| record.len() <= 500)));
}

#[tokio::test]
async fn a_number_given_out_twice_is_seen() {
    for kind in Kind::ALL {
        let what = said(|table| {
            let key = hospital().counter(kind);
            let next = numbers::read(table.get(&key).cloned()).unwrap();
            table.insert(key, numbers::record(next - 1));
        })
        .await;
        assert!(what.starts_with("counters: ") && what.contains(kind.name()), "{what}");
    }
}

#[tokio::test]
async fn objects_too_few_or_too_many_are_seen() {
    for kind in Kind::ALL {
        let what = said(|table| drop(table.remove(&kind.key(7)))).await;
        assert_eq!(what, format!("objects: {} 7 is missing", kind.name()));
        let mut id = 0;
        let what = said(|table| {
            let next = numbers::read(table.get(&hospital().counter(kind)).cloned()).unwrap();
            id = hospital().id(next);
            table.insert(kind.key(id), table[&kind.key(7)].clone());
        })
        .await;
        assert!(what.starts_with(&format!("objects: {} {id} exists", kind.name())), "{what}");
    }
}

#[tokio::test]
async fn an_interaction_of_one_side_is_seen() {
    let what = said(|table| {
        change_drugs(table, 5, |ids| {
            ids.pop();
        });
    })
    .await;
    assert!(what.starts_with("interactions: drug "), "{what}");
    assert!(what.contains(" has one with 5, and 5 none with "), "{what}");
    let what = said(|table| change_drugs(table, 5, |ids| ids.push(40))).await;
    assert!(what.starts_with("interactions: drug 5 has one with 40"), "{what}");
    let what = said(|table| drop(table.remove(&interactions(5)))).await;
    assert_eq!(what, "interactions: drug 5 has no list");
}

/// A list that has the initial object 3 of its kind, unless it has been moved: then another has.
fn list_of_3(table: &Table, listing: Listing) -> Key {
    listing.place_of(table[&listing.kind().key(3)].clone()).unwrap()
}

#[tokio::test]
async fn lists_that_miss_something_are_seen() {
    for listing in Listing::ALL {
        let what = said(|table| {
            let key = list_of_3(table, listing);
            change_list(table, key, |ids| ids.retain(|id| *id != 3));
        })
        .await;
        let expected = format!("lists: {} 3 is not in {listing:?}", listing.kind().name());
        assert!(what.starts_with(&expected), "{what}");
    }
}

#[tokio::test]
async fn lists_with_something_foreign_are_seen() {
    for listing in Listing::ALL {
        let name = listing.kind().name();
        // What is there, and has to be in another list.
        let what = said(|table| {
            let key = list_of_3(table, listing);
            let elsewhere = (4..).find(|id| {
                listing.place_of(table[&listing.kind().key(*id)].clone()).unwrap() != key
            });
            change_list(table, key, |ids| ids.push(elsewhere.unwrap()));
        })
        .await;
        assert!(what.contains(&format!("{listing:?}")), "{what}");
        assert!(what.starts_with("lists: ") && what.ends_with("belongs into another"), "{what}");
        // What is not there.
        let what = said(|table| {
            let key = list_of_3(table, listing);
            change_list(table, key, |ids| ids.push(1_000_000));
        })
        .await;
        assert!(what.starts_with(&format!("lists: {name} 1000000 is in {listing:?}")), "{what}");
        assert!(what.ends_with("does not exist"), "{what}");
        // What is there twice.
        let what = said(|table| {
            let key = list_of_3(table, listing);
            change_list(table, key, |ids| ids.push(3));
        })
        .await;
        assert!(what.starts_with(&format!("lists: {listing:?}")), "{what}");
    }
}

#[tokio::test]
async fn objects_of_somebody_else_are_seen() {
    let what = said(|table| change_row(table, 3, |row: &mut Patient| row.birth += 1)).await;
    assert!(what.starts_with("lists: patient 3 is not in PatientsByBirth"), "{what}");
    let what = said(|table| {
        change_row(table, 3, |row: &mut Patient| row.name = Bytes::from_static(b"nobody"));
    })
    .await;
    assert_eq!(what, "lists: patient 3 is not in PatientsByName nobody");
    let what = said(|table| change_row(table, 3, |row: &mut Episode| row.user += 1)).await;
    assert!(what.starts_with("lists: episode 3 is not in EpisodesByUser"), "{what}");
    let what = said(|table| change_row(table, 3, |row: &mut Prescription| row.patient += 1)).await;
    assert!(what.starts_with("lists: prescription 3 is not in PrescriptionsByPatient"), "{what}");
    let what = said(|table| {
        change_row(table, 3, |row: &mut Content| {
            row.matter = rows::Matter::Prescription(1_000_000)
        });
    })
    .await;
    assert!(what.contains("content 3 is of prescription 1000000"), "{what}");
}
