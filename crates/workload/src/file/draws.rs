//! Which records an access is of.

use fogbank_env::Stream;
use rand::RngExt;

use super::meaning::{Access, Which};
use crate::chance;

/// Numbers of distinct records, of a group that had `first` records and has `next` as its next number.
///
/// One that comes twice makes room for the one after it: that ends also where few records are drawn nearly
/// always.
pub(super) fn numbers(access: &Access, (first, next): (u32, u32), stream: &mut Stream) -> Vec<u32> {
    let (first, next) = (first.max(1), next.max(1));
    let of = if matches!(access.which, Which::Latest(_)) { next } else { first };
    let mut numbers = Vec::with_capacity(access.count as usize);
    for _ in 0..access.count.min(of) {
        let mut number = match access.which {
            Which::Uniform => stream.random_range(0..of),
            Which::Zipfian(theta) => chance::scattered(chance::rank(of, theta, stream), of),
            Which::Latest(theta) => of - 1 - chance::rank(of, theta, stream),
        };
        while numbers.contains(&number) {
            number = (number + 1) % of;
        }
        numbers.push(number);
    }
    numbers
}
