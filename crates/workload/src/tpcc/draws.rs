//! Parameters as clause 2.1.6 and the profiles of the transactions say.
//!
//! 1. Customers, last names and items are drawn unevenly: some are met much more often than others.
//! 2. A last name is a number below a thousand, whose three digits are syllables.
//! 3. Dates are drawn, too: a procedure that is run again has to do the same.

use fogbank_env::Stream;
use rand::RngExt;

use super::customers::Who;
use super::keys::Place;
use super::{Scale, Tpcc};
use crate::chance::{between, happens};

/// Last names that there are at most.
pub(super) const NAMES: u32 = 1_000;

/// Shifts which last names are met most, when records are made and when transactions are drawn.
/// Clause 2.1.6.1 wants them to differ by 65 to 119, so that runs do not meet the names that
/// loading favours.
const NAME_SHIFT_LOADING: u32 = 157;
const NAME_SHIFT: u32 = 223;
const CUSTOMER_SHIFT: u32 = 259;
const ITEM_SHIFT: u32 = 7_911;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// A last name by its number.
pub(super) fn last_name(number: u32) -> String {
    let syllable = |digit: u32| SYLLABLES[(digit % 10) as usize];
    [syllable(number / 100), syllable(number / 10), syllable(number)].concat()
}

/// The last name of a customer that is made; the first ones have every name in turn.
pub(super) fn name_of_new(customer: u32, scale: &Scale, stream: &mut Stream) -> u32 {
    if customer <= scale.names() {
        return customer - 1;
    }
    uneven(255, NAME_SHIFT_LOADING, 0, scale.names() - 1, stream)
}

/// A customer of a district, by number.
pub(super) fn customer(scale: &Scale, stream: &mut Stream) -> u32 {
    uneven(1_023, CUSTOMER_SHIFT, 1, scale.customers, stream)
}

/// A customer of a district, by last name in 60 of 100 cases.
pub(super) fn who(scale: &Scale, stream: &mut Stream) -> Who {
    if happens(0.6, stream) {
        return Who::Name(uneven(255, NAME_SHIFT, 0, scale.names() - 1, stream));
    }
    Who::Number(customer(scale, stream))
}

/// An item.
pub(super) fn item(scale: &Scale, stream: &mut Stream) -> u32 {
    uneven(8_191, ITEM_SHIFT, 1, scale.items, stream)
}

/// The district where a client is: any.
pub(super) fn home(tpcc: &Tpcc, stream: &mut Stream) -> Place {
    let warehouse = warehouse(tpcc, stream);
    Place { warehouse, district: between(1, tpcc.scale.districts, stream) }
}

/// Any warehouse.
pub(super) fn warehouse(tpcc: &Tpcc, stream: &mut Stream) -> u32 {
    between(1, tpcc.warehouses, stream)
}

/// With this probability, a warehouse other than `home`, if there are more.
pub(super) fn remote(probability: f64, home: u32, tpcc: &Tpcc, stream: &mut Stream) -> Option<u32> {
    if tpcc.warehouses < 2 || !happens(probability, stream) {
        return None;
    }
    let other = between(1, tpcc.warehouses - 1, stream);
    Some(if other < home { other } else { other + 1 })
}

/// A moment within a year, in milliseconds; never 0.
pub(super) fn date(stream: &mut Stream) -> i64 {
    stream.random_range(1..=31_536_000_000)
}

/// NURand of clause 2.1.6: from `from` to `to`, both included. Numbers with more bits in common
/// with those up to `spread` come more often; `shift` says where they lie.
fn uneven(spread: u32, shift: u32, from: u32, to: u32, stream: &mut Stream) -> u32 {
    let drawn = between(0, spread, stream) | between(from, to, stream);
    (drawn + shift) % (to - from + 1) + from
}
