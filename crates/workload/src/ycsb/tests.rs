use super::*;
use crate::serial::Serial;

fn workload(letter: char, several: u32) -> Ycsb {
    Ycsb { operations_per_transaction: several, ..Ycsb::new(letter, 300).unwrap() }
}

/// A database after some transactions, of which all kinds have happened.
async fn played(workload: &Ycsb) -> (Serial, Ledger) {
    let database = Serial::loaded(workload);
    let ledger = database.play(workload, 500, 1).await;
    assert!(ledger.done.iter().all(|count| *count > 0), "{ledger:?}");
    workload.check(&database, &ledger).await.unwrap();
    (database, ledger)
}

#[tokio::test]
async fn every_mix_comes_to_what_the_check_expects() {
    for letter in "ABCDEF".chars() {
        let one = workload(letter, 1);
        let (_, ledger) = played(&one).await;
        assert_eq!(one.kinds().iter().map(|(_, part)| part).sum::<u32>(), 100);
        let done = |name| {
            let kind = one.kinds().iter().position(|(kind, _)| *kind == name);
            kind.map_or(0, |kind| ledger.done[kind])
        };
        assert_eq!(ledger.sum.unsigned_abs(), done("update") + done("read-modify-write"));
        assert_eq!(u64::from(one.next() - 300), done("insert"));
        assert_eq!(one.name(), format!("YCSB {letter}"));
        assert_eq!(one.scanned_groups().is_empty(), letter != 'E');
        // Another database has none of what was inserted into the first.
        let (fresh, untouched) = (one.fresh(), Serial::loaded(&one));
        fresh.check(&untouched, &Ledger::new(one.kinds().len())).await.unwrap();

        let several = workload(letter, 5);
        let (_, ledger) = played(&several).await;
        assert_eq!(ledger.done, [500]);
        assert_eq!(ledger.sum > 500, matches!(letter, 'A' | 'F'));
    }
    assert!(Ycsb::new('G', 300).is_none());
}

#[tokio::test]
async fn a_lost_write_or_record_is_seen() {
    let said = async |letter, change: &dyn Fn(&Ycsb, &Serial)| {
        let workload = workload(letter, 1);
        let (database, ledger) = played(&workload).await;
        change(&workload, &database);
        workload.check(&database, &ledger).await.unwrap_err().to_string()
    };
    let what = said('A', &|_, database| {
        database.alter(|table| {
            let mut row = Row::of(7, table[&key(7)].clone()).unwrap();
            row.writes += 1;
            table.insert(key(7), row.record());
        });
    });
    assert!(what.await.contains("writes: records say "));
    let what = said('A', &|_, database| {
        database.alter(|table| drop(table.insert(key(7), table[&key(8)].clone())));
    });
    assert!(what.await.contains("numbers: record 7 does not carry its own"));
    let what = said('D', &|workload, database| {
        let last = workload.next() - 1;
        database.alter(|table| drop(table.remove(&key(last)).unwrap()));
    });
    assert!(what.await.contains("numbers: there is no record 3"));
    let what = said('E', &|workload, database| {
        let next = workload.next();
        database.alter(|table| drop(table.insert(key(next), table[&key(8)].clone())));
    });
    assert!(what.await.contains("was not inserted"));
}

#[tokio::test]
async fn a_scan_that_misses_records_is_seen() {
    let workload = workload('E', 1);
    let database = Serial::loaded(&workload);
    let scan = Operation::Scan(250, 100);
    let scan = Operations { kind: 0, records: 300, operations: vec![scan] };
    assert!(database.perform(&scan).await.is_ok());
    database.alter(|table| drop(table.remove(&key(260))));
    assert!(matches!(database.perform(&scan).await, Err(Error::Broken(_))));
}

#[test]
fn records_repeat_and_are_of_one_kib() {
    let workload = workload('A', 1);
    assert!(workload.records().eq(workload.records()));
    assert_eq!(workload.records().count(), 300);
    assert!(workload.records().all(|(_, record)| record.len() == 1_024));
}

#[test]
fn some_records_are_asked_for_more_often() {
    let mut stream = Randomness::repeatable(1).stream(Purpose::Workload);
    let mut counts = |distribution| {
        let workload = Ycsb { distribution, ..workload('D', 1) };
        workload.inserted.store(100, Ordering::Relaxed);
        let mut counts = [0_u32; 400];
        (0..40_000).for_each(|_| counts[workload.number(&mut stream) as usize] += 1);
        counts
    };
    // Among 400, the most frequent has a share of 1 / (1 + 2^-0.99 + ... + 400^-0.99), which is
    // 0.149.
    let latest = counts(Distribution::Latest);
    assert!((5_600..6_300).contains(&latest[399]), "{latest:?}");
    assert!(latest[399] > latest[398] && latest[398] > latest[390] && latest[390] > latest[0]);
    // Ranks lie anywhere, and none beyond those that there were at first.
    let zipfian = counts(Distribution::Zipfian);
    let often = crate::chance::scattered(0, 300) as usize;
    assert!(often > 0 && zipfian.iter().all(|count| *count <= zipfian[often]));
    assert!(zipfian[300..].iter().all(|count| *count == 0));
    let uniform = counts(Distribution::Uniform);
    assert!(uniform[..300].iter().all(|count| (60..220).contains(count)), "{uniform:?}");
    assert!(uniform[300..].iter().all(|count| *count == 0));
}
