//! How the checker's keys and lists are kept in the store.
//!
//! A range is a group. A member is four bytes, then 0 for the list and 1 for its grave, so that a
//! scan shows a grave right after the list it buried. A list is its values, eight bytes each; its
//! attribute is their number, so that a record torn from its directory entry shows.

use std::ops::Bound;

use bytes::Bytes;
use fogbank_txn::{Key, KeyRange, Record};

use crate::history::{self, Seen, Value};

const LIST: u8 = 0;
const GRAVE: u8 = 1;

/// The record of a list.
pub fn list_key(key: history::Key) -> Key {
    record_key(key, LIST)
}

/// The record that says that the list was deleted.
pub fn grave_key(key: history::Key) -> Key {
    record_key(key, GRAVE)
}

fn record_key(key: history::Key, part: u8) -> Key {
    Key::new(&group(key.range), &member(key.member, part))
}

/// The group of a range.
pub fn group(range: u32) -> Vec<u8> {
    format!("r{range}").into_bytes()
}

fn member(member: u32, part: u8) -> [u8; 5] {
    let [a, b, c, d] = member.to_be_bytes();
    [a, b, c, d, part]
}

/// The records of a stretch of a range, both ends inside.
pub fn stretch(range: u32, from: u32, to: u32) -> KeyRange {
    let (from, to) = (member(from, LIST), member(to, GRAVE));
    KeyRange::members(&group(range), Bound::Included(&from), Bound::Included(&to))
}

/// The value of a list with its attribute.
pub fn encode(list: &[Value]) -> (Bytes, u64) {
    let bytes: Vec<u8> = list.iter().flat_map(|value| value.to_le_bytes()).collect();
    (bytes.into(), list.len() as u64)
}

/// The list in a record. One whose attribute does not fit its value yields a value that nobody
/// appended, which the checker reports.
pub fn decode(record: &Record) -> Vec<Value> {
    let chunks = record.value.chunks(8);
    let list = chunks.map(|chunk| chunk.try_into().map_or(TORN, u64::from_le_bytes));
    let mut list: Vec<Value> = list.collect();
    if list.len() as u64 != record.attr {
        list.push(TORN);
    }
    list
}

/// Stands for a record that cannot be read.
const TORN: Value = Value::MAX;

/// What a list and its grave together say.
pub fn seen(list: Option<&Record>, grave: bool) -> Seen {
    match (list, grave) {
        (Some(record), _) => Seen::List(decode(record)),
        (None, true) => Seen::Gone,
        (None, false) => Seen::NotYet,
    }
}

/// What one key found by a scan says: which member, and whether it is the grave.
pub fn found(key: &Key) -> (u32, bool) {
    let mut number = [0; 4];
    let bytes = key.member();
    if let (Some(digits), 5) = (bytes.get(..4), bytes.len()) {
        number.copy_from_slice(digits);
    }
    (u32::from_be_bytes(number), bytes.last() == Some(&GRAVE))
}
