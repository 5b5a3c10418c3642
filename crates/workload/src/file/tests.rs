//! Files that describe a workload, files that do not, and checks that can fail.

use rand::RngExt;

use super::meaning::NAMELESS;
use super::*;
use crate::serial::Serial;

const PRACTICE: &str = include_str!("../../../../examples/practice.toml");

#[tokio::test]
async fn the_example_runs_and_its_books_balance() {
    let practice = Described::parse(PRACTICE).unwrap();
    assert_eq!((practice.name(), practice.first_records()), ("practice", 14_000));
    assert_eq!(practice.scanned_groups(), [b"patients"]);
    assert!(practice.grows());
    let database = Serial::loaded(&practice);
    let ledger = database.play(&practice, 300, 1).await;
    assert!(ledger.done.iter().all(|done| *done > 10), "{ledger:?}");
    assert_eq!(ledger.sum as u64, ledger.done[1] + ledger.done[2], "an update each");
    practice.check(&database, &ledger).await.unwrap();
}

/// Small, with every sort of access.
const ALL: &str = r#"
    [[group]]
    name = "a"
    count = 30
    bytes = 40
    [[group]]
    name = "b"
    count = 5
    bytes = 16
    [[transaction]]
    name = "both"
    percent = 100
    [[transaction.step]]
    read = [{ group = "a", count = 30, distribution = "zipfian", theta = 4.0 }, { group = "b" }]
    update = { group = "a", count = 3, distribution = "latest" }
    insert = { group = "a", count = 2 }
    [[transaction.step]]
    write = { group = "b", count = 5 }
    update = { group = "b" }
    [[transaction.step]]
    scan = { group = "a", count = 30 }
"#;

#[tokio::test]
async fn each_way_of_losing_something_is_seen() {
    let all = Described::parse(ALL).unwrap();
    let a = |number: u32| Key::new(b"a", &number.to_be_bytes());
    let row = |number, record: &Bytes| Row::of((0, number), record.clone()).unwrap();
    let played = async || {
        let all = Described::parse(ALL).unwrap();
        let database = Serial::loaded(&all);
        let ledger = database.play(&all, 50, 2).await;
        (all, database, ledger)
    };
    assert_eq!(all.name(), NAMELESS);
    let (whole, database, ledger) = played().await;
    assert_eq!(ledger.sum, 150, "three of a each; b is overwritten, so it does not count");
    whole.check(&database, &ledger).await.unwrap();
    // The canaries: an update lost, an insert lost, a record lost, one in the place of another.
    type Alteration<'a> = &'a (dyn Fn(&mut std::collections::BTreeMap<Key, Bytes>) + Sync);
    let canaries: [(&str, Alteration<'_>); 4] = [
        ("updates: records say 149", &|records| {
            let updated = (0..).find(|number| row(*number, &records[&a(*number)]).updates > 0);
            let number = updated.unwrap();
            let mut lost = row(number, &records[&a(number)]);
            lost.updates -= 1;
            records.insert(a(number), lost.record());
        }),
        ("a: there are 129 records, and have to be 130", &|records| {
            let number = (30..).find(|number| row(*number, &records[&a(*number)]).updates == 0);
            records.remove(&a(number.unwrap()));
        }),
        ("a: there is no record 7", &|records| drop(records.remove(&a(7)))),
        ("record 7 does not carry its number", &|records| {
            let other = records[&a(8)].clone();
            records.insert(a(7), other);
        }),
    ];
    for (told, alteration) in canaries {
        let (whole, database, ledger) = played().await;
        database.alter(alteration);
        let error = whole.check(&database, &ledger).await.unwrap_err().to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
}

#[test]
fn records_of_an_access_are_distinct_and_hot_ones_come_more_often() {
    let mut stream = Randomness::repeatable(3).stream(Purpose::Workload);
    let mut draw = |count, which| {
        let access = Access { group: 0, count, which };
        draws::numbers(&access, (20, 25), &mut stream)
    };
    for which in [meaning::Which::Uniform, meaning::Which::Zipfian(4.0)] {
        let mut all = draw(20, which);
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
    }
    let latest = (0..500).filter(|_| draw(1, meaning::Which::Latest(2.0)) == [24]).count();
    assert!((200..400).contains(&latest), "{latest}");
    let hot = chance::scattered(0, 20);
    let hottest = (0..500).filter(|_| draw(1, meaning::Which::Zipfian(2.0)) == [hot]).count();
    assert!((200..400).contains(&hottest), "{hottest}");
}

/// Each was held against all before it, and again for each that it was moved on.
#[test]
fn many_records_are_drawn_as_few_are() {
    use meaning::Which::{Latest, Uniform, Zipfian};
    let numbers = |count, of, which, seed| {
        let mut stream = Randomness::repeatable(seed).stream(Purpose::Workload);
        draws::numbers(&Access { group: 0, count, which }, (of, of), &mut stream)
    };
    for seed in 0..20 {
        for (which, rank) in [(Uniform, None), (Zipfian(1.5), Some(1.5)), (Latest(0.9), Some(0.9))]
        {
            let mut stream = Randomness::repeatable(seed).stream(Purpose::Workload);
            let mut slow: Vec<u32> = Vec::new();
            for _ in 0..25 {
                let mut number = match (which, rank) {
                    (Zipfian(_), Some(theta)) => {
                        chance::scattered(chance::rank(30, theta, &mut stream), 30)
                    }
                    (_, Some(theta)) => 29 - chance::rank(30, theta, &mut stream),
                    (_, None) => stream.random_range(0..30),
                };
                while slow.contains(&number) {
                    number = (number + 1) % 30;
                }
                slow.push(number);
            }
            assert_eq!(numbers(25, 30, which, seed), slow, "{which:?}");
        }
    }
    // The slow way would not come to its end here.
    for which in [Uniform, Zipfian(5.0), Latest(5.0)] {
        let mut all = numbers(300_000, 300_000, which, 1);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..300_000), "{which:?}");
    }
}

/// Another database does not have what was inserted into the first.
#[tokio::test]
async fn a_fresh_one_begins_with_the_first_records() {
    let used = Described::parse(ALL).unwrap();
    let (first, second) = (Serial::loaded(&used), Serial::loaded(&used));
    let ledger = first.play(&used, 50, 2).await;
    used.check(&first, &ledger).await.unwrap();
    let fresh = used.fresh();
    assert_eq!(second.play(&*fresh, 50, 2).await, ledger);
    fresh.check(&second, &ledger).await.unwrap();
    // The canary: one that was used looks for records that nobody has inserted into the third.
    let third = Serial::loaded(&used);
    assert!(third.play(&used, 50, 2).await.sum < ledger.sum);
}

#[test]
fn what_cannot_be_is_named_with_its_line() {
    let told = |from: &str, to: &str| {
        assert!(PRACTICE.contains(from), "{from}");
        Described::parse(&PRACTICE.replacen(from, to, 1)).unwrap_err().to_string()
    };
    for (from, to, part) in [
        ("count = 2000 #", "count = 0 #", "count: 0 is outside 1"),
        ("bytes = 300 ", "bytes = 3", "bytes: 3 is outside 16"),
        ("name = \"notes\"", "name = \"history\"", "another \"history\""),
        ("percent = 50", "percent = 0", "percent: 0 is outside 1 to 100"),
        ("group = \"history\" }", "group = \"histories\" }", "but patients, history, notes"),
        ("theta = 0.8", "theta = 0.0", "theta: it is above 0"),
        ("distribution = \"zipfian\"", "distribution = \"uniform\"", "theta: it belongs to"),
        ("count = 5", "count = 50000", "count: 50000 is outside"),
        (
            "insert = { group = \"notes\"",
            "insert = { group = \"notes\", distribution = \"latest\"",
            "next number",
        ),
        (
            "insert = { group = \"notes\"",
            "write = { group = \"notes\", distribution = \"latest\"",
            "not be inserted yet",
        ),
        ("scan =", "read = { group = \"notes\" }\nscan =", "a step of its own"),
        ("scan = { group = \"patients\", count = 20 }", "", "this step does nothing"),
    ] {
        let error = told(from, to);
        let at = PRACTICE.find(from).unwrap();
        // What a step as a whole does is said of the line it begins at.
        let above = usize::from(from.starts_with("scan"));
        let line = 1 + PRACTICE[..at].matches('\n').count() - above;
        assert!(
            error.starts_with(&format!("line {line}: ")) && error.contains(part),
            "{to}: {error}"
        );
    }
    // Those of the syntax show the line themselves.
    for (from, to, part) in [
        ("percent = 50", "percents = 50", "unknown field `percents`, expected"),
        ("percent = 50", "percent = -1", "TOML parse error at line"),
        ("\"latest\"", "\"newest\"", "unknown variant `newest`, expected one of"),
        ("read = { group = \"history\" }", "read = 7", "a table such as { group"),
        ("group = \"history\" }", "groups = \"history\" }", "unknown field `groups`"),
        ("[[group]]", "[[group", "TOML parse error at line"),
    ] {
        let error = told(from, to);
        assert!(error.contains(part), "{to}: {error}");
    }
    let error = told("percent = 50", "percent = 40");
    assert!(error.contains("come to 90 and have to come to 100"), "{error}");
    assert!(Described::parse("").unwrap_err().to_string().contains("[[group]]"));
}

/// Epochs are chosen by it before anything has run.
#[test]
fn footprints_are_what_the_steps_say() {
    let practice = Described::parse(PRACTICE).unwrap();
    let footprints: Vec<_> = practice.footprints().collect();
    let said: Vec<_> =
        footprints.iter().map(|(percent, f)| (*percent, &f.rounds[..], f.written)).collect();
    let expected: [(u32, &[u32], u32); 4] =
        [(50, &[1, 1, 5], 0), (30, &[1, 1], 2), (10, &[1], 1), (10, &[20, 3], 0)];
    assert_eq!(said, expected);
    assert_eq!(footprints[1].1.value_bytes, [300, 400, 400, 600]);
}
