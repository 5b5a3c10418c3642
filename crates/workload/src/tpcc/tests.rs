//! Runs of TPC-C on one transaction after the other, and canaries for every condition of the check.

use std::collections::BTreeMap;

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness};
use fogbank_txn::Key;

use super::customers::{Customer, Namesakes};
use super::keys::{self, Place};
use super::orders::{self, Line, Lines, Order};
use super::rows::{Address, Number, Row, Stock, Takings};
use super::{
    DELIVERY, KINDS, NEW_ORDER, ORDER_STATUS, PAYMENT, STOCK_LEVEL, Scale, Tpcc, draws, loading,
};
use crate::database::Error;
use crate::serial::Serial;
use crate::workload::{Ledger, Workload};

/// Bytes that a record may have.
const LIMIT: usize = 690;
const AT: Place = Place { warehouse: 2, district: 1 };

type All = BTreeMap<Key, Bytes>;

fn small() -> Tpcc {
    Tpcc::new(2, Scale::small())
}

async fn played() -> (Serial, Ledger) {
    let database = Serial::loaded(&small());
    let ledger = database.play(&small(), 3_000, 1).await;
    (database, ledger)
}

fn row<R: Row>(all: &All, key: &Key) -> R {
    R::of(all.get(key).cloned()).unwrap()
}

fn edit<R: Row>(all: &mut All, key: &Key, change: impl FnOnce(&mut R)) {
    let mut row: R = row(all, key);
    change(&mut row);
    all.insert(key.clone(), row.record());
}

fn next_order(all: &All) -> u32 {
    row::<Number>(all, &keys::next_order(AT)).0
}

fn next_delivery(all: &All) -> u32 {
    row::<Number>(all, &keys::next_delivery(AT)).0
}

/// What a check says after a run in which something was changed behind everybody's back.
async fn said(change: impl FnOnce(&mut All)) -> String {
    let (database, ledger) = played().await;
    small().check(&database, &ledger).await.unwrap();
    database.alter(change);
    match small().check(&database, &ledger).await {
        Err(Error::Broken(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn everything_happens_and_the_conditions_hold() {
    let (database, ledger) = played().await;
    for (kind, (name, part)) in KINDS.iter().enumerate() {
        let expected = f64::from(*part) * 30.0;
        let all = ledger.done[kind] + ledger.declined[kind];
        assert!((all as f64 - expected).abs() < 5.0 * expected.sqrt(), "{name}: {all}");
    }
    assert!((1..50).contains(&ledger.declined[NEW_ORDER]), "{ledger:?}");
    for never in [PAYMENT, ORDER_STATUS, DELIVERY, STOCK_LEVEL] {
        assert_eq!(ledger.declined[never], 0);
    }
    small().check(&database, &ledger).await.unwrap();
    database.alter(|all| assert!(all.values().all(|record| record.len() <= LIMIT)));
}

#[tokio::test]
async fn transactions_leave_what_they_are_for() {
    let (database, _) = played().await;
    database.alter(|all| {
        let first = small().scale.first_undelivered();
        assert!(next_delivery(all) > first);
        let order: Order = row(all, &keys::order(AT, first));
        let lines: Lines = row(all, &keys::lines(AT, first));
        assert!(order.carrier > 0 && lines.delivered > 0);
        let latest: Number = row(all, &keys::latest_order(AT, order.customer));
        assert!(latest.0 > small().scale.orders, "everybody has ordered again");
        let customers = (1..=12).map(|number| row::<Customer>(all, &keys::customer(AT, number)));
        let of_all =
            |count: fn(&Customer) -> u32| customers.clone().map(|c| count(&c)).sum::<u32>();
        assert!(of_all(|customer| customer.payments) > 12);
        // One delivery for each order from the first undelivered on.
        assert_eq!(of_all(|customer| customer.deliveries), next_delivery(all) - first);
        let stocks = (1..=50).map(|item| row::<Stock>(all, &keys::stock(2, item)));
        assert!(stocks.clone().all(|stock| (10..=100).contains(&stock.quantity)));
        assert!(stocks.clone().any(|stock| stock.remote > 0 && stock.remote < stock.orders));
    });
}

#[tokio::test]
async fn payments_make_balances() {
    let (database, ledger) = played().await;
    let mut paid = 0;
    database.alter(|all| {
        for (key, record) in all.iter().filter(|(key, _)| *key.group() == *b"c") {
            let customer = Customer::of(Some(record.clone())).unwrap();
            paid += customer.paid - 1_000;
            let noted = customer.data.contains(&b'|');
            let bad = customer.credit == Customer::BAD;
            assert!(noted == (bad && customer.payments > 1), "{key:?}");
        }
    });
    assert_eq!(paid, ledger.sum);
}

#[tokio::test]
async fn condition_1_sees_takings_that_differ() {
    let more = |all: &mut All, key| edit::<Takings>(all, &key, |takings| takings.0 += 1);
    let what = said(|all| more(all, keys::warehouse_ytd(2))).await;
    assert!(what.contains("condition 1: warehouse 2"), "{what}");
    let what = said(|all| more(all, keys::district_ytd(AT))).await;
    assert!(what.contains("condition 1: warehouse 2"), "{what}");
}

#[tokio::test]
async fn condition_2_sees_a_number_that_orders_do_not_end_before() {
    for change in [1, -1] {
        let what = said(|all| {
            edit::<Number>(all, &keys::next_order(AT), |next| {
                next.0 = next.0.saturating_add_signed(change);
            });
        });
        let what = what.await;
        assert!(what.contains("condition 2: warehouse 2, district 1"), "{what}");
    }
    let what = said(|all| drop(all.remove(&keys::order(AT, next_order(all) - 1)))).await;
    assert!(what.contains("condition 2: warehouse 2, district 1"), "{what}");
    let what = said(|all| {
        let next = next_order(all);
        all.insert(keys::undelivered(AT, next), orders::undelivered(AT, next));
    });
    let what = what.await;
    assert!(what.contains("condition 2: warehouse 2, district 1"), "{what}");
}

#[tokio::test]
async fn condition_3_sees_gaps_among_what_waits() {
    let what = said(|all| {
        let middle = u32::midpoint(next_delivery(all), next_order(all) - 1);
        all.remove(&keys::undelivered(AT, middle)).unwrap();
    });
    let what = what.await;
    assert!(what.contains("condition 3: warehouse 2, district 1"), "{what}");
    for back in [1, 3] {
        let what = said(|all| {
            let before = next_delivery(all) - back;
            all.insert(keys::undelivered(AT, before), orders::undelivered(AT, before));
        });
        let what = what.await;
        assert!(what.contains("condition 3: warehouse 2, district 1"), "{what}");
    }
    let what = said(|all| edit::<Number>(all, &keys::next_delivery(AT), |next| next.0 += 1)).await;
    assert!(what.contains("condition 3: warehouse 2, district 1"), "{what}");
}

#[tokio::test]
async fn condition_4_sees_a_line_too_few() {
    let what = said(|all| {
        edit::<Lines>(all, &keys::lines(AT, 20), |lines| drop(lines.lines.pop()));
    });
    let what = what.await;
    assert!(what.contains("condition 4: warehouse 2, district 1: order 20"), "{what}");
    let what = said(|all| drop(all.remove(&keys::lines(AT, 3)))).await;
    assert!(what.contains("condition 4: warehouse 2, district 1: order 3"), "{what}");
    let what = said(|all| drop(all.remove(&keys::order(AT, 1)))).await;
    assert!(what.contains("condition 4: warehouse 2, district 1: order 1"), "{what}");
}

#[tokio::test]
async fn the_ledger_sees_an_order_that_has_gone_without_a_trace() {
    let what = said(|all| {
        let last = next_order(all) - 1;
        for key in [keys::order(AT, last), keys::lines(AT, last), keys::undelivered(AT, last)] {
            all.remove(&key).unwrap();
        }
        edit::<Number>(all, &keys::next_order(AT), |next| next.0 -= 1);
    });
    let what = what.await;
    assert!(what.contains("ledger of orders"), "{what}");
}

#[tokio::test]
async fn the_ledger_sees_a_payment_that_has_gone_without_a_trace() {
    let what = said(|all| {
        for key in [keys::warehouse_ytd(2), keys::district_ytd(AT)] {
            edit::<Takings>(all, &key, |takings| takings.0 -= 100);
        }
    });
    let what = what.await;
    assert!(what.contains("ledger of payments"), "{what}");
}

#[test]
fn records_are_the_same_each_time_and_of_the_right_number() {
    let all: Vec<_> = small().records().collect();
    assert!(all.iter().cloned().eq(small().records()));
    // Four of its own; three for each customer; two for each order and one for each that waits.
    let district = 4 + small().scale.names() + 3 * 12 + 2 * 12 + 4;
    assert_eq!(all.len() as u32, 50 + 2 * (2 + 50 + 2 * district));
    assert!(all.iter().all(|(key, record)| key.encoded_len() <= 22 && record.len() <= LIMIT));
    // What comes first of a warehouse does not depend on how many there are.
    assert!(Tpcc::new(1, Scale::small()).records().eq(small().records().take(all.len() / 2 + 25)));
    let of_group = |group: &[u8]| all.iter().filter(|(key, _)| *key.group() == *group).count();
    assert_eq!([b"c", b"h", b"o", b"l"].map(|group| of_group(group)), [48; 4]);
    assert_eq!([of_group(b"no"), of_group(b"s"), of_group(b"i")], [16, 100, 50]);
}

#[test]
fn the_largest_rows_fit() {
    let text = |len| Bytes::from(vec![b'x'; len]);
    let address =
        Address { street: [text(20), text(20)], city: text(20), state: text(2), zip: text(9) };
    let mut customer = Customer {
        first: text(16),
        middle: text(2),
        last: (0..draws::NAMES).map(draws::last_name).max_by_key(String::len).unwrap().into(),
        address,
        phone: text(16),
        since: 0,
        credit: Bytes::from_static(Customer::BAD),
        limit: 0,
        discount: 0,
        balance: 0,
        paid: 0,
        payments: 0,
        deliveries: 0,
        data: text(500),
    };
    customer.pay(1, "note|");
    assert_eq!(customer.record().len(), 688);
    let line = Line { item: 1, supply: 1, quantity: 1, amount: 1, info: text(24) };
    let lines = Lines { delivered: 0, lines: vec![line; orders::MOST as usize] };
    assert!(lines.record().len() <= LIMIT);
    let stock =
        Stock { quantity: 0, infos: text(240), sold: 0, orders: 0, remote: 0, data: text(50) };
    assert_eq!((stock.record().len(), stock.info(10).len(), stock.info(11).len()), (310, 24, 0));
}

#[test]
fn customers_are_found_by_their_last_names() {
    let all: All = loading::records(small()).collect();
    let names: Vec<String> = (0..small().scale.names()).map(draws::last_name).collect();
    for at in [1, 2].map(|district| Place { warehouse: 1, district }) {
        let mut expected = vec![Vec::new(); names.len()];
        for number in 1..=small().scale.customers {
            let customer: Customer = row(&all, &keys::customer(at, number));
            let name = names.iter().position(|name| name.as_bytes() == customer.last).unwrap();
            expected[name].push((customer.first, number));
        }
        for (name, mut expected) in (0..).zip(expected) {
            expected.sort();
            let found: Namesakes = row(&all, &keys::customers_by_name(at, name));
            assert!(found.0.iter().eq(expected.iter().map(|(_, number)| number)), "{name}");
            assert_eq!(found.middle().unwrap(), expected[(expected.len() - 1) / 2].1);
        }
    }
}

#[test]
fn draws_keep_to_their_ranges_and_are_uneven() {
    let (tpcc, mut stream) =
        (Tpcc::new(3, Scale::full()), Randomness::repeatable(3).stream(Purpose::Workload));
    assert_eq!([371, 0, 999].map(draws::last_name), ["PRICALLYOUGHT", "BARBARBAR", "EINGEINGEING"]);
    assert_eq!((tpcc.scale.names(), tpcc.scale.first_undelivered()), (1_000, 2_101));
    let mut counts = vec![0_u32; 3_001];
    for _ in 0..30_000 {
        counts[draws::customer(&tpcc.scale, &mut stream) as usize] += 1;
        assert!((1..=100_000).contains(&draws::item(&tpcc.scale, &mut stream)));
        let other = draws::remote(1.0, 2, &tpcc, &mut stream);
        assert!(matches!(other, Some(1 | 3)));
    }
    assert_eq!(counts[0], 0);
    assert!(counts.iter().max() > Some(&40), "each would come ten times");
    let alone = Tpcc::new(0, Scale::full());
    assert_eq!(draws::remote(1.0, 1, &alone, &mut stream), None);
}
