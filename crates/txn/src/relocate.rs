//! A directory that moves into a new store, whose capacity may be another.
//!
//! 1. It is read from the sections of its checkpoint, as a proxy would.
//! 2. Every block that a record holds gets a free address of the new store, each as likely as any
//!    other.
//! 3. The caller writes the blocks at their new addresses; what no record holds stays behind.
//! 4. It becomes the sections of the first checkpoint of the new store.
//!
//! Nothing is read of a store here and nothing is sent: what the cloud sees are the caller's
//! epochs.

use std::collections::BTreeSet;

use fogbank_durable::Recovered;
use fogbank_env::{Purpose, Randomness};
use fogbank_oram::{Address, BatchShape, Section};

use crate::addresses::Addresses;
use crate::checkpoint::{Pieces, restore};
use crate::directory::{Blocks, Directory};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::record::Stat;
use crate::recovery::restore_directory;

/// A directory on its way.
pub struct Moving {
    directory: Directory,
    blocks: usize,
}

/// A directory that has arrived.
pub struct Moved {
    directory: Directory,
    /// The new address by the old one.
    addresses: Vec<Option<Address>>,
    shape: BatchShape,
    key_budget: usize,
}

impl Moving {
    /// The one that `sections` of a store of shape `from` hold.
    ///
    /// # Errors
    /// [`Error::BadCheckpoint`] if they hold none.
    pub fn read(sections: &[Section], from: &BatchShape) -> Result<Self> {
        Ok(Self::of(restore(sections, from)?))
    }

    /// The one that the newest commit of a store of shape `from` holds.
    ///
    /// # Errors
    /// As [`Moving::read`].
    pub fn recovered(recovered: &Recovered, from: &BatchShape) -> Result<Self> {
        Ok(Self::of(restore_directory(from, recovered)?))
    }

    fn of(mut directory: Directory) -> Self {
        directory.drop_staged();
        let blocks = directory.iter().map(|(_, entry)| directory.blocks(entry).len()).sum();
        Self { directory, blocks }
    }

    /// How many records there are.
    pub fn records(&self) -> usize {
        self.directory.len()
    }

    /// Leaves the records behind of which a block is `lost`; their keys, in order.
    pub fn leave_behind(&mut self, lost: &BTreeSet<Address>) -> Vec<Key> {
        let entries = self.directory.iter();
        let of_lost = entries.filter(|(_, entry)| {
            self.directory.blocks(entry).iter().any(|block| lost.contains(block))
        });
        let keys: Vec<Key> = of_lost.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            let blocks = self.directory.get(key).map_or(0, |e| self.directory.blocks(e).len());
            self.blocks -= blocks;
            self.directory.remove(key);
        }
        keys
    }

    /// As the sections of a checkpoint of a store of shape `of`, one at a time, where it is.
    pub fn sections(
        &self,
        of: &BatchShape,
        key_budget: usize,
    ) -> impl Iterator<Item = Section> + Send {
        let mut pieces = Pieces::new(of, key_budget);
        std::iter::from_fn(move || pieces.next(&self.directory))
    }

    /// The smallest capacity that it fits.
    pub fn capacity_min(&self, key_budget: usize) -> usize {
        let for_keys = self.directory.key_bytes().div_ceil(key_budget.max(1));
        self.directory.len().max(self.blocks).max(for_keys).max(1)
    }

    /// Takes it to a new store of shape `to`.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if that is smaller than [`Moving::capacity_min`].
    pub fn arrive(self, to: &BatchShape, key_budget: usize, random: &Randomness) -> Result<Moved> {
        if self.capacity_min(key_budget) > to.capacity as usize {
            return Err(Error::OutOfSpace);
        }
        let stream = random.stream(Purpose::Allocation);
        let mut free = Addresses::new(to.capacity, std::iter::empty(), stream);
        let mut directory = Directory::default();
        let mut addresses = Vec::new();
        for (key, entry) in self.directory.iter() {
            let Stat { len, attr } = entry.stat();
            let mut blocks = Blocks::new();
            for old in self.directory.blocks(entry) {
                let new = free.take().ok_or(Error::OutOfSpace)?;
                let at = old.0 as usize;
                addresses.resize(addresses.len().max(at + 1), None);
                addresses[at] = Some(new);
                blocks.push(new);
            }
            directory.put(key, Stat { len, attr }, &blocks);
        }
        Ok(Moved { directory, addresses, shape: *to, key_budget })
    }
}

impl Moved {
    /// Where the block at `old` belongs now; `None` if no record holds it.
    pub fn address(&self, old: Address) -> Option<Address> {
        self.addresses.get(old.0 as usize).copied().flatten()
    }

    /// The directory as the sections of a checkpoint, one at a time.
    pub fn sections(self) -> impl Iterator<Item = Section> + Send {
        let mut pieces = Pieces::new(&self.shape, self.key_budget);
        std::iter::from_fn(move || pieces.next(&self.directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filling, Settings};

    fn shape(capacity: u32) -> BatchShape {
        BatchShape { capacity, value_bytes: 10, read_batch: 4, write_batch: 4 }
    }

    fn key(n: u32) -> Key {
        Key::new(b"k", &n.to_be_bytes())
    }

    #[test]
    fn every_block_is_found_at_its_new_address_in_a_larger_or_smaller_store() {
        let random = Randomness::repeatable(3);
        let settings = Settings::default();
        let mut filling = Filling::new(&settings, shape(40), &random);
        let mut old = Vec::new();
        for n in 0..9 {
            let blocks = filling.put(&key(n), &[n as u8; 15], n.into()).unwrap();
            old.extend(blocks.into_iter().map(|(address, _)| (n, address)));
        }
        let sections: Vec<Section> = filling.sections().collect();
        for capacity in [18, 40, 100_000] {
            let moving = Moving::read(&sections, &shape(40)).unwrap();
            assert_eq!(moving.capacity_min(settings.key_budget_bytes), 18);
            let random = Randomness::repeatable(capacity.into());
            let moved =
                moving.arrive(&shape(capacity), settings.key_budget_bytes, &random).unwrap();
            let new: Vec<_> = old.iter().map(|(n, at)| (*n, moved.address(*at).unwrap())).collect();
            assert_ne!(new, old);
            assert_eq!(moved.addresses.iter().flatten().count(), 18, "and no other");
            let sections: Vec<Section> = moved.sections().collect();
            assert!(sections.iter().all(|section| section.data.len() <= section.padded_len));
            let directory = restore(&sections, &shape(capacity)).unwrap();
            for n in 0..9 {
                let entry = *directory.get(&key(n)).unwrap();
                assert_eq!(entry.stat(), Stat { len: 15, attr: n.into() });
                let of = new.iter().filter(|(of, _)| *of == n).map(|(_, address)| *address);
                assert_eq!(directory.blocks(&entry).to_vec(), of.collect::<Vec<_>>());
            }
        }
        // Without the records of which a block is lost, be it the first or the second.
        let mut moving = Moving::read(&sections, &shape(40)).unwrap();
        assert_eq!((moving.records(), moving.leave_behind(&BTreeSet::new())), (9, vec![]));
        let second_of_each = old.iter().filter(|(n, _)| *n == 2 || *n == 7).map(|(_, at)| *at);
        let second_of_each: BTreeSet<Address> = second_of_each.skip(1).step_by(2).collect();
        assert_eq!(moving.leave_behind(&second_of_each), [key(2), key(7)]);
        assert_eq!(moving.capacity_min(settings.key_budget_bytes), 14);
        let rest: Vec<Section> = moving.sections(&shape(40), settings.key_budget_bytes).collect();
        let rest = restore(&rest, &shape(40)).unwrap();
        assert!(rest.len() == 7 && rest.get(&key(2)).is_none() && rest.get(&key(3)).is_some());
        let moving = Moving::read(&sections, &shape(40)).unwrap();
        let small = moving.arrive(&shape(17), settings.key_budget_bytes, &random);
        assert!(matches!(small, Err(Error::OutOfSpace)));
    }
}
