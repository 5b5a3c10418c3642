//! Keys of all records: a table is a group, and a member is its numbers, big-endian, so that rows
//! lie in the order of their numbers.
//!
//! No key is longer than 22 bytes in its encoding, the longest that needs no allocation.

use fogbank_txn::Key;

/// A district of a warehouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The warehouse.
    pub warehouse: u32,
    /// The district within it.
    pub district: u32,
}

/// Name, address and tax of a warehouse.
pub(super) fn warehouse(warehouse: u32) -> Key {
    key(b"w", [warehouse])
}

/// What a warehouse has taken this year.
pub(super) fn warehouse_ytd(warehouse: u32) -> Key {
    key(b"wy", [warehouse])
}

/// Name, address and tax of a district.
pub(super) fn district(at: Place) -> Key {
    of_place(b"d", at)
}

/// What a district has taken this year.
pub(super) fn district_ytd(at: Place) -> Key {
    of_place(b"dy", at)
}

/// The number that the next order of a district gets.
pub(super) fn next_order(at: Place) -> Key {
    of_place(b"dn", at)
}

/// The order of a district that is to be delivered next.
pub(super) fn next_delivery(at: Place) -> Key {
    of_place(b"dd", at)
}

/// A customer.
pub(super) fn customer(at: Place, customer: u32) -> Key {
    in_place(b"c", at, customer)
}

/// The customers of a district who share the last name with this number.
pub(super) fn customers_by_name(at: Place, name: u32) -> Key {
    in_place(b"cn", at, name)
}

/// The latest order of a customer.
pub(super) fn latest_order(at: Place, customer: u32) -> Key {
    in_place(b"cl", at, customer)
}

/// One payment of a customer. `unique` is drawn: a counter would be one more record to fight for.
pub(super) fn history(at: Place, customer: u32, unique: u64) -> Key {
    let (high, low) = ((unique >> 32) as u32, unique as u32);
    key(b"h", [at.warehouse, at.district, customer, high, low])
}

/// An order, without its lines.
pub(super) fn order(at: Place, order: u32) -> Key {
    in_place(b"o", at, order)
}

/// The lines of an order.
pub(super) fn lines(at: Place, order: u32) -> Key {
    in_place(b"l", at, order)
}

/// There as long as an order is not delivered.
pub(super) fn undelivered(at: Place, order: u32) -> Key {
    in_place(b"no", at, order)
}

/// What a warehouse has of an item.
pub(super) fn stock(warehouse: u32, item: u32) -> Key {
    key(b"s", [warehouse, item])
}

/// An item.
pub(super) fn item(item: u32) -> Key {
    key(b"i", [item])
}

fn of_place(group: &[u8], at: Place) -> Key {
    key(group, [at.warehouse, at.district])
}

fn in_place(group: &[u8], at: Place, number: u32) -> Key {
    key(group, [at.warehouse, at.district, number])
}

fn key<const N: usize>(group: &[u8], numbers: [u32; N]) -> Key {
    Key::new(group, numbers.map(u32::to_be_bytes).as_flattened())
}
