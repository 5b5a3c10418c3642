//! Which fake of a table belongs to which place.
//!
//! 1. At the first place of a block of M places, M fakes are drawn of those not drawn before, by
//!    the mark of the history before the block; the last block gets what is left.
//! 2. A place takes one of those of its block still free, by the digest of the history that has its
//!    own entry in it.
//!
//! # Invariants
//! - Every place owns one fake, used or not; no fake is owned twice.
//! - For past blocks the marks suffice: what a client that joins has to know.
//!
//! Under a fork, fakes numbered by place alone would tell the server which table served each query.
//! Section 5 of the protocol (module).

use fogbank_seal::{Digest, Mark, OrderKey};

use super::canary::Canary;
use super::numbers::Numbers;
use crate::{Error, Result};

/// The fakes of one table along one history.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fakes {
    /// M.
    draw: u32,
    /// The slots of those that are not drawn yet, in an order that the draws so far have made.
    undrawn: Numbers,
    /// Those of the block under way that nobody owns yet.
    free: Vec<u32>,
}

impl Fakes {
    /// All of a table, by their slots, before the first place that touches it.
    pub fn new(slots: Numbers, draw: u32) -> Self {
        Self { draw, undrawn: slots, free: Vec::new() }
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub fn kept(&self) -> u64 {
        self.undrawn.kept()
    }

    /// A block of places begins, after the history of mark `before`.
    pub fn begin(&mut self, key: &OrderKey, before: &Mark) {
        let mut draws = key.draw(before);
        self.free.clear();
        while (self.free.len() as u32) < self.draw && !self.undrawn.is_empty() {
            let drawn = draws.below(self.undrawn.len() as u32);
            self.free.push(self.undrawn.swap_remove(drawn as usize));
        }
    }

    /// The slot of the fake of the next place of the block, with whose entry the log has the digest
    /// `with`.
    ///
    /// # Errors
    /// [`Error::Bug`] if there is none left.
    pub fn next(&mut self, key: &OrderKey, with: &Digest, canary: &Canary) -> Result<u32> {
        if self.free.is_empty() {
            return Err(Error::Bug("the fakes of a table are used up".into()));
        }
        let free = self.free.len() as u32;
        let number = key.pick(with).below(free) as usize;
        if canary.leaves_fakes() {
            return Ok(self.free[number]);
        }
        Ok(self.free.swap_remove(number))
    }
}

#[cfg(test)]
mod tests {
    use fogbank_seal::{MasterKey, SiteKeys, StoreId, digest};

    use super::*;

    fn key() -> OrderKey {
        let master = MasterKey::from_bytes(&mut [3; 32]);
        SiteKeys::derive(&master, StoreId([1; 16])).order(2, 1, &[0; 16])
    }

    fn all() -> Fakes {
        Fakes::new(Numbers::below(24, &(0..24).collect::<Vec<_>>()), 8)
    }

    fn mark(block: u32) -> Mark {
        [block as u8; 16]
    }

    #[test]
    fn every_place_owns_one_fake_and_none_is_owned_twice() {
        let (key, mut fakes) = (key(), all());
        let mut owned: Vec<u32> = (0..24)
            .map(|place| {
                if place % 8 == 0 {
                    fakes.begin(&key, &mark(place / 8));
                }
                fakes.next(&key, &digest(&[&[place as u8]]), &Canary::default()).unwrap()
            })
            .collect();
        let one_more = fakes.next(&key, &[0; 32], &Canary::default());
        assert!(matches!(one_more, Err(Error::Bug(_))));
        owned.sort_unstable();
        assert_eq!(owned, (0..24).collect::<Vec<_>>());
    }

    #[test]
    fn who_joins_draws_past_blocks_by_their_marks_alone() {
        let (key, mut fakes, mut joins) = (key(), all(), all());
        for place in 0..16u32 {
            if place % 8 == 0 {
                fakes.begin(&key, &mark(place / 8));
                joins.begin(&key, &mark(place / 8));
            }
            fakes.next(&key, &digest(&[&[place as u8]]), &Canary::default()).unwrap();
        }
        fakes.begin(&key, &mark(2));
        joins.begin(&key, &mark(2));
        assert_eq!(fakes, joins);
    }
}
