//! What there is at first (clause 4.3.3), one record after the other.
//!
//! 1. Items come first, then one warehouse after the other: itself, its stock, its districts.
//! 2. Every part draws from a stream of its own. So no record depends on how many come before it,
//!    and asked again the same ones come.
//! 3. Of a district, its customers' names and who made which order are kept while its records are
//!    made: its tables have to agree on them. Nothing else is.
//!
//! A record holds the most that the specification allows in 688 bytes, a customer's.

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_txn::Key;
use rand::RngExt;

use super::customers::{Customer, Namesakes, history};
use super::keys::{self, Place};
use super::orders::{self, Line, Lines, Order};
use super::rows::{Address, INFO, Item, Number, Row, Site, Stock, Takings};
use super::{Scale, Tpcc, draws};
use crate::chance::{between, happens, text};

/// What a district has taken at first, in cents.
pub(super) const DISTRICT_TAKINGS: i64 = 3_000_000;
/// What a customer has paid at first, in cents, and the amount of the one payment that is kept.
const PAID: i64 = 1_000;
/// Districts that a stock says something about, however many there are.
const INFOS: u32 = 10;

const SEED: u64 = 0x7470_6363;

/// Which part of the records a stream is for.
#[derive(Debug, Clone, Copy)]
enum Part {
    Items,
    Warehouse,
    Stock,
    District,
    Customers,
    Orders,
}

fn stream(part: Part, at: Place) -> Stream {
    let randomness = Randomness::repeatable(SEED).split(part as u64);
    let randomness = randomness.split(at.warehouse.into()).split(at.district.into());
    randomness.stream(Purpose::Workload)
}

/// All records.
pub(super) fn records(tpcc: Tpcc) -> impl Iterator<Item = (Key, Bytes)> + Send {
    let mut draws = stream(Part::Items, Place { warehouse: 0, district: 0 });
    let items = (1..=tpcc.scale.items).map(move |item| (keys::item(item), new_item(&mut draws)));
    items.chain((1..=tpcc.warehouses).flat_map(move |number| warehouse(tpcc.scale, number)))
}

fn warehouse(scale: Scale, warehouse: u32) -> impl Iterator<Item = (Key, Bytes)> + Send {
    let at = Place { warehouse, district: 0 };
    let site = site(&mut stream(Part::Warehouse, at)).record();
    let takings = Takings(DISTRICT_TAKINGS * i64::from(scale.districts)).record();
    let own = [(keys::warehouse(warehouse), site), (keys::warehouse_ytd(warehouse), takings)];
    let mut draws = stream(Part::Stock, at);
    let stock =
        (1..=scale.items).map(move |item| (keys::stock(warehouse, item), new_stock(&mut draws)));
    let districts = (1..=scale.districts)
        .flat_map(move |district| self::district(scale, Place { warehouse, district }));
    own.into_iter().chain(stock).chain(districts)
}

fn district(scale: Scale, at: Place) -> impl Iterator<Item = (Key, Bytes)> + Send {
    let mut draws = stream(Part::District, at);
    let own = [
        (keys::district(at), site(&mut draws).record()),
        (keys::district_ytd(at), Takings(DISTRICT_TAKINGS).record()),
        (keys::next_order(at), Number(scale.orders + 1).record()),
        (keys::next_delivery(at), Number(scale.first_undelivered()).record()),
    ];
    let names = names(&scale, &mut draws);
    let owners = owners(&scale, &mut draws);
    let by_name = by_name(at, &names);
    let customers = customers(at, &scale, names, &owners);
    own.into_iter().chain(by_name).chain(customers).chain(all_orders(at, scale, owners))
}

/// The number of the last name and the first name of each customer.
type Names = Vec<(u32, Vec<u8>)>;

fn names(scale: &Scale, draws: &mut Stream) -> Names {
    let mut one = |customer| (draws::name_of_new(customer, scale, draws), text(8, 16, draws));
    (1..=scale.customers).map(&mut one).collect()
}

/// The customer of each order: all of them in turn, in an order that is drawn.
fn owners(scale: &Scale, draws: &mut Stream) -> Vec<u32> {
    let mut customers: Vec<u32> = (1..=scale.customers).collect();
    for last in (1..customers.len()).rev() {
        customers.swap(last, draws.random_range(0..=last));
    }
    customers.into_iter().cycle().take(scale.orders as usize).collect()
}

/// For each last name its customers. The first customers have every name in turn, so that none is
/// missing.
fn by_name(at: Place, names: &Names) -> Vec<(Key, Bytes)> {
    let mut sorted: Vec<(u32, &[u8], u32)> =
        names.iter().zip(1..).map(|((last, first), number)| (*last, &first[..], number)).collect();
    sorted.sort_unstable();
    let of_name = |same: &[(u32, &[u8], u32)]| {
        let all = Namesakes(same.iter().map(|(.., number)| *number).collect());
        (keys::customers_by_name(at, same[0].0), all.record())
    };
    sorted.chunk_by(|one, other| one.0 == other.0).map(of_name).collect()
}

fn customers(
    at: Place,
    scale: &Scale,
    names: Names,
    owners: &[u32],
) -> impl Iterator<Item = (Key, Bytes)> + Send + use<> {
    let mut latest = vec![0; scale.customers as usize + 1];
    owners.iter().zip(1..).for_each(|(owner, order)| latest[*owner as usize] = order);
    let mut draws = stream(Part::Customers, at);
    names.into_iter().zip(1..).flat_map(move |((last, first), number)| {
        let customer = new_customer(&draws::last_name(last), first, &mut draws);
        let data = text(12, 24, &mut draws);
        let paid = history(at, customer.since, PAID, &data);
        [
            (keys::customer(at, number), customer.record()),
            (keys::history(at, number, 0), paid),
            (keys::latest_order(at, number), Number(latest[number as usize]).record()),
        ]
    })
}

fn all_orders(
    at: Place,
    scale: Scale,
    owners: Vec<u32>,
) -> impl Iterator<Item = (Key, Bytes)> + Send {
    let mut draws = stream(Part::Orders, at);
    owners.into_iter().zip(1..).flat_map(move |(customer, number)| {
        let waits = number >= scale.first_undelivered();
        let (order, lines) = new_order(at, &scale, customer, waits, &mut draws);
        let both = [(keys::order(at, number), order), (keys::lines(at, number), lines)];
        let waiting =
            waits.then(|| (keys::undelivered(at, number), orders::undelivered(at, number)));
        both.into_iter().chain(waiting)
    })
}

fn new_order(
    at: Place,
    scale: &Scale,
    customer: u32,
    waits: bool,
    draws: &mut Stream,
) -> (Bytes, Bytes) {
    let (entered, count) = (draws::date(draws), between(orders::FEWEST, orders::MOST, draws));
    let carrier = if waits { 0 } else { between(1, 10, draws) };
    let order = Order { customer, entered, carrier, lines: count, local: true };
    let mut line = |_| Line {
        item: between(1, scale.items, draws),
        supply: at.warehouse,
        quantity: 5,
        amount: if waits { between(1, 999_999, draws) } else { 0 },
        info: text(INFO as u32, INFO as u32, draws).into(),
    };
    let lines = (0..count).map(&mut line).collect();
    let lines = Lines { delivered: if waits { 0 } else { entered }, lines };
    (order.record(), lines.record())
}

fn new_item(draws: &mut Stream) -> Bytes {
    let item = Item {
        image: between(1, 10_000, draws),
        name: text(14, 24, draws).into(),
        price: between(100, 10_000, draws),
        data: data(draws),
    };
    item.record()
}

fn new_stock(draws: &mut Stream) -> Bytes {
    let all = INFOS * INFO as u32;
    let stock = Stock {
        quantity: between(10, 100, draws),
        infos: text(all, all, draws).into(),
        sold: 0,
        orders: 0,
        remote: 0,
        data: data(draws),
    };
    stock.record()
}

/// What is said of an item or a stock; one in ten is an original.
fn data(draws: &mut Stream) -> Bytes {
    const ORIGINAL: &[u8] = b"ORIGINAL";
    let mut data = text(26, 50, draws);
    if happens(0.1, draws) {
        let from = draws.random_range(0..=data.len() - ORIGINAL.len());
        data[from..from + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    data.into()
}

fn site(draws: &mut Stream) -> Site {
    let name = text(6, 10, draws).into();
    Site { name, address: address(draws), tax: between(0, 2_000, draws) }
}

fn address(draws: &mut Stream) -> Address {
    Address {
        street: [text(10, 20, draws).into(), text(10, 20, draws).into()],
        city: text(10, 20, draws).into(),
        state: text(2, 2, draws).into(),
        zip: format!("{:04}11111", between(0, 9_999, draws)).into(),
    }
}

fn new_customer(last: &str, first: Vec<u8>, draws: &mut Stream) -> Customer {
    let bad = happens(0.1, draws);
    Customer {
        first: first.into(),
        middle: Bytes::from_static(b"OE"),
        last: Bytes::copy_from_slice(last.as_bytes()),
        address: address(draws),
        phone: format!("{:016}", draws.random_range(0..10_u64.pow(16))).into(),
        since: draws::date(draws),
        credit: Bytes::from_static(if bad { Customer::BAD } else { b"GC" }),
        limit: 5_000_000,
        discount: between(0, 5_000, draws),
        balance: -PAID,
        paid: PAID,
        payments: 1,
        deliveries: 0,
        data: text(300, 500, draws).into(),
    }
}
