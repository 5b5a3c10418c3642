//! What a server holds, on its disk: a file of two slots a store (`fogbank_held::SlotFile`), named
//! by the store's name in hexadecimal digits.
//!
//! ```text
//! slot value    4 n, n: 16 promised | 24 stamp | value        magic "fogheld1"
//! ```
//! Invariant: what a call changed is synced before the call returns. If it cannot be, nothing is
//! answered, and the file is read again at the next call: what a later call sees is what the disk
//! has.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use fogbank_env::Mutex;
use fogbank_held::{Ballot, Held, SlotFile, Stamp};

use crate::wire::{Name, read_held, write_held};

const MAGIC: [u8; 8] = *b"fogheld1";

/// The registers of any number of stores, up to a bound. One process at a time: whoever uses the
/// folder holds a lock beside it.
#[derive(Debug)]
pub struct HeldFiles {
    folder: PathBuf,
    stores_max: usize,
    stores: Mutex<Stores>,
}

#[derive(Debug, Default)]
struct Stores {
    files: usize,
    open: BTreeMap<Name, Arc<Mutex<Option<SlotFile>>>>,
}

impl HeldFiles {
    /// Those in `folder`, which is there; no more than `stores_max` are kept.
    ///
    /// # Errors
    /// As the system says.
    pub fn open(folder: &Path, stores_max: usize) -> io::Result<Self> {
        let mut files = 0;
        for entry in std::fs::read_dir(folder)? {
            files += usize::from(entry?.path().extension().is_none());
        }
        let stores = Mutex::new(Stores { files, open: BTreeMap::new() });
        Ok(Self { folder: folder.to_owned(), stores_max, stores })
    }

    /// As [`Held::read`] of what is held under `name`.
    ///
    /// # Errors
    /// As the system says; [`ErrorKind::StorageFull`] if there are too many stores.
    pub fn read(&self, name: &Name, promise: Ballot) -> io::Result<Held> {
        self.change(name, promise > Ballot::default(), |held| held.read(promise))
    }

    /// As [`Held::write`] to what is held under `name`.
    ///
    /// # Errors
    /// As [`HeldFiles::read`].
    pub fn write(&self, name: &Name, stamp: Stamp, value: Bytes) -> io::Result<Held> {
        self.change(name, true, |held| held.write(stamp, value))
    }

    fn change(
        &self,
        name: &Name,
        make: bool,
        act: impl FnOnce(&mut Held) -> Held,
    ) -> io::Result<Held> {
        let Some(store) = self.store(name, make)? else { return Ok(Held::default()) };
        let mut file = store.lock();
        // Taken out, and put back once it is known what the disk has.
        let mut open = match file.take() {
            Some(open) => open,
            None => SlotFile::open(&self.path(name), MAGIC)?.ok_or(ErrorKind::NotFound)?,
        };
        let before = open.value().map_or(Some(Held::default()), decode);
        let mut held = before.clone().ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidData, "what it held is of another version")
        })?;
        let answer = act(&mut held);
        if before.as_ref() != Some(&held) {
            open.replace(&encode(&held))?;
        }
        *file = Some(open);
        Ok(answer)
    }

    /// The file of a store; `None` if there is none and it is not to be made.
    fn store(&self, name: &Name, make: bool) -> io::Result<Option<Arc<Mutex<Option<SlotFile>>>>> {
        let mut stores = self.stores.lock();
        if let Some(store) = stores.open.get(name) {
            return Ok(Some(store.clone()));
        }
        let path = self.path(name);
        let file = match SlotFile::open(&path, MAGIC)? {
            Some(file) => file,
            None if !make => return Ok(None),
            None if stores.files >= self.stores_max => {
                return Err(io::Error::new(ErrorKind::StorageFull, "it keeps too many stores"));
            }
            None => {
                let made = SlotFile::create(&path, MAGIC)?;
                stores.files += 1;
                made
            }
        };
        let store = Arc::new(Mutex::new(Some(file)));
        stores.open.insert(*name, store.clone());
        Ok(Some(store))
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.folder.join(HEXLOWER.encode(name))
    }
}

fn encode(held: &Held) -> Vec<u8> {
    let mut inner = Vec::new();
    write_held(&mut inner, held);
    [&(inner.len() as u32).to_le_bytes()[..], &inner].concat()
}

fn decode(value: &[u8]) -> Option<Held> {
    let (length, rest) = value.split_first_chunk()?;
    read_held(rest.get(..u32::from_le_bytes(*length) as usize)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(round: u64) -> Ballot {
        Ballot { round, nonce: 9 }
    }

    fn stamp(round: u64, number: u64) -> Stamp {
        Stamp { ballot: ballot(round), number }
    }

    #[test]
    fn what_was_answered_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut expected = Held::default();
        for round in 1..6 {
            let held = HeldFiles::open(folder.path(), 1).unwrap();
            assert_eq!(held.read(&[1; 32], Ballot::default()).unwrap(), expected);
            held.read(&[1; 32], ballot(round)).unwrap();
            expected =
                held.write(&[1; 32], stamp(round, 1), vec![7; round as usize].into()).unwrap();
            assert_eq!(expected.stamp, stamp(round, 1));
            let old = held.write(&[1; 32], stamp(round - 1, 9), Bytes::new()).unwrap();
            assert_eq!(old, expected, "below its promise");
        }
    }

    #[test]
    fn stores_are_bounded_and_apart() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let held = HeldFiles::open(folder.path(), 2).unwrap();
            held.write(&[1; 32], stamp(1, 1), "a".into()).unwrap();
            held.write(&[2; 32], stamp(1, 1), "b".into()).unwrap();
            assert!(held.write(&[3; 32], stamp(1, 1), "c".into()).is_err());
            assert_eq!(held.read(&[3; 32], Ballot::default()).unwrap(), Held::default());
            assert_eq!(held.read(&[1; 32], ballot(1)).unwrap().value, "a");
        }
    }

    #[test]
    fn damage_is_not_taken_for_an_older_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(HEXLOWER.encode(&[1; 32]));
        let held = HeldFiles::open(folder.path(), 2).unwrap();
        held.write(&[1; 32], stamp(1, 1), "a".into()).unwrap();
        held.write(&[1; 32], stamp(1, 2), "b".into()).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[100] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let again = HeldFiles::open(folder.path(), 2).unwrap();
        assert!(again.read(&[1; 32], ballot(1)).is_err());
        assert!(again.write(&[2; 32], stamp(1, 1), "a".into()).is_ok(), "others go on");
    }
}
