//! Which records an access is of.

use std::collections::HashMap;

use fogbank_env::Stream;
use rand::RngExt;

use super::meaning::{Access, Which};
use crate::chance;

/// Numbers of distinct records, of a group that had `first` records and has `next` as its next
/// number.
///
/// One that comes twice makes room for the one after it: that ends also where few records are drawn
/// nearly always.
pub(super) fn numbers(access: &Access, (first, next): (u32, u32), stream: &mut Stream) -> Vec<u32> {
    let (first, next) = (first.max(1), next.max(1));
    let of = if matches!(access.which, Which::Latest(_)) { next } else { first };
    let mut taken = Taken { of, after: HashMap::new() };
    let draw = |_| {
        let number = match access.which {
            Which::Uniform => stream.random_range(0..of),
            Which::Zipfian(theta) => chance::scattered(chance::rank(of, theta, stream), of),
            Which::Latest(theta) => of - 1 - chance::rank(of, theta, stream),
        };
        taken.take(number)
    };
    (0..access.count.min(of)).map(draw).collect()
}

/// Numbers that were drawn, of so many.
struct Taken {
    of: u32,
    /// By number that was drawn: one after it, from which on one is to be looked for that was not.
    /// Made to skip as much as is known whenever it is asked, so that long runs of them cost
    /// little.
    after: HashMap<u32, u32>,
}

impl Taken {
    /// Takes a number, or the next one that was not taken, of which there has to be one.
    fn take(&mut self, number: u32) -> u32 {
        let mut free = number;
        while let Some(next) = self.after.get(&free) {
            free = *next;
        }
        let after = (free + 1) % self.of;
        let mut at = number;
        while let Some(next) = self.after.insert(at, after) {
            at = next;
        }
        free
    }
}
