//! Which fake of a table belongs to which place.
//!
//! 1. At the first place of a block of M places, M fakes are drawn of those not drawn before, by
//!    the mark of the history before the block; the last block gets what is left.
//! 2. A place takes one of those of its block still free, by the digest of the history that has its
//!    own entry in it. Which one is found out only for places that a client touches.
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
}

impl Fakes {
    /// All of a table, by their slots, before the first place that touches it.
    pub fn new(slots: Numbers, draw: u32) -> Self {
        Self { draw, undrawn: slots }
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub fn kept(&self) -> u64 {
        self.undrawn.kept()
    }

    /// The slots of those of a block of places that begins after the history of mark `before`.
    pub fn draw(&mut self, key: &OrderKey, before: &Mark) -> Vec<u32> {
        let mut draws = key.draw(before);
        let count = (self.draw as usize).min(self.undrawn.len());
        let next = |_| {
            let drawn = draws.below(self.undrawn.len() as u32);
            self.undrawn.swap_remove(drawn as usize)
        };
        (0..count).map(next).collect()
    }
}

/// The fakes of one table that the places of a block own.
#[derive(Debug, Clone)]
pub struct Owned {
    /// Those drawn that nobody owns so far as is known.
    free: Vec<u32>,
    /// Of the first places of the block.
    owned: Vec<u32>,
}

impl Owned {
    /// Those of a block for which these were drawn.
    pub fn new(drawn: Vec<u32>) -> Self {
        Self { free: drawn, owned: Vec::new() }
    }

    /// The slot of the fake of a place of the block. `with` are the digests of the log with the
    /// entry of each, from the first place of the block to this one.
    ///
    /// # Errors
    /// [`Error::Bug`] if there is none left.
    pub fn last_of(&mut self, key: &OrderKey, with: &[Digest], canary: &Canary) -> Result<u32> {
        for with in with.iter().skip(self.owned.len()) {
            if self.free.is_empty() {
                break;
            }
            let number = key.pick(with).below(self.free.len() as u32) as usize;
            self.owned.push(self.free[number]);
            if !canary.leaves_fakes() {
                self.free.swap_remove(number);
            }
        }
        let last = with.len().checked_sub(1).and_then(|last| self.owned.get(last));
        last.copied().ok_or_else(|| Error::Bug("the fakes of a table are used up".into()))
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

    #[test]
    fn every_place_owns_one_fake_whenever_it_is_asked_for() {
        let (key, mut fakes, honest) = (key(), all(), Canary::default());
        let mut owned = Vec::new();
        for block in 0..3 {
            let drawn = fakes.draw(&key, &[block; 16]);
            let with: Vec<Digest> = (0..9).map(|place| digest(&[&[8 * block + place]])).collect();
            let (mut each, mut last) = (Owned::new(drawn.clone()), Owned::new(drawn));
            last.last_of(&key, &with[..8], &honest).unwrap();
            for upto in 1..=8 {
                let fake = each.last_of(&key, &with[..upto], &honest).unwrap();
                assert_eq!(last.last_of(&key, &with[..upto], &honest).unwrap(), fake);
                owned.push(fake);
            }
            for wrong in [&with[..], &[]] {
                assert!(matches!(each.last_of(&key, wrong, &honest), Err(Error::Bug(_))));
            }
        }
        assert!(fakes.draw(&key, &[3; 16]).is_empty());
        owned.sort_unstable();
        assert_eq!(owned, (0..24).collect::<Vec<_>>());
    }
}
