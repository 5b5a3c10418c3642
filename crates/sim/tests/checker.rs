//! The checker proven: every class of anomaly, planted, is found and named; honest histories of
//! many seeds, serial and interleaved, pass.

use fogbank_sim::history::bank::{self, Snapshot};
use fogbank_sim::history::{
    Class, History, Key, Op, Outcome, Promise, Report, Seen, Transaction, Value,
};
use fogbank_sim::model::{Isolation, Load, run};
use proptest::prelude::*;

const SMALL: Load = Load { clients: 6, transactions: 400, ranges: 2, members: 6, ops: 6 };

fn key(member: u32) -> Key {
    Key { range: 0, member }
}

fn append(member: u32, value: Value) -> Op {
    Op::Append { key: key(member), value }
}

fn read(member: u32, list: &[Value]) -> Op {
    let seen = if list.is_empty() { Seen::NotYet } else { Seen::List(list.to_vec()) };
    Op::Read { key: key(member), seen }
}

fn scan(from: u32, to: u32, found: &[(u32, Seen)]) -> Op {
    Op::Scan { range: 0, from, to, found: found.to_vec() }
}

fn delete(member: u32) -> Op {
    Op::Delete { key: key(member) }
}

/// A history of committed transactions that all ran at once.
fn history(transactions: &[&[Op]]) -> History {
    let one = |(at, ops): (usize, &&[Op])| Transaction {
        client: at as u32,
        started: 0,
        ended: 10,
        outcome: Outcome::Committed,
        ops: ops.to_vec(),
    };
    History { transactions: transactions.iter().enumerate().map(one).collect() }
}

#[track_caller]
fn finds(class: Class, history: &History) -> Report {
    let report = history.check(Promise::Strict);
    assert!(report.has(class), "{class} was planted; found: {report}");
    report
}

#[track_caller]
fn finds_only(class: Class, transactions: &[&[Op]]) -> Report {
    let report = finds(class, &history(transactions));
    assert_eq!(report.found.len(), 1, "{report}");
    report
}

#[test]
fn g0_two_writers_interleaved() {
    let report = finds_only(
        Class::G0,
        &[
            &[append(1, 10), append(2, 20)],
            &[append(1, 11), append(2, 21)],
            &[read(1, &[10, 11])],
            &[read(2, &[21, 20])],
        ],
    );
    let words = &report.anomalies[0].words;
    assert!(words.contains("T0 (client 0) -ww-> T1: wrote 0/1"), "{words}");
    assert!(words.contains("T1 (client 1) -ww-> T0: wrote 0/2"), "{words}");
}

#[test]
fn g1a_read_of_an_aborted_write() {
    let mut planted = history(&[&[append(1, 10)], &[read(1, &[10])]]);
    planted.transactions[0].outcome = Outcome::Aborted;
    finds(Class::G1a, &planted);

    let mut planted =
        history(&[&[append(1, 10)], &[delete(1)], &[Op::Read { key: key(1), seen: Seen::Gone }]]);
    planted.transactions[1].outcome = Outcome::Aborted;
    finds(Class::G1a, &planted);
}

#[test]
fn g1b_read_in_the_midst() {
    let appends = [append(1, 10), append(1, 11)];
    finds(Class::G1b, &history(&[&appends, &[read(1, &[10])], &[read(1, &[10, 11])]]));
    let deletes = [append(1, 10), delete(1)];
    finds(Class::G1b, &history(&[&deletes, &[read(1, &[10])]]));
}

#[test]
fn g1c_information_in_a_circle() {
    finds_only(Class::G1c, &[&[append(1, 10), read(2, &[20])], &[append(2, 20), read(1, &[10])]]);
}

#[test]
fn g_single_read_skew() {
    let writer = [append(1, 10), append(2, 20)];
    finds_only(Class::GSingle, &[&writer, &[read(1, &[]), read(2, &[20])]]);
}

#[test]
fn g_single_of_a_read_that_does_not_repeat() {
    finds_only(Class::GSingle, &[&[append(1, 10)], &[read(1, &[]), read(1, &[10])]]);
}

#[test]
fn g_single_lost_update_of_which_one_was_never_read() {
    finds_only(
        Class::GSingle,
        &[
            &[append(1, 1)],
            &[read(1, &[1]), append(1, 10)],
            &[read(1, &[1]), append(1, 11)],
            &[read(1, &[1, 11])],
        ],
    );
}

#[test]
fn g2_item_write_skew() {
    finds_only(
        Class::G2Item,
        &[
            &[append(1, 1), append(2, 2)],
            &[read(1, &[1]), append(2, 20)],
            &[read(2, &[2]), append(1, 10)],
            &[read(1, &[1, 10]), read(2, &[2, 20])],
        ],
    );
}

#[test]
fn g2_two_who_each_found_the_range_empty() {
    let report = finds_only(
        Class::G2,
        &[
            &[scan(0, 9, &[]), append(1, 10)],
            &[scan(0, 9, &[]), append(2, 20)],
            &[read(1, &[10]), read(2, &[20])],
        ],
    );
    assert!(report.anomalies[0].words.contains("scanned past 0/2"), "{report}");
}

#[test]
fn g2_phantom_of_one_insert() {
    let insert = [append(1, 10), append(50, 1)];
    finds_only(Class::G2, &[&insert, &[scan(0, 9, &[]), read(50, &[1])]]);
}

#[test]
fn phantom_delete() {
    // The scan shows the key dug up; what the deleter wrote elsewhere was not seen.
    let deleter = [delete(1), append(50, 1)];
    finds(
        Class::GSingle,
        &history(&[&[append(1, 10)], &deleter, &[scan(0, 9, &[(1, Seen::Gone)]), read(50, &[])]]),
    );
    // The other way round: the key still there, and the deleter's other write seen.
    finds(
        Class::GSingle,
        &history(&[&[append(1, 10)], &deleter, &[scan(0, 9, &[(1, Seen::Alive)]), read(50, &[1])]]),
    );
}

#[test]
fn a_grave_beside_the_living_is_an_anomaly() {
    let both = [scan(0, 9, &[(1, Seen::Alive), (1, Seen::Gone)])];
    finds(Class::GSingle, &history(&[&[append(1, 10)], &[delete(1)], &both]));
}

#[test]
fn real_time_is_asked_of_strict_only() {
    let mut planted = history(&[&[append(1, 10)], &[scan(0, 9, &[])]]);
    planted.transactions[1].started = 20;
    planted.transactions[1].ended = 30;
    assert!(planted.check(Promise::Serializable).is_clean());
    let report = finds(Class::RealTime, &planted);
    assert!(report.anomalies[0].words.contains("had ended before"), "{report}");
}

#[test]
fn own_writes_not_seen() {
    finds(Class::Internal, &history(&[&[append(1, 10), read(1, &[])]]));
    finds(Class::Internal, &history(&[&[append(1, 10), scan(0, 9, &[])]]));
    finds(Class::Internal, &history(&[&[append(1, 10)], &[delete(1), read(1, &[10])]]));
}

#[test]
fn orders_that_do_not_agree() {
    finds(
        Class::IncompatibleOrder,
        &history(&[&[append(1, 10)], &[append(1, 11)], &[read(1, &[10, 11])], &[read(1, &[11])]]),
    );
}

#[test]
fn an_append_that_was_lost() {
    let mut planted = history(&[&[append(1, 10)], &[append(1, 11)], &[read(1, &[11])]]);
    planted.transactions[2].started = 20;
    finds(Class::LostAppend, &planted);
}

#[test]
fn lists_wrong_by_themselves() {
    finds(Class::Duplicate, &history(&[&[append(1, 10)], &[read(1, &[10, 10])]]));
    finds(Class::Garbage, &history(&[&[read(1, &[10])]]));
    let gone = Op::Read { key: key(1), seen: Seen::Gone };
    finds(Class::Garbage, &history(&[&[append(1, 10)], &[gone]]));
    finds(Class::DuplicateDelete, &history(&[&[append(1, 10)], &[delete(1)], &[delete(1)]]));
    finds(Class::Malformed, &history(&[&[append(1, 10)], &[append(1, 10)]]));
}

#[test]
fn unknown_outcomes_count_once_seen() {
    let skew: &[&[Op]] =
        &[&[append(1, 10), append(2, 20)], &[read(1, &[]), read(2, &[20])], &[read(1, &[])]];
    let mut planted = history(skew);
    planted.transactions[0].outcome = Outcome::Unknown;
    finds(Class::GSingle, &planted);
    planted.transactions[1].ops.pop();
    planted.check(Promise::Strict).assert_clean();
}

#[test]
fn an_unknown_delete_among_aborted_ones_is_no_anomaly() {
    let gone = Op::Read { key: key(1), seen: Seen::Gone };
    let mut planted = history(&[&[append(1, 10)], &[delete(1)], &[delete(1)], &[gone]]);
    planted.transactions[1].outcome = Outcome::Aborted;
    planted.transactions[2].outcome = Outcome::Unknown;
    planted.check(Promise::Strict).assert_clean();
    planted.transactions[1].outcome = Outcome::Unknown;
    planted.check(Promise::Strict).assert_clean();
}

#[test]
fn absence_that_says_nothing_is_held_against_nobody() {
    let missing = Op::Read { key: key(1), seen: Seen::Missing };
    history(&[&[append(1, 10)], &[delete(1)], &[missing]]).check(Promise::Strict).assert_clean();
}

#[test]
fn weak_stores_are_found_out() {
    let over = |isolation| {
        let reports = (0..20).map(|seed| run(isolation, SMALL, seed).check(Promise::Strict));
        reports.collect::<Vec<_>>()
    };
    let some = |reports: &[Report], class| reports.iter().any(|report| report.has(class));

    let snapshot = over(Isolation::Snapshot);
    assert!(some(&snapshot, Class::G2Item) || some(&snapshot, Class::G2));
    assert!(!some(&snapshot, Class::GSingle) && !some(&snapshot, Class::LostAppend));
    let phantoms = over(Isolation::NoPredicates);
    assert!(some(&phantoms, Class::G2) && !some(&phantoms, Class::G2Item));
    assert!(some(&over(Isolation::ReadCommitted), Class::IncompatibleOrder));
    assert!(some(&over(Isolation::StaleReaders), Class::RealTime));
}

#[test]
fn bank_sums() {
    let shot = |balances: &[i64]| Snapshot { client: 0, started: 0, balances: balances.to_vec() };
    assert!(bank::check(10, &[shot(&[4, 6]), shot(&[0, 10])]).is_empty());
    let wrong = bank::check(10, &[shot(&[4, 6]), shot(&[4, 5]), shot(&[-1, 11])]);
    assert_eq!(wrong.iter().map(|w| w.at).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_hundred_thousand_transactions_at_once() {
    let load = Load { clients: 40, transactions: 100_000, ranges: 20, members: 20, ops: 8 };
    let history = run(Isolation::Serializable, load, 1);
    let report = history.check(Promise::Strict);
    report.assert_clean();
    assert!(report.committed > 50_000, "{report}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn honest_interleavings_pass(
        seed: u64, clients in 1..12usize, ranges in 1..4u32, members in 1..20u32, ops in 1..10usize,
    ) {
        let load = Load { clients, transactions: 300, ranges, members, ops };
        let report = run(Isolation::Serializable, load, seed).check(Promise::Strict);
        prop_assert!(report.is_clean(), "{}", report);
        let report = run(Isolation::StaleReaders, load, seed).check(Promise::Serializable);
        prop_assert!(report.is_clean(), "{}", report);
    }

    /// A serial history stays serializable whatever order its transactions are recorded in, and
    /// one value moved between two lists of it is always noticed.
    #[test]
    fn serial_histories_pass_and_a_changed_one_does_not(seed: u64, pick: prop::sample::Index) {
        let load = Load { clients: 1, ..SMALL };
        let mut serial = run(Isolation::Serializable, load, seed);
        serial.transactions.reverse();
        let report = serial.check(Promise::Strict);
        prop_assert!(report.is_clean(), "{}", report);
        let mut lists: Vec<&mut Vec<Value>> = serial.transactions.iter_mut()
            .filter(|t| t.outcome == Outcome::Committed)
            .flat_map(|t| &mut t.ops)
            .filter_map(|op| match op {
                Op::Read { seen: Seen::List(list), .. } => Some(list),
                _ => None,
            })
            .collect();
        let at = pick.index(lists.len());
        lists[at].insert(0, u64::MAX);
        prop_assert!(!serial.check(Promise::Strict).is_clean());
    }
}
