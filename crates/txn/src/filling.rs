//! Records put into a store before it serves anybody: a directory made beside an engine that is
//! filled.
//!
//! 1. Every record gets free addresses, each as likely as any other, as in an epoch.
//! 2. The caller writes the blocks to the engine, in batches and epochs of its own.
//! 3. The directory becomes the sections of the first checkpoint.
//!
//! Nothing is read here and nothing is sent: what the cloud sees are the caller's epochs.

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness};
use fogbank_oram::{Address, BatchShape, Section};

use crate::addresses::Addresses;
use crate::checkpoint::Pieces;
use crate::core::pad;
use crate::directory::{Blocks, Directory};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::limits::Limits;
use crate::quota::held_back;
use crate::record::Stat;
use crate::settings::Settings;

/// The directory of a store that is being filled.
pub struct Filling {
    directory: Directory,
    addresses: Addresses,
    shape: BatchShape,
    limits: Limits,
    key_budget: usize,
}

impl Filling {
    /// An empty one for a store of this shape.
    pub fn new(settings: &Settings, shape: BatchShape, random: &Randomness) -> Self {
        let stream = random.stream(Purpose::Allocation);
        Self {
            directory: Directory::default(),
            addresses: Addresses::new(shape.capacity, std::iter::empty(), stream),
            limits: Limits::of(settings, &shape),
            key_budget: settings.key_budget_bytes,
            shape,
        }
    }

    /// Takes in a record with its attribute; the blocks to be written for it.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::OutOfSpace`]; [`Error::Conflict`]
    /// if there is a record of this key. Then nothing has changed.
    pub fn put(&mut self, key: &Key, value: &[u8], attr: u64) -> Result<Vec<(Address, Bytes)>> {
        self.limits.check(key, value.len())?;
        if self.directory.get(key).is_some() {
            return Err(Error::Conflict);
        }
        let capacity = self.shape.capacity as usize;
        let chunks = value.chunks(self.shape.value_bytes.max(1));
        let key_bytes = self.directory.key_bytes() + key.encoded_len();
        // A proxy would leave it too.
        let held_back = held_back(capacity, self.key_budget);
        let budget = capacity.saturating_mul(self.key_budget) - held_back.key_bytes;
        let full = chunks.len() > self.addresses.free_count()
            || self.directory.len() >= capacity - held_back.keys
            || key_bytes > budget;
        if full {
            return Err(Error::OutOfSpace);
        }
        let mut blocks = Blocks::new();
        let mut written = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let address = self.addresses.take().ok_or(Error::OutOfSpace)?;
            blocks.push(address);
            written.push((address, pad(chunk, self.shape.value_bytes)));
        }
        self.directory.put(key, Stat { len: value.len() as u32, attr }, &blocks);
        Ok(written)
    }

    /// Records taken in.
    pub fn len(&self) -> usize {
        self.directory.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
    use crate::checkpoint::restore;

    fn filling(capacity: u32) -> Filling {
        let shape = BatchShape { capacity, value_bytes: 10, read_batch: 4, write_batch: 4 };
        Filling::new(&Settings::default(), shape, &Randomness::repeatable(3))
    }

    fn key(n: u32) -> Key {
        Key::new(b"k", &n.to_be_bytes())
    }

    #[test]
    fn what_is_filled_is_what_a_proxy_starts_with() {
        let mut filling = filling(40);
        let mut blocks = std::collections::BTreeMap::new();
        for n in 0..20 {
            let value = vec![n as u8; n as usize];
            blocks.extend(filling.put(&key(n), &value, u64::from(n)).unwrap());
        }
        assert_eq!((filling.len(), blocks.len()), (20, 10 + 9 * 2));
        let shape = filling.shape;
        let sections: Vec<Section> = filling.sections().collect();
        let directory = restore(&sections, &shape).unwrap();
        for n in 0..20 {
            let entry = *directory.get(&key(n)).unwrap();
            assert_eq!(entry.stat(), Stat { len: n, attr: n.into() });
            let found: Vec<u8> =
                directory.blocks(&entry).iter().flat_map(|a| blocks[a].to_vec()).collect();
            assert_eq!(found[..n as usize], vec![n as u8; n as usize]);
        }
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut filling = filling(4);
        filling.put(&key(1), &[1; 20], 0).unwrap();
        assert_eq!(filling.put(&key(1), &[1], 0), Err(Error::Conflict));
        let long = Error::ValueTooLong { bytes: 41, limit: 40 };
        assert_eq!(filling.put(&key(2), &[1; 41], 0), Err(long));
        assert_eq!(filling.put(&key(2), &[1; 21], 0), Err(Error::OutOfSpace));
        let long = Error::KeyTooLong { bytes: 10_001, limit: 1024 };
        assert_eq!(filling.put(&Key::new(b"k", &[0; 9999]), &[1], 0), Err(long));
        filling.put(&key(2), &[1], 0).unwrap();
        filling.put(&key(3), &[], 0).unwrap();
        assert_eq!(filling.put(&key(4), &[], 0), Err(Error::OutOfSpace));
        assert_eq!(filling.len(), 3);
    }
}
