//! Which block addresses are free.
//!
//! The life of an address:
//!
//! 1. *free*: taken at random when an epoch's writes are collected.
//! 2. *held* by one entry of the directory, overwritten in place for as long as the record lives.
//! 3. *freed* when the record is deleted or shrinks, and free again once that epoch has committed.
//!    The engine is told to empty it if the write batch has padding left; else the next value does.
//!
//! Invariant: an address is in exactly one of these states. A crash before the commit finds the
//! committed directory, which still holds the address: so nothing may have written over it.
//! What the cloud sees: nothing.

use fogbank_env::Stream;
use fogbank_oram::Address;
use rand_core::Rng;

/// The free and freed addresses of a store.
pub(crate) struct Addresses {
    free: Vec<u32>,
    freed: Vec<u32>,
    random: Stream,
}

impl Addresses {
    /// Every address below `capacity` that `held` does not name is free.
    pub(crate) fn new(capacity: u32, held: impl Iterator<Item = Address>, random: Stream) -> Self {
        let mut taken = vec![false; capacity as usize];
        for address in held {
            if let Some(slot) = taken.get_mut(address.0 as usize) {
                *slot = true;
            }
        }
        let free = (0..capacity).filter(|&a| !taken[a as usize]).collect();
        Self { free, freed: Vec::new(), random }
    }

    /// Takes a free address, each with the same probability.
    pub(crate) fn take(&mut self) -> Option<Address> {
        let len = u32::try_from(self.free.len()).ok().filter(|&len| len > 0)?;
        let index = below(&mut self.random, len);
        Some(Address(self.free.swap_remove(index as usize)))
    }

    /// A record gave this address up.
    pub(crate) fn give_up(&mut self, address: Address) {
        self.freed.push(address.0);
    }

    /// Those that were given up since the last commit.
    pub(crate) fn freed(&self) -> impl Iterator<Item = Address> {
        self.freed.iter().map(|&address| Address(address))
    }

    /// The epoch in which they were given up has committed.
    pub(crate) fn committed(&mut self) {
        self.free.append(&mut self.freed);
    }

    /// Addresses that can be taken now.
    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Addresses that will be free with the next commit.
    pub(crate) fn pending_count(&self) -> usize {
        self.freed.len()
    }
}

/// A uniform number below `bound` (not zero), without bias.
fn below(random: &mut Stream, bound: u32) -> u32 {
    let zone = u32::MAX - (u32::MAX - bound + 1) % bound;
    loop {
        let draw = random.next_u32();
        if draw <= zone {
            return draw % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fogbank_env::{Purpose, Randomness};

    #[test]
    fn an_address_is_free_again_only_after_the_commit() {
        let random = Randomness::repeatable(1).stream(Purpose::Allocation);
        let mut addresses = Addresses::new(3, [Address(1)].into_iter(), random);
        assert_eq!(addresses.free_count(), 2);
        let mut taken = vec![addresses.take().unwrap().0, addresses.take().unwrap().0];
        taken.sort_unstable();
        assert_eq!(taken, [0, 2]);
        assert!(addresses.take().is_none());
        for address in [1, 0, 2] {
            addresses.give_up(Address(address));
        }
        assert!(addresses.take().is_none());
        assert_eq!((addresses.freed().count(), addresses.pending_count()), (3, 3));
        addresses.committed();
        assert_eq!((addresses.free_count(), addresses.pending_count()), (3, 0));
    }

    #[test]
    fn draws_are_uniform() {
        let mut random = Randomness::repeatable(2).stream(Purpose::Allocation);
        let mut seen = [0_u32; 6];
        (0..60_000).for_each(|_| seen[below(&mut random, 6) as usize] += 1);
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
    }
}
